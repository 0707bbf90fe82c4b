package engine_test

// This file holds what operations on windows are refused, forged answers, and what a window that
// ends leaves.

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// Rule: what a window does not permit completes with the reason, and changes nothing anywhere.
func TestOperationsAreRefused(t *testing.T) {
	onTimedToo(t, func(t *testing.T, tune func(*engine.Config)) {
		const locked, words, writeOnly, odd = 0x2222_0000_0001, 0x3333_0000_0002, 0x4444_0000_0004, 0x5555_0000_0006
		r := newRemoteBed(t, setup{tune: tune, cards: 3, remote: moreRemote, net: near})
		r.exposes(1, funi.Window{Key: theKey, Bytes: 64, Address: windowAt, Rights: allRights &^ funi.RightNotify})
		r.exposes(1, funi.Window{Key: locked, Base: 128, Bytes: 64, Rights: allRights})
		r.exposes(1, funi.Window{Key: words, Base: 256, Bytes: 64, Rights: funi.RightRead})
		r.exposes(1, funi.Window{Key: writeOnly, Base: 384, Bytes: 64, Rights: funi.RightWrite})
		r.exposes(1, funi.Window{Key: odd, Base: 513, Bytes: 3, Rights: allRights})
		lock := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteLock, Key: locked, Ack: true,
			Operands: []byte{1, 2, 3, 4}}}
		if n := r.completes(2, 1, lock); n.Reason != arctic.ReasonNone {
			t.Fatalf("locking: %v", n.Reason)
		}
		before := [][]byte{bytes.Clone(r.keyed[0]), bytes.Clone(r.keyed[1])}
		op := func(key, address uint64, change func(*funi.Operation)) funi.Operation {
			o := operation(arctic.RemoteAdd, address, 1)
			o.Key = key
			if change != nil {
				change(&o)
			}
			return o
		}
		put := func(o *funi.Operation) {
			o.WindowRequest = arctic.WindowRequest{Operation: arctic.RemotePut, Key: o.Key, Address: o.Address,
				Bytes: 8, Operands: make([]byte, 8), Ack: true}
		}
		get := func(n int) func(*funi.Operation) {
			return func(o *funi.Operation) {
				o.WindowRequest, o.Source, o.Length = arctic.WindowRequest{Operation: arctic.RemoteGet, Key: o.Key,
					Address: o.Address}, keyedAt, n
			}
		}
		typed := func(what arctic.Operation, e arctic.Element, n, operands int) func(*funi.Operation) {
			return func(o *funi.Operation) {
				o.Operation, o.Element, o.Bytes, o.Operands, o.Fetch = what, e, n, make([]byte, operands),
					what != arctic.RemoteRead
			}
		}
		for name, c := range map[string]struct {
			o    funi.Operation
			want arctic.Reason
		}{
			"a neighbour's key":         {op(otherKey, windowAt, nil), arctic.ReasonKeySlot},
			"a guessed key":             {op(theKey^1<<40, windowAt, nil), arctic.ReasonKeySlot},
			"a key beyond the table":    {op(theKey|1<<15, windowAt, nil), arctic.ReasonKeySlot},
			"before the window":         {op(theKey, windowAt-8, nil), arctic.ReasonRange},
			"behind it":                 {op(theKey, windowAt+64, nil), arctic.ReasonRange},
			"across its end":            {op(theKey, windowAt+60, nil), arctic.ReasonRange},
			"the last address":          {op(theKey, arctic.MaxAddress-7, nil), arctic.ReasonRange},
			"address 0":                 {op(theKey, 0, nil), arctic.ReasonRange},
			"a long get across its end": {op(theKey, windowAt+32, get(1000)), arctic.ReasonRange},
			"misaligned":                {op(theKey, windowAt+4, nil), arctic.ReasonAlignment},
			"bytes without their word": {op(odd, 0, typed(arctic.RemoteAdd, arctic.Uint8, 1, 1)),
				arctic.ReasonAlignment},
			"a type that there is not": {op(theKey, windowAt, typed(arctic.RemoteAdd, arctic.Elements, 8, 8)),
				arctic.ReasonOperation},
			"bits of a float": {op(theKey, windowAt, typed(arctic.RemoteXor, arctic.Float64, 8, 8)),
				arctic.ReasonOperation},
			"no element": {op(theKey, windowAt, typed(arctic.RemoteAdd, arctic.Uint64, 0, 0)),
				arctic.ReasonOperation},
			"five elements": {op(theKey, windowAt, typed(arctic.RemoteAdd, arctic.Uint32, 20, 20)),
				arctic.ReasonOperation},
			"half an element": {op(theKey, windowAt, typed(arctic.RemoteAdd, arctic.Uint64, 12, 12)),
				arctic.ReasonOperation},
			"two compare-and-swaps": {op(theKey, windowAt, typed(arctic.RemoteCompareSwap, arctic.Uint64, 16, 32)),
				arctic.ReasonOperation},
			"reading where none may": {op(writeOnly, 0, typed(arctic.RemoteRead, arctic.Uint64, 8, 0)),
				arctic.ReasonRights},
			"getting where none may":    {op(writeOnly, 0, get(8)), arctic.ReasonRights},
			"adding where none may":     {op(writeOnly, 0, nil), arctic.ReasonRights},
			"putting where none may":    {op(words, 0, put), arctic.ReasonRights},
			"a put to a locked window":  {op(locked, 0, put), arctic.ReasonLocked},
			"an add to a locked window": {op(locked, 0, nil), arctic.ReasonLocked},
			"a get of a locked window":  {op(locked, 0, get(8)), arctic.ReasonLocked},
			"locking a locked window":   {op(locked, 0, func(o *funi.Operation) { *o = lock }), arctic.ReasonLocked},
			"unlocking another's": {op(locked, 0, func(o *funi.Operation) {
				*o = lock
				o.Operation = arctic.RemoteUnlock
			}), arctic.ReasonLocked},
			"notifying where none may": {op(theKey, windowAt, func(o *funi.Operation) {
				put(o)
				o.Trailer.Notify = true
			}), arctic.ReasonRights},
			"a signal with a wrong key": {op(theKey, windowAt, func(o *funi.Operation) {
				put(o)
				o.Trailer.Add = true
			}), arctic.ReasonKeySlot},
			"a signal that may not be": {op(theKey, windowAt, func(o *funi.Operation) {
				put(o)
				o.Trailer = arctic.Trailer{Set: true, Key: words}
			}), arctic.ReasonRights},
			"a signal behind the window": {op(theKey, windowAt, func(o *funi.Operation) {
				put(o)
				o.Trailer = arctic.Trailer{Set: true, Key: theKey, Address: windowAt + 64}
			}), arctic.ReasonRange},
			"a signal that is not aligned": {op(theKey, windowAt, func(o *funi.Operation) {
				put(o)
				o.Trailer = arctic.Trailer{Set: true, Key: theKey, Address: windowAt + 4}
			}), arctic.ReasonAlignment},
			"a signal in a locked window": {op(theKey, windowAt, func(o *funi.Operation) {
				put(o)
				o.Trailer = arctic.Trailer{Set: true, Key: locked}
			}), arctic.ReasonLocked},
		} {
			if n := r.completes(0, 1, c.o); n.Reason != c.want {
				t.Errorf("%s: %v, want %v", name, n.Reason, c.want)
			}
			if !bytes.Equal(before[0], r.keyed[0]) || !bytes.Equal(before[1], r.keyed[1]) {
				t.Fatalf("%s: memory changed", name)
			}
		}
		// Its owner may do all that, and ends the lock.
		lock.Operation = arctic.RemoteUnlock
		other := lock
		other.Operands = []byte{1, 2, 3, 5}
		if n := r.completes(2, 1, other); n.Reason != arctic.ReasonLocked {
			t.Errorf("unlocking by another life of the node: %v", n.Reason)
		}
		if n := r.completes(2, 1, lock); n.Reason != arctic.ReasonNone {
			t.Errorf("unlocking: %v", n.Reason)
		}
		if n := r.completes(0, 1, op(locked, 0, nil)); n.Reason != arctic.ReasonNone {
			t.Errorf("adding after that: %v", n.Reason)
		}
		r.ends()
	})
}

