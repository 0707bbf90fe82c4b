package engine_test

// This file holds the rules of remote memory (funi/remote.go, keyslot.go, area.go, remote.go;
// HPL-95-86, sections 2.2 to 2.5): what a key lets others write, what is refused, when a
// notification comes, and how many.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// A remote bed is one whose nodes can open remote memory, and have one segment to send from and one
// to give keys to.
const (
	sources   = 0x10000
	keyedAt   = 0x40000
	keyedSize = 1 << 16
	theKey    = 0x1234_5678_9abc_0003 // of key slot 3
	otherKey  = 0x1111_2222_3333_0005
)

var someRemote = funi.RemoteSizes{KeySlots: 8, Areas: 16, Notifications: 8}

type remoteBed struct {
	*bed
	source, keyed, landing [][]byte
}

func newRemoteBed(t testing.TB, s setup) *remoteBed {
	if s.remote == (funi.RemoteSizes{}) {
		s.remote = someRemote
	}
	if s.slots == 0 {
		s.slots = 16
	}
	r := &remoteBed{bed: newBed(t, s)}
	for i := range s.cards {
		r.source, r.keyed = append(r.source, make([]byte, keyedSize)), append(r.keyed, make([]byte, keyedSize))
		r.registers(i)
		fill(r.source[i], uint32(i+1))
		fill(r.keyed[i], uint32(i+101))
	}
	return r
}

func (r *remoteBed) registers(i int) {
	r.t.Helper()
	for _, g := range []funi.Segment{{Base: sources, Memory: r.source[i], Rights: funi.Source},
		{Base: keyedAt, Memory: r.keyed[i], Rights: funi.Keyed}} {
		if err := r.ctx[i].Register(g); err != nil {
			r.t.Fatal(err)
		}
	}
}

// block puts a request block into a send queue.
func (r *remoteBed) block(node int, l funi.Level, compose func(*funi.Slot)) {
	r.t.Helper()
	s := r.proc[node].Reserve(l)
	if s == nil {
		r.t.Fatalf("send queue of node %d is full", node)
	}
	compose(s)
	r.proc[node].Commit(l)
}

func (r *remoteBed) put(from, to int, l funi.Level, p funi.Put) {
	r.t.Helper()
	if !p.Valid() {
		r.t.Fatalf("not valid: %+v", p)
	}
	r.block(from, l, func(s *funi.Slot) { s.SetPut(uint16(to), &p) })
}

// opens opens a key slot over bytes of the keyed segment, and areas from 0 on with a credit of 1.
func (r *remoteBed) opens(node int, key uint64, at, size uint32, areas ...uint16) {
	r.t.Helper()
	r.block(node, funi.Request, func(s *funi.Slot) { s.SetOpenKeySlot(key, keyedAt+at, size, 0) })
	for _, a := range areas {
		r.block(node, funi.Request, func(s *funi.Slot) { s.SetOpenArea(a, key, 1, false, 0) })
	}
	r.retired(node)
}

// retired waits until the card has taken all blocks, and checks that none came back.
func (r *remoteBed) retired(node int) {
	r.t.Helper()
	r.until(time.Second, "blocks are retired", func() bool {
		return r.proc[node].Unsent(funi.Request)+r.proc[node].Unsent(funi.Reply) == 0
	})
	if back, ok := r.proc[node].NextReturn(); ok {
		r.t.Fatalf("a block came back: %v", back.Reason)
	}
}

// notified waits for a notification.
func (r *remoteBed) notified(node int) (n funi.Notification) {
	r.t.Helper()
	r.until(time.Minute, "a notification", func() bool { return r.proc[node].NextNotification(&n) })
	return n
}

// silent checks that no notification comes.
func (r *remoteBed) silent(node int) {
	r.t.Helper()
	r.pass(20 * time.Millisecond)
	if n := (funi.Notification{}); r.proc[node].NextNotification(&n) {
		r.t.Fatalf("node %d is notified of %+v", node, n)
	}
}

// ends lets everything end, and balances the books.
func (r *remoteBed) ends() {
	r.t.Helper()
	r.idle(time.Minute)
	for i, c := range r.cards {
		if c == nil {
			continue
		}
		if err := c.Check(); err != nil {
			r.t.Errorf("card %d: %v", i, err)
		}
	}
}

// remoteCards are the cards that rules of remote memory are tried on: that of a modelled machine
// has a cache of eight lines, too.
var remoteCards = map[string]func(*engine.Config){
	"blocks": func(c *engine.Config) { c.Blocks = true }, "packets": func(c *engine.Config) {
		c.Blocks = false
	}, "timed": timed, "units": units, "stepped": stepped,
}

// eachRemote tries a rule between cards and within one, on cards of each kind, on both levels.
func eachRemote(t *testing.T, f func(t *testing.T, r *remoteBed, l funi.Level, to int)) {
	for name, tune := range remoteCards {
		for l := range funi.Level(2) {
			for _, to := range []int{0, 1} {
				t.Run(fmt.Sprintf("%s, %v to node %d", name, l, to), func(t *testing.T) {
					r := newRemoteBed(t, setup{cards: 2, net: near, tune: tune})
					f(t, r, l, to)
					r.ends()
				})
			}
		}
	}
}

