package afxdp

// This file tests sending on several queues.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/xdp"
)

// form is a way in which frames travel.
type form struct {
	name string
	lab  lab.Options
	port Config
	udp  bool
}

// forms are all of them, on interfaces of several queues. Native mode brings a frame to the queue
// of the number that it left on.
func forms(queues int) []form {
	o := lab.Options{Queues: queues}
	jumbo := lab.Options{Queues: queues, MTU: 9000}
	native := Config{Attach: xdp.AttachNative}
	return []form{
		{"Ethernet", o, native, false},
		{"Ethernet, jumbo", jumbo, Config{Attach: xdp.AttachNative, Jumbo: true}, false},
		{"UDP", o, native, true},
		{"UDP, jumbo", jumbo, Config{Attach: xdp.AttachNative, Jumbo: true}, true},
		{"UDP over IPv6", lab.Options{Queues: queues, Topology: lab.Router, IPv6: true}, native, true},
	}
}

// open opens a port on both hosts.
func (f form) open(t *testing.T) (a, b *Port) {
	t.Helper()
	l := newLab(t, f.lab)
	both := [2]*Port{}
	for host := range both {
		c := f.port
		if f.udp {
			c.UDP = datagrams(l, host)
		}
		both[host] = open(t, l, host, c)
	}
	return both[0], both[1]
}

// only has a port send on one queue.
func (p *Port) only(queue int) { p.sends = p.queues[queue : queue+1] }

// Rule: with all frames on another queue than the first every frame of every size arrives whole,
// unchanged and in order, in both directions, and is received on that queue.
func TestAnotherQueue(t *testing.T) {
	for _, f := range forms(3) {
		t.Run(f.name, func(t *testing.T) {
			a, b := f.open(t)
			a.only(2)
			b.only(1)
			exchange(t, a, b, mixture(a, 300), 20)
			exchange(t, b, a, mixture(b, 300), 20)
			if f.lab.Topology == lab.Router {
				return // which chooses the queue that it sends on
			}
			for _, c := range []struct {
				p        *Port
				receives int
				sends    int
			}{{a, 1, 2}, {b, 2, 1}} {
				for _, s := range c.p.Queues() {
					if (s.Received > 0) != (s.Queue == c.receives) || (s.Sent > 0) != (s.Queue == c.sends) {
						t.Errorf("%+v; want frames on %d and out on %d alone", s, c.receives, c.sends)
					}
				}
			}
		})
	}
}

// flowFrame writes frame n of a flow between two cards, which may be any, at a level.
func flowFrame(f []byte, to, from *Port, n uint32, cards uint32, level byte) {
	compose(f, to, from, n)
	f[flagsOffset] = level
	binary.LittleEndian.PutUint32(f[cardsOffset:], cards)
}

// Rule: frames of one series of sequence numbers keep their order however many queues there are. A
// series belongs to two cards and a level. The series are spread over all queues, evenly for the
// peers of a card and for the cards that send to one. Nothing is lost, also when more is sent than
// the pool holds.
func TestFlowsOverQueues(t *testing.T) {
	const queues = 4
	a, b := pair(t, lab.Options{Queues: queues}, Config{Attach: xdp.AttachNative})
	const flows = 32
	r := rand.New(rand.NewPCG(3, 4))
	var sent, got [flows]uint32
	lent := make([][]byte, maxLent)
	arrived := 0
	take := func() {
		for b.Ready() {
			for _, f := range lent[:b.Receive(lent)] {
				flow := binary.LittleEndian.Uint32(f[cardsOffset:])*2 + uint32(f[flagsOffset])
				if n := binary.LittleEndian.Uint32(f[20:]); n != got[flow] {
					t.Fatalf("flow %d: frame %d, want %d", flow, n, got[flow])
				}
				got[flow]++
				arrived++
			}
			b.Release()
		}
	}
	const frames = 20000
	deadline := time.Now().Add(patience)
	for n := 0; n < frames; {
		for range 1 + r.IntN(60) {
			f := a.Reserve()
			if f == nil {
				break
			}
			flow := r.IntN(flows)
			flowFrame(f[:100], b, a, sent[flow], uint32(flow/2), byte(flow%2))
			a.Commit(100)
			sent[flow]++
			n++
		}
		a.Flush()
		take()
		if time.Now().After(deadline) {
			t.Fatalf("%d frames sent, %d arrived", n, arrived)
		}
	}
	total := 0
	for _, n := range sent {
		total += int(n)
	}
	for ; arrived < total; take() {
		if a.Flush(); time.Now().After(deadline) {
			s, _ := b.Statistics()
			t.Fatalf("%d of %d frames arrived: %+v", arrived, total, s)
		}
	}
	for _, s := range a.Queues() {
		if s.Sent < frames/queues/2 {
			t.Errorf("%+v of %d frames", s, total)
		}
	}
	for _, s := range b.Queues() {
		if s.Received < frames/queues/2 {
			t.Errorf("%+v of %d frames", s, total)
		}
	}
	// Evenly: n peers of a card have n flows on each of n queues' multiples.
	for _, from := range []bool{true, false} {
		var on [queues]int
		for peer := range uint32(2 * queues) {
			for level := range byte(2) {
				cards := 7 | peer<<16
				if !from {
					cards = peer | 7<<16
				}
				f := make([]byte, 100)
				flowFrame(f, b, a, 0, cards, level)
				on[a.queueOf(f).number]++
			}
		}
		for q, n := range on {
			if n != 4 {
				t.Errorf("peers as receivers %v: %d flows on queue %d, want 4", from, n, q)
			}
		}
	}
}

