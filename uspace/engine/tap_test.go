package engine_test

// This file holds what the bed can put between a card and its port, and a stranger
// on the network who sends what nobody else would.

import (
	"bytes"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/uspace/port/wire"
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

// inject puts a frame on the network as it is, from a port of its own.
func (b *bed) inject(frame []byte) {
	p := b.net.Plug([6]byte{2, 0xff})
	copy(p.Reserve(), frame)
	p.Commit(len(frame))
	p.Flush()
}

// forge composes a frame from card 1 to card 0 of a two-card bed whose cards were
// started in order, with the packets given, after change has had its way.
func forge(packets []arctic.PacketHeader, change func(*arctic.Header)) []byte {
	h := arctic.Header{To: address(0), From: address(1), GID: gid, SourceCard: 1, SourceIncarnation: 2, DestinationIncarnation: 1}
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
