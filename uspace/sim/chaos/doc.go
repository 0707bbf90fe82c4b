// Package chaos runs random programs on a simulated cluster where every kind of fault happens.
// After every event it checks that the network keeps its promise. Each message that a card accepted
// is delivered exactly once, or reported failed and then delivered at most once. No message is
// delivered to another group or node, or damaged. Nothing gets stuck.
//
// The journey of a scenario. From the scenario's seed plan.go draws the cluster, the work of its
// processes and the faults; network.go draws the network, Ethernet or Arctic. Each has a stream of
// random numbers of its own, so leaving out one kind of fault leaves everything else as it was. The
// size of the cluster and its kinds of faults are given, or drawn from the seed as well (shape.go).
// run.go builds the world and runs it. program.go is the program of a process, operation by
// operation, and transfer.go its XFER operations. oracle.go keeps a record of every message and
// compares; memory.go does so with the memory that cards read and write. arena.go says which part
// of that memory belongs to which transfer.
//
// When the faults are over the network is fair. Everything must then be accounted for, and the
// cluster fall silent, with no frame under way, no cache line taken and no timer set. A scenario
// that fails is made smaller by shrink.go, until a person can follow it. many.go runs many seeds on
// all processors.
//
// Some kinds are not faults but ordinary operation. Contexts are switched out and in again; jobs
// end and others take their GIDs. Programs change the size of their queues under traffic, and
// transfer memory. They use all protocols of package rats beside everything else (rats.go,
// conversation.go). They operate on each other's windows (windows.go), send along chains that cross
// each other (chains.go), into each other's receive rings (letters.go), and lines on ULTRA paths
// (paths.go). Each of these kinds can be left out, as each fault can.
//
// A job ends on one card after the other, and the next job begins in the same way. So for a time
// both have the GID; each has a tag of its own. A message, a notice or a word of memory that comes
// from one job to another is misdelivered, whatever its node.
//
// Direct cards belong to several jobs, one card for each node, on hosts that the seed draws. The
// network is a switch like that of direct ports (sim.Switch, gates.go): it lets a card's frames
// pass only if they are right for its port. With Ports a life of a card may begin on another host,
// hosts hear of that late, and funids stop. A frame for a place that no longer exists is lost. When
// a job ends its ports end, and the next job has ports, a tag and a key of its own. With Notices
// funids tell which processes have ended and which live (notices.go). A card gives a peer up at
// once when it is told of the peer's end. It gives up no peer that lives and is vouched for.
//
// The check of a transfer relies only on the ABI, not on how a card cuts the transfer up. Its
// source stays unchanged until its slot is retired, and is overwritten in the event after that. At
// its notice the destination equals the source as it was sent. That holds also if the receiver has
// died and returned meanwhile: then the transfer reaches one of the two lives or fails. A transfer
// that fails may leave part of its data at its destination, and nothing anywhere else. A transfer
// that asks for memory that is not registered, or has an impossible length, comes back for that
// reason.
//
// Messages of a process that has died, and messages that were under way to it, may be lost. They
// are still delivered at most once, and to no other process.
//
// Data of package rats is never there before it is reported, never twice, never out of its place or
// order, and never after its key was closed. When the network has fallen silent every session is
// complete, or its members have died or been told that it failed. When everything is closed, every
// area, credit, key slot and byte of memory is free.
//
// Operations on a word of a window are in an order that their answers force and that real time
// permits. The order ends with what memory holds. A put is whole when it is complete. No two
// members have a lock at once. No byte of a closed window changes, nor any beside one. The search
// for the order is bounded; a word for which it ends early is counted as undecided (linearize.go).
//
// A multicast along a chain comes to each member once at most. Its sender hears the outcome once:
// that it has come to all, or at which members the chain is broken.
//
// The lines of a path come from one end to one end, once and in order. What its sender was told to
// be there is received. No end of a path outlives the other, or is left when all are closed.
//
// A message into a receive ring or a posted buffer comes once, with its bytes, to the life that it
// was for or a later one, or its sender is told. No room is given out twice, and all is free at the
// end (letters.go).
//
// A scenario is a value; Run may be called from any goroutine.
package chaos
