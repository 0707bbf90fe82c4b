package sim

// This file is the deadlock of thesis 2.10: with the second priority level switched off
// the scenario of the text deadlocks, with it on it completes.

import (
	"encoding/binary"
	"testing"

	"github.com/funet/funet/uspace/topology"
)

// interfaceUnit is the Router Interface Module of thesis 5.6 with a program behind it that sends as
// fast as it can. It answers every data packet with an acknowledgment, and takes no other data
// packet before that is under way. Acknowledgments are always taken.
type interfaceUnit struct {
	port     *ArcticPort
	to       []int // members that it sends to, in turn
	left     int   // data packets to send
	lines    int   // free lines of the undelivered packet cache
	owed     int   // member that the pending acknowledgment is for, or -1
	sent     int
	answered int
}

const (
	dataBytes = 24 * 4
	ackBytes  = 3 * 4
)

func (u *interfaceUnit) send(to, bytes int, ack bool) {
	a := u.port.net
	i := a.pool.take(bytes)
	f := &a.pool.frames[i]
	f.n = bytes
	binary.LittleEndian.PutUint32(f.data, uint32(u.port.number))
	f.data[4] = 0
	if ack {
		f.data[4] = 1
	}
	a.inject(u.port, i, to, 1, ack)
}

// run does what can be done.
func (u *interfaceUnit) run() {
	a := u.port.net
	for l := range u.port.in {
		q := &u.port.in[l]
		for n := q.n; n > 0; n-- { // every packet once; what stays goes back in its place
			i := q.at(0)
			q.drop(1)
			f := &a.pool.frames[i]
			switch {
			case f.data[4] == 1:
				u.answered++
				u.lines++
				a.release(i)
			case u.owed < 0:
				u.owed = int(binary.LittleEndian.Uint32(f.data))
				a.release(i)
			default:
				q.push(i)
			}
		}
	}
	// The Transmit Scheduler looks at the count of free buffers (5.6.3): it starts
	// nothing that would have to wait.
	up := &u.port.up
	if up.waiting[0].first|up.waiting[1].first != 0 || up.busy > a.world.now {
		return
	}
	reserved := int32(1)
	if a.cfg.OneLevel {
		reserved = 0
	}
	switch {
	case u.owed >= 0 && up.free > 0:
		u.send(u.owed, ackBytes, true)
		u.owed = -1
		u.run() // the next data packet may be taken
	case u.left > 0 && u.lines > 0 && up.free > reserved:
		u.send(u.to[u.sent%len(u.to)], dataBytes, false)
		u.sent++
		u.left--
		u.lines--
	}
}

// scenario210 runs the text's scenario on eight nodes until nothing can happen any more.
// It returns how many packets were sent and answered by then, and whether both A and B
// hold an acknowledgment that cannot leave.
func scenario210(t *testing.T, one bool) (sent, answered int, jammed bool, w *World) {
	t.Helper()
	const (
		packets = 2000
		lines   = 16 // of the conference paper; more than the buffers between A and B
	)
	top, err := topology.Hypercube(4, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	w = NewWorld(Options{})
	a, err := w.NewArctic(top, ArcticConfig{OneLevel: one})
	if err != nil {
		t.Fatal(err)
	}
	const nodeA, nodeB, third = 0, 2, 7
	var units []*interfaceUnit
	for i := range top.Terminals() {
		u := &interfaceUnit{port: a.Port(i), left: packets, lines: lines, owed: -1}
		switch i {
		case nodeA:
			u.to = []int{nodeB}
		case nodeB:
			u.to = []int{third}
		case third: // irrelevant, says the text
			u.to, u.left = []int{nodeA}, 0
		default:
			u.to = []int{nodeA} // "suddenly all other nodes begin to send to node A"
		}
		u.port.wake = u.run
		units = append(units, u)
		begin := int64(1)
		if i != nodeA && i != nodeB {
			begin = 20_000
		}
		w.At(begin, u.run)
	}
	// A unit also looks when a buffer at the far end of its link becomes free.
	for w.Step() {
		for _, u := range units {
			if w.now >= 20_000 || u.to[0] != nodeA {
				u.run()
			}
		}
	}
	for _, u := range units {
		sent += u.sent
		answered += u.answered
	}
	if total := packets * (len(units) - 1); sent == total && answered == total {
		if n := a.UnderWay(); n != 0 {
			t.Errorf("%d packets are left in the network", n)
		}
	}
	jammed = units[nodeA].owed >= 0 && units[nodeB].owed >= 0
	return sent, answered, jammed, w
}

func TestDeadlockOfSection210(t *testing.T) {
	sent, answered, jammed, w := scenario210(t, true)
	if answered == sent || !jammed {
		t.Errorf("with one level: %d packets sent and %d answered when nothing could happen any more, at %d ns, A and B jammed: %v; the text's scenario deadlocks", sent, answered, w.Now(), jammed)
	}
	sent, answered, jammed, w = scenario210(t, false)
	if answered != sent || sent != 7*2000 || jammed {
		t.Errorf("with two levels: %d packets sent and %d answered at %d ns, A and B jammed: %v; want all 14000", sent,
			answered, w.Now(), jammed)
	}
}
