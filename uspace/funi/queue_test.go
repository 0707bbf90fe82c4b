package funi_test

// This file holds the rules of the queues, both ends interleaved.

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/funi"
)

// queueModel is both ends of a context beside plain slices that say what each queue must hold.
type queueModel struct {
	retired [2]int // taken off a send queue and not yet published
	iface   *funi.Interface
	card    *funi.Card
	slots   int
	next    uint32 // payload of the next packet, distinct

	send      [2][]uint32 // committed, not retired
	delivered [2][]uint32 // delivered, not published
	receive   [2][]uint32 // published, not released
	reserved  [2]*funi.Slot
}

// Rule: a queue of N slots is a FIFO that holds N-1 packets. It is empty when head equals tail and
// full when head is just before tail (doc.go; thesis 3.2.2, 3.2.3). This holds for any interleaving
// of process and card, from 2 slots on and over many laps.
func TestQueuesAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &queueModel{slots: 1 << rapid.IntRange(1, 4).Draw(t, "log2 of slots")}
		mem, err := funi.NewMemory(m.slots)
		if err != nil {
			t.Fatal(err)
		}
		if m.iface, err = funi.Initialize(mem); err != nil {
			t.Fatal(err)
		}
		if m.card, err = funi.Attach(mem); err != nil {
			t.Fatal(err)
		}
		level := rapid.SampledFrom([]funi.Level{funi.Request, funi.Reply})
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) { m.reserve(t, level.Draw(t, "level")) },
			"commit":  func(t *rapid.T) { m.commit(t, level.Draw(t, "level")) },
			"retire": func(t *rapid.T) {
				l := level.Draw(t, "level")
				m.retire(t, l, rapid.IntRange(0, len(m.send[l])).Draw(t, "packets"))
			},
			"deliver": func(t *rapid.T) { m.deliver(t, level.Draw(t, "level")) },
			"publish": func(t *rapid.T) { m.publish() },
			"receive": func(t *rapid.T) { m.take(t, level.Draw(t, "level")) },
			"":        m.check,
		})
	})
}

func (m *queueModel) reserve(t *rapid.T, l funi.Level) {
	s := m.iface.Reserve(l)
	if full := len(m.send[l])+m.retired[l] == m.slots-1; (s == nil) != full {
		t.Fatalf("level %v with %d of %d slots: Reserve gave a slot: %v", l, len(m.send[l]), m.slots, s != nil)
	}
	if s == nil {
		return
	}
	if m.reserved[l] != nil && s != m.reserved[l] {
		t.Fatal("reserving twice gave two slots")
	}
	m.reserved[l] = s
}

func (m *queueModel) commit(t *rapid.T, l funi.Level) {
	s := m.reserved[l]
	if s == nil {
		t.Skip("nothing reserved")
	}
	m.next++
	s.SetHeader(funi.NewHeader(9, 1, 1))
	s[funi.PayloadWord] = m.next
	m.send[l] = append(m.send[l], m.next)
	m.iface.Commit(l)
	m.reserved[l] = nil
}

func (m *queueModel) retire(t *rapid.T, l funi.Level, n int) {
	for i := range n {
		if w := m.card.Slot(l, i)[funi.PayloadWord]; w != m.send[l][i] {
			t.Fatalf("level %v: pending slot %d holds %d, want %d", l, i, w, m.send[l][i])
		}
	}
	m.card.Retire(l, n)
	m.send[l] = m.send[l][n:]
	m.retired[l] += n
}

// deliver may find the queue full earlier than the model, because the process
// gives slots back in batches; never later, and not when the process has nothing.
func (m *queueModel) deliver(t *rapid.T, l funi.Level) {
	held := len(m.receive[l]) + len(m.delivered[l])
	s := m.card.Vacant(l)
	if s == nil {
		if held < m.slots/2-1 || held == 0 {
			t.Fatalf("level %v: full with %d packets in %d slots", l, held, m.slots)
		}
		return
	}
	if held == m.slots-1 {
		t.Fatalf("level %v: a vacant slot beside %d packets in %d slots", l, held, m.slots)
	}
	m.next++
	s.SetHeader(funi.NewHeader(3, 1, 1))
	s[funi.PayloadWord], s[funi.SourceWord] = m.next, 7
	m.card.Deliver(l)
	m.delivered[l] = append(m.delivered[l], m.next)
}

func (m *queueModel) publish() {
	m.card.Publish()
	for l := range m.delivered {
		m.receive[l] = append(m.receive[l], m.delivered[l]...)
		m.delivered[l] = nil
		m.retired[l] = 0
	}
}

func (m *queueModel) take(t *rapid.T, l funi.Level) {
	s := m.iface.Receive(l)
	if (s == nil) != (len(m.receive[l]) == 0) {
		t.Fatalf("level %v with %d packets: Receive gave a slot: %v", l, len(m.receive[l]), s != nil)
	}
	if s == nil {
		return
	}
	if s.Payload()[0] != m.receive[l][0] || s.Source() != 7 || s.Header().Node() != 3 {
		t.Fatalf("level %v: received %v from %d, want %d", l, s.Payload(), s.Source(), m.receive[l][0])
	}
	m.iface.Release(l)
	m.receive[l] = m.receive[l][1:]
}

func (m *queueModel) check(t *rapid.T) {
	for l := range funi.Level(2) {
		if n := m.card.Pending(l); n != len(m.send[l]) {
			t.Fatalf("level %v: card sees %d pending, want %d", l, n, len(m.send[l]))
		}
		if n := m.iface.Unsent(l); n != len(m.send[l])+m.retired[l] {
			t.Fatalf("level %v: process sees %d unsent, want %d", l, n, len(m.send[l])+m.retired[l])
		}
	}
}

// Rule: the process may give slots back in batches only as long as delivery progresses (thesis
// 3.2.3). So a process that receives one packet ahead of the one that it releases never finds the
// queue empty while the card finds it full.
func TestKeepingOnePacketDoesNotStopTheCard(t *testing.T) {
	for slots := 2; slots <= 64; slots *= 2 {
		i, c, _ := pair(t, slots)
		next, got := uint32(0), uint32(0)
		fill := func() {
			for s := c.Vacant(funi.Request); s != nil; s = c.Vacant(funi.Request) {
				s.SetHeader(funi.NewHeader(0, 0, 1))
				s[funi.PayloadWord] = next
				next++
				c.Deliver(funi.Request)
			}
			c.Publish()
		}
		for range 10 * slots {
			before := next
			fill()
			s := i.Receive(funi.Request)
			if s == nil {
				t.Fatalf("%d slots: the process waits and the card is full, after %d packets", slots, got)
			}
			fill() // the card runs while the process holds the packet
			if s[funi.PayloadWord] != got {
				t.Fatalf("%d slots: packet %d was overwritten by %d while held", slots, got, s[funi.PayloadWord])
			}
			i.Release(funi.Request)
			got++
			if next-got > uint32(slots-1) || next < before {
				t.Fatalf("%d slots: %d packets in the queue", slots, next-got)
			}
		}
		if next < got+uint32(slots/2)-1 {
			t.Fatalf("%d slots: %d delivered behind %d received", slots, next, got)
		}
	}
}
