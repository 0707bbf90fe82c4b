package attack

// This file attacks by messages whose receivers name the memory (funi/send.go). By index, every
// fourth context opens a ring once and gives nothing back; another has its mode, ring and credit
// change without end. The others do the same and issue by triggers, over whose answers they write.
// Descriptors and read pointers, lengths and tags are whatever comes. Slots and memory are written
// over while the card works on them. Now and then a context ends in the middle.

import (
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"github.com/funet/funet/uspace/funi"
)

const (
	sendContexts = 16
	// sendMemory is the length of a segment in bytes. Of these, the first postedMemory can be
	// descriptors.
	sendMemory   = 2 * blockBytes
	postedMemory = 1 << 16
	// sendBurst is how many messages a context commits in a round, and how many words it scribbles.
	sendBurst = 8
	// sendTurns is for about how many turns a context lives.
	sendTurns = 20_000

	// Words of a context's page: the answer to a trigger, and the read pointer of the notification
	// ring.
	answerWord    = 0x3a0 / 4
	notesReadWord = 0x640 / 4
)

func sends() Attack {
	return Attack{
		Name: "sends_16", Does: "messages of 16 contexts, to receivers that change, lie, keep all room, and end",
		Groups: 1, Contexts: sendContexts, Dead: 1, slots: 64, segment: sendMemory, remote: remoteSizes,
		seated: (*player).receives,
		round:  (*player).message,
	}
}

// keeps reports whether a context keeps all room that it is lent.
func (s *seat) keeps() bool { return s.index%4 == 0 }

// triggering reports whether a context issues by triggers.
func (s *seat) triggering() bool { return s.index%2 == 1 }

// receives has a seat receive messages.
func (p *player) receives(s *seat) error {
	if s.triggering() {
		if err := p.byTrigger(s); err != nil {
			return err
		}
	}
	s.commitAt(funi.Reply, func(w *funi.Slot) {
		w.SetOpenReceive(&funi.Receive{Mode: funi.ReceiveRing, Base: segmentBase, Bytes: blockBytes, Credit: 64}, 0)
	})
	return nil
}

// commitAt is commit at a level. Then it may write over a word of the slot.
func (s *seat) commitAt(level funi.Level, compose func(*funi.Slot)) bool {
	w := s.k.Iface.Reserve(level)
	if w == nil {
		return false
	}
	compose(w)
	s.k.Iface.Commit(level)
	if rand.IntN(8) == 0 {
		atomic.StoreUint32(&w[rand.IntN(len(w))], rand.Uint32()>>rand.IntN(32))
	}
	return true
}

// message has each context change how it receives, and send a burst.
func (p *player) message() (done int) {
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		if !s.keeps() {
			s.forget()
			done += s.receiveAnew()
		}
		for range sendBurst {
			if !s.commitAt(funi.Request, func(w *funi.Slot) { p.anyMessage(s, w) }) {
				break
			}
			done++
		}
		if s.triggering() {
			done += s.anyTrigger(funi.TriggerReceive, anyCount())
		}
		memory := s.k.Maps[2]
		for range sendBurst {
			memory[rand.IntN(len(memory))] = byte(rand.Uint32())
		}
		if s.next++; rand.IntN(sendTurns) == 0 {
			s.k.Close()
			s.k = nil // sitAgain attaches another
		}
	}
	return done
}

// receiveAnew opens or closes where a context receives, and gives room back that it may not have.
func (s *seat) receiveAnew() (done int) {
	queue := s.k.Maps[2][:postedMemory]
	for range sendBurst { // of memory that others have too, the queue itself, none, and others'
		address := []uint32{segmentBase, segmentBase + rand.Uint32N(sendMemory), 0, rand.Uint32()}[rand.IntN(4)]
		funi.PutPosted(queue, rand.Uint32(), address, anyCount())
	}
	for _, compose := range []func(*funi.Slot){
		func(w *funi.Slot) {
			if rand.IntN(4) == 0 {
				w.SetCloseReceive(0)
			} else {
				w.SetOpenReceive(anyReceive(), 0)
			}
		},
		func(w *funi.Slot) { w.SetGiveReceive(anyCount(), 0) },
	} {
		if s.commitAt(funi.Reply, compose) {
			done++
		}
	}
	if rand.IntN(64) == 0 { // an Interface stores it again with the next notification
		atomic.StoreUint32(s.pageWord(notesReadWord), anyCount())
	}
	return done
}

