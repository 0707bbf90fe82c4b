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
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/sim"
)

// multicast is the cost of a multicast to that many members.
type multicast struct {
	Members int `json:"members"`
	// ChainPackets counts the packets on all links, and ChainCopies those of data on the sender's
	// link.
	ChainPackets  int `json:"chain_packets"`
	WritesPackets int `json:"writes_packets"`
	ChainCopies   int `json:"chain_sender_copies"`
	WritesCopies  int `json:"writes_sender_copies"`
	// ChainNS is the time until the last member has 32 bytes, over the members one after the other.
	// WritesNS is that of writes to each member, at the rate of the slowest part, the sender's bus.
	ChainNS  float64 `json:"chain_ns"`
	WritesNS float64 `json:"writes_ns"`
	// StoredNS is ChainNS of interfaces that store the message before they forward it (2.2.1), as
	// the engine's do.
	StoredNS float64 `json:"chain_stored_ns"`
	// Counted has the packets and the times of the engine's cards for the same.
	Counted counted `json:"counted"`
}

func (m *tokyo) multicast(members int) multicast {
	c := multicast{Members: members, ChainPackets: members + 1, WritesPackets: 2 * members, ChainCopies: 1,
		WritesCopies: members}
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
	// patience is longer than a send and its aftermath take. Acknowledgments wait for
	// packets to ride on.
	patience = time.Millisecond
)

// sends puts the request that sends the data to all members into the send queue, and returns the
// number of completions to expect. The data is also at the beginning of the sender's segment.
type sends func(p *sim.Process, members int, data []byte) (completions int)

// alongChain sends one copy along the chain of members.
func alongChain(p *sim.Process, members int, data []byte) int {
	post(p, func(s *funi.Slot) {
		s.SetMulticast(1, &funi.MulticastRequest{Chain: theChain, Members: uint16(members), Put: true, Key: theKey,
			Data: data})
	})
	return 1
}

// toEach writes to each member, which answers with the previous value.
func toEach(p *sim.Process, members int, data []byte) int {
	return writes(p, members, &funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteSwap,
		Element: arctic.Uint64, Key: theKey, Bytes: len(data), Operands: data, Fetch: true}})
}

// fromMemory writes to each member from the sender's memory.
func fromMemory(p *sim.Process, members int, data []byte) int {
	return writes(p, members, &funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemotePut,
		Key: theKey, Ack: true}, Source: memoryBase, Length: len(data)})
}

func writes(p *sim.Process, members int, o *funi.Operation) int {
	for m := range members {
		post(p, func(s *funi.Slot) { s.SetOperation(uint16(m+1), o) })
	}
	return members
}

// countMulticast measures the traffic to that many members.
func countMulticast(p *hwprofiles.Profile, members int) (c counted, err error) {
	var of [3]sending
	for i, all := range []sends{alongChain, toEach, fromMemory} {
		if of[i], err = send(p, members, all); err != nil {
			return c, fmt.Errorf("sending to %d members: %w", members, err)
		}
	}
	chain, each := &of[0], &of[1]
	return counted{chain.packets, each.packets, chain.copies, each.copies, chain.empty, each.empty, chain.ns,
		of[2].ns}, nil
}

// send sends twice to that many members, and counts the second time. By then the cards know each
// other and have the entries of the windows' tables.
func send(p *hwprofiles.Profile, members int, all sends) (g sending, err error) {
	counts, left := false, members+1
	memory := make([][]byte, members+1)
	k, err := sim.NewPacedRemote(p, members+1, slots,
		funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: slots}, func(p *sim.Process) (err error) {
			node := p.Context().Node()
			if memory[node], err = p.Segment(memoryBase, writeBytes, funi.Keyed|funi.Source); err != nil {
				return err
			}
			if node > 0 {
				err := joins(p, node, uint16(members), memory[node])
				left--
				return err // its card does the rest
			}
			left--
			await(p, 1, func() bool { return left == 0 })
			for i := range 2 {
				copy(memory[0], bytes.Repeat([]byte{byte(i + 1)}, writeBytes))
				began := p.Now()
				open := all(p, members, memory[0])
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
