package shared_test

// This file tests rings by properties, and what hostile neighbours write.

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port/shared"
)

// Rule: a ring gives out what was put in, in order, each frame once, whatever their lengths and
// however the ends take turns.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Uint16Range(0, 2).Draw(t, "node")
		a, b := newEnd(low), newEnd(low+1)
		join(a, b)
		if rapid.Bool().Draw(t, "upwards") {
			a, b = b, a
		}
		var under [][]byte
		fill := byte(0)
		for range rapid.IntRange(1, 60).Draw(t, "turns") {
			for range rapid.IntRange(0, 120).Draw(t, "sends") {
				fill++
				by := len(a.inner.sent)
				f := a.send(b.node, rapid.IntRange(arctic.HeaderSize, frameSize).Draw(t, "bytes"), fill)
				if len(a.inner.sent) == by {
					under = append(under, f)
				}
			}
			var frames [64][]byte
			n := b.Receive(frames[:rapid.IntRange(1, 64).Draw(t, "room")])
			if n > len(under) {
				t.Fatalf("%d frames of %d came", n, len(under))
			}
			for i, f := range frames[:n] {
				if !bytes.Equal(f, under[i]) {
					t.Fatalf("frame %d of %d bytes came as %d bytes", i, len(under[i]), len(f))
				}
			}
			under = under[n:]
			b.Release()
		}
		if got := b.take(); len(got) != len(under) {
			t.Fatalf("%d frames are left, and %d came", len(under), len(got))
		}
		if c := a.Counters(); c.Full != uint64(len(a.inner.sent)) || c.Broken != 0 || b.Counters().Broken != 0 {
			t.Fatalf("%+v, %+v", c, b.Counters())
		}
	})
}

// FuzzHostile: a neighbour writes what it likes where it likes. Nothing panics or goes on for ever,
// what arrives is right in form and names the neighbour, and another neighbour's frames arrive,
// each once.
func FuzzHostile(f *testing.F) {
	add := func(writes ...uint32) {
		var b []byte
		for _, w := range writes {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
		f.Add(b)
	}
	half := uint32(shared.Size / 2)
	add(0, 0, tailAt, 1<<31, half+dataAt, 100, half+dataAt, ^uint32(0))
	add(half+dataAt+1<<18-64, 80, half+readerAt, 0, readerAt, 2, tailAt+4, 1)
	add(half+dataAt, 1514, half+dataAt+64*24, ^uint32(0), half+dataAt, ^uint32(0))
	f.Fuzz(func(t *testing.T, script []byte) {
		victim, friend, enemy := newEnd(0), newEnd(1), newEnd(2)
		join(victim, friend)
		m := join(victim, enemy)
		sent, received := 0, 0
		look := func() {
			friend.send(0, 100, byte(sent))
			sent++
			victim.send(2, 1500, 1)
			for _, b := range victim.take() {
				p, err := arctic.Look(b)
				if err != nil || !p.Direct() || p.Header().DestinationCard != 0 || p.Header().GID != gid ||
					p.Header().Tag != tag {
					t.Fatalf("a frame came that may not be sent: %v", err)
				}
				switch p.Header().SourceCard {
				case 1:
					if b[99] != byte(received) {
						t.Fatalf("the friend's frame %d came as %d", received, b[99])
					}
					received++
				case 2:
				default:
					t.Fatalf("a frame of node %d came", p.Header().SourceCard)
				}
			}
			victim.Attend()
			if victim.Doze() && victim.Ready() {
				t.Fatal("it may sleep although something is there")
			}
			victim.Wake()
		}
		enemy.send(0, 100, 0)
		for len(script) >= 8 {
			at := int(binary.LittleEndian.Uint32(script) % (shared.Size / 4) * 4)
			word(m, at).Store(binary.LittleEndian.Uint32(script[4:]))
			if script = script[8:]; len(script)%3 == 0 {
				enemy.send(0, 100, 0)
			}
			look()
		}
		for range 200 { // the victim's ring to the enemy is full, and its tail is believed or not
			look()
		}
		if sent != received || victim.Counters().Refused != 0 {
			t.Fatalf("%d of the friend's %d frames came: %+v", received, sent, victim.Counters())
		}
	})
}
