package timing

// This file has the times of remote-memory messages on a machine that times them by kind and step,
// as HPL-95-86 does (tables 1 to 4).

import "errors"

// ErrMessages reports a machine that has times for remote writes but not for messages of words.
var ErrMessages = errors.New("the modelled machine has no times for active messages, only for remote writes; use a profile that has, such as sbus-arctic")

// ErrRats reports a machine that has no times for the library Rats. In virtual time a process that
// polls in vain would poll for ever.
var ErrRats = errors.New("the modelled machine has no times for package rats; use a profile that has, such as hamlyn")

// Call holds the processor times of a library call: On while somebody waits for it, Off for the
// work done when nobody does.
type Call struct{ On, Off Span }

// Sending holds the times of a call that launches a message (2.3). Direct is for data in the slot
// (direct I/O), DMA for data that the card fetches.
type Sending struct{ Direct, DMA Call }

// Rats holds the times of the library Rats on a processor (tables 1, 2). The zero value has none.
type Rats struct {
	Tagged, Datagram Sending // tagged_write::write or send, and sendmsg
	// Poll is the time of a look that finds a record; its Off is that of a look that finds none.
	TaggedPoll, DatagramPoll Call
	// Arrival is process_arrival. GetTag and Recv then hand the message to the program.
	TaggedArrival, DatagramArrival Span
	GetTag, Recv                   Call
}

// Card holds the times of remote writes on a card whose processor has a time for each kind of
// packet (tables 3 and 4).
type Card struct {
	Direct, DMA Sends
	// Arrive is the time from the link to the card. Its time for bytes is at most its time without
	// bytes: DMA engines steal the processor's cycles, up to every other one (table 4, note c).
	Arrive Span
	// Write is the card's additional time for the data of a block, before they go over the bus. A
	// block is more than a packet has room for. The card's processor does that while the data of
	// the block before are moved, so of many blocks it counts once (tables 4 and 5).
	Write  Span
	Notify Span // the record of a message that is complete, for the receiving host
}

// Sends holds the times of a card that sends.
type Sends struct {
	Start Span // before the data of a message are fetched; 0 for direct I/O
	Send  Span // of each packet, onto the link
	// telling the host that the message was sent, behind its last packet: the card is busy, and
	// nobody waits
	Notify Span
}

// Arrives returns how many nanoseconds the card is busy with a packet that arrives.
func (c *Card) Arrives(data, metadata int) int64 {
	base := c.Arrive.Base
	return (base + min(base, c.Arrive.Of(data, metadata)-base) + picosecond/2) / picosecond
}
