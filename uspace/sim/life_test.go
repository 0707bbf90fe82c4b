package sim_test

// This file tests what can become of cards and processes.

import (
	"errors"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
)

// pair is two cards; the second can be made anew; the program of its process counts what it gets.
type pair struct {
	t    *testing.T
	w    *sim.World
	net  *sim.Ethernet
	life uint32
	got  int
	back []funi.Returned // what came back to the first
	p    [2]*sim.Process
}

func newPair(t *testing.T) *pair {
	w := sim.NewWorld(sim.Options{})
	k := &pair{t: t, w: w, net: w.NewEthernet(sim.EthernetConfig{})}
	for i := range 2 {
		w.NewCard(k.net.Plug())
		k.start(i)
	}
	t.Cleanup(w.Close)
	return k
}

func (k *pair) start(i int) {
	k.t.Helper()
	k.life++
	cfg := engine.Native()
	cfg.Card, cfg.Incarnation, cfg.Routes = uint16(i), k.life, []uint32{0, 1}
	cfg.Peers = []engine.Peer{{Card: uint16(1 - i), Address: sim.Address(1 - i), Local: sim.Address(i)}}
	c := k.w.Cards()[i]
	if err := c.Start(cfg); err != nil {
		k.t.Fatal(err)
	}
	p, err := c.Run(7, uint16(i), 16, []sim.Program{k.sender, k.receiver}[i])
	if err != nil {
		k.t.Fatal(err)
	}
	k.p[i] = p
}

// sender sends a message every 10 us.
func (k *pair) sender(p *sim.Process) error {
	i := p.Interface()
	for {
		if s := i.Reserve(funi.Request); s != nil {
			s.SetHeader(funi.NewHeader(1, 1, 1))
			i.Commit(funi.Request)
		}
		for r, ok := i.NextReturn(); ok; r, ok = i.NextReturn() {
			k.back = append(k.back, r)
		}
		p.Sleep(10_000)
	}
}

func (k *pair) receiver(p *sim.Process) error {
	for {
		for p.Interface().Receive(funi.Request) != nil {
			p.Interface().Release(funi.Request)
			k.got++
		}
		p.Wait(sim.Never)
	}
}

// gets reports whether messages arrive in the next 10 ms.
func (k *pair) gets() bool {
	before := k.got
	k.w.Run(k.w.Now()+int64(10*time.Millisecond), nil)
	return k.got > before
}

// A card that crashes and returns with another incarnation is found again, and what it
// had not acknowledged comes back with the reason (design idea 4).
func TestCardCrashAndRestart(t *testing.T) {
	k := newPair(t)
	if !k.gets() {
		t.Fatal("nothing arrives")
	}
	k.w.Cards()[1].Crash()
	if ended, err := k.p[1].Ended(); !ended || !errors.Is(err, sim.ErrKilled) {
		t.Errorf("the process of a crashed card: ended %v, error %v", ended, err)
	}
	if k.gets() || k.w.Cards()[1].Engine() != nil {
		t.Fatal("a crashed card receives")
	}
	k.start(1)
	if !k.gets() {
		t.Fatal("nothing arrives after the restart")
	}
	if len(k.back) == 0 || k.back[0].Reason != arctic.ReasonRestarted {
		t.Errorf("came back: %+v; want what was under way, because the card restarted", k.back)
	}
}

// A card that leaves says so.
func TestCardLeaves(t *testing.T) {
	k := newPair(t)
	k.gets()
	k.w.Cards()[1].Leave()
	k.gets()
	if len(k.back) == 0 || k.back[0].Reason != arctic.ReasonDeparted {
		t.Errorf("came back: %+v; want a message to a card that has left", k.back)
	}
}

// A process that was killed gets nothing; its card goes on, and rejects when its queue is full.
func TestProcessCrash(t *testing.T) {
	k := newPair(t)
	k.gets()
	k.p[1].Kill()
	k.p[1].Kill() // once is enough
	if k.gets() {
		t.Error("a dead process receives")
	}
	if n := k.w.Cards()[1].Engine().Counters().RejectsSent; n == 0 {
		t.Error("its card has rejected nothing")
	}
}

// A process that is detached is gone: what is sent to it comes back, and another can take
// its place.
func TestDetach(t *testing.T) {
	k := newPair(t)
	k.gets()
	c, dead := k.w.Cards()[1], k.p[1]
	c.Detach(dead)
	c.Detach(dead) // once is enough
	if k.gets() || len(k.back) == 0 || k.back[0].Reason != arctic.ReasonNoContext {
		t.Errorf("came back: %+v; want messages to nobody", k.back)
	}
	if _, err := c.Run(7, 1, 16, k.receiver); err != nil {
		t.Fatal(err)
	}
	if !k.gets() {
		t.Error("its successor gets nothing")
	}
}

// A process that is switched out gets nothing, loses nothing, and goes on when it is
// switched in; a switch that is not over may be abandoned (thesis 4.2).
func TestSwitch(t *testing.T) {
	k := newPair(t)
	k.gets()
	c, out := k.w.Cards()[1], false
	c.SwitchOut(k.p[1], func() { out = true })
	if k.gets() || !out {
		t.Errorf("a switched-out process receives, or never left: %v", out)
	}
	c.SwitchIn(k.p[1])
	if !k.gets() || len(k.back) != 0 {
		t.Errorf("it does not go on, or messages came back: %+v", k.back)
	}
	// The sender has packets in flight to a card that does not answer.
	c.Pause(k.w.Now() + int64(5*time.Millisecond))
	k.w.Run(k.w.Now()+int64(time.Millisecond), nil)
	out = false
	sender := k.w.Cards()[0]
	sender.SwitchOut(k.p[0], func() { out = true })
	sender.SwitchIn(k.p[0])
	k.gets()
	if !k.gets() || out {
		t.Errorf("after a switch that was abandoned nothing arrives, or it was carried out: %v", out)
	}
}

