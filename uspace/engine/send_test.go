package engine_test

// This file holds the rules of messages whose receivers have named the memory for them (send.go,
// receive.go; Froening's thesis, sections 2.4.1, 4.1.5, 4.1.7 and 4.2.3 to 4.2.5): each arrives
// once with all of its bytes, where the receiver has said; what waits, what is cut, what is
// refused; and that the room of a ring neither overlaps nor leaks.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// ringAt is where rings, queues and buffers of these tests begin in the keyed segment.
const ringAt = 1024

var sendRemote = funi.RemoteSizes{KeySlots: 8, Areas: 4, Notifications: 128}

// receivesInto says where a node receives messages.
func (r *remoteBed) receivesInto(node int, o funi.Receive) {
	r.t.Helper()
	if o.Mode != funi.ReceiveFast {
		o.Base += keyedAt
	}
	if !o.Valid() {
		r.t.Fatalf("not valid: %+v", o)
	}
	r.block(node, funi.Request, func(s *funi.Slot) { s.SetOpenReceive(&o, 0) })
	r.retired(node)
}

// posts posts buffer number n, of bytes at an offset of the keyed segment, to the queue at ringAt.
func (r *remoteBed) posts(node int, n, at, size, queue uint32) {
	r.t.Helper()
	funi.PutPosted(r.keyed[node][ringAt:ringAt+queue], n, keyedAt+at, size)
	r.gives(node, 1)
}

func (r *remoteBed) gives(node int, n uint32) {
	r.t.Helper()
	r.block(node, funi.Reply, func(s *funi.Slot) { s.SetGiveReceive(n, 0) })
	r.until(time.Second, "the block is retired", func() bool { return r.proc[node].Unsent(funi.Reply) == 0 })
	if back, ok := r.proc[node].NextReturn(); ok {
		r.t.Fatalf("a block came back: %v", back.Reason)
	}
}

// sends sends bytes of the source segment, or those of Data.
func (r *remoteBed) sends(from, to int, o funi.SendRequest) {
	r.t.Helper()
	if !o.Valid() {
		r.t.Fatalf("not valid: %+v", o)
	}
	r.block(from, funi.Request, func(s *funi.Slot) { s.SetSend(uint16(to), &o) })
}

// fromSource is a message of bytes at an offset of the source segment that is completed.
func fromSource(at, size int) funi.SendRequest {
	return funi.SendRequest{UserTag: 0x1122334455667788, APITag: 0x99aabbcc, Source: sources + uint32(at), Length: size,
		Cookie: 5, Ack: true}
}

// message waits for a message at a node, and for its completion if from is not -1. It returns the
// notification and the completion.
func (r *remoteBed) message(from, node int) (n, done funi.Notification) {
	r.t.Helper()
	n.Kind, done.Kind = funi.NoteArea, funi.NoteArea
	r.until(time.Minute, "a message", func() bool {
		var m funi.Notification
		for r.proc[node].NextNotification(&m) {
			if m.Kind == funi.NoteCompletion {
				done = m
			} else {
				n = m
			}
		}
		if from >= 0 && from != node && r.proc[from].NextNotification(&m) {
			done = m
		}
		return n.Kind != funi.NoteArea && (from < 0 || done.Kind != funi.NoteArea)
	})
	return n, done
}

// bytesOf returns the bytes of a message as the notification says where they are.
func (r *remoteBed) bytesOf(node int, n *funi.Notification) []byte {
	m := &n.Message
	switch n.Kind {
	case funi.NoteFastReceive:
		return m.Data[:m.Bytes]
	case funi.NoteReceive:
		return r.keyed[node][ringAt+m.Offset*funi.ReceiveUnit:][:m.Bytes]
	}
	return r.keyed[node][m.Address-keyedAt:][:m.Stored]
}

func eachSend(t *testing.T, f func(t *testing.T, r *remoteBed, to int)) {
	for name, tune := range windowCards {
		for _, to := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s to %d", name, to), func(t *testing.T) {
				r := newRemoteBed(t, setup{cards: 2, remote: sendRemote, tune: tune})
				f(t, r, to)
				r.ends()
			})
		}
	}
}

// Rule: a message of any length arrives once with its tags and bytes: up to five words of 64 bits
// in its entry of the notification ring, longer ones in the receive ring at a multiple of 8 bytes
// (4.2.5). Its sender hears of it.
func TestSendToRing(t *testing.T) {
	eachSend(t, func(t *testing.T, r *remoteBed, to int) {
		ring := funi.NewRingReader(1 << 15)
		r.receivesInto(to, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 1 << 15, Credit: 4})
		for i, size := range []int{0, 1, 8, 39, 40, 41, 47, 48, 63, 64, 65, 500, 1400, 1500, 4096, 5001, 12000, 16384} {
			o := fromSource(i*3, size)
			r.sends(0, to, o)
			n, done := r.message(0, to)
			if done.Kind != funi.NoteCompletion || done.Operation != arctic.RemoteSend || done.Cookie != 5 ||
				done.Reason != arctic.ReasonNone {
				t.Fatalf("%d bytes complete with %+v", size, done)
			}
			kind := funi.NoteReceive
			if size <= arctic.MaxFastSend {
				kind = funi.NoteFastReceive
			}
			if n.Kind != kind || n.Source != 0 || n.Tag != o.UserTag || n.Message.APITag != o.APITag || int(n.Message.Bytes) !=
				size || n.Reason != arctic.ReasonNone {
				t.Fatalf("%d bytes: %+v", size, n)
			}
			if got := r.bytesOf(to, &n); !bytes.Equal(got, r.source[0][i*3:i*3+size]) {
				t.Fatalf("%d bytes arrive as %d others", size, len(got))
			}
			if kind == funi.NoteReceive {
				r.gives(to, ring.Done(&n.Message))
			}
		}
	})
}

