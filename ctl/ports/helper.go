package ports

// This file is the helper: it serves one funid, and ends with it.

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/attach"
)

// helper is what it has.
type helper struct {
	host   *Host
	conn   *net.UnixConn
	ports  map[uint32]*Port
	ended  map[uint32]*Port // and may not be gone
	lastID uint32
}

// Serve carries out the requests of a funid until its connection ends, and then ends all ports. The host becomes its.
func (h *Host) Serve(conn *net.UnixConn) error {
	runtime.LockOSThread() // whose processor time is measured
	defer runtime.UnlockOSThread()
	s := &helper{host: h, conn: conn, ports: map[uint32]*Port{}, ended: map[uint32]*Port{}}
	buffer := make([]byte, attach.MaxMessage)
	var err error
	for err == nil {
		var r request
		var got []int
		if got, err = receive(conn, buffer, &r, 1); err == nil {
			err = s.carryOut(&r, got)
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		err = nil // funid has ended
	}
	for _, p := range s.ports {
		err = errors.Join(err, h.End(p))
		h.remove(p)
	}
	for _, p := range s.ended {
		h.remove(p)
	}
	return errors.Join(err, h.Close())
}

// carryOut carries out a request and answers it. The error is of the connection.
func (s *helper) carryOut(r *request, got []int) error {
	defer attach.CloseDescriptors(got)
	begin, a := threadTime(), answer{}
	var out []int
	sw := s.host.sw
	switch r.Op {
	case opSwitch:
		fds := sw.Shared().FDs()
		out = fds[:]
	case opAddJob:
		a.fail(sw.AddJob(r.Job, r.Nodes))
	case opRemoveJob:
		a.fail(sw.RemoveJob(r.Job))
	case opPlace:
		a.fail(s.place(r))
	case opMake:
		p, err := s.make(r, got)
		a.fail(err)
		if err == nil {
			s.lastID++
			a.ID = s.lastID
			s.ports[a.ID] = p
			out = []int{p.FD}
		}
	case opEnd, opCounters:
		p := s.ports[r.ID]
		switch {
		case p == nil:
			a.fail(fmt.Errorf("there is no port %d", r.ID))
		case r.Op == opCounters:
			var err error
			a.Counters, err = sw.PortCounters(p.Outer)
			a.fail(err)
		default:
			delete(s.ports, r.ID)
			s.ended[r.ID] = p
			a.fail(s.host.End(p))
		}
	case opGone:
		p, err := s.ended[r.ID], error(nil)
		if p == nil {
			err = fmt.Errorf("no port %d has ended", r.ID)
		} else if a.Gone, err = s.host.Gone(p); a.Gone {
			delete(s.ended, r.ID)
		}
		a.fail(err)
	default:
		a.fail(fmt.Errorf("the helper does not know the request %q; run the same funid", r.Op))
	}
	a.SpentNs = int64(threadTime() - begin)
	return send(s.conn, a, out...)
}

// make makes a port, and says where it is.
func (s *helper) make(r *request, got []int) (*Port, error) {
	if len(got) != 1 {
		return nil, errors.New("no memory came with the request")
	}
	fd, err := unix.FcntlInt(uintptr(got[0]), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	memory := os.NewFile(uintptr(fd), "the memory of a port")
	defer memory.Close()
	p, err := s.host.Make(bpf.Port{Job: r.Job, Node: r.Node}, memory, r.Geometry, r.MTU)
	if err != nil {
		return nil, err
	}
	if err := s.host.sw.SetPlace(r.Job, r.Node, &bpf.Place{Port: p.Outer, Link: p.Link, Longest: r.MTU + ethernet}); err != nil {
		err = errors.Join(err, s.host.End(p))
		s.host.remove(p) // nobody has its socket
		return nil, err
	}
	return p, nil
}

// ethernet is the bytes of an Ethernet header, which an MTU does not count.
const ethernet = 14

// place says where nodes are, but for those that have a port here.
func (s *helper) place(r *request) error {
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

// threadTime returns the processor time that the calling thread has used (clock_gettime(2)).
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0 // every kernel has it
	}
	return time.Duration(t.Nano())
}
