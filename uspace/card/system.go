package card

// This file is the system group (thesis 3.3.2): packets for GID 0 raise an event that
// the operating system, or a program in its place, sleeps on. They are rejected for a
// transient reason until a context of the group is attached (Engine().Attach) or is
// switched in again, so they come again and none is lost.

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/engine"
)

// systemGroup is an eventfd(2) that counts frames for the system group; -1: not asked for.
type systemGroup struct {
	fd  int
	one [8]byte
}

// open makes the eventfd and has the engine raise it.
func (s *systemGroup) open(cfg *engine.Config) (err error) {
	if s.fd, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return fmt.Errorf("making the eventfd of the system group: %w", err)
	}
	binary.NativeEndian.PutUint64(s.one[:], 1)
	cfg.SystemEvent = s.raise
	return nil
}

// raise is called within Step. The counter of an eventfd is full after 2^64-2 frames; it
// is readable all the same.
func (s *systemGroup) raise() { _, _ = unix.Write(s.fd, s.one[:]) }

func (s *systemGroup) close() error {
	if s.fd < 0 {
		return nil
	}
	fd := s.fd
	s.fd = -1
	return unix.Close(fd)
}

// SystemEvents returns an eventfd that is readable when frames for the system group came
// while it had no running context here, or -1 if Config.System is not set. Reading it returns how
// many and resets it. Any goroutine may poll(2) and read it until Close.
func (k *Card) SystemEvents() int { return k.system.fd }
