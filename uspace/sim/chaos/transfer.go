package chaos

// This file has the operations of a process that transfer memory (thesis 3.2.4). They go from
// memory or the slot to memory or a queue, in one packet or in many. Invalid transfers must come
// back.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
)

// manyBit is bit 30 of a header, which asks for more than one packet; see package funi.
const manyBit = 1 << 30

// moves transfers some pieces of at most one packet to members of the group.
func (m *member) moves() {
	for range 1 + m.random.IntN(8) {
		if !m.run.quota() {
			return
		}
		to := m.choose()
		m.move(m.process, funi.Request, to, m.run.members[to].node, m.single())
	}
}

// movesMuch transfers from memory to memory as much as fills many packets.
func (m *member) movesMuch() {
	if m.run.quota() {
		to := m.choose()
		m.move(m.process, funi.Request, to, m.run.members[to].node, m.many())
	}
}

// single draws the words of a transfer of one packet.
func (m *member) single() int { return 4 * m.random.IntN(arctic.MaxSingleWords/4+1) }

// many draws the words of a transfer of more than one packet: mostly few, at most those
// of a segment.
func (m *member) many() int {
	most := (m.run.segment/2/arctic.WordSize - arctic.MaxSingleWords) / 4
	return arctic.MaxSingleWords + 4*(1+m.random.IntN(min(4<<m.random.IntN(13), most)))
}

func sizeOf(words int) uint32 { return uint32(words) * arctic.WordSize }

// move transfers the given number of words, or fewer if there is no memory for them. Data that fits
// a packet may come from the slot, and go to the queue.
func (m *member) move(p *sim.Process, l funi.Level, to int32, node uint16, words int) {
	s := m.slot(p, l)
	if s == nil {
		return
	}
	number, targets := m.run.oracle.next(), &m.run.members[to].targets
	t := funi.Transfer{Words: words, Argument: number}
	for ; t.Words > arctic.MaxSingleWords; t.Words = t.Words / 2 &^ 3 {
		if t.Source = m.sources.take(sizeOf(t.Words), number); t.Source == 0 {
			continue
		}
		if t.Destination = targets.take(sizeOf(t.Words), number); t.Destination != 0 {
			break
		}
		m.sources.give(t.Source)
		t.Source = 0
	}
	if t.Words <= arctic.MaxSingleWords {
		if m.random.IntN(2) == 0 {
			t.Source = m.sources.take(sizeOf(t.Words), number)
		}
		if m.random.IntN(2) == 0 {
			t.Destination = targets.take(sizeOf(t.Words), number)
		}
	}
	m.asks(s, l, to, node, t, 0)
}

// asks composes a transfer in a slot and sends it. refused is the reason for which the transfer
// must be refused, if there is one.
func (m *member) asks(s *funi.Slot, l funi.Level, to int32, node uint16, t funi.Transfer, refused arctic.Reason) {
	o := &m.run.oracle
	s.SetTransfer(node, m.typ(), t)
	switch {
	case refused == arctic.ReasonTransferLength:
		m.deform(s)
	case t.Source == 0:
		for k := range t.Words {
			s[funi.DataWord+k] = o.word(t.Argument, k+1)
		}
	case refused != arctic.ReasonSource:
		m.memory.compose(o, t.Source, t.Argument, t.Words)
		m.pending[l] = append(m.pending[l], pending{m.process.Interface().Committed(l) + 1, t.Source})
	}
	for _, w := range []int{funi.SourceAddressWord, funi.DestinationAddressWord} {
		if s[w] != 0 {
			s[w] |= uint32(m.random.IntN(arctic.TransferAlign)) // which the card takes for zeros
		}
	}
	o.moves(s, m, to, l, transfer{owner: to, address: t.Destination, words: t.Words, refused: refused})
	m.commit(l)
}

// trespass asks for memory that is not the process's or the receiver's, or for an invalid length.
func (m *member) trespass() {
	if !m.run.quota() {
		return
	}
	s := m.slot(m.process, funi.Request)
	if s == nil {
		return
	}
	r, size := m.random, uint32(m.run.segment)
	to, number := m.choose(), m.run.oracle.next()
	t := funi.Transfer{Words: 8 + 4*r.IntN(3), Destination: targetBase, Argument: number}
	if r.IntN(4) == 0 {
		t.Words = m.many()
	}
	switch refused := pick(r, arctic.ReasonSource, arctic.ReasonDestination, arctic.ReasonTransferLength); refused {
	case arctic.ReasonSource:
		t.Source = pick(r, 16, targetBase, sourceBase+size-16, 1<<32-16)
		m.asks(s, funi.Request, to, m.run.members[to].node, t, refused)
	case arctic.ReasonTransferLength:
		m.asks(s, funi.Request, to, m.run.members[to].node, t, refused)
	default:
		before := 16 * (1 + uint32(r.IntN(t.Words/4-1))) // bytes before a segment's end
		if part := sizeOf(arctic.MaxPartWords); before > part && r.IntN(2) == 0 {
			before -= before % part // no packet lies across it
		}
		t.Destination = pick(r, 16, sourceBase, 1<<32-16, targetBase+size/2-before, targetBase+size-before)
		if t.Source = m.sources.take(sizeOf(t.Words), number); t.Source == 0 {
			return
		}
		if t.Destination >= targetBase && t.Destination < targetBase+size &&
			!m.run.members[to].targets.takeAt(t.Destination, sizeOf(t.Words), number) {
			m.sources.give(t.Source)
			return
		}
		m.asks(s, funi.Request, to, m.run.members[to].node, t, refused)
	}
}

func (m *member) deform(s *funi.Slot) {
	h := s.Header()
	one := funi.NewTransferHeader(h.Node(), h.Type(), pick(m.random, 1, 6, 15, 17, 20, 31))
	many := manyBit | funi.NewTransferHeader(h.Node(), h.Type(), 0)
	s[funi.SourceAddressWord] = sourceBase
	switch s.SetHeader(many); m.random.IntN(3) {
	case 0:
		s.SetHeader(one)
	case 1:
		s[funi.LengthWord] = pick(m.random, uint32(0), 6, arctic.MaxTransferWords+4, 1<<32-4)
	default:
		s[funi.SourceAddressWord], s[funi.LengthWord] = 0, 64
	}
}