// Rule: a message of up to five words of 64 bits is in the slot itself (4.2.3, fast send).
func TestFastSend(t *testing.T) {
	eachSend(t, func(t *testing.T, r *remoteBed, to int) {
		r.receivesInto(to, funi.Receive{Credit: 2})
		for size := range arctic.MaxFastSend + 1 {
			data := r.source[1][size : 2*size]
			r.sends(0, to, funi.SendRequest{UserTag: uint64(size), APITag: 3, Data: data})
			n, _ := r.message(-1, to)
			if n.Kind != funi.NoteFastReceive || n.Tag != uint64(size) || !bytes.Equal(r.bytesOf(to, &n), data) {
				t.Fatalf("%d bytes: %+v", size, n)
			}
		}
	})
}

// Rule: with posted buffers each longer message takes the next one, in the order in which they were
// posted (4.1.7). One that is longer than its buffer is cut: its receiver and its sender hear of it
// (table 4.2, ERR_POSTED_TRUNC).
func TestSendToPosted(t *testing.T) {
	eachSend(t, func(t *testing.T, r *remoteBed, to int) {
		const queue = 4 * funi.PostedBytes
		r.receivesInto(to, funi.Receive{Mode: funi.ReceivePosted, Base: ringAt, Bytes: queue, Credit: 4})
		for i, c := range []struct{ size, buffer int }{
			{41, 41}, {41, 100}, {100, 41}, {5000, 5000}, {5000, 4999}, {5000, 1}, {5000, 16}, {5000, 17}, {20000, 20000},
			{20000, 3000}, {20000, 19999}, {900, 7}} {
			at := 4096 + i // any address
			before := bytes.Clone(r.keyed[to])
			r.posts(to, uint32(i), uint32(at), uint32(c.buffer), queue)
			r.sends(0, to, fromSource(i, c.size))
			n, done := r.message(0, to)
			stored, want := min(c.size, c.buffer), arctic.ReasonNone
			if c.size > c.buffer {
				want = arctic.ReasonTruncated
			}
			if n.Kind != funi.NotePostedReceive || n.Message.Descriptor != uint32(i) || n.Message.Address != uint32(keyedAt+at) ||
				int(n.Message.Stored) != stored || int(n.Message.Bytes) != c.size || n.Reason != want || done.Reason != want {
				t.Fatalf("%+v: %+v, completed with %v", c, n, done.Reason)
			}
			if !bytes.Equal(r.keyed[to][at:at+stored], r.source[0][i:i+stored]) {
				t.Fatalf("%+v: other bytes", c)
			}
			if !bytes.Equal(before[at+stored:], r.keyed[to][at+stored:]) || !bytes.Equal(before[ringAt+queue:at],
				r.keyed[to][ringAt+queue:at]) {
				t.Fatalf("%+v: bytes beside the buffer have changed", c)
			}
		}
	})
}

// Rule: a message that is not completed tells its sender nothing if it arrives, and comes back if
// not (funi/send.go).
func TestSendUnasked(t *testing.T) {
	eachSend(t, func(t *testing.T, r *remoteBed, to int) {
		const queue = 4 * funi.PostedBytes
		r.receivesInto(to, funi.Receive{Mode: funi.ReceivePosted, Base: ringAt, Bytes: queue, Credit: 4})
		for i, size := range []int{30, 700, 9000} {
			for j, buffer := range []uint32{16000, 64} {
				if size > arctic.MaxFastSend {
					r.posts(to, uint32(2*i+j-2), 4096, buffer, queue)
				}
				o := fromSource(0, size)
				o.Ack = false
				r.sends(0, to, o)
				r.message(-1, to)
				r.idle(time.Minute)
				back, ok := r.proc[0].NextReturn()
				if cut := size > int(buffer); ok != cut || cut && (back.Reason != arctic.ReasonTruncated || back.Word != 5 ||
					back.Header.Operation() != funi.Send) {
					t.Fatalf("%d bytes into %d: returned %v, %+v", size, buffer, ok, back)
				}
				if n := (funi.Notification{}); r.proc[0].NextNotification(&n) {
					t.Fatalf("%d bytes: %+v", size, n)
				}
			}
		}
	})
}

// Rule: a silent message is completed by an entry only if it fails.
func TestSendSilent(t *testing.T) {
	eachSend(t, func(t *testing.T, r *remoteBed, to int) {
		r.receivesInto(to, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 4096, Credit: 4})
		for _, size := range []int{8, 800, 2000, 3000} {
			o := fromSource(0, size)
			o.Silent = true
			r.sends(0, to, o)
			if size <= 2048 {
				r.message(-1, to)
				r.idle(time.Minute)
				if n := (funi.Notification{}); r.proc[0].NextNotification(&n) {
					t.Fatalf("%d bytes: %+v", size, n)
				}
			} else if n := r.notified(0); n.Reason != arctic.ReasonNoBuffer {
				t.Fatalf("more than half of the ring: %v", n.Reason)
			}
			if size > arctic.MaxFastSend && size <= 2048 {
				r.gives(to, uint32(size+7)/8)
			}
		}
		if got := r.proc[0].Completed(); got != 4 {
			t.Fatalf("%d completed, want 4", got)
		}
	})
}

// Rule: a message for which there is no credit, no room or no buffer waits at its sender, and
// nothing of it has happened (receive.go).
func TestSendWaits(t *testing.T) {
	onTimedToo(t, func(t *testing.T, tune func(*engine.Config)) {
		r := newRemoteBed(t, setup{cards: 2, remote: sendRemote, tune: tune})
		r.receivesInto(1, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 1024, Credit: 2})
		ring := funi.NewRingReader(1024)
		var first [2]funi.Notification
		for i := range first {
			r.sends(0, 1, fromSource(i*8, 500)) // the second lies at 504
			first[i], _ = r.message(0, 1)
		}
		r.sends(0, 1, fromSource(16, 500))
		r.silent(1)
		if back, ok := r.proc[0].NextReturn(); ok {
			t.Fatalf("returned: %v", back.Reason)
		}
		if units := ring.Done(&first[1].Message); units != 0 {
			t.Fatalf("%d units can be given back before the first", units)
		}
		r.gives(1, ring.Done(&first[0].Message))
		n, _ := r.message(0, 1)
		if !bytes.Equal(r.bytesOf(1, &n), r.source[0][16:516]) {
			t.Fatal("other bytes")
		}
		r.gives(1, ring.Done(&n.Message))
		r.ends()
	})
}

