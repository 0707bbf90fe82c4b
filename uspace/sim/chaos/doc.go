// Package chaos runs random programs on a simulated cluster in which everything goes
// wrong, and checks after every event that the network keeps its promise: each message
// that a card accepted is delivered exactly once, or reported failed and then delivered
// at most once; never to another group or node, never damaged; nothing gets stuck.
//
// The journey of a scenario: plan.go draws from its seed what the cluster is like,
// what its processes do and what goes wrong, each from a stream of random numbers of
// its own, so that leaving out one kind of fault leaves everything else as it was.
// run.go builds the world and lets it happen; program.go is the program of a process,
// operation by operation; oracle.go keeps a record of every message and compares.
// When the faults are over the network is fair: everything must then be accounted for,
// and the cluster fall silent, with no frame under way, no cache line taken and no
// timer set. A scenario that fails is made smaller by shrink.go until what is left is
// fit for a person; many.go runs many seeds on all processors.
//
// Two kinds are not faults but things that a system does: programs change the size of
// their queues under traffic, and contexts are switched out and in again. They may be
// left out like the others.
//
// What is excused: the messages of a process that has died, and those that were under
// way to it. They are still delivered at most once, and to no one else.
//
// A scenario is a value; Run may be called from any goroutine.
package chaos
