package ports

// This file is the helper: it serves one funid after the other, and keeps ports and jobs in between, so that processes go on.

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
)

// lookEvery is how often a helper looks whether ports are gone that no funid asks for.
const lookEvery = time.Second

// Helper is the ports of a host with what they are kept by. One goroutine at a time calls its methods, on a thread in the network
// namespace of the NICs.
type Helper struct {
	host   *Host
	conn   *net.UnixConn
	jobs   map[bpf.Job]int // nodes
	ports  map[uint32]*kept
	ended  map[uint32]*kept // and may not be gone
	lastID uint32
	lost   []*kept     // those that have ended and that a funid before this one had
	links  map[int]int // of NIC programs: descriptors by interface
	quit   bool
	tell   func(error) // what nobody waits for
}

// kept is a port with what is kept of it.
type kept struct {
	*Port
	memory *os.File
	bytes  int64
	ticket Ticket
}

// NewHelper makes a helper, which tells errors that are nobody's. The host becomes its.
func NewHelper(h *Host, tell func(error)) *Helper {
	return &Helper{host: h, tell: tell, jobs: map[bpf.Job]int{}, ports: map[uint32]*kept{}, ended: map[uint32]*kept{}, links: map[int]int{}}
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
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		err = nil // funid has ended
	}
	return err
}

// bury looks at the ports that nobody asks for.
func (s *Helper) bury() {
	s.lost = slices.DeleteFunc(s.lost, func(p *kept) bool {
		gone, err := s.gone(p)
		if err != nil {
			s.tell(err)
		}
		return gone
	})
}

// gone reports whether nobody has a port's socket any more that has ended, and then gives its memory back.
func (s *Helper) gone(p *kept) (bool, error) {
	gone, err := s.host.Gone(p.Port)
	if gone {
		err = errors.Join(err, p.erase())
	}
	return gone, err
}

// Idle reports whether no process has a port, while no funid is there.
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

// Close ends all ports, whoever has them.
func (s *Helper) Close() error {
	var errs []error
	s.releaseAll()
	for _, p := range s.ports {
		errs = append(errs, s.host.End(p.Port))
		s.host.remove(p.Port)
		errs = append(errs, p.erase())
	}
	for _, p := range s.lost {
		s.host.remove(p.Port)
		errs = append(errs, p.erase())
	}
	return errors.Join(append(errs, s.host.Close())...)
}

// erase takes the pages of the memory away, which a process may keep otherwise without that anybody counts them. The file is immutable
// (package daemon, memory.go).
func (p *kept) erase() error {
	raw, err := p.memory.SyscallConn()
	if err != nil {
		return err
	}
	return errors.Join(raw.Control(func(fd uintptr) {
		if unix.IoctlSetPointerInt(int(fd), unix.FS_IOC_SETFLAGS, 0) == nil { // else it never was
			_ = unix.Fallocate(int(fd), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, p.bytes)
		}
	}), p.memory.Close())
}

// carryOut carries out a request and answers it. The error is of the connection.
func (s *Helper) carryOut(r *request, got []int) error {
	defer attach.CloseDescriptors(got)
	begin, a := s.spent(), answer{}
	var out []int
	var made *kept
	sw := s.host.sw
	switch r.Op {
	case opSwitch:
		fds := sw.Shared().FDs()
		out = fds[:]
	case opAddJob:
		err := sw.AddJob(r.Job, r.Nodes)
		if err == nil {
			s.jobs[r.Job] = r.Nodes
		}
		a.fail(err)
	case opRemoveJob:
		delete(s.jobs, r.Job)
		a.fail(sw.RemoveJob(r.Job))
	case opPlace:
		a.fail(s.place(r))
	case opHeld:
		s.held(r.From, &a)
	case opKeep:
		a.fail(s.keep(r.Index, got))
	case opKept:
		if fd, ok := s.links[r.Index]; ok {
			out = []int{fd}
		} else {
			a.fail(fmt.Errorf("no program of interface %d is kept", r.Index))
		}
	case opRelease:
		s.release(r.Index)
	case opQuit:
		if s.quit = len(s.ports) == 0; s.quit {
			s.releaseAll()
		}
	case opMake:
		var err error
		made, err = s.make(r, got)
		a.fail(err)
		if err == nil {
			s.lastID++
			a.ID = s.lastID
			s.ports[a.ID] = made
			out = []int{made.FD}
		}
	case opGone:
		p, err := s.ended[r.ID], error(nil)
		if p == nil {
			err = fmt.Errorf("no port %d has ended", r.ID)
		} else if a.Gone, err = s.gone(p); a.Gone {
			delete(s.ended, r.ID)
		}
		a.fail(err)
	default:
		s.aboutPort(r, &a)
	}
	a.SpentNs = int64(s.spent() - begin)
	err := send(s.conn, a, out...)
	if made != nil { // the process has the socket, and nobody else
		err = errors.Join(err, made.letGo())
	}
	return err
}

