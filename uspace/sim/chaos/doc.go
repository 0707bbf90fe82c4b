// Package chaos runs random programs on a simulated cluster where every kind of fault happens.
// After every event it checks that the network keeps its promise. Each message that a card accepted
// is delivered exactly once, or reported failed and then delivered at most once. No message is
// delivered to another group or node, or damaged. Nothing gets stuck.
//
// The journey of a scenario. From the scenario's seed plan.go draws the cluster, the work of its
// processes and the faults; network.go draws the network, Ethernet or Arctic. Each has a stream of
// random numbers of its own, so leaving out one kind of fault leaves everything else as it was. How
// large the cluster is and which kinds of faults it has is given, or drawn from the seed as well
// (shape.go). run.go builds the world and runs it. program.go is the program of a process,
// operation by operation, and transfer.go its XFER operations. oracle.go keeps a record of every
// message and compares; memory.go does so with the memory that cards read and write. arena.go says
// which part of that memory belongs to which transfer. When the faults are over the network is
// fair: everything must then be accounted for, and the cluster fall silent, with no frame under
// way, no cache line taken and no timer set. A scenario that fails is made smaller by shrink.go
// until what is left is fit for a person; many.go runs many seeds on all processors.
//
// Some kinds are not faults but ordinary operation. Contexts are switched out and in again; jobs
// end and others take their GIDs. Programs change the size of their queues under traffic, and
// transfer memory. They use all protocols of package rats beside everything else (rats.go,
// conversation.go). They operate on each other's windows (windows.go), and send along chains that
// cross each other (chains.go). Each of these kinds can be left out, as each fault can.
//
// A job ends on one card after the other, and the next begins likewise, so that for a time
// both have the GID; each has a tag of its own. A message, a notice or a word of memory that
// comes from one job to another is misdelivered, whatever its node.
//
// Direct cards are of several jobs, one of each node, on hosts that the seed draws, and the network
// is a switch as that of direct ports (sim.Switch, gates.go): a card's frames must be such as its
// port lets pass. With Ports a life of a card may begin on another host, hosts hear of that late,
// and funids stop: what goes to a place that is none any more is lost. A job's end is that of its
// ports, and the next has ports, a tag and a key of its own. With Notices funids tell who has ended
// and who lives (notices.go). A card gives up at once whose end it is told of, and nobody who lives
// and is vouched for.
//
// The check of a transfer relies only on the ABI, not on how a card cuts the transfer up. Its
// source stays unchanged until its slot is retired, and is overwritten in the event after that. At
// its notice the destination equals the source as it was sent, also if the receiver has died and
// returned meanwhile: then the transfer reaches one of the two lives or fails. A transfer that
// fails may leave part of its data at its destination, and nothing anywhere else. A transfer that
// asks for memory that is not registered, or has an impossible length, comes back for that reason.
//
// Messages of a process that has died, and messages that were under
// way to it, may be lost. They are still delivered at most once, and to no one else.
//
// What comes by package rats is never there before it is said to be, never twice, never out of its
// place or order, and never after its key was closed. When the network has fallen silent every
// session is complete, or its members have died or been told that it failed; and when all is
// closed, every area, credit, key slot and byte of memory is free.
//
// Operations on a word of a window are in an order that their answers force, that real time
// permits, and that ends with what memory holds. A put is whole when it is complete, nobody has a
// lock that another has, and no byte of a closed window changes, nor any beside one. The search for
// that order is bounded; a word for which it ends early is counted as undecided (linearize.go).
//
// What is sent along a chain comes to each member once at most. Who sent it hears once what it has
// come to: to all, or at which members the chain is broken.
//
// A scenario is a value; Run may be called from any goroutine.
package chaos
