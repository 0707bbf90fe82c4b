package afxdp

// This file proves transmit queues by the card's own frames. For each queue that is not proven, the
// port remembers one frame with packets until the peer acknowledges it. So every queue that carries
// traffic is proven within a round trip, and from then on its frames are not looked at. The other
// queues are proven by questions (SendOn; package hello).
//
// Frames are not verified here. An attacker who can forge one can make a broken queue seem to work,
// and nothing else.

import (
	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/arctic"
)

const (
	versionOffset = arctic.EthernetSize // in a frame
	// another is the number of frames of a queue after which another one is remembered: the peer of
	// the first may be gone.
	another = 4096
)

// remembered is a frame that was sent on a queue.
type remembered struct {
	under  bool
	after  int // frames committed since
	header arctic.Header
}

// remember notes a frame that is committed on the queue, unless the queue waits for the
// acknowledgment of another frame. A hello has its answer, and no acknowledgment.
func (p *Port) remember(q *queue, frame []byte) {
	f, ok := arctic.Peek(frame)
	if !ok || frame[versionOffset] == bpf.VersionHello {
		return
	}
	r := &q.remembered
	if r.after++; r.under && r.after < another || f.Packets() == 0 {
		return
	}
	if !r.under {
		p.waited++
	}
	*r = remembered{under: true, header: f.Header()}
}

// acknowledged looks in received frames for acknowledgments of remembered ones.
func (p *Port) acknowledged(frames [][]byte) {
	for _, b := range frames {
		f, ok := arctic.Peek(b)
		if !ok || b[versionOffset] == bpf.VersionHello {
			continue
		}
		h := f.Header()
		for _, q := range p.queues {
			r := &q.remembered
			if !r.under || h.SourceCard != r.header.DestinationCard || h.DestinationCard != r.header.SourceCard ||
				h.Epoch != r.header.Epoch || int32(h.Acks[r.header.Level]-r.header.Sequence) <= 0 {
				continue
			}
			r.under = false
			q.heard = true
			p.waited--
			q.proof.answered.Store(true)
		}
	}
}
