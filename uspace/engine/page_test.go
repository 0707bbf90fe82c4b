package engine_test

// This file holds the rules of pages (Tokyo, section 3.2: a packet has at most 4 KB, within one
// page; page.go).

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// pieces calls f for each packet of a put or get that a card sends, with its address and how many
// bytes it puts or asks for.
func (r *remoteBed) pieces(card int, f func(q *arctic.WindowRequest, bytes int)) {
	r.cards[card].Observe(func(_ int, b []byte, fate engine.Fate) {
		frame, err := arctic.Look(b)
		if err != nil || fate.Outcome != engine.Sent || frame.Hello() {
			return
		}
		for train := frame.Train(); len(train) > 0; {
			var p arctic.Packet
			p, train = arctic.Next(train)
			h := p.Header()
			var q arctic.WindowRequest
			if h.Kind != arctic.KindRemote || !p.WindowRequest(&h, &q) {
				continue
			}
			switch {
			case q.Block:
				f(&q, len(frame.Block()))
			case q.Operation == arctic.RemotePut:
				f(&q, len(q.Operands))
			default:
				f(&q, q.Bytes)
			}
		}
	})
}

// Rule (section 3.2): no packet of a put or get crosses the end of a page, whatever the address,
// the length and the place of the data. Puts and gets do what they do without pages: all data, the
// answer, the trailer once and behind the data (rapid).
func TestNoPieceCrossesAPage(t *testing.T) {
	for name, tune := range windowCards {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				page := rapid.SampledFrom([]int{64, 256, 4096}).Draw(rt, "page")
				net := wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"), Delay: 10 * time.Microsecond,
					Faults: rapid.SampledFrom([]wire.Faults{{}, networks["all"]}).Draw(rt, "faults")}
				to := rapid.IntRange(0, 1).Draw(rt, "to")
				r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, net: net, tune: func(c *engine.Config) {
					tune(c)
					c.RemotePage = page
				}})
				half := keyedSize / 2
				at := rapid.SampledFrom([]uint64{0, 5<<32 - 4096, windowAt, windowAt + 7}).Draw(rt, "address")
				r.exposes(to, funi.Window{Key: theKey, Bytes: uint32(half), Address: at, Rights: allRights, Credit: 4})
				r.exposes(to, funi.Window{Key: otherKey, Base: uint32(half), Bytes: 64, Rights: funi.RightAtomic})
				signal := r.keyed[to][half : half+8]
				copy(signal, word(100))
				puts, crossed := uint64(0), 0
				r.pieces(0, func(q *arctic.WindowRequest, n int) {
					if n > 0 && q.Address/uint64(page) != (q.Address+uint64(n)-1)/uint64(page) {
						crossed++
					}
				})
				for range 4 {
					n := rapid.SampledFrom([]int{0, 1, 8, 32, 64, 65, 1456, 4096, 9000}).Draw(rt, "bytes") +
						rapid.IntRange(0, 17).Draw(rt, "more")
					from := rapid.IntRange(0, half-n).Draw(rt, "from")
					if rapid.Bool().Draw(rt, "at the end of a page") {
						from = min(half-n, max(0, from/page*page+page-rapid.IntRange(0, 20).Draw(rt, "before")))
					}
					into := rapid.IntRange(half+64, keyedSize-n).Draw(rt, "into")
					want := [][]byte{bytes.Clone(r.keyed[0]), bytes.Clone(r.keyed[1])}
					o := funi.Operation{WindowRequest: arctic.WindowRequest{Key: theKey, Address: at + uint64(from)},
						Length: n, Cookie: 3}
					switch rapid.SampledFrom([]string{"get", "put", "put in the slot", "put with a trailer"}).Draw(rt,
						"what") {
					case "get":
						o.Operation, o.Source = arctic.RemoteGet, uint32(keyedAt+into)
						copy(want[0][into:into+n], want[to][from:from+n])
					case "put in the slot":
						n = min(n, arctic.MaxRemoteBytes)
						o.Operands, o.Bytes, o.Ack = r.source[0][into:into+n], n, true
						copy(want[to][from:from+n], r.source[0][into:into+n])
					case "put with a trailer":
						o.Trailer = arctic.Trailer{Add: true, Key: otherKey, Value: 11}
						puts++
						copy(want[to][half:], word(100+11*puts))
						fallthrough
					case "put":
						o.Source, o.Ack = uint32(sources+into), true
						copy(want[to][from:from+n], r.source[0][into:into+n])
					}
					if got := r.completes(0, to, o); got.Reason != arctic.ReasonNone ||
						o.Operation == arctic.RemoteGet && int(got.Bytes) != n {
						rt.Fatalf("%d bytes at %#x: %v", n, o.Address, got)
					}
					for i := range want {
						if !bytes.Equal(want[i], r.keyed[i]) {
							rt.Fatalf("memory of node %d is not as it should be after operation %d of %d bytes at %#x",
								i, o.Operation, n, o.Address)
						}
					}
				}
				if crossed > 0 {
					rt.Fatalf("%d packets cross the end of a page of %d bytes", crossed, page)
				}
				r.ends()
			})
		})
	}
}