// pageWord returns a word of the context's register page.
func (s *seat) pageWord(n int) *uint32 { return (*uint32)(unsafe.Pointer(&s.k.Maps[0][4*n])) }

// anyTrigger stores a trigger, or lets the interface store the next in order. It seldom stores it
// over one that was not answered. Sometimes it writes over the answer.
func (s *seat) anyTrigger(c funi.TriggerCommand, parameter uint32) (stored int) {
	if rand.IntN(64) == 0 {
		atomic.StoreUint32(s.pageWord(answerWord+rand.IntN(2)), rand.Uint32()>>rand.IntN(32))
	}
	if _, _, ok := s.k.Iface.TriggerAnswer(); !ok && rand.IntN(16) > 0 {
		return 0
	}
	if rand.IntN(2) > 0 || !s.k.Iface.Issue() {
		s.k.Iface.Trigger(c, parameter)
	}
	return 1
}

// anyCount returns a count: small ones, none, backwards, or far ahead.
func anyCount() uint32 {
	switch rand.IntN(4) {
	case 0:
		return 1
	case 1:
		return -rand.Uint32N(64)
	}
	return rand.Uint32() >> rand.IntN(32)
}

// anyReceive returns a place to receive at. Most are valid.
func anyReceive() *funi.Receive {
	r := &funi.Receive{Mode: funi.ReceiveMode(rand.IntN(int(funi.ReceivePosted) + 1)), Credit: 1 << rand.IntN(10)}
	switch {
	case rand.IntN(8) == 0:
		r.Mode, r.Base, r.Bytes, r.Credit = funi.ReceiveMode(rand.IntN(5)), rand.Uint32(), anyCount(), anyCount()
	case r.Mode == funi.ReceivePosted:
		r.Base, r.Bytes = segmentBase, postedMemory>>rand.IntN(13)
	case r.Mode == funi.ReceiveRing:
		r.Base, r.Bytes = segmentBase+rand.Uint32N(sendMemory)&^63, funi.MinReceiveRing<<rand.IntN(15)
	}
	return r
}

// anyMessage composes a message to the twin, to itself or to anybody; from the first context of a
// host also to nodes that never attached, where its queue waits. An eighth of the lengths are lies.
func (p *player) anyMessage(s *seat, w *funi.Slot) {
	targets := 2 * p.Contexts
	if s.index == 0 {
		targets += 2 * p.Dead
	}
	other := uint16(rand.IntN(targets))
	if !s.keeps() && other%4 == 0 {
		other++ // at one that keeps all room the queue would wait for good
	}
	to := []uint16{p.twin(s), p.twin(s), s.node, other}[rand.IntN(4)]
	r := funi.SendRequest{UserTag: rand.Uint64(), APITag: rand.Uint32(), Cookie: rand.Uint32(), Ack: rand.IntN(2) == 0}
	r.Silent = r.Ack && rand.IntN(2) == 0
	if rand.IntN(2) == 0 {
		r.Data = make([]byte, rand.IntN(41))
	} else {
		r.Source = segmentBase + rand.Uint32N(sendMemory)
		r.Length = rand.IntN(int(segmentBase+sendMemory-r.Source)) >> rand.IntN(16)
	}
	w.SetSend(to, &r)
	if rand.IntN(8) == 0 {
		w[funi.RemoteLengthWord] = rand.Uint32() >> rand.IntN(32)
	}
}
