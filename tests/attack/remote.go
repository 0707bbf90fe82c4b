package attack

// This file attacks memory of other processes (package funi, remote.go and operation.go). One
// attack makes long writes with valid keys, half of them to readers that never read. One guesses
// keys, and opens and closes key slots. One carries out operations that all meet at one word,
// beside long reads. One carries out operations on windows that are suspended.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	// remoteContexts is how many contexts each attack has on each host.
	remoteContexts = 8
	// windowKey and fleetingKey are keys of all contexts. windowKey opens key slot 0, which stays
	// open; fleetingKey opens key slot 1, which opens and closes.
	windowKey   = 0x5eed << 16
	fleetingKey = 0x5eed<<16 | 1
	// remoteBurst is how many short requests a context commits in a round. operationBytes is how
	// much a get reads.
	remoteBurst    = 32
	operationBytes = 1 << 18
)

var remoteSizes = funi.RemoteSizes{KeySlots: 16, Areas: 16, Notifications: 1024}

func remoteWrites() Attack {
	return Attack{
		Name:   "remote_writes",
		Does:   "writes of a MiB to memory of the other host, half of them to readers that never read",
		Groups: 1, Contexts: remoteContexts, slots: blockSlots, segment: 2 * blockBytes, remote: remoteSizes,
		seated: (*player).open,
		round:  (*player).write,
	}
}

func remoteGuesses() Attack {
	return Attack{
		Name: "remote_guesses", Does: "writes with guessed keys to all, beside key slots that open and close",
		Groups: 1, Contexts: remoteContexts, Dead: 1, slots: 256, segment: 2 * blockBytes, remote: remoteSizes,
		seated: (*player).open,
		round:  (*player).guess,
	}
}

func remoteOperations() Attack {
	return Attack{
		Name: "remote_operations", Does: "additions that all meet at one word of each host, beside reads of 256 KiB",
		Groups: 1, Contexts: remoteContexts, slots: 256, segment: 2 * blockBytes, remote: remoteSizes,
		seated: (*player).open,
		round:  (*player).operate,
	}
}

func remoteMisses() Attack {
	return Attack{
		Name: "remote_misses", Does: "operations on windows of the other host that go away and come back",
		Groups: 1, Contexts: remoteContexts, slots: 256, segment: 2 * blockBytes, remote: remoteSizes,
		seated: (*player).open,
		round:  (*player).miss,
	}
}

// open opens the second half of a context's segment to all nodes, as a window. It also opens an
// area for it with one credit, which is never given back.
func (p *player) open(s *seat) error {
	s.commit(func(w *funi.Slot) {
		w.SetOpenWindow(&funi.Window{Key: windowKey, Base: segmentBase + blockBytes, Bytes: blockBytes,
			Rights: funi.RightRead | funi.RightWrite | funi.RightAtomic}, 0)
	})
	s.commit(func(w *funi.Slot) { w.SetOpenArea(0, windowKey, 1, false, 0) })
	return nil
}

// commit commits a request block, or returns false if there is no room.
func (s *seat) commit(compose func(*funi.Slot)) bool {
	w := s.k.Iface.Reserve(funi.Request)
	if w == nil {
		return false
	}
	compose(w)
	s.k.Iface.Commit(funi.Request)
	return true
}

// write keeps the send queue of each context full of long writes. Every second context has the
// reader's area count its writes. That area's only credit is never given back, so a further
// notification finds no room.
func (p *player) write() (sent int) {
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		s.forget()
		for s.commit(func(w *funi.Slot) {
			w.SetPut(p.twin(s), &funi.Put{Key: windowKey, Source: segmentBase, Length: blockBytes,
				Counted: s.index%2 == 0})
		}) {
			sent++
		}
	}
	return sent
}

// guess has each context guess keys of one node after the other, as many as there is room for. Each
// context also opens and closes a key slot. Only the first context of a host tries nodes that no
// process attaches. Writes to these wait in lines of the sender until ConnectTimeout, and a context
// all of whose lines wait attacks no other.
func (p *player) guess() (sent int) {
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		s.forget()
		targets := 2 * p.Contexts
		if s.index == 0 {
			targets += 2 * p.Dead
		}
		to := uint16((s.index + s.next/remoteBurst) % targets)
		for range remoteBurst {
			s.next++
			if !s.commit(func(w *funi.Slot) {
				w.SetPut(to, &funi.Put{Key: uint64(s.next)<<17 | uint64(s.next)%4, Data: make([]byte, 8)})
			}) {
				break
			}
			sent++
		}
		s.commit(func(w *funi.Slot) { w.SetOpenKeySlot(fleetingKey, segmentBase, blockBytes, 0) })
		s.commit(func(w *funi.Slot) { w.SetCloseKeySlot(fleetingKey, 0) })
	}
	return sent
}

// operate has each context add to the first word of the first context's window on the other host.
// Each context also reads a long piece of its twin's window.
func (p *player) operate() (sent int) {
	one := []byte{1, 0, 0, 0, 0, 0, 0, 0}
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		s.forget()
		for range remoteBurst {
			o := funi.Operation{WindowRequest: arctic.WindowRequest{Key: windowKey, Operation: arctic.RemoteAdd,
				Element: arctic.Uint64, Bytes: len(one), Operands: one, Fetch: true}}
			if !s.commit(func(w *funi.Slot) { w.SetOperation(uint16((1-p.c.Host)*p.Contexts), &o) }) {
				break
			}
			sent++
		}
		get := funi.Operation{WindowRequest: arctic.WindowRequest{Key: windowKey, Operation: arctic.RemoteGet},
			Source: segmentBase, Length: operationBytes}
		if s.commit(func(w *funi.Slot) { w.SetOperation(p.twin(s), &get) }) {
			sent++
		}
	}
	return sent
}

// missRounds is for how many rounds a window is suspended, and then for how many it is there.
const missRounds = 512

// miss has each context add to its twin's window as often as there is room for. Now and then it
// suspends its own window, or resumes it.
func (p *player) miss() (sent int) {
	one := []byte{1, 0, 0, 0, 0, 0, 0, 0}
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		s.forget()
		switch s.next++; s.next % (2 * missRounds) {
		case 0:
			s.commit(func(w *funi.Slot) { w.SetResumeWindow(windowKey, 0) })
		case missRounds:
			s.commit(func(w *funi.Slot) { w.SetSuspendWindow(windowKey, 0) })
		}
		for range remoteBurst {
			o := funi.Operation{WindowRequest: arctic.WindowRequest{Key: windowKey, Operation: arctic.RemoteAdd,
				Element: arctic.Uint64, Bytes: len(one), Operands: one, Ack: true}, Silent: true}
			if !s.commit(func(w *funi.Slot) { w.SetOperation(p.twin(s), &o) }) {
				break
			}
			sent++
		}
	}
	return sent
}

// forget reads and ignores what the card reports: notifications and returns.
func (s *seat) forget() {
	for n := (funi.Notification{}); s.k.Iface.NextNotification(&n); {
	}
	for {
		if _, ok := s.k.Iface.NextReturn(); !ok {
			return
		}
	}
}
