package sim_test

// This file tests the Ethernet model, without cards: ports exchange frames by hand.

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
)

// post sends one frame of n bytes from a port to another, marked with a number.
func post(p *sim.EthernetPort, to, n int, mark uint32) bool {
	b := p.Reserve()
	if b == nil {
		return false
	}
	clear(b[:n])
	from, addr := sim.Address(p.Number()), sim.Address(to)
	copy(b, addr[:])
	copy(b[6:], from[:])
	binary.LittleEndian.PutUint32(b[14:], mark)
	p.Commit(n)
	p.Flush()
	return true
}

// listen makes a card on the port that is up but knows nobody, or only the given, so that frames
// are kept for the test: its engine drops and counts what it receives.
func listen(t *testing.T, w *sim.World, p *sim.EthernetPort, peers ...engine.Peer) *sim.Card {
	t.Helper()
	c := w.NewCard(p)
	cfg := engine.Native()
	cfg.Card, cfg.Incarnation, cfg.Peers = uint16(p.Number()), 1, peers
	if err := c.Start(cfg); err != nil {
		t.Fatal(err)
	}
	return c
}

// silence lets everything happen.
func silence(w *sim.World) {
	for w.Step() {
	}
}

// A frame takes its bits on two links, preamble, checksum and gap included, and the
// delay; frames of one sender follow each other at the bandwidth.
func TestBandwidthAndDelay(t *testing.T) {
	w := sim.NewWorld(sim.Options{StepTime: 1})
	e := w.NewEthernet(sim.EthernetConfig{Bandwidth: 1e9, Delay: 10 * time.Microsecond})
	a, b := e.Plug(), e.Plug()
	c := listen(t, w, b)
	silence(w)
	begin := w.Now()
	const n, frames = 1514, 10
	for range frames {
		post(a, 1, n, 0)
	}
	silence(w)
	wire := int64((n + 24) * 8) // ns at 1 Gbit/s
	want := begin + 10_000 + wire*(frames+1)
	if got := w.Now(); got < want || got > want+10 {
		t.Errorf("%d frames of %d bytes arrived by %d ns, want %d", frames, n, got, want)
	}
	if got := c.Engine().Counters().FramesReceived; got != frames {
		t.Errorf("%d frames received, want %d", got, frames)
	}
}

// A full transmit ring holds the sender up; the queue of a link to which several send
// and the receive ring lose frames when they are full, and say so.
func TestBoundedQueues(t *testing.T) {
	w := sim.NewWorld(sim.Options{})
	e := w.NewEthernet(sim.EthernetConfig{Bandwidth: 1e9, Transmit: 4, Switch: 4, Receive: 2})
	a, b, c := e.Plug(), e.Plug(), e.Plug()
	sent := 0
	for post(a, 2, 1514, 0) {
		sent++
	}
	if sent < 4 || sent > 6 {
		t.Errorf("a transmit ring of 4 took %d frames", sent)
	}
	card := listen(t, w, c)
	silence(w)
	sent = 0
	for range 200 { // two senders at full speed for one link
		for _, p := range []*sim.EthernetPort{a, b} {
			if post(p, 2, 1514, 0) {
				sent++
			}
		}
		w.Run(w.Now()+12_304, nil)
	}
	card.Pause(w.Now() + int64(time.Second)) // and a receiver that does not look
	for range 20 {
		post(a, 2, 1514, 0)
		w.Run(w.Now()+12_304, nil)
	}
	if e.Lost.Switch == 0 || e.Lost.Receive == 0 {
		t.Errorf("lost %+v; want some at the switch and some at the receive ring", e.Lost)
	}
	silence(w)
	if n := e.UnderWay(); n != 0 {
		t.Errorf("%d frames are left", n)
	}
}

// Faults happen about as often as they are to, and every frame is accounted for.
func TestChances(t *testing.T) {
	w := sim.NewWorld(sim.Options{})
	e := w.NewEthernet(sim.EthernetConfig{Seed: 1, Receive: 1 << 20,
		Faults: sim.Faults{Loss: .1, Duplicate: .1, Reorder: .1, Corrupt: .1, HoldBack: time.Millisecond}})
	a, b := e.Plug(), e.Plug()
	listen(t, w, b)
	const n = 20_000
	for i := range n {
		post(a, 1, 100, uint32(i))
	}
	silence(w)
	within := func(what string, got, want uint64) {
		if got < want*9/10 || got > want*11/10 {
			t.Errorf("%s: %d, want about %d", what, got, want)
		}
	}
	within("lost", e.Lost.Fault, n/10)
	within("carried", e.Carried, n*9/10*11/10)
}

