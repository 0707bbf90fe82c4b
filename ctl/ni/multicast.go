package ni

// This file has the packets and times of a chained multicast (sections 2.2.1 and 3.3.1.3): the
// sender's interface sends one to the first member, each member's sends it on to the next, and the
// last answers the sender. Without it the sender writes to each member, and each answers.

// multicast is what a multicast to that many members takes.
type multicast struct {
	Members int `json:"members"`
	// Packets are those on all links, and Copies those of data on the sender's.
	ChainPackets  int `json:"chain_packets"`
	WritesPackets int `json:"writes_packets"`
	ChainCopies   int `json:"chain_sender_copies"`
	WritesCopies  int `json:"writes_sender_copies"`
	// Times until the last member has 32 bytes: members one after the other, and writes whose way
	// over the sender's bus is the slowest part.
	ChainNS  float64 `json:"chain_ns"`
	WritesNS float64 `json:"writes_ns"`
	// StoredNS is ChainNS of interfaces that store the message before they forward it (2.2.1), as
	// the engine's do.
	StoredNS float64 `json:"chain_stored_ns"`
	// Counted is what the engine's cards send for the same, and what that takes (counted.go).
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