// Rule: a block that is none returns with its cookie and does nothing; one that asks for what the
// process has not got says so; and one more than the ring has entries for is refused, not held.
func TestOperationBlocksAreRefused(t *testing.T) {
	onTimedToo(t, func(t *testing.T, tune func(*engine.Config)) {
		r := newRemoteBed(t, setup{tune: tune, cards: 2,
			remote: funi.RemoteSizes{KeySlots: 8, Areas: 1, Notifications: 2}, net: near})
		add := operation(arctic.RemoteAdd, 0, 1)
		add.Cookie = 99
		for name, c := range map[string]struct {
			change func(s *funi.Slot)
			want   arctic.Reason
		}{
			"a flag that there is not": {func(s *funi.Slot) { s[1] |= 1 << 12 }, arctic.ReasonRemoteRequest},
			"a lock that counts": {func(s *funi.Slot) {
				s.SetHeader(1<<30 | funi.NewHeader(1, uint16(funi.Operate+funi.RemoteOperation(arctic.RemoteLock)), 0))
				s[1] = 1<<8 | 1<<11
			}, arctic.ReasonRemoteRequest},
			"an address of 49 bits":    {func(s *funi.Slot) { s[3] = 1 << 16 }, arctic.ReasonRemoteRequest},
			"a word that must be 0":    {func(s *funi.Slot) { s[7] = 1 }, arctic.ReasonRemoteRequest},
			"a count":                  {func(s *funi.Slot) { s[11] = 1 }, arctic.ReasonRemoteRequest},
			"operands beyond a packet": {func(s *funi.Slot) { s[10] = 36 }, arctic.ReasonOperand},
			"operands in memory":       {func(s *funi.Slot) { s[8] = sources }, arctic.ReasonOperand},
			"a trailer of an add":      {func(s *funi.Slot) { s[1] |= 3 << 4; s[12] = 1 }, arctic.ReasonOperand},
			"an operation beyond them": {func(s *funi.Slot) {
				s.SetHeader(1<<30 | funi.NewHeader(1, uint16(funi.Operate)+16, 0))
			}, arctic.ReasonRemoteRequest},
			"a put beyond a packet": {func(s *funi.Slot) {
				s.SetHeader(1<<30 | funi.NewHeader(1, uint16(funi.Operate), 0))
				s[10] = 65
			}, arctic.ReasonOperand},
			"a put with half a trailer": {func(s *funi.Slot) {
				s.SetHeader(1<<30 | funi.NewHeader(1, uint16(funi.Operate), 0))
				s[1] |= 4 << 4
				s[12] = 1
			}, arctic.ReasonOperand},
			"a put of another's memory": {func(s *funi.Slot) {
				s.SetHeader(1<<30 | funi.NewHeader(1, uint16(funi.Operate), 0))
				s[8] = 0x100
			}, arctic.ReasonSource},
			"a get to where none may": {func(s *funi.Slot) {
				s.SetHeader(1<<30 | funi.NewHeader(1, uint16(funi.Operate)+1, 0))
				s[8] = sources
			}, arctic.ReasonWindow},
			"a get to another's memory": {func(s *funi.Slot) {
				s.SetHeader(1<<30 | funi.NewHeader(1, uint16(funi.Operate)+1, 0))
				s[8] = 0x100
			}, arctic.ReasonWindow},
			"a get that no entry has": {func(s *funi.Slot) {
				s.SetHeader(1<<30 | funi.NewHeader(1, uint16(funi.Operate)+1, 0))
				s[10] = 33
			}, arctic.ReasonOperand},
			"a window beyond 48 bits": {func(s *funi.Slot) {
				s.SetOpenWindow(&funi.Window{Key: 1, Base: keyedAt, Bytes: 16, Address: arctic.MaxAddress - 14,
					Rights: 1}, 99)
			}, arctic.ReasonNotOpened},
			"a window without rights": {func(s *funi.Slot) {
				s.SetOpenWindow(&funi.Window{Key: 1, Base: keyedAt, Bytes: 16, Credit: 1}, 99)
			}, arctic.ReasonNotOpened},
			"rights that there are not": {func(s *funi.Slot) {
				s.SetOpenWindow(&funi.Window{Key: 1, Base: keyedAt, Bytes: 16, Rights: 16}, 99)
			}, arctic.ReasonNotOpened},
			"credit that nobody can use": {func(s *funi.Slot) {
				s.SetOpenWindow(&funi.Window{Key: 1, Base: keyedAt, Bytes: 16, Rights: 1, Credit: 1}, 99)
			}, arctic.ReasonNotOpened},
			"credit beyond the ring": {func(s *funi.Slot) {
				s.SetOpenWindow(&funi.Window{Key: 1, Base: keyedAt, Bytes: 16, Rights: 8, Credit: 3}, 99)
			}, arctic.ReasonNotOpened},
			"counts in no segment": {func(s *funi.Slot) {
				s.SetOpenWindow(&funi.Window{Key: 1, Base: keyedAt, Bytes: 16, Rights: 1, Counts: 0x100}, 99)
			}, arctic.ReasonNotOpened},
			"counts in a segment that is not keyed": {func(s *funi.Slot) {
				s.SetOpenWindow(&funi.Window{Key: 1, Base: keyedAt, Bytes: 16, Rights: 1, Counts: sources}, 99)
			}, arctic.ReasonNotOpened},
			"counts that are not aligned": {func(s *funi.Slot) {
				s.SetOpenWindow(&funi.Window{Key: 1, Base: keyedAt, Bytes: 16, Rights: 1, Counts: keyedAt + 4}, 99)
			}, arctic.ReasonNotOpened},
			"counts at no address": {func(s *funi.Slot) {
				s.SetOpenWindow(&funi.Window{Key: 1, Base: keyedAt, Bytes: 16, Rights: 1, Counts: keyedAt}, 99)
				s[14] = 0
			}, arctic.ReasonNotOpened},
			"suspending what is not": {func(s *funi.Slot) { s.SetSuspendWindow(theKey, 99) }, arctic.ReasonNotOpened},
		} {
			r.block(0, funi.Request, func(s *funi.Slot) { s.SetOperation(1, &add); c.change(s) })
			var got funi.Returned
			r.until(time.Second, name, func() (ok bool) { got, ok = r.proc[0].NextReturn(); return ok })
			if got.Reason != c.want || got.Word != 99 {
				t.Errorf("%s: %v and %d, want %v and 99", name, got.Reason, got.Word, c.want)
			}
		}
		// Two are under way or unread, the third comes back, and after one was read there is room.
		r.exposes(1, funi.Window{Key: theKey, Bytes: 64, Rights: allRights})
		for range 2 {
			r.asks(0, 1, add)
		}
		r.asks(0, 1, add)
		var got funi.Returned
		r.until(time.Second, "the third comes back", func() (ok bool) { got, ok = r.proc[0].NextReturn(); return ok })
		if got.Reason != arctic.ReasonNoBuffer {
			t.Errorf("one more than there are entries: %v", got.Reason)
		}
		r.notified(0)
		r.asks(0, 1, add)
		r.notified(0)
		r.notified(0)
		if v := binary.LittleEndian.Uint64(r.keyed[1]) - binary.LittleEndian.Uint64(before(102)); v != 3 {
			t.Errorf("%d were carried out, want 3", v)
		}
		r.ends()
	})
}

