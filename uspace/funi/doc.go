// Package funi is FUNi's programming interface (thesis chapter 3): the memory
// that a process and its card share, and nothing else. It is the one ABI.
//
// A context shares two regions with its card. The register page holds the sixteen registers of
// thesis 3.1.2 and the return ring. The queue memory holds four queues (reply send, request send,
// reply receive, request receive) of 2 to 65,536 slots of 32 words each.
//
// The journey of a message: the process reserves the head slot of a send queue, writes header and
// payload in any order, and makes it visible by storing the new head index (Interface.Reserve,
// Commit). The card loads the head index, copies each slot once into its undelivered packet cache,
// checks it there, and stores the tail index, which gives the slot back (Card.Pending, Slot,
// Retire). The slot of a transfer of many packets comes back when the card no longer needs the
// transfer's source. On the other side the card writes a slot of a receive queue and stores the
// head index (Card.Vacant, Deliver); the process sees head and tail differ, reads the slot and
// stores the tail (Interface.Receive, Release).
//
// A slot:
//
//	word  0      header: XFER 31, type 29:21, length 20:16, node 15:0
//	words 1..21  payload
//	word  31     receive queues only: the sending node, written by the card, which
//	             vouches for it. In the thesis the program puts the
//	             sender into the message.
//
// With bit 31 the slot is an XFER request, or a notice that one has arrived: see
// Transfer for the other words. Their addresses name memory that the process has
// registered with its card: see Segment.
//
// In a send slot node names the receiver; in a receive slot it is the receiving
// node's own number (thesis 3.2.3).
//
// The register page, 4096 bytes:
//
//	0x000  sixteen registers, 64 bytes apart, in the order of Register
//	0x400  return head (card)   0x440  return tail (process)   0x444 returns lost that the process
//	                                                           knows the nodes of (process)
//	0x480  returns lost (card)
//	0x4c0  asleep (card): if bits 30:0 are n and not 0, ring doorbell n-1 after a store;
//	       if bit 31 is set, the card's thread sleeps: wake it (Memory.Wake), and take
//	       the bit away first by a compare-and-swap if once is to be enough
//	0x4c8  why MERR is set, an arctic.Reason (card)
//	0x4d0  version of the ABI (card)
//	0x4d8  wake (process): bit 0: wake the process at the next change of what Published
//	       says; the card clears it when it does. Bit 1: count writes of others, too
//	0x4e0  gone (card): not 0: the card has detached the context
//	0x4f0  looks (process): 1: it looks at Doorbells.Sleeps when it rings
//	0x500  why (card), 256 bytes: a text that ends with a zero byte, written before gone; empty:
//	       the process asked for it, or the card has ended
//	0x600  notification head (card)   0x640  notification tail (process)
//	0x680  key slots, 0x688 areas, 0x690 notifications (card): how many of each the context has;
//	       see remote.go
//	0x6a0  operations completed (card), 64 bits; see operation.go
//	0x6a8  writes of others into the process's memory (card); see written.go
//	0x6ac  of the returns lost, those of operations and multicasts (card); see operation.go
//	0x6c0  64 words that say for which nodes returns were lost, by their numbers modulo 64 (card);
//	       see lost.go
//	0x7c0  trigger (process)   0x3a0  answer (card)   0x7c8  1: issues by triggers (process)
//	0x800  64 returns of 32 bytes: reason, level, header, first payload word
//
// CNTL is the one register that both write. The process stores CSQM and CRQM, with a
// plain store; the card replaces what it has seen by the same modes with the status
// bits, and only if nothing else was stored meanwhile. So a store removes the status bits,
// and they come back when the card has seen the store: a ready bit is never an old one.
//
// Changing queues (resize.go): set CSQM or CRQM or both, wait for CSQR and CRQR, write
// Q_MASK, BASE, HD and TL, and clear the modes. CSQR waits for transfers of many packets
// that have begun, as their slots are in the queue. Start, Resize and VirtualQueue do it.
// At start-up, when both ready bits are set, store return head in return tail: the returns in
// the ring belong to an earlier life.
//
// The differences from the registers of thesis 3.1.2, because a card cannot see a write to memory:
//   - HD and TL are zeroed by whoever writes BASE (Interface does), not by the card. The
//     card takes over geometry and indices when the mode is cleared, and checks and
//     masks them then.
//   - A register written without its mode set has no effect until the mode is next
//     cleared, where the thesis calls it unpredictable.
//   - Queues that do not lie in the context's memory set MERR, with a reason, for that
//     context alone, whose queues stay halted until the owner of the card clears MERR.
//     In the thesis the memory management of the workstation prevents that.
//   - The card publishes privileged bits, GID and TICKET in the page, and ignores what a
//     process stores there. Bits that are not modes vanish at the next store
//     of the card; GID and TICKET stay overwritten until the card publishes them again. The
//     privileged page is the owner's handle, engine.Context.
//   - BASE is an offset into the queue memory, not a virtual address.
//
// A doorbell page is shared by the processes of one user, or by all contexts of a card that runs
// within their process: see Doorbells. Contexts from NearBells on have theirs behind it: see
// FarDoorbells.
//
// With bits 31:30 = 01 a slot of a send queue is a request block for remote memory. See remote.go
// for the block, and for the notification ring, which is behind the queues. See operation.go for
// the blocks of operations on windows, multicast.go for those of multicasts, path.go for those of
// ends of paths, and send.go for those of messages into receive rings and posted buffers.
//
// When process and card are two processes they map the two files of shared.go. A C program does so
// with funi.h, which a test compares with this package. Package libfunet is for programs
// in C that want packages funet, rma and collective.
//
// Rules:
//   - A queue is empty when head equals tail and full when head is just before
//     tail: a queue of N slots holds N-1 packets (thesis 3). The process waits when
//     a send queue is full; the card rejects packets when a receive queue is full.
//   - Each index has one writer. The writer stores it with release order after
//     the slots that it covers; the reader loads it with acquire order. Go's
//     sync/atomic gives both, and stores are the most expensive part (about 9 ns on
//     amd64), so both ends keep private copies and store once a batch.
//   - The card keeps a private copy of everything that it wrote and never reads it back. The
//     process may overwrite what the card reads at any time. So the card loads each word once,
//     masks indices and checks headers.
//   - Registers are 64 bytes apart where the thesis packs them at four (bits
//     6:2 of the page offset): here two cores share them, and neighbours in a cache
//     line would cost each poll a cache miss.
//   - The return ring holds packets that could not be delivered. When its 64
//     entries are full, further returns are only counted in returns lost.
//
// An Interface belongs to one goroutine at a time, and so does a Card; the two
// may run on different cores.
package funi