// Rule: at most Credit messages are unread: a further one waits until the process reads
// (funi.Receive).
func TestSendCredit(t *testing.T) {
	onTimedToo(t, func(t *testing.T, tune func(*engine.Config)) {
		r := newRemoteBed(t, setup{cards: 2, remote: sendRemote, tune: tune})
		r.receivesInto(1, funi.Receive{Credit: 3})
		for i := range 5 {
			r.sends(0, 1, funi.SendRequest{UserTag: uint64(i), Data: []byte{byte(i)}})
		}
		r.pass(20 * time.Millisecond)
		seen := map[uint64]int{}
		for n := (funi.Notification{}); len(seen) < 3 && r.proc[1].NextNotification(&n); {
			seen[n.Tag]++
		}
		if len(seen) != 3 {
			t.Fatalf("%d messages before the first is read, want 3", len(seen))
		}
		r.until(time.Second, "the others", func() bool {
			for n := (funi.Notification{}); r.proc[1].NextNotification(&n); {
				seen[n.Tag]++
			}
			return len(seen) == 5
		})
		r.ends()
	})
}

// Rule: a process that receives nothing has messages wait for ConnectTimeout; then they are refused
// (receives).
func TestSendToNobody(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, remote: sendRemote,
		tune: func(c *engine.Config) { c.ConnectTimeout = 100 * time.Millisecond }})
	r.sends(0, 1, fromSource(0, 8))
	r.silent(0)
	if n := r.notified(0); n.Reason != arctic.ReasonNoBuffer {
		t.Fatalf("completed with %v", n.Reason)
	}
	r.receivesInto(1, funi.Receive{Credit: 1})
	r.sends(0, 1, fromSource(0, 8))
	if n, done := r.message(0, 1); n.Kind != funi.NoteFastReceive || done.Reason != arctic.ReasonNone {
		t.Fatalf("then: %+v, %v", n, done.Reason)
	}
	r.sends(0, 1, fromSource(0, 41))
	if n := r.notified(0); n.Reason != arctic.ReasonNoBuffer {
		t.Fatalf("a longer one without a ring: %v", n.Reason)
	}
	r.ends()
}

// Rule: the card checks what the process says of its ring: it gives back no more than is in use and
// read, posts no more than the queue holds, and opens only Keyed memory that its credit has entries
// for (openReceive, giveReceive).
func TestReceiveHostile(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, remote: sendRemote})
	refused := func(what string, compose func(*funi.Slot)) {
		t.Helper()
		r.block(1, funi.Request, compose)
		r.until(time.Second, what, func() bool { return r.proc[1].Unsent(funi.Request) == 0 })
		if back, ok := r.proc[1].NextReturn(); !ok || back.Reason != arctic.ReasonNotOpened {
			t.Fatalf("%s: returned %v, %v", what, ok, back.Reason)
		}
	}
	open := func(o funi.Receive) func(*funi.Slot) {
		return func(s *funi.Slot) { s.SetOpenReceive(&o, 0) }
	}
	give := func(n uint32) func(*funi.Slot) { return func(s *funi.Slot) { s.SetGiveReceive(n, 0) } }
	refused("giving without a ring", give(1))
	refused("closing without a ring", func(s *funi.Slot) { s.SetCloseReceive(0) })
	for _, o := range []funi.Receive{
		{Mode: funi.ReceiveRing, Base: sources, Bytes: 1024, Credit: 1},          // not Keyed
		{Mode: funi.ReceiveRing, Base: keyedAt + 4, Bytes: 1024, Credit: 1},      // not aligned
		{Mode: funi.ReceiveRing, Base: keyedAt, Bytes: 1000, Credit: 1},          // no power of two
		{Mode: funi.ReceiveRing, Base: keyedAt, Bytes: 32, Credit: 1},            // too short
		{Mode: funi.ReceiveRing, Base: keyedAt, Bytes: 2 * keyedSize, Credit: 1}, // beyond
		{Mode: funi.ReceiveRing, Base: keyedAt, Bytes: 1 << 31, Credit: 1},       // too long
		{Mode: funi.ReceiveRing, Base: keyedAt, Bytes: 1024},                     // no credit
		{Mode: funi.ReceiveRing, Base: keyedAt, Bytes: 1024, Credit: 129},        // no entries
		{Mode: funi.ReceivePosted, Base: keyedAt + 8, Bytes: 64, Credit: 1},      // not aligned
		{Mode: funi.ReceiveFast, Base: keyedAt, Credit: 1}, {Mode: 3, Credit: 1}, // no mode
		{Mode: funi.ReceivePosted, Base: keyedAt, Bytes: 2 << 20, Credit: 1 << 20}, // too long
		{Mode: funi.ReceivePosted, Base: keyedAt, Bytes: 8, Credit: 1},             // too short
		{Mode: funi.ReceivePosted, Base: 0xfffffff0, Bytes: 1 << 10, Credit: 1},    // wraps
	} {
		refused(fmt.Sprintf("%+v", o), open(o))
	}
	r.receivesInto(1, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 1024, Credit: 4})
	for _, n := range []uint32{0, 1, 127, 128, 1 << 24, 1<<32 - 1} {
		refused(fmt.Sprintf("giving %d units of none", n), give(n))
	}
	r.sends(0, 1, fromSource(0, 100))
	n, _ := r.message(0, 1)
	refused("giving more than the message has", give(14))
	r.gives(1, 13)
	refused("giving it twice", give(13))
	_ = n
	const queue = 4 * funi.PostedBytes
	r.receivesInto(1, funi.Receive{Mode: funi.ReceivePosted, Base: ringAt, Bytes: queue, Credit: 4})
	refused("posting five of four", give(5))
	wrong := r.keyed[1][ringAt : ringAt+queue]
	funi.PutPosted(wrong, 0, 64, 100)                     // in no segment
	funi.PutPosted(wrong, 1, keyedAt+keyedSize-10, 1<<20) // beyond its end
	funi.PutPosted(wrong, 2, sources, 100)                // not Keyed
	funi.PutPosted(wrong, 3, keyedAt+4096, 0)             // of no bytes
	r.gives(1, 4)
	refused("posting another", give(1))
	r.sends(0, 1, fromSource(0, 100))
	for i := range 4 {
		if n, _ := r.message(-1, 1); n.Kind != funi.NotePostedReceive || n.Reason != arctic.ReasonWindow ||
			n.Message.Descriptor != uint32(i) {
			t.Fatalf("descriptor %d: %+v", i, n)
		}
	}
	r.posts(1, 4, 4096, 100, queue)
	if n, done := r.message(0, 1); n.Reason != arctic.ReasonNone || done.Reason != arctic.ReasonNone ||
		n.Message.Descriptor != 4 {
		t.Fatalf("the message behind wrong descriptors: %+v, %v", n, done.Reason)
	}
	r.ends()
}

