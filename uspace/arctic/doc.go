// Package arctic has the packet and frame format of FUNet.
//
// A packet is an Arctic packet (thesis 1.2.2, 5.2.2, 5.4): at most 24 words of 32 bits, three of
// them header. A frame is an Ethernet frame with EtherType 0x88B5. It carries a train of up to 64
// packets of one source node, destination node, group and level, or one packet with a block of
// memory behind it (see Transfer). It also carries the acknowledgments of both levels. Everything
// after the EtherType is little-endian: payload words are then plain memory copies on every machine
// that FUNet runs on, and big-endian machines still agree because nothing here is read except
// through a byte order.
//
// The packet:
//
//	         31 30 29                  21 20       16 15                       0
//	        +--+--+----------------------------------------------------------+
//	word 0  |P |K2|                     route (30)                            |
//	        +--+--+---------------------+-----------+------------------------+
//	word 1  |        GID (11)           | length (5)|  destination node (16) |
//	        +-----+---------------------+-----------+------------------------+
//	word 2  |K1:K0|          type (14)              |     source node (16)   |
//	        +-----+---------------------------------+------------------------+
//	word 3..23    payload, 0 to 21 words, as many as length says
//
// P is the priority level: 0 request, 1 reply. K2:K0 is the kind of packet, see Kind. Seven kinds
// have a meaning: KindMessage, KindTransfer (see Transfer for its payload), KindRemote (see Remote
// and WindowRequest), KindResponse (see Response), KindSend (see Send), KindMulticast (see
// Multicast), KindForward (see Forward) and KindExtended (see PathPacket). A card answers a type of
// KindExtended that it does not know with ReasonUnknownKind. Types are 9 bits wide at FUNi's
// programming interface (thesis 3.2.2) and 14 bits in the later conference paper; the wire has room
// for both.
//
// The frame, offsets in bytes from its first:
//
//	 0  destination address (6)
//	 6  source address (6)
//	12  EtherType 0x88B5, in network order (2)
//	14  version, 6, or 7 (1)            15  flags (1): level, hello, bye, block, sealed,
//	                                        readable, defer
//	16  length (2): bytes from offset 14 to the end of the last packet or the block;
//	    what follows is Ethernet's padding
//	18  GID (2), upper five bits zero
//	20  route (4), upper two bits zero: the destination card, by which a modelled network routes
//	    (package sim)
//	24  source card (2)                 26  destination card (2)
//	28  packets (1)                     29  rejects (1)
//	30  age (2): sequence minus the sender's lowest unanswered sequence
//	32  epoch (8)
//	40  sequence (4)
//	44  request acknowledgment (4)      48  request selective bits (8)
//	56  reply acknowledgment (4)        60  reply selective bits (8)
//	68  tag of the packets' job (8); zero without packets, in version 6
//	76  CRC-32C (4) of bytes 14..75 and 80..end; of a sealed frame the lower half of its counter
//	80  rejects, 16 bytes each
//	    then packets, each as many words as its header says
//	    then, with the flag, behind a single transfer packet of form Block, or a remote write,
//	    response or send with a block, its block: a positive multiple of 16 bytes
//	    then, of a sealed frame, its authentication (16) and the upper half of its counter (4)
//
// A reject answers one earlier frame of the receiver's:
//
//	0  sequence (4)   4  level (1)   5  reason (1)   6  zero (2)
//	8  bits (8): bit i set means packet i of that frame was rejected
//
// Its reason is 1 to 127: 0 would reject nothing, and those from ReasonLocal up never travel.
//
// Sequence numbers name frames of one pair of cards and one level, not of a pair of processes
// (design idea 4, uspace/DESIGN.md). An acknowledgment a with selective bits m says that every
// frame before a has been answered for good, and that frame a+1+i has where bit i of m is set. A
// frame in which a packet was rejected is never covered by an acknowledgment. Only the reject
// itself answers it, so a retransmission asks again for a reject that was lost. Age tells the
// receiver below which sequence the sender will never ask again.
//
// A GID says which group a packet is for. On another host, any user who may use that number can
// send with it. The tag says which job a packet is for. It is a keyed hash of the job's token and
// GID (JobTag), the same on all hosts of the job. A card delivers nothing of a frame unless its tag
// is that of the receiving context. Rejects, acknowledgments, greetings and byes are between cards
// and belong to no job, whatever the tag of their frame. Neither the NIC program nor a switch looks
// at the tag.
//
// Frames of version 7 are direct: their cards are the nodes of one job, each with a port of its
// own. They are like those of version 6, but all of them have the tag, greetings and
// acknowledgments too, and card numbers are node numbers. So a program between two ports can tell
// the sender and the receiver from each frame. Cards of the two versions do not meet.
//
// Two cards that share a key exchange sealed frames (package link). A sealed frame's
// authentication, AES-GCM's tag, covers everything from offset 14 on, and takes the place of the
// checksum. Everything from offset 80 on is encrypted, unless the flag readable is set: then any
// listener can read it, as in a frame that is not sealed. The counter names the frame and, with its
// upper half, the key. No two frames with one key have the same counter, although a frame that is
// sent again has the same sequence.
//
// The flag defer lets a switch answer a frame with packets when it knows that nobody behind it has
// the group (Header.Defer). The answer, a deferral, is the frame's header with the addresses and
// cards exchanged, without packets, age, acknowledgments and tag. It settles nothing: the frame is
// still to be answered by its receiver, and its sender sends it again after a while. Sealed frames
// and frames of version 7 never have the flag.
//
// A frame with the hello flag carries a greeting (Greeting) and nothing else, and is never sealed:
//
//	 80  nonce (8)                       88  echo (8)
//	 96  number (8)
//	104  incarnation (4)                108  longest frame in bytes (4)
//	112  flags (4): asks, authenticated, readable, defers
//	116  which key (4); 0 without
//	120  authentication (16) of bytes 14..75 and 80..119 with that key; 0 without
//
// Neither its nonce nor its incarnation is 0.
//
// Encoding and decoding are pure: no allocation, no state, safe from any
// goroutine on distinct buffers. Parse accepts any bytes and never reads outside
// them; once it has accepted a frame, all accessors are in range.
package arctic
