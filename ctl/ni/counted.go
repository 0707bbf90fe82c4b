package ni

// This file sends the multicasts of multicast.go, and the writes to each member, in a cluster in virtual time, and counts what the engine's cards put on
// their links. A card of the cluster is a member or the sender. What is counted is packets: frames without packets, by which cards acknowledge each
// other's frames, and the testbed had none, are counted by themselves.

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/sim"
)

// counted is what the cards have sent for one multicast, and for a write to each member that is answered.
type counted struct {
	ChainPackets          int `json:"chain_packets"`
	WritesPackets         int `json:"writes_packets"`
	ChainCopies           int `json:"chain_sender_copies"`
	WritesCopies          int `json:"writes_sender_copies"`
	ChainAcknowledgments  int `json:"chain_frames_without_packets"`
	WritesAcknowledgments int `json:"writes_frames_without_packets"`
}

// traffic is what cards have put on their links.
type traffic struct {
	packets int
	copies  int // of data, on the sender's link
	empty   int // frames without packets
}

// errUnequal: members lack what was sent to them.
var errUnequal = errors.New("members have not what was sent to them")

const (
	// theChain and theKey are the same at all members, and a write goes to the begin of the window.
	theChain = 1
	theKey   = 1 << 16
	// segmentBase is where the members' memory is in their segment.
	segmentBase = 0x10000
	// settles is longer than anything that a send leaves behind takes: acknowledgments that wait for packets to ride on.
	settles = int64(time.Millisecond)
	// mostTime is more than all of it takes.
	mostTime = time.Second
)

// sends sends the data to all members and waits until the sender knows that they have it.
type sends func(e *rma.Endpoint, members int, data []byte) error

// alongChain sends one copy along the chain, in which each member is behind the one before.
func alongChain(e *rma.Endpoint, members int, data []byte) error {
	_, err := e.Multicast(1, funi.MulticastRequest{Chain: theChain, Members: uint16(members), Put: true, Key: theKey, Data: data})
	return err
}

// toEach writes to each member, which answers with what was there before.
func toEach(e *rma.Endpoint, members int, data []byte) error {
	for i := range members {
		if _, err := e.Apply(rma.Target{Node: uint16(i + 1), Key: theKey}, arctic.RemoteSwap, arctic.Uint64, data, 0, rma.With{}); err != nil {
			return err
		}
	}
	return e.Quiet()
}

// count counts both for so many members.
func count(members int) (c counted, err error) {
	chain, err := send(members, alongChain)
	if err != nil {
		return c, fmt.Errorf("counting a multicast to %d members: %w", members, err)
	}
	writes, err := send(members, toEach)
	if err != nil {
		return c, fmt.Errorf("counting writes to %d members: %w", members, err)
	}
	return counted{ChainPackets: chain.packets, WritesPackets: writes.packets, ChainCopies: chain.copies, WritesCopies: writes.copies,
		ChainAcknowledgments: chain.empty, WritesAcknowledgments: writes.empty}, nil
}

// send sends twice to so many members, and counts the second, when the cards know each other.
func send(members int, all sends) (t traffic, err error) {
	counts, left := false, members+1
	memory := make([][]byte, members+1)
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: 64}}, Nodes: members + 1}, func(p *sim.Process) (err error) {
		node := p.Context().Node()
		if memory[node], err = p.Segment(segmentBase, writeBytes, funi.Keyed); err != nil {
			return err
		}
		e, err := rma.New(p.Interface(), rand.NewChaCha8([32]byte{byte(node)}), func() error { p.Wait(p.Now() + settles); return nil })
		if err != nil {
			return err
		}
		if err := e.Use(funi.Segment{Base: segmentBase, Memory: memory[node], Rights: funi.Keyed}); err != nil {
			return err
		}
		if node > 0 {
			if err := joins(e, node, uint16(members), memory[node]); err != nil {
				return err
			}
		}
		for left--; left > 0; {
			p.Wait(p.Now() + settles)
		}
		if node > 0 {
			return nil // its card does the rest
		}
		for i := range 2 {
			data := bytes.Repeat([]byte{byte(i + 1)}, writeBytes)
			if err := all(e, members, data); err != nil {
				return err
			}
			p.Sleep(settles)
			for _, m := range memory[1:] {
				if !bytes.Equal(m, data) {
					return errUnequal
				}
			}
			counts = true
		}
		return nil
	})
	if err != nil {
		return t, err
	}
	defer k.Close()
	for _, c := range k.Cards() {
		c.Engine().Observe(func(_ int, frame []byte, fate engine.Fate) {
			if counts && fate.Outcome == engine.Sent {
				t.add(frame, c.Number() == 0)
			}
		})
	}
	return t, k.Finish(mostTime)
}

// joins makes a node the member of its number.
func joins(e *rma.Endpoint, node, members uint16, memory []byte) error {
	if _, err := e.Expose(memory, rma.Options{Key: theKey, Rights: funi.RightWrite | funi.RightAtomic}); err != nil {
		return err
	}
	c := funi.Chain{Number: theChain, First: node == 1}
	if node > 1 {
		c.Parent = node - 1
	}
	if node < members {
		c.Next = []funi.Next{{Node: node + 1, Members: members - node}}
	}
	return e.Join(c)
}

// add counts a frame.
func (t *traffic) add(frame []byte, sender bool) {
	f, err := arctic.Look(frame)
	if err != nil || f.Hello() {
		return
	}
	if f.Packets() == 0 {
		t.empty++
	}
	for p, rest := arctic.Packet(nil), f.Train(); len(rest) > 0; {
		p, rest = arctic.Next(rest)
		t.packets++
		if kind := p.Header().Kind; sender && (kind == arctic.KindMulticast || kind == arctic.KindRemote) {
			t.copies++
		}
	}
}
