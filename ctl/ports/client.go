package ports

// This file is funid's side of its helper. Funid hardly notices a helper that ends and comes back
// with its ports (takeover.go): it sends the request under way again, to the next helper (again).

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/xdp"
)

// ErrHelper reports that the helper has ended, or does not answer.
var ErrHelper = errors.New("the process that makes ports does not answer; restart funid")

// ErrLost reports that the helper is back without its ports; they go on until their processes end.
var ErrLost = errors.New("the process that makes ports has lost them; restart funid, which ends the direct jobs")

// ErrVersion reports that the helper is of another release, with which this one cannot go on.
var ErrVersion = errors.New("the process that makes ports is of another release; end it, which ends the direct jobs: systemctl restart funid-ports, or kill it")

// answerWithin bounds how long a request may take.
const answerWithin = 10 * time.Second

const (
	// backWithin is how long a request waits for the next helper when its helper has ended.
	backWithin = 10 * time.Second
	// mostTrials is how many helpers in succession get the same request: it may be the request
	// itself that ends them.
	mostTrials = 5
	// lookForHelper is the time between two attempts to reach the next helper.
	lookForHelper = 20 * time.Millisecond
)

// Client is funid's end of the connection to a helper. Any goroutine may call its methods; requests
// are carried out one after the other. After ErrHelper all calls return it, unless the helper may
// come back (Return).
type Client struct {
	mu      sync.Mutex
	conn    atomic.Pointer[net.UnixConn]
	buffer  []byte
	broken  error
	waited  bool   // an earlier wait for the next helper was in vain
	spoken  int    // the common version, which Held finds
	lineage uint64 // of the helper's ports; 0: they cannot be taken over
	returns *returns
	has     has
}

// returns says how to reach the next helper when the present one has ended.
type returns struct {
	dial func(ctx context.Context) (*net.UnixConn, error)
	tell func(what string)
	ctx  context.Context // ends with the Client, at the latest
	end  context.CancelFunc
}

// NewClient makes a client of a connection to a helper, and owns the connection.
func NewClient(conn *net.UnixConn) *Client {
	c := &Client{buffer: make([]byte, attach.MaxMessage), spoken: Version,
		has: has{map[uint32]bool{}, map[bpf.Job]bool{}}}
	c.conn.Store(conn)
	return c
}

// Return says how to reach the next helper, for a helper that ends and comes back with its ports,
// as a service does. From then on requests wait for it. tell is called when the helper has ended,
// and when it is back. Call Return before other goroutines have the Client. No request waits after
// the end of ctx.
func (c *Client) Return(ctx context.Context, dial func(ctx context.Context) (*net.UnixConn, error),
	tell func(what string)) {
	ctx, end := context.WithCancel(ctx)
	c.returns = &returns{dial, tell, ctx, end}
}

