package chaos

// This file tests the judge of transfers: wrong bytes, wrong notices and wrong reasons
// are noticed, and what is allowed is not called wrong.

import (
	"encoding/binary"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// moving is a court in which member 0 has sent words to the memory of member 1, and the
// slot with their notice. The bytes have not come yet.
func moving(words int) (o *oracle, m []*member, r *Result, notice funi.Slot) {
	o, m, r = court()
	m[1].memory = &memory{source: make([]byte, 4096), target: make([]byte, 4096)}
	m[1].memory.clean(targetBase, targetBase+4096)
	m[1].targets = arena{first: targetBase, seam: targetBase + 2048, end: targetBase + 4096}
	m[1].targets.take(64, 99) // of another transfer, still to come
	t := funi.Transfer{Source: sourceBase, Destination: m[1].targets.take(sizeOf(words), o.next()),
		Argument: o.next(), Words: words}
	var s funi.Slot
	s.SetTransfer(1, 7, t)
	o.moves(&s, m[0], 1, funi.Request, transfer{owner: 1, address: t.Destination, words: words})
	notice.SetNotice(1, 7, s.Header().Many(), funi.Notice{Address: t.Destination, Argument: t.Argument, Words: words})
	return o, m, r, notice
}

// come puts the transfer's words from first on into the memory of member 1.
func (o *oracle) come(first, end int) {
	at := o.members[1].memory.target[o.transfers[0].address-targetBase:]
	for k := first; k < end; k++ {
		binary.LittleEndian.PutUint32(at[4*k:], o.word(1, k+1))
	}
}

func TestVerdictsOfTransfers(t *testing.T) {
	const words = 40
	back := func(o *oracle, reason arctic.Reason) funi.Returned {
		return funi.Returned{Reason: reason, Header: o.messages[0].header, Word: 1}
	}
	for _, c := range []struct {
		what string
		want Result
		do   func(o *oracle, m []*member, s *funi.Slot)
	}{
		{"all there", Result{Delivered: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.come(0, words)
			o.arrived(m[1], funi.Request, s)
		}},
		{"the last word is missing", Result{Delivered: 1, Damaged: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.come(0, words-1)
			o.arrived(m[1], funi.Request, s)
		}},
		{"some of it in the next job", Result{ReportedFailed: 1, Misdelivered: 2, parted: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				m[1].job = 1
				o.come(0, 2)
				o.returned(m[0], back(o, arctic.ReasonJob))
			}},
		{"noticed twice", Result{Delivered: 1, Duplicated: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.come(0, words)
			o.arrived(m[1], funi.Request, s)
			o.arrived(m[1], funi.Request, s)
		}},
		{"written once more after the notice", Result{Delivered: 1, Damaged: 4},
			func(o *oracle, m []*member, s *funi.Slot) {
				o.come(0, words)
				o.arrived(m[1], funi.Request, s)
				o.come(4, 8)
			}},
		{"a word too many", Result{Delivered: 1, Damaged: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.come(0, words+1)
			o.arrived(m[1], funi.Request, s)
		}},
		{"elsewhere", Result{Delivered: 1, Damaged: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.come(0, words)
			m[1].memory.target[3000]++
			o.arrived(m[1], funi.Request, s)
		}},
		{"where another is due", Result{Delivered: 1, Damaged: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.come(0, words)
			m[1].memory.target[0]++
			o.arrived(m[1], funi.Request, s)
		}},
		{"another number of words", Result{Delivered: 1, Damaged: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.come(0, words)
			s[funi.LengthWord] -= 4
			o.arrived(m[1], funi.Request, s)
		}},
		{"another address", Result{Delivered: 1, Damaged: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.come(0, words)
			s[funi.DestinationAddressWord] += 16
			o.arrived(m[1], funi.Request, s)
		}},
		{"a message instead of a notice", Result{Delivered: 1, Damaged: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.come(0, words)
			s.SetHeader(funi.NewHeader(1, 7, 1))
			s[funi.PayloadWord] = 1
			o.arrived(m[1], funi.Request, s)
		}},
		{"failed with part of it there", Result{ReportedFailed: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.come(4, 20)
			o.returned(m[0], back(o, arctic.ReasonSilent))
		}},
		{"failed with other bytes there", Result{ReportedFailed: 1, Damaged: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				m[1].memory.target[64+100] ^= 4
				o.returned(m[0], back(o, arctic.ReasonSilent))
			}},
		{"failed, then all there", Result{ReportedFailed: 1, Delivered: 1, Both: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				o.returned(m[0], back(o, arctic.ReasonRestarted))
				o.come(0, words)
				o.arrived(m[1], funi.Request, s)
			}},
		{"failed for a reason that it did not give", Result{ReportedFailed: 1, Damaged: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				o.returned(m[0], back(o, arctic.ReasonDestination))
			}},
		{"failed because its card and another counted anew", Result{ReportedFailed: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				o.returned(m[0], back(o, arctic.ReasonResynchronised))
			}},
		{"failed for a transient reason", Result{ReportedFailed: 1, Damaged: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				o.returned(m[0], back(o, arctic.ReasonQueueFull))
			}},
		{"neither", Result{Lost: 1}, func(*oracle, []*member, *funi.Slot) {}},
		{"half to a dead card, half to its next life", Result{Delivered: 1, Damaged: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				m[1].deaths++
				o.come(20, words)
				o.arrived(m[1], funi.Request, s)
			}},
		{"half to a dead process, half to its heir", Result{Delivered: 1, Damaged: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				m[1].deaths++
				m[1].attached++
				o.come(20, words)
				o.arrived(m[1], funi.Request, s)
			}},
		{"failed because of an heir", Result{ReportedFailed: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			m[1].attached++
			o.come(20, words)
			o.returned(m[0], back(o, arctic.ReasonReplaced))
		}},
		{"failed because of an heir that is not there", Result{ReportedFailed: 1, Damaged: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				m[1].deaths++
				o.returned(m[0], back(o, arctic.ReasonReplaced))
			}},
		{"one packet failed because of an heir", Result{ReportedFailed: 1, Damaged: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				m[1].attached++
				o.transfers[0].words = arctic.MaxSingleWords
				o.returned(m[0], back(o, arctic.ReasonReplaced))
			}},
		{"not refused, but failed because of an heir", Result{ReportedFailed: 1, Damaged: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				o.messages[0].to, o.transfers[0].refused = nobody, arctic.ReasonDestination
				m[1].attached++
				o.returned(m[0], back(o, arctic.ReasonReplaced))
			}},
		{"refused as it must be", Result{ReportedFailed: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.messages[0].to, o.transfers[0].refused = nobody, arctic.ReasonSource
			o.returned(m[0], back(o, arctic.ReasonSource))
		}},
		{"refused for another reason", Result{ReportedFailed: 1, Damaged: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				o.messages[0].to, o.transfers[0].refused = nobody, arctic.ReasonSource
				o.returned(m[0], back(o, arctic.ReasonSilent))
			}},
		{"refused by a receiver that is gone", Result{ReportedFailed: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.messages[0].to, o.transfers[0].refused = nobody, arctic.ReasonDestination
			o.returned(m[0], back(o, arctic.ReasonNoContext))
		}},
		{"not refused", Result{Lost: 1, Misdelivered: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.messages[0].to, o.transfers[0].refused = nobody, arctic.ReasonDestination
			o.arrived(m[1], funi.Request, s)
		}},
	} {
		o, m, r, s := moving(words)
		c.do(o, m, &s)
		o.account()
		got := *r
		got.Messages, got.Transfers, got.Failures, got.strays = 0, 0, nil, 0
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: judged %+v, want %+v: %q", c.what, got, c.want, r.Failures)
		}
	}
}

