package ni

// This file sends the multicasts of multicast.go, and writes to each member, between machines of
// the profile in virtual time. It counts the packets that the engine's cards put on their links. It
// measures the time until the last member has the data. A machine is a member or the sender. Cards
// acknowledge each other's frames by frames without packets. These are counted separately and take
// no time; the testbed had none of them.

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/sim"
)

// counted has the traffic and the times of one multicast and of a write to each member. Packets are
// counted for writes that the member's card answers with the previous value. Times are those of
// writes that return no value, for which the thesis has times.
type counted struct {
	ChainPackets          int   `json:"chain_packets"`
	WritesPackets         int   `json:"writes_packets"`
	ChainCopies           int   `json:"chain_sender_copies"`
	WritesCopies          int   `json:"writes_sender_copies"`
	ChainAcknowledgments  int   `json:"chain_frames_without_packets"`
	WritesAcknowledgments int   `json:"writes_frames_without_packets"`
	ChainNS               int64 `json:"chain_ns"`
	WritesNS              int64 `json:"writes_ns"`
}

// group is the traffic of one send.
type group struct {
	packets int
	copies  int   // of data, on the sender's link
	empty   int   // frames without packets
	ns      int64 // until the last member has the data
}

// errUnequal reports members that lack the sent data.
var errUnequal = errors.New("members have not what was sent to them")

const (
	// theChain and theKey are the same at all members. A write goes to the beginning of the window.
	theChain = 1
	theKey   = 1 << 16
	// patience is longer than a send and its aftermath take, in ns. Acknowledgments wait for
	// packets to ride on.
	patience = int64(1e6)
)

// sends puts the request that sends the data to all members into the send queue, and returns the
// number of completions to expect. The data is also at the beginning of the sender's segment.
type sends func(i *funi.Interface, members int, data []byte) (completions int)

// alongChain sends one copy along the chain of members.
func alongChain(i *funi.Interface, members int, data []byte) int {
	i.Reserve(funi.Request).SetMulticast(1, &funi.MulticastRequest{Chain: theChain, Members: uint16(members), Put: true,
		Key: theKey, Data: data})
	i.Commit(funi.Request)
	return 1
}

// toEach writes to each member, which answers with the previous value.
func toEach(i *funi.Interface, members int, data []byte) int {
	return each(i, members, &funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteSwap,
		Element: arctic.Uint64, Key: theKey,
		Bytes: len(data), Operands: data, Fetch: true}})
}

// fromMemory writes to each member from the sender's memory.
func fromMemory(i *funi.Interface, members int, data []byte) int {
	return each(i, members, &funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemotePut,
		Key: theKey, Ack: true}, Source: memoryBase, Length: len(data)})
}

func each(i *funi.Interface, members int, o *funi.Operation) int {
	for m := range members {
		i.Reserve(funi.Request).SetOperation(uint16(m+1), o)
		i.Commit(funi.Request)
	}
	return members
}

// count measures the traffic to that many members.
func count(p *hwprofiles.Profile, members int) (c counted, err error) {
	var of [3]group
	for i, all := range []sends{alongChain, toEach, fromMemory} {
		if of[i], err = send(p, members, all); err != nil {
			return c, fmt.Errorf("sending to %d members: %w", members, err)
		}
	}
	chain, writes := &of[0], &of[1]
	return counted{ChainPackets: chain.packets, WritesPackets: writes.packets, ChainCopies: chain.copies,
		WritesCopies:         writes.copies,
		ChainAcknowledgments: chain.empty, WritesAcknowledgments: writes.empty, ChainNS: chain.ns,
		WritesNS: of[2].ns}, nil
}

// send sends twice to that many members, and counts the second time. By then the cards know each
// other and have the entries of the windows' tables.
func send(p *hwprofiles.Profile, members int, all sends) (g group, err error) {
	counts, left := false, members+1
	memory := make([][]byte, members+1)
	k, err := sim.NewPacedRemote(p, members+1, trafficSlots,
		funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: trafficSlots}, func(p *sim.Process) (err error) {
			node := p.Context().Node()
			if memory[node], err = p.Segment(memoryBase, writeBytes, funi.Keyed|funi.Source); err != nil {
				return err
			}
			if node > 0 {
				err := joins(p, node, uint16(members), memory[node])
				left--
				return err // its card does the rest
			}
			for left--; left > 0; {
				p.Sleep(1)
			}
			for i := range 2 {
				copy(memory[0], bytes.Repeat([]byte{byte(i + 1)}, writeBytes))
				began := p.Now()
				open := all(p.Interface(), members, memory[0])
				there := func() bool {
					for _, m := range memory[1:] {
						if !bytes.Equal(m, memory[0]) {
							return false
						}
					}
					return true
				}
				for g.ns = 0; open > 0; p.Sleep(1) {
					var n funi.Notification
					if p.Interface().NextNotification(&n) {
						if n.Reason != arctic.ReasonNone {
							return fmt.Errorf("%w: %v", errTraffic, n.Reason)
						}
						open--
					}
					if g.ns == 0 && there() {
						g.ns = p.Now() - began
					}
				}
				if !there() {
					return errUnequal
				}
				p.Sleep(patience)
				counts = true
			}
			return nil
		})
	if err != nil {
		return g, err
	}
	defer k.Close()
	for _, c := range k.Cards() {
		c.Engine().Observe(func(_ int, frame []byte, fate engine.Fate) {
			if counts && fate.Outcome == engine.Sent {
				g.add(frame, c.Number() == 0)
			}
		})
	}
	err = k.Finish(mostTraffic)
	return g, err
}

// joins makes a process the member with its node's number.
func joins(p *sim.Process, node, members uint16, memory []byte) error {
	e, err := rma.New(p.Interface(), rand.NewChaCha8([32]byte{byte(node)}), func() error { p.Sleep(1); return nil })
	if err != nil {
		return err
	}
	if err := e.Use(funi.Segment{Base: memoryBase, Memory: memory, Rights: funi.Keyed | funi.Source}); err != nil {
		return err
	}
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
func (g *group) add(frame []byte, sender bool) {
	f, err := arctic.Look(frame)
	if err != nil || f.Hello() {
		return
	}
	if f.Packets() == 0 {
		g.empty++
	}
	for p, rest := arctic.Packet(nil), f.Train(); len(rest) > 0; {
		p, rest = arctic.Next(rest)
		g.packets++
		if kind := p.Header().Kind; sender && (kind == arctic.KindMulticast || kind == arctic.KindRemote) {
			g.copies++
		}
	}
}
