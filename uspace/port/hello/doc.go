// Package hello lets cards find each other, and lets one card ask another whether it is there.
// Hellos are short frames between cards, not between processes. They go through the ports as all
// frames do.
//
// The journey of a question: a Station sends it by one of its ports. At the other end the NIC
// program (package bpf) hands the frame to the socket of its receive queue, the card's thread takes
// it from there, and the Port sifts it out before the engine sees it. The Station of that card
// answers at once. So an answer proves the whole way: program, fill ring, socket, thread and
// transmit ring, at both ends.
//
//	question      to one card: who are you? By turns to every peer, and when somebody asks (Ask).
//	answer        to the asker, with the nonce of the question and no longer than the question
//	announcement  to everybody on the segment, by a station that discovers; and to each peer by
//	              turns, by a station whose time counts for turns of groups (Config.Clock)
//	goodbye       to everybody on the segment, by a station that ends
//
// Discovery: a station that discovers (Config.Discover) announces itself a few times soon after its
// start, and then every few seconds, at random within bounds. A station that hears an announcement
// or a question of an unknown card of its cluster asks that card, and only an answer makes the card
// a peer (Found). So a forged announcement in another's name makes nobody a peer. A peer that was
// found stays, however silent it is. Only its goodbye, or another card's claim to its number, may
// end that. Even then the peer stays if it answers a question about that. A message about another
// card is a reason to ask, never to believe. Hellos have no key yet: a host on the segment can pose
// as a card of any number that is free, or whose owner does not answer. Discovery trusts the
// segment, and is off by default.
//
// A contradiction is a Fault: a number that two cards have, another cluster, another version of
// FUNet's frames, another length of the longest frame.
//
// The first 28 bytes of a hello are laid out as those of all of FUNet's frames (package arctic), so
// that ports need not know more. Its version is 255, which no other frame has, and stays the same
// for all versions of FUNet: later fields are added at the end, and older stations ignore them.
// Little-endian but for the EtherType; offsets count from the Ethernet header on.
//
//	 0  destination address (6)           6  source address (6)
//	12  EtherType 0x88B5, in network order (2)
//	14  version, 255 (1)                 15  way (1): where frames travel in datagrams, among
//	                                         which source ports to choose
//	16  length (2): bytes from offset 14 to the end, at least 106
//	18  kind (1)                         19  flags (1): bit 0 the sender is a card, bit 1 it
//	                                         discovers, bit 2 it tells a time
//	20  incarnation (4)                  24  source card (2)   26  destination card (2)
//	28  nonce (8): of an answer, that of the question
//	36  queue that the hello is sent on (2)
//	38  of an answer: queue that the question came in on (2)
//	40  longest frame in bytes (2)       42  version of FUNet's frames (1)   43  encapsulation (1)
//	44  "FUhello1" (8)                   52  CRC-32C (4) of all bytes from offset 14 on, without
//	                                         these four
//	56  cluster (32), padded with zeroes 88  host (32), padded with zeroes
//	120 with bit 2 of the flags: time in ns, by which groups take turns (8)
//
// Rules:
//
//   - A Station is a state machine: it owns no clock, goroutine, socket or lock. The owner of the
//     ports steps it with the time. Nothing that arrives makes it allocate, except a peer that is
//     found and a fault that has room.
//   - Answers have budgets (answer): one for each peer that asks and one for all peers, one for
//     each address of a stranger and one for all strangers. So strangers take nothing from peers.
//     An answer is no longer than its question.
//   - Every question that another card causes, by an announcement, a claim to a number or a
//     goodbye, has budgets as well (cause.go): for its purpose, for the peer that is asked, and,
//     except for a goodbye, for the address that causes it. These questions to a peer are so rare
//     that they never use up its answers, even when all cards of the cluster ask it.
//   - Questions by turns are at most turnsPerSecond, and times that are told at most
//     timesPerSecond, however many peers there are. A time counts only if it comes from the address
//     of a peer.
//   - The NIC program (bpf/nic.c) lets in 256 hellos of a source at once, and then one in 1 ms. So
//     a host that floods in its own name costs the card nothing more.
//   - Faults, questions that wait, and frames that wait between two steps are bounded. Those beyond
//     a bound are dropped and counted. No frame causes a log entry.
//   - An answer counts only with the nonce of a question that waits, from the address that the
//     question was sent to.
//   - The network may bring any bytes: they decode to a Message or are dropped.
package hello
