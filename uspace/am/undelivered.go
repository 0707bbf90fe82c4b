package am

// This file reports messages that came back.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// Undelivered is the error for messages that came back, and for messages whose handler the node
// does not have (ErrNoHandler). For returned messages, compare Reason.
type Undelivered struct {
	Reason  arctic.Reason // ReasonNone: the node has no such handler
	Level   funi.Level
	Node    uint16 // destination of the first such message
	Handler uint32 // its handler, object, or place in a segment
	// Transfer says that the message was a transfer, for a notice handler.
	Transfer bool
	// Library says that the message belonged to one of the library's calls, such as Get or Barrier,
	// or was an answer to one. Handler is 0 then.
	Library bool
	Count   int // number of messages that came back with it

	vain bool // only probes came back, and no operation failed because of it
}

// Error says what came back, and why.
func (u *Undelivered) Error() string {
	what, where := "", fmt.Sprintf("handler %d", u.Handler)
	if u.Transfer {
		what = "transfer, "
	}
	if u.Library {
		where = "a call of the library"
	}
	why := u.Reason.String()
	if u.Reason == arctic.ReasonNone {
		why = "the node has no such handler; all nodes register theirs, and then a barrier comes"
	}
	s := fmt.Sprintf("%s%s to node %d (%s) was not delivered: %s", what, u.Level, u.Node, where, why)
	if u.Count > 1 {
		s += fmt.Sprintf(", and %d more", u.Count-1)
	}
	return s
}

// Unwrap returns ErrNoHandler, or nil for messages that came back.
func (u *Undelivered) Unwrap() error {
	if u.Reason == arctic.ReasonNone {
		return ErrNoHandler
	}
	return nil
}

// tellUnhandled tells the sender of a short message that it has no handler here. A modelled machine
// has no such message.
func (x *byteMessages) tellUnhandled(m *Message, number uint32) {
	if x.pace != nil || m.Source >= x.nodes {
		return
	}
	in := x.depth[m.level]
	x.depth[m.level] = true
	x.tell(m, control{node: uint16(m.Source), typ: typeUnhandled, n: 2,
		words: [5]uint32{x.stamp(m.Source, number), uint32(m.level)}})
	x.depth[m.level] = in
}

// unhandled handles the report that a node has no handler for a short message. first is the
// handler's number, with the lives.
func (x *byteMessages) unhandled(m *Message, first uint32) {
	if m.Words[0] >= arctic.Levels {
		x.unknown++
		return
	}
	// else an earlier life's
	if k := x.member; k == nil || uint32(k.o.Life)&lifeMask == first>>receiverShift&lifeMask {
		if k != nil {
			first &^= lives
		}
		x.noHandler(m.Source, first, funi.Level(m.Words[0]))
	}
}

// noHandler makes a Poll report that a node has no handler for a message. One error is kept, and
// counts the others.
func (x *byteMessages) noHandler(node int, handler uint32, level funi.Level) {
	if x.homeless == nil {
		x.homeless = &Undelivered{Level: level, Node: uint16(node), Handler: handler}
	}
	x.homeless.Count++
	x.busy = true // the next Poll looks
}

// PassOn makes Polls pass returned requests for remote memory to back, for another library on the
// same interface that sends them. Main program only.
func (e *Endpoint) PassOn(back func(funi.Returned)) { e.windows = back }

// nextReturn takes the next returned message. It passes operations on windows on instead.
func (e *Endpoint) nextReturn() (r funi.Returned, ok bool) {
	for r, ok = e.iface.NextReturn(); ok && e.windows != nil && r.Header.Remote(); r, ok = e.iface.NextReturn() {
		e.windows(r)
	}
	return r, ok
}

