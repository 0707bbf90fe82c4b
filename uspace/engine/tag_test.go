package engine_test

// This file holds the rules of the tag of a job: of a job that has the same GID as
// another, the other gets nothing (arctic.Header.Tag; design idea 10).

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// otherTag is the tag of another job with the GID gid.
const otherTag = jobTag + 1

// joinOther attaches a process of the other job, and returns its memory at area.
func (b *bed) joinOther(card int, node uint16) (*funi.Interface, *engine.Context, []byte) {
	b.t.Helper()
	b.tag = otherTag
	defer func() { b.tag = jobTag }()
	p, x := b.join(card, gid, node)
	memory := make([]byte, areaSize)
	if err := x.Register(funi.Segment{Base: area, Memory: memory, Rights: funi.Source | funi.Destination}); err != nil {
		b.t.Fatal(err)
	}
	return p, x, memory
}

// refusedFor sends something that returns with the word 77, and waits until it has
// come back, once, for the reason that the node is another job's.
func (b *bed) refusedFor(t *testing.T, what string, p *funi.Interface, send func(*funi.Interface, funi.Level, int) bool,
	l funi.Level) {
	t.Helper()
	before := b.foreign()
	if !send(p, l, 9) {
		t.Fatalf("%s: no room", what)
	}
	var r funi.Returned
	b.until(time.Second, what+" comes back", func() (ok bool) { r, ok = p.NextReturn(); return ok })
	if r.Reason != arctic.ReasonJob || r.Level != l || r.Word != 77 {
		t.Fatalf("%s came back as %+v (%v)", what, r, r.Reason)
	}
	b.pass(time.Millisecond)
	if r, ok := p.NextReturn(); ok {
		t.Fatalf("%s came back again, as %+v", what, r)
	}
	if b.foreign() == before {
		t.Errorf("%s was not counted", what)
	}
}

// foreign is how many frames of other jobs the cards have counted.
func (b *bed) foreign() (n uint64) {
	for _, c := range b.cards {
		n += c.Counters().ForeignJob
	}
	return n
}

// sendings are all that a process can send to another, each as what comes back.
var sendings = []struct {
	name string
	send func(p *funi.Interface, l funi.Level, to int) bool
}{
	{"a message", func(p *funi.Interface, l funi.Level, to int) bool { return put(p, l, to, 77, 1, 2) }},
	{"memory to queue", func(p *funi.Interface, l funi.Level, to int) bool {
		return request(p, l, to, funi.Transfer{Source: area, Argument: 77, Words: 16})
	}},
	{"one packet", func(p *funi.Interface, l funi.Level, to int) bool {
		return request(p, l, to, funi.Transfer{Source: area, Destination: area, Argument: 77, Words: 16})
	}},
	{"no data", func(p *funi.Interface, l funi.Level, to int) bool {
		return request(p, l, to, funi.Transfer{Destination: area, Argument: 77})
	}},
	{"a long transfer", func(p *funi.Interface, l funi.Level, to int) bool {
		return request(p, l, to, funi.Transfer{Source: area, Destination: area, Argument: 77, Words: 4096})
	}},
}

