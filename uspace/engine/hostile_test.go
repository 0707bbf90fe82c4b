package engine_test

// This file is the hostile process on a whole card: it writes any word of what it
// shares at any time between two steps.

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// FuzzHostileRegisters has a process write anything into its register page, its queues and the
// doorbells. No step panics, and the card's books balance. The GID under which the process sends
// stays its own. Traffic of another context of the card is not disturbed (design idea 3). The
// script is taken in groups of seven bytes: what, where, value.
func FuzzHostileRegisters(f *testing.F) {
	group := func(op byte, at uint16, v uint32) []byte {
		return binary.LittleEndian.AppendUint32([]byte{op, byte(at), byte(at >> 8)}, v)
	}
	const stride = 16
	control, mask, base := uint16(funi.Control)*stride, uint16(funi.QMask)*stride, uint16(funi.RQSQBase)*stride
	script := func(groups ...[]byte) (s []byte) {
		for _, g := range groups {
			s = append(s, g...)
		}
		return s
	}
	f.Add(script(group(0, control, 0xffffffff), group(2, 0, 0), group(0, control, 0), group(2, 0, 0)))
	f.Add(script(group(0, control, funi.UserModes), group(2, 0, 0), group(0, mask, 0xffff), group(0, control, 0),
		group(2, 0, 0), group(4, 0, 0)))
	f.Add(script(group(0, control, funi.CSQM), group(2, 0, 0), group(0, base, 0xffffff80), group(0, control, 0),
		group(2, 0, 0), group(4, 1, 0)))
	f.Add(script(group(0, uint16(funi.RQSQHead)*stride, 0xffffffff), group(2, 0, 0), group(3, 2, 5), group(5, 0, 0),
		group(2, 0, 0), group(6, 0, 0)))
	long, step := group(9, 1, 1000), group(2, 0, 0)
	tail, head := uint16(funi.RQSQTail)*stride, uint16(funi.RQSQHead)*stride
	f.Add(script(long, step, group(0, control, funi.CSQM), step, group(0, head, 0), step, group(0, mask, 1), step,
		group(0, tail, 7), group(7, 0, 9)))
	f.Add(script(long, step, group(4, funi.CTXM, 0), step, group(0, tail, 5), group(0, base, 0x80), group(4, 0, 0),
		step, long, group(7, 0, 9)))
	f.Add(script(long, step, group(5, 1, 0), group(9, 3, 1000), group(6, 0, 0), step, group(4, funi.DRAIN, 0),
		group(9, 3, 1000), group(7, 0, 9)))
	f.Fuzz(func(t *testing.T, script []byte) {
		b := newBed(t, setup{cards: 2, slots: 8, net: near, tune: followedIf(len(script)/7%2 == 1)})
		b.takes = 100 // a context that never rests has the cards run all the time
		proc, ctx, mem := b.attach(0, gid+1, 3)
		_, peer, _ := b.attach(1, gid+1, 1) // its process does nothing
		memory := make([]byte, 8192)
		closed := memory[4096:]
		for _, err := range []error{
			ctx.Register(funi.Segment{Base: 16, Memory: make([]byte, 4096), Rights: funi.Source | funi.Destination}),
			peer.Register(funi.Segment{Base: 16, Memory: memory[:4096], Rights: funi.Destination}),
			peer.Register(funi.Segment{Base: 16 + 4096, Memory: closed, Rights: funi.Source}),
			b.cards[0].SetGroupRoutes(gid+1, []uint32{engine.NoRoute, 1, 1, 0}),
			b.cards[1].SetGroupRoutes(gid+1, []uint32{engine.NoRoute, 1, 1, 0}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		tr := newTraffic(b, 40, 3)
		var saved *engine.Saved
		for n := 0; len(script) >= 7 && n < 300; script, n = script[7:], n+1 {
			at, v := binary.LittleEndian.Uint16(script[1:]), binary.LittleEndian.Uint32(script[3:])
			switch script[0] % 8 {
			case 0:
				mem.Page[int(at)%len(mem.Page)] = v
			case 1:
				if script[0]&8 != 0 { // a transfer, mostly a long one
					request(proc, funi.Level(at>>8), int(at&3),
						funi.Transfer{Source: 16, Destination: 16 + v>>16, Words: int(v & 0x7fc)})
					break
				}
				mem.Queues[int(at)%len(mem.Queues)] = v
			case 2:
				tr.pump()
				b.step(b.now + int64(v%1000000))
			case 3:
				mem.Doorbells.Bells[int(at)%len(mem.Doorbells.Bells)] = uint64(v) << (at % 32)
				mem.Doorbells.Summary = uint64(v)
			case 4: // the owner mends what it can
				if saved == nil {
					_ = ctx.Store(funi.Control, uint32(at)&(funi.CTXM|funi.DRAIN))
				}
			case 5:
				if s, err := b.cards[0].SwitchOut(ctx, at&1 != 0); err == nil {
					saved = s
				}
			case 6:
				if saved != nil {
					if err := b.cards[0].SwitchIn(saved); err != nil {
						t.Fatal(err)
					}
					saved = nil
				}
			case 7:
				// a million steps; the fuzzer gives an input 10 s
				if b.now < int64(100*time.Millisecond) {
					b.pass(time.Duration(v%50) * time.Millisecond)
				}
			}
			if err := b.cards[0].Check(); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(closed, make([]byte, len(closed))) {
			t.Fatal("memory without the right was written")
		}
		if ctx.Load(funi.GID) != gid+1 {
			t.Fatalf("the GID became %d", ctx.Load(funi.GID))
		}
		b.wake[0] = 0
		exactlyOnceBesides(b, tr)
		b.cards[0].Detach(ctx)
		b.idle(time.Second)
		if err := b.cards[0].Check(); err != nil {
			t.Fatal(err)
		}
	})
}

// exactlyOnceBesides is exactlyOnce while another context may keep the cards busy.
func exactlyOnceBesides(b *bed, tr *traffic) {
	b.t.Helper()
	b.until(5*time.Minute, "all messages delivered", tr.pump)
	if got, back := tr.totals(); got != len(tr.lanes)*tr.messages || back != 0 {
		b.t.Fatalf("%d messages: %d delivered, %d came back", len(tr.lanes)*tr.messages, got, back)
	}
}