// before is what fill has put into the first bytes of a node's keyed segment.
func before(seed uint32) []byte {
	b := make([]byte, keyedSize)
	fill(b, seed)
	return b
}

// Rule: an operation on a window that is suspended waits at its sender and is carried out when the
// window is back; whoever had locked it has it no more.
func TestSuspendedWindow(t *testing.T) {
	onTimedToo(t, func(t *testing.T, tune func(*engine.Config)) {
		r := newRemoteBed(t, setup{tune: tune, cards: 3, remote: moreRemote, net: near})
		r.exposes(1, funi.Window{Key: theKey, Bytes: 64, Rights: allRights})
		copy(r.keyed[1], word(5))
		lock := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteLock, Key: theKey, Ack: true,
			Operands: make([]byte, 4)}}
		r.completes(2, 1, lock)
		r.block(1, funi.Request, func(s *funi.Slot) { s.SetSuspendWindow(theKey, 0) })
		r.retired(1)
		r.asks(0, 1, operation(arctic.RemoteAdd, 0, 1))
		r.silent(0)
		r.block(1, funi.Request, func(s *funi.Slot) { s.SetResumeWindow(theKey, 0) })
		r.retired(1)
		if n := r.notified(0); n.Reason != arctic.ReasonNone || binary.LittleEndian.Uint64(n.Answer[:]) != 5 {
			t.Errorf("after it is back: %+v", n)
		}
		r.ends()
	})
}

