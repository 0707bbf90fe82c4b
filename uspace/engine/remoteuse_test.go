package engine_test

import (
	"testing"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Rule: the owner of the card sees what each context has asked for, what of it is open, and how
// many packets were refused for each reason (remoteuse.go); a context that has asked for nothing
// says so.
func TestRemoteUse(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 3, slots: 64, net: near})
	use := func(want engine.RemoteUse) {
		t.Helper()
		want.KeySlots, want.Areas, want.Notifications = someRemote.KeySlots, someRemote.Areas, someRemote.Notifications
		if got, ok := r.ctx[1].Remote(); !ok || got != want {
			t.Fatalf("it is %+v, want %+v", got, want)
		}
	}
	use(engine.RemoteUse{})
	r.opens(1, theKey, 0, 64, 0)
	r.opens(1, otherKey, 64, 64)
	r.block(1, funi.Request, func(s *funi.Slot) { s.SetOpenArea(1, otherKey, 2, true, 0) })
	r.retired(1)
	is := engine.RemoteUse{KeySlotsOpen: 2, AreasOpen: 2, Credit: 3}
	use(is)
	for _, p := range []funi.Put{
		{Key: theKey + 1<<16}, {Key: theKey + 2<<16}, // wrong keys
		{Key: theKey, Offset: 65},              // beyond the end
		{Key: theKey, Area: 1, Counted: true},  // another's area
		{Key: theKey, Area: 99, Counted: true}, // none
		{Key: theKey, Counted: true}, {Key: otherKey, Area: 1, Counted: true}, {Key: otherKey, Area: 1, Counted: true},
		{Key: otherKey, Area: 1, Counted: true}, // no buffer
	} {
		r.put(0, 1, funi.Request, p)
		r.until(time.Second, "it has an answer", func() bool { return r.ctx[0].Idle() })
	}
	is.Notified, is.Unread = 3, 3
	is.Refused = engine.RemoteRefusals{KeySlot: 2, Range: 1, Area: 2, NoBuffer: 1}
	use(is)
	r.put(2, 1, funi.Request, funi.Put{Key: theKey, Counted: true})
	r.until(time.Second, "it finds no credit", func() bool { u, _ := r.ctx[1].Remote(); return u.Refused.NoCredit > 0 })
	for range 4 {
		r.notified(1)
	}
	u, _ := r.ctx[1].Remote()
	is.Notified, is.Unread, is.Refused.NoCredit = 4, 0, u.Refused.NoCredit
	r.block(1, funi.Request, func(s *funi.Slot) { s.SetCloseArea(1, 0) })
	r.block(1, funi.Request, func(s *funi.Slot) { s.SetCloseKeySlot(otherKey, 0) })
	r.retired(1)
	is.KeySlotsOpen, is.AreasOpen, is.Credit = 1, 1, 1
	use(is)
	if err := r.ctx[1].Unregister(keyedAt); err != nil {
		t.Fatal(err)
	}
	is.KeySlotsOpen = 0
	use(is)
	plain := newBed(t, setup{cards: 1, slots: 16})
	if u, ok := plain.ctx[0].Remote(); ok {
		t.Errorf("a context without remote memory has %+v", u)
	}
	r.ends()
}
