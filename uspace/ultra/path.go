package ultra

// This file has what both ends of a path share: their memory, how they are opened, and why they
// end.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

// MaxWords is the most words of a line.
const MaxWords = arctic.MaxPathWords

var (
	// ErrFull reports that the process, its user or the card has as many ends as it may have, or
	// that the memory is another end's, or not on a multiple of 64 bytes.
	ErrFull = errors.New("ultra: no room for another end of a path, or its memory is another's, or not on a multiple of 64 bytes")
	// ErrLine reports a line of no words, or of more than MaxWords.
	ErrLine = errors.New("ultra: a line has 1 to 7 words")
)

// Error reports a path that has ended.
type Error struct {
	Node uint16 // the other end's
	// Reason of a path that was never open is arctic.ReasonSilent if the other end was not opened
	// in time.
	Reason arctic.Reason
	Opened bool // it was open before
}

func (e *Error) Error() string {
	if !e.Opened {
		return fmt.Sprintf("ultra: no path to node %d: %v; open its end within 5 s", e.Node, e.Reason)
	}
	return fmt.Sprintf("ultra: the path to node %d has ended: %v", e.Node, e.Reason)
}

// Paths opens paths for a process.
type Paths struct {
	rma   *rma.Endpoint
	iface *funi.Interface
	drive func() error
}

// New returns what opens paths on an interface. The endpoint is the same interface's, knows the
// segments that ends may have their memory in (rma.Endpoint.Use), and has the same drive function.
func New(e *rma.Endpoint, iface *funi.Interface, drive func() error) *Paths {
	return &Paths{e, iface, drive}
}

// Bytes returns the size of the memory of an end: of one that receives with that many slices, a
// power of two from 32 to 16,384, and with 0 of one that sends. Errors: funi.ErrSlices.
func Bytes(slices int) (int, error) { return funi.PathBytes(slices) }

// end is an end of a path.
type end struct {
	of      *Paths
	node    uint16
	address uint32
	path    *funi.Path
	opened  bool
	closed  bool
}

func (p *Paths) open(node uint16, memory []byte, slices int) (e end, err error) {
	path, err := funi.MapPath(memory, slices)
	if err != nil {
		return e, err
	}
	n, _ := funi.PathBytes(slices) // MapPath has checked it
	address, err := p.rma.Address(memory[:n])
	if err != nil {
		return e, err
	}
	clear(memory[:n])
	reason, err := p.rma.Command(func(s *funi.Slot, cookie uint32) { s.SetOpenPath(node, address, slices, cookie) })
	switch {
	case err != nil:
		return e, err
	case reason != arctic.ReasonNone:
		return e, ErrFull
	}
	return end{of: p, node: node, address: address, path: path}, nil
}

// state returns nil if the path is open, and true once it is open or has ended.
func (e *end) state() (known bool, err error) {
	switch s, why := e.path.State(); s {
	case funi.PathOpen:
		e.opened = true
		return true, nil
	case funi.PathEnded:
		return true, &Error{e.node, why, e.opened}
	}
	return false, nil
}

// Ready waits until the path is open. Errors: Error, those of drive.
func (e *end) Ready() error {
	known, err := e.state()
	if !known {
		if wait := e.of.until(func() bool { known, err = e.state(); return known }); wait != nil {
			return wait
		}
	}
	return err
}

// spins is how often a wait drives the card before it asks to be woken by writes.
const spins = 4096

// until lets the card run until done returns true.
func (p *Paths) until(done func() bool) error {
	for range spins {
		if done() {
			return nil
		}
		if err := p.drive(); err != nil {
			return err
		}
	}
	return p.rma.Until(done)
}

// close gives the memory of the end back. Errors: rma.ErrUntold, those of drive.
func (e *end) close() error {
	if e.closed {
		return nil
	}
	_, err := e.of.rma.Command(func(s *funi.Slot, cookie uint32) { s.SetClosePath(e.address, cookie) })
	e.closed = err == nil // it is closed, or had ended before
	return err
}
