package ports

// This file is the helper. It serves one funid after the other. In between it keeps ports and jobs,
// so that processes go on.

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/xdp"
)

// lookEvery is how often a helper checks whether ended ports are gone that no funid asks about.
const lookEvery = time.Second

// Helper holds the ports of a host and the resources that keep them. One goroutine at a time calls
// its methods, on a thread in the network namespace of the NICs.
type Helper struct {
	host   *Host
	conn   *net.UnixConn
	jobs   map[bpf.Job]keptJob
	ports  map[uint32]*kept
	ended  map[uint32]*kept // they have ended, and a process may have their sockets
	lastID uint32
	lost   []*kept // ended ports of an earlier funid
	shared map[Pair]*shared
	links  map[int]int      // of NIC programs: descriptors by interface
	counts bpf.PortCounters // of ports that have ended
	quit   bool
	tell   func(error) // takes errors that no request returns
}

type kept struct {
	*Port
	id     uint32
	memory *os.File
	bytes  int64
	ticket attach.Ticket
}

// NewHelper makes a helper. tell takes errors that no request returns. The helper owns the host,
// and takes over what the previous helper has left there.
func NewHelper(h *Host, tell func(error)) *Helper {
	s := &Helper{host: h, tell: tell, jobs: map[bpf.Job]keptJob{}, ports: map[uint32]*kept{}, ended: map[uint32]*kept{},
		shared: map[Pair]*shared{}, links: map[int]int{}}
	if err := s.takeOver(); err != nil {
		tell(fmt.Errorf("taking over what the process before had: %w", err))
	}
	return s
}

// Refuse answers a funid's first request: this helper cannot make ports, for the given reason.
func Refuse(conn *net.UnixConn, why error) error {
	if err := conn.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	var r request
	got, err := receive(conn, make([]byte, attach.MaxMessage), &r, 1)
	if err != nil {
		return err
	}
	attach.CloseDescriptors(got)
	var a answer
	a.fail(why)
	return send(conn, a)
}

// Quit reports whether a funid has asked the helper to end.
func (s *Helper) Quit() bool { return s.quit }

// Serve carries out the requests of a funid until its connection ends, or Quit.
func (s *Helper) Serve(conn *net.UnixConn) error {
	runtime.LockOSThread() // whose processor time is measured
	defer runtime.UnlockOSThread()
	s.conn, s.quit = conn, false
	defer conn.Close()
	buffer := make([]byte, attach.MaxMessage)
	var err error
	for err == nil && !s.quit {
		var r request
		var got []int
		if err = conn.SetReadDeadline(time.Now().Add(lookEvery)); err != nil {
			break
		}
		got, err = receive(conn, buffer, &r, 1)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil
			s.bury()
			continue
		}
		if err == nil {
			err = s.carryOut(&r, got)
		}
	}
	for id, p := range s.ended { // whoever asked for them has ended
		s.lost = append(s.lost, p)
		delete(s.ended, id)
	}
	if stopping := s.host.sw.StopCapture(); stopping != nil { // nobody reads it any more
		s.tell(stopping)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		err = nil // funid has ended
	}
	return err
}

// bury deletes old spare pairs, and ended ports that no funid asks about, if they are gone.
func (s *Helper) bury() {
	s.host.endSpares(spareFor)
	s.lost = slices.DeleteFunc(s.lost, func(p *kept) bool {
		gone, err := s.gone(p)
		if err != nil {
			s.tell(err)
		}
		return gone
	})
}

// gone reports whether no process has the socket of an ended port any more. If so it gives the
// port's memory back.
func (s *Helper) gone(p *kept) (bool, error) {
	gone, err := s.host.Gone(p.Port)
	if gone {
		s.host.store.drop(name("port", uint64(p.Link)))
		err = errors.Join(err, erase(p.memory, p.bytes))
	}
	return gone, err
}

// Idle reports whether no process has a port. Call it while there is no funid.
func (s *Helper) Idle() bool {
	s.bury()
	for _, p := range s.ports {
		alive, err := s.host.alive(p.Port)
		if err != nil {
			s.tell(err)
		}
		if alive {
			return false
		}
	}
	return len(s.lost) == 0
}

// Close ends all ports, even those that processes use.
func (s *Helper) Close() error {
	var errs []error
	s.releaseAll()
	store := s.host.store
	for id, p := range s.ports {
		errs = append(errs, s.host.End(p.Port), s.endShared(id))
		s.lost = append(s.lost, p)
	}
	for _, p := range s.lost {
		s.host.remove(p.Port)
		store.drop(name("port", uint64(p.Link)))
		errs = append(errs, erase(p.memory, p.bytes))
	}
	for _, k := range s.jobs {
		store.drop(name("job", uint64(k.at)))
	}
	return errors.Join(append(errs, s.host.Close())...)
}