// Rule: a block of Send is checked as all blocks are (readSend): flags, level, lengths and source.
func TestSendHostile(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, remote: sendRemote})
	r.receivesInto(1, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 1024, Credit: 4})
	for _, c := range []struct {
		what   string
		level  funi.Level
		change func(*funi.Slot)
		reason arctic.Reason
	}{
		{"reply level", funi.Reply, func(*funi.Slot) {}, arctic.ReasonRemoteRequest},
		{"unknown flag", funi.Request, func(s *funi.Slot) { s[funi.RemoteAreaWord] |= 1 << 9 }, arctic.ReasonRemoteRequest},
		{"silent alone", funi.Request, func(s *funi.Slot) { s[funi.RemoteAreaWord] = 1 << 10 }, arctic.ReasonRemoteRequest},
		{"an offset", funi.Request, func(s *funi.Slot) { s[funi.RemoteOffsetWord] = 1 }, arctic.ReasonRemoteRequest},
		{"a count", funi.Request, func(s *funi.Slot) { s[funi.RemoteCountWord] = 1 }, arctic.ReasonRemoteRequest},
		{"payload words", funi.Request, func(s *funi.Slot) { s[0] |= 5 << 16 }, arctic.ReasonRemoteRequest},
		{"41 bytes in the slot", funi.Request, func(s *funi.Slot) {
			s[funi.RemoteSourceWord], s[funi.RemoteLengthWord] = 0, 41
		}, arctic.ReasonOperand},
		{"2^32-1 bytes in the slot", funi.Request, func(s *funi.Slot) {
			s[funi.RemoteSourceWord], s[funi.RemoteLengthWord] = 0, 1<<32-1
		}, arctic.ReasonOperand},
		{"too long", funi.Request, func(s *funi.Slot) { s[funi.RemoteLengthWord] = 1<<27 + 1 }, arctic.ReasonOperand},
		{"beyond the segment", funi.Request, func(s *funi.Slot) { s[funi.RemoteLengthWord] = keyedSize + 1 }, arctic.ReasonSource},
		{"not a source", funi.Request, func(s *funi.Slot) { s[funi.RemoteSourceWord] = keyedAt }, arctic.ReasonSource},
	} {
		o := fromSource(0, 100)
		r.block(0, c.level, func(s *funi.Slot) {
			s.SetSend(1, &o)
			c.change(s)
		})
		var back funi.Returned
		r.until(time.Second, c.what, func() (ok bool) { back, ok = r.proc[0].NextReturn(); return ok })
		if back.Reason != c.reason {
			t.Errorf("%s: %v, want %v", c.what, back.Reason, c.reason)
		}
	}
	r.silent(1)
	r.ends()
}

// Rule: a sender that dies in the middle of a message leaves an entry with a reason, so that the
// ring goes on (receive.go). What it had reserved can be given back.
func TestSenderDies(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, remote: sendRemote})
	r.receivesInto(1, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 1 << 15, Credit: 4})
	ring := funi.NewRingReader(1 << 15)
	r.sends(0, 1, fromSource(0, 16000))
	r.until(time.Second, "a reservation", func() bool { return r.ctx[1].Reservations() == 1 })
	r.cards[0].Detach(r.ctx[0])
	n, _ := r.message(-1, 1)
	if n.Kind != funi.NoteReceive || n.Reason != arctic.ReasonBroken || n.Message.Bytes != 16000 {
		t.Fatalf("%+v", n)
	}
	units := ring.Done(&n.Message)
	if units != 2000 {
		t.Fatalf("%d units can be given back, want 2000", units)
	}
	r.gives(1, units)
	if r.ctx[1].Reservations() != 0 {
		t.Fatal("a reservation is left")
	}
}

// Rule: closing, and withdrawing the memory, end messages that are under way: the process finds an
// entry, the sender hears of it, and no byte is written afterwards (closeReceive, receiveWithin).
func TestReceiveEnds(t *testing.T) {
	for _, how := range []string{"close", "withdraw"} {
		t.Run(how, func(t *testing.T) {
			r := newRemoteBed(t, setup{cards: 2, remote: sendRemote, net: near})
			r.receivesInto(1, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 1 << 15, Credit: 4})
			r.sends(0, 1, fromSource(0, 16000))
			r.until(time.Second, "a reservation", func() bool { return r.ctx[1].Reservations() == 1 })
			if how == "close" {
				r.block(1, funi.Request, func(s *funi.Slot) { s.SetCloseReceive(0) })
				r.retired(1)
			} else if err := r.ctx[1].Withdraw(keyedAt); err != nil {
				t.Fatal(err)
			}
			before := bytes.Clone(r.keyed[1])
			n, done := r.message(0, 1)
			if n.Reason != arctic.ReasonBroken || done.Reason != arctic.ReasonBroken {
				t.Fatalf("%+v, completed with %v", n, done.Reason)
			}
			r.idle(time.Minute)
			if !bytes.Equal(before, r.keyed[1]) {
				t.Fatal("bytes have changed afterwards")
			}
			r.ends()
		})
	}
}

