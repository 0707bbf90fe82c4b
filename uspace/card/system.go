package card

// This file is the system group (thesis 3.3.2). Packets for GID 0 raise an event on which the
// operating system, or a program in its place, sleeps. They are rejected for a transient reason
// until a context of the group is attached (Engine().Attach) or switched in again. So they come
// again and none is lost.

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/engine"
)

// systemGroup is an eventfd(2) that counts frames for the system group; -1: without Config.System.
type systemGroup struct {
	fd  int
	one [8]byte
}

func (s *systemGroup) open(cfg *engine.Config) (err error) {
	if s.fd, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return fmt.Errorf("making the eventfd of the system group: %w", err)
	}
	binary.NativeEndian.PutUint64(s.one[:], 1)
	cfg.SystemEvent = s.raise
	return nil
}

// raise is called within Step. The counter of an eventfd is full after 2^64-2 frames, and readable
// all the same.
func (s *systemGroup) raise() { _, _ = unix.Write(s.fd, s.one[:]) }

func (s *systemGroup) close() error {
	if s.fd < 0 {
		return nil
	}
	fd := s.fd
	s.fd = -1
	return unix.Close(fd)
}

// SystemEvents returns an eventfd that is readable when frames for the system group came while it
// had no running context here. It returns -1 if Config.System is not set. Reading it returns the
// number of frames and resets it. Any goroutine may poll(2) and read it until Close.
func (k *Card) SystemEvents() int { return k.system.fd }
