// Package rma is one-sided operations on the memory of other processes, as RDMA verbs, OpenSHMEM
// and MPI windows have them: put, get, atomics, locks, puts with a signal or a notification (Tokyo,
// sections 2.2 and 3.3). The cards do all of it: the process whose memory it is has no part in an
// operation, and may sleep.
//
//	endpoint.go   Endpoint, windows: Expose, Revoke, Suspend, Resume
//	operation.go  Put, PutNow, Get, Apply, CompareSwap
//	lock.go       Lock, TryLock, Unlock
//	multicast.go  Join, Leave, Multicast, StartMulticast: chains
//	ready.go      Ready: a window that its owner has yet to expose
//	complete.go   Poll, Next, Wait, Quiet, Fence; notifications of others' puts; Until
//	error.go      what fails, and why
//
// The journey of an operation. The owner of memory exposes it as a window: a key, an address of the
// owner's choice for its first byte, and rights. It tells others the three by any means. Who has
// them names bytes by a Target, of node, key and address. An operation on a target is a request
// block in the send queue; the card sends it, the card there checks key, rights, range, lock and
// alignment, and only then carries it out, once, whatever the network loses or doubles. The answer
// goes back to the card that asked, which writes what was got straight into memory, and then tells
// the process: by an entry in the context's notification ring, which Poll reads.
//
// Rules:
//   - An operation is complete once, and either was carried out or says why not (Error). After a
//     failure that Doubtful reports it may have been carried out: the peer was lost when it should
//     have answered.
//   - An operation on a window that its owner has yet to expose fails at once (ErrKey); Ready waits
//     for it.
//   - When more operations come back than the return ring holds, the card counts the rest. They are
//     known when the card has no other operation. Until then no further one leaves; then each fails
//     with an Error without a reason. It was not carried out.
//   - Operations are not ordered, also not to one node: Fence, Wait and With.Ordered order them.
//     The trailer of a put, its signal or notification, comes when all its data is there.
//   - Operations on elements are atomic with each other and with the owner's own atomic
//     instructions. Puts and gets are bytes: who reads what somebody writes at that time may see
//     some of it.
//   - Puts and operations that need no answer are silent as a rule: they are counted when they are
//     complete and told only if they fail. Quiet waits for all and returns the first failure.
//     With.Ack has a put told, too, and the IDs of all others are told or waited for, but for those
//     that With.Silent makes silent.
//   - Memory of a long put must stay as it is until the put is complete, and that of a get belongs
//     to it until then.
//   - Keys are 48 random bits and the number of a key slot. Whoever holds one may do what the
//     window permits. After Revoke returns no byte changes.
//   - A window need not be there all the time (Suspend, Options.Absent): who wants it waits, and
//     its owner is told by the first and brings it back (Resume). An owner who does not costs the
//     others a bounded time, and then ErrAbsent.
//   - A process that waits for a word in its own memory that others write waits in Until, and not
//     in a loop of its own. Nothing else tells a process of a put without a notification. So a loop
//     that only drives sleeps on when the put has come, and a loop that never sleeps takes a
//     processor from the daemon.
//   - What an operation needs of the card is taken when it is issued; when there is no room the
//     call lets the card run until there is. Everything that waits ends with the error of the drive
//     function.
//   - Tables are bounded: funi.RemoteSizes of the context says how many windows and entries of the
//     ring there are, and at most 1,024 operations are under way. A process that does not Poll
//     delays its own operations and those puts with notifications that it has given credit for.
//
// Chains: one message or put goes to many nodes, from card to card; the sender sends one copy and
// hears what it has come to (Multicast; funi/multicast.go). example and example/chain are programs.
//
// An Endpoint belongs to one goroutine, that of its interface. Nothing here has a goroutine or
// looks at a clock, so it runs in virtual time (package sim) as on a card of its own or a daemon's.
// Package funet has one for all goroutines of a process, beside messages (funet.Endpoint.Windows).
// Package rats may use another context of the process.
package rma
