// Package tokyo is the remote memory that Kunisawa's network interface has for processes (thesis,
// University of Tokyo, 1997, chapter 3), on the windows of
// package rma. A process has memory that others name by network addresses: the number of a node and
// a virtual address there. Who is to write, read or change a process's memory needs its access ID,
// and gets that for his own (sections 2.1 and 3.1).
//
//	address.go    Address: node and virtual address in one word of 64 bits
//	process.go    Open: a process's memory and access ID
//	introduce.go  Introduce: two processes exchange their access IDs
//	access.go     Write, Read, Add, CompareSwap; Quiet
//	multicast.go  Join, Leave, Multicast: what is sent once and goes from member to member
//
// The journey of an access. Open exposes the process's segment as a window whose addresses are the
// process's own virtual addresses; the window's key is the access ID. Introduce sends the process's
// access ID to another, in a message, and brings back that one's: nobody gets one without giving
// one. An access takes the node from the address, and the access ID that this node gave, and is an
// operation on that window. The receiver's card compares the ID and says no where it is another;
// the card that sends writes into each packet which node it is from, which no process can falsify
// (section 3.1). The process there has no part in it, and need not run.
//
// Rules:
//   - A write says nothing: it is there some time later, and after Quiet for certain, or Quiet has
//     the error. Reads and atomic operations wait for their answers; those that were issued before
//     may still be under way: Quiet orders them.
//   - A write of up to 64 bytes may lie anywhere. A longer one lies in the process's own memory and
//     stays as it is until Quiet. What is read goes into the process's own memory.
//   - Introductions are answered whenever the process lets its card run here, in Poll and whatever
//     waits. Options.Accept decides whom; the other has ErrRefused.
//   - An access ID is good until its process closes its memory or ends. Then accesses fail with
//     rma.ErrKey, and this process forgets the ID, so that it can introduce itself to whoever is
//     the node afterwards.
//   - Introductions are messages of one type, Options.Type, at both levels. What else arrives in
//     the receive queues goes to Options.Others.
//
// A Process belongs to one goroutine, that of its interface; it has none of its own, and no clock.
// A context has one Process.
package tokyo