// Rule: what fits a packet is in place when its notification comes, which tells area, key slot,
// sender and metadata. Neither the receiving process nor its queues have any part in it (2.2, 2.5).
func TestPutOfOnePacket(t *testing.T) {
	eachRemote(t, func(t *testing.T, r *remoteBed, l funi.Level, to int) {
		r.opens(to, theKey, 100, 1000, 2)
		want := bytes.Clone(r.keyed[to])
		for i, c := range []struct {
			words, bytes int
			offset       uint32
			inSlot       bool
		}{{0, 64, 0, true}, {11, 16, 7, true}, {11, 20, 936, true}, {3, 5, 995, true}, {1, 0, 1000, true},
			{0, 1, 999, false}, {2, 33, 501, false}, {0, 0, 0, false}} {
			p := funi.Put{Key: theKey, Offset: c.offset, Area: 2, Counted: true, Source: sources + 3, Length: c.bytes}
			for w := range c.words {
				p.Metadata = append(p.Metadata, uint32(i*100+w))
			}
			data := r.source[0][3 : 3+c.bytes]
			if c.inSlot {
				p.Source, p.Length, p.Data = 0, 0, data
			}
			r.put(0, to, l, p)
			copy(want[100+c.offset:], data)
			n := r.notified(to)
			if n.Area != 2 || n.KeySlot != 3 || n.Source != 0 || n.Words != c.words ||
				!equalWords(n.Metadata[:n.Words], p.Metadata) {
				t.Fatalf("%+v: notified of %+v", c, n)
			}
			if !bytes.Equal(r.keyed[to], want) {
				t.Fatalf("%+v: the memory is another", c)
			}
		}
		if r.proc[to].Arrived(funi.Request)+r.proc[to].Arrived(funi.Reply) != 0 {
			t.Error("something is in a receive queue")
		}
	})
}

func equalWords(a, b []uint32) bool {
	return bytes.Equal(funi.Bytes(a), funi.Bytes(b))
}

// Rule: a message of many packets, of any length and at any offset, makes one notification, with
// its metadata, when all of it is there. It does so in whatever order its packets come, over a
// network that does anything (2.5, message reassembly). Nothing beside it changes.
func TestPutOfManyPackets(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		faults := wire.Networks[rapid.SampledFrom([]string{"clean", "loss", "duplicate", "reorder", "corrupt",
			"all"}).Draw(rt, "network")]
		r := newRemoteBed(t, setup{cards: 2, net: wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"),
			Delay: 10 * time.Microsecond, Faults: faults},
			tune: remoteCards[rapid.SampledFrom([]string{"blocks", "packets", "timed", "units", "stepped"}).Draw(rt,
				"card")]})
		to := rapid.IntRange(0, 1).Draw(rt, "to")
		r.opens(to, theKey, 16, keyedSize-32, 0)
		want := bytes.Clone(r.keyed[to])
		for range rapid.IntRange(1, 3).Draw(rt, "messages") {
			size := rapid.IntRange(1, 20000).Draw(rt, "bytes")
			from, offset := rapid.IntRange(0, keyedSize-size).Draw(rt, "from"),
				rapid.IntRange(0, keyedSize-32-size).Draw(rt, "offset")
			p := funi.Put{Key: theKey, Offset: uint32(offset), Counted: true, Source: uint32(sources + from),
				Length: size, Metadata: []uint32{7, uint32(size)}}
			copy(want[16+offset:], r.source[0][from:from+size])
			r.put(0, to, funi.Level(rapid.IntRange(0, 1).Draw(rt, "level")), p)
			n := r.notified(to)
			if n.Words != 2 || n.Metadata[0] != 7 || n.Metadata[1] != uint32(size) || n.Source != 0 {
				rt.Fatalf("notified of %+v", n)
			}
			if !bytes.Equal(r.keyed[to], want) {
				rt.Fatalf("%d bytes at %d: the memory is another when the notification comes", size, offset)
			}
		}
		r.silent(to)
		r.ends()
	})
}

// Rule: a write that is not counted writes and says nothing (3.2, remote write), whatever its
// length.
func TestPutThatIsNotCounted(t *testing.T) {
	eachRemote(t, func(t *testing.T, r *remoteBed, l funi.Level, to int) {
		r.opens(to, theKey, 0, keyedSize, 0)
		want := bytes.Clone(r.keyed[to])
		for _, size := range []int{5, 64, 65, 5000} {
			r.put(0, to, l, funi.Put{Key: theKey, Offset: 11, Source: sources, Length: size})
			copy(want[11:], r.source[0][:size])
		}
		r.until(time.Second, "all is written", func() bool { return bytes.Equal(want, r.keyed[to]) })
		r.silent(to)
		if back, ok := r.proc[0].NextReturn(); ok {
			t.Fatalf("came back: %v", back.Reason)
		}
	})
}

// narrows has node 0 put bytes to node 1, which is cut off, and returns how many: they are in
// flight in frames that have become too long meanwhile.
func (r *remoteBed) narrows() (size int) {
	r.t.Helper()
	size = 40000
	r.opens(1, theKey, 0, keyedSize, 0)
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true, Source: sources, Length: 100})
	r.notified(1)
	r.net.Cut(isolate(1))
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true, Source: sources, Length: size})
	r.pass(time.Millisecond)
	r.cards[0].SetLimit(1, 1514)
	return size
}

// Rule: the block of a frame that has become too long goes in pieces, and counts once
// (arctic/remote.go).
func TestPutWhoseBlocksGoInPieces(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, net: wire.Config{Delay: 10 * time.Microsecond, MTU: 9000}, tune: quick})
	size := r.narrows()
	r.net.Cut(nil)
	r.notified(1)
	if !bytes.Equal(r.keyed[1][:size], r.source[0][:size]) {
		t.Fatal("not all is there when the notification comes")
	}
	r.silent(1)
	r.ends()
}

