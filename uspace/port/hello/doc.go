// Package hello is how cards find each other, and how one asks another whether it is there: short
// frames between cards, not between processes, that go through the ports as all frames do.
//
// The journey of a question: a Station sends it by one of its ports. At the other end the NIC program
// (package bpf) hands it to the socket of its receive queue, the card's thread takes it from there, and
// its Port sifts it out before the engine sees it. The Station of that card answers
// at once. So an answer proves the whole way: program, fill ring, socket, thread and transmit ring,
// at both ends.
//
//	question      to one card: who are you? By turns to every peer, and when somebody asks (Ask).
//	answer        to who asked, with his nonce and no longer than what he sent
//	announcement  to everybody on the segment, by a station that discovers
//	goodbye       the same, from one that ends
//
// Discovery: a station that discovers (Config.Discover) announces itself a few times soon after its
// start, and then every few seconds, at random within bounds. One that hears an announcement, or a question, of
// a card of its cluster that it does not know asks it, and only an answer makes it a peer (Found). So a
// forged announcement in another's name makes nobody a peer. A peer that was found stays, however silent it is,
// until it has said goodbye or another has its number, and then does not answer either: what
// anybody says about others is a reason to ask, never to believe. There is no key yet: who is on the segment can
// be a card of any number that nobody has, or that somebody has who does not answer. Discovery trusts
// the segment, and is off unless it is asked for.
//
// What cannot be is a Fault: a number that two cards have, another cluster, another version of FUNet's
// frames, other lengths of frames.
//
// The frame's first 28 bytes are as those of all of FUNet's frames (package arctic), so that ports need
// not know more, and the version is that of no others. It is the same for all versions of FUNet: what is
// added later goes behind, and older stations ignore it. Little-endian but for the EtherType; offsets from the
// Ethernet header on.
//
//	 0  destination address (6)           6  source address (6)
//	12  EtherType 0x88B5, in network order (2)
//	14  version, 255 (1)                 15  way (1): where frames travel in datagrams, among which source ports to choose
//	16  length (2): bytes from offset 14 to the end, at least 106
//	18  kind (1)                         19  flags (1): bit 0 it is a card, bit 1 it discovers
//	20  incarnation (4)                  24  source card (2)   26  destination card (2)
//	28  nonce (8): of an answer, that of the question
//	36  queue that it is sent on (2)     38  of an answer: queue that the question came in on (2)
//	40  longest frame in bytes (2)       42  version of FUNet's frames (1)   43  encapsulation (1)
//	44  "FUhello1" (8)                   52  CRC-32C (4) of all from offset 14 on, without these four
//	56  cluster (32), zeroes behind      88  host (32), zeroes behind
//
// Rules:
//
//   - A Station is a state machine: it owns no clock, goroutine, socket or lock. It is stepped with the
//     time, by who owns the ports, and allocates nothing for what arrives.
//   - Whoever sends what: answers are bounded in all, by who asks, and apart for peers, so that strangers
//     take nothing from those; an answer is no longer than its question; faults, hosts that are being asked, and
//     frames that wait between two steps are bounded. Beyond that they are dropped and counted. Nothing is logged for a frame.
//   - Questions by turns are at most turnsPerSecond, however many peers there are.
//   - An answer counts only with the nonce of a question that waits, from the address that it was sent to.
//   - What comes from the network is any bytes: it decodes to a Message or is dropped.
package hello
