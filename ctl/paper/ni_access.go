package paper

// This file runs the accesses of Froening's interface in virtual time: triggers, register reads,
// hops, and packets of ULTRA. Each is a chain of events, one for the end of each part; times are
// taken at the events. A part that carries one thing at a time makes the others wait.

import (
	"context"
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/machine"
	"github.com/funet/funet/uspace/scoreboard"
	"github.com/funet/funet/uspace/sim"
	"github.com/funet/funet/uspace/timing"
)

// part carries one thing at a time: a bus, or a unit.
type part struct{ free int64 }

// carry calls done when the part has carried something for a time, after what it was given before.
// It returns when it begins.
func (p *part) carry(w *sim.World, takes time.Duration, done func()) (begins int64) {
	begins = max(w.Now(), p.free)
	p.free = begins + int64(takes)
	w.At(p.free, done)
	return begins
}

// settle has all events happen, unless the command ends.
func settle(ctx context.Context, w *sim.World) error {
	for w.Step() {
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// triggers has threads, each with a trigger page of its own, issue requests one by one. A trigger
// is a load: it takes the I/O interface until its answer is back (3.4.4). The device puts the
// thread's context into the conditional store buffer, from which the requesters take it. A thread
// whose trigger finds the buffer full asks again a slot later. It returns the mean time of a
// trigger.
func triggers(ctx context.Context, p *hwprofiles.Profile, threads, each int) (ns float64, err error) {
	g, err := newRequesters(p)
	if err != nil {
		return 0, err
	}
	var bus part
	w, took, works := sim.NewWorld(sim.Options{}), int64(0), false
	var slot func()
	slot = func() { // while there is work
		g.Slot(func(scoreboard.Request) bool { return true })
		if works = g.Queued()+g.Busy() > 0; works {
			w.At(w.Now()+slotTime(p), slot)
		}
	}
	for thread := range threads {
		n, asked := 0, w.Now()
		var ask func()
		ask = func() {
			bus.carry(w, p.IO.RegisterRead+p.IO.TriggerDevice, func() {
				r := scoreboard.Request{Key: scoreboard.Key{Context: uint16(thread)}, Serial: uint32(n)}
				if !g.Offer(r) { // the answer is "full"
					w.At(w.Now()+slotTime(p), ask)
					return
				}
				if !works {
					works = true
					w.At(w.Now(), slot)
				}
				took += w.Now() - asked
				if n++; n < each {
					asked = w.Now()
					ask()
				}
			})
		}
		w.At(w.Now(), ask)
	}
	if err := settle(ctx, w); err != nil {
		return 0, err
	}
	return float64(took) / float64(threads*each), nil
}

// newRequesters makes the requesters of a card, with the profile's policy: multi-issue with wait
// queues, which 3.2.6 favours.
func newRequesters(p *hwprofiles.Profile) (*scoreboard.Group, error) {
	u := &p.Units
	return scoreboard.New(scoreboard.Config{Units: u.Requesters, Stages: u.Stages, Queue: storeSize(p),
		Policy: scoreboard.MultiWait(u.IssueWidth, u.WaitQueue)})
}

// registerRead returns the time of a load from a register of the device.
func registerRead(p *hwprofiles.Profile) float64 {
	w, done := sim.NewWorld(sim.Options{}), int64(0)
	began := new(part).carry(w, p.IO.RegisterRead, func() { done = w.Now() })
	for w.Step() {
	}
	return float64(done - began)
}

// hop returns the time of a hop, of a packet that makes some. Each card's router interprets the
// route and passes the packet on (1.4.2). A hop takes no whole number of nanoseconds.
func hop(p *hwprofiles.Profile) float64 {
	const hops = 1000
	w, at := sim.NewWorld(sim.Options{}), 0
	began := w.Now()
	var pass func()
	pass = func() {
		if at++; at < hops {
			w.At(began+int64(hopTime(p, at+1)), pass)
		}
	}
	w.At(began+int64(hopTime(p, 1)), pass)
	for w.Step() {
	}
	return float64(w.Now()-began) / hops
}

// ultraTimes are the times of a packet that is alone, and the time between two of many.
type ultraTimes struct{ inject, units, store, total, interval float64 }

// ultraPath is a path of ULTRA in virtual time (3.5.4, 3.5.5): the origin's I/O interface, the
// units of both ends, and the target's I/O interface.
type ultraPath struct {
	w                                 *sim.World
	takes                             timing.Ultra
	origin, request, complete, target part
	inject, units, store              int64   // of the last packet
	slices                            []int64 // when the status word of each slice was stored
}

// send has a process write a packet into its requester port.
func (u *ultraPath) send() {
	w := u.w
	var begins int64
	begins = u.origin.carry(w, u.takes.Inject, func() {
		committed := w.Now() // the control word is there
		u.inject = committed - begins
		u.request.carry(w, u.takes.Requester, func() {
			sent := w.Now()
			w.At(sent+int64(u.takes.Path), func() {
				arrived := w.Now()
				u.complete.carry(w, u.takes.Completer, func() {
					checked := w.Now() // the port accepts its origin
					u.target.carry(w, u.takes.Store, func() {
						u.slices = append(u.slices, w.Now())
						u.units, u.store = sent-committed+checked-arrived, w.Now()-checked
					})
				})
			})
		})
	})
}

// ultra sends a packet, and then many without a pause.
func ultra(p *hwprofiles.Profile) (t ultraTimes, err error) {
	const many = 64
	u := ultraPath{w: sim.NewWorld(sim.Options{})}
	if u.takes, err = machine.Ultra(p); err != nil {
		return t, err
	}
	run := func(packets int) (began int64) {
		u.slices = nil
		began = u.w.Now()
		for range packets {
			u.send()
		}
		for u.w.Step() {
		}
		return began
	}
	began := run(1)
	t = ultraTimes{inject: float64(u.inject), units: float64(u.units), store: float64(u.store),
		total: float64(u.slices[0] - began)}
	run(many)
	t.interval = float64(u.slices[many-1]-u.slices[0]) / (many - 1)
	return t, nil
}
