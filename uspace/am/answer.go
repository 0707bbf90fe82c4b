package am

// This file answers get and put: the request handlers that answer, and the reply handlers that take
// the answers.

import (
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// Results in a typeDone.
const (
	answerDone    = 0
	answerRefused = 1
)

// get answers with a piece of this process's memory.
func (t *calls) get(m *Message, ticket uint32) {
	if m.Words[1] > pieceWords {
		t.unknown++
		return
	}
	address, words, offset := m.Words[0], int(m.Words[1]), m.Words[2]
	t.charge(memoryCost)
	from := t.e.regions.words(address, words, funi.Source)
	if from == nil {
		t.finish(m, ticket, answerRefused)
		return
	}
	if words == 1 || words == 2 {
		var v [2]uint32
		load(v[:words], from)
		if m.reply4(typeValue, ticket, offset, uint32(words), v[0], v[1]) != nil {
			t.unknown++ // it came at reply priority, where no one may ask
		}
		return
	}
	s, err := m.reserve(1 + words)
	if err != nil {
		t.unknown++
		return
	}
	s.SetHeader(funi.NewHeader(uint16(m.Source), typeData, 2+words))
	s[1], s[2] = ticket, offset
	load(s[3:3+words], from)
	t.commit(funi.Reply, s)
}

// getBlock answers by letting the card move a block of this process's memory.
func (t *calls) getBlock(m *Message, ticket uint32) {
	move := funi.Transfer{Source: m.Words[0], Destination: m.Words[2], Argument: ticket, Words: int(m.Words[1])}
	if checkBlock(m.Source, &move) != nil || t.e.regions.words(move.Source, move.Words, funi.Source) == nil {
		t.finish(m, ticket, answerRefused)
		return
	}
	if err := m.transfer(typeGetBlock, &move); err != nil {
		t.unknown++
	}
}

// carried returns the words of memory that a message carries behind an address or offset, or nil if
// it has another form. Those of a typePutOne or typeValue are one or two, with their number.
func carried(m *Message, typ uint16) []uint32 {
	switch {
	case typ == typePut || typ == typeData:
		return m.Words[1:]
	case m.Words[1]-1 > 1:
		return nil
	}
	return m.Words[2 : 2+m.Words[1]]
}

// put writes a piece to this process's memory and answers.
func (t *calls) put(m *Message, ticket uint32, data []uint32) {
	if data == nil {
		t.unknown++
		return
	}
	t.charge(memoryCost)
	to := t.e.regions.words(m.Words[0], len(data), funi.Destination)
	if to == nil {
		t.finish(m, ticket, answerRefused)
		return
	}
	store(to, data)
	t.finish(m, ticket, answerDone)
}

// finish answers a call, or a piece of one.
func (t *calls) finish(m *Message, ticket, answer uint32) {
	if m.reply4(typeDone, ticket, answer, 0, 0, 0) != nil {
		t.unknown++
	}
}

// take stores the words of an answer at their place in the call's memory.
func (t *calls) take(m *Message, ticket uint32, words []uint32) {
	c, at := t.find(ticket), m.Words[0]
	if words != nil && (c == nil || int(c.node) != m.Source) {
		return // too late, or not asked
	}
	if words == nil || uint64(at)*4+uint64(len(words))*4 > uint64(len(c.into)) {
		t.unknown++
		return
	}
	t.charge(memoryCost)
	store(c.into[4*at:], words)
	t.answered(m.Source, ticket)
}

// done takes an answer without data.
func (t *calls) done(m *Message, ticket uint32) {
	switch c := t.find(ticket); {
	case c == nil || int(c.node) != m.Source:
	case m.Words[0] == answerDone:
		t.answered(m.Source, ticket)
	default:
		t.fail(c, fmt.Errorf("memory of node %d: %w", m.Source, ErrAddress))
	}
}
