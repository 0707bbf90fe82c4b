package hostile

// This file is a victim's receiving side: it verifies, and answers.

import (
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// look takes what has come.
func (v *victim) look() error {
	for {
		r, ok := v.iface.NextReturn()
		if !ok {
			break
		}
		if err := v.back(r); err != nil {
			return err
		}
	}
	// what a lure gets back at once may be more than there is room for
	if n := v.iface.ReturnsLost(); n != 0 && !v.c.Storm && v.c.Lure == 0 {
		return v.bad("%d returns lost", n)
	}
	if v.iface.Status()&funi.MERR != 0 && !v.c.Storm {
		return v.bad("memory error: %v", v.iface.Fault())
	}
	for _, l := range []funi.Level{funi.Reply, funi.Request} {
		for range 64 {
			// A request that could not be answered stays where it is.
			if l == funi.Request && v.iface.Reserve(funi.Reply) == nil {
				break
			}
			s := v.iface.Receive(l)
			if s == nil {
				break
			}
			copied := *s
			v.iface.Release(l)
			if err := v.take(l, &copied); err != nil {
				return err
			}
		}
	}
	return nil
}

// take verifies a message.
func (v *victim) take(l funi.Level, s *funi.Slot) error {
	h := s.Header()
	if s[funi.SourceWord] != uint32(v.peer) || h.Node() != v.self {
		return v.bad("a message for node %d from node %#x: %#x", h.Node(), s[funi.SourceWord], s[:6])
	}
	if h.Transfer() {
		return v.takeBlock(l, s)
	}
	typ, words := h.Type(), s.Payload()
	if len(words) < answerWords || !right(v.c.Key, v.peer, v.self, typ, words) {
		return v.bad("a message that nobody sent: header %#x, %#x", uint32(h), words)
	}
	switch {
	case l == funi.Request && typ == typeRequest:
		v.met(words[lifeWord])
		if remember(v.history, words[lifeWord]).again(words[numberWord], words[attemptWord]) {
			return v.bad("request %d, attempt %d, came twice", words[numberWord], words[attemptWord])
		}
		return v.answer(typeAnswer, words[numberWord], words[lifeWord], words[attemptWord])
	case l == funi.Reply && typ == typeAnswer:
		v.met(words[ownLifeWord])
		return v.settle(&v.requests[words[numberWord]%inFlight], words, &v.answered, &v.allAnswered)
	case l == funi.Reply && typ == typeBlockAnswer:
		v.met(words[ownLifeWord])
		return v.settle(&v.block, words, &v.done, &v.allDone)
	default:
		return v.bad("a message of level %d and type %d", l, typ)
	}
}

// remember returns the history of a life; of those long gone nothing is kept.
func remember(m map[uint32]*history, life uint32) *history {
	h := m[life]
	if h == nil {
		if len(m) > 64 {
			clear(m)
		}
		h = &history{}
		m[life] = h
	}
	return h
}

// takeBlock verifies a block whose notice has come.
func (v *victim) takeBlock(l funi.Level, s *funi.Slot) error {
	n := s.Notice()
	at := int(n.Address) - segmentBase
	if l != funi.Request || s.Header().Type() != typeBlock || n.Words != blockWords || at < sourcePlaces*blockBytes ||
		at%blockBytes != 0 || at >= segmentBytes || n.Argument&blockArgument == 0 {
		return v.bad("a notice that nobody sent: %#x", s[:6])
	}
	number := n.Argument &^ blockArgument
	life, attempt, err := rightBlock(v.c.Key, v.segment[at/4:at/4+blockWords], number)
	if err != nil {
		return v.bad("block %d is not whole: %v", number, err)
	}
	v.met(life)
	if remember(v.blocks, life).again(number, attempt) {
		return v.bad("block %d, attempt %d, came twice", number, attempt)
	}
	return v.answer(typeBlockAnswer, number, life, attempt)
}

// answer answers a request; look has seen that there is room.
func (v *victim) answer(typ uint16, number, life, attempt uint32) error {
	s := v.iface.Reserve(funi.Reply)
	if s == nil {
		return v.bad("room for an answer has gone")
	}
	w := s[funi.PayloadWord : funi.PayloadWord+answerWords]
	w[numberWord], w[lifeWord], w[attemptWord], w[ownLifeWord] = number, life, attempt, v.life
	fill(v.c.Key, v.self, v.peer, typ, w)
	s.SetHeader(funi.NewHeader(v.peer, typ, answerWords))
	v.iface.Commit(funi.Reply)
	return nil
}

// settle takes an answer.
func (v *victim) settle(p *pending, words []uint32, counts ...*int) error {
	if !p.open || p.number != words[numberWord] || words[lifeWord] != v.life || p.attempt != words[attemptWord] {
		if v.c.Storm {
			return nil // of an attempt before
		}
		return v.bad("an answer to request %d of life %d, attempt %d, which does not wait for one", words[numberWord],
			words[lifeWord], words[attemptWord])
	}
	p.open = false
	for _, n := range counts {
		*n++
	}
	return nil
}

// back takes something that could not be delivered.
func (v *victim) back(r funi.Returned) error {
	if v.c.Lure != 0 && r.Header.Node() == v.c.Lure {
		return nil
	}
	if !v.c.Storm {
		return v.bad("a message came back: %v, header %#x, word %d", r.Reason, uint32(r.Header), r.Word)
	}
	if v.returned++; v.now.After(v.silent) {
		v.silent = v.now.Add(reportEvery / 10)
		fmt.Println("returned", r.Reason)
	}
	var p *pending
	switch {
	case r.Header.Transfer():
		p = &v.block
		if p.number != r.Word&^blockArgument {
			return nil
		}
	case r.Header.Type() == typeRequest:
		p = &v.requests[r.Word%inFlight]
		if p.number != r.Word {
			return nil
		}
	default:
		return nil // an answer: the asker is gone
	}
	p.retry(v.now.Add(again))
	return nil
}
