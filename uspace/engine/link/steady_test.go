package link_test

// This file holds the last rule: nothing allocates in the steady state.

import (
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/port"
)

// ring is one direction of a wire without delay and loss that allocates nothing.
type ring struct {
	buffers    [512][2048]byte
	length     [512]int
	head, tail int
}

// ringPort is a port on two of them.
type ringPort struct {
	out, in *ring
	lent    int
}

func (p *ringPort) FrameSize() int { return len(p.out.buffers[0]) }

func (p *ringPort) Receive(frames [][]byte) int {
	p.lent = min(p.in.head-p.in.tail, len(frames))
	for i := range p.lent {
		at := (p.in.tail + i) % len(p.in.buffers)
		frames[i] = p.in.buffers[at][:p.in.length[at]]
	}
	return p.lent
}

func (p *ringPort) Release() { p.in.tail += p.lent; p.lent = 0 }

func (p *ringPort) Reserve() []byte {
	if p.out.head-p.out.tail == len(p.out.buffers) {
		return nil
	}
	return p.out.buffers[p.out.head%len(p.out.buffers)][:]
}

func (p *ringPort) Commit(n int) {
	p.out.length[p.out.head%len(p.out.buffers)] = n
	p.out.head++
}

func (p *ringPort) Flush() {}

// couple is two ends that share rings, of which the first sends. A microsecond passes with each
// step.
type couple struct {
	ends      [2]*link.End
	ports     [2]*ringPort
	now       int64
	owner     link.Owner
	lines     []*link.Line // free ones
	received  [64][]byte
	timed     bool
	reject    func(n int) arctic.Reason
	judged    int
	delivered int
	block     [1024]byte
}

func newCouple(tune func(*link.Config)) *couple {
	a, b := new(ring), new(ring)
	c := &couple{ports: [2]*ringPort{{out: a, in: b}, {out: b, in: a}}}
	for i := range c.ends {
		cfg := native()
		cfg.Card, cfg.Incarnation, cfg.Ports, cfg.Peers = uint16(i), uint32(i+1), []port.Port{c.ports[i]},
			[]link.Peer{peerOf(i, 1-i)}
		if tune != nil {
			tune(&cfg)
		}
		c.timed = cfg.Dispatch > 0
		c.ends[i] = link.New(cfg)
		c.ends[i].SetGroup(gid, true, true)
	}
	c.owner = link.Owner{GID: gid, Tag: tag, Account: new(link.Account)}
	for i := range 1024 {
		ln := &link.Line{Index: uint16(i)}
		ln.Owner = &c.owner
		c.lines = append(c.lines, ln)
	}
	return c
}

func (c *couple) step() {
	c.now += int64(time.Microsecond)
	for i, e := range c.ends {
		e.Begin(c.now)
		e.Send()
		p := c.ports[i]
		p.Release()
		n := p.Receive(c.received[:])
		for _, f := range c.received[:n] {
			t := e.Arrive(0, f)
			if t == nil {
				continue
			}
			var v link.Verdict
			packets := t.Packets
			for k := 0; len(packets) > 0; k++ {
				_, packets = arctic.Next(packets)
				c.judged++
				if c.reject != nil {
					v.Note(k, c.reject(c.judged))
				}
			}
			e.Answer(&v, false)
		}
		e.Expire()
		for ln := e.NextSettled(); ln != nil; ln = e.NextSettled() {
			c.delivered++
			ln.Clear()
			c.lines = append(c.lines, ln)
		}
	}
}

// send hands over the given number of lines for some nodes, and steps until all are settled.
func (c *couple) send(n, nodes int, block bool) {
	h := arctic.PacketHeader{Route: 1, GID: gid, Length: 4}
	for want := c.delivered + n; c.delivered < want; c.step() {
		for ; n > 0 && len(c.lines) > 0; n-- {
			ln := c.lines[len(c.lines)-1]
			c.lines = c.lines[:len(c.lines)-1]
			ln.Node = uint16(n % nodes)
			h.Destination, h.Level = ln.Node, arctic.Level(n/nodes%2)
			if ln.Size = arctic.PacketHeaderSize + 16; block {
				h.Kind, h.Length = arctic.KindTransfer, 1
				ln.Size = arctic.PacketHeaderSize + 4
				arctic.PutTransfer(ln.Data[arctic.PacketHeaderSize:],
					&arctic.Transfer{Form: arctic.Block, Address: 1 << 16})
				ln.Block, ln.Part = c.block[:], true
			}
			h.Encode(ln.Data[:])
			c.ends[0].Queue(1, h.Level, ln)
		}
	}
}

// Rule (doc.go): an end allocates nothing in the steady state: messages and blocks, to few nodes
// and many, rejected and tried again, with flows parked and taken up, and on a modelled machine.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	for name, tune := range map[string]func(*link.Config){
		"native": nil, "train 1": single, "timed": func(c *link.Config) { timed(c); c.Lines = 64 }} {
		c := newCouple(tune)
		parked := 0
		rejects := func(n int) arctic.Reason {
			if n%50 == 0 {
				return arctic.ReasonQueueFull
			}
			return arctic.ReasonNone
		}
		round := func() {
			c.send(1, 1, false)
			c.send(300, 1, false)
			c.send(300, 100, false)
			if !c.timed {
				c.send(100, 1, true)
			}
			c.reject = rejects
			c.send(300, 3, false)
			c.reject = nil
			for range 200 { // the last acknowledgments
				c.step()
			}
			parked += c.ends[0].ParkQuiet() + c.ends[1].ParkQuiet()
		}
		for range 5 {
			round()
		}
		if n := testing.AllocsPerRun(30, round); n != 0 {
			t.Errorf("%s: a round allocates %v times", name, n)
		}
		if parked < 30 || c.ends[1].Counters.RejectsSent == 0 {
			t.Errorf("%s: %d flows were parked, %d packets rejected", name, parked, c.ends[1].Counters.RejectsSent)
		}
	}
}