// Rule: what is sent to a node of another job with the same GID is rejected for good with
// ReasonJob, on the wire and within a card. That holds whatever is sent, and whatever state the
// node's context is in. Nothing of it is delivered: no message, no notice, no byte of memory. What
// that node sends is rejected, too. The traffic of nodes of one job goes on beside it.
func TestOtherJobGetsNothing(t *testing.T) {
	for _, state := range []string{"runs", "CTXM", "DRAIN", "is switched out", "is expected"} {
		for _, blocks := range []bool{false, true} {
			for _, at := range []int{0, 1} {
				for l := range funi.Level(2) {
					t.Run(fmt.Sprintf("node on card %d %s, blocks %v, %v", at, state, blocks, l), func(t *testing.T) {
						b, m := transferBed(t, setup{cards: 2, slots: 16, net: near, tune: func(c *engine.Config) {
							c.Blocks = blocks
						}})
						b.setRoutes(9, at)
						if state == "is expected" {
							b.cards[at].Expect(gid, 9, otherTag, true)
							for _, s := range sendings {
								b.refusedFor(t, s.name, b.proc[0], s.send, l)
							}
							return
						}
						p, x, memory := b.joinOther(at, 9)
						switch state {
						case "CTXM":
							if err := x.Store(funi.Control, funi.CTXM); err != nil {
								t.Fatal(err)
							}
						case "DRAIN":
							x.SetDrain(true)
						case "is switched out":
							if _, err := b.cards[at].SwitchOut(x, false); err != nil {
								t.Fatal(err)
							}
						}
						for _, s := range sendings {
							b.refusedFor(t, s.name, b.proc[0], s.send, l)
						}
						if !bytes.Equal(memory, make([]byte, areaSize)) {
							t.Error("its memory was written")
						}
						if state == "runs" {
							for _, s := range sendings {
								b.refusedFor(t, s.name, p, func(p *funi.Interface, l funi.Level, _ int) bool {
									return s.send(p, l, 0)
								}, l)
							}
							want := make([]byte, areaSize)
							fill(want, 1)
							if !bytes.Equal(m[0].area, want) {
								t.Error("the other way: memory was written")
							}
						}
						for l := range funi.Level(2) {
							if s, ok := take(p, l); ok {
								t.Errorf("it got %#x", s)
							}
						}
						exactlyOnce(b, newTraffic(b, 50, 3))
						b.checked()
					})
				}
			}
		}
	}
}

// Rule: a frame of another job is answered like any other: once, the same each time it comes,
// whichever node of whichever card it names as its source. The acknowledgments in it count, because
// they are the card's (arctic doc.go).
func TestFrameOfOtherJob(t *testing.T) {
	for bit := range 64 {
		var rejects []arctic.Reject
		b := newBed(t, setup{cards: 2, slots: 16, net: near, wrap: watchRejects(0, &rejects)})
		exactlyOnce(b, newTraffic(b, 1, 2))
		card1 := b.cards[1]
		b.cards[1] = nil
		b.mustSend(0, funi.Request, 1, 5)
		b.step(b.now)
		before, unanswered := b.cards[0].Counters(), b.cards[0].Link().Sequence(1, funi.Request)
		frame := forge([]arctic.PacketHeader{{Source: uint16(1 + bit%3)}, {Source: uint16(1 + bit%3)}},
			func(h *arctic.Header) {
				h.Sequence, h.Tag = 1, jobTag^1<<bit
				h.Acks[funi.Request] = unanswered
			})
		for n := range uint64(3) {
			b.inject(frame)
			b.pass(40 * time.Microsecond)
			after := b.cards[0].Counters()
			want := arctic.Reject{Sequence: 1, Level: arctic.Request, Reason: arctic.ReasonJob, Bits: 3}
			if len(rejects) != int(n)+1 || rejects[n] != want {
				t.Fatalf("bit %d: rejects %+v, want %d times %+v", bit, rejects, n+1, want)
			}
			if after.ForeignJob != before.ForeignJob+1 || after.Duplicates != before.Duplicates+n ||
				after.PacketsDelivered != before.PacketsDelivered || after.ForgedSource != 0 {
				t.Fatalf("bit %d, time %d: %s", bit, n, b.counters())
			}
			if !b.ctx[0].Idle() {
				t.Fatalf("bit %d: the acknowledgment did not count", bit)
			}
		}
		if s, ok := take(b.proc[0], funi.Request); ok {
			t.Fatalf("bit %d: delivered %#x", bit, s)
		}
		b.cards[1] = card1
	}
}