// Every damage that the model does is found by the checksum or the length check of package arctic,
// or because the frame is then of another card or for another: a damaged frame is lost, not
// delivered.
func TestDamageIsFound(t *testing.T) {
	w := sim.NewWorld(sim.Options{})
	e := w.NewEthernet(sim.EthernetConfig{Seed: 2, Receive: 1 << 20, Faults: sim.Faults{Corrupt: 1}})
	a, b := e.Plug(), e.Plug()
	c := listen(t, w, b, engine.Peer{Card: 0, Address: sim.Address(0), Local: sim.Address(1)})
	const n = 5000
	for range n {
		buf := a.Reserve()
		h := arctic.Header{To: sim.Address(1), From: sim.Address(0), SourceCard: 0, DestinationCard: 1}
		h.Encode(buf)
		arctic.Seal(buf, arctic.HeaderSize)
		a.Commit(arctic.HeaderSize)
		a.Flush()
	}
	silence(w)
	k := c.Engine().Counters()
	found :=
		k.DroppedShort + k.DroppedVersion + k.DroppedLength + k.DroppedChecksum + k.DroppedMisrouted + k.DroppedStranger + k.DroppedForged
	if k.FramesReceived != n || found != n || k.DroppedChecksum < n/2 {
		t.Errorf("%d of %d frames were found to be damaged: %+v", found, n, k)
	}
}

// A cut is in one direction, and heals when it should; a partition is two.
func TestCuts(t *testing.T) {
	w := sim.NewWorld(sim.Options{})
	e := w.NewEthernet(sim.EthernetConfig{Delay: 2 * time.Microsecond})
	a, b := e.Plug(), e.Plug()
	ca, cb := listen(t, w, a), listen(t, w, b)
	silence(w)
	heals := w.Now() + 100_000
	e.Sever(sim.Cut{From: sim.SetOf(0), To: sim.SetOf(1, 70)}, heals)
	received := func(c *sim.Card) uint64 { return c.Engine().Counters().FramesReceived }
	post(a, 1, 100, 0)
	post(b, 0, 100, 0)
	w.Run(heals-1, nil)
	if received(cb) != 0 || received(ca) != 1 || e.Lost.Cut != 1 {
		t.Errorf("cut from 0 to 1: 1 received %d, 0 received %d; want 0 and 1", received(cb), received(ca))
	}
	w.Run(heals, nil)
	post(a, 1, 100, 0)
	silence(w)
	if received(cb) != 1 {
		t.Error("the cut did not heal")
	}
	e.Sever(sim.Cut{From: sim.SetOf(0), To: sim.SetOf(1)}, sim.Never)
	post(a, 1, 100, 0)
	silence(w)
	e.Heal()
	post(a, 1, 100, 0)
	silence(w)
	if received(cb) != 2 {
		t.Errorf("1 received %d frames, want 2: all but those in cuts", received(cb))
	}
}

// Frames for nobody, and for a card that is down, are lost and counted.
func TestNobodyThere(t *testing.T) {
	w := sim.NewWorld(sim.Options{})
	e := w.NewEthernet(sim.EthernetConfig{})
	a, b := e.Plug(), e.Plug()
	c := listen(t, w, b)
	post(a, 9, 100, 0)
	post(a, 1, 100, 0)
	c.Crash()
	silence(w)
	if e.Lost.Unknown != 1 || e.Lost.Down != 1 || e.UnderWay() != 0 {
		t.Errorf("lost %+v, %d under way; want one unknown and one for a card that is down", e.Lost, e.UnderWay())
	}
}

// A cluster that has found its way does not allocate (design: nothing on the data path).
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	k, err := sim.NewCluster(sim.ClusterOptions{Nodes: 4, Net: sim.EthernetConfig{Bandwidth: 10e9}},
		func(p *sim.Process) error {
			i := p.Interface()
			for {
				if s := i.Reserve(funi.Request); s != nil {
					s.SetHeader(funi.NewHeader((p.Context().Node()+1)%4, 1, 4))
					i.Commit(funi.Request)
				}
				for i.Receive(funi.Request) != nil {
					i.Release(funi.Request)
				}
				p.Drive()
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	k.Run(int64(10*time.Millisecond), nil)
	at := k.Now()
	if n := testing.AllocsPerRun(10, func() { at += int64(time.Millisecond); k.Run(at, nil) }); n != 0 {
		t.Errorf("%v allocations in a millisecond", n)
	}
}

// A capture has the form that a reader of the pcap format expects: 24 bytes, then for each frame
// 16 bytes and the frame (draft-ietf-opsawg-pcap).
func TestCapture(t *testing.T) {
	w := sim.NewWorld(sim.Options{})
	e := w.NewEthernet(sim.EthernetConfig{})
	a := e.Plug()
	var out bytes.Buffer
	w.Capture(&out)
	post(a, 1, 100, 0xabcd)
	b := out.Bytes()
	if len(b) != 24+16+100 || binary.LittleEndian.Uint32(b) != 0xa1b23c4d || binary.LittleEndian.Uint32(b[20:]) != 1 ||
		binary.LittleEndian.Uint32(b[24+8:]) != 100 || binary.LittleEndian.Uint32(b[24+16+14:]) != 0xabcd {
		t.Errorf("capture of one frame is %x", b)
	}
}
