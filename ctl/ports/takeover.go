package ports

// This file is how a helper takes over from the previous one, which has ended. It takes the
// descriptors that the service manager has kept (store.go), and what the kernel has. The previous
// helper may have ended in the middle of anything. So something may be in only one of the two
// places. It was about to come or to go, and is removed: no answer has ever said that it is there.

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/xdp"
)

// ErrStore reports that the previous helper's descriptors cannot be taken over.
var ErrStore = errors.New("what the process before had that made ports is of no use, and the jobs of direct ports have to begin anew")

// legacy is what the previous helper has left to the next.
type legacy struct {
	jobs  map[bpf.Job]keptJob
	ports []*kept // according to the ledger
	links map[int]int
	pairs map[Pair]*shared
}

type keptJob struct{ nodes, at int }

// takeOver restores the host from the store. A ledger, namespace or map that is missing, or cannot
// be used, is an error.
func (h *Host) takeOver(most int) (err error) {
	file, inner := h.store.take(name("ledger")), h.store.take(name("space"))
	if file == nil || inner == nil {
		return errors.New("there is no ledger or no namespace")
	}
	h.ledger = &ledger{file}
	if h.inner, err = newSpace(inner); err != nil {
		return err
	}
	if err := h.ledger.get(0, &h.head); err != nil {
		return err
	}
	h.left = &legacy{jobs: map[bpf.Job]keptJob{}, links: map[int]int{}, pairs: map[Pair]*shared{}}
	var maps [bpf.SharedMaps]int
	for i := range maps {
		m := h.store.take(name("map", uint64(i)))
		if m == nil {
			return fmt.Errorf("there is no map %d", i)
		}
		if maps[i], err = descriptor(m); err != nil {
			return err
		}
	}
	places := map[bpf.Job]int{}
	for _, n := range h.store.names() {
		if err := h.inherit(n, most, places); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	outers := map[uint32]bool{}
	for _, p := range h.left.ports {
		outers[p.Outer] = true
	}
	if h.sw, err = bpf.TakeSwitch(most, maps, places, func(outer uint32) bool { return outers[outer] }); err != nil {
		return err
	}
	for j, kept := range h.left.jobs {
		if !h.sw.HasJob(j) {
			delete(h.left.jobs, j)
			h.store.drop(name("job", uint64(kept.at)))
		}
	}
	return h.inner.do(h.sweep)
}

// inherit takes the descriptor that is kept under a name.
func (h *Host) inherit(n string, most int, places map[bpf.Job]int) (err error) {
	var at, low, high, bytes uint64
	switch {
	case values(n, "job", &at) && at < bpf.Groups:
		var r jobRecord
		if err := h.ledger.get(jobAt(int(at)), &r); err != nil {
			return err
		}
		j := bpf.Job{Tag: r.Tag, GID: uint16(r.GID)}
		h.left.jobs[j] = keptJob{int(r.Nodes), int(at)}
		places[j], err = descriptor(h.store.take(n))
		return err
	case values(n, "port", &at) && at < uint64(most):
		var r portRecord
		if err := h.ledger.get(portAt(int(at)), &r); err != nil {
			return err
		}
		p := &Port{FD: -1, Outer: r.Outer, Link: uint32(at),
			of:   bpf.Port{Job: bpf.Job{Tag: r.Tag, GID: r.GID}, Node: r.Node, Account: r.Account},
			mode: xdp.AttachMode(r.Mode), number: r.Number}
		h.left.ports = append(h.left.ports, &kept{Port: p, id: r.ID, memory: h.store.take(n), bytes: int64(r.Bytes),
			ticket: r.Ticket})
		h.made = max(h.made, r.Number)
		h.ports, h.mode = h.ports+1, p.mode
	case values(n, "pair", &low, &high, &bytes):
		h.left.pairs[PairOf(uint32(low), uint32(high))] = &shared{h.store.take(n), int64(bytes)}
	case values(n, "nic", &at):
		h.left.links[int(at)], err = descriptor(h.store.take(n))
		return err
	default:
		h.store.take(n).Close()
		h.store.drop(n)
	}
	return nil
}

// sweep deletes links that belong to no port, and records the free places of links. It runs in the
// namespace of the inner ends.
func (h *Host) sweep() error {
	links, err := h.inner.handle.LinkList()
	for errors.Is(err, netlink.ErrDumpInterrupted) { // one of them has just changed: once more
		links, err = h.inner.handle.LinkList()
	}
	if err != nil {
		return err
	}
	used, numbers := map[uint32]bool{}, map[uint64]bool{}
	for _, p := range h.left.ports {
		used[p.Link], numbers[p.number] = true, true
	}
	for _, l := range links {
		var number uint64
		if _, err := fmt.Sscanf(l.Attrs().Name, innerName, &number); err != nil || numbers[number] {
			continue
		}
		h.made = max(h.made, number)
		if err := h.inner.handle.LinkDel(l); err != nil {
			return fmt.Errorf("taking away the link %s, which no port has: %w", l.Attrs().Name, err)
		}
	}
	for n := range cap(h.graves) {
		if link := uint32(cap(h.graves) - 1 - n); !used[link] {
			h.free = append(h.free, link)
		}
	}
	return nil
}

// takeOver restores the helper from what its host has taken over. From now on ports have this
// program's guard.
func (s *Helper) takeOver() error {
	left := s.host.left
	if left == nil {
		return nil
	}
	s.host.left = nil
	s.jobs, s.links, s.shared, s.counts = left.jobs, left.links, left.pairs, s.host.head.Frames
	var errs []error
	for _, p := range left.ports {
		s.lastID = max(s.lastID, p.id)
		if !s.host.sw.HasPort(p.Outer) { // it has ended
			s.lost = append(s.lost, p)
			continue
		}
		s.ports[p.id] = p
		outer, err := s.host.handle.LinkByIndex(int(p.Outer))
		if _, gone := errors.AsType[netlink.LinkNotFoundError](err); gone {
			continue // its process will notice, and its funid
		}
		if err == nil {
			err = s.host.guard(outer, p.mode, true)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("the port of node %d of group %d: %w", p.of.Node, p.of.Job.GID, err))
		}
	}
	for p := range s.shared {
		if s.ports[p[0]] == nil || s.ports[p[1]] == nil {
			errs = append(errs, s.endShared(p[0]))
		}
	}
	return errors.Join(errs...)
}

