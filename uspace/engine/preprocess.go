package engine

// This file is the Network Packet Preprocessor (thesis 5.6.2): it checks a frame,
// hands its acknowledgments on, and accepts or rejects its packets. A frame that
// fails a check is dropped and counted; the sender's retransmission, or its
// error, takes care of the rest.

import (
	"errors"
	"math/bits"

	"github.com/funet/funet/uspace/arctic"
)

func (c *Card) preprocess(b []byte) {
	c.counters.FramesReceived++
	c.fate = Fate{Outcome: Accepted}
	f, err := arctic.Parse(b)
	if err != nil {
		c.damaged(err)
		return
	}
	h := &c.header
	f.DecodeHeader(h)
	p := c.peer(h.SourceCard)
	switch {
	case h.DestinationCard != c.cfg.Card:
		c.counters.DroppedMisrouted++
		c.fate.Outcome = Misrouted
		return
	case p == nil || p.Address != h.From:
		c.counters.DroppedStranger++
		c.fate.Outcome = Stranger
		return
	}
	current := !h.Hello && p.established && h.DestinationIncarnation == c.cfg.Incarnation && h.SourceIncarnation == p.incarnation
	if !c.hasGroup(h.GID) {
		c.counters.DroppedGroup++
		if !current {
			c.fate.Outcome = ForeignGroup
			return
		}
		// Its acknowledgments are for all groups, and its packets are rejected:
		// a frame without an answer would hold up the sequence that all share.
	}
	p.gid = h.GID
	switch {
	case h.Hello:
		c.greeted(p, h)
		return
	case !current:
		c.fate.Outcome = Stale
		c.stale(p)
		return
	}
	p.heard()
	for l := arctic.Reply; l <= arctic.Reply; l-- {
		if fl := p.flows[l]; fl != nil && fl.next != fl.oldest {
			c.acknowledged(fl, h.Acks[l], h.Selective[l])
		}
	}
	if f.Rejects() > 0 {
		c.rejected(p, f)
	}
	if f.Packets() > 0 {
		c.arrived(p, f, h)
	}
	if h.Bye {
		c.lose(p, arctic.ReasonDeparted)
	}
}

// blocksPerTrain is how many frames with a block count as one with a train where
// acknowledgments are due: a block occupies one line of its sender's cache, a train as
// many as it has packets, and a sender that gets fewer acknowledgments sends longer
// bursts, which cost the kernel less.
const blocksPerTrain = 4

// arrived handles the train of a frame: each frame is answered once, by accepting
// or rejecting each of its packets, and repeats get the same answer.
func (c *Card) arrived(p *peer, f arctic.Frame, h *arctic.Header) {
	if h.Age >= Window {
		c.counters.OutOfWindow++ // no sender has that many unanswered
		c.fate.Outcome = OutOfWindow
		return
	}
	fl := c.flow(p, h.Level)
	c.settle(fl, h.Sequence-uint32(h.Age))
	seq := h.Sequence
	// It is within the window: settle has moved expect to Age, or less, before it.
	if int32(seq-fl.expect) < 0 || fl.isAccepted(seq) {
		c.counters.Duplicates++
		c.fate.Outcome = Duplicate
		c.oweNow(p)
		return
	}
	if fl.isRefused(seq) {
		c.counters.Duplicates++
		c.fate.Outcome = Duplicate
		c.counters.RepeatedRejects++
		c.answerAgain(fl, seq)
		return
	}
	train := f.Train()
	first, _ := arctic.Next(train)
	who := first.Header()
	if who.Kind == arctic.KindTransfer && who.Length == 0 {
		fl.reach(seq)
		c.fate = Fate{Rejected, arctic.ReasonTooLong}
		c.remember(fl, &rejected{sequence: seq, retry: ^uint64(0), retryReason: arctic.ReasonTooLong})
		return
	}
	x := c.recipient(h, &who)
	if x != nil && x.account != nil {
		c.uses(x.account)
	}
	verdict := rejected{sequence: seq}
	var packet arctic.Packet
	c.atOnce = false
	fl.reach(seq)
	for i := 0; len(train) > 0; i++ {
		packet, train = arctic.Next(train)
		verdict.note(i, c.accept(x, fl, h.Level, packet, f.Block()))
	}
	if verdict.retry|verdict.fail != 0 {
		c.counters.RejectsSent += uint64(bits.OnesCount64(verdict.retry | verdict.fail))
		c.fate = Fate{Rejected, verdict.first()}
		c.remember(fl, &verdict)
		return
	}
	fl.setAccepted(seq)
	inOrder := seq == fl.expect
	fl.advance()
	if f.Block() == nil {
		fl.unacked += blocksPerTrain
	} else {
		fl.unacked++
	}
	if !inOrder || c.atOnce || fl.unacked >= c.cfg.AckEvery*blocksPerTrain {
		c.oweNow(p)
	} else {
		c.owe(p)
	}
}

// recipient returns the context that takes or rejects the packets of a frame, nil for a
// node that is not here.
func (c *Card) recipient(h *arctic.Header, who *arctic.PacketHeader) *Context {
	x := c.lookup(h.GID, who.Destination, h.Tag)
	if x == c.foreign {
		return x // whoever it came from, the group that is here is not its
	}
	// Of a group that is not here nothing is delivered, and no table says where its
	// nodes are.
	if g := c.groups[h.GID]; g != nil && len(g.nodes) > 0 && c.route(g, who.Source) != uint32(h.SourceCard) {
		c.counters.ForgedSource++
		return c.stranger // it answers: the card is a peer, and its flow would wait
	}
	if h.GID != SystemGroup || c.cfg.SystemEvent == nil {
		return x
	}
	if !c.isResident(SystemGroup) {
		x = c.absent // its senders try again until the system is here (thesis 3.3.2)
	}
	if x != nil && x.refusal != arctic.ReasonNone {
		c.cfg.SystemEvent()
	}
	return x
}

// note adds the verdict on packet i. A frame has room for one transient and one
// permanent reason; a packet with a second permanent reason is sent back as
// transient and gets its own verdict when it comes again.
func (r *rejected) note(i int, reason arctic.Reason) {
	bit := uint64(1) << i
	switch {
	case reason == arctic.ReasonNone:
	case reason.Permanent() && (r.fail == 0 || r.failReason == reason):
		r.fail |= bit
		r.failReason = reason
	default:
		r.retry |= bit
		if reason.Permanent() {
			reason = arctic.ReasonQueueFull
		}
		if r.retryReason == arctic.ReasonNone {
			r.retryReason = reason
		}
	}
}

// first is a reason of the verdict, which rejects something: the permanent one, if there is.
func (r *rejected) first() arctic.Reason {
	if r.fail != 0 {
		return r.failReason
	}
	return r.retryReason
}

// damaged counts a frame that Parse refused.
func (c *Card) damaged(err error) {
	n := &c.counters
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
			c.fate.Outcome = d.fate
			return
		}
	}
}
