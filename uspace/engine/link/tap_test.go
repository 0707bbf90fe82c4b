package link_test

// This file holds what the bed can put between a card and its port, and a stranger on the network
// who sends what nobody else would.

import (
	"bytes"
	"math/rand/v2"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port"
)

// tap shows each frame that a card sends to see before it leaves; a frame for which see returns
// false is not sent.
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

// tapped is setup.wrap that shows each frame, as it is parsed, to see.
func tapped(see func(card int, f arctic.Frame) bool) func(int, *wire.Port) port.Port {
	return func(card int, p *wire.Port) port.Port {
		return &tap{Port: p, see: func(b []byte) bool {
			f, err := arctic.Parse(b)
			return err != nil || see(card, f)
		}}
	}
}

// lookedAt is tapped, also of frames that are sealed.
func lookedAt(see func(card int, f arctic.Frame) bool) func(int, *wire.Port) port.Port {
	return func(card int, p *wire.Port) port.Port {
		return &tap{Port: p, see: func(b []byte) bool {
			f, err := arctic.Look(b)
			return err != nil || see(card, f)
		}}
	}
}

// capture is setup.wrap that keeps a copy of every frame of every card.
func capture(frames *[]arctic.Frame) func(int, *wire.Port) port.Port {
	return tapped(func(_ int, f arctic.Frame) bool {
		*frames = append(*frames, bytes.Clone(f))
		return true
	})
}

// withPackets are those of frames that carry packets.
func withPackets(frames []arctic.Frame) (some []arctic.Frame) {
	for _, f := range frames {
		if f.Packets() > 0 {
			some = append(some, f)
		}
	}
	return some
}

// full is a port whose transmit ring is full most of the time. Once it has lent a buffer it keeps
// to it, as port.Port promises.
type full struct {
	port.Port
	random *rand.Rand
	lent   bool
	denied int
}

func (p *full) Reserve() []byte {
	if !p.lent && p.random.IntN(10) < 7 {
		p.denied++
		return nil
	}
	p.lent = true
	return p.Port.Reserve()
}

func (p *full) Commit(n int) {
	p.lent = false
	p.Port.Commit(n)
}

// inject puts a frame on the network as it is, from a port of its own.
func (b *bed) inject(frame []byte) {
	p := b.net.Plug([6]byte{2, 0xff})
	p.Commit(copy(p.Reserve(), frame))
	p.Flush()
}

// edited is a frame with another header, and rejects behind those that it has.
func edited(f arctic.Frame, change func(*arctic.Header), rejects ...arctic.Reject) []byte {
	h := f.Header()
	change(&h)
	b := make([]byte, len(f)+len(rejects)*arctic.RejectSize)
	h.Encode(b)
	n := arctic.HeaderSize
	for i := range f.Rejects() {
		n = arctic.PutReject(b, n, f.Reject(i))
	}
	for _, r := range rejects {
		n = arctic.PutReject(b, n, r)
	}
	if f.Packets() > 0 {
		for train := f.Train(); len(train) > 0; {
			var p arctic.Packet
			p, train = arctic.Next(train)
			n = arctic.PutPacket(b, n, p)
		}
	}
	if f.Block() != nil {
		n = arctic.PutBlock(b, n, f.Block())
	}
	arctic.Seal(b, n)
	return b[:n]
}
