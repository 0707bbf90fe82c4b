package card

// This file is the card's segments.

import "github.com/funet/funet/uspace/funi"

// Register lets the card use memory of the process as source or destination of
// transfers. Errors are those of funi.Segments.
func (k *Card) Register(s funi.Segment) error { return k.ctx.Register(s) }

// Unregister ends that; it returns engine.ErrSegmentBusy while the card needs it.
func (k *Card) Unregister(base uint32) error { return k.ctx.Unregister(base) }
