package engine_test

// This file holds the rules of waking a process by what others write into its memory
// (funi/written.go): each write wakes who asks and sleeps, when the data is there; nothing else
// does, and nobody who did not ask.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

const (
	watchedKey = 0x7777_0000_0005 // of a window of node 1; theKey is of a key slot
	readKey    = 0x7777_0000_0006 // of one that nobody may write
)

// watchBed is two cards, or one, on which node 1 has a key slot, a window, and is the only member
// of chain 3.
func watchBed(t testing.TB, cards int, tune func(*engine.Config)) *remoteBed {
	r := newRemoteBed(t, setup{cards: cards, remote: moreRemote, net: near, tune: tune})
	if cards == 1 {
		p, x := r.join(0, gid, 1)
		r.proc, r.keyed = append(r.proc, p), append(r.keyed, make([]byte, keyedSize))
		err := errors.Join(r.cards[0].SetRoute(1, 0),
			x.Register(funi.Segment{Base: keyedAt, Memory: r.keyed[1], Rights: funi.Keyed}))
		if err != nil {
			t.Fatal(err)
		}
	}
	r.opens(1, theKey, 0, 1<<15, 0)
	r.exposes(1, funi.Window{Key: watchedKey, Base: 1 << 15, Bytes: 1 << 14, Address: windowAt, Rights: allRights})
	r.exposes(1, funi.Window{Key: readKey, Base: 3 << 14, Bytes: 64, Address: windowAt, Rights: funi.RightRead})
	r.chains(3, 1, tree{}, func(node uint16) *funi.Interface { return r.proc[node] })
	return r
}

func (r *remoteBed) cardOf(node int) *engine.Card { return r.cards[min(node, len(r.cards)-1)] }

// onWindow is an operation on node 1's window that tells node 0 nothing if all is well.
func onWindow(op arctic.Operation, key uint64, operands []byte) funi.Operation {
	o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: op, Key: key, Address: windowAt, Ack: true,
		Operands: operands, Bytes: len(operands)}, Silent: true, Cookie: 1}
	if op != arctic.RemotePut {
		o.Element = arctic.Uint64
	}
	return o
}

var some = bytes.Repeat([]byte{0xa5}, 16)

// writesOfOthers are what others do that changes node 1's memory, and puts nothing into its queues
// and ring.
var writesOfOthers = map[string]func(r *remoteBed){
	"a put to a key slot": func(r *remoteBed) {
		r.put(0, 1, funi.Request, funi.Put{Key: theKey, Offset: 8, Data: some})
	},
	"a reply": func(r *remoteBed) { r.put(0, 1, funi.Reply, funi.Put{Key: theKey, Offset: 8, Data: some}) },
	"a put that is counted": func(r *remoteBed) {
		r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true, Count: 5, Data: some})
	},
	"a long put to a key slot": func(r *remoteBed) {
		r.put(0, 1, funi.Request, funi.Put{Key: theKey, Source: sources, Length: 5000})
	},
	"a put": func(r *remoteBed) { r.asks(0, 1, onWindow(arctic.RemotePut, watchedKey, some)) },
	"a long put": func(r *remoteBed) {
		o := onWindow(arctic.RemotePut, watchedKey, nil)
		o.Source, o.Length = sources, 5000
		r.asks(0, 1, o)
	},
	"a write": func(r *remoteBed) { r.asks(0, 1, onWindow(arctic.RemoteWrite, watchedKey, some[:8])) },
	"an add": func(r *remoteBed) {
		o := onWindow(arctic.RemoteAdd, watchedKey, some[:8])
		o.Ack, o.Fetch = false, true
		r.asks(0, 1, o)
	},
	"a signal without data": func(r *remoteBed) {
		o := onWindow(arctic.RemotePut, watchedKey, nil)
		o.Trailer = arctic.Trailer{Set: true, Key: watchedKey, Address: windowAt + 8, Value: 77}
		r.asks(0, 1, o)
	},
	"a put along a chain": func(r *remoteBed) {
		m := funi.MulticastRequest{Chain: 3, Members: 1, Put: true, Key: watchedKey, Address: windowAt + 3,
			Data: some, Cookie: 1}
		r.block(0, funi.Request, func(s *funi.Slot) { s.SetMulticast(1, &m) })
	},
}

