package ports

// This file keeps memory that the processes of two ports share (package port/shared). So the memory
// can be erased when one of the ports ends, whichever funid is there then.

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Pair is the IDs of two ports, the lower one first.
type Pair [2]uint32

// PairOf returns the pair of two ports.
func PairOf(a, b uint32) Pair { return Pair{min(a, b), max(a, b)} }

// Has returns 1 for the two IDs of a pair, and 0 for others.
func (p Pair) Has(id uint32) int {
	if p[0] == id || p[1] == id {
		return 1
	}
	return 0
}

type shared struct {
	memory *os.File
	bytes  int64
}

// Share has the helper keep the memory of a descriptor. When one of the ports ends the helper
// erases it. spent is processor time of the helper.
func (c *Client) Share(p Pair, memory int, bytes int64) (spent time.Duration, err error) {
	a, _, err := c.ask(&request{Op: opShare, ID: p[0], With: p[1], Bytes: bytes}, 0, memory)
	return time.Duration(a.SpentNs), err
}

// Shared returns a descriptor of the memory of a pair. The caller owns it.
func (c *Client) Shared(p Pair) (int, error) {
	_, got, err := c.ask(&request{Op: opShared, ID: p[0], With: p[1]}, 1)
	if err != nil {
		return -1, err
	}
	return got[0], nil
}

// share keeps the memory of a pair.
func (s *Helper) share(r *request, got []int) error {
	pair := PairOf(r.ID, r.With)
	switch {
	case s.ports[r.ID] == nil || s.ports[r.With] == nil || r.ID == r.With:
		return fmt.Errorf("ports %d and %d are not both there", r.ID, r.With)
	// by the helper before, whose answer was lost
	case s.shared[pair] != nil && len(got) == 1 && sameFile(s.shared[pair].memory, got[0]):
		return nil
	case s.shared[pair] != nil:
		return fmt.Errorf("ports %d and %d have memory", r.ID, r.With)
	}
	fd, err := only(got, "memory")
	if err == nil {
		m := &shared{os.NewFile(uintptr(fd), "the memory of two ports"), r.Bytes}
		if err = s.host.store.keep(m.name(pair), fd); err != nil {
			return errors.Join(err, m.memory.Close())
		}
		s.shared[pair] = m
	}
	return err
}

func (m *shared) name(p Pair) string {
	return name("pair", uint64(p[0]), uint64(p[1]), uint64(m.bytes))
}

// sameFile reports whether a descriptor refers to a file.
func sameFile(file *os.File, fd int) bool {
	var a, b unix.Stat_t
	err := withFD(file, func(own int) error { return errors.Join(unix.Fstat(own, &a), unix.Fstat(fd, &b)) })
	return err == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// sharers lists, for each port, the ports that it shares memory with.
func (s *Helper) sharers() map[uint32][]uint32 {
	with := map[uint32][]uint32{}
	for p := range s.shared {
		with[p[0]], with[p[1]] = append(with[p[0]], p[1]), append(with[p[1]], p[0])
	}
	return with
}

// endShared erases all memory that a port shares with others.
func (s *Helper) endShared(id uint32) error {
	var errs []error
	for p, m := range s.shared {
		if p.Has(id) > 0 {
			delete(s.shared, p)
			s.host.store.drop(m.name(p))
			errs = append(errs, erase(m.memory, m.bytes))
		}
	}
	return errors.Join(errs...)
}

// erase removes the pages of memory, and closes it. Otherwise a process could keep the pages
// uncounted. The file is immutable (package daemon, memory.go). A process that maps it reads zeros.
func erase(memory *os.File, bytes int64) error {
	return cmp.Or(withFD(memory, func(fd int) error {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0) // else it never was
		_ = unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, bytes)
		return nil
	}), memory.Close())
}