// Rule: the tag of a frame is that of the job that its packets are of, and frames without
// packets have none (arctic doc.go).
func TestTagsOnTheWire(t *testing.T) {
	seen := map[uint64]int{}
	b := newBed(t, setup{cards: 2, slots: 16, net: near, wrap: func(_ int, p *wire.Port) port.Port {
		return &tap{Port: p, see: func(frame []byte) bool {
			f, err := arctic.Parse(frame)
			if err != nil {
				t.Error(err)
				return true
			}
			h := f.Header()
			if f.Packets() > 0 != (h.Tag != 0) {
				t.Errorf("%d packets with tag %#x", f.Packets(), h.Tag)
			}
			if f.Packets() > 0 {
				p, _ := arctic.Next(f.Train())
				if want := uint64(jobTag) + uint64(p.Header().Source/8); h.Tag != want {
					t.Errorf("node %d sends with tag %#x, want %#x", p.Header().Source, h.Tag, want)
				}
			}
			seen[h.Tag]++
			return true
		}}
	}})
	b.setRoutes(8, 0)
	b.setRoutes(9, 1)
	p, _, _ := b.joinOther(0, 8)
	q, _, _ := b.joinOther(1, 9)
	tr := newTraffic(b, 300, 3)
	got := uint32(0)
	sent := uint32(0)
	b.until(time.Minute, "both jobs have got everything", func() bool {
		if sent < 300 && put(p, funi.Request, 9, sent) {
			sent++
		}
		for _, ok := take(q, funi.Request); ok; _, ok = take(q, funi.Request) {
			got++
		}
		return tr.pump() && got == 300
	})
	b.cards[0].Leave()
	b.pass(time.Millisecond)
	if seen[0] == 0 || seen[jobTag] == 0 || seen[otherTag] == 0 {
		t.Errorf("frames by tag: %v", seen)
	}
}

// Rule: frames of a job that has ended keep its tag, also when they are sent again. The processes
// that are its nodes now, there and here, get nothing of them and are told nothing. Their own
// traffic is whole (Detach, RESET, SetTag).
func TestFramesOfAnEndedJob(t *testing.T) {
	for _, end := range []string{"detach", "RESET"} {
		for _, what := range sendings {
			for _, blocks := range []bool{false, true} {
				for l := range funi.Level(2) {
					t.Run(fmt.Sprintf("%s with %s, blocks %v, %v", end, what.name, blocks, l), func(t *testing.T) {
						b, m := transferBed(t, setup{cards: 2, slots: 16, net: near, tune: func(c *engine.Config) {
							c.Blocks = blocks
						}})
						exactlyOnce(b, newTraffic(b, 3, 2))
						b.net.Cut(isolate(1))
						if !what.send(b.proc[0], l, 1) {
							t.Fatal("no room")
						}
						b.pass(20 * time.Millisecond)
						fresh := make([]byte, areaSize)
						b.tag = otherTag
						if end == "detach" {
							b.cards[0].Detach(b.ctx[0])
							b.proc[0], b.ctx[0], b.mem[0] = b.attach(0, gid, 0)
						} else {
							for _, v := range []uint32{funi.RESET, 0} {
								if err := b.ctx[0].Store(funi.Control, v); err != nil {
									t.Fatal(err)
								}
								b.step(b.now)
							}
							b.ctx[0].SetTag(otherTag)
							if err := b.ctx[0].Store(funi.GID, gid); err != nil {
								t.Fatal(err)
							}
							if err := b.ctx[0].Store(funi.Control, funi.UserModes); err != nil {
								t.Fatal(err)
							}
							p, err := funi.Start(b.mem[0], 16, func() error { b.step(b.now); return nil })
							if err != nil {
								t.Fatal(err)
							}
							b.proc[0] = p
						}
						b.cards[1].Detach(b.ctx[1])
						b.proc[1], b.ctx[1], b.mem[1] = b.attach(1, gid, 1)
						if err := b.ctx[1].Register(funi.Segment{Base: area, Memory: fresh,
							Rights: funi.Destination}); err != nil {
							t.Fatal(err)
						}
						before := b.foreign()
						b.net.Cut(nil)
						b.until(time.Second, "the frames are answered", func() bool { return b.cards[0].Quiet() })
						if b.foreign() == before {
							t.Error("nothing came that the old job had sent")
						}
						if s, ok := take(b.proc[1], l); ok {
							t.Errorf("the next job got %#x", s)
						}
						if r, ok := b.proc[0].NextReturn(); ok {
							t.Errorf("the next job was told %+v", r)
						}
						if !bytes.Equal(fresh, make([]byte, areaSize)) {
							t.Error("memory of the next job was written")
						}
						exactlyOnce(b, newTraffic(b, 50, 3))
						b.checked()
						_ = m
					})
				}
			}
		}
	}
}