// Rule: Reserve gives all memory of the port whatever the queues, and a queue whose frames do not
// leave (here the kernel is never told of them) loses none: nil until they do, then all arrive.
func TestOnePoolForAllQueues(t *testing.T) {
	for _, f := range forms(3)[:4] {
		t.Run(f.name, func(t *testing.T) {
			a, b := f.open(t)
			for round := range 4 {
				a.only(round % 3) // all the pool on one ring, time and again
				n := 0
				for buffer := a.Reserve(); buffer != nil; buffer = a.Reserve() {
					compose(buffer[:halves(a, n)], b, a, uint32(n))
					a.Commit(halves(a, n))
					n++
				}
				if want := int(a.sizes.txFrames / a.sizes.txParts); n != want {
					t.Fatalf("%d frames were reserved, want %d", n, want)
				}
				for range 3 {
					if a.Reserve() != nil {
						t.Fatal("more than the pool")
					}
				}
				a.Flush()
				for i, f := range receive(t, b, n, maxLent) {
					if len(f) != halves(a, i) || binary.LittleEndian.Uint32(f[20:]) != uint32(i) {
						t.Fatalf("frame %d of %d bytes", i, len(f))
					}
				}
				settled(t, a)
			}
			if len(a.busy) != 0 {
				t.Errorf("%d queues with frames under way", len(a.busy))
			}
		})
	}
}

// Rule: a frame sent on a queue of the caller's choice arrives on that queue, and the reserved
// frame stays as it was. The sending queue is proven when Answered says that a peer got the frame,
// and not before. The receiving queue is proven when the frame came.
func TestSendOn(t *testing.T) {
	for _, f := range forms(3)[:4] {
		t.Run(f.name, func(t *testing.T) {
			a, b := f.open(t)
			held := a.Reserve()
			compose(held[:200], b, a, 77)
			if s := a.Queues(); len(s) != 3 || s[1] != (QueueState{Queue: 1, Receives: Untried, Sends: Untried}) {
				t.Fatalf("%+v", s)
			}
			frame := make([]byte, a.FrameSize())
			lent := make([][]byte, maxLent)
			for q := range 3 {
				compose(frame, b, a, uint32(q))
				if !a.SendOn(q, frame) {
					t.Fatalf("queue %d does not send", q)
				}
				n := 0
				for deadline := time.Now().Add(patience); n == 0; n = b.Receive(lent) {
					if time.Now().After(deadline) {
						t.Fatalf("nothing came on queue %d", q)
					}
				}
				if n != 1 || !bytes.Equal(lent[0], frame) || b.LentBy() != q {
					t.Errorf("%d frames, on queue %d, want the one on %d", n, b.LentBy(), q)
				}
				b.Release()
				if b.LentBy() != -1 {
					t.Errorf("frames of queue %d are lent after Release", b.LentBy())
				}
				if s := a.Queues()[q]; s.Sends != Unanswered || s.Receives != Untried {
					t.Errorf("before an answer: %+v", s)
				}
				a.Answered(q)
				if s := a.Queues()[q]; s.Sends != Proven {
					t.Errorf("after an answer: %+v", s)
				}
				if s := b.Queues()[q]; s.Receives != Proven || s.Sends != Untried {
					t.Errorf("at the other end: %+v", s)
				}
			}
			for _, q := range []int{-1, 3} {
				if a.Answered(q); a.SendOn(q, frame) {
					t.Errorf("sent on queue %d", q)
				}
			}
			if a.SendOn(0, append(frame, 0)) {
				t.Error("sent a frame that is too long")
			}
			if again := a.Reserve(); &again[0] != &held[0] {
				t.Error("what was reserved is not any more")
			}
			a.Commit(200)
			a.Flush()
			compose(frame[:200], b, a, 77)
			if got := receive(t, b, 1, 1)[0]; !bytes.Equal(got, frame[:200]) {
				t.Error("what was reserved has changed")
			}
			// Without memory it sends nothing and loses none of it.
			settled(t, a)
			for buffer := a.Reserve(); buffer != nil; buffer = a.Reserve() {
				compose(buffer[:bpf.FrameMin], b, a, 0)
				a.Commit(bpf.FrameMin)
			}
			if a.SendOn(1, frame[:bpf.FrameMin]) {
				t.Error("sent without memory")
			}
			settled(t, a)
		})
	}
}