// Rule: a write that is not allowed is refused before a byte changes, and returns with the reason
// and the cookie. That is one with a wrong key, with a key slot that
// is not open or beyond the table, or one byte beyond the end. It is also one to an area that is
// not open, beyond the table or bound to another key slot.
func TestPutsAreRefused(t *testing.T) {
	eachRemote(t, func(t *testing.T, r *remoteBed, l funi.Level, to int) {
		r.opens(to, theKey, 100, 1000, 0)
		r.opens(to, otherKey, 2000, 100, 1)
		before := bytes.Clone(r.keyed[to])
		for i, c := range []struct {
			name string
			want arctic.Reason
			put  funi.Put
		}{
			{"another key", arctic.ReasonKeySlot, funi.Put{Key: theKey ^ 1<<63, Counted: true}},
			{"a key slot that is not open", arctic.ReasonKeySlot, funi.Put{Key: 4, Counted: true}},
			{"key 0", arctic.ReasonKeySlot, funi.Put{Counted: true}},
			{"a key slot beyond the table", arctic.ReasonKeySlot, funi.Put{Key: theKey&^0xffff | 8, Counted: true}},
			{"the last number", arctic.ReasonKeySlot, funi.Put{Key: theKey | 0xffff, Counted: true}},
			{"a byte beyond the end", arctic.ReasonRange, funi.Put{Key: theKey, Offset: 981, Counted: true}},
			{"far beyond the end", arctic.ReasonRange, funi.Put{Key: theKey, Offset: 1 << 31}},
			{"the last offset", arctic.ReasonRange, funi.Put{Key: theKey, Offset: 1<<32 - 1, Counted: true}},
			{"an area that is not open", arctic.ReasonArea, funi.Put{Key: theKey, Area: 2, Counted: true}},
			{"an area beyond the table", arctic.ReasonArea, funi.Put{Key: theKey, Area: 16, Counted: true}},
			{"the last area", arctic.ReasonArea, funi.Put{Key: theKey, Area: 1<<16 - 1, Counted: true}},
			{"an area of another key slot", arctic.ReasonArea, funi.Put{Key: theKey, Area: 1, Counted: true}},
		} {
			for _, size := range []int{20, 3000} {
				c.put.Cookie = uint32(i*2 + size)
				c.put.Source, c.put.Length = sources, size
				if size > 20 && c.want == arctic.ReasonArea {
					continue // which is also beyond the end
				}
				r.put(0, to, l, c.put)
				var back funi.Returned
				r.until(time.Second, c.name+" comes back", func() (ok bool) {
					back, ok = r.proc[0].NextReturn()
					return ok
				})
				if size > 20 && c.want == arctic.ReasonRange && back.Reason == c.want ||
					back.Reason == c.want && back.Word == c.put.Cookie && back.Level == l && back.Header.Remote() {
					continue
				}
				t.Fatalf("%s, %d bytes: came back as %+v (%v)", c.name, size, back, back.Reason)
			}
		}
		r.idle(time.Second)
		if r.silent(to); !bytes.Equal(before, r.keyed[to]) {
			t.Fatal("something was written")
		}
		r.put(0, to, l, funi.Put{Key: theKey, Counted: true, Source: sources, Length: 20})
		r.notified(to) // the areas are as they were
	})
}