// Rule: a transfer that has come in part when its node's job ends comes back, and no byte
// more is written for the next job (life.go tells lives of one job apart; the tag jobs).
func TestTransferBegunInAnotherJob(t *testing.T) {
	for _, on := range []string{"blocks", "parts"} {
		b, m := transferBed(t, setup{cards: 2, slots: 16, net: near, tune: func(c *engine.Config) {
			quick(c)
			c.Blocks = on == "blocks"
		}})
		halfway(b, m)
		b.cards[1].Detach(b.ctx[1])
		p, _, memory := b.joinOther(1, 1)
		b.comesBack(time.Second, b.proc[0], returnOf(arctic.ReasonJob))
		b.idle(time.Second)
		b.pass(50 * time.Millisecond)
		if s, ok := take(p, funi.Request); ok {
			t.Errorf("%s: the next job got a notice: %+v", on, s.Notice())
		}
		if !bytes.Equal(memory, make([]byte, areaSize)) {
			t.Errorf("%s: memory of the next job was written", on)
		}
		b.checked()
	}
}

// Rule: a context changes its job when GID is stored after SetTag, also with the same GID,
// and only if nothing of the old job is in the card: no packet undelivered, none in the
// receive FIFOs (Store). A new life begins.
func TestStoreOfGIDChangesTheJob(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 2, net: near, tune: quick})
	exactlyOnce(b, newTraffic(b, 3, 2))
	x := b.ctx[1]
	x.SetTag(otherTag)
	b.mustSend(0, funi.Request, 1, 1) // SetTag alone changes nothing
	b.until(time.Second, "it arrives", func() bool { _, ok := take(b.proc[1], funi.Request); return ok })
	if x.Tag() != jobTag {
		t.Fatalf("tag %#x", x.Tag())
	}
	// More than the queue holds: the rest is in the receive FIFO.
	for i := range uint32(4) {
		b.until(time.Second, "room", func() bool { return b.send(0, funi.Request, 1, i) })
	}
	b.pass(10 * time.Millisecond)
	change := func() error {
		if err := x.Store(funi.Control, funi.CTXM); err != nil {
			t.Fatal(err)
		}
		b.pass(time.Millisecond)
		return x.Store(funi.GID, gid)
	}
	if err := change(); !errors.Is(err, engine.ErrCached) || x.Tag() != jobTag {
		t.Fatalf("with packets in the receive FIFO: %v, tag %#x", err, x.Tag())
	}
	if err := x.Store(funi.Control, 0); err != nil {
		t.Fatal(err)
	}
	for got := 0; got < 4; {
		b.until(time.Second, "the rest", func() bool { _, ok := take(b.proc[1], funi.Request); return ok })
		got++
	}
	b.idle(time.Second)
	if err := change(); err != nil || x.Tag() != otherTag || x.Load(funi.GID) != gid {
		t.Fatalf("%v, tag %#x, GID %d", err, x.Tag(), x.Load(funi.GID))
	}
	if err := x.Store(funi.Control, 0); err != nil {
		t.Fatal(err)
	}
	b.mustSend(0, funi.Request, 1, 77)
	b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonJob, Level: funi.Request,
		Header: funi.NewHeader(1, 5, 1), Word: 77})
	b.cards[0].Detach(b.ctx[0])
	b.tag = otherTag
	b.proc[0], b.ctx[0], b.mem[0] = b.attach(0, gid, 0)
	exactlyOnce(b, newTraffic(b, 20, 2))
}