// Rule: where all lines for answers are in use an operation is rejected for now, and nothing of it
// was done: it is carried out once, later (section 2: no line, transient Busy, nothing executed).
func TestBusyWindow(t *testing.T) {
	onTimedToo(t, func(t *testing.T, tune func(*engine.Config)) {
		r := newRemoteBed(t, setup{tune: tune, cards: 2, slots: 256,
			remote: funi.RemoteSizes{KeySlots: 8, Areas: 1, Notifications: 256}, net: near})
		r.exposes(1, funi.Window{Key: theKey, Bytes: 64, Rights: allRights})
		copy(r.keyed[1], word(0))
		r.completes(0, 1, operation(arctic.RemoteRead, 0))
		r.net.Cut(func(from, _ [6]byte) bool { return from == address(1) })
		const adds = 100
		for range adds {
			r.asks(0, 1, operation(arctic.RemoteAdd, 0, 1))
		}
		r.pass(5 * time.Millisecond)
		if v := binary.LittleEndian.Uint64(r.keyed[1]); v > 64 {
			t.Errorf("%d adds were carried out with 64 lines for answers", v)
		}
		r.net.Cut(nil)
		seen := map[uint64]bool{}
		for range adds {
			n := r.notified(0)
			v := binary.LittleEndian.Uint64(n.Answer[:])
			if n.Reason != arctic.ReasonNone || seen[v] {
				t.Fatalf("%+v, seen before: %v", n, seen[v])
			}
			seen[v] = true
		}
		if v := binary.LittleEndian.Uint64(r.keyed[1]); v != adds {
			t.Errorf("%d adds were carried out, want %d", v, adds)
		}
		r.ends()
	})
}

