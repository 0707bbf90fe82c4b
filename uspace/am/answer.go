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
func (e *Endpoint) get(m *Message, ticket uint32) {
	if len(m.Words) != 4 || m.Words[1] > pieceWords {
		e.unknown++
		return
	}
	address, words, offset := m.Words[0], int(m.Words[1]), m.Words[2]
	e.charge(memoryCost)
	from := e.memory(address, words, funi.Source)
	if from == nil {
		e.finish(m, ticket, answerRefused)
		return
	}
	if words == 1 || words == 2 {
		var v [2]uint32
		load(v[:words], from)
		if m.reply4(typeValue, ticket, offset, uint32(words), v[0], v[1]) != nil {
			e.unknown++ // it came at reply priority, where no one may ask
		}
		return
	}
	s, err := m.reserve(1 + words)
	if err != nil {
		e.unknown++
		return
	}
	s.SetHeader(funi.NewHeader(uint16(m.Source), typeData, 2+words))
	s[1], s[2] = ticket, offset
	load(s[3:3+words], from)
	e.commit(funi.Reply, s)
}

// getBlock answers by letting the card move a block of this process's memory.
func (e *Endpoint) getBlock(m *Message, ticket uint32) {
	if len(m.Words) != 4 {
		e.unknown++
		return
	}
	t := funi.Transfer{Source: m.Words[0], Destination: m.Words[2], Argument: ticket, Words: int(m.Words[1])}
	if checkBlock(m.Source, &t) != nil || e.memory(t.Source, t.Words, funi.Source) == nil {
		e.finish(m, ticket, answerRefused)
		return
	}
	if err := m.transfer(typeGetBlock, &t); err != nil {
		e.unknown++
	}
}

// put writes a piece to this process's memory.
func (e *Endpoint) put(m *Message, ticket uint32) {
	if len(m.Words) == 0 {
		e.unknown++
		return
	}
	e.putWords(m, ticket, m.Words[0], m.Words[1:])
}

// putOne writes a word or two to this process's memory.
func (e *Endpoint) putOne(m *Message, ticket uint32) {
	if data := oneOrTwo(m); data != nil {
		e.putWords(m, ticket, m.Words[0], data)
		return
	}
	e.unknown++
}

// putWords writes words to this process's memory and answers.
func (e *Endpoint) putWords(m *Message, ticket, address uint32, data []uint32) {
	e.charge(memoryCost)
	to := e.memory(address, len(data), funi.Destination)
	if to == nil {
		e.finish(m, ticket, answerRefused)
		return
	}
	store(to, data)
	e.finish(m, ticket, answerDone)
}

// finish answers a call, or a piece of one.
func (e *Endpoint) finish(m *Message, ticket, answer uint32) {
	if m.reply4(typeDone, ticket, answer, 0, 0, 0) != nil {
		e.unknown++
	}
}

// data takes an answer with a piece of a node's memory.
func (e *Endpoint) data(m *Message, ticket uint32) {
	if len(m.Words) == 0 {
		e.unknown++
		return
	}
	e.take(m, ticket, m.Words[0], m.Words[1:])
}

// value takes an answer with a word or two.
func (e *Endpoint) value(m *Message, ticket uint32) {
	if words := oneOrTwo(m); words != nil {
		e.take(m, ticket, m.Words[0], words)
		return
	}
	e.unknown++
}

// oneOrTwo returns the one or two words of a message of a value, or nil if the message has another
// form.
func oneOrTwo(m *Message) []uint32 {
	if len(m.Words) != 4 || m.Words[1]-1 > 1 {
		return nil
	}
	return m.Words[2 : 2+m.Words[1]]
}

// take stores the words of an answer at their place in the call's memory.
func (e *Endpoint) take(m *Message, ticket, at uint32, words []uint32) {
	c := e.calls.find(ticket)
	if c == nil || int(c.node) != m.Source {
		return // too late, or not asked
	}
	if uint64(at)*4+uint64(len(words))*4 > uint64(len(c.into)) {
		e.unknown++
		return
	}
	e.charge(memoryCost)
	store(c.into[4*at:], words)
	e.answered(m.Source, ticket)
}

// done takes an answer without data.
func (e *Endpoint) done(m *Message, ticket uint32) {
	switch c := e.calls.find(ticket); {
	case c == nil || int(c.node) != m.Source:
	case len(m.Words) == 4 && m.Words[0] == answerDone:
		e.answered(m.Source, ticket)
	default:
		e.calls.fail(c, fmt.Errorf("memory of node %d: %w", m.Source, ErrAddress))
	}
}
