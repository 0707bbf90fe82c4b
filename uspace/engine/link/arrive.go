package link

// This file is the frame half of the Network Packet Preprocessor (thesis 5.6.2): it checks a frame,
// takes its acknowledgments, and drops duplicates. The owner judges the frame's packets. A frame
// that fails a check is dropped and counted. Its sender retransmits it, or reports an error.

import (
	"errors"
	"math/bits"

	"github.com/funet/funet/uspace/arctic"
)

// Train holds the packets of a frame that is to be answered. It is valid until Answer. An owner
// that lets time pass since Arrive calls Holds before Answer.
type Train struct {
	Header  *arctic.Header // of the frame
	First   arctic.PacketHeader
	Packets []byte // the first and those behind it (arctic.Next)
	Block   []byte // behind the only one, or nil
	// charged for the answer, if that needs a frame of its own; nil: no account. The engine sets it
	// when it judges the train
	Payer   *Account
	flow    *flow
	peer    *peer
	epoch   uint64
	reached int64 // flow.reached before the frame
	open    bool  // it is to be answered: its flow stays as it is
}

// Arrive takes a frame from the port with that index. The port keeps the frame until the owner is
// done with it. A peer's frames must arrive at the port that leads to it, so a station elsewhere
// cannot send in its name. Arrive returns a train if the frame carries packets that have not been
// answered. The owner judges each packet as it handles it, and then calls Answer. Arrive itself has
// done everything else that the frame calls for.
func (e *End) Arrive(port int, b []byte) *Train {
	e.Counters.FramesReceived++
	e.Counters.FrameBytesReceived += uint64(len(b))
	e.Fate, e.answered = Fate{Outcome: Accepted}, nil
	fl, f := e.foreseen(port, b) // as most in a dialogue
	h := &e.header
	if fl != nil {
		h = &fl.predicted.Header
	} else if f = e.inspect(port, b); f == nil {
		return nil
	}
	p := e.byCard.at(h.SourceCard)
	p.gid, p.silentSince = h.GID, 0
	if fl := p.flows[arctic.Reply]; fl != nil && fl.sndNext != fl.sndUna {
		e.acknowledged(fl, h.Acks[arctic.Reply], h.Selective[arctic.Reply])
	}
	if fl := p.flows[arctic.Request]; fl != nil && fl.sndNext != fl.sndUna {
		e.acknowledged(fl, h.Acks[arctic.Request], h.Selective[arctic.Request])
	}
	if fl != nil {
		return e.next(fl, f, h, true)
	}
	if f.Rejects() > 0 {
		e.rejected(p, f)
	}
	var t *Train
	if f.Packets() > 0 {
		fl = e.flow(p, h.Level)
		if t = e.next(fl, f, h, false); t != nil && p.Key == nil && (e.cfg.AnyGroup || e.here.has(h.GID)) {
			fl.predicted.Expect(f, h)
			fl.predictedIn = e.view
		}
	}
	if h.Bye {
		e.bye = p
		if t == nil {
			e.departed()
		}
	}
	return t
}

// drop counts a frame that goes no further, and notes why.
func (e *End) drop(count *uint64, why Outcome) arctic.Frame {
	*count++
	e.Fate.Outcome = why
	return nil
}

// inspect returns a frame of the present epoch of a peer, known to be what the peer sent, with its
// header in End.header. It handles greetings and frames of other epochs, drops what is wrong, and
// then returns nil.
func (e *End) inspect(port int, b []byte) arctic.Frame {
	f, err := arctic.Look(b)
	if err != nil {
		return e.damaged(err)
	}
	h, n := &e.header, &e.Counters
	f.DecodeHeader(h)
	p := e.peer(h.SourceCard)
	switch {
	case h.Direct != (e.cfg.Direct != nil):
		return e.damaged(arctic.ErrVersion)
	case h.Direct && h.Tag != *e.cfg.Direct: // of another job
		return e.drop(&n.DroppedStranger, Stranger)
	case h.DestinationCard != e.cfg.Card:
		return e.drop(&n.DroppedMisrouted, Misrouted)
	case p == nil || p.Address != h.From:
		return e.drop(&n.DroppedStranger, Stranger)
	case p.Port != port:
		return e.drop(&n.DroppedPort, OtherPort)
	}
	current := !h.Hello && p.established && h.Epoch == p.epoch
	if f = e.authentic(p, f, h.Hello, current); f == nil {
		return nil
	}
	if !e.cfg.AnyGroup && !e.here.has(h.GID) {
		n.DroppedGroup++
		if !current {
			e.Fate.Outcome = ForeignGroup
			return nil
		}
		// Its acknowledgments are for all groups, and its packets are rejected:
		// a frame without an answer would hold up the sequence that all share.
	}
	switch {
	case h.Hello:
		e.greeted(p, f, h)
		return nil
	case !current:
		e.Fate.Outcome = Stale
		e.stale(p, h.GID)
		return nil
	case h.Defer && f.Packets() == 0:
		e.deferred(p, h)
		return nil
	}
	return f
}

