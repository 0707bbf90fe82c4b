package sim_test

// This file tests the switch of direct ports: what it lets pass, and what becomes of frames when
// tables are behind.

import (
	"testing"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/sim"
)

// switched is a network of four ports with a switch of two hosts: nodes 0 and 1 of a job on host 0,
// node 2 on host 1, and node 0 of another job there.
type switched struct {
	t     *testing.T
	w     *sim.World
	net   *sim.Ethernet
	s     *sim.Switch
	ports []*sim.EthernetPort
	mine  sim.Job
	other sim.Job
}

func newSwitched(t *testing.T) *switched {
	w := sim.NewWorld(sim.Options{})
	k := &switched{t: t, w: w, net: w.NewEthernet(sim.EthernetConfig{}), mine: sim.Job{Tag: 7, GID: 3},
		other: sim.Job{Tag: 8, GID: 3}}
	t.Cleanup(w.Close)
	k.s = k.net.Switch(2)
	for i := range 4 {
		k.ports = append(k.ports, k.net.Plug())
		w.NewCard(k.ports[i])
	}
	k.open(0, 0, k.mine, 0)
	k.open(1, 0, k.mine, 1)
	k.open(2, 1, k.mine, 2)
	k.open(3, 1, k.other, 0)
	for node := range uint16(3) {
		k.s.Hear(1-int(node)/2, k.mine, node)
	}
	return k
}

func (k *switched) open(port, host int, job sim.Job, node uint16) {
	k.t.Helper()
	if err := k.s.Open(port, host, job, node); err != nil {
		k.t.Fatal(err)
	}
}

// send sends a frame from a port, of a node of a job to another, changed.
func (k *switched) send(port int, job sim.Job, from, to uint16, change func(b []byte)) {
	h := arctic.Header{Direct: true, Tag: job.Tag, GID: job.GID, SourceCard: from, DestinationCard: to}
	b := k.ports[port].Reserve()
	h.Encode(b)
	n := arctic.HeaderSize + 20
	arctic.Seal(b, n)
	if change != nil {
		change(b)
	}
	k.ports[port].Commit(n)
	k.ports[port].Flush()
	k.w.Run(k.w.Now()+1_000_000, nil)
}

// Rule (guard.c, nic.c): a port sends frames of its own node, GID and tag alone, of the direct
// version and as long as they say. A node that has no place now gets no frames. Neither does a node
// whose place the host of either end has not heard of. Tables may be behind, and never lead to a
// node of another job.
func TestDirectSwitch(t *testing.T) {
	k := newSwitched(t)
	// Nobody receives at the ports, where cards are down: Lost.Down counts what came.
	came := uint64(0)
	expect := func(what string, want bool, counter *uint64) {
		t.Helper()
		if got := k.net.Lost.Down > came; got != want || *counter == 0 {
			t.Errorf("%s: came %v, want %v; %+v, %+v", what, got, want, k.s.Guard, k.s.NIC)
		}
		came, *counter = k.net.Lost.Down, 0
		if k.net.UnderWay() != 0 {
			t.Errorf("%s: %d frames are under way", what, k.net.UnderWay())
		}
	}
	k.send(0, k.mine, 0, 1, nil)
	expect("to a node on the host", true, &k.s.Guard.Local)
	k.send(0, k.mine, 0, 2, nil)
	expect("to another host", true, &k.s.NIC.Direct)
	for what, change := range map[string]func(b []byte){
		"another version":     func(b []byte) { b[14] = arctic.Version },
		"longer than it is":   func(b []byte) { b[16]++ },
		"another EtherType":   func(b []byte) { b[12] = 8 },
		"another GID":         func(b []byte) { b[18]++ },
		"another node's name": func(b []byte) { b[24]++ },
		"another tag":         func(b []byte) { b[68]++ },
	} {
		k.send(0, k.mine, 0, 2, change)
		expect(what, false, &k.s.Guard.Refused)
	}
	k.send(0, k.mine, 0, 2, func(b []byte) { b[16]-- })
	expect("filled up with zeros", true, &k.s.NIC.Direct)
	k.send(0, k.mine, 0, 3, nil)
	expect("to a node that nobody is", false, &k.s.Guard.NoNode)
	if err := k.s.Open(3, 0, k.mine, 2); err == nil {
		t.Error("a node that has a port got another")
	}
	if err := k.s.Open(2, 0, k.mine, 5); err == nil {
		t.Error("a port that is open was opened")
	}

	k.s.Close(2)
	k.send(2, k.mine, 2, 0, nil)
	expect("from a port that has ended", false, &k.s.Guard.Closed)
	k.send(0, k.mine, 0, 2, nil)
	expect("to a port that has ended, of which the host has not heard", false, &k.s.NIC.NoPort)
	k.open(2, 1, k.other, 2)
	k.send(0, k.mine, 0, 2, nil)
	expect("to a node whose port another job has", false, &k.s.NIC.NoPort)
	k.s.Close(2)
	k.open(2, 0, k.mine, 2)
	k.send(2, k.mine, 2, 0, nil)
	expect("from the host that it has come to, to a node there", true, &k.s.Guard.Local)
	k.s.Close(1)
	k.open(1, 1, k.mine, 1)
	k.send(1, k.mine, 1, 0, nil)
	expect("from a host that the other has not heard of", false, &k.s.NIC.Stranger)
	k.send(2, k.mine, 2, 1, nil)
	expect("to a node that has left the host", false, &k.s.Guard.NoNode)
	k.s.Hear(0, k.mine, 1)
	k.s.Hear(1, k.mine, 2)
	k.send(1, k.mine, 1, 2, nil)
	expect("between nodes that have changed hosts, when both have heard", true, &k.s.NIC.Direct)
	k.s.Close(1)
	k.s.Hear(0, k.mine, 1)
	k.send(2, k.mine, 2, 1, nil)
	expect("to a node of whose end the host has heard", false, &k.s.Guard.NoNode)
}