// Rule: an XFER of messages over a network that loses, repeats, damages and disorders frames, into
// rings and posted buffers, delivers each once with its bytes; the ring's room never overlaps and
// all of it comes back (rules 3 and 4 of uspace/DESIGN.md).
func TestSendExactlyOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		faults := wire.Networks[rapid.SampledFrom([]string{"clean", "loss", "duplicate", "reorder", "corrupt",
			"all"}).Draw(rt, "network")]
		name := rapid.SampledFrom([]string{"blocks", "packets", "units"}).Draw(rt, "card")
		posted := rapid.Bool().Draw(rt, "posted")
		r := newRemoteBed(t, setup{cards: 2, remote: sendRemote, tune: windowCards[name], slots: 64,
			net: wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"), Delay: 10 * time.Microsecond, Faults: faults,
				MTU: rapid.SampledFrom([]int{1500, 9000}).Draw(rt, "mtu")}})
		to := rapid.IntRange(0, 1).Draw(rt, "to")
		const space, queue = 1 << 13, 8 * funi.PostedBytes
		if posted {
			r.receivesInto(to, funi.Receive{Mode: funi.ReceivePosted, Base: ringAt, Bytes: queue, Credit: 8})
		} else {
			r.receivesInto(to, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: space, Credit: 8})
		}
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(1000, 4000)), 1, 30).Draw(rt, "sizes")
		order := rapid.SliceOfN(rapid.IntRange(0, 3), len(sizes), len(sizes)).Draw(rt, "hold")
		ring := funi.NewRingReader(space)
		var held []funi.Notification
		sent, completed, posts := 0, 0, uint32(0)
		seen := make([]bool, len(sizes))
		used := make([]bool, space/8)
		mark := func(m *funi.Message, on bool) {
			for i := range (m.Bytes + 7) / 8 {
				if used[m.Offset+i] == on {
					rt.Fatalf("unit %d is given out twice: %+v", m.Offset+i, m)
				}
				used[m.Offset+i] = on
			}
		}
		read := func(n *funi.Notification) {
			i := int(n.Tag)
			if seen[i] || int(n.Message.Bytes) != sizes[i] || n.Source != 0 || n.Reason != arctic.ReasonNone {
				rt.Fatalf("message %d of %d bytes, seen %v: %+v", i, sizes[i], seen[i], n)
			}
			seen[i] = true
			if got := r.bytesOf(to, n); !bytes.Equal(got, r.source[0][i*8:i*8+sizes[i]]) {
				rt.Fatalf("message %d has other bytes", i)
			}
			if n.Kind == funi.NoteReceive {
				mark(&n.Message, true)
				held = append(held, *n)
			}
		}
		release := func(all bool) {
			for len(held) > 0 && (all || len(held) > order[sent%len(order)]) {
				m := held[len(held)-1].Message // the newest first
				held = held[:len(held)-1]
				mark(&m, false)
				if units := ring.Done(&m); units > 0 {
					r.gives(to, units)
				}
			}
		}
		free := []uint32{0, 1, 2, 3}
		where := map[uint32]uint32{}
		post := func() {
			for posted && len(free) > 0 {
				at := 4096 + free[0]*4096
				where[posts] = free[0]
				free = free[1:]
				r.posts(to, posts, at, 4096, queue)
				posts++
			}
		}
		post()
		stalls := 0
		r.until(time.Minute, "all messages", func() bool {
			for sent < len(sizes) && r.proc[0].Unsent(funi.Request) < 20 {
				o := fromSource(sent*8, sizes[sent])
				o.UserTag = uint64(sent)
				r.sends(0, to, o)
				sent++
			}
			var n funi.Notification
			before := len(held)
			for _, node := range []int{0, to} {
				for r.proc[node].NextNotification(&n) {
					switch {
					case n.Kind == funi.NoteCompletion:
						if n.Reason != arctic.ReasonNone {
							rt.Fatalf("completed with %v", n.Reason)
						}
						completed++
					default:
						read(&n)
						if n.Kind == funi.NotePostedReceive {
							free = append(free, where[n.Message.Descriptor])
							post()
						}
					}
				}
			}
			if stalls++; len(held) != before {
				stalls = 0
			}
			release(stalls > 3)
			return completed == len(sizes) && sent == len(sizes)
		})
		release(true)
		for i, ok := range seen {
			if !ok {
				rt.Fatalf("message %d was completed and has not arrived", i)
			}
		}
		r.ends()
		if u := ring; u.Done(&funi.Message{}) != 0 {
			rt.Fatal("room is missing")
		}
	})
}

// Rule: the answer to a message that asks for room comes from the node that was asked, once, and
// grants a part of the message (grants).
func TestForgedGrants(t *testing.T) {
	var a arctic.Response
	a.Data = binary.LittleEndian.AppendUint32(nil, 1)
	r := newRemoteBed(t, setup{cards: 3, remote: sendRemote})
	r.sends(0, 1, fromSource(0, 16000)) // which waits: node 1 receives nothing
	r.pass(time.Millisecond)
	for _, c := range []struct {
		from int
		data []byte
		want arctic.Reason
	}{{2, a.Data, arctic.ReasonPath}, {1, nil, arctic.ReasonPosted}, {1, []byte{0, 0, 0, 0}, arctic.ReasonPosted},
		{1, binary.LittleEndian.AppendUint32(nil, 16001), arctic.ReasonPosted}, {1, make([]byte, 8), arctic.ReasonPosted}} {
		before := r.cards[0].Counters().AnswersRefused
		x := r.ctx[c.from]
		r.cards[c.from].Say(x, 0, 0, arctic.Reply, arctic.KindResponse, (&arctic.Response{Data: c.data}).Type(),
			func(b []byte) int {
				return arctic.PutResponse(b, &arctic.Response{ID: uint32(r.cards[0].Generation()) << 16, Data: c.data})
			})
		r.pass(10 * time.Millisecond)
		if got := r.cards[0].Counters().AnswersRefused; got != before+1 {
			t.Errorf("answer %v of node %d: %d refused, want 1", c.data, c.from, got-before)
		}
	}
	for range 2 {
		r.proc[1].NextReturn() // what it has forged
		r.proc[1].NextReturn()
	}
	r.receivesInto(1, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 1 << 15, Credit: 1})
	if _, done := r.message(0, 1); done.Reason != arctic.ReasonNone {
		t.Fatalf("then: %v", done.Reason)
	}
}

