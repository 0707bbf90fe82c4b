package link

// This file records how far a card has come with its peers' frames. That tells the frames before an
// event from those after it (engine/life.go).

import "github.com/funet/funet/uspace/arctic"

// reach notes that the packets of a frame are being handled.
func (f *flow) reach(seq uint32) {
	if ahead := int32(seq - uint32(f.reached)); ahead >= 0 {
		f.reached += int64(ahead) + 1
	}
}

// reached returns how far the card has come with the peer's frames of a level.
func (p *peer) reached(l arctic.Level) int64 {
	if f := p.flows[l]; f != nil {
		return f.reached
	}
	return p.parked[l].reached
}

// nextTurn returns the place of sequence 0 at or after another place. All frames of the peer's
// epoch before come earlier.
func nextTurn(reached int64) int64 { return (reached + 1<<32 - 1) &^ (1<<32 - 1) }
