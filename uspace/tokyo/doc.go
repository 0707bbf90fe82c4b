// Package tokyo is the remote memory that Kunisawa's network interface has for processes (thesis,
// University of Tokyo, 1997, chapter 3), on the windows of package rma. A process has memory that
// others name by network addresses: the number of a node and a virtual address there. To write,
// read or change another process's memory, a process needs that one's access ID, and gets it in
// exchange for its own (sections 2.1 and 3.1).
//
//	address.go    Address: node and virtual address in one word of 64 bits
//	process.go    Open: a process's memory and access ID
//	introduce.go  Introduce: two processes exchange their access IDs
//	access.go     Write, Read, Add, CompareSwap; Quiet
//	multicast.go  Join, Leave, Multicast: what is sent once and goes from member to member
//
// The journey of an access. Open exposes the process's segment as a window whose addresses are the
// process's own virtual addresses. The window's key is the access ID. Introduce sends the process's
// access ID to another process in a message, and brings back that one's, so no process gets an ID
// without giving its own. An access is an operation on the window of the address's node, with the
// access ID that this node gave. The receiver's card compares the ID, and refuses the access if it
// differs. The sender's card writes its node into each packet, which no process can falsify
// (section 3.1). The process there has no part in the access, and need not run.
//
// Rules:
//   - A write reports nothing. Its data arrive some time later, and at the latest by the end of
//     Quiet, which returns the error if there was one. Reads and atomic operations wait for their
//     answers. Writes issued before them may still be under way; Quiet orders them.
//   - The data of a write may lie anywhere if they have up to 64 bytes. Longer data must lie in the
//     process's own memory and stay as they are until Quiet. A read goes into the process's own
//     memory.
//   - Introductions are answered whenever the process lets its card run here: in Poll and in every
//     call that waits. Options.Accept decides which nodes are accepted; a node that is not gets
//     ErrRefused.
//   - An access ID is valid until its process closes its memory or ends. Then accesses fail with
//     rma.ErrKey, and this process forgets the ID. So it can introduce itself to the node's next
//     process.
//   - Introductions are messages of one type, Options.Type, at both levels. Other messages in the
//     receive queues go to Options.Others.
//
// A Process belongs to one goroutine, that of its interface. It has no goroutine of its own, and no
// clock. A context has one Process.
package tokyo
