// Package rats is Rats, the library above Hamlyn's interface (HPL-95-86, section 3): messages that
// the sender places in the receiver's memory, and records that tell the receiver when they are
// complete. The lower half (3.1; endpoint.go, seed.go, send.go) is that and no more. The upper half
// (3.2; manager.go) is a Manager, which hands out memory, keys and areas, and the protocols'
// instances, to which it gives what has come for them:
//
//	Remote Write, Tagged Remote Write  Target, Writer (target.go)
//	Datagram                           Port, Client (datagram.go)
//	Simple datagram                    Simple, Seed.Send (simple.go)
//	Remote Read                        ReadServer, Reader (read.go)
//	Stream                             Sender, Receiver (stream.go)
//	Initial Request Response           Server, Inquiry (initial.go)
//
// The journey of a message. The receiver exposes a part of its memory (Endpoint.Expose), opens an
// area that counts for it (Endpoint.Open), and makes a Seed of both: 32 bytes, or text, that any
// means may carry to the sender. Who has the seed has a Ticket for one message there, and SendMsg
// launches it: short ones in the slot of the send queue, long ones straight from a segment of the
// sender's. The receiver's card writes the packets where the sender has placed them, in any order,
// and the area counts them. When all are there NextRecord returns a record of it, with the metadata
// that came beside the message. The receiver's process has done nothing for it, and nothing is
// copied but into its place.
//
// A message may be one of a group: Seed.Split parts the memory of a seed and its share of the
// count, so that there is one record when all members' messages are there (2.5, group receive).
//
// Rules:
//   - A process that exposes memory is never overrun: an area has a credit of records that are not
//     read, and what finds none waits at its sender, or returns to it, as the area was opened.
//     Credit bounds records, not memory: of a message of many packets some are written before the
//     one that needs credit. A sender writes where it may, and a protocol tells it when that is.
//   - Keys are 48 random bits and the number of a key slot. Whoever holds one may write, until it
//     is closed: revocation is for each key, so who wants to revoke one sender's gives each its
//     own.
//   - No protocol waits in Poll or in arrived (3.2, process_arrival): what finds no room in the
//     send queue, credit above all, waits in its instance and is tried again at the next Poll.
//     Credit is said as a sum since the beginning, so that several become one, and one that was
//     overtaken changes nothing.
//   - An instance believes only its peer's node, and checks every number that comes. What cannot be
//     ends that instance (ErrProtocol), and no other.
//   - Few long messages are on their way to a node at once, and streams take turns for theirs
//     (lane.go). So a short message waits for little, and a silent node does not hold all that the
//     card has for long messages.
//   - Nothing here waits, has a goroutine, or looks at a clock; Poll takes what the card has
//     returned. So it runs in virtual time (package sim) as on a card of its own (package card).
//   - Tables are bounded by funi.RemoteSizes of the context. Full ones are ErrFull, and nothing has
//     happened.
//   - Package am may use the same interface. Then it reads the returns: pass those of remote memory
//     on to Returned.
//
// An Endpoint belongs to one goroutine, that of its interface.
package rats
