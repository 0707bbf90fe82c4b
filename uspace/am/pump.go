package am

// This file sends long messages whenever the program polls, and never waits for room.

import "github.com/funet/funet/uspace/funi"

// pump sends waiting messages as far as the send queue has room: first messages of the library,
// then bytes of long messages. It reports whether it sent anything.
func (x *byteMessages) pump() bool {
	head := x.iface.SendHead(funi.Request)
	l := x.landing
	x.tail, x.idle = x.iface.Tail(funi.Request), 0 // before the look at what it has given back
	x.retire()
	if l != nil {
		x.closeWindows()
		l.reopen()
		l.shrink(false)
		x.grantWaiting()
	}
	told := 0
	for _, c := range x.control {
		s := x.iface.Reserve(funi.Request)
		if s == nil {
			break
		}
		c.fill(s)
		x.commit(funi.Request, s)
		told++
	}
	x.control = append(x.control[:0], x.control[told:]...)
	if len(x.control) == 0 {
		x.pumpGranted()
	}
	x.busy = len(x.waiting) > 0 // it counts the polls
	x.waits = len(x.control)+len(x.granted)+len(x.retiring) > 0 ||
		l != nil && (len(l.closed) > 0 || len(l.grown) > 0 || l.closing())
	return x.iface.SendHead(funi.Request) != head
}

// idleMost is how many polls in vain, some microseconds, pass before pump runs again for work that
// waits for a time, or for another part of the card than the one that gives slots back.
const idleMost = 64

// pumps reports whether pump may have work, in a poll that has handled n messages.
func (x *byteMessages) pumps(n int) bool {
	if x.busy {
		return true
	}
	if !x.waits {
		return false
	}
	x.idle++
	return n > 0 || x.idle >= idleMost || x.iface.Tail(funi.Request) != x.tail
}

// pumpGranted sends bytes of messages with a grant, in turn.
func (x *byteMessages) pumpGranted() {
	for len(x.granted) > 0 {
		id := x.granted[0]
		s := x.sends.find(id)
		if s == nil || s.state != sendGranted {
			x.granted = append(x.granted[:0], x.granted[1:]...)
			continue
		}
		if !x.sendPart(s) {
			return
		}
		x.granted = append(x.granted[:0], x.granted[1:]...)
		if s.gather.at < s.size {
			x.granted = append(x.granted, id)
		} else {
			s.state = sendGone
		}
	}
}

// sendPart sends the next part of a message: in place, or as a copy; an end of less than 16 bytes
// is sent from a slot. It returns false if there is no room.
func (x *byteMessages) sendPart(s *send) bool {
	l := x.landing
	slot := x.iface.Reserve(funi.Request)
	if slot == nil {
		return false
	}
	left := s.size - s.gather.at
	t := funi.Transfer{Destination: s.address, Argument: s.key, Words: (left + 15) / 16 * 4}
	stage, reading := -1, false
	switch {
	case left < 16:
		clear(slot[funi.DataWord : funi.DataWord+4])
		s.gather.read(bytesOf(slot[funi.DataWord : funi.DataWord+4]))
	case s.gather.at == 0 && x.readsInPlace(s, &t):
		t.Words = left / 16 * 4
		s.gather.at = 4 * t.Words
		reading = s.window < 0
	default:
		if stage = l.freeStage(); stage < 0 {
			return false
		}
		t.Words = min(t.Words, l.stage/4)
		b := l.memory[stage*l.stage : stage*l.stage+4*t.Words]
		clear(b[len(b)-16:])
		s.gather.read(b)
		t.Source = l.base + uint32(stage*l.stage)
		l.staged[stage] = true
		reading = true
	}
	s.address += uint32(4 * t.Words)
	slot.SetTransfer(s.node, typePart, t)
	x.commit(funi.Request, slot)
	if reading {
		s.staged++
		x.retiring = append(x.retiring,
			retiring{place: x.iface.SendHead(funi.Request), stage: stage, id: s.id})
	}
	return true
}

// freeStage returns the index of a free stage, or -1.
func (l *landing) freeStage() int {
	for i, used := range l.staged {
		if !used {
			return i
		}
	}
	return -1
}

// retire takes back memory that the card no longer reads, in the order of the send queue.
func (x *byteMessages) retire() {
	n := 0
	for n < len(x.retiring) && x.retired(x.retiring[n].place) {
		r := x.retiring[n]
		n++
		if r.counter != nil {
			r.counter.under--
			r.counter.complete++
			continue
		}
		if r.stage >= 0 {
			x.landing.staged[r.stage] = false
		}
		if s := x.sends.find(r.id); s != nil {
			if s.staged--; s.state == sendGivenUp && s.key != 0 {
				x.abort(s)
			}
		}
	}
	x.retiring = append(x.retiring[:0], x.retiring[n:]...)
}

// retired reports whether the card has given back the slots of requests before a place in the send
// queue.
func (x *byteMessages) retired(place uint32) bool {
	after := int(x.iface.SendHead(funi.Request)-place) & (x.iface.Slots() - 1)
	return x.iface.Unsent(funi.Request) <= after
}

// readsInPlace makes a message the source of a transfer, in place: in memory that the program
// shares, or through a window. It returns false if that is not possible.
func (x *byteMessages) readsInPlace(s *send, t *funi.Transfer) bool {
	if len(s.gather.rest) > 0 {
		return false
	}
	if at, ok := x.e.regions.Address(s.gather.first[:s.size&^15], funi.Source); ok && at%16 == 0 {
		t.Source = at
		return true
	}
	if !x.openWindow(s) {
		return false
	}
	t.Source = windowBase + uint32(s.window)*MaxBytes
	return true
}

// openWindow lets the card read memory that it does not know yet.
func (x *byteMessages) openWindow(s *send) bool {
	l, g := x.landing, &s.gather
	if l.Register == nil {
		return false
	}
	for i, state := range l.window {
		if state != windowFree {
			continue
		}
		if l.Register(funi.Segment{Base: windowBase + uint32(i)*MaxBytes, Memory: g.first[:s.size&^15],
			Rights: funi.Source}) != nil {
			return false
		}
		l.window[i], s.window = windowOpen, i
		return true
	}
	return false
}

// closeWindow takes memory back from the card. It does so at once if the message failed, because
// the program may change the memory now.
func (x *byteMessages) closeWindow(i int, failed bool) {
	l := x.landing
	base := windowBase + uint32(i)*MaxBytes
	if failed {
		_ = l.Withdraw(base) // it is registered, and nothing is written there: there is no error
		l.window[i] = windowFree
		return
	}
	// the card may not know yet that all has arrived; it reads what it would send again for nothing
	l.window[i] = windowClosing
	x.closeWindows()
}

// closeWindows takes back the memory of messages that were delivered.
func (x *byteMessages) closeWindows() {
	l := x.landing
	for i, state := range l.window {
		if state == windowClosing && l.Unregister(windowBase+uint32(i)*MaxBytes) == nil {
			l.window[i] = windowFree
		}
	}
	x.busy = true
}

// closing reports whether memory has to be taken back from the card.
func (l *landing) closing() bool {
	for _, state := range l.window {
		if state == windowClosing {
			return true
		}
	}
	return false
}
