package ultra

// This file is the end that sends.

import (
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// Sender is the end of a path that sends.
type Sender struct {
	end
	funi    funi.PathSender
	line    [MaxWords]uint64 // the last that was stored
	words   int
	pending bool   // the card has not taken it, as far as is known
	taken   uint32 // lines that the card has
}

// OpenSender opens the end of a path to a node. memory, of Bytes(0), is the path's until Close.
// Errors: ErrFull, rma.ErrMemory, funi.ErrLayout, rma.ErrUntold, those of drive.
func (p *Paths) OpenSender(node uint16, memory []byte) (*Sender, error) {
	e, err := p.open(node, memory, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a path to node %d: %w", node, err)
	}
	return &Sender{end: e, funi: p.iface.SendsOn(e.path)}, nil
}

// Send stores a line of 1 to MaxWords words; the first is its tag. It returns false if the path has
// no room for it now. A line that was stored leaves when the card runs next. Errors: ErrLine; Error
// if the path has ended; those of drive.
func (s *Sender) Send(words ...uint64) (bool, error) {
	if len(words) == 0 || len(words) > MaxWords {
		return false, fmt.Errorf("sending %d words to node %d: %w", len(words), s.node, ErrLine)
	}
	return s.send(words)
}

func (s *Sender) send(words []uint64) (bool, error) {
	if s.pending {
		if room, err := s.settle(); !room || err != nil {
			return false, err
		}
	} else if !s.opened {
		if known, err := s.state(); !known || err != nil {
			return false, err
		}
	}
	s.words = copy(s.line[:], words)
	s.store()
	return true, nil
}

func (s *Sender) store() {
	s.funi.Send(0, s.line[:s.words])
	s.pending = true
}

// settle waits for the card's answer to the last line. It reports whether the card has taken the
// line. A line that found the path full is stored again.
func (s *Sender) settle() (taken bool, err error) {
	for {
		status, ok := s.funi.Answer()
		switch {
		case ok && status == funi.PathTaken:
			s.pending = false
			s.taken++
			return true, nil
		case ok && status == funi.PathFull:
			s.store()
			return false, s.of.drive()
		case ok && status != funi.PathClosed:
			return false, fmt.Errorf("sending to node %d: the card answers: %v", s.node, status)
		}
		if known, err := s.state(); known && err != nil {
			return false, err
		}
		if err := s.of.drive(); err != nil {
			return false, err
		}
	}
}

// Flush waits until the receiver's card has all lines. Errors: Error, those of drive.
func (s *Sender) Flush() (err error) {
	for s.pending && err == nil {
		_, err = s.settle()
	}
	if err != nil {
		return err
	}
	var ended error
	err = s.of.until(func() bool {
		if s.funi.Read() == s.taken {
			return true
		}
		known := false
		known, ended = s.state()
		return known && ended != nil
	})
	if err == nil {
		err = ended
	}
	return err
}

// Close sends the last line of the path, waits until the receiver's card has all lines, and gives
// the memory back. A path that was never open, or has ended, it only gives back; then the error
// says what Flush would. Errors: Error, rma.ErrUntold, those of drive.
func (s *Sender) Close() error {
	if s.closed {
		return nil
	}
	last, err := false, error(nil)
	for !last && err == nil && s.opened {
		last, err = s.send(nil)
	}
	if err == nil && s.opened {
		err = s.Flush()
	}
	if closing := s.close(); err == nil {
		err = closing
	}
	return err
}