// A dead process's memory is not touched any more.
func TestMemoryOfTheDead(t *testing.T) {
	o, m, r, _ := moving(8)
	m[1].run = &run{oracle: *o}
	y := m[1].memory
	m[1].bury()
	if o.remember(); r.Damaged != 0 || m[1].memory != y {
		t.Errorf("%+v", r)
	}
	y.target[64]++
	if o.remember(); r.Damaged != 1 {
		t.Errorf("%d changes of a dead process's memory were noticed", r.Damaged)
	}
}

// An arena never gives out what is taken, nor across its seam, and knows whose an address is.
func TestArena(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := arena{first: 0x100, seam: 0x200, end: 0x300}
		var owner [0x400]uint32
		var taken []span
		for n := uint32(1); n < 60; n++ {
			at, size := uint32(0), uint32(16*rapid.IntRange(1, 9).Draw(t, "size"))
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				if len(taken) > 0 {
					i := rapid.IntRange(0, len(taken)-1).Draw(t, "which")
					if s := a.give(taken[i].first); s != taken[i] {
						t.Fatalf("gave %+v back as %+v", taken[i], s)
					}
					for k := taken[i].first; k < taken[i].end; k++ {
						owner[k] = 0
					}
					taken = append(taken[:i], taken[i+1:]...)
				}
			case 1:
				want := 0x100 + 16*uint32(rapid.IntRange(0, 31).Draw(t, "at"))
				free := true
				for k := want; k < want+size; k++ {
					free = free && owner[k] == 0
				}
				if a.takeAt(want, size, n) != free {
					t.Fatalf("%#x bytes at %#x: free is %v", size, want, free)
				}
				if free {
					at = want
				}
			default:
				if at = a.take(size, n); at != 0 && (at < 0x100 || at+size > 0x300 || at < 0x200 && at+size > 0x200) {
					t.Fatalf("%#x bytes at %#x", size, at)
				}
			}
			if at == 0 {
				continue
			}
			taken = append(taken, span{at, at + size, n})
			for k := at; k < at+size; k++ {
				if owner[k] != 0 {
					t.Fatalf("%#x is taken twice", k)
				}
				owner[k] = n
			}
			for k := uint32(0x100); k < 0x300; k++ {
				i, number := a.find(k), uint32(0)
				if i < len(a.taken) && a.taken[i].first <= k {
					number = a.taken[i].number
				}
				if number != owner[k] {
					t.Fatalf("%#x belongs to %d, found %d", k, owner[k], number)
				}
			}
		}
	})
}