// noWrites are what others do that changes nothing.
var noWrites = map[string]func(r *remoteBed){
	"a get": func(r *remoteBed) {
		r.asks(0, 1, funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet, Key: watchedKey,
			Address: windowAt}, Source: keyedAt, Length: 64, Cookie: 1})
	},
	"a read":           func(r *remoteBed) { r.asks(0, 1, operation(arctic.RemoteRead, windowAt)) },
	"a put of nothing": func(r *remoteBed) { r.asks(0, 1, onWindow(arctic.RemotePut, watchedKey, nil)) },
	"a wrong key":      func(r *remoteBed) { r.asks(0, 1, onWindow(arctic.RemotePut, watchedKey^1<<40, some)) },
	"a wrong key of a slot": func(r *remoteBed) {
		r.put(0, 1, funi.Request, funi.Put{Key: theKey ^ 1<<40, Data: some})
	},
	"beyond the end": func(r *remoteBed) {
		r.put(0, 1, funi.Request, funi.Put{Key: theKey, Offset: 1<<15 - 8, Data: some})
	},
	"no right": func(r *remoteBed) { r.asks(0, 1, onWindow(arctic.RemotePut, readKey, some)) },
	"a right for half": func(r *remoteBed) { // the signal is refused, so the data is
		o := onWindow(arctic.RemotePut, watchedKey, some)
		o.Trailer = arctic.Trailer{Set: true, Key: readKey, Address: windowAt, Value: 77}
		r.asks(0, 1, o)
	},
	"a lock": func(r *remoteBed) {
		o := onWindow(arctic.RemoteLock, watchedKey, nil)
		o.Element, o.Operands = 0, []byte{1, 2, 3, 4}
		r.asks(0, 1, o)
	},
	"a multicast that is refused": func(r *remoteBed) {
		m := funi.MulticastRequest{Chain: 3, Members: 1, Put: true, Key: readKey, Address: windowAt,
			Data: some, Cookie: 1}
		r.block(0, funi.Request, func(s *funi.Slot) { s.SetMulticast(1, &m) })
	},
}

// Rule: a write of another wakes a process that asked for that and sleeps, once, and both the wake
// and the new count come when data is there.
func TestWritesWake(t *testing.T) {
	kinds := map[string]func(*engine.Config){"blocks": windowCards["blocks"], "packets": windowCards["packets"],
		"timed": timed, "units": units}
	for kind, tune := range kinds {
		for name, do := range writesOfOthers {
			for cards := 1; cards <= 2; cards++ {
				t.Run(kind+", "+name, func(t *testing.T) {
					r := watchBed(t, cards, tune)
					card, page := r.cardOf(1), r.mem[1].Page
					if r.proc[1].Watch(true) || !r.proc[1].Watch(true) {
						t.Fatal("Watch does not say what was asked before")
					}
					do(r) // the way is known, and what is armed afterwards is not the first
					r.pass(time.Second)
					if back, ok := r.proc[0].NextReturn(); ok && (kind == "timed" || kind == "units") && back.Reason ==
						arctic.ReasonRemoteRequest {
						t.Skip("this card refuses it, as no table says what it takes")
					}
					if page.Written() == 0 {
						t.Fatal("the count has not moved")
					}
					card.TakeCalled()
					clear(r.keyed[1])
					seen := page.Published()
					page.Arm()
					do(r)
					r.until(time.Second, "it is woken", func() bool {
						there := !bytes.Equal(r.keyed[1], make([]byte, keyedSize))
						called := len(card.TakeCalled())
						if now := page.Published(); !there && (called > 0 || now != seen) {
							t.Fatalf("%d called and %+v after %+v before anything is there", called, now, seen)
						}
						return called == 1
					})
					if got := page.Published(); got.Written == seen.Written {
						t.Error("woken, and the count is as it was")
					} else if got.Written = seen.Written; got != seen {
						t.Errorf("the queues tell of it: %+v after %+v", got, seen)
					}
					r.pass(time.Second)
					if n := len(card.TakeCalled()); n != 0 {
						t.Errorf("%d are woken that were not armed", n)
					}
					if do(r); !r.proc[1].Watch(false) {
						t.Error("the wake has ended the watch")
					}
					r.ends()
				})
			}
		}
	}
}

