package engine_test

// This file holds what the bed can put between a card and its port, and a stranger
// on the network who sends what nobody else would.

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port"
)

// tap shows each frame that a card sends to see before it leaves; a frame for which
// see returns false is not sent.
type tap struct {
	port.Port
	buffer []byte
	see    func(frame []byte) bool
}

func (p *tap) Reserve() []byte {
	p.buffer = p.Port.Reserve()
	return p.buffer
}

func (p *tap) Commit(n int) {
	if p.see(p.buffer[:n]) {
		p.Port.Commit(n)
	}
}

// capture is setup.wrap that keeps a copy of every frame of every card.
func capture(frames *[][]byte) func(int, *wire.Port) port.Port {
	return func(_ int, p *wire.Port) port.Port {
		return &tap{Port: p, see: func(b []byte) bool {
			*frames = append(*frames, bytes.Clone(b))
			return true
		}}
	}
}

// presentEpoch stands in forged frames for the epoch of the cards that they name.
const presentEpoch = 0x1122334455667788

// inject puts a frame on the network, from a port of its own: as it is, but that it is of the
// present epoch where it says so.
func (b *bed) inject(frame []byte) {
	if len(frame) >= arctic.HeaderSize && binary.LittleEndian.Uint64(frame[32:]) == presentEpoch {
		from, to := binary.LittleEndian.Uint16(frame[24:]), int(binary.LittleEndian.Uint16(frame[26:]))
		f, err := arctic.Look(frame)
		intact := err == nil && !errors.Is(f.Check(), arctic.ErrChecksum)
		if to < len(b.cards) && b.cards[to] != nil && int(from) < len(b.cards) {
			binary.LittleEndian.PutUint64(frame[32:], b.cards[to].Epoch(from))
		}
		if intact {
			arctic.Seal(frame, len(f))
		}
	}
	p := b.net.Plug([6]byte{2, 0xff})
	copy(p.Reserve(), frame)
	p.Commit(len(frame))
	p.Flush()
}

// forgeGreeting composes a greeting of a life of card 1 for card 0.
func forgeGreeting(g *arctic.Greeting) []byte {
	b := forge(nil, func(h *arctic.Header) { h.Epoch = 0 })
	b = append(b, make([]byte, arctic.GreetingSize)...)
	arctic.Seal(b, arctic.PutGreeting(b, g))
	return b
}

// forge composes a frame from card 1 to card 0 of a two-card bed whose cards were
// started in order, with the packets given, after change has had its way.
func forge(packets []arctic.PacketHeader, change func(*arctic.Header)) []byte {
	h := arctic.Header{To: address(0), From: address(1), GID: gid, SourceCard: 1, Epoch: presentEpoch}
	if len(packets) > 0 {
		h.Tag = jobTag
	}
	change(&h)
	b := make([]byte, 1514)
	h.Encode(b)
	n := arctic.HeaderSize
	for _, p := range packets {
		p.GID, p.Level, p.Route = h.GID, h.Level, h.Route
		var w [arctic.MaxPacketSize]byte
		p.Encode(w[:])
		n = arctic.PutPacket(b, n, w[:arctic.PacketHeaderSize+int(p.Length)*arctic.WordSize])
	}
	arctic.Seal(b, n)
	return b[:n]
}