// BenchmarkSend is a frame of 100 bytes out and in, one at a time.
func BenchmarkSend(b *testing.B) {
	for _, queues := range []int{1, 2} {
		b.Run(fmt.Sprint(queues), func(b *testing.B) { benchmarkSend(b, queues) })
	}
}

func benchmarkSend(b *testing.B, queues int) {
	l, err := lab.Up(lab.Options{Hosts: 2, Queues: queues})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	var both [2]*Port
	for i := range both {
		if both[i], err = tryOpen(l, i, Config{Attach: xdp.AttachNative}); err != nil {
			b.Fatal(err)
		}
		defer both[i].Close()
	}
	lent := make([][]byte, maxLent)
	for b.Loop() {
		f := both[0].Reserve()
		compose(f[:100], both[1], both[0], 1)
		both[0].Commit(100)
		both[0].Flush()
		for both[1].Receive(lent) == 0 {
		}
		both[1].Release()
	}
}

// Rule: with Config.Queue all frames leave on that queue, and nothing is lost. The port says that a
// driver cannot steer to the queue, as veth's cannot, with the driver's answer. A queue that does
// not exist is refused with the queues that do.
func TestOneQueueOfSeveral(t *testing.T) {
	long.Test(t)
	for _, f := range forms(3) {
		t.Run(f.name, func(t *testing.T) {
			two := 2
			f.port.Queue = &two
			a, b := f.open(t)
			exchange(t, a, b, mixture(a, 100), 20)
			exchange(t, b, a, mixture(b, 100), 20)
			for _, p := range []*Port{a, b} {
				for _, s := range p.Queues() {
					if (s.Sent > 0) != (s.Queue == 2) || f.lab.Topology != lab.Router && (s.Received > 0) !=
						(s.Queue == 2) {
						t.Errorf("%+v; want frames on queue 2 alone", s)
					}
				}
				flow := "EtherType 0x88b5"
				if f.udp {
					flow = fmt.Sprintf("UDP port %d over IPv", encap.DefaultPort)
				}
				if why := p.Info().Why; !strings.Contains(why,
					"frames leave on queue 2 and arrive on any: steer "+flow) ||
					!strings.Contains(why, "operation not supported") {
					t.Errorf("why: %q", why)
				}
			}
		})
	}
	// Whoever asks on queues is offered that one alone.
	two := 2
	a, b := pair(t, lab.Options{Queues: 3}, Config{Attach: xdp.AttachNative, Queue: &two})
	frame := make([]byte, 200)
	compose(frame, b, a, 0)
	if a.QueueCount() != 1 || a.SendOn(2, frame) || a.TakeIn(1) || a.LeaveOut(2) || !a.SendOn(0, frame) {
		t.Error("another queue was offered")
	}
	receive(t, b, 1, 1)
	a.Answered(0)
	if s := a.Queues(); s[2].Sends != Proven || s[0].Sends != Untried || s[1].Sends != Untried {
		t.Errorf("%+v", s)
	}
	for _, n := range []int{-1, 3} {
		if _, err := tryOpen(newLab(t, lab.Options{Queues: 3}), 0, Config{Queue: &n}); !errors.Is(err,
			xdp.ErrQueueRange) || !strings.Contains(err.Error(), "it has queues 0 to 2") {
			t.Errorf("queue %d: %v", n, err)
		}
	}
}

// Rule: in generic mode veth brings frames to other queues than they left on; all the same every
// one arrives, and Info says so.
func TestQueuesOfGenericVeth(t *testing.T) {
	a, b := pair(t, lab.Options{Queues: 3}, Config{Attach: xdp.AttachGeneric})
	for q := range 3 {
		a.only(q)
		exchange(t, a, b, mixture(a, 60), 20)
	}
	if why := a.Info().Why; !strings.Contains(why, "to queue 1, and so on, and nothing to the last") {
		t.Errorf("why: %q", why)
	}
	if s := b.Queues(); s[0].Receives != Proven || s[1].Receives != Proven || s[2].Receives != Untried {
		t.Errorf("%+v", s)
	}
}
