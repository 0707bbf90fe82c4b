package paper

// This file has the packets and times of a chained multicast (sections 2.2.1 and 3.3.1.3). The
// sender's interface sends a packet to the first member, each member's interface sends it on to the
// next, and the last answers the sender. Without the chain the sender writes to each member, and
// each answers.
//
// The same is then sent between machines of the profile in virtual time, each a member or the
// sender. Packets that the engine's cards put on their links are counted, and the time until the
// last member has the data is measured. Cards acknowledge each other's frames by frames without
// packets. These are counted separately and take no time; the testbed had none of them.

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/sim"
)

// carried counts packets on all links, and copies of the data on the sender's link.
type carried struct {
	ChainPackets  int `json:"chain_packets"`
	WritesPackets int `json:"writes_packets"`
	ChainCopies   int `json:"chain_sender_copies"`
	WritesCopies  int `json:"writes_sender_copies"`
}

// multicast is the cost of a multicast to that many members.
type multicast struct {
	Members int `json:"members"`
	carried
	// ChainNS is the time until the last member has 32 bytes, over the members one after the other.
	// WritesNS is that of writes to each member, at the rate of the slowest part, the sender's bus.
	ChainNS  float64 `json:"chain_ns"`
	WritesNS float64 `json:"writes_ns"`
	// StoredNS is ChainNS of interfaces that store the message before they forward it (2.2.1), as
	// the engine's do.
	StoredNS float64 `json:"chain_stored_ns"`
	Counted  counted `json:"counted"`
}

// counted is the same of the engine's cards. Packets are counted for writes that the member's card
// answers with the previous value. Times are those of writes that return no value, for which the
// thesis has times.
type counted struct {
	carried
	ChainAcknowledgments  int   `json:"chain_frames_without_packets"`
	WritesAcknowledgments int   `json:"writes_frames_without_packets"`
	ChainNS               int64 `json:"chain_ns"`
	WritesNS              int64 `json:"writes_ns"`
}

func (m *tokyo) multicast(members int) multicast {
	c := multicast{Members: members, carried: carried{members + 1, 2 * members, 1, members}}
	for i := range members {
		// A member's interface sends on what came over its link, while it writes it to memory: no
		// bus is before the next link.
		if c.ChainNS += m.latency + m.serialise(writeBytes); i == 0 {
			c.ChainNS += m.bus(writeBytes)
			c.WritesNS = m.stored(writeBytes)
		} else {
			c.WritesNS += max(m.bus(writeBytes), m.serialise(writeBytes))
		}
	}
	c.ChainNS += m.bus(writeBytes)
	c.StoredNS = c.ChainNS + float64(members-1)*m.bus(writeBytes)
	return c
}

// sending is the traffic of one send.
type sending struct {
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
	// patience is longer than a send and its aftermath take. Acknowledgments wait for packets to
	// ride on.
	patience = time.Millisecond
)

// The ways to send data to all members: one copy along their chain, a write to each that answers
// with the previous value, or a write to each from the beginning of the sender's memory.
const (
	alongChain = iota
	swapped
	fromMemory
	ways
)

// requests returns the requests that send data in one of the ways. Each completes once.
func requests(way, members int, data []byte) (all []func(*funi.Slot)) {
	o := &funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemotePut, Key: theKey, Ack: true},
		Source: memoryBase, Length: len(data)}
	switch way {
	case alongChain:
		m := &funi.MulticastRequest{Chain: theChain, Members: uint16(members), Put: true, Key: theKey, Data: data}
		return []func(*funi.Slot){func(s *funi.Slot) { s.SetMulticast(1, m) }}
	case swapped:
		o = &funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteSwap, Element: arctic.Uint64,
			Key: theKey, Bytes: len(data), Operands: data, Fetch: true}}
	}
	for m := range members {
		all = append(all, func(s *funi.Slot) { s.SetOperation(uint16(m+1), o) })
	}
	return all
}

// countMulticast measures the traffic to that many members.
func countMulticast(p *hwprofiles.Profile, members int) (c counted, err error) {
	var of [ways]sending
	for way := range of {
		if of[way], err = send(p, members, way); err != nil {
			return c, fmt.Errorf("sending to %d members: %w", members, err)
		}
	}
	chain, each := &of[alongChain], &of[swapped]
	return counted{carried{chain.packets, each.packets, chain.copies, each.copies}, chain.empty, each.empty, chain.ns,
		of[fromMemory].ns}, nil
}

// send sends twice to that many members, and counts the second time. By then the cards know each
// other and have the entries of the windows' tables.
func send(p *hwprofiles.Profile, members, way int) (g sending, err error) {
	counts, left := false, members
	memory := make([][]byte, members+1)
	sizes := funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: slots}
	k, err := sim.NewPacedRemote(p, members+1, slots, sizes, func(p *sim.Process) (err error) {
		node := p.Context().Node()
		if memory[node], err = p.Segment(memoryBase, writeBytes, funi.Keyed|funi.Source); err != nil {
			return err
		}
		if node > 0 {
			err = joins(p, node, uint16(members), memory[node])
			left--
			return err // its card does the rest
		}
		await(p, 1, func() bool { return left == 0 })
		for i := range 2 {
			copy(memory[0], bytes.Repeat([]byte{byte(i + 1)}, writeBytes))
			began := p.Now()
			all := requests(way, members, memory[0])
			for _, r := range all {
				post(p, r)
			}
			there := func() bool {
				return !slices.ContainsFunc(memory, func(m []byte) bool { return !bytes.Equal(m, memory[0]) })
			}
			g.ns = 0
			for open := len(all); open > 0; p.Sleep(1) {
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
			p.Sleep(int64(patience))
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
func (g *sending) add(frame []byte, sender bool) {
	f, err := arctic.Parse(frame)
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