// Rule: where a process receives goes along when it moves: the ring with messages in it, their
// unread entries, and the room that is left. A message that is on its way is given up, and both
// ends hear of it (image.go).
func TestMoveReceiver(t *testing.T) {
	r := newMoveBed(t, setup{cards: 3, remote: sendRemote, net: near})
	r.receivesInto(1, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 4096, Credit: 3})
	ring := funi.NewRingReader(4096)
	r.sends(0, 1, fromSource(0, 1600))
	r.sends(0, 1, fromSource(8, 10))
	r.until(time.Second, "both", func() bool { return r.proc[0].Completed() == 2 })
	r.moves(1, 1, 2)
	for range 2 {
		r.notified(0)
	}
	for range 2 {
		n := r.notified(1)
		if n.Kind == funi.NoteReceive {
			if !bytes.Equal(r.bytesOf(1, &n), r.source[0][:1600]) {
				t.Fatal("other bytes")
			}
			r.gives(1, ring.Done(&n.Message))
		}
	}
	for i := range 5 { // also across the ring's end
		r.sends(0, 1, fromSource(i, 1800))
		n, done := r.message(0, 1)
		if done.Reason != arctic.ReasonNone || !bytes.Equal(r.bytesOf(1, &n), r.source[0][i:i+1800]) {
			t.Fatalf("message %d after the move: %v", i, done.Reason)
		}
		r.gives(1, ring.Done(&n.Message))
	}
	r.ends()
}

// Rule: entries of messages that are unread when receiving has ended go along, too.
func TestMoveUnread(t *testing.T) {
	r := newMoveBed(t, setup{cards: 3, remote: sendRemote, net: near})
	r.receivesInto(1, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 4096, Credit: 3})
	r.sends(0, 1, fromSource(0, 100))
	r.until(time.Second, "it is there", func() bool { return r.proc[0].Completed() == 1 })
	r.block(1, funi.Request, func(s *funi.Slot) { s.SetCloseReceive(0) })
	r.retired(1)
	r.moves(1, 1, 2)
	r.notified(0)
	if n := r.notified(1); !bytes.Equal(r.bytesOf(1, &n), r.source[0][:100]) {
		t.Fatal("other bytes")
	}
	r.ends()
}

// Rule: a message under way to a process that moves is given up: both ends hear of it.
func TestMoveDuringSend(t *testing.T) {
	r := newMoveBed(t, setup{cards: 3, remote: sendRemote, net: wire.Config{Delay: 200 * time.Microsecond}})
	r.receivesInto(1, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 1 << 15, Credit: 3})
	r.sends(0, 1, fromSource(0, 16000))
	r.until(time.Second, "a reservation", func() bool { return r.ctx[1].Reservations() == 1 })
	r.moves(1, 1, 2)
	n, done := r.message(0, 1)
	if n.Reason != arctic.ReasonBroken || done.Reason != arctic.ReasonBroken {
		t.Fatalf("%v for the receiver, %v for the sender", n.Reason, done.Reason)
	}
	r.gives(1, 2000)
	r.ends()
}

// Rule: an image that says what no receiver has is refused (image.go).
func TestForgedReceivers(t *testing.T) {
	r := newMoveBed(t, setup{cards: 3, remote: sendRemote, net: near})
	r.receivesInto(1, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 4096, Credit: 3})
	r.sends(0, 1, fromSource(0, 100))
	r.until(time.Second, "it is there", func() bool { return r.proc[0].Completed() == 1 })
	m := &move{r: r, node: 1, from: 1, to: 2}
	r.until(time.Second, "it leaves", m.leaves)
	m.arrives()
	r.until(time.Second, "the new card has been told", func() bool { _, home := m.sign.Told(); return home })
	*r.mem[1].Page = m.page
	before := r.cards[2].Shown(m.next)
	at := len(m.image) - 24
	refuse := func(what string, image []byte) {
		t.Helper()
		if err := r.cards[2].Import(m.next, image); err == nil {
			t.Fatalf("%s: taken", what)
		}
		if after := r.cards[2].Shown(m.next); after != before {
			t.Fatalf("%s: the state was\n%s\nand is\n%s", what, before, after)
		}
	}
	for what, c := range map[string][2]uint32{ // the word and its value
		"no mode": {0, 3}, "no memory": {1, 64}, "not aligned": {1, keyedAt + 4}, "too long": {2, 1 << 20},
		"no power of two": {2, 3000}, "no credit": {3, 0}, "less credit than unread": {3, 0}, "more credit than the ring": {3, 1 << 20},
		"more in use than there is": {5, 1 << 10}, "read more than written": {4, 1 << 9},
	} {
		b := bytes.Clone(m.image)
		binary.LittleEndian.PutUint32(b[at+int(c[0])*4:], c[1])
		refuse(what, b)
	}
	refuse("a receiver less", m.image[:at])
	for i := at; i < len(m.image); i++ {
		refuse("part of a receiver", m.image[:i])
	}
	r.until(time.Second, "its own image", m.goesOn)
	if n, _ := r.message(-1, 1); !bytes.Equal(r.bytesOf(1, &n), r.source[0][:100]) {
		t.Fatal("other bytes")
	}
	r.gives(1, 13)
	r.ends()
}

