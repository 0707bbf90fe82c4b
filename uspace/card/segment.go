package card

// This file is the card's segments.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// Segment returns new memory, all 0, that is registered as a segment. It is for programs that also
// run on the card of a daemon (attach.Client.Segment), which can use no memory but its own. Errors
// are those of funi.Segments.
func (k *Card) Segment(base uint32, bytes int, rights funi.Rights) ([]byte, error) {
	if bytes < 0 || bytes > 1<<32 {
		bytes = 0 // no segment either, and nothing to allocate
	}
	words := make([]uint32, (bytes+arctic.WordSize-1)/arctic.WordSize) // aligned as words
	s := funi.Segment{Base: base, Memory: funi.Bytes(words)[:bytes], Rights: rights}
	if err := k.Register(s); err != nil {
		return nil, err
	}
	return s.Memory, nil
}

// Register lets the card use memory of the process as source or destination of
// transfers. Errors are those of funi.Segments.
func (k *Card) Register(s funi.Segment) (err error) {
	k.Alone(func() { err = k.ctx.Register(s) })
	return err
}

// Unregister ends the use of the segment that starts at base. It returns engine.ErrSegmentBusy
// while the card needs the segment.
func (k *Card) Unregister(base uint32) (err error) {
	k.Alone(func() { err = k.ctx.Unregister(base) })
	return err
}

// Withdraw ends the use of the segment at once, even if the card needs it. Transfers that the card
// may still read from it come back (arctic.ReasonSource). Their receiver gets at most parts of
// their data, and no notice. Withdraw returns engine.ErrSegmentBusy while a transfer that has
// arrived waits to be written, perhaps there.
func (k *Card) Withdraw(base uint32) (err error) {
	k.Alone(func() { err = k.ctx.Withdraw(base) })
	return err
}
