package engine

// This file is about the answers of operations (arctic/response.go), at both ends.
//
// A context whose windows others may read or change has 64 lines of its own for answers, so
// requests of others take no line that its process sends with. When all are in use an operation is
// rejected for now (arctic.ReasonBusy), without having been carried out.
//
// A block of an answer is the window's memory itself. It is read when the frame is sent, and again
// when the frame is lost. So before a window is closed, the card copies the part of it that answers
// under way still need.
//
// The card that asked has a record for the answer and needs nothing of its process. It always takes
// answers. So replies drain (thesis 2.10), and the lines of the cards that answer come free.

import (
	"bytes"
	"math/bits"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
)

const (
	// answerLines is the number of lines that a context has for answers.
	answerLines = 64
	// firstAnswer is the Index of the first of them.
	firstAnswer = ownLine + arctic.Levels
)

// answers holds the lines of a context for answers. Bit i of free: line i is free.
type answers struct {
	lines [answerLines]line
	free  uint64
}

// takeAnswer returns a line for an answer, or nil.
func (x *Context) takeAnswer() *line {
	a := x.answers
	if a == nil || a.free == 0 {
		return nil
	}
	i := bits.TrailingZeros64(a.free)
	a.free &^= 1 << i
	ln := &a.lines[i]
	ln.ctx, ln.Index = x, firstAnswer+uint16(i)
	return ln
}

// canAnswer reports whether a line for an answer is free.
func (x *Context) canAnswer() bool { return x.answers != nil && x.answers.free != 0 }

// makeAnswers allocates the lines when the first window that needs them is opened.
func (x *Context) makeAnswers() {
	if x.answers == nil {
		x.answers = &answers{free: 1<<answerLines - 1}
	}
}

// allAnswered reports whether no answer of the context is under way.
func (x *Context) allAnswered() bool { return x.answers == nil || x.answers.free == 1<<answerLines-1 }

// answer sends data to the node that asked for it. The line holds a copy of the data.
func (u *remoteUnit) answer(x *Context, ln *line, node uint16, id, offset uint32, data []byte) {
	r := arctic.Response{ID: id, Offset: offset, Data: data}
	u.model.timeWrite(ln, false, len(data), 0, false)
	u.sendAnswer(x, ln, node, r.Type(), arctic.PutResponse(ln.Data[arctic.PacketHeaderSize:], &r))
}

// answerBlock sends a block of a window's memory to the node that asked for it.
func (u *remoteUnit) answerBlock(x *Context, ln *line, node uint16, id, offset uint32, memory []byte) {
	r := arctic.Response{ID: id, Offset: offset, Block: true}
	ln.Block = memory
	u.model.timeWrite(ln, false, len(memory), 0, false)
	u.sendAnswer(x, ln, node, r.Type(), arctic.PutResponse(ln.Data[arctic.PacketHeaderSize:], &r))
}

func (u *remoteUnit) sendAnswer(x *Context, ln *line, node, typ uint16, words int) {
	ln.Node, ln.Answer, ln.typ = node, true, typ
	route := u.routes.of(x.group, node)
	if u.in.single && ln.Block == nil && route != NoRoute && uint16(route) != u.cfg.Card {
		u.out.compose(x, arctic.Reply, ln, arctic.KindResponse, words, route)
		u.in.due, u.in.dueTo = ln, uint16(route)
		return
	}
	u.out.launch(x, arctic.Reply, ln, arctic.KindResponse, words)
	u.clock.more = true
	if x.looping {
		x.stir() // it is for a context of this card, and this one may be asleep
	}
}

// sendDue sends the answer to the only packet of a frame that has been accepted. The answer leaves
// at once, with the acknowledgment, if nothing waits before it.
func (d *delivery) sendDue() {
	ln := d.due
	d.due = nil
	if d.link.Lone(d.dueTo, arctic.Reply, &ln.Line) {
		d.flushes = true
	} else {
		d.link.Queue(d.dueTo, arctic.Reply, &ln.Line)
	}
	d.clock.more = true
}

// keepAnswers copies the blocks of answers under way from memory that the card may no longer use.
// There are at most 64 frames of them.
func (x *Context) keepAnswers(memory []byte) {
	if x.answers == nil || len(memory) == 0 {
		return
	}
	first := uintptr(unsafe.Pointer(&memory[0]))
	for used := ^x.answers.free; used != 0; used &= used - 1 {
		ln := &x.answers.lines[bits.TrailingZeros64(used)]
		x.spends(packetBytes)
		if ln.Block == nil || ln.kept {
			continue
		}
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(ln.Block))); at-first < uintptr(len(memory)) {
			x.spends(len(ln.Block))
			ln.Block, ln.kept = bytes.Clone(ln.Block), true
		}
	}
}

// acceptResponse takes the answer to a request of the context, with the block behind it if there is
// one. It returns the reason if the answer is rejected.
func (u *remoteUnit) acceptResponse(x *Context, p arctic.Packet, h *arctic.PacketHeader, block []byte) arctic.Reason {
	var a arctic.Response
	if !p.Response(h, &a) || a.Block != (len(block) > 0) || h.Level != arctic.Reply {
		u.counters.AnswersRefused++
		return arctic.ReasonRemoteForm
	}
	if x.drain { // the owner takes the context off the card
		return arctic.ReasonSwitching
	}
	if a.Block {
		a.Data = block
	}
	q := x.remote.request(a.ID)
	var reason arctic.Reason
	if q != nil && q.operation == arctic.RemoteMulticast { // any member may report
		if reason = x.reported(q, &a); reason == arctic.ReasonNone {
			x.took(len(a.Data))
			return arctic.ReasonNone
		}
	} else {
		reason = q.examine(h.Source, &a)
	}
	if reason != arctic.ReasonNone {
		u.counters.AnswersRefused++
		return reason
	}
	if q.operation == arctic.RemoteSend {
		x.granted(q, &a)
	} else {
		q.answered(x, &a)
	}
	x.took(len(a.Data))
	return arctic.ReasonNone
}

// examine returns the reason why a response from a node is not a valid answer to the request. The
// request is nil if there is none. examine changes nothing.
func (q *request) examine(source uint16, a *arctic.Response) arctic.Reason {
	switch {
	case q == nil || !q.asks:
		return arctic.ReasonRequest
	case q.node != source:
		return arctic.ReasonPath
	case uint64(a.Offset)+uint64(len(a.Data)) > uint64(q.asked) || q.got+len(a.Data) > q.asked:
		return arctic.ReasonPosted
	}
	if q.operation == arctic.RemoteSend {
		if _, ok := q.grants(a); !ok {
			return arctic.ReasonPosted
		}
	}
	return arctic.ReasonNone
}