// Attach is xdp.Attach for NIC programs of direct ports. The helper keeps the link. So frames still
// reach ports when funid has ended, and the next funid's program replaces this one.
func (c *Client) Attach(program *ebpf.Program, ifindex int, mode xdp.AttachMode) (*xdp.Attachment, error) {
	_, got, err := c.ask(&request{Op: opKept, Index: ifindex}, 1)
	if err == nil {
		a, err := xdp.AttachOver(program, ifindex, mode, got[0])
		if err == nil {
			return a, nil
		}
		if _, _, err := c.ask(&request{Op: opRelease, Index: ifindex}, 0); err != nil {
			return nil, err
		}
	} else if errors.Is(err, ErrHelper) {
		return nil, err
	}
	a, err := xdp.Attach(program, ifindex, mode)
	if err != nil {
		return nil, err
	}
	if _, _, err := c.ask(&request{Op: opKeep, Index: ifindex}, 0, a.FD()); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Quit ends the connection, and asks the helper to end. The helper goes on if processes have ports,
// which the next funid takes over. When it ends, the NIC programs that it keeps are gone.
func (c *Client) Quit() error {
	if r := c.returns; r != nil {
		r.end()
	}
	_, _, err := c.ask(&request{Op: opQuit}, 0)
	if errors.Is(err, ErrHelper) {
		err = nil // it has ended
	}
	return errors.Join(err, c.Close())
}

// Close ends the connection; the helper keeps what it has. It ends a call of another goroutine.
func (c *Client) Close() error {
	if r := c.returns; r != nil {
		r.end()
	}
	return c.conn.Load().Close()
}

// ask sends a request, again to a new helper, and returns the answer with its descriptors.
func (c *Client) ask(r *request, descriptors int, out ...int) (a answer, got []int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, got, err = c.once(r, descriptors, out...)
	for n := 1; n < mostTrials && c.broken != nil && c.again(); n++ {
		a, got, err = c.once(r, descriptors, out...)
	}
	if err == nil {
		c.note(r, &a)
	}
	return a, got, err
}

// once sends a request on the present connection.
func (c *Client) once(r *request, descriptors int, out ...int) (a answer, got []int, err error) {
	if c.broken != nil {
		return a, nil, c.broken
	}
	conn := c.conn.Load()
	if err = conn.SetDeadline(time.Now().Add(answerWithin)); err == nil {
		if err = send(conn, r, out...); err == nil {
			got, err = receive(conn, c.buffer, &a, descriptors)
		}
	}
	if err != nil {
		// an answer that came later would be taken for another
		c.broken = fmt.Errorf("%w (%w)", ErrHelper, err)
		return a, nil, c.broken
	}
	if err = a.err(); err == nil && len(got) != descriptors {
		err = fmt.Errorf("%w: %d descriptors came, not %d", ErrHelper, len(got), descriptors)
	}
	if err != nil {
		attach.CloseDescriptors(got)
		return a, nil, err
	}
	return a, got, nil
}

// Switch returns the maps for the NIC program, which the caller owns. Errors: ErrVersion.
func (c *Client) Switch() (*bpf.Shared, error) {
	if c.version() < mapsSince {
		return nil, fmt.Errorf("taking over the maps of the switch: %w", ErrVersion)
	}
	_, got, err := c.ask(&request{Op: opSwitch, Version: Version}, bpf.SharedMaps)
	if err != nil {
		return nil, err
	}
	return bpf.OpenShared([bpf.SharedMaps]int(got))
}

// StartCapture has the switch show all direct frames, at most snap bytes of each. The capture lasts
// until StopCapture or the end of the connection, and ends an earlier one. ok is false if the
// helper is of the previous release, which has no captures.
func (c *Client) StartCapture(snap int) (_ *bpf.Capture, ok bool, err error) {
	if c.version() < captureSince {
		return nil, false, nil
	}
	_, got, err := c.ask(&request{Op: opCapture, Snap: snap}, bpf.CaptureMaps)
	if err != nil {
		return nil, false, err
	}
	capture, err := bpf.OpenCapture([bpf.CaptureMaps]int(got))
	if err != nil {
		return nil, false, errors.Join(err, c.StopCapture())
	}
	return capture, true, nil
}

// StopCapture ends the capture. The owner of its reader closes that.
func (c *Client) StopCapture() error {
	_, _, err := c.ask(&request{Op: opCapture}, 0)
	return err
}

// AddJob makes room for a job of the given number of nodes. spent, here and below, is processor
// time of the helper.
func (c *Client) AddJob(j bpf.Job, nodes int) (spent time.Duration, err error) {
	a, _, err := c.ask(&request{Op: opAddJob, Job: j, Nodes: nodes}, 0)
	return time.Duration(a.SpentNs), err
}

// RemoveJob removes a job. Its ports must be ended, too.
func (c *Client) RemoveJob(j bpf.Job) (spent time.Duration, err error) {
	a, _, err := c.ask(&request{Op: opRemoveJob, Job: j}, 0)
	return time.Duration(a.SpentNs), err
}

// Place says where the nodes of a job are: node i is at places[at[i]], or nowhere if at[i] is -1.
// Nodes with a port here stay where they are.
func (c *Client) Place(j bpf.Job, at []int, places []bpf.Place) (spent time.Duration, err error) {
	for first := 0; first < len(at); first += placesAtOnce {
		some := at[first:min(first+placesAtOnce, len(at))]
		// The places of some, which fit a packet.
		number, r := map[int]int{}, &request{Op: opPlace, Job: j, Node: uint16(first), At: make([]int, len(some))}
		for i, p := range some {
			if r.At[i] = -1; p < 0 {
				continue
			}
			n, ok := number[p]
			if !ok {
				n = len(r.Places)
				to := place{Place: places[p]}
				if !to.in(c.version()) {
					return spent, fmt.Errorf("telling where nodes are, behind tags or in datagrams: %w", ErrVersion)
				}
				number[p], r.Places = n, append(r.Places, to)
			}
			r.At[i] = n
		}
		a, _, err := c.ask(r, 0)
		spent += time.Duration(a.SpentNs)
		if err != nil {
			return spent, err
		}
	}
	return spent, nil
}

// Bundles reports whether the guard passes bundles (bpf.Place.Bundles). That of a helper of the
// previous release drops them.
func (c *Client) Bundles() bool { return c.version() >= bundlesSince }

// Made is a port that was made.
type Made struct {
	ID    uint32
	FD    int           // the socket, which the caller owns
	Spent time.Duration // processor time of the helper
}

// Make makes a port as Host.Make does, on the memory of a descriptor, and places its node.
// The helper keeps a copy of the descriptor until the port is gone.
func (c *Client) Make(of bpf.Port, ticket attach.Ticket, memory int, g port.Geometry, mtu int,
	mode xdp.AttachMode) (Made, error) {
	if mode == xdp.AttachGeneric && c.version() < waysSince {
		return Made{}, fmt.Errorf("making a port in generic mode: %w", ErrVersion)
	}
	a, got, err := c.ask(&request{Op: opMake, Job: of.Job, Node: of.Node, Account: of.Account, Ticket: ticket,
		Geometry: g, MTU: mtu, Generic: mode == xdp.AttachGeneric}, 1, memory)
	if err != nil {
		return Made{}, err
	}
	return Made{a.ID, got[0], time.Duration(a.SpentNs)}, nil
}

// End ends a port, and returns the processor time of the helper.
func (c *Client) End(id uint32) (time.Duration, error) {
	a, _, err := c.ask(&request{Op: opEnd, ID: id}, 0)
	return time.Duration(a.SpentNs), err
}

// Held returns the jobs and ports that a funid before this one had.
func (c *Client) Held() (jobs []Job, ports []Held, err error) {
	jobs, ports, lineage, err := listed(c.ask)
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spoken, c.lineage = lineage.version, lineage.number
	for _, j := range jobs {
		c.has.jobs[j.Job] = true
	}
	for _, p := range ports {
		c.has.ports[p.ID] = true
	}
	return jobs, ports, nil
}

// lineage identifies the succession of helpers that a helper's ports belong to, and its version.
type lineage struct {
	version int
	number  uint64
}

func listed(ask func(r *request, descriptors int, out ...int) (answer, []int, error)) (jobs []Job, ports []Held,
	l lineage, err error) {
	for more := true; more; {
		a, _, err := ask(&request{Op: opHeld, From: max(len(jobs), len(ports)), Version: Version}, 0)
		if err != nil {
			return nil, nil, l, err
		}
		if a.Version < leastVersion || a.Version > Version {
			return nil, nil, l, fmt.Errorf("%w: it speaks version %d, and this program %d and %d", ErrVersion,
				a.Version, leastVersion, Version)
		}
		l = lineage{a.Version, a.Lineage}
		jobs, ports, more = append(jobs, a.Jobs...), append(ports, a.Ports...), a.More
	}
	return jobs, ports, l, nil
}

// version returns the version in common with the helper.
func (c *Client) version() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spoken
}