// keep keeps the link of a NIC program.
func (s *Helper) keep(at int, got []int) error {
	if len(got) != 1 {
		return errors.New("no link came with the request")
	}
	fd, err := unix.FcntlInt(uintptr(got[0]), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s.release(at)
	s.links[at] = fd
	return nil
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
	}
}

// spent is the processor time of requests so far: of this thread, and of that within the namespace.
func (s *Helper) spent() time.Duration { return ThreadTime() + s.host.inner.spent }

// aboutPort carries out a request about a port that there is.
func (s *Helper) aboutPort(r *request, a *answer) {
	p, err := s.ports[r.ID], error(nil)
	switch {
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
		s.ended[r.ID] = p
		err = s.host.End(p.Port)
	default:
		err = fmt.Errorf("the helper does not know the request %q; run the same funid", r.Op)
	}
	a.fail(err)
}

// held lists what there is, from a place on.
func (s *Helper) held(from int, a *answer) {
	var ports []Held
	for id, p := range s.ports {
		ports = append(ports, Held{id, p.of, p.ticket, p.bytes})
	}
	slices.SortFunc(ports, func(a, b Held) int { return cmp.Compare(a.ID, b.ID) })
	var jobs []Job
	for j, nodes := range s.jobs {
		jobs = append(jobs, Job{j, nodes})
	}
	slices.SortFunc(jobs, func(a, b Job) int {
		return cmp.Or(cmp.Compare(a.Job.GID, b.Job.GID), cmp.Compare(a.Job.Tag, b.Job.Tag))
	})
	till := from + heldAtOnce
	a.Jobs = jobs[min(from, len(jobs)):min(till, len(jobs))]
	a.Ports = ports[min(from, len(ports)):min(till, len(ports))]
	a.Version = Version
	a.More = till < max(len(jobs), len(ports))
}

// make makes a port, and says where it is.
func (s *Helper) make(r *request, got []int) (_ *kept, err error) {
	if len(got) != 1 {
		return nil, errors.New("no memory came with the request")
	}
	fd, err := unix.FcntlInt(uintptr(got[0]), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	memory := os.NewFile(uintptr(fd), "the memory of a port")
	defer func() {
		if err != nil {
			memory.Close()
		}
	}()
	p, err := s.host.Make(bpf.Port{Job: r.Job, Node: r.Node}, memory, r.Geometry, r.MTU)
	if err != nil {
		return nil, err
	}
	if err := s.host.sw.SetPlace(r.Job, r.Node, &bpf.Place{Port: p.Outer, Link: p.Link, Longest: r.MTU + ethernet}); err != nil {
		err = errors.Join(err, s.host.End(p))
		s.host.remove(p) // nobody has its socket
		return nil, err
	}
	return &kept{p, memory, r.Geometry.Bytes(), r.Ticket}, nil
}

// ethernet is the bytes of an Ethernet header, which an MTU does not count.
const ethernet = 14

// place says where nodes are, but for those that have a port here.
func (s *Helper) place(r *request) error {
	here := map[uint16]bool{}
	for _, p := range s.ports {
		if p.of.Job == r.Job {
			here[p.of.Node] = true
		}
	}
	for i, at := range r.At {
		node := int(r.Node) + i
		var to *bpf.Place
		if at >= 0 && at < len(r.Places) {
			to = &r.Places[at]
		}
		if node > 1<<16-1 || here[uint16(node)] {
			continue
		}
		if err := s.host.sw.SetPlace(r.Job, uint16(node), to); err != nil {
			return err
		}
	}
	return nil
}