// Rule: the system group is like any other here: what another job sends to it is rejected
// for good and raises no event, while its context runs, is switched out or is expected
// (Config.SystemEvent).
func TestOtherJobRaisesNoSystemEvent(t *testing.T) {
	for _, state := range []string{"runs", "is switched out", "is expected"} {
		events := 0
		b := newBed(t, setup{cards: 2, slots: 16, net: near, group: []uint16{engine.SystemGroup, engine.SystemGroup},
			tune: func(c *engine.Config) {
				quick(c)
				c.SystemEvent = func() { events++ }
			}})
		b.tag = otherTag
		rogue, _ := b.join(0, engine.SystemGroup, 9)
		b.setRoutes(9, 0)
		to := 1
		switch state {
		case "is switched out":
			b.switchOut(1)
		case "is expected":
			b.setRoutes(8, 1)
			b.cards[1].Expect(engine.SystemGroup, 8, jobTag, true)
			to = 8
		}
		put(rogue, funi.Request, to, 5)
		b.comesBack(time.Second, rogue, funi.Returned{Reason: arctic.ReasonJob, Level: funi.Request,
			Header: funi.NewHeader(uint16(to), 5, 1), Word: 5})
		if events != 0 {
			t.Errorf("%s: %d events", state, events)
		}
	}
}

// Rule: whatever the network does and whenever jobs end, what one job sent arrives in no
// other, over frames and within a card, and the last job's messages all arrive.
func TestJobsThatFollowEachOther(t *testing.T) {
	refused := uint64(0)
	rapid.Check(t, func(rt *rapid.T) {
		net := rapid.SampledFrom([]string{"clean", "loss", "duplicate", "reorder", "all"}).Draw(rt, "network")
		at := rapid.IntRange(0, 1).Draw(rt, "card of the receiver")
		b := newBed(t, setup{cards: 2, slots: 16,
			net: wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"), Delay: 10 * time.Microsecond,
				Faults: networks[net]}})
		b.setRoutes(8, 0)
		b.setRoutes(9, at)
		jobs := rapid.IntRange(2, 5).Draw(rt, "jobs")
		var from, to *funi.Interface
		var sender, receiver *engine.Context
		halves := [2]int{} // which job the sender is of, and the receiver
		received := make([]int, jobs)
		const each = 40
		step := func() {
			for s, ok := take(to, funi.Request); ok; s, ok = take(to, funi.Request) {
				if job := int(s.Payload()[0]) / each; job != halves[1] {
					rt.Fatalf("a message of job %d arrived in job %d", job, halves[1])
				}
				received[halves[1]]++
			}
			for r, ok := from.NextReturn(); ok; r, ok = from.NextReturn() {
				if job := int(r.Word) / each; job != halves[0] {
					rt.Fatalf("a message of job %d came back to job %d", job, halves[0])
				}
				if r.Reason == arctic.ReasonJob && halves[0] == halves[1] && halves[0] == jobs-1 &&
					r.Word%each >= each/2 {
					rt.Fatalf("its own job refused message %d of the last job", r.Word)
				}
			}
			b.step(max(b.now+1, min(b.next(), b.now+1000)))
		}
		attach := func(job, card int, node uint16) (*funi.Interface, *engine.Context) {
			b.tag = jobTag + uint64(job)
			return b.join(card, gid, node)
		}
		from, sender = attach(0, 0, 8)
		to, receiver = attach(0, at, 9)
		for job := range jobs {
			if job > 0 { // one half after the other
				ends := []int{0, 1}
				if rapid.Bool().Draw(rt, "the receiver first") {
					ends = []int{1, 0}
				}
				for _, half := range ends {
					for end := b.now + rapid.Int64Range(0, 300_000).Draw(rt, "later"); b.now < end; {
						step()
					}
					if half == 0 {
						b.cards[0].Detach(sender)
						from, sender = attach(job, 0, 8)
					} else {
						b.cards[at].Detach(receiver)
						to, receiver = attach(job, at, 9)
					}
					halves[half] = job
					// The sender may be of this job and the receiver still of the last.
					for i := range each / 4 {
						if halves[0] == job && half == ends[0] {
							put(from, funi.Request, 9, uint32(job*each+i))
						}
					}
				}
			}
			for i := range each / 2 {
				for !put(from, funi.Request, 9, uint32(job*each+each/2+i)) {
					step()
				}
			}
		}
		b.until(time.Minute, "the last job has got its messages", func() bool {
			step()
			return received[jobs-1] >= each/2 && sender.Idle()
		})
		refused += b.foreign()
		b.checked()
	})
	if refused == 0 {
		t.Error("no frame of another job came: the test tells nothing")
	}
}
