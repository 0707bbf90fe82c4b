package engine_test

// This file is blocks that no card sends, or for memory that is not the receiver's to
// be written (design idea 3; arctic doc.go).

import (
	"bytes"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// forgeBlock composes a frame as forge does, of packets. The i-th has words[i]
// as its only payload, and a block behind them if data is not nil.
func forgeBlock(sequence uint32, data []byte, words ...uint32) []byte {
	h := arctic.Header{To: address(0), From: address(1), GID: gid, SourceCard: 1, Epoch: presentEpoch,
		Sequence: sequence, Tag: jobTag}
	b := make([]byte, arctic.MaxFrame)
	h.Encode(b)
	n := arctic.HeaderSize
	for _, word := range words {
		p := arctic.PacketHeader{GID: gid, Kind: arctic.KindTransfer, Length: 1, Type: 5, Source: 1}
		var w [arctic.PacketHeaderSize + arctic.WordSize]byte
		p.Encode(w[:])
		arctic.PutWords(w[arctic.PacketHeaderSize:], []uint32{word})
		n = arctic.PutPacket(b, n, w[:])
	}
	if data != nil {
		n = arctic.PutBlock(b, n, data)
	}
	arctic.Seal(b, n)
	return b[:n]
}

// Rule: a block is rejected for good, with the reason, if its destination is not all in one segment
// that others may write (thesis 3.2.4). So is a block whose packet is one that no card sends.
// Nothing of the block is written, and the books balance. Every packet of a frame gets its own
// verdict.
func TestHostileBlocks(t *testing.T) {
	const block = uint32(arctic.Block)
	data := bytes.Repeat([]byte{0xee}, 1408)
	for _, c := range []struct {
		what   string
		data   []byte
		words  []uint32
		reason arctic.Reason // ReasonNone: it is accepted
		bits   uint64
	}{
		{"all in a segment", data, []uint32{area | block}, arctic.ReasonNone, 0},
		{"to its end, at once", data, []uint32{area + areaSize - 1408 | block | 4}, arctic.ReasonNone, 0},
		{"in no segment", data, []uint32{0x1000 | block}, arctic.ReasonDestination, 1},
		{"just below", data, []uint32{area - 16 | block}, arctic.ReasonDestination, 1},
		{"runs out", data, []uint32{area + areaSize - 1408 + 16 | block}, arctic.ReasonDestination, 1},
		{"longer than the segment", data, []uint32{writeOnly | block}, arctic.ReasonDestination, 1},
		{"segment only for reading", data[:16], []uint32{readOnly | block}, arctic.ReasonDestination, 1},
		{"at the end of the space", data, []uint32{0xfffffff0 | block}, arctic.ReasonDestination, 1},
		{"longest", make([]byte, arctic.MaxBlock(arctic.MaxFrame)), []uint32{area + 16*7 | block},
			arctic.ReasonDestination, 1},
		{"address 0", data, []uint32{block}, arctic.ReasonTransferForm, 1},
		{"reserved bit", data, []uint32{area | 8 | block}, arctic.ReasonTransferForm, 1},
		{"no block behind it", nil, []uint32{area | block}, arctic.ReasonTransferForm, 1},
		{"in a train", nil, []uint32{area | block, area | block, area | 1}, arctic.ReasonTransferForm, 7},
	} {
		for _, drain := range []bool{false, true} {
			var rejects []arctic.Reject
			b, m := transferBed(t, setup{cards: 2, slots: 64, net: wire.Config{Delay: near.Delay, MTU: arctic.MaxFrame},
				wrap: watchRejects(0, &rejects)})
			exactlyOnce(b, newTraffic(b, 1, 2)) // they know each other; sequence 1 is next
			b.ctx[0].SetDrain(drain)
			before := memory{bytes.Clone(m[0].area), bytes.Clone(m[0].readOnly), bytes.Clone(m[0].writeOnly)}
			b.inject(forgeBlock(1, c.data, c.words...))
			b.pass(time.Millisecond)
			b.checked()
			same := bytes.Equal(m[0].area, before.area) && bytes.Equal(m[0].readOnly, before.readOnly) &&
				bytes.Equal(m[0].writeOnly, before.writeOnly)
			drained := 0
			for _, ok := take(b.proc[0], funi.Request); ok; _, ok = take(b.proc[0], funi.Request) {
				drained++
			}
			if c.reason == arctic.ReasonNone {
				if len(rejects) != 0 || same != drain || drain != (drained == 18) {
					t.Errorf("%s, drain %v: rejects %+v, untouched %v, %d parts", c.what, drain, rejects, same, drained)
				}
				continue
			}
			want := arctic.Reject{Sequence: 1, Level: arctic.Request, Reason: c.reason, Bits: c.bits}
			if len(rejects) != 1 || rejects[0] != want || !same || drained != 0 {
				t.Errorf("%s, drain %v: rejects %+v, want %+v; memory untouched: %v; %d packets", c.what, drain,
					rejects, want, same, drained)
			}
		}
	}
}

// Rule: a frame that Parse refuses for its block is counted with the bad trains, once,
// and leaves no trace (preprocess.go).
func TestDamagedBlocksAreCounted(t *testing.T) {
	for _, frame := range [][]byte{
		forgeBlock(1, make([]byte, 16)),
		forgeBlock(1, make([]byte, 16), area|3, area|3),
		forgeBlock(1, make([]byte, 16), area|1),
	} {
		b, m := transferBed(t, setup{cards: 2, slots: 16, net: near})
		exactlyOnce(b, newTraffic(b, 1, 2))
		before := bytes.Clone(m[0].area)
		b.inject(frame)
		b.pass(time.Millisecond)
		if n := b.cards[0].Counters().DroppedPacket; n != 1 || !bytes.Equal(m[0].area, before) {
			t.Errorf("counted %d times, memory untouched: %v", n, bytes.Equal(m[0].area, before))
		}
		exactlyOnce(b, newTraffic(b, 20, 2))
	}
}

// Rule: a block fits every port of its card (Config.Blocks), also one that sends smaller
// frames than another.
func TestBlocksThroughUnequalPorts(t *testing.T) {
	net := wire.New(wire.Config{Delay: near.Delay, MTU: 9000})
	b, m := transferBed(t, setup{cards: 2, slots: 16, net: near,
		tune: func(c *engine.Config) { c.Ports = append(c.Ports, net.Plug(address(int(c.Card)))) }})
	request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Words: areaSize / 4})
	b.receives(1, funi.Request)
	if !bytes.Equal(m[0].area, m[1].area) {
		t.Error("memory differs")
	}
	b.idle(time.Second)
	b.checked()
}