// Rule: a put with a notification waits at its sender while the window's credit is used up, and
// nothing of its last packet is written before.
func TestWindowCredit(t *testing.T) {
	onTimedToo(t, func(t *testing.T, tune func(*engine.Config)) {
		r := newRemoteBed(t, setup{tune: tune, cards: 2, remote: moreRemote, net: near})
		r.exposes(1, funi.Window{Key: theKey, Bytes: 64, Rights: allRights, Credit: 2})
		for i := range uint64(3) {
			r.asks(0, 1, funi.Operation{WindowRequest: arctic.WindowRequest{Key: theKey, Address: 8 * i, Bytes: 8,
				Operands: word(i + 1), Trailer: arctic.Trailer{Notify: true, Tag: i}}})
		}
		r.pass(20 * time.Millisecond)
		if v := binary.LittleEndian.Uint64(r.keyed[1][16:]); v == 3 {
			t.Error("the third is written, though two notifications are unread")
		}
		for i := range uint64(3) {
			if n := r.notified(1); n.Tag != i || binary.LittleEndian.Uint64(r.keyed[1][8*i:]) != i+1 {
				t.Errorf("notification %d: %+v", i, n)
			}
		}
		r.ends()
	})
}

// Rule: silent operations are counted and not told; one that fails is told.
func TestSilentOperations(t *testing.T) {
	onTimedToo(t, func(t *testing.T, tune func(*engine.Config)) {
		r := newRemoteBed(t, setup{tune: tune, cards: 2, remote: moreRemote, net: near})
		r.exposes(1, funi.Window{Key: theKey, Bytes: 64, Rights: allRights})
		o := operation(arctic.RemoteAdd, 0, 1)
		o.Silent = true
		for range 5 {
			r.asks(0, 1, o)
		}
		r.until(time.Second, "all are complete", func() bool { return r.proc[0].Completed() == 5 })
		r.silent(0)
		o.Address = 64
		if n := r.completes(0, 1, o); n.Reason != arctic.ReasonRange {
			t.Errorf("one that fails: %+v", n)
		}
		r.ends()
	})
}

