package afxdp

// This file proves transmit queues by the card's own frames. For each queue that is not proven, the
// port remembers one frame with packets until the peer acknowledges it. So every queue that carries
// traffic is proven within a round trip, and from then on its frames are not looked at. The other
// queues are proven by questions (SendOn; package hello).
//
// Frames are not verified here. An attacker who can forge one can make a broken queue seem to work,
// and nothing else.

import (
	"encoding/binary"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/arctic"
)

// Offsets in a frame; see package arctic.
const (
	versionOffset      = arctic.EthernetSize
	packetsOffset      = 28
	epochOffset        = 32
	sequenceOffset     = 40
	requestAckOffset   = 44
	replyAckOffset     = 56
	acknowledgedHeader = replyAckOffset + 4
	// another is the number of frames of a queue after which another one is remembered: the peer of
	// the first may be gone.
	another = 4096
)

// remembered is a frame that was sent on a queue.
type remembered struct {
	under    bool
	after    int    // frames committed since
	cards    uint32 // as in the answer: the peer is the source
	epoch    uint64
	sequence uint32
	ack      int // offset of the acknowledgment in the answer
}

// remember notes a frame that is committed on the queue, unless the queue waits for the
// acknowledgment of another frame.
func (p *Port) remember(q *queue, frame []byte) {
	r := &q.remembered
	if len(frame) > versionOffset && frame[versionOffset] == bpf.VersionHello {
		return // which has its answer, and no acknowledgment
	}
	if r.after++; r.under && r.after < another || len(frame) < acknowledgedHeader || frame[packetsOffset] == 0 {
		return
	}
	if !r.under {
		p.waited++
	}
	*r = remembered{under: true, epoch: binary.LittleEndian.Uint64(frame[epochOffset:]),
		sequence: binary.LittleEndian.Uint32(frame[sequenceOffset:]), ack: requestAckOffset}
	cards := binary.LittleEndian.Uint32(frame[cardsOffset:])
	r.cards = cards>>16 | cards<<16
	if frame[flagsOffset]&levelBit != 0 {
		r.ack = replyAckOffset
	}
}

// acknowledged looks in received frames for acknowledgments of remembered ones.
func (p *Port) acknowledged(frames [][]byte) {
	for _, f := range frames {
		if len(f) < acknowledgedHeader || f[versionOffset] == bpf.VersionHello {
			continue
		}
		cards, epoch := binary.LittleEndian.Uint32(f[cardsOffset:]), binary.LittleEndian.Uint64(f[epochOffset:])
		for _, q := range p.queues {
			r := &q.remembered
			if !r.under || r.cards != cards || r.epoch != epoch ||
				int32(binary.LittleEndian.Uint32(f[r.ack:])-r.sequence) <= 0 {
				continue
			}
			r.under = false
			q.heard = true
			p.waited--
			q.proof.answered.Store(true)
		}
	}
}