// Rule: a message whose block goes in several frames, because ways carry less than when it was
// composed, arrives once and whole, and then its entry (link/limit.go). Its sender may also cut it
// up itself.
func TestSendOverWaysThatChange(t *testing.T) {
	voids := uint64(0)
	for seed := range uint64(20) {
		x := rand.New(rand.NewPCG(seed, 1))
		ways := [2]int{1 << 17, 1 << 17}
		net := wire.Config{Seed: seed, Delay: 10 * time.Microsecond, MTU: []int{1500, 9000, 65535}[seed%3]}
		if seed%2 == 1 {
			net.Faults = networks["all"]
		}
		r := newRemoteBed(t, setup{cards: 2, remote: sendRemote, slots: 64, net: net,
			tune: func(c *engine.Config) {
				c.RaiseAfter, c.MaxRTO = time.Duration(1+x.IntN(20))*time.Millisecond, 20*time.Millisecond
			},
			wrap: func(card int, p *wire.Port) port.Port {
				return &tap{Port: p, see: func(b []byte) bool { return len(b) <= ways[card] }}
			}})
		r.receivesInto(1, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 1 << 15, Credit: 8})
		ring := funi.NewRingReader(1 << 15)
		const messages = 120
		sent, arrived, completed, change := 0, 0, 0, int64(0)
		sizes := make([]int, messages)
		r.until(time.Minute, "all arrives", func() bool {
			if r.now >= change {
				change = r.now + x.Int64N(int64(4*time.Millisecond))
				card := x.IntN(2)
				ways[card] = 688 + x.IntN(10000)
				if r.alarm = change; x.IntN(3) > 0 {
					r.cards[card].SetLimit(uint16(1-card), []int{ways[card], x.IntN(12000)}[x.IntN(2)])
					r.wake[card] = r.now
				}
			}
			for sent < messages && r.proc[0].Unsent(funi.Request) < 4 {
				sizes[sent] = 41 + x.IntN(12000)
				o := fromSource(sent*16, sizes[sent])
				o.UserTag = uint64(sent)
				r.sends(0, 1, o)
				sent++
			}
			var n funi.Notification
			for r.proc[0].NextNotification(&n) {
				if completed++; n.Reason != arctic.ReasonNone {
					t.Fatalf("seed %d: completed with %v", seed, n.Reason)
				}
			}
			for r.proc[1].NextNotification(&n) {
				i := int(n.Tag)
				if n.Reason != arctic.ReasonNone || !bytes.Equal(r.bytesOf(1, &n), r.source[0][i*16:i*16+sizes[i]]) {
					t.Fatalf("seed %d: message %d of %d bytes: %v", seed, i, sizes[i], n.Reason)
				}
				arrived++
				if units := ring.Done(&n.Message); units > 0 {
					r.gives(1, units)
				}
			}
			return arrived == messages && completed == messages
		})
		r.alarm = 0
		r.ends()
		for _, c := range r.cards {
			voids += c.Counters().TooLong
		}
	}
	if voids < 60 {
		t.Errorf("%d frames were too long: nothing was tested", voids)
	}
}

// FuzzReceive: whatever packets of messages a node sends, and whatever the process that receives
// says of its ring, no byte beside the ring changes, and the card's books balance (receive.go).
func FuzzReceive(f *testing.F) {
	f.Add([]byte{0, 50, 1, 0, 2, 0, 1, 0, 3, 2, 1, 48, 5, 6, 0, 0})
	f.Add([]byte{1, 90, 1, 0, 2, 48, 1, 0, 2, 42, 1, 48, 3, 0, 1, 90, 4, 9, 0, 0, 5, 1, 1, 1, 6, 6, 6, 6})
	f.Fuzz(func(t *testing.T, script []byte) {
		r := newRemoteBed(t, setup{cards: 2, remote: sendRemote, slots: 64})
		const size = 512
		posted := len(script) > 0 && script[0]&1 != 0
		mode, queue := funi.ReceiveRing, r.keyed[0][ringAt:ringAt+size]
		if posted {
			mode = funi.ReceivePosted
		}
		r.receivesInto(0, funi.Receive{Mode: mode, Base: ringAt, Bytes: size, Credit: 8})
		before := bytes.Clone(r.keyed[0])
		for ; len(script) >= 4; script = script[4:] {
			a, b, c := script[1], script[2], script[3]
			switch op := script[0] % 8; op {
			case 0, 1, 2, 3:
				s := arctic.Send{Form: arctic.SendForm(op), Total: uint32(a) * 2, Key: uint64(b % 4), Offset: uint32(c)}
				switch s.Form {
				case arctic.SendWhole:
					s.Total, s.Key, s.Offset, s.Data = uint32(a%41), 0, 0, make([]byte, a%41)
				case arctic.SendOpen:
					s.Offset, s.ID = 0, 1<<20|uint32(a)
				default:
					s.Data = make([]byte, b%49)
				}
				r.cards[1].Say(r.ctx[1], 0, 0, arctic.Request, arctic.KindSend, s.Type(),
					func(p []byte) int { return arctic.PutSend(p, &s) })
			case 4:
				r.block(0, funi.Reply, func(s *funi.Slot) { s.SetGiveReceive(uint32(a)|uint32(b)<<24, 0) })
			case 5:
				var n funi.Notification
				r.proc[0].NextNotification(&n)
			case 6: // scribbles, also where the card reads descriptors
				at := keyedAt + 8192 + uint32(a)*8
				funi.PutPosted(queue, uint32(b), at, uint32(c))
			case 7:
				r.pass(time.Duration(a) * time.Millisecond)
			}
			r.pass(10 * time.Microsecond)
			for range 4 {
				r.proc[0].NextReturn()
				r.proc[1].NextReturn()
			}
			for _, c := range r.cards {
				if err := c.Check(); err != nil {
					t.Fatal(err)
				}
			}
		}
		end := ringAt + size
		if !bytes.Equal(r.keyed[0][:ringAt], before[:ringAt]) || !bytes.Equal(r.keyed[0][end:8192], before[end:8192]) {
			t.Fatal("bytes beside the ring have changed")
		}
	})
}