// Rule: after a window is closed no byte of its memory is read for answers that are under way: what
// they had they bring.
func TestAnswersKeepWhatTheyHad(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, net: near})
	r.exposes(1, funi.Window{Key: theKey, Bytes: 32768, Rights: allRights})
	had := bytes.Clone(r.keyed[1][:8192])
	r.completes(0, 1, operation(arctic.RemoteRead, 0)) // they know each other
	r.net.Cut(func(from, _ [6]byte) bool { return from == address(1) })
	r.asks(0, 1, funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet, Key: theKey},
		Source: keyedAt, Length: 8192})
	r.pass(time.Millisecond)
	r.block(1, funi.Request, func(s *funi.Slot) { s.SetCloseKeySlot(theKey, 0) })
	r.retired(1)
	clear(r.keyed[1])
	r.net.Cut(nil)
	n := r.notified(0)
	if n.Reason != arctic.ReasonNone || !bytes.Equal(r.keyed[0][:8192], had) {
		t.Errorf("%v; what was there came: %v", n.Reason, bytes.Equal(r.keyed[0][:8192], had))
	}
	r.ends()
}

// Rule: an answer is taken from the node that was asked, for a request that is open, and no more
// than it asked for. Other answers are refused with the reason and change nothing (section 2: a
// response must match node and generation).
func TestForgedAnswers(t *testing.T) {
	var rejects []arctic.Reject
	r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, net: near, wrap: watchRejects(0, &rejects),
		route: []uint32{0, 1, 1}})
	r.exposes(1, funi.Window{Key: theKey, Bytes: 64, Rights: allRights})
	r.completes(0, 1, operation(arctic.RemoteRead, 0))
	r.block(1, funi.Request, func(s *funi.Slot) { s.SetSuspendWindow(theKey, 0) })
	r.retired(1)
	r.asks(0, 1, funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet, Key: theKey},
		Source: keyedAt, Length: 16, Cookie: 3})
	r.pass(time.Millisecond)
	memory := bytes.Clone(r.keyed[0])
	// The first record has been used once, and is in use again. Another was never used.
	id := r.ctx[0].RequestID(0)
	for name, c := range map[string]struct {
		source uint16
		a      arctic.Response
		level  arctic.Level
		want   arctic.Reason
	}{
		"from another node": {2, arctic.Response{ID: id, Data: make([]byte, 16)}, arctic.Reply,
			arctic.ReasonPath},
		"of another generation": {1, arctic.Response{ID: id - 1<<16, Data: make([]byte, 16)}, arctic.Reply,
			arctic.ReasonRequest},
		"to a record that is free": {1, arctic.Response{ID: r.ctx[0].RequestID(5), Data: make([]byte, 16)},
			arctic.Reply, arctic.ReasonRequest},
		"beyond the table": {1, arctic.Response{ID: id + 4000, Data: make([]byte, 16)}, arctic.Reply,
			arctic.ReasonRequest},
		"longer than was asked": {1, arctic.Response{ID: id, Data: make([]byte, 17)}, arctic.Reply,
			arctic.ReasonPosted},
		"behind what was asked": {1, arctic.Response{ID: id, Offset: 1, Data: make([]byte, 16)}, arctic.Reply,
			arctic.ReasonPosted},
		"an offset that wraps": {1, arctic.Response{ID: id, Offset: 1<<32 - 8, Data: make([]byte, 16)},
			arctic.Reply, arctic.ReasonPosted},
		"a request": {1, arctic.Response{ID: id, Data: make([]byte, 16)}, arctic.Request,
			arctic.ReasonRemoteForm},
		"a block without one": {1, arctic.Response{ID: id, Block: true}, arctic.Reply, arctic.ReasonRemoteForm},
	} {
		rejects = nil
		sequence := r.cards[1].Link().Sequence(0, c.level)
		h := arctic.Header{To: address(0), From: address(1), GID: gid, SourceCard: 1, Epoch: presentEpoch, Tag: jobTag,
			Level: c.level, Sequence: sequence}
		b := make([]byte, 1514)
		h.Encode(b)
		p := make([]byte, arctic.MaxPacketSize)
		n := arctic.PutResponse(p[arctic.PacketHeaderSize:], &c.a)
		wire := arctic.PacketHeader{Level: c.level, Kind: arctic.KindResponse, GID: gid, Length: uint8(n),
			Type: c.a.Type(), Source: c.source}
		wire.Encode(p)
		n = arctic.PutPacket(b, arctic.HeaderSize, p[:arctic.PacketHeaderSize+n*arctic.WordSize])
		arctic.Seal(b, n)
		r.inject(b[:n])
		r.pass(time.Millisecond)
		if len(rejects) != 1 || rejects[0].Reason != c.want || rejects[0].Sequence != sequence {
			t.Errorf("%s: rejects %+v, want one of %d for %v", name, rejects, sequence, c.want)
		}
		if !bytes.Equal(memory, r.keyed[0]) {
			t.Fatalf("%s: memory changed", name)
		}
		r.resynchronised()
	}
}