// Rule: a block that asks for what there is not returns with its cookie, opens nothing and writes
// nothing; one that is no block sets MERR besides (thesis 3.1.2).
func TestRequestBlocksAreRefused(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, net: near})
	r.opens(0, theKey, 0, 64, 1)
	before := bytes.Clone(r.keyed[0])
	word := func(op funi.RemoteOperation, change func(*funi.Slot)) func(*funi.Slot) {
		return func(s *funi.Slot) {
			s.SetPut(0, &funi.Put{Key: theKey, Counted: true, Source: sources, Length: 4, Cookie: 99})
			s.SetHeader(1<<30 | funi.NewHeader(0, uint16(op), 0))
			change(s)
		}
	}
	open := func(key uint64, at, size uint32) func(*funi.Slot) {
		return func(s *funi.Slot) { s.SetOpenKeySlot(key, at, size, 99) }
	}
	area := func(n uint16, key uint64, credit int) func(*funi.Slot) {
		return func(s *funi.Slot) { s.SetOpenArea(n, key, credit, false, 99) }
	}
	for _, c := range []struct {
		name string
		want arctic.Reason
		set  func(*funi.Slot)
	}{
		{"open again", arctic.ReasonNotOpened, open(theKey, keyedAt, 16)},
		{"open its number with another key", arctic.ReasonNotOpened, open(theKey^1<<40, keyedAt, 16)},
		{"open beyond the table", arctic.ReasonNotOpened, open(8, keyedAt, 16)},
		{"open nothing", arctic.ReasonNotOpened, open(4, keyedAt, 0)},
		{"open a byte beyond the segment", arctic.ReasonNotOpened, open(4, keyedAt+1, keyedSize)},
		{"open 4 GiB", arctic.ReasonNotOpened, open(4, keyedAt, 1<<32-1)},
		{"open where no segment is", arctic.ReasonNotOpened, open(4, 0x100, 16)},
		{"open a segment without the right", arctic.ReasonNotOpened, open(4, sources, 16)},
		{"close with another key", arctic.ReasonNotOpened, func(s *funi.Slot) { s.SetCloseKeySlot(theKey^1<<40, 99) }},
		{"close what is not open", arctic.ReasonNotOpened, func(s *funi.Slot) { s.SetCloseKeySlot(4, 99) }},
		{"close beyond the table", arctic.ReasonNotOpened, func(s *funi.Slot) { s.SetCloseKeySlot(1<<16-1, 99) }},
		{"area with another key", arctic.ReasonNotOpened, area(2, theKey^1<<40, 1)},
		{"area again", arctic.ReasonNotOpened, area(1, theKey, 1)},
		{"area beyond the table", arctic.ReasonNotOpened, area(16, theKey, 1)},
		{"area without credit", arctic.ReasonNotOpened, area(2, theKey, 0)},
		{"more credit than the ring has left", arctic.ReasonNotOpened, area(2, theKey, 8)},
		{"credit of 2^32-1", arctic.ReasonNotOpened, area(2, theKey, -1)},
		{"close an area that is not open", arctic.ReasonNotOpened, func(s *funi.Slot) { s.SetCloseArea(2, 99) }},
		{"reset an area that is not open", arctic.ReasonNotOpened, func(s *funi.Slot) { s.SetResetArea(2, 99) }},
		{"reset an area beyond the table", arctic.ReasonNotOpened, func(s *funi.Slot) { s.SetResetArea(1<<16-1, 99) }},
		{"no operation", arctic.ReasonRemoteRequest, word(511, func(*funi.Slot) {})},
		{"operation 1", arctic.ReasonRemoteRequest, word(1, func(*funi.Slot) {})},
		{"a length in the header", arctic.ReasonRemoteRequest, word(0, func(s *funi.Slot) { s[0] |= 1 << 16 })},
		{"word 3", arctic.ReasonRemoteRequest, word(0, func(s *funi.Slot) { s[3] = 1 })},
		{"upper half of the offset", arctic.ReasonRemoteRequest, word(0, func(s *funi.Slot) { s[7] = 1 })},
		{"upper half of the source", arctic.ReasonRemoteRequest, word(0, func(s *funi.Slot) { s[9] = 1 })},
		{"12 words of metadata", arctic.ReasonRemoteRequest, word(0, func(s *funi.Slot) { s[1] |= 12 })},
		{"reserved bits of the area", arctic.ReasonRemoteRequest, word(0, func(s *funi.Slot) { s[1] |= 16 })},
		{"metadata that is not counted", arctic.ReasonRemoteRequest, word(0, func(s *funi.Slot) { s[1] = 1 })},
		{"65 bytes in the slot", arctic.ReasonRemoteRequest, word(0, func(s *funi.Slot) { s[8], s[10] = 0, 65 })},
		{"61 bytes and a word in the slot", arctic.ReasonRemoteRequest,
			word(0, func(s *funi.Slot) { s[1] |= 1; s[8], s[10] = 0, 61 })},
		{"more than 64 MiB", arctic.ReasonRemoteRequest, word(0, func(s *funi.Slot) { s[10] = 1<<26 + 1 })},
		{"2^32-1 bytes in the slot", arctic.ReasonRemoteRequest,
			word(0, func(s *funi.Slot) { s[8], s[10] = 0, 1<<32-1 })},
		{"a source that is none", arctic.ReasonSource, word(0, func(s *funi.Slot) { s[8] = keyedAt })},
		{"a source beyond its segment", arctic.ReasonSource,
			word(0, func(s *funi.Slot) { s[8], s[10] = sources+keyedSize-3, 4 })},
	} {
		r.block(0, funi.Request, c.set)
		var back funi.Returned
		r.until(time.Second, c.name+" comes back", func() (ok bool) { back, ok = r.proc[0].NextReturn(); return ok })
		if back.Reason != c.want || back.Word != 99 || !back.Header.Remote() {
			t.Fatalf("%s: came back as %+v (%v)", c.name, back, back.Reason)
		}
		if merr := r.ctx[0].Load(funi.Control)&funi.MERR != 0; merr != (c.want != arctic.ReasonNotOpened) {
			t.Fatalf("%s: MERR is %v", c.name, merr)
		}
		if err := r.ctx[0].Store(funi.Control, 0); err != nil {
			t.Fatal(err)
		}
	}
	if r.silent(0); !bytes.Equal(before, r.keyed[0]) {
		t.Fatal("something was written")
	}
	r.put(0, 0, funi.Request, funi.Put{Key: theKey, Area: 1, Counted: true, Source: sources, Length: 4})
	r.notified(0)
	r.ends()
}

// Rule: a context without room for remote memory has none (funi.RemoteSizes; remote.go).
func TestContextsWithoutRemoteMemory(t *testing.T) {
	for _, name := range []string{"native", "timed"} {
		b := newBed(t, setup{cards: 2, slots: 16, net: near, tune: machines[name]})
		s := b.proc[0].Reserve(funi.Request)
		s.SetOpenKeySlot(theKey, keyedAt, 16, 5)
		b.proc[0].Commit(funi.Request)
		b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonNotOpened,
			Header: 1<<30 | funi.NewHeader(0, uint16(funi.OpenKeySlot), 0), Word: 5})
		put := funi.Put{Key: theKey, Cookie: 6}
		s = b.proc[0].Reserve(funi.Request)
		s.SetPut(1, &put)
		b.proc[0].Commit(funi.Request)
		b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonKeySlot,
			Header: 1<<30 | funi.NewHeader(1, 0, 0), Word: 6})
		b.idle(time.Second)
	}
}