// Rule: a further packet of a message is taken only from the node that has asked for the room, with
// the message's key, within it, and the last one only when all others are there. Room of a message
// that is on its way is not given back (continued, giveReceive).
func TestForgedSends(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 3, remote: sendRemote})
	r.receivesInto(0, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 1024, Credit: 4})
	say := func(from int, s arctic.Send) {
		r.cards[from].Say(r.ctx[from], 0, 0, arctic.Request, arctic.KindSend, s.Type(),
			func(b []byte) int { return arctic.PutSend(b, &s) })
		r.pass(time.Millisecond)
	}
	say(1, arctic.Send{Form: arctic.SendOpen, Total: 100, Key: 7, UserTag: 1})
	for r.ctx[0].Reservations() != 1 {
		t.Fatal("no room is reserved")
	}
	r.proc[1].NextReturn() // of the answer, perhaps
	data := func(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }
	piece, last := arctic.SendPiece, arctic.SendLast
	for what, c := range map[string]struct {
		from   int
		packet arctic.Send
		want   arctic.Reason
	}{
		"another node":         {2, arctic.Send{Form: piece, Total: 100, Key: 7, Data: data(9, 48)}, arctic.ReasonBroken},
		"another key":          {1, arctic.Send{Form: piece, Total: 100, Key: 8, Data: data(9, 48)}, arctic.ReasonBroken},
		"another length":       {1, arctic.Send{Form: piece, Total: 101, Key: 7, Data: data(9, 48)}, arctic.ReasonRemoteForm},
		"the last, too early":  {1, arctic.Send{Form: last, Total: 100, Key: 7, Offset: 52, Data: data(9, 48)}, arctic.ReasonRemoteForm},
		"the last of no bytes": {1, arctic.Send{Form: last, Total: 100, Key: 7, Offset: 100}, arctic.ReasonRemoteForm},
	} {
		say(c.from, c.packet)
		if back, ok := r.proc[c.from].NextReturn(); !ok || back.Reason != c.want {
			t.Errorf("%s: returned %v, %v", what, ok, back.Reason)
		}
	}
	r.block(0, funi.Reply, func(s *funi.Slot) { s.SetGiveReceive(13, 0) })
	r.pass(time.Millisecond)
	if back, ok := r.proc[0].NextReturn(); !ok || back.Reason != arctic.ReasonNotOpened {
		t.Errorf("giving back room of a message under way: returned %v, %v", ok, back.Reason)
	}
	say(1, arctic.Send{Form: piece, Total: 100, Key: 7, Data: data(1, 48)})
	say(1, arctic.Send{Form: piece, Total: 100, Key: 7, Offset: 48, Data: data(2, 48)})
	if n := (funi.Notification{}); r.proc[0].NextNotification(&n) {
		t.Fatalf("an entry before the last: %+v", n)
	}
	say(1, arctic.Send{Form: piece, Total: 100, Key: 7, Offset: 50, Data: data(3, 48)})
	if back, ok := r.proc[1].NextReturn(); !ok || back.Reason != arctic.ReasonRemoteForm {
		t.Errorf("more than the message has: returned %v, %v", ok, back.Reason)
	}
	say(1, arctic.Send{Form: last, Total: 100, Key: 7, Offset: 96, Data: data(4, 4)})
	n := r.notified(0)
	want := append(append(data(1, 48), data(2, 48)...), data(4, 4)...)
	if n.Source != 1 || n.Tag != 1 || !bytes.Equal(r.bytesOf(0, &n), want) {
		t.Fatalf("%+v", n)
	}
	r.gives(0, 13)
	r.ends()
}

// Rule: a message that has room at its receiver goes on, although messages that wait for that room
// hold all lines (pushable).
func TestGrantedGoesOn(t *testing.T) {
	onTimedToo(t, func(t *testing.T, tune func(*engine.Config)) {
		r := newRemoteBed(t, setup{cards: 2, remote: sendRemote, slots: 64, net: near, tune: func(c *engine.Config) {
			tune(c)
			c.Lines, c.ReplyLines, c.FIFO = 4, 2, 1
		}})
		r.receivesInto(1, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 4096, Credit: 2})
		ring := funi.NewRingReader(4096)
		const messages = 12
		for i := range messages {
			o := fromSource(i*8, []int{2000, 30, 1000}[i%3])
			o.UserTag = uint64(i)
			r.sends(0, 1, o)
		}
		got := 0
		r.until(3*time.Second, "all messages", func() bool { // before anything is given up
			var n funi.Notification
			for r.proc[1].NextNotification(&n) {
				if n.Reason != arctic.ReasonNone {
					t.Fatalf("message %d: %v", n.Tag, n.Reason)
				}
				if got++; n.Kind == funi.NoteReceive {
					if units := ring.Done(&n.Message); units > 0 {
						r.gives(1, units)
					}
				}
			}
			return got == messages
		})
		r.ends()
	})
}

// Rule: a process that changes its queues waits for no message that waits for a line or for room at
// its receiver, which may be changing its own (beginSend, late.go).
func TestSendsHoldNoQueues(t *testing.T) {
	onTimedToo(t, func(t *testing.T, tune func(*engine.Config)) {
		r := newRemoteBed(t, setup{cards: 2, remote: sendRemote, slots: 32, tune: func(c *engine.Config) {
			tune(c)
			c.Lines, c.ReplyLines, c.FIFO = 8, 2, 1
		}})
		r.receivesInto(0, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 1 << 15, Credit: 1})
		r.sends(0, 0, funi.SendRequest{UserTag: 1}) // takes the credit
		for i := range 12 {
			r.sends(0, 0, fromSource(0, []int{10, 300, 6000}[i%3]))
		}
		r.pass(time.Millisecond)
		rounds := 0
		if err := r.proc[0].Resize(16, func() error {
			if rounds++; rounds > 1000 {
				return fmt.Errorf("it waits")
			}
			r.pass(100 * time.Microsecond)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// Rule: a process that issues by triggers gives room back with one (table 4.3, command 3): as much
// as there is, and nothing where it receives nothing.
func TestTriggerReceive(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, remote: sendRemote})
	r.receivesInto(1, funi.Receive{Mode: funi.ReceiveRing, Base: ringAt, Bytes: 1024, Credit: 4})
	r.sends(0, 1, fromSource(0, 100))
	r.message(0, 1)
	p := r.proc[1]
	r.mem[1].Page.IssueByTrigger(true)
	if err := p.Resize(16, func() error { r.pass(time.Millisecond); return nil }); err != nil {
		t.Fatal(err)
	}
	gives := func(n uint32, want funi.TriggerStatus) {
		t.Helper()
		p.Trigger(funi.TriggerReceive, n)
		r.wake[1] = r.now
		var s funi.TriggerStatus
		r.until(time.Second, "an answer", func() (ok bool) { _, s, ok = p.TriggerAnswer(); return ok })
		if s != want {
			t.Errorf("giving %d units: %v, want %v", n, s, want)
		}
	}
	gives(0, funi.TriggerInvalid)
	gives(14, funi.TriggerInvalid)
	gives(13, funi.TriggerDone)
	gives(1, funi.TriggerInvalid)
	r.block(1, funi.Reply, func(s *funi.Slot) { s.SetCloseReceive(0) })
	r.until(time.Second, "it is closed", func() bool { return p.Unsent(funi.Reply) == 0 })
	gives(1, funi.TriggerForbidden)
}
