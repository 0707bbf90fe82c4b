package ports

// This file is funid's side of its helper.

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/xdp"
)

// ErrHelper: the helper has ended, or does not answer.
var ErrHelper = errors.New("the process that makes ports does not answer; restart funid")

// ErrVersion: the helper is of another release, with which this one cannot go on.
var ErrVersion = errors.New("the process that makes ports is of another release; end it, which ends the direct jobs: systemctl restart funid-ports, or kill it")

// answerWithin bounds how long a request may take.
const answerWithin = 10 * time.Second

// Client is a helper's other end. Any goroutine may call its methods; requests are carried out one after the other. After ErrHelper
// all calls return it.
type Client struct {
	mu     sync.Mutex
	conn   *net.UnixConn
	buffer []byte
	broken error
}

// NewClient takes a connection to a helper, which becomes its.
func NewClient(conn *net.UnixConn) *Client {
	return &Client{conn: conn, buffer: make([]byte, attach.MaxMessage)}
}

// Attach is xdp.Attach for NIC programs of direct ports: the helper keeps the link, so that frames go on to ports when funid has ended, and the
// next funid's program takes the place of this one.
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

// Quit ends the helper, unless processes have ports that the next funid takes over, and the connection. With the helper the NIC programs
// are gone that it keeps.
func (c *Client) Quit() error {
	_, _, err := c.ask(&request{Op: opQuit}, 0)
	if errors.Is(err, ErrHelper) {
		err = nil // it has ended
	}
	return errors.Join(err, c.Close())
}

// Close ends the connection; the helper keeps what there is.
func (c *Client) Close() error { return c.conn.Close() }

// ask has a request carried out, and returns the answer with its descriptors.
func (c *Client) ask(r *request, descriptors int, out ...int) (a answer, got []int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return a, nil, c.broken
	}
	if err = c.conn.SetDeadline(time.Now().Add(answerWithin)); err == nil {
		if err = send(c.conn, r, out...); err == nil {
			got, err = receive(c.conn, c.buffer, &a, descriptors)
		}
	}
	if err != nil {
		c.broken = fmt.Errorf("%w (%w)", ErrHelper, err) // an answer that came later would be taken for another
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

// Switch returns the maps for the NIC program, which are the caller's.
func (c *Client) Switch() (*bpf.Shared, error) {
	_, got, err := c.ask(&request{Op: opSwitch}, bpf.SharedMaps)
	if err != nil {
		return nil, err
	}
	return bpf.OpenShared([bpf.SharedMaps]int(got))
}

// AddJob makes room for a job of so many nodes.
func (c *Client) AddJob(j bpf.Job, nodes int) error {
	_, _, err := c.ask(&request{Op: opAddJob, Job: j, Nodes: nodes}, 0)
	return err
}

// RemoveJob takes it out. Its ports must be ended, too.
func (c *Client) RemoveJob(j bpf.Job) error {
	_, _, err := c.ask(&request{Op: opRemoveJob, Job: j}, 0)
	return err
}

// Place says where the nodes of a job are: node i at places[at[i]], or nowhere with -1. Those that have a port here stay where they are.
func (c *Client) Place(j bpf.Job, at []int, places []bpf.Place) error {
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
				number[p], r.Places = n, append(r.Places, places[p])
			}
			r.At[i] = n
		}
		if _, _, err := c.ask(r, 0); err != nil {
			return err
		}
	}
	return nil
}

// Made is a port that was made.
type Made struct {
	ID    uint32
	FD    int           // the socket, which is the caller's
	Spent time.Duration // processor time of the helper
}

// Make makes a port as Host.Make does, on the memory of a descriptor, and places its node.
// The helper keeps a copy of the descriptor until the port is gone.
func (c *Client) Make(of bpf.Port, ticket Ticket, memory int, g port.Geometry, mtu int) (Made, error) {
	a, got, err := c.ask(&request{Op: opMake, Job: of.Job, Node: of.Node, Ticket: ticket, Geometry: g, MTU: mtu}, 1, memory)
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
	for more := true; more; {
		a, _, err := c.ask(&request{Op: opHeld, From: max(len(jobs), len(ports))}, 0)
		if err != nil {
			return nil, nil, err
		}
		if a.Version != Version {
			return nil, nil, fmt.Errorf("%w: it speaks version %d, and this program %d", ErrVersion, a.Version, Version)
		}
		jobs, ports, more = append(jobs, a.Jobs...), append(ports, a.Ports...), a.More
	}
	return jobs, ports, nil
}

// Alive reports whether somebody has the socket of a port.
func (c *Client) Alive(id uint32) (bool, error) {
	a, _, err := c.ask(&request{Op: opAlive, ID: id}, 0)
	return !a.Gone, err
}

// Gone reports whether nobody has the socket of a port any more that has ended; then it must not be asked again. spent is processor time of
// the helper.
func (c *Client) Gone(id uint32) (gone bool, spent time.Duration, err error) {
	a, _, err := c.ask(&request{Op: opGone, ID: id}, 0)
	return a.Gone, time.Duration(a.SpentNs), err
}

// Counters returns what became of the frames of a port.
func (c *Client) Counters(id uint32) (bpf.PortCounters, error) {
	a, _, err := c.ask(&request{Op: opCounters, ID: id}, 0)
	return a.Counters, err
}