// Rule: blocks are carried out in order. So a seed sent behind
// the blocks that open is good, and what was sent before the one that closes is done. Once the
// closing block is retired nothing changes any more, whatever is under way.
func TestOpenAndCloseInOrder(t *testing.T) {
	for _, blocks := range []bool{true, false} {
		r := newRemoteBed(t, setup{cards: 2, slots: 64, net: near, tune: func(c *engine.Config) { c.Blocks = blocks }})
		r.block(1, funi.Request, func(s *funi.Slot) { s.SetOpenKeySlot(theKey, keyedAt, keyedSize, 0) })
		r.block(1, funi.Request, func(s *funi.Slot) { s.SetOpenArea(0, theKey, 1, false, 0) })
		if !put(r.proc[1], funi.Request, 0, 1, 2, 3) {
			t.Fatal("full")
		}
		r.receives(0, funi.Request)
		for i := range 20 {
			r.put(0, 1, funi.Request, funi.Put{Key: theKey, Source: sources, Length: 3000, Offset: uint32(i * 3000)})
		}
		r.pass(30 * time.Microsecond)
		r.block(1, funi.Request, func(s *funi.Slot) { s.SetCloseKeySlot(theKey, 0) })
		r.retired(1)
		before := bytes.Clone(r.keyed[1])
		refused := 0
		r.idle(time.Second)
		for back, ok := r.proc[0].NextReturn(); ok; back, ok = r.proc[0].NextReturn() {
			if refused++; back.Reason != arctic.ReasonKeySlot {
				t.Fatalf("came back: %v", back.Reason)
			}
		}
		if r.pass(time.Second); !bytes.Equal(before, r.keyed[1]) {
			t.Fatal("memory changed after its key slot was closed")
		}
		if refused == 0 {
			t.Fatal("nothing was under way: the test tests nothing")
		}
		// The number may be opened again, with another key: the area is bound to it still.
		r.block(1, funi.Request, func(s *funi.Slot) { s.SetOpenKeySlot(theKey^1<<50, keyedAt, 16, 0) })
		r.retired(1)
		r.put(0, 1, funi.Request, funi.Put{Key: theKey, Cookie: 4})
		r.comesBack(time.Second, r.proc[0], funi.Returned{Reason: arctic.ReasonKeySlot,
			Header: 1<<30 | funi.NewHeader(1, 0, 0), Word: 4})
		r.put(0, 1, funi.Request, funi.Put{Key: theKey ^ 1<<50, Counted: true})
		r.notified(1)
		r.ends()
	}
}

// Rule: unregistering a segment closes the key slots in it, and no others
// (engine.Context.Unregister).
func TestUnregisterClosesKeySlots(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, net: near})
	second := make([]byte, 64)
	if err := r.ctx[1].Register(funi.Segment{Base: 0x100, Memory: second, Rights: funi.Keyed}); err != nil {
		t.Fatal(err)
	}
	r.opens(1, theKey, 0, 64, 0)
	r.block(1, funi.Request, func(s *funi.Slot) { s.SetOpenKeySlot(otherKey, 0x100, 64, 0) })
	r.block(1, funi.Request, func(s *funi.Slot) { s.SetOpenArea(1, otherKey, 1, false, 0) })
	r.retired(1)
	if err := r.ctx[1].Unregister(keyedAt); err != nil {
		t.Fatal(err)
	}
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true, Cookie: 3})
	r.comesBack(time.Second, r.proc[0], funi.Returned{Reason: arctic.ReasonKeySlot,
		Header: 1<<30 | funi.NewHeader(1, 0, 0), Word: 3})
	r.put(0, 1, funi.Request, funi.Put{Key: otherKey, Area: 1, Counted: true, Data: []byte{9}})
	if r.notified(1); second[0] != 9 {
		t.Fatal("not written")
	}
	if err := r.ctx[1].Withdraw(0x100); err != nil {
		t.Fatal(err)
	}
	r.put(0, 1, funi.Request, funi.Put{Key: otherKey, Cookie: 3})
	r.comesBack(time.Second, r.proc[0], funi.Returned{Reason: arctic.ReasonKeySlot,
		Header: 1<<30 | funi.NewHeader(1, 0, 0), Word: 3})
	r.ends()
}

