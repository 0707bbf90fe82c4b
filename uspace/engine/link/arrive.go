package link

// This file is the frame half of the Network Packet Preprocessor (thesis 5.6.2): it checks a frame,
// takes its acknowledgments, and drops duplicates. What it carries is the owner's to judge. A frame
// that fails a check is dropped and counted; the sender's retransmission, or its error, takes care
// of the rest.

import (
	"errors"
	"math/bits"

	"github.com/funet/funet/uspace/arctic"
)

// Train is the packets of a frame that is to be answered. It is good until Answer. An owner that
// takes its time asks Holds before.
type Train struct {
	Header  *arctic.Header // of the frame
	First   arctic.PacketHeader
	Packets []byte // the first and those behind it (arctic.Next)
	Block   []byte // behind the only one, or nil
	// for the answer, if it needs a frame of its own; nil: nobody. Whoever judges the train says so
	Payer   *Account
	flow    *flow
	peer    *peer
	epoch   uint64
	reached int64 // flow.reached before it
	open    bool  // it is to be answered: its flow stays as it is
}

// Arrive takes a frame from the port with that index, which keeps it until the owner is done with
// it. A peer's frames come in at the port that leads to it: whoever can send frames elsewhere
// cannot send in its name. Arrive returns a train if the frame carries packets that have not been
// answered: the owner judges each, as it handles it, and calls Answer. Everything else the frame is
// good for has happened.
func (e *End) Arrive(port int, b []byte) *Train {
	e.counters.FramesReceived++
	e.counters.FrameBytesReceived += uint64(len(b))
	e.fate, e.answered = Fate{Outcome: Accepted}, nil
	if fl, f := e.foreseen(port, b); f != nil { // as most in a dialogue
		return e.good(fl.peer, f, fl.predicted.Header(f), fl)
	}
	f, err := arctic.Look(b)
	if err != nil {
		e.damaged(err)
		return nil
	}
	h := &e.header
	f.DecodeHeader(h)
	p := e.peer(h.SourceCard)
	switch {
	case h.Direct != (e.cfg.Direct != nil):
		e.damaged(arctic.ErrVersion)
		return nil
	case h.Direct && h.Tag != *e.cfg.Direct:
		e.counters.DroppedStranger++ // of another job
		e.fate.Outcome = Stranger
		return nil
	case h.DestinationCard != e.cfg.Card:
		e.counters.DroppedMisrouted++
		e.fate.Outcome = Misrouted
		return nil
	case p == nil || p.Address != h.From:
		e.counters.DroppedStranger++
		e.fate.Outcome = Stranger
		return nil
	case p.Port != port:
		e.counters.DroppedPort++
		e.fate.Outcome = OtherPort
		return nil
	}
	current := !h.Hello && p.established && h.Epoch == p.epoch
	if f = e.authentic(p, f, h.Hello, current); f == nil {
		return nil
	}
	if !e.cfg.AnyGroup && !e.here.has(h.GID) {
		e.counters.DroppedGroup++
		if !current {
			e.fate.Outcome = ForeignGroup
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
		e.fate.Outcome = Stale
		e.stale(p, h.GID)
		return nil
	}
	return e.good(p, f, h, nil)
}

// foreseen returns a frame, and its flow, if it is like the last one of the flow, and good like
// that. Of such a frame nothing is to be found out but its checksum, as long as the card sees its
// peers and groups as it did. Sealed frames are none.
func (e *End) foreseen(port int, b []byte) (*flow, arctic.Frame) {
	if len(b) < arctic.HeaderSize {
		return nil, nil
	}
	card, l := arctic.PeekSource(b)
	if int(card) >= len(e.byCard) {
		return nil, nil
	}
	p := e.byCard[card]
	if p == nil || !p.established || p.Port != port {
		return nil, nil
	}
	fl := p.flows[l]
	if fl == nil || fl.predictedIn != e.view || fl.predicted.Epoch() != p.epoch || p.timer == notTimed {
		return nil, nil
	}
	return fl, fl.predicted.Match(b)
}

// good takes from a frame of the present epoch, which is what its sender sent, what it is good for.
// foreseen is its flow if it was foreseen.
func (e *End) good(p *peer, f arctic.Frame, h *arctic.Header, foreseen *flow) *Train {
	p.gid = h.GID
	p.heard()
	if fl := p.flows[arctic.Reply]; fl != nil && fl.sndNext != fl.sndUna {
		e.acknowledged(fl, h.Acks[arctic.Reply], h.Selective[arctic.Reply])
	}
	if fl := p.flows[arctic.Request]; fl != nil && fl.sndNext != fl.sndUna {
		e.acknowledged(fl, h.Acks[arctic.Request], h.Selective[arctic.Request])
	}
	if foreseen != nil {
		return e.next(foreseen, f, h, true)
	}
	if f.Rejects() > 0 {
		e.rejected(p, f)
	}
	var t *Train
	if f.Packets() > 0 {
		t = e.arrived(p, f, h)
	}
	if h.Bye {
		e.bye = p
		if t == nil {
			e.departed()
		}
	}
	return t
}

// authentic returns the frame if it is what its sender sent, as far as that can be known: opened,
// if it was sealed. What it says of its sender, and for whom it is, has been looked at, because
// that costs least. Of a sealed frame of another epoch nothing is known but that; it is returned as
// it is.
func (e *End) authentic(p *peer, f arctic.Frame, hello, current bool) arctic.Frame {
	if !f.Sealed() && (p.Key == nil || hello) {
		if err := f.Check(); err != nil {
			e.damaged(err)
			return nil
		}
		return f
	}
	if f.Sealed() != (p.Key != nil) || hello {
		e.counters.DroppedForged++
		e.fate.Outcome = Forged
		return nil
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
		e.counters.DroppedForged++
		e.fate.Outcome = Forged
	case ErrReplayed:
		e.counters.DroppedReplayed++
		e.fate.Outcome = Replayed
	default:
		e.damaged(err)
	}
	return nil
}

// blocksPerTrain is how many frames with a block count as one with a train where acknowledgments
// are due. A block occupies one line of its sender's cache, a train as many as it has packets. A
// sender that gets fewer acknowledgments sends longer bursts, which cost the kernel less. A frame
// with a block counts as any other where acknowledgments take no time (Config.Timed).
const blocksPerTrain = 4

// arrived finds out whether the train of a frame is to be judged.
func (e *End) arrived(p *peer, f arctic.Frame, h *arctic.Header) *Train {
	fl := e.flow(p, h.Level)
	t := e.next(fl, f, h, false)
	if t != nil && p.Key == nil && (e.cfg.AnyGroup || e.here.has(h.GID)) {
		fl.predicted.Expect(f, h)
		fl.predictedIn = e.view
	}
	return t
}

// next lets a flow take a frame with a train: each frame is answered once, by accepting or
// rejecting each of its packets, and repeats get the same answer.
func (e *End) next(fl *flow, f arctic.Frame, h *arctic.Header, foreseen bool) *Train {
	seq := h.Sequence
	switch {
	case h.Age >= Window:
		e.counters.OutOfWindow++ // no sender has that many unanswered
		e.fate.Outcome = OutOfWindow
		return nil
	case seq == fl.rcvNext && fl.rejects.head == nil: // in order, as most are
	case !e.isNew(fl, seq, seq-uint32(h.Age)):
		return nil
	}
	t := &e.train
	t.Header, t.flow, t.peer, t.epoch, t.reached, t.open = h, fl, fl.peer, fl.peer.epoch, fl.reached, true
	fl.reach(seq)
	if foreseen {
		t.Packets, t.Block, t.First = f[arctic.HeaderSize:], nil, fl.predicted.First()
		return t
	}
	t.Packets, t.Block = f.Train(), f.Block()
	first, _ := arctic.Next(t.Packets)
	t.First = first.Header()
	if t.First.Kind == arctic.KindTransfer && t.First.Length == 0 { // void: see limit.go
		t.open = false
		e.fate = Fate{Rejected, arctic.ReasonTooLong}
		e.remember(fl, &rejected{Verdict: Verdict{sequence: seq, Retry: ^uint64(0), RetryReason: arctic.ReasonTooLong}})
		return nil
	}
	return t
}

// isNew reports whether a frame has not been answered yet. A repeat gets its answer again. The
// oldest is its sender's oldest unanswered one.
func (e *End) isNew(fl *flow, seq, oldest uint32) bool {
	e.known(fl, oldest)
	// It is within the window: known has moved rcvNext to Age, or less, before it.
	if int32(seq-fl.rcvNext) < 0 || fl.isAccepted(seq) {
		e.counters.Duplicates++
		e.fate.Outcome = Duplicate
		e.oweNow(fl.peer)
		return false
	}
	if fl.isRefused(seq) {
		e.counters.Duplicates++
		e.fate.Outcome = Duplicate
		e.counters.RepeatedRejects++
		e.answerAgain(fl, seq)
		return false
	}
	return true
}

// Card returns the number of the card that sent the frame.
func (t *Train) Card() uint16 { return t.flow.peer.Card }

// Level returns the level of the frame.
func (t *Train) Level() arctic.Level { return t.flow.level }

// Reached returns how far the card has come with the peer's frames of the level: one more than the
// highest number that was handled; the upper 32 bits count the turns of the sequence.
func (t *Train) Reached() int64 { return t.flow.reached }

// Holds reports whether the last train may still be answered, for an owner that let time pass since
// Arrive: meanwhile the peer may have been lost. What does not hold is forgotten; the peer, if it
// is there, sends it again. No other frame may have arrived meanwhile.
func (e *End) Holds(t *Train) bool {
	if p := t.peer; p.established && p.epoch == t.epoch {
		return true
	}
	t.open, t.flow.reached = false, t.reached
	e.bye = nil
	e.counters.Stale++
	e.fate.Outcome = Stale
	return false
}

// Answer answers the frame of the last train. With atOnce its sender waits for the acknowledgment.
func (e *End) Answer(v *Verdict, atOnce bool) {
	if v.Retry|v.Fail == 0 {
		e.Accept(atOnce)
		return
	}
	e.train.open = false
	e.train.flow.payer = e.train.Payer
	e.counters.RejectsSent += uint64(bits.OnesCount64(v.Retry | v.Fail))
	e.fate = Fate{Rejected, v.first()}
	v.sequence = e.train.Header.Sequence
	e.remember(e.train.flow, &rejected{Verdict: *v})
	if e.bye != nil {
		e.departed()
	}
}

// Accept is Answer where all packets are accepted.
func (e *End) Accept(atOnce bool) {
	e.train.open = false
	fl := e.train.flow
	fl.payer = e.train.Payer
	inOrder := fl.accept(e.train.Header.Sequence)
	if e.train.Block == nil || e.cfg.Timed {
		fl.unacked += blocksPerTrain
	} else {
		fl.unacked++
	}
	if !inOrder || atOnce || int(fl.unacked) >= e.cfg.AckEvery*blocksPerTrain {
		e.oweNow(fl.peer)
	} else {
		e.owe(fl.peer)
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

// damaged counts a frame that Parse refused.
func (e *End) damaged(err error) {
	n := &e.counters
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
			*d.count++
			e.fate.Outcome = d.fate
			return
		}
	}
}
