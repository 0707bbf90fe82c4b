// Package engine is the card: FUNi (thesis chapter 5) as a deterministic state machine. It owns no
// goroutine, clock, socket or lock. Its owner calls Step with the time; the card looks at its ports
// and contexts, does a bounded amount of work, and says when it next wants to run. The same code
// runs on AF_XDP and in virtual time. uspace/DESIGN.md explains this and the other design ideas,
// which comments cite by number.
//
// A Card is made of units. Each has pointers to the units that it works with, and to no other
// (Card.connect in card.go):
//
//	clock       the time, and when something is due (clock.go)
//	contexts    the table of contexts, their sets of the cache, their ends (context.go, life.go)
//	scheduler   the contexts that a step visits, the shares of accounts, and what is issued by
//	            triggers (wake.go, account.go, trigger.go)
//	doorbells   the pages at which processes ring (wake.go)
//	routes      groups and route tables. A look-up returns a context or a reason (route.go)
//	retrieval   from send queues to lines, the link, and contexts of this card
//	delivery    from frames to queues and memory, and the answer to each frame
//	remoteUnit  remote writes, operations on windows, multicasts, and their answers
//	moves       the signs of contexts that have moved (forward.go)
//	ultra       the ends of paths, and the lines on them (ultra.go, ultrapath.go)
//	model       the units of a modelled machine, which take time
//
// A packet on its way out passes these files:
//
//	retrieval.go  copies a slot of a send queue once into a line of the
//	              undelivered packet cache, in wire format, and checks the copy
//	packetise.go  does the same for XFER, whose data is in the process's segments
//	              (segments.go), and for long transfers packet by packet. With Config.Blocks a
//	              line holds no data but its place in the source: a block, as long as a frame has
//	              room for
//	transfer.go   has the states of a long transfer, whose last packet is sent when all others are
//	              acknowledged
//	cache.go      has the lines, and TICKET, the bitmap of free ones; the last lines
//	              are for replies only (thesis 5.2.4)
//	link          sends lines as trains, repeats them until they are answered, and hands each back
//	              once. Package link is reliability between cards, and has a page of its own
//
//	aside.go      sets a long write aside whose peer is slow, before it has taken all lines
//	late.go       copies the rest of writes that are not answered, so that they stop no other work
//
//	remote.go     does the same as retrieval.go for request blocks of remote memory
//	              (funi/remote.go): writes become packets, other blocks are carried out at once
//	request.go    does the same for operations on windows. It has the records of operations whose
//	              process waits for their completion
//	page.go       ends their packets at the ends of pages (Config.RemotePage)
//	chain.go      does the same for multicasts
//	send.go       does the same for messages whose receivers have named the memory for them
//	ledger.go     notes which members of a chain have a multicast, as far as reports have come
//
// A packet on its way in passes these:
//
//	link          checks a frame, takes its acknowledgments and drops duplicates
//	preprocess.go accepts or rejects each packet of a frame (thesis 5.6.2), and takes settled
//	              lines back
//	delivery.go   copies an accepted packet into the receive queue, by way of the
//	              receive FIFO only if the queue is full (thesis 5.2.3)
//	notice.go     does the same for XFER: data goes to memory, a notice to the queue. A block
//	              needs no queue, except in DRAIN mode, where it becomes parts
//	area.go       takes remote writes: every check, then memory, then the count, and a
//	              notification when the count is complete. They wait in no queue but a modelled
//	              machine's receive FIFO
//	fault.go      handles windows that are not present, and reports these and refusals
//	routemiss.go  holds packets on the way out for nodes that have no route yet
//	execute.go    takes operations on windows: every check, then a line for the answer, then the
//	              operation (atomics.go)
//	response.go   has answers, at both ends
//	receive.go    takes messages into receive rings and posted buffers, and has the room of those
//	              of many packets
//	chain.go      takes multicasts: delivers them here, then sends them on to the members behind,
//	              or answers. It has the time that a modelled machine's units take for that
//
// Natively this takes no time but the engine's own. The card of a modelled machine (Config.Timing)
// has units that work on one packet at a time, and the effect of a unit is not seen before its time
// is over. step.go has a sequence of units for each of the two cards. The units do not ask which
// card they are of. On a modelled machine every packet goes by way of the receive FIFO, and a
// context knows which of its packets are under way (Context.retrieving, Context.delivering).
//
//	units.go       the Retrieval and the Delivery Unit, each of whose bursts waits for the bus
//	heldwrite.go   the time of remote writes and request blocks there, and how accepted writes
//	               wait for the Delivery Unit
//	writetime.go   the same on a card whose packets have a time for each kind and step, as
//	               Hamlyn's; it sends blocks of remote writes
//	link/timed.go  the Dispatch Unit, the Send Queue and the Transmit Scheduler
//	receiveunit.go the Network Packet Preprocessor
//	operateunit.go the Operation Unit, which moves the data of operations on windows, and of
//	               answers, over the bus before they are accepted
//	windowentry.go the entries of window tables that the card holds, and how it fetches others
//
// keyslot.go is what a process has opened for others: key slots, which may be windows, and areas.
// remoteuse.go says how much of it there is, and which accesses were refused.
//
// Beside them:
//
//	context.go  attaches processes and ends them
//	control.go  CNTL and the privileged registers
//	switch.go   takes a context off the card and puts it back (thesis 4.2)
//	move.go     takes a context to another card, by way of image.go
//	forward.go  the sign that a context leaves behind when it has moved
//	account.go  divides a step among users
//	route.go    the groups and their route tables
//	life.go     tells a context from the one that had its node before
//	wake.go     decides which contexts a step looks at
//	trigger.go  answers triggers, and is the conditional store buffer
//	barrier.go  barriers of a group's nodes
//	numbers.go  gives out numbers of doorbells and owners
//	clock.go    has the time of a step, and the deadlines
//
// The owner of a context is the program that holds the card: the operating system of the thesis.
// Load and Store are the context's privileged register page:
//
//	PowerUp, SetTag, Store GID, TICKET, CNTL   start-up (thesis 3.2.1); Attach does all of it
//	Store CNTL: CTXM, DRAIN, RESET             modes; clearing MERR
//	SwitchOut, SwitchIn                        appendix B
//	Arrive, Export, Told, Home, Import, Stay   a move to another card (Tokyo, section 2.2.1;
//	                                           move.go)
//	Detach                                     the end
//
// An owner that serves other processes, and sleeps when there is nothing to do, also uses:
//
//	Doze, Rouse      sleep (bit 31 of the asleep word)
//	TakeCalled       the contexts whose processes to wake
//	Dismiss          tells a process that its context will go
//	Abandon          ends a context whose process's memory has failed
//	Doorbells        a page for the processes of one user
//	Saved.Live       processes that go on while their contexts are switched out
//	Expect           members of a group that come later
//	Config.AnyGroup  groups that come and go
//
// In peers.go the card's owner names other cards, observes frames, and tells a direct card which of
// the others have ended (Ended, Lives).
//
// Rules:
//   - Exactly once: the promise of package link about frames holds for packets. The line of a
//     packet is freed by an acknowledgment, or by a permanent reason that is returned to the
//     process; by nothing else.
//   - A packet that was rejected because the receive queue was full travels again. Only other
//     packets from the same process to the same node wait with it. So one slow process never holds
//     up the sequence that others share.
//   - A data frame is answered also when its group is not here, or when the route table puts its
//     source on another card. No packet of such a frame is delivered.
//   - Reply before request, acknowledgment before data.
//   - Full queues. No free line: slots stay in the send queue. All records of long transfers taken:
//     their slots stay in the send queue. Receive FIFO full: packets are rejected and stay in the
//     sender's cache. Return ring full: returns are counted. The notification ring has an entry for
//     each credit of the areas. A write whose area has no credit left is rejected and stays in the
//     sender's cache, or comes back if the area was opened so. Lines of a chain in use: a multicast
//     along the chain is rejected and stays with the member before, and stops no other chain. No
//     credit, room or buffer for a message: it is rejected and stays in the sender's cache. No
//     route: the packet keeps its line, for ConnectTimeout at most, if the card's owner says so
//     (routemiss.go). News of a sign waits for lines of its own. It tells at most as many as there
//     are cards and moved nodes.
//   - A transfer touches only memory that both ends registered. The source is checked at retrieval
//     against the sender's segments, the destination at delivery against the receiver's. A transfer
//     that fails either check comes back to the sender, whose fault it is.
//   - The notice of a transfer is for the process that got all of it. A transfer that began before
//     its receiver was attached, and may have come in part to another process, is rejected for good
//     with ReasonReplaced and returns whole (life.go).
//   - The source of a transfer is read until its slot is retired and at no other time. A slot is
//     retired when every block is acknowledged or given back (transfer.go). Before a context is
//     switched out its blocks in the cache are copied, a bounded number of bytes in a call. When a
//     context ends its blocks in flight are sent again without data, if at all.
//   - A context belongs to a job, which its tag names (Attach, SetTag, arctic.JobTag). Packets of
//     the context carry the tag, also when they are sent again after the context has gone or was
//     RESET. Packets with another tag, on the wire or from a context of this card, are rejected for
//     good with ReasonJob before any other check. None is delivered, whether the context is here,
//     away or expected, and in any mode. Acknowledgments, rejects, greetings and byes are between
//     cards and count whatever the tag.
//   - A context in context-switch mode, or switched out, rejects packets for it with
//     ReasonSwitching, which is transient: peers try again until the context is back. Packets for a
//     node that has no context, or whose context was detached, are rejected for good. Packets for
//     the system group are rejected as if it were switched out (Config.SystemEvent). So are packets
//     for a node that is expected, until ConnectTimeout after the first of them (Expect).
//   - A context that has moved to another card leaves a sign, which rejects packets for it with
//     ReasonMoved. That is transient: the sender's card looks its route up anew at each try, and
//     only the card where a node is can say where it is now. Each packet is accepted by one of the
//     two cards, once. A context that leaves has nothing under way, and one that arrives rejects
//     every packet until its image is there (forward.go, move.go).
//   - The cost of a step depends on the traffic: contexts that are quiet sleep, and are woken by a
//     doorbell, a packet or their owner. A step's work for one account is bounded in bytes. The
//     packets of one account wait for a bounded number of bytes of each other account, however many
//     contexts, groups and nodes that has (account.go, link/turn.go). Work that ends with a context
//     takes many steps. Each user has a page of doorbells. A step looks at 8 of the pages that have
//     sleepers, in turn, whatever others do.
//   - A load or store in a process's memory may end a step in the middle, if the card's owner
//     recovers from the panic. All but that context goes on (abandon.go).
//   - An observer (peers.go) sees every frame, and the step waits for it. tally.go counts what each
//     context has moved. A tracer (trace.go) records one in a number of the packets of the contexts
//     that it follows.
//   - Words that the process can write are read once, into a line, and checked there.
//   - Nothing on the data path allocates in the steady state. A context that is attached after
//     frames have come keeps 24 bytes for each card that sent some.
//
// A Card and everything it returns belong to one goroutine.
package engine