// Rule: as many notifications of an area are unread as it has credit; what would be one more waits
// at its sender and is not written before there is credit again, or returns (ReasonNoBuffer). None
// is lost, and other areas go on.
func TestCredit(t *testing.T) {
	for _, returns := range []bool{false, true} {
		eachRemote(t, func(t *testing.T, r *remoteBed, l funi.Level, to int) {
			r.opens(to, theKey, 0, keyedSize)
			r.block(to, funi.Request, func(s *funi.Slot) { s.SetOpenArea(5, theKey, 3, returns, 0) })
			r.block(to, funi.Request, func(s *funi.Slot) { s.SetOpenArea(6, theKey, 2, false, 0) })
			r.retired(to)
			for i := range byte(3) {
				r.put(0, to, l, funi.Put{Key: theKey, Offset: uint32(i), Area: 5, Counted: true, Data: []byte{i + 1},
					Metadata: []uint32{uint32(i)}})
			}
			r.pass(time.Millisecond)
			before := bytes.Clone(r.keyed[to])
			if before[2] != 3 {
				t.Fatal("not written")
			}
			r.put(0, to, l, funi.Put{Key: theKey, Offset: 3, Area: 5, Counted: true, Data: []byte{77},
				Metadata: []uint32{3}, Cookie: 8})
			r.pass(20 * time.Millisecond)
			if !bytes.Equal(before, r.keyed[to]) {
				t.Fatal("written without credit")
			}
			if returns {
				r.comesBack(time.Second, r.proc[0], funi.Returned{Reason: arctic.ReasonNoBuffer, Level: l,
					Header: 1<<30 | funi.NewHeader(uint16(to), 0, 0), Word: 8})
			}
			r.put(1, to, l^1, funi.Put{Key: theKey, Area: 6, Counted: true, Metadata: []uint32{66}})
			got := map[uint32]bool{}
			for range 4 {
				if returns && len(got) == 3 {
					r.put(0, to, l, funi.Put{Key: theKey, Offset: 3, Area: 5, Counted: true, Data: []byte{77},
						Metadata: []uint32{3}})
				}
				n := r.notified(to)
				got[n.Metadata[0]] = true
			}
			n := r.notified(to)
			if got[n.Metadata[0]] = true; len(got) != 5 || r.keyed[to][3] != 77 {
				t.Fatalf("notified of %v", got)
			}
			r.silent(to)
		})
	}
}

// Rule: what an area that is closed has in the ring still has its place there, and until it is read
// the area is not opened again (keyslot.go).
func TestCloseAreaWithUnreadNotifications(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, net: near})
	r.opens(1, theKey, 0, 64)
	opens := func(area uint16, credit int, want arctic.Reason) {
		t.Helper()
		r.block(1, funi.Request, func(s *funi.Slot) { s.SetOpenArea(area, theKey, credit, false, 1) })
		if want == arctic.ReasonNone {
			r.retired(1)
			return
		}
		r.comesBack(time.Second, r.proc[1], funi.Returned{Reason: want,
			Header: 1<<30 | funi.NewHeader(0, uint16(funi.OpenArea), 0), Word: 1})
	}
	opens(0, 4, arctic.ReasonNone)
	for range 2 {
		r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true})
	}
	r.pass(time.Millisecond)
	r.block(1, funi.Request, func(s *funi.Slot) { s.SetCloseArea(0, 0) })
	r.retired(1)
	opens(0, 1, arctic.ReasonNotOpened)
	opens(1, 7, arctic.ReasonNotOpened) // two of eight are taken
	opens(1, 6, arctic.ReasonNone)
	for range 6 {
		r.put(0, 1, funi.Request, funi.Put{Key: theKey, Area: 1, Counted: true})
	}
	r.pass(time.Millisecond)
	for range 8 {
		r.notified(1)
	}
	// nothing has come since that would have made the card look at what is read
	opens(0, 2, arctic.ReasonNone)
	r.ends()
}

// Rule: a reset makes the counter 0 again and forgets early metadata: what a dead member left half
// counted does not spoil the next message.
func TestResetArea(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, net: near})
	r.opens(1, theKey, 0, 64, 0)
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true, Count: 77, Metadata: []uint32{1, 2}})
	r.pass(time.Millisecond)
	r.block(1, funi.Request, func(s *funi.Slot) { s.SetResetArea(0, 0) })
	r.retired(1)
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true})
	if n := r.notified(1); n.Words != 0 {
		t.Fatalf("notified of %+v", n)
	}
	r.ends()
}

// Rule: shares that are positive, larger than the packets that a member sends, and sum up to 2^32
// make one notification when all members' packets are there, and none before, whatever their order
// (2.5, group receive).
func TestGroupReceive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const members = 4
		r := newRemoteBed(t, setup{cards: members, net: wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"),
			Delay: 10 * time.Microsecond, Faults: wire.Networks["all"]},
			tune: remoteCards[rapid.SampledFrom([]string{"blocks", "packets", "timed", "units", "stepped"}).Draw(rt,
				"card")]})
		r.opens(0, theKey, 0, keyedSize, 0)
		want := bytes.Clone(r.keyed[0])
		left := uint64(1) << 32
		for i := range members {
			size := rapid.IntRange(0, 4000).Draw(rt, "bytes")
			share := left
			if i < members-1 {
				share = rapid.Uint64Range(100, left/2).Draw(rt, "share")
			}
			left -= share
			copy(want[i*8000:], r.source[i][:size])
			r.put(i, 0, funi.Request, funi.Put{Key: theKey, Offset: uint32(i * 8000), Counted: true,
				Count: uint32(share), Source: sources, Length: size})
		}
		r.notified(0)
		if !bytes.Equal(want, r.keyed[0]) {
			rt.Fatal("notified before all was there")
		}
		r.silent(0)
		r.ends()
	})
}

