package ultra

// This file is the end that receives.

import (
	"fmt"
	"io"

	"github.com/funet/funet/uspace/funi"
)

// Receiver is the end of a path that receives.
type Receiver struct {
	end
	funi funi.PathReceiver
	last bool // the last line has been received
}

// OpenReceiver opens the end of a path from a node, with a ring of that many slices. memory, of
// Bytes(slices), is the path's until Close. Errors: ErrFull, rma.ErrMemory, funi.ErrSlices,
// funi.ErrLayout, rma.ErrUntold, those of drive.
func (p *Paths) OpenReceiver(node uint16, memory []byte, slices int) (*Receiver, error) {
	if slices == 0 {
		return nil, fmt.Errorf("opening a path from node %d: %w", node, funi.ErrSlices)
	}
	e, err := p.open(node, memory, slices)
	if err != nil {
		return nil, fmt.Errorf("opening a path from node %d: %w", node, err)
	}
	return &Receiver{end: e, funi: p.iface.ReceivesOn(e.path)}, nil
}

// Next copies the next line into words, and returns its length. It returns false if the line is not
// there, and the error io.EOF after the last line. It does not let the card run. Other errors:
// Error, if the path has ended and no line is left.
func (r *Receiver) Next(words *[MaxWords]uint64) (n int, ok bool, err error) {
	if n, ok = r.funi.Receive(words); ok && n > 0 {
		return n, true, nil
	}
	return r.none(ok)
}

// none returns why there is no line. ended says that the last one has come.
func (r *Receiver) none(ended bool) (n int, ok bool, err error) {
	if r.last = r.last || ended; r.last {
		return 0, false, io.EOF
	}
	known, err := r.state()
	if known && err != nil && r.funi.Arrived() {
		return 0, false, nil // it has come before the end
	}
	return 0, false, err
}

// Receive waits for the next line. Errors are those of Next and of drive.
func (r *Receiver) Receive(words *[MaxWords]uint64) (n int, err error) {
	for range spins {
		n, ok := r.funi.Receive(words)
		if ok && n > 0 {
			return n, nil
		}
		if r.last = r.last || ok; r.last {
			return 0, io.EOF
		}
		if err := r.of.drive(); err != nil {
			return 0, err
		}
	}
	var ok bool
	if wait := r.of.rma.Until(func() bool { n, ok, err = r.Next(words); return ok || err != nil }); wait != nil {
		return 0, wait
	}
	return n, err
}

// Close gives the memory back. Lines that have not been received are lost, and the sender is told
// that the path has ended. Errors: rma.ErrUntold, those of drive.
func (r *Receiver) Close() error { return r.close() }
