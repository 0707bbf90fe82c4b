package engine

// This file is the answers of operations (arctic/response.go), at both ends.
//
// A context whose windows others may read or change has lines of its own for answers: requests of
// others take none of those that its process sends with. There are 64. When all are in use an
// operation is rejected for now (arctic.ReasonBusy), and nothing was done.
//
// What an answer of many bytes has in its block is the window's memory itself, read when the frame
// goes, and again when that is lost. So whoever closes a window has the card copy what is under way
// from there first.
//
// The one that asked has a record for the answer and needs nothing of its process: answers are
// always taken, so replies drain (thesis 2.10), and the lines of those who answer come free.

import (
	"bytes"
	"math/bits"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
)

const (
	// answerLines is how many lines for answers a context has.
	answerLines = 64
	// firstAnswer is the Index of the first of them.
	firstAnswer = ownLine + arctic.Levels
)

// answers is the lines of a context for answers; bit i of free: line i is.
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

// canAnswer reports whether there is one.
func (x *Context) canAnswer() bool { return x.answers != nil && x.answers.free != 0 }

// makeAnswers allocates them, when the first window is opened that needs them.
func (x *Context) makeAnswers() {
	if x.answers == nil {
		x.answers = &answers{free: 1<<answerLines - 1}
	}
}

// allAnswered reports whether no answer of the context is under way.
func (x *Context) allAnswered() bool { return x.answers == nil || x.answers.free == 1<<answerLines-1 }

// answer sends data to the node that asked for it. The line has a copy.
func (c *Card) answer(x *Context, ln *line, node uint16, id, offset uint32, data []byte) {
	r := arctic.Response{ID: id, Offset: offset, Data: data}
	c.timeWrite(ln, false, len(data), 0, false)
	c.sendAnswer(x, ln, node, r.Type(), arctic.PutResponse(ln.Data[arctic.PacketHeaderSize:], &r))
}

// answerBlock sends a block of a window's memory to the node that asked for it.
func (c *Card) answerBlock(x *Context, ln *line, node uint16, id, offset uint32, memory []byte) {
	r := arctic.Response{ID: id, Offset: offset, Block: true}
	ln.Block = memory
	c.timeWrite(ln, false, len(memory), 0, false)
	c.sendAnswer(x, ln, node, r.Type(), arctic.PutResponse(ln.Data[arctic.PacketHeaderSize:], &r))
}

func (c *Card) sendAnswer(x *Context, ln *line, node, typ uint16, words int) {
	ln.Node, ln.Answer, ln.typ = node, true, typ
	if route := c.route(x.group, node); c.single && ln.Block == nil && route != NoRoute && uint16(route) != c.cfg.Card {
		c.compose(x, arctic.Reply, ln, arctic.KindResponse, words, route)
		c.due, c.dueTo = ln, uint16(route)
		return
	}
	c.launch(x, arctic.Reply, ln, arctic.KindResponse, words)
	c.more = true
	if x.looping {
		x.stir() // it is for a context of this card, and this one may be asleep
	}
}

// sendDue sends the answer to the only packet of a frame, which has been accepted: at once, with
// the acknowledgment, if nothing is before it.
func (c *Card) sendDue() {
	ln := c.due
	c.due = nil
	if c.link.Lone(c.dueTo, arctic.Reply, &ln.Line) {
		c.flushes = true
	} else {
		c.link.Queue(c.dueTo, arctic.Reply, &ln.Line)
	}
	c.more = true
}

// keepAnswers copies what answers under way have of memory that the card may use no more. There are
// at most 64 frames of it.
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
// one, or says why not.
func (c *Card) acceptResponse(x *Context, p arctic.Packet, h *arctic.PacketHeader, block []byte) arctic.Reason {
	var a arctic.Response
	if !p.Response(h, &a) || a.Block != (len(block) > 0) || h.Level != arctic.Reply {
		c.counters.AnswersRefused++
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
		c.counters.AnswersRefused++
		return reason
	}
	q.answered(x, &a)
	x.took(len(a.Data))
	return arctic.ReasonNone
}

// examine says why what a node sends is no answer to the request, nil for none, if it is not. It
// changes nothing.
func (q *request) examine(source uint16, a *arctic.Response) arctic.Reason {
	switch {
	case q == nil || !q.asks:
		return arctic.ReasonRequest
	case q.node != source:
		return arctic.ReasonPath
	case uint64(a.Offset)+uint64(len(a.Data)) > uint64(q.asked) || q.got+len(a.Data) > q.asked:
		return arctic.ReasonPosted
	}
	return arctic.ReasonNone
}