// Rule: a context that is switched out takes nothing, and everything when it is back; what its card
// was sending for it arrives, though its process changes the source meanwhile. DRAIN and RESET:
// nothing is written; after RESET nothing is open.
func TestRemoteMemoryAndTheContextSwitch(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, net: near, tune: quick})
	r.opens(1, theKey, 0, keyedSize, 0)
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true})
	r.notified(1)
	s := r.switchOut(1)
	before := bytes.Clone(r.keyed[1])
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true, Source: sources, Length: 5000})
	if r.pass(50 * time.Millisecond); !bytes.Equal(before, r.keyed[1]) {
		t.Fatal("written to a context that is away")
	}
	r.switchIn(1, s)
	if r.notified(1); !bytes.Equal(r.keyed[1][:5000], r.source[0][:5000]) {
		t.Fatal("not all is there")
	}
	// The sender is switched out in the middle.
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Offset: 8000, Counted: true, Source: sources, Length: 20000})
	r.step(r.now + 1)
	want := bytes.Clone(r.source[0][:20000])
	s, err := r.cards[0].SwitchOut(r.ctx[0], true)
	for ; err != nil; s, err = r.cards[0].SwitchOut(r.ctx[0], true) {
		r.step(r.now + 1)
	}
	clear(r.source[0])
	r.pass(10 * time.Millisecond)
	copy(r.source[0], want)
	r.switchIn(0, s)
	if r.notified(1); !bytes.Equal(r.keyed[1][8000:28000], want) {
		t.Fatal("not all is there")
	}
	// DRAIN.
	store := func(v uint32) {
		if err := r.ctx[1].Store(funi.Control, v); err != nil {
			t.Fatal(err)
		}
	}
	store(funi.DRAIN)
	before = bytes.Clone(r.keyed[1])
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true, Source: sources + 7, Length: 64})
	if r.pass(50 * time.Millisecond); !bytes.Equal(before, r.keyed[1]) {
		t.Fatal("written in DRAIN mode")
	}
	store(0)
	r.notified(1)
	store(funi.RESET)
	store(0)
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true, Source: sources + 9, Length: 64})
	before = bytes.Clone(r.keyed[1])
	r.pass(time.Second)
	if back, ok := r.proc[0].NextReturn(); !ok || !back.Reason.Permanent() || !bytes.Equal(before, r.keyed[1]) {
		t.Fatalf("after RESET: %+v %v", back, ok)
	}
}

// Rule: a process that ends, or is reset, with writes under way harms nobody: the card forgets
// them, reads its memory no more, and the receiver is notified of nothing that is not whole.
func TestDetachWithPutsUnderWay(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 3, net: near, tune: quick})
	r.opens(1, theKey, 0, keyedSize, 0)
	r.put(2, 1, funi.Request, funi.Put{Key: theKey, Counted: true})
	r.notified(1)
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true, Source: sources, Length: 60000})
	r.pass(15 * time.Microsecond)
	r.cards[0].Detach(r.ctx[0])
	r.cards[0].Step(r.now + 1)
	clear(r.source[0])
	r.silent(1)
	r.block(1, funi.Request, func(s *funi.Slot) { s.SetResetArea(0, 0) })
	r.retired(1)
	r.put(2, 1, funi.Request, funi.Put{Key: theKey, Counted: true})
	r.notified(1)
	for i, c := range r.cards {
		if err := c.Check(); err != nil {
			t.Errorf("card %d: %v", i, err)
		}
	}
}

// Rule: a receiver that was restarted has other keys: what was for its former life is refused or
// comes back as what became of its card.
func TestPutsToARestartedPeer(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, net: near, tune: quick})
	r.opens(1, theKey, 0, keyedSize, 0)
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true})
	r.notified(1)
	r.idle(time.Second)
	r.net.Cut(isolate(1))
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true, Source: sources, Length: 9000, Cookie: 5})
	r.pass(time.Millisecond)
	r.start(1)
	r.registers(1)
	before := bytes.Clone(r.keyed[1])
	r.net.Cut(nil)
	var back funi.Returned
	r.until(time.Second, "it comes back", func() (ok bool) { back, ok = r.proc[0].NextReturn(); return ok })
	if back.Word != 5 || !back.Header.Remote() || back.Reason != arctic.ReasonRestarted && back.Reason !=
		arctic.ReasonKeySlot && back.Reason != arctic.ReasonSilent {
		t.Fatalf("came back as %+v (%v)", back, back.Reason)
	}
	if r.pass(time.Second); !bytes.Equal(before, r.keyed[1]) {
		t.Fatal("the new life's memory was written")
	}
	r.opens(1, otherKey, 0, 64, 0)
	r.put(0, 1, funi.Request, funi.Put{Key: otherKey, Counted: true})
	r.notified(1)
	r.ends()
}

// Rule: who guesses more than 1,000 keys in a second waits for the rest of it, also with the right
// one; others do not.
func TestGuessedKeys(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 3, slots: 64, net: near})
	r.opens(1, theKey, 0, 64, 0, 1)
	guesses := uint32(0)
	r.until(time.Second, "a thousand guesses are refused", func() bool {
		for r.proc[0].Unsent(funi.Request) < 8 && guesses < 1000 {
			guesses++
			r.put(0, 1, funi.Request, funi.Put{Key: theKey ^ uint64(guesses)<<16, Counted: true})
		}
		for back, ok := r.proc[0].NextReturn(); ok; back, ok = r.proc[0].NextReturn() {
			if back.Reason != arctic.ReasonKeySlot {
				t.Fatalf("came back: %v", back.Reason)
			}
		}
		return r.cards[1].Counters().RemoteRefused == 1000
	})
	start := r.now
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true})
	r.put(2, 1, funi.Request, funi.Put{Key: theKey, Area: 1, Counted: true})
	if n := r.notified(1); n.Source != 2 {
		t.Fatalf("notified of %+v", n)
	}
	if n := r.notified(1); n.Source != 0 || r.now-start < int64(500*time.Millisecond) {
		t.Fatalf("notified of %+v after %v", n, time.Duration(r.now-start))
	}
	r.ends()
}