// resynchronised lets card 1 send something in place of what was forged in its name.
func (r *remoteBed) resynchronised() {
	r.t.Helper()
	for _, l := range arctic.ByPriority {
		r.mustSend(1, l, 0, 1)
		r.pass(time.Millisecond)
		for _, ok := take(r.proc[0], l); ok; _, ok = take(r.proc[0], l) {
		}
	}
}

// Rule: an operation whose answer is owed and does not come is given up PeerTimeout after its
// packet was accepted, and says so. An answer that comes later is to no request.
func TestAnswersThatDoNotCome(t *testing.T) {
	lost, rejects := true, []arctic.Reject(nil)
	r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, net: near,
		tune: func(c *engine.Config) {
			if c.Card == 0 {
				c.PeerTimeout = 50 * time.Millisecond
			}
		},
		wrap: func(card int, p *wire.Port) port.Port {
			if card == 0 {
				return watchRejects(0, &rejects)(0, p)
			}
			return &tap{Port: p, see: func(b []byte) bool {
				f, err := arctic.Parse(b)
				if err != nil || f.Packets() == 0 {
					return true
				}
				first, _ := arctic.Next(f.Train())
				return !lost || !first.IsResponse()
			}}
		}})
	lost = false
	r.exposes(1, funi.Window{Key: theKey, Bytes: 64, Rights: allRights})
	r.completes(0, 1, operation(arctic.RemoteRead, 0))
	lost = true
	r.asks(0, 1, operation(arctic.RemoteAdd, 0, 1))
	began := r.now
	if n := r.notified(0); n.Reason != arctic.ReasonSilent || r.now-began < int64(50*time.Millisecond) {
		t.Errorf("after %v: %+v", time.Duration(r.now-began), n)
	}
	lost = false
	r.until(time.Minute, "the answer comes back", func() bool { return r.cards[1].Counters().AnswersReturned == 1 })
	if len(rejects) == 0 || rejects[0].Reason != arctic.ReasonRequest {
		t.Errorf("what came later: %+v", rejects)
	}
	r.silent(0)
	r.ends()
}

// Rule: what is complete while the context is switched out is told when it is back, once; what is
// owed to it then comes.
func TestCompletionsWhileAway(t *testing.T) {
	onTimedToo(t, func(t *testing.T, tune func(*engine.Config)) {
		r := newRemoteBed(t, setup{tune: tune, cards: 2, remote: moreRemote, net: near})
		r.exposes(1, funi.Window{Key: theKey, Bytes: 64, Rights: allRights})
		r.completes(0, 1, operation(arctic.RemoteRead, 0))
		r.net.Cut(func(from, _ [6]byte) bool { return from == address(1) })
		r.asks(0, 1, funi.Operation{WindowRequest: arctic.WindowRequest{Key: theKey, Ack: true}})
		r.asks(0, 1, operation(arctic.RemoteRead, 0))
		r.pass(time.Millisecond)
		var s *engine.Saved
		r.until(time.Second, "it is out", func() (ok bool) {
			var err error
			s, err = r.cards[0].SwitchOut(r.ctx[0], true) // the acknowledgments come later
			return err == nil
		})
		r.net.Cut(nil)
		r.pass(100 * time.Millisecond)
		if n := r.cards[0].Counters().Completions; n != 2 { // the read before, and the put
			t.Errorf("%d operations are complete while the context is out, want 2", n)
		}
		if n := (funi.Notification{}); r.proc[0].NextNotification(&n) {
			t.Fatalf("the card wrote to a process that is out: %+v", n)
		}
		if err := r.cards[0].SwitchIn(s); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if n := r.notified(0); n.Reason != arctic.ReasonNone {
				t.Errorf("%+v", n)
			}
		}
		r.silent(0)
		r.ends()
	})
}