// Totals returns the totals of all ports; ok is false if the helper is of the previous release,
// which does not report them.
func (c *Client) Totals() (t Totals, ok bool, err error) {
	if c.version() < totalsSince {
		return t, false, nil
	}
	a, _, err := c.ask(&request{Op: opTotals}, 0)
	if err == nil && a.Totals == nil {
		err = fmt.Errorf("%w: it does not say what its ports have sent", ErrHelper)
	}
	if err != nil {
		return t, false, err
	}
	t = *a.Totals
	t.Spent = time.Duration(a.SpentNs)
	return t, true, nil
}

// Alive reports whether a process has the socket of a port.
func (c *Client) Alive(id uint32) (bool, error) {
	a, _, err := c.ask(&request{Op: opAlive, ID: id}, 0)
	return !a.Gone, err
}

// Gone reports whether no process has the socket of an ended port any more. If so, it must not be
// asked about that port again. spent is processor time of the helper.
func (c *Client) Gone(id uint32) (gone bool, spent time.Duration, err error) {
	a, _, err := c.ask(&request{Op: opGone, ID: id}, 0)
	return a.Gone, time.Duration(a.SpentNs), err
}

// Counters returns the counters of a port's frames.
func (c *Client) Counters(id uint32) (bpf.PortCounters, error) {
	a, _, err := c.ask(&request{Op: opCounters, ID: id}, 0)
	return a.Counters, err
}
