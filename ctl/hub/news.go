package hub

// This file is what routers tell each other: which of their ports are down. Each router numbers its
// own state. It sends the states that it knows to its neighbours, at once when one is new, and
// twice a second. So every router hears of a change as long as any way leads to it (as in Autonet,
// without its agreement on one configuration: until all have heard, some frames are dropped, and
// the cards send them again).
//
// A message is an Ethernet frame of its own EtherType, IEEE 802 local experimental 2, which the hub
// program leaves to the kernel. Fields are in network order, offsets from behind the EtherType:
//
//	 0  "FUNH" (4)
//	 4  network (8): a hash of its wires and stations
//	12  states (2), at most mostStates
//	14  states: router (2), ports that are down (1), zero (1), number (8)
//
// Messages are taken from ports that lead to routers only. A host cannot send there: the program of
// its router forwards no such frame.

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/funet/funet/uspace/topology"
)

const (
	newsEtherType = 0x88b6
	newsHeader    = 14
	stateSize     = 12
	// mostNumber is above all times in nanoseconds. Larger numbers are nobody's.
	mostNumber = 1 << 63
	mostStates = 100 // so that a message fits into any MTU that FUNet has
	newsPeriod = 500 * time.Millisecond
	// newsPatience is how long a neighbour may be silent before its port counts as down: half of
	// what cards wait for a peer (engine.Config.PeerTimeout).
	newsPatience = 5 * newsPeriod
)

// state is what a router says of its own ports.
type state struct {
	down   uint8
	number uint64 // 0: nothing is known
}

// identity returns a hash of what the routers of a network must agree on.
func identity(n *topology.Network, stations [][6]byte) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, n.Routers(), n.Radix(), n.Width())
	for r := range n.Routers() {
		for p := range n.Radix() {
			fmt.Fprint(h, " ", n.End(r, p))
		}
	}
	for _, s := range stations {
		h.Write(s[:])
	}
	return h.Sum64()
}

// compose returns messages with the known states that chosen takes.
func compose(network uint64, states []state, chosen func(router int) bool) (messages [][]byte) {
	var b []byte
	flush := func() {
		if b != nil {
			binary.BigEndian.PutUint16(b[12:], uint16((len(b)-newsHeader)/stateSize))
			messages = append(messages, b)
			b = nil
		}
	}
	for r, s := range states {
		if s.number == 0 || !chosen(r) {
			continue
		}
		if b == nil {
			b = binary.BigEndian.AppendUint64([]byte("FUNH"), network)
			b = append(b, 0, 0)
		}
		b = binary.BigEndian.AppendUint16(b, uint16(r))
		b = append(b, s.down, 0)
		b = binary.BigEndian.AppendUint64(b, s.number)
		if len(b) == newsHeader+mostStates*stateSize {
			flush()
		}
	}
	flush()
	return messages
}

// hear takes a message of any bytes, and calls each with the states in it. It reports whether it is
// one of the network.
func hear(network uint64, b []byte, each func(router int, s state)) bool {
	if len(b) < newsHeader || string(b[:4]) != "FUNH" || binary.BigEndian.Uint64(b[4:]) != network {
		return false
	}
	n := int(binary.BigEndian.Uint16(b[12:]))
	if n > mostStates || len(b) < newsHeader+n*stateSize {
		return false
	}
	for i := range n {
		s := b[newsHeader+i*stateSize:]
		if number := binary.BigEndian.Uint64(s[4:]); number < mostNumber {
			each(int(binary.BigEndian.Uint16(s)), state{down: s[2], number: number})
		}
	}
	return true
}