// FuzzRemoteBlocks: whatever a process writes into its slots and its ring's tail, no step panics,
// the books balance, no byte changes outside of what it opened, and the ring is never overrun. The
// script is taken in groups of eight bytes: what, where, value.
func FuzzRemoteBlocks(f *testing.F) {
	var seed []byte
	add := func(op, at byte, v uint32) { seed = binary.LittleEndian.AppendUint32(append(seed, op, at, 0, 0), v) }
	for _, op := range []byte{0, 1, 2, 3, 4, 5, 6, 7, 3, 3, 3, 7} {
		add(op, op, uint32(op)*0x10001)
	}
	f.Add(seed)
	f.Add([]byte("C200000\xe370000000")) // a write of 58 KB, which is set aside
	f.Fuzz(func(t *testing.T, script []byte) {
		r := newRemoteBed(t, setup{cards: 2, net: near, tune: followedIf(len(script)/8%2 == 1),
			remote: funi.RemoteSizes{KeySlots: 4, Areas: 4, Notifications: 4}})
		r.opens(1, theKey, 64, 64, 0)
		before := bytes.Clone(r.keyed[1])
		own := bytes.Clone(r.keyed[0])
		for n := 0; len(script) >= 8 && n < 200; script, n = script[8:], n+1 {
			at, v := script[1], binary.LittleEndian.Uint32(script[4:])
			s := r.proc[0].Reserve(funi.Level(at & 1))
			if s == nil {
				s = new(funi.Slot)
			}
			switch script[0] % 8 {
			case 0:
				s[int(at)%len(s)] = v
				s.SetHeader(1<<30 | funi.Header(v&^(3<<30)))
				r.proc[0].Commit(funi.Level(at & 1))
			case 1:
				s.SetOpenKeySlot(uint64(v), keyedAt+64, uint32(at), v)
				r.proc[0].Commit(funi.Level(at & 1))
			case 2:
				s.SetOpenArea(uint16(at%5), uint64(v), int(v>>30), v&1 != 0, v)
				r.proc[0].Commit(funi.Level(at & 1))
			case 3:
				p := funi.Put{Key: uint64(v), Offset: v % 70, Area: uint16(at % 5), Counted: true,
					Count: uint32(at >> 6), Data: []byte{at}}
				if at&2 != 0 {
					p.Source, p.Length, p.Data = sources+v%1000, int(v>>16), nil
				}
				s.SetPut(uint16(at>>4&1), &p)
				r.proc[0].Commit(funi.Level(at & 1))
			case 4:
				r.mem[0].Page[0x640/4] = v
			case 5:
				s.SetCloseArea(uint16(at%5), v)
				if at&2 != 0 {
					s.SetCloseKeySlot(uint64(v), v)
				}
				r.proc[0].Commit(funi.Level(at & 1))
			case 6:
				r.pass(time.Duration(v % 1000000))
			case 7:
				r.step(r.now + 1)
			}
			if err := r.cards[0].Check(); err != nil {
				t.Fatal(err)
			}
		}
		r.pass(10 * time.Millisecond)
		if !bytes.Equal(before, r.keyed[1]) {
			t.Fatal("memory was written without its key")
		}
		copy(own[64:], r.keyed[0][64:64+255])
		if !bytes.Equal(own, r.keyed[0]) {
			t.Fatal("memory that no key slot covers was written")
		}
		r.put(1, 1, funi.Request, funi.Put{Key: theKey, Counted: true})
		r.notified(1)
	})
}

// Rule: what a card may come to hold for remote memory is counted (RemoteBytes): tables of every
// size and all chains, with every operation under way, take no more.
func TestRemoteBytes(t *testing.T) {
	if n := engine.RemoteBytes(funi.RemoteSizes{}); n != 0 {
		t.Errorf("nothing takes %d bytes", n)
	}
	small := funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: 1}
	for _, c := range []struct {
		with funi.RemoteSizes
		more int64 // than small
	}{{funi.RemoteSizes{KeySlots: 65536, Areas: 1, Notifications: 1}, 65535 * 72},
		{funi.RemoteSizes{KeySlots: 1, Areas: 1024, Notifications: 1}, 1023 * 20},
		{funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: 1024}, 1023 * 200},
		{funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: 1 << 20}, (1<<20 - 1) * 4}} {
		if got := engine.RemoteBytes(c.with) - engine.RemoteBytes(small); got < c.more || got > c.more+c.more/4+1<<18 {
			t.Errorf("%+v takes %d bytes more than %+v, want some %d", c.with, got, small, c.more)
		}
	}
	sizes := funi.RemoteSizes{KeySlots: 16, Areas: 16, Notifications: 1024}
	r := newRemoteBed(t, setup{cards: 2, remote: sizes, net: near})
	for node := range 2 {
		// lines for answers
		r.exposes(node, funi.Window{Key: theKey, Bytes: 64, Address: windowAt, Rights: allRights})
	}
	for number := range uint16(funi.MaxChains) {
		r.sets(0, funi.Chain{Number: number, First: true})
	}
	r.completes(0, 1, operation(arctic.RemoteAdd, windowAt, 1)) // records
	for range sizes.KeySlots {
		r.openEnd(0, 1, 0)
	}
	if held, counted := r.ctx[0].RemoteHeld(), engine.RemoteBytes(sizes); held > counted || held < counted*85/100 {
		t.Errorf("the card holds %d bytes, and %d are counted", held, counted)
	}
	r.ends()
}