// Rule: what lies in one page goes as without pages, in one packet; a byte further on makes two.
func TestPagesAtTheirBoundaries(t *testing.T) {
	const page = 4096
	for _, c := range []struct {
		at, bytes int
		want      []string
	}{
		{page - 64, 64, []string{"4032+64"}},
		{page - 63, 64, []string{"4033+63", "4096+1"}},
		{page - 1, 64, []string{"4095+1", "4096+47", "4143+16"}},
		{page - 1, 1, []string{"4095+1"}},
		{page, 64, []string{"4096+64"}},
		{page - 16, 32, []string{"4080+16", "4096+16"}},
		{page - 8, 16, []string{"4088+8", "4096+8"}},
		{0, 0, []string{"0+0"}},
		{page, 0, []string{"4096+0"}},
	} {
		for _, inSlot := range []bool{true, false} {
			r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, net: near, tune: func(c *engine.Config) {
				c.RemotePage = page
			}})
			r.exposes(1, funi.Window{Key: theKey, Bytes: 3 * page, Rights: allRights})
			r.pass(time.Millisecond)
			var got []string
			r.pieces(0, func(q *arctic.WindowRequest, n int) { got = append(got, fmt.Sprintf("%d+%d", q.Address, n)) })
			o := funi.Operation{WindowRequest: arctic.WindowRequest{Key: theKey, Address: uint64(c.at), Ack: true}}
			if inSlot {
				o.Operands, o.Bytes = r.source[0][:c.bytes], c.bytes
			} else {
				o.Source, o.Length = sources, c.bytes
			}
			if n := r.completes(0, 1, o); n.Reason != arctic.ReasonNone {
				t.Fatalf("%d bytes at %d: %v", c.bytes, c.at, n.Reason)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%d bytes at %d, in the slot %v: the packets are %v, want %v", c.bytes, c.at,
					inSlot, got, c.want)
			}
			r.ends()
		}
	}
}

// Rule: a put from the slot that crosses a page needs no segment of its process.
func TestPutAcrossPagesWithoutSegments(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, net: near, tune: func(c *engine.Config) {
		c.RemotePage = 64
	}})
	r.exposes(1, funi.Window{Key: theKey, Bytes: 256, Rights: allRights})
	r.cards[0].Detach(r.ctx[0])
	r.proc[0], r.ctx[0], _ = r.attach(0, gid, 0)
	data := bytes.Repeat([]byte("pages"), 12)
	if n := r.completes(0, 1, funi.Operation{WindowRequest: arctic.WindowRequest{Key: theKey, Address: 100,
		Operands: data, Bytes: 60, Ack: true}}); n.Reason != arctic.ReasonNone {
		t.Fatal(n.Reason)
	}
	if !bytes.Equal(r.keyed[1][100:160], data) {
		t.Errorf("the window has %q", r.keyed[1][100:160])
	}
}

// Rule: what is one packet by its nature and crosses the end of a page goes back to its process and
// changes nothing: elements, which are operated on together, and a multicast.
func TestOperationsAcrossPagesAreRefused(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, net: near, tune: func(c *engine.Config) {
		c.RemotePage = 4096
	}})
	r.exposes(1, funi.Window{Key: theKey, Bytes: 3 * 4096, Rights: allRights})
	r.chains(1, 1, tree{}, r.byNode)
	was := bytes.Clone(r.keyed[1])
	refused := func(what string) {
		t.Helper()
		var got funi.Returned
		r.until(time.Second, what, func() (ok bool) { got, ok = r.proc[0].NextReturn(); return ok })
		if got.Reason != arctic.ReasonOperand || got.Word != 99 {
			t.Errorf("%s: %v and %d, want %v and 99", what, got.Reason, got.Word, arctic.ReasonOperand)
		}
	}
	two := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteAdd, Element: arctic.Uint64,
		Key: theKey, Address: 4088, Operands: make([]byte, 16), Bytes: 16, Fetch: true}, Cookie: 99}
	r.asks(0, 1, two)
	refused("an add of two")
	r.asks(0, 1, funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteRead,
		Element: arctic.Uint64, Key: theKey, Address: 8184, Bytes: 16}, Cookie: 99})
	refused("a read of two")
	r.block(0, funi.Request, func(s *funi.Slot) {
		s.SetMulticast(1, &funi.MulticastRequest{Chain: 1, Members: 1, Cookie: 99, Put: true, Key: theKey,
			Address: 4090, Data: []byte("sixteen bytes...")})
	})
	refused("a multicast")
	if !bytes.Equal(was, r.keyed[1]) {
		t.Error("memory has changed")
	}
	two.Address, two.Cookie = 4080, 1
	two.Operands = append(word(1), word(2)...)
	if n := r.completes(0, 1, two); n.Reason != arctic.ReasonNone ||
		binary.LittleEndian.Uint64(r.keyed[1][4088:]) != binary.LittleEndian.Uint64(was[4088:])+2 {
		t.Errorf("two elements up to the end of the page: %v", n.Reason)
	}
	r.ends()
}

// Rule: a card refuses pages that are none.
func TestPagesThatAreNone(t *testing.T) {
	for _, bytes := range []int{-4096, 1, 32, 63, 65, 4095, 1 << 17} {
		c := engine.Native()
		c.Card, c.Incarnation, c.RemotePage = 1, 1, bytes
		if _, err := engine.New(c); !errors.Is(err, engine.ErrConfig) {
			t.Errorf("pages of %d bytes: %v", bytes, err)
		}
	}
}
