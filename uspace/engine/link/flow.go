package link

// This file is the flow: what a card knows of one level of one peer, in both directions, while it
// is in use. For sending these are streams, frames in flight, round-trip time and congestion
// window. For receiving they are the sequence numbers that have been answered, and their answers.
// park.go says what is left of a flow that is quiet.

import (
	"github.com/funet/funet/uspace/arctic"
)

// state is the life of a frame at its sender.
type state uint8

const (
	idle     state = iota
	flying         // sent, no answer yet
	lost           // to be sent again
	answered       // answered, but an older frame is not
	held           // deferred by a switch, to be sent again after its stream's back-off (defer.go)
)

// frame is the sender's record of one frame until the frame is answered.
type frame struct {
	train   *Line // its packets, in order
	sentAt  int64
	state   state
	retries uint8
	size    uint16 // bytes of its packets
	queued  bool   // in the Send Queue; see timed.go
	void    bool   // a void frame of its number has been sent; see limit.go
	probe   uint8  // it was filled up to lengths[probe]; 0: not filled up
}

// again notes that the frame is sent once more.
func (fr *frame) again() { fr.retries = max(fr.retries, fr.retries+1) } // 255 and more are the same

// ownFrames is how many frames a flow has room for by itself. A power of two. A flow with more
// between sndUna and sndNext takes room for a sequence window of them from the card.
const ownFrames = 4

// outgoing is the header of the last frame sent, and the values that it was made of.
type outgoing struct {
	view     uint64
	epoch    uint64
	tag      uint64
	gid      uint16
	template arctic.Template
}

type flow struct {
	peer     *peer
	level    arctic.Level
	timeouts uint8 // retransmission timeouts since the last answer
	inReady  bool
	ahead    uint16 // frames in accepted: they have overtaken others
	held     uint16 // frames that were deferred and wait (defer.go)

	// Sending. Frames sndUna..sndNext-1 are not answered, or an older one is not.
	sndUna, sndNext uint32 // as RFC 9293 section 3.3.1 calls them
	flying, lost    int
	window          int   // congestion window: most frames in flight
	threshold       int   // from it on window grows by one a window, not by one a frame
	growth          int   // frames answered since the congestion window last grew
	deadline        int64 // retransmission; 0: nothing in flight
	movedAt         int64 // when sndUna last moved, or when a frame left while none was in flight
	srtt, rttvar    int64 // 0: not measured
	nextReady       *flow
	turns           turn    // the flow's own: its ring is one of accounts
	classes         *class  // the accounts' classes
	recent          *stream // the last one that a line or an answer was for
	streams         []*stream
	byKey           map[streamKey]*stream // nil: there have only been few streams
	frames          []frame               // ownFrames of them, in room, or Window of them
	room            [ownFrames]frame

	// Receiving. All frames before rcvNext are answered for good. No frame at or after reached has
	// been handled. The upper 32 bits of reached count the turns of the sequence (engine/life.go).
	rcvNext  uint32
	reached  int64
	unacked  int32    // frames since the last acknowledgment, weighted (blocksPerTrain)
	answers  int32    // remembered rejects that are to be sent
	payer    *Account // of the last train that was answered; nil: no account
	accepted bitmap   // frames at or after rcvNext that were accepted
	refused  bitmap   // those that were answered with rejects, which are remembered
	rejects  rejects  // those of refused, in the order in which the frames came

	// What successive frames have in common. It holds for one End.view, which changes when the card
	// sees its peers or groups differently.
	predicted   arctic.Prediction // of frames that arrive
	predictedIn uint64
	out         outgoing // of frames that leave

	// seen holds sndNext and rcvNext as the last look found them (park.go).
	seen struct{ sndNext, rcvNext uint32 }
}

// frame returns the record of a frame from sndUna to sndNext-1, or of the next one to be made.
func (f *flow) frame(seq uint32) *frame { return &f.frames[seq&uint32(len(f.frames)-1)] }

// rto returns the time after which a frame counts as lost (RFC 6298 section 2).
func (f *flow) rto(cfg *Config) int64 {
	t := int64(cfg.FirstRTO)
	if f.srtt != 0 {
		t = f.srtt + 4*f.rttvar
	}
	most := int64(cfg.MaxRTO)
	t = min(max(t, int64(cfg.MinRTO)), most) << min(f.timeouts, 16) // of a day at most: no overflow
	return min(t, most)
}

// measured feeds one round-trip time into the estimate (RFC 6298 section 2).
func (f *flow) measured(rtt int64) {
	rtt = max(rtt, 1)
	if f.srtt == 0 {
		f.srtt, f.rttvar = rtt, rtt/2
		return
	}
	d := rtt - f.srtt
	f.srtt += d / 8
	if d < 0 {
		d = -d
	}
	f.rttvar += (d - f.rttvar) / 4
}

// loses counts a frame in flight as lost.
func (f *flow) loses(fr *frame) {
	fr.state = lost
	f.flying--
	f.lost++
}

// bitmap is a set of sequence numbers of a window: bit sequence%Window.
type bitmap [Window / 64]uint64

func (m *bitmap) has(seq uint32) bool { return m[seq%Window/64]>>(seq%64)&1 != 0 }
func (m *bitmap) add(seq uint32)      { m[seq%Window/64] |= 1 << (seq % 64) }
func (m *bitmap) remove(seq uint32)   { m[seq%Window/64] &^= 1 << (seq % 64) }

// advance moves rcvNext over accepted frames.
func (f *flow) advance() {
	for ; f.accepted.has(f.rcvNext); f.rcvNext++ {
		f.accepted.remove(f.rcvNext)
		f.ahead--
	}
}

// known moves rcvNext to the sender's oldest unanswered sequence number. The sender knows the
// answers to all frames before, so their rejects need not be remembered.
func (e *End) known(f *flow, oldest uint32) {
	if int32(oldest-f.rcvNext) <= 0 {
		return
	}
	for range min(oldest-f.rcvNext, Window) {
		if f.accepted.has(f.rcvNext) {
			f.accepted.remove(f.rcvNext)
			f.ahead--
		} else if f.refused.has(f.rcvNext) {
			e.forget(f, f.rcvNext)
		}
		f.rcvNext++
	}
	f.rcvNext = oldest
	f.advance()
}

// selective returns the 64 accepted bits after rcvNext.
func (f *flow) selective() uint64 {
	at := (f.rcvNext + 1) % Window
	w, b := at/64, at%64
	bits := f.accepted[w] >> b
	if b != 0 {
		bits |= f.accepted[(w+1)%(Window/64)] << (64 - b)
	}
	return bits
}

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