// Rule: what changes nothing wakes nobody, and a process that did not ask, or no longer asks, is
// not woken and finds its page as it was.
func TestWhatWakesNobody(t *testing.T) {
	try := func(t *testing.T, do func(r *remoteBed), ask bool) {
		r := watchBed(t, 2, nil)
		page := r.mem[1].Page
		if !ask {
			r.proc[1].Watch(true)
		}
		r.proc[1].Watch(ask)
		r.pass(time.Second)
		r.cards[1].TakeCalled()
		page.Arm()
		seen := page.Published()
		do(r)
		r.pass(time.Second)
		if n := len(r.cards[1].TakeCalled()); n != 0 || page.Published() != seen {
			t.Errorf("%d are woken, %+v after %+v", n, page.Published(), seen)
		}
	}
	for name, do := range noWrites {
		t.Run(name, func(t *testing.T) { try(t, do, true) })
	}
	for name, do := range writesOfOthers {
		t.Run("not asked, "+name, func(t *testing.T) { try(t, do, false) })
	}
}

// Rule: no write is lost between a look at memory and a sleep, in whatever order process and card
// act: who sleeps has seen all that is there, or is on the list of those to wake. The process asks,
// looks, arms, looks at the page again, and sleeps (funi/written.go); it may stop asking, and
// scribble.
func TestNoWriteIsMissed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := watchBed(t, rapid.IntRange(1, 2).Draw(rt, "cards"),
			rapid.SampledFrom([]func(*engine.Config){nil, timed}).Draw(rt, "card"))
		card, p, page := r.cardOf(1), r.proc[1], r.mem[1].Page
		cell := func() uint64 { return binary.LittleEndian.Uint64(r.keyed[1][64:]) }
		var sent, looked uint64
		binary.LittleEndian.PutUint64(r.keyed[1][64:], 0)
		var seen funi.Published
		const (
			begins = iota
			asks
			looks
			arms
			sleeps
		)
		state := begins
		process := func() {
			switch state {
			case begins:
				p.Watch(true)
				seen = page.Published()
				state = asks
			case asks:
				looked = cell()
				state = looks
			case looks:
				page.Arm()
				state = arms
			case arms:
				if now := page.Published(); now != seen {
					page.Disarm()
					seen, state = now, asks
				} else {
					state = sleeps
				}
			case sleeps:
				for _, x := range card.TakeCalled() {
					if x.Node() == 1 {
						page.Disarm()
						seen, state = page.Published(), asks
					}
				}
			}
		}
		write := func() {
			if s := r.proc[0].Reserve(funi.Request); s != nil {
				sent++
				s.SetPut(1, &funi.Put{Key: theKey, Offset: 64, Data: word(sent)})
				r.proc[0].Commit(funi.Request)
			}
		}
		for _, do := range rapid.SliceOfN(rapid.IntRange(0, 11), 10, 120).Draw(rt, "script") {
			switch {
			case do < 3:
				write()
			case do < 6:
				r.step(r.now + int64(1)<<(4*(do-3)))
			case do < 10:
				process()
			case do == 10 && state != sleeps:
				p.Watch(false)
				state = begins
			case do == 11 && state != sleeps && rapid.Bool().Draw(rt, "scribbles"):
				page[0x6a8/4] = rapid.Uint32().Draw(rt, "written")
				state = begins
			}
		}
		for range 3 { // and to its sleep, if nothing comes, which something does
			for range 10 {
				process()
			}
			write()
			r.pass(time.Second)
			if called := card.TakeCalled(); state == sleeps && looked != cell() && len(called) != 1 {
				rt.Fatalf("it sleeps, has seen %d of %d, and nobody wakes it", looked, cell())
			} else if len(called) == 1 {
				page.Disarm()
				seen, state = page.Published(), asks
			}
		}
	})
}
