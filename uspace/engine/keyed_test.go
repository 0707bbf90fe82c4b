package engine_test

// This file holds what cards with keys owe each other, and what nobody else gets of them.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// keyed is setup.tune that gives each card a key of the bytes that say so; 0: none.
func keyed(t testing.TB, tune func(*engine.Config), of ...byte) func(*engine.Config) {
	t.Helper()
	return func(c *engine.Config) {
		if tune != nil {
			tune(c)
		}
		secret := of[int(c.Card)%len(of)]
		if secret == 0 {
			return
		}
		for i := range c.Peers {
			k, err := link.NewKey(bytes.Repeat([]byte{secret, 1}, link.KeySize/2))
			if err != nil {
				t.Fatal(err)
			}
			c.Peers[i].Key = k
		}
	}
}

// Rule: what holds without keys holds with them: messages, blocks and words arrive exactly once
// over networks that lose, repeat, reorder and damage frames. No frame but greetings is on the wire
// unsealed. What a frame carries is readable there only if both cards are content with that.
func TestExactlyOnceWithKeys(t *testing.T) {
	for name, faults := range networks {
		for _, readable := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, readable %v", name, readable), func(t *testing.T) {
				open, shown := 0, 0
				b := newBed(t, setup{cards: 3, slots: 64,
					net:  wire.Config{Seed: 5, Delay: 20 * time.Microsecond, Faults: faults},
					tune: keyed(t, func(c *engine.Config) { c.Readable = readable }, 1),
					wrap: func(_ int, p *wire.Port) port.Port {
						return &tap{Port: p, see: func(b []byte) bool {
							if f, err := arctic.Look(b); err != nil || !f.Sealed() && !f.Hello() {
								open++
							} else if f.Sealed() && f.Readable() {
								shown++
							}
							return true
						}}
					}})
				exactlyOnce(b, newTraffic(b, 300, 21))
				b.checked()
				if open != 0 || shown > 0 != readable {
					t.Errorf("%d frames were neither sealed nor greetings, %d are readable", open, shown)
				}
			})
		}
	}
}

// Rule: sealed frames are encrypted unless both cards are content without.
func TestOneWantsEncryption(t *testing.T) {
	var frames [][]byte
	b := newBed(t, setup{cards: 2, slots: 64, net: near,
		tune: keyed(t, func(c *engine.Config) { c.Readable = c.Card == 0 }, 1), wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 20, 3))
	for _, b := range frames {
		if f, err := arctic.Look(b); err != nil || f.Readable() {
			t.Fatalf("%v, readable %v", err, f.Readable())
		}
	}
}

// Rule: two cards exchange nothing if one of them has no key, or another one, and soon say why; a
// third that has the right one is no worse off (ReasonKey).
func TestKeysThatDiffer(t *testing.T) {
	for name, keys := range map[string][]byte{"another key": {1, 2, 1}, "no key there": {1, 0, 1},
		"no key here": {0, 1, 0}} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, setup{cards: 3, slots: 64, net: near, tune: keyed(t, nil, keys...)})
			for from, to := range map[int]int{0: 1, 1: 2} {
				b.mustSend(from, funi.Request, to, 5)
				b.comesBack(3*time.Second, b.proc[from],
					funi.Returned{Reason: arctic.ReasonKey, Level: funi.Request,
						Header: funi.NewHeader(uint16(to), 5, 1), Word: 5})
			}
			exactlyOnce(b, newTraffic(b, 50, 3, [2]int{0, 2}, [2]int{2, 0}))
			for i, c := range b.cards {
				if n := c.Counters(); n.DroppedKey == 0 {
					t.Errorf("card %d refused nothing", i)
				}
				c.PeerStates(0, 10, func(p engine.PeerState) {
					if differ := i == 1 || p.Card == 1; (p.Key != link.NoKeyThere && p.Key != link.NoKeyHere && p.Key !=
						link.OtherKey) == differ {
						t.Errorf("card %d says of card %d's key: %v", i, p.Card, p.Key)
					}
				})
			}
			if n := b.cards[1].Counters(); n.PacketsDelivered != 0 {
				t.Errorf("%d packets were delivered", n.PacketsDelivered)
			}
		})
	}
}

// refusals are the counters of what is refused, and of what arrives: nothing else may move.
func refusals(c engine.Counters) (rest engine.Counters, refused uint64) {
	for _, n := range []*uint64{&c.DroppedForged, &c.DroppedReplayed, &c.DroppedKey, &c.Stale, &c.DroppedForeign,
		&c.DroppedShort, &c.DroppedVersion, &c.DroppedLength,
		&c.DroppedChecksum, &c.DroppedReserved, &c.DroppedPacket, &c.DroppedGroup, &c.DroppedMisrouted,
		&c.DroppedStranger, &c.DroppedPort} {
		refused += *n
		*n = 0
	}
	c.FramesReceived, c.FrameBytesReceived = 0, 0
	return c, refused
}

