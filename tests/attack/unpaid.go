package attack

// This file makes work for the card that produces no frame. Some request blocks open, close and set
// things; others are refused. Messages go to nodes without a route. Contexts change the modes of
// CNTL, and carry out operations on their own windows.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// unpaidBurst is how many slots a context commits in a round.
const unpaidBurst = 64

// blocks returns an attack in which each context commits slots. compose writes a slot from a
// running number and the context's node.
func blocks(name, does string, compose func(w *funi.Slot, n int, node uint16)) Attack {
	return Attack{
		Name: name, Does: does,
		Groups: 1, Contexts: remoteContexts, slots: 256, segment: 2 * blockBytes, remote: remoteSizes,
		seated: (*player).open,
		round:  func(p *player) int { return p.commitAll(compose) },
	}
}

// commitAll has each context read what the card reports, and commit a burst as far as there is
// room.
func (p *player) commitAll(compose func(*funi.Slot, int, uint16)) (sent int) {
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		s.forget()
		s.receive(funi.Request, unpaidBurst)
		for range unpaidBurst {
			if !s.commit(func(w *funi.Slot) { compose(w, s.next, s.node) }) {
				break
			}
			s.next++
			sent++
		}
	}
	return sent
}

func unpaid() []Attack {
	one := []byte{1, 0, 0, 0, 0, 0, 0, 0}
	lock := [2]arctic.Operation{arctic.RemoteLock, arctic.RemoteUnlock}
	return []Attack{
		blocks("suspends", "taking a window away and bringing it back", func(w *funi.Slot, n int, _ uint16) {
			if n%2 == 0 {
				w.SetSuspendWindow(windowKey, 0)
			} else {
				w.SetResumeWindow(windowKey, 0)
			}
		}),
		blocks("opens", "opening and closing a key slot", func(w *funi.Slot, n int, _ uint16) {
			if n%2 == 0 {
				w.SetOpenKeySlot(fleetingKey, segmentBase, blockBytes, 0)
			} else {
				w.SetCloseKeySlot(fleetingKey, 0)
			}
		}),
		blocks("chain_sets", "setting a chain anew", func(w *funi.Slot, n int, node uint16) {
			w.SetChain(&funi.Chain{Number: uint16(n % funi.MaxChains), First: true,
				Next: []funi.Next{{Node: node ^ 1, Members: 1}}}, 0)
		}),
		blocks("refused", "request blocks that are refused", func(w *funi.Slot, n int, node uint16) {
			if n%2 == 0 {
				w.SetCloseKeySlot(fleetingKey, 0)
			} else {
				w.SetPut(node, &funi.Put{Key: windowKey, Source: 16, Length: blockBytes})
			}
		}),
		blocks("nowhere", "messages to nodes that no route leads to", func(w *funi.Slot, n int, _ uint16) {
			w.SetHeader(funi.NewHeader(uint16(1000+n%1000), messageType, funi.MaxPayloadWords))
		}),
		blocks("get_self", "reads of 64 bytes of its own window", func(w *funi.Slot, _ int, node uint16) {
			w.SetOperation(node, &funi.Operation{WindowRequest: arctic.WindowRequest{Key: windowKey,
				Operation: arctic.RemoteGet}, Source: segmentBase, Length: 64})
		}),
		blocks("add_self", "additions to a word of its own window", func(w *funi.Slot, _ int, node uint16) {
			w.SetOperation(node, &funi.Operation{WindowRequest: arctic.WindowRequest{Key: windowKey,
				Operation: arctic.RemoteAdd, Element: arctic.Uint64, Bytes: len(one), Operands: one, Fetch: true}})
		}),
		blocks("lock_self", "locking and unlocking its own window", func(w *funi.Slot, n int, node uint16) {
			w.SetOperation(node, &funi.Operation{WindowRequest: arctic.WindowRequest{Key: windowKey,
				Operation: lock[n%2], Operands: one[:4], Ack: true}})
		}),
		{
			Name: "modes", Does: "changing CNTL of 64 contexts all the time",
			Groups: 1, Contexts: 64, slots: 16,
			round: (*player).changeModes,
		},
	}
}

// changeModes writes the next of four settings of CNTL for each context.
func (p *player) changeModes() (changed int) {
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		s.next++
		s.k.Memory.Page.Store(funi.Control, []uint32{0, funi.CSQM, funi.CRQM, funi.UserModes}[s.next%4])
		changed++
	}
	return changed
}