// returned returns an error for messages that came back since the last call, or because no message
// will arrive any more.
func (e *Endpoint) returned() error {
	if u := e.bytes.homeless; u != nil {
		e.bytes.homeless = nil
		return u
	}
	r, ok := e.nextReturn()
	if len(e.remote.back) > 0 {
		e.remote.tellLost()
	}
	// The card may lose a return and count it when the ring has been read and is empty.
	if !ok && e.iface.ReturnsLost() == e.lost {
		return e.ended("waiting")
	}
	if e.pace == nil {
		// What the node sent before it ended is here, and may be what a call waits for: it counts
		// before what came back.
		e.handleAll()
	}
	under, probes := e.underWay(), 0
	var u *Undelivered
	if ok {
		e.last = r
	}
	for ; ok; r, ok = e.nextReturn() {
		e.rounds.cameBack(&r)
		if e.member.cameBack(&r) {
			continue
		}
		if unasked(&r) {
			about := e.describe(&r)
			about.Count = 1
			e.bytes.cameBack(&r, about)
			e.calls.cameBack(&r, about)
			e.remote.cameBack(&r, about)
			continue
		}
		about := u
		if u == nil {
			about = e.describe(&r)
		}
		if e.bytes.cameBack(&r, about) || e.tags.cameBack(&r, about) {
			continue
		}
		u = about
		u.Count++
		if r.Header.Type() == typeProbe && !r.Header.Transfer() {
			probes++
		}
		e.calls.cameBack(&r, u)
		e.remote.cameBack(&r, u)
	}
	if lost := e.iface.ReturnsLost(); lost != e.lost {
		if u == nil {
			u = e.describe(&e.last)
		}
		u.Count += int(lost - e.lost)
		e.lost = lost
		// What they were is not known: any call may have been among them.
		e.calls.failAll(u, func(*call) bool { return true })
		e.remote.failAll(u, func(*remoteCall) bool { return true })
		e.tags.failAll(u)
		e.bytes.failAll(u)
		e.rounds.cameBack(nil)
	}
	if u == nil {
		return e.ended("waiting")
	}
	u.vain = probes == u.Count && e.underWay() == under
	return u
}

// underWay returns how many operations wait for other nodes.
func (e *Endpoint) underWay() int {
	sends, receives, _ := e.TaggedUnderWay()
	return e.remote.under() + e.bytes.sends.under() + e.calls.under() + sends + receives
}

// unasked reports whether a returned packet is an answer of the library to a node that is gone.
// Nothing here waits for such an answer to arrive. A node may well end before it gets the answer to
// a call that it has cancelled, or the outcome of a message.
func unasked(r *funi.Returned) bool {
	if r.Header.Transfer() || !gone(r.Reason) {
		return false
	}
	switch r.Header.Type() {
	case typeAnswer, typeGrant, typeTaken, typeUnhandled:
		return true
	case typeDone, typeData, typeValue:
		return r.Level == funi.Reply
	}
	return false
}

// inVain reports whether an error means only that probes came back on which nothing depended any
// more: their purpose had been met already.
func inVain(err error) bool {
	var u *Undelivered
	return errors.As(err, &u) && u.vain
}

// describe makes the error for a returned packet, and does not count it yet.
func (c *core) describe(r *funi.Returned) *Undelivered {
	u := &Undelivered{Reason: r.Reason, Level: r.Level, Node: r.Header.Node(), Handler: r.Word}
	if c.member != nil {
		u.Handler &^= lives
		if r.Header.Transfer() && r.Header.Type() == typePart && r.Reason == arctic.ReasonDestination {
			u.Reason = arctic.ReasonReplaced // an earlier life had its memory there
		}
	}
	switch typ := uint32(r.Header.Type()); {
	case r.Header.Transfer() && typ >= typeTransfer:
		u.Handler, u.Transfer = typ-typeTransfer, true
	case typ == typeMfer:
		u.Transfer = true
	case typ == typeBytes, typ == typePart && r.Header.Transfer() && r.Word&partBit != 0:
		u.Handler = r.Word & handlerMask
	case typ > typeMfer:
		u.Handler, u.Library = 0, true
	}
	return u
}