// keepPort writes a port's record to the ledger, and has the service manager keep its memory.
func (s *Helper) keepPort(p *kept) error {
	h := s.host
	if h.store == nil {
		return nil
	}
	err := h.ledger.put(portAt(int(p.Link)), &portRecord{Tag: p.of.Job.Tag, Bytes: uint64(p.bytes), Number: p.number,
		ID: p.id, Account: p.of.Account, Outer: p.Outer,
		Mode: uint32(p.mode), GID: p.of.Job.GID, Node: p.of.Node, Ticket: p.ticket})
	if err != nil {
		return err
	}
	return withFD(p.memory, func(fd int) error { return h.store.keep(name("port", uint64(p.Link)), fd) })
}

// keepJob does so for a job's places, at a free place of the ledger.
func (s *Helper) keepJob(j bpf.Job, nodes int) (keptJob, error) {
	h, used := s.host, map[int]bool{}
	for _, k := range s.jobs {
		used[k.at] = true
	}
	k := keptJob{nodes: nodes}
	for used[k.at] {
		k.at++
	}
	if h.store == nil {
		return k, nil
	}
	if err := h.ledger.put(jobAt(k.at), &jobRecord{Tag: j.Tag, GID: uint32(j.GID), Nodes: uint32(nodes)}); err != nil {
		return k, err
	}
	return k, h.store.keep(name("job", uint64(k.at)), h.sw.PlacesFD(j))
}

func withFD(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	controlled := raw.Control(func(fd uintptr) { err = f(int(fd)) })
	return errors.Join(controlled, err)
}
