package card

// This file is the card's segments.

import (
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// Register lets the card use memory of the process as source or destination of
// transfers. Errors are those of funi.Segments.
func (k *Card) Register(s funi.Segment) error { return k.ctx.Register(s) }

// Segment returns new memory of the process, all 0, and lets the card use it, as the client of
// a daemon does (package attach), whose memory is the daemon's.
func (k *Card) Segment(base uint32, bytes int, rights funi.Rights) ([]byte, error) {
	if bytes < 0 || uint64(bytes) > 1<<32 {
		return nil, fmt.Errorf("registering %d bytes at %#x: %w", bytes, base, funi.ErrSegment)
	}
	memory := make([]byte, bytes)
	if err := k.Register(funi.Segment{Base: base, Memory: memory, Rights: rights}); err != nil {
		return nil, err
	}
	return memory, nil
}

// Unregister ends that; it returns engine.ErrSegmentBusy while the card needs it.
func (k *Card) Unregister(base uint32) error { return k.ctx.Unregister(base) }
