package am

// This file is the other end of get and put: the request handlers that answer, and the
// reply handlers that take the answers.

import (
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// What a typeDone says.
const (
	answerDone    = 0
	answerRefused = 1
)

// get answers with a piece of this process's memory.
func (e *Endpoint) get(m *Message, ticket uint32) {
	if len(m.Words) != 3 || m.Words[1] > pieceWords {
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
	s, err := m.reserve(1 + words)
	if err != nil {
		e.unknown++ // it came at reply priority, where no one may ask
		return
	}
	s.SetHeader(funi.NewHeader(uint16(m.Source), typeData, 2+words))
	s[1], s[2] = ticket, offset
	load(s[3:3+words], from)
	e.commit(funi.Reply, s)
}

// getBlock answers by letting the card move a block of this process's memory.
func (e *Endpoint) getBlock(m *Message, ticket uint32) {
	if len(m.Words) != 3 {
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
	address, data := m.Words[0], m.Words[1:]
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
	s, err := m.reserve(1)
	if err != nil {
		e.unknown++
		return
	}
	s.SetHeader(funi.NewHeader(uint16(m.Source), typeDone, 2))
	s[1], s[2] = ticket, answer
	e.commit(funi.Reply, s)
}

// data takes an answer with a piece of a node's memory.
func (e *Endpoint) data(m *Message, ticket uint32) {
	c := e.calls.find(ticket)
	if c == nil || int(c.node) != m.Source {
		return // too late, or not asked
	}
	if len(m.Words) == 0 || uint64(m.Words[0])*4+uint64(len(m.Words)-1)*4 > uint64(len(c.into)) {
		e.unknown++
		return
	}
	e.charge(memoryCost)
	store(c.into[4*m.Words[0]:], m.Words[1:])
	e.answered(m.Source, ticket)
}

// done takes an answer without data.
func (e *Endpoint) done(m *Message, ticket uint32) {
	switch c := e.calls.find(ticket); {
	case c == nil || int(c.node) != m.Source:
	case len(m.Words) == 1 && m.Words[0] == answerDone:
		e.answered(m.Source, ticket)
	default:
		e.calls.fail(c, fmt.Errorf("memory of node %d: %w", m.Source, ErrAddress))
	}
}