// carryOut carries out a request and answers it. It returns only errors of the connection.
func (s *Helper) carryOut(r *request, got []int) error {
	defer attach.CloseDescriptors(got)
	begin, a := s.spent(), answer{}
	s.host.endSpares(spareFor)
	out, err := s.do(r, got, &a)
	if a.fail(err); err != nil {
		out = nil
	}
	a.SpentNs = int64(s.spent() - begin)
	err = send(s.conn, a, out...)
	if made := s.ports[a.ID]; r.Op == opMake && made != nil { // the process has the socket
		err = errors.Join(err, made.letGo())
	}
	return err
}

// do carries out a request, and returns the descriptors that go with the answer.
func (s *Helper) do(r *request, got []int, a *answer) (out []int, err error) {
	sw := s.host.sw
	switch r.Op {
	case opSwitch:
		if r.Version < mapsSince {
			return nil, fmt.Errorf("taking over the maps of the switch: %w", ErrVersion)
		}
		fds := sw.Shared().FDs()
		return fds[:], nil
	case opCapture:
		if r.Snap == 0 {
			return nil, sw.StopCapture()
		}
		fds, err := sw.StartCapture(r.Snap)
		return fds[:], err
	case opAddJob:
		return nil, s.addJob(r.Job, r.Nodes)
	case opRemoveJob:
		if k, ok := s.jobs[r.Job]; ok {
			delete(s.jobs, r.Job)
			s.host.store.drop(name("job", uint64(k.at)))
		}
		return nil, sw.RemoveJob(r.Job)
	case opPlace:
		return nil, s.place(r)
	case opHeld:
		s.held(r.From, a)
		a.Version, a.Lineage = common(r.Version), s.host.head.Lineage
	case opKeep:
		return nil, s.keep(r.Index, got)
	case opKept:
		fd, ok := s.links[r.Index]
		if !ok {
			return nil, fmt.Errorf("no program of interface %d is kept", r.Index)
		}
		return []int{fd}, nil
	case opRelease:
		s.release(r.Index)
	case opTotals:
		a.Totals, err = s.totals()
	case opShare:
		return nil, s.share(r, got)
	case opShared:
		m := s.shared[PairOf(r.ID, r.With)]
		if m == nil {
			return nil, fmt.Errorf("ports %d and %d have no memory", r.ID, r.With)
		}
		return []int{int(m.memory.Fd())}, nil
	case opQuit:
		if s.quit = len(s.ports) == 0; s.quit {
			s.releaseAll()
		}
	case opMake:
		made, err := s.make(r, got)
		if err != nil {
			return nil, err
		}
		a.ID = made.id
		return []int{made.FD}, nil
	case opGone:
		p := s.endedPort(r.ID)
		if p == nil {
			return nil, fmt.Errorf("no port %d has ended", r.ID)
		}
		if a.Gone, err = s.gone(p); a.Gone {
			delete(s.ended, r.ID)
		}
	default:
		return nil, s.aboutPort(r, a)
	}
	return nil, err
}

func (s *Helper) addJob(j bpf.Job, nodes int) error {
	if err := s.host.sw.AddJob(j, nodes); err != nil {
		return err
	}
	k, err := s.keepJob(j, nodes)
	if err != nil {
		return errors.Join(err, s.host.sw.RemoveJob(j))
	}
	s.jobs[j] = k
	return nil
}

// endedPort finds an ended port that may not be gone. From now on funid asks about it, and bury
// does not. nil: there is no such port.
func (s *Helper) endedPort(id uint32) *kept {
	if i := slices.IndexFunc(s.lost, func(p *kept) bool { return p.id == id }); i >= 0 {
		s.ended[id] = s.lost[i]
		s.lost = slices.Delete(s.lost, i, i+1)
	}
	return s.ended[id]
}

// only duplicates the only descriptor of a request.
func only(got []int, what string) (fd int, err error) {
	if len(got) != 1 {
		return -1, fmt.Errorf("no %s came with the request", what)
	}
	return unix.FcntlInt(uintptr(got[0]), unix.F_DUPFD_CLOEXEC, 0)
}

// keep keeps the link of a NIC program.
func (s *Helper) keep(at int, got []int) error {
	fd, err := only(got, "link")
	if err != nil {
		return err
	}
	s.release(at)
	s.links[at] = fd
	return s.host.store.keep(name("nic", uint64(at)), fd)
}

func (s *Helper) releaseAll() {
	for at := range s.links {
		s.release(at)
	}
}

func (s *Helper) release(at int) {
	if fd, ok := s.links[at]; ok {
		_ = unix.Close(fd) // it is a descriptor, and nothing is written to it
		delete(s.links, at)
		s.host.store.drop(name("nic", uint64(at)))
	}
}

// spent returns the processor time of all requests so far: of this thread and the namespace's.
func (s *Helper) spent() time.Duration { return ThreadTime() + s.host.inner.spent }