// Rule: a frame that is forged, replayed or changed by a bit never changes a byte, or a counter but
// those of refusals, where there is a key: of 10^6 of each, which cards send: data,
// acknowledgments, rejects and greetings.
func TestNobodyElseChangesAnything(t *testing.T) {
	count := 1_000_000
	if testing.Short() {
		count = 10_000
	}
	var frames [][]byte
	b := newBed(t, setup{cards: 2, slots: 64, net: wire.Config{Delay: 10 * time.Microsecond,
		Faults: wire.Faults{Duplicate: 0.1, Reorder: 0.3}}, tune: keyed(t, nil, 1), wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 400, 7))
	b.net.SetFaults(wire.Faults{})
	exactlyOnce(b, newTraffic(b, 100, 3))
	b.pass(time.Second)
	var own [][]byte // of card 1, that arrived
	for _, f := range frames {
		if [6]byte(f[6:12]) == address(1) {
			own = append(own, f)
		}
	}
	before, was := refusals(b.cards[0].Counters())
	pages, epoch := b.touched(), b.cards[0].Epoch(1)
	random := rand.New(rand.NewPCG(7, 7))
	p := b.net.Plug([6]byte{2, 0xff})
	send := func(f []byte) {
		copy(p.Reserve(), f)
		p.Commit(len(f))
	}
	scratch := make([]byte, 2048)
	sent := uint64(0)
	plain := forge([]arctic.PacketHeader{{Source: 1, Type: 5}}, func(h *arctic.Header) {
		h.Epoch, h.Sequence = epoch, 1000
	})
	for i := range count {
		f := own[i%len(own)]
		send(f)

		w := scratch[:copy(scratch, f)]
		bit := random.IntN(len(w) * 8)
		for bit/8 < 6 { // the network would not bring it here
			bit = random.IntN(len(w) * 8)
		}
		w[bit/8] ^= 1 << (bit % 8)
		send(w)

		w = scratch[:copy(scratch, own[random.IntN(len(own))])]
		for range 1 + random.IntN(20) {
			w[arctic.EthernetSize+random.IntN(len(w)-arctic.EthernetSize)] = byte(random.Uint32())
		}
		w[14] = arctic.Version
		binary.LittleEndian.PutUint16(w[24:], 1)
		binary.LittleEndian.PutUint16(w[26:], 0)
		binary.LittleEndian.PutUint64(w[32:], epoch)
		if w[15]&0x10 == 0 {
			// a greeting, or a frame that is not sealed, with the right checksum
			arctic.Seal(w, len(w))
		}
		send(w)
		sent += 3
		if i%100 == 0 { // as a card without a key would send it
			send(plain)
			sent++
		}
		if i%20 == 19 || i == count-1 {
			p.Flush()
			b.step(b.now + 11_000)
		}
	}
	b.pass(time.Millisecond)
	after, now := refusals(b.cards[0].Counters())
	if now-was != sent {
		t.Errorf("%d of %d frames were refused", now-was, sent)
	}
	if after != before {
		t.Errorf("counters moved from\n%s to\n%s", sprintNonzero(0, before), sprintNonzero(0, after))
	}
	if b.touched() != pages || b.cards[0].Epoch(1) != epoch {
		t.Error("memory of a process, or the epoch, is another")
	}
	b.checked()
	exactlyOnce(b, newTraffic(b, 100, 3))
}

// Rule: greetings of a peer's earlier life, which nobody can tell from those of a card that is
// restarted, are answered now and then, and change nothing that two cards have said to each other.
func TestGreetingsOfAnEarlierLife(t *testing.T) {
	var frames [][]byte
	b := newBed(t, setup{cards: 2, slots: 64, net: near, tune: keyed(t, nil, 1), wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 50, 3))
	old := frames
	frames = nil
	b.start(1)
	b.cards[1].Introduce(0)
	b.pass(10 * time.Millisecond)
	exactlyOnce(b, newTraffic(b, 50, 3))
	before, epoch, began := b.cards[0].Counters(), b.cards[0].Epoch(1), b.now
	for range 200 {
		for _, f := range old {
			if [6]byte(f[6:12]) == address(1) {
				b.inject(bytes.Clone(f))
			}
		}
		b.pass(10 * time.Microsecond)
	}
	b.pass(100 * time.Millisecond)
	after := b.cards[0].Counters()
	if most := uint64(b.now-began)/100_000 + 5; after.Greetings-before.Greetings > most {
		t.Errorf("%d greetings, want at most %d", after.Greetings-before.Greetings, most)
	}
	if after.PacketsDelivered != before.PacketsDelivered || after.PeersRestarted != before.PeersRestarted ||
		after.Resynchronised != 0 || b.cards[0].Epoch(1) != epoch || b.cards[1].Epoch(0) != epoch {
		t.Errorf("an earlier life did something:\n%s", b.counters())
	}
	exactlyOnce(b, newTraffic(b, 50, 3))
}

// Rule: sealed frames, as a card shows them to who observes it, are what they were before they were
// sealed, and after they were opened; those that were refused are as they came (Observe).
func TestObserveSealed(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 64, net: near, tune: keyed(t, nil, 1)})
	seen := map[string]int{}
	for _, c := range b.cards {
		c.Observe(func(_ int, frame []byte, fate engine.Fate) {
			f, err := arctic.Look(frame)
			if err != nil {
				t.Fatal(err)
			}
			if f.Hello() {
				return
			}
			if !f.Sealed() || !f.Readable() {
				t.Fatalf("%v: sealed %v, readable %v", fate, f.Sealed(), f.Readable())
			}
			opened, err := arctic.Frame(bytes.Clone(f)).Opened()
			if err != nil {
				t.Fatalf("%v: %v", fate, err)
			}
			for train := opened.Train(); len(train) > 0; {
				var p arctic.Packet
				p, train = arctic.Next(train)
				seen[strings.Clone(fate.Outcome.String())+string(p[:12])]++
			}
		})
	}
	exactlyOnce(b, newTraffic(b, 100, 5))
	if len(seen) < 4 {
		t.Errorf("%d kinds of packets were seen", len(seen))
	}
}
