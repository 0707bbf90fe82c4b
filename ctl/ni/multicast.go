package ni

// This file has the packets and times of a chained multicast (sections 2.2.1 and 3.3.1.3). The
// sender's interface sends a packet to the first member, each member's interface sends it on to the
// next, and the last answers the sender. Without the chain the sender writes to each member, and
// each answers.

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
	// Counted has the packets and the times of the engine's cards for the same (counted.go).
	Counted counted `json:"counted"`
}

func (m *model) multicast(members int) multicast {
	c := multicast{Members: members}
	for i := range members {
		c.ChainPackets++ // to member i, from the one before it
		c.WritesPackets += 2
		c.WritesCopies++
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
	c.ChainPackets++
	c.ChainCopies = 1
	return c
}
