package daemon

// This file has the groups take turns (package turns) on a card that has room for few of them among
// many. The profile's figure card.contexts is how many groups are on the card at once.
//
// Packets for a group that is out wait at their senders, who try again; its own stay in the engine.

import (
	"errors"

	"github.com/funet/funet/uspace/engine"
)

// turn is a context as package turns switches it.
type turn struct {
	card *engine.Card
	*attachment
}

// Out takes the context off the card, and reports false as long as that has to wait.
func (t turn) Out(unacknowledged bool) bool {
	if t.saved != nil {
		return true
	}
	saved, err := t.card.SwitchOut(t.ctx, unacknowledged)
	if errors.Is(err, engine.ErrNotReady) {
		return false
	}
	if err == nil {
		saved.Live = true
		t.saved = saved
		t.active.Store(false)
	}
	return true
}

// In puts the context back. The cache has a set for each context, so the engine accepts it.
func (t turn) In() {
	if t.saved != nil && t.card.SwitchIn(t.saved) == nil {
		t.saved = nil
		t.active.Store(true)
	}
}

// Waits reports whether the context has something to do on the card.
func (t turn) Waits() bool {
	if t.saved == nil {
		return !t.ctx.Idle()
	}
	return t.saved.Waits()
}

// Moved returns how many packets the context has moved.
func (t turn) Moved() uint64 {
	n := t.ctx.Traffic()
	return n.Sent + n.Received + n.Returned
}
