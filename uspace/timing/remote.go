package timing

// This file is what messages of remote memory take on a machine that times them by kind and step,
// as HPL-95-86 does (tables 1 to 4).

import "errors"

// ErrMessages: the machine has times for remote writes and not for messages of words.
var ErrMessages = errors.New("the modelled machine has no times for active messages, only for remote writes; use a profile that has, such as sbus-arctic")

// ErrRats: the machine has no times for the library Rats, so in virtual time a process that looks
// in vain would look for ever.
var ErrRats = errors.New("the modelled machine has no times for package rats; use a profile that has, such as hamlyn")

// Call is what a library call takes on the processor: On while somebody waits for it, Off what is
// done when nobody does.
type Call struct{ On, Off Span }

// Sending is a call that launches a message, when its data are in the slot (direct I/O), and when
// the card fetches them (DMA) (2.3).
type Sending struct{ Direct, DMA Call }

// Rats is what the library Rats takes on a processor (tables 1 and 2). The zero value is no price
// for anything.
type Rats struct {
	Tagged, Datagram Sending // tagged_write::write or send, and sendmsg
	// Poll is a look that finds a record; its Off is what a look takes that finds none.
	TaggedPoll, DatagramPoll Call
	// Arrival is process_arrival, GetTag and Recv what then hands the message to the program.
	TaggedArrival, DatagramArrival Span
	GetTag, Recv                   Call
}

// Card is what remote writes take on a card whose processor has a time for each kind of packet
// (tables 3 and 4).
type Card struct {
	Direct, DMA Sends
	// Arrive is from the link to the card. What it takes for bytes is at most what it takes
	// without: DMA engines steal the processor's cycles, up to every other one (table 4, note c).
	Arrive Span
	// Write is what the card takes besides for the data of a block, before they go over the bus:
	// more than a packet has room for. Its processor does that while the data of the block before
	// are moved, so of many it counts once (tables 4 and 5).
	Write  Span
	Notify Span // the record of a message that is complete, for the receiving host
}

// Sends is what a card takes to send.
type Sends struct {
	Start Span // before the data of a message are fetched; of direct I/O nothing
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
