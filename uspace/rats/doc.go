// Package rats is Rats, the library above Hamlyn's interface (HPL-95-86, section 3). It offers
// messages that the sender places in the receiver's memory, and records that tell the receiver when
// they are complete. The lower half (3.1; endpoint.go, seed.go, send.go) is that and no more. The
// upper half (3.2; manager.go) is a Manager and the instances of its protocols. The Manager hands
// out memory, keys and areas, and gives each instance the messages that arrive for it:
//
//	Remote Write, Tagged Remote Write  Target, Writer (target.go)
//	Datagram                           Port, Client (datagram.go)
//	Simple datagram                    Simple, Seed.Send (simple.go)
//	Remote Read                        ReadServer, Reader (read.go)
//	Stream                             Sender, Receiver (stream.go)
//	Initial Request Response           Server, Inquiry (initial.go)
//
// The journey of a message. The receiver exposes a part of its memory (Endpoint.Expose), opens an
// area that counts for it (Endpoint.Open), and makes a Seed of both. A seed is 32 bytes, or text,
// that any means may carry to the sender. A holder of the seed has a Ticket for one message there,
// and SendMsg launches the message. A short one goes in the slot of the send queue, a long one
// straight from a segment of the sender. The receiver's card writes the packets to the places that
// the sender chose, in any order, and the area counts them. When all have arrived, NextRecord
// returns a record of the message, with the metadata that came beside it. The receiver's process
// has done nothing for it, and nothing is copied except to its place.
//
// A message may be one of a group. Seed.Split divides the memory of a seed and its share of the
// count, so that there is one record when all members' messages have arrived (2.5, group receive).
//
// Rules:
//   - A process that exposes memory is never overrun. An area has a credit of unread records. A
//     packet that finds no credit waits at its sender, or returns to it, as the area was opened.
//     Credit bounds records, not memory: some packets of a message are written before the one that
//     needs credit. A sender writes where it may, and a protocol tells it when it may.
//   - A key consists of 48 random bits and the number of a key slot. Any holder may write until the
//     key is closed. Revocation is for each key. So a process that wants to revoke one sender gives
//     each sender a key of its own.
//   - No protocol waits in Poll or in arrived (3.2, process_arrival). A message that finds no room
//     in the send queue, above all one with credit, waits in its instance and is tried again at the
//     next Poll. Credit is a sum since the beginning, so that several credits become one, and an
//     overtaken one changes nothing.
//   - An instance trusts only its peer's node, and checks every number that arrives. An impossible
//     number ends that instance (ErrProtocol), and no other.
//   - Only a few long messages are in flight to a node at once, and streams take turns with theirs
//     (lane.go). So a short message waits for little, and a silent node does not occupy all records
//     that the card has for long messages.
//   - Nothing here waits, has a goroutine, or reads a clock; Poll takes the requests that the card
//     has returned. So the package runs in virtual time (package sim) as well as on a card of its
//     own (package card).
//   - Tables are bounded by funi.RemoteSizes of the context. If one is full, the call returns
//     ErrFull and has no effect.
//   - Package am may use the same interface. Then it reads the returns, and those of remote memory
//     go to Returned (Endpoint.Shared).
//
// An Endpoint belongs to one goroutine, that of its interface.
package rats