// foreseen returns a frame and its flow if the frame is as the flow predicts from the one before
// it. Match has then verified its checksum, and no other check is needed as long as End.view is the
// same. A sealed frame is never foreseen.
func (e *End) foreseen(port int, b []byte) (*flow, arctic.Frame) {
	if len(b) < arctic.HeaderSize {
		return nil, nil
	}
	card, l := arctic.PeekSource(b)
	if int(card) >= e.byCard.size {
		return nil, nil
	}
	p := e.byCard.at(card)
	if p == nil || !p.established || p.Port != port {
		return nil, nil
	}
	fl := p.flows[l]
	if fl == nil || fl.predictedIn != e.view || fl.predicted.Header.Epoch != p.epoch || p.timer == notTimed {
		return nil, nil
	}
	if f := fl.predicted.Match(b); f != nil {
		return fl, f
	}
	return nil, nil
}

// authentic returns the frame if it is what its sender sent, as far as that can be known. A sealed
// frame is returned opened. The caller has checked before, because that costs least, which card the
// frame claims to be from and for. A sealed frame of another epoch cannot be verified and is
// returned as it is.
func (e *End) authentic(p *peer, f arctic.Frame, hello, current bool) arctic.Frame {
	if !f.Sealed() && (p.Key == nil || hello) {
		if err := f.Check(); err != nil {
			return e.damaged(err)
		}
		return f
	}
	if f.Sealed() != (p.Key != nil) || hello {
		return e.drop(&e.Counters.DroppedForged, Forged)
	}
	if !current {
		return f
	}
	opened, err := p.secured.session.Open(f)
	switch err {
	case nil:
		p.secured.pending = false // the peer sends in this epoch
		return opened
	case ErrForged:
		return e.drop(&e.Counters.DroppedForged, Forged)
	case ErrReplayed:
		return e.drop(&e.Counters.DroppedReplayed, Replayed)
	}
	return e.damaged(err)
}

// blocksPerTrain is how many frames with a block count as one with a train where acknowledgments
// are due. A block occupies one line of its sender's cache, a train one line for each packet. A
// sender that gets fewer acknowledgments sends longer bursts, which cost the kernel less. Where
// acknowledgments take no time (Config.Timed) a frame with a block counts as any other.
const blocksPerTrain = 4

// next gives a frame with a train to its flow, and returns the train if it is new. Each frame is
// answered once, by accepting or rejecting each of its packets, and repeats get the same answer.
func (e *End) next(fl *flow, f arctic.Frame, h *arctic.Header, foreseen bool) *Train {
	seq := h.Sequence
	switch {
	case h.Age >= Window:
		e.drop(&e.Counters.OutOfWindow, OutOfWindow) // no sender has that many unanswered
		return nil
	case seq == fl.rcvNext && fl.rejects.head == nil: // in order, as most are
	case !e.isNew(fl, seq, seq-uint32(h.Age)):
		return nil
	}
	t := &e.train
	t.Header, t.flow, t.peer, t.epoch, t.reached, t.open = h, fl, fl.peer, fl.peer.epoch, fl.reached, true
	fl.reach(seq)
	if foreseen {
		t.Packets, t.Block, t.First = f[arctic.HeaderSize:], nil, fl.predicted.First
		return t
	}
	t.Packets, t.Block = f.Train(), f.Block()
	first, _ := arctic.Next(t.Packets)
	t.First = first.Header()
	if t.First.Kind == arctic.KindTransfer && t.First.Length == 0 { // void: see limit.go
		t.open = false
		e.Fate = Fate{Rejected, arctic.ReasonTooLong}
		e.remember(fl, Verdict{sequence: seq, Retry: ^uint64(0), RetryReason: arctic.ReasonTooLong})
		return nil
	}
	return t
}