func (s *Helper) aboutPort(r *request, a *answer) (err error) {
	p := s.ports[r.ID]
	switch {
	// by the helper before, whose answer was lost
	case r.Op == opEnd && p == nil && s.endedPort(r.ID) != nil:
	case p == nil && (r.Op == opEnd || r.Op == opCounters || r.Op == opAlive):
		err = fmt.Errorf("there is no port %d", r.ID)
	case r.Op == opCounters:
		a.Counters, err = s.host.sw.PortCounters(p.Outer)
	case r.Op == opAlive:
		alive := false
		alive, err = s.host.alive(p.Port)
		a.Gone = !alive && err == nil
	case r.Op == opEnd:
		delete(s.ports, r.ID)
		if r.Forget {
			s.lost = append(s.lost, p)
		} else {
			s.ended[r.ID] = p
		}
		n, unread := s.host.sw.PortCounters(p.Outer)
		s.counts.Add(&n)
		err = errors.Join(s.host.End(p.Port), unread, s.endShared(r.ID), s.count())
	default:
		err = fmt.Errorf("the helper does not know the request %q; run the same funid", r.Op)
	}
	return err
}

// count writes the counters of ended ports to the ledger.
func (s *Helper) count() error {
	s.host.head.Frames = s.counts
	return s.host.ledger.put(0, &s.host.head)
}

// totals adds up the counters of all ports.
func (s *Helper) totals() (*Totals, error) {
	t := &Totals{Ports: len(s.ports), Kept: len(s.ended) + len(s.lost), Frames: s.counts}
	for _, p := range s.ports {
		n, err := s.host.sw.PortCounters(p.Outer)
		if err != nil {
			return nil, err
		}
		t.Frames.Add(&n)
	}
	return t, nil
}

// held lists jobs and ports, beginning at the given place in the list.
func (s *Helper) held(from int, a *answer) {
	var ports []Held
	with := s.sharers()
	for id, p := range s.ports {
		ports = append(ports, Held{id, p.of, p.ticket, p.bytes, with[id]})
	}
	slices.SortFunc(ports, func(a, b Held) int { return cmp.Compare(a.ID, b.ID) })
	var jobs []Job
	for j, k := range s.jobs {
		jobs = append(jobs, Job{j, k.nodes})
	}
	slices.SortFunc(jobs, func(a, b Job) int {
		return cmp.Or(cmp.Compare(a.Job.GID, b.Job.GID), cmp.Compare(a.Job.Tag, b.Job.Tag))
	})
	till := from + heldAtOnce
	a.Jobs = jobs[min(from, len(jobs)):min(till, len(jobs))]
	a.Ports = ports[min(from, len(ports)):min(till, len(ports))]
	a.More = till < max(len(jobs), len(ports))
}

// make makes a port, and tells the switch where its node is.
func (s *Helper) make(r *request, got []int) (_ *kept, err error) {
	fd, err := only(got, "memory")
	if err != nil {
		return nil, err
	}
	memory := os.NewFile(uintptr(fd), "the memory of a port")
	defer func() {
		if err != nil {
			memory.Close()
		}
	}()
	mode := xdp.AttachNative
	if r.Generic {
		mode = xdp.AttachGeneric
	}
	p, err := s.host.Make(bpf.Port{Job: r.Job, Node: r.Node, Account: r.Account}, memory, r.Geometry, r.MTU, mode)
	if err != nil {
		return nil, err
	}
	if err := s.host.sw.SetPlace(r.Job, r.Node, &bpf.Place{Port: p.Outer, Link: p.Link,
		Longest: r.MTU + ethernet}); err != nil {
		return nil, errors.Join(err, s.unmake(p))
	}
	k := &kept{p, s.lastID + 1, memory, r.Geometry.Bytes(), r.Ticket}
	if err := s.keepPort(k); err != nil {
		return nil, errors.Join(err, s.unmake(p))
	}
	s.lastID++
	s.ports[k.id] = k
	return k, nil
}

// unmake ends a port whose socket was never handed out.
func (s *Helper) unmake(p *Port) error {
	err := s.host.End(p)
	s.host.remove(p)
	return err
}

// ethernet is the length of an Ethernet header in bytes, which an MTU does not count.
const ethernet = 14

// place tells the switch where nodes are, except nodes with a port here.
func (s *Helper) place(r *request) error {
	here := map[uint16]bool{}
	for _, p := range s.ports {
		if p.of.Job == r.Job {
			here[p.of.Node] = true
		}
	}
	var nodes []uint32
	var all []*bpf.Place
	for i, at := range r.At {
		node := int(r.Node) + i
		if node > 1<<16-1 || here[uint16(node)] {
			continue
		}
		var to *bpf.Place
		if at >= 0 && at < len(r.Places) {
			to = r.Places[at].read()
		}
		nodes, all = append(nodes, uint32(node)), append(all, to)
	}
	if len(nodes) == 0 {
		return nil
	}
	return s.host.sw.SetPlaces(r.Job, nodes, all)
}