// A switch that was abandoned is over, also where the process moves next.
func TestMoveAfterAbandonedSwitch(t *testing.T) {
	k := newPair(t)
	k.gets()
	from, to := k.w.Cards()[0], k.w.Cards()[1]
	to.Pause(k.w.Now() + int64(5*time.Millisecond)) // what the sender has in flight has no answer
	k.w.Run(k.w.Now()+int64(time.Millisecond), nil)
	out, moved := false, false
	from.SwitchOut(k.p[0], func() { out = true })
	from.SwitchIn(k.p[0])
	if !from.Move(k.p[0], to, 0, sim.Never, func(there bool, _ *engine.Context) { moved = there }) {
		t.Fatal("the move does not begin")
	}
	k.gets()
	if k.gets(); !moved || out {
		t.Errorf("moved %v, switched out %v", moved, out)
	}
}

// A process that has moved is switched out and in by the card that it is on now. The one that it
// has left, which may have been about to switch it out when it moved, does nothing to it.
func TestSwitchAfterMove(t *testing.T) {
	k := newPair(t)
	k.gets()
	from, to := k.w.Cards()[1], k.w.Cards()[0]
	moved := false
	if !from.Move(k.p[1], to, 0, sim.Never, func(there bool, _ *engine.Context) { moved = there }) {
		t.Fatal("the move does not begin")
	}
	from.SwitchOut(k.p[1], nil) // it is stopped already
	k.gets()
	if !moved || !k.gets() {
		t.Fatalf("it has not moved, or receives nothing there: %v", moved)
	}
	out := false
	to.SwitchOut(k.p[1], func() { out = true })
	if k.gets() || !out {
		t.Fatalf("a switched-out process receives, or never left: %v", out)
	}
	from.SwitchIn(k.p[1])
	if k.gets() {
		t.Error("a card that it has left brings it back")
	}
	to.SwitchIn(k.p[1])
	if !k.gets() {
		t.Error("it does not go on")
	}
}

// A paused process gets nothing while its card receives; a paused card does neither.
// Both go on when the pause is over, and nothing is lost.
func TestPause(t *testing.T) {
	k := newPair(t)
	k.gets()
	c := k.w.Cards()[1]
	frames := func() uint64 { return c.Engine().Counters().FramesReceived }
	k.p[1].Pause(k.w.Now() + int64(20*time.Millisecond))
	before := frames()
	if k.gets() || frames() == before {
		t.Error("a paused process receives, or its card does not")
	}
	if k.gets(); !k.gets() {
		t.Error("the process does not go on")
	}
	c.Pause(k.w.Now() + int64(20*time.Millisecond))
	before = frames()
	if k.gets() || frames() != before {
		t.Error("a paused card receives")
	}
	if k.gets(); !k.gets() || len(k.back) != 0 {
		t.Errorf("the card does not go on, or messages came back: %+v", k.back)
	}
}

// What a slow process does takes longer.
func TestSlow(t *testing.T) {
	took := func(process, card int) int64 {
		w := sim.NewWorld(sim.Options{PollTime: 100})
		e := w.NewEthernet(sim.EthernetConfig{})
		c := listen(t, w, e.Plug())
		c.Slow(card)
		p, err := c.Run(7, 0, 16, func(p *sim.Process) error {
			for range 10 {
				p.Interface().Reserve(funi.Request).SetHeader(funi.NewHeader(9, 1, 1)) // no route
				p.Interface().Commit(funi.Request)
				p.Drive()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		p.Slow(process)
		begin, end := w.Now(), int64(0)
		w.Run(sim.Never-1, func() bool { ended, _ := p.Ended(); end = w.Now(); return ended })
		return end - begin
	}
	if got := took(1, 1); got != 1000 {
		t.Errorf("ten looks took %d ns, want 1000", got)
	}
	if got := took(5, 1); got != 5000 {
		t.Errorf("ten looks of a process 5 times as slow took %d ns, want 5000", got)
	}
	if got := took(1, 3); got != 3000 {
		t.Errorf("ten looks on a host 3 times as slow took %d ns, want 3000", got)
	}
}

// Configurations that the engine refuses are refused.
func TestStartRefuses(t *testing.T) {
	w := sim.NewWorld(sim.Options{})
	c := w.NewCard(w.NewEthernet(sim.EthernetConfig{}).Plug())
	if err := c.Start(engine.Config{}); !errors.Is(err, engine.ErrConfig) {
		t.Errorf("got %v, want engine.ErrConfig", err)
	}
	listened := listen(t, w, w.NewEthernet(sim.EthernetConfig{}).Plug())
	if _, err := listened.Run(7, 0, 3, nil); !errors.Is(err, funi.ErrSlots) {
		t.Errorf("queues of 3 slots: got %v, want funi.ErrSlots", err)
	}
}

// A group whose programs do not end in time is told which node has not.
func TestFinishInTime(t *testing.T) {
	k, err := sim.NewCluster(sim.ClusterOptions{Nodes: 2}, func(p *sim.Process) error {
		if p.Context().Node() == 1 {
			p.Sleep(int64(time.Second))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Finish(time.Millisecond); err == nil {
		t.Error("a program that sleeps for a second ended in a millisecond")
	}
	if err := k.Finish(time.Minute); err != nil {
		t.Error(err)
	}
}