// isNew reports whether a frame has not been answered yet. If it has, its answer is sent again.
// oldest is the oldest sequence number for which the sender has no answer.
func (e *End) isNew(fl *flow, seq, oldest uint32) bool {
	e.known(fl, oldest)
	// It is within the window: known has moved rcvNext to Age, or less, before it.
	switch {
	case int32(seq-fl.rcvNext) < 0 || fl.accepted.has(seq):
		e.oweNow(fl.peer)
	case fl.refused.has(seq):
		e.Counters.RepeatedRejects++
		e.answerAgain(fl, seq)
	default:
		return true
	}
	e.drop(&e.Counters.Duplicates, Duplicate)
	return false
}

// Reached returns how far the card has come with the peer's frames of the level: one more than the
// highest sequence number that was handled. Its upper 32 bits count the turns of the sequence.
func (t *Train) Reached() int64 { return t.flow.reached }

// Holds reports whether the last train may still be answered, for an owner that let time pass since
// Arrive. The peer may have been lost meanwhile. A train that does not hold is forgotten; the peer,
// if it is there, sends it again. No other frame may have arrived since Arrive.
func (e *End) Holds(t *Train) bool {
	if p := t.peer; p.established && p.epoch == t.epoch {
		return true
	}
	t.open, t.flow.reached = false, t.reached
	e.bye = nil
	e.drop(&e.Counters.Stale, Stale)
	return false
}

// Answer answers the frame of the last train. atOnce says that the frame's sender waits for the
// acknowledgment.
func (e *End) Answer(v *Verdict, atOnce bool) {
	t, fl, p, seq := &e.train, e.train.flow, e.train.flow.peer, e.train.Header.Sequence
	t.open = false
	fl.payer = t.Payer
	if v.Retry|v.Fail != 0 {
		e.Counters.RejectsSent += uint64(bits.OnesCount64(v.Retry | v.Fail))
		e.Fate = Fate{Rejected, v.first()}
		v.sequence = seq
		e.remember(fl, *v)
	} else {
		fl.unacked++
		if t.Block == nil || e.cfg.Timed {
			fl.unacked += blocksPerTrain - 1
		}
		if seq != fl.rcvNext {
			fl.accepted.add(seq)
			fl.ahead++
			atOnce = true
		} else if fl.rcvNext++; fl.ahead > 0 {
			fl.advance()
		}
		if atOnce || int(fl.unacked) >= e.cfg.AckEvery*blocksPerTrain {
			e.oweNow(p)
		} else if p.ackAt == 0 { // on data, or on a frame of its own
			p.ackAt = e.now + int64(e.cfg.AckDelay)
			e.timers.set(p, p.ackAt)
		}
	}
	if e.bye != nil {
		e.departed()
	}
}

// departed loses the peer that has said goodbye.
func (e *End) departed() {
	p := e.bye
	e.bye = nil
	e.lose(p, arctic.ReasonDeparted)
}

// damaged counts a frame that package arctic refused, by the error.
func (e *End) damaged(err error) arctic.Frame {
	n := &e.Counters
	for _, d := range []struct {
		err   error
		count *uint64
		fate  Outcome
	}{
		{arctic.ErrForeign, &n.DroppedForeign, NotFUNet}, {arctic.ErrShort, &n.DroppedShort, CutShort},
		{arctic.ErrVersion, &n.DroppedVersion, OtherVersion}, {arctic.ErrLength, &n.DroppedLength, BadLength},
		{arctic.ErrChecksum, &n.DroppedChecksum, BadChecksum}, {arctic.ErrFlags, &n.DroppedReserved, BadReserved},
		{arctic.ErrPacket, &n.DroppedPacket, BadTrain}, {arctic.ErrTrain, &n.DroppedPacket, BadTrain},
		{arctic.ErrBlock, &n.DroppedPacket, BadTrain},
	} {
		if errors.Is(err, d.err) {
			return e.drop(d.count, d.fate)
		}
	}
	return nil
}
