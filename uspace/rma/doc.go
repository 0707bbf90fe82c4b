// Package rma provides one-sided operations on the memory of other processes, as RDMA verbs,
// OpenSHMEM and MPI windows do: put, get, atomics, locks, puts with a signal or a notification
// (Tokyo, sections 2.2 and 3.3). The cards carry them out. The process that owns the memory takes
// no part, and may sleep.
//
//	endpoint.go   Endpoint, windows: Expose, Revoke, Suspend, Resume
//	operation.go  Put, PutNow, Get, Apply, CompareSwap
//	lock.go       Lock, TryLock, Unlock
//	send.go       Send, OpenReceive: messages to memory that the receiver has named
//	multicast.go  Join, Leave, Multicast, StartMulticast: chains
//	ready.go      Ready: a window that its owner has yet to expose
//	complete.go   Poll, Next, Wait, Quiet, Fence; notifications of others' puts; Until
//	error.go      what fails, and why
//
// The journey of an operation. The owner of memory exposes it as a window: a key, an address of the
// owner's choice for its first byte, and rights. It passes these three to other nodes by any means.
// They name bytes of the window by a Target: node, key and address. An operation on a target is a
// request block in the send queue. The card sends it, and the target's card checks key, rights,
// range, lock and alignment. Only then that card carries it out, once, even if the network loses or
// duplicates frames. The answer goes back to the requesting card, which writes data of a get
// straight into memory. Then it tells the process by an entry in the context's notification ring,
// which Poll reads.
//
// Rules:
//   - An operation is complete once. Either it was carried out, or its Error says why not. After a
//     failure that Doubtful reports it may have been carried out, because the peer was lost while
//     it owed the answer.
//   - An operation on a window that its owner has not yet exposed fails at once (ErrKey); Ready
//     waits for the window.
//   - When more operations are returned than the return ring holds, the card counts the rest. They
//     are identified once the card has no other operations, and no further operation leaves until
//     then. Each fails with an Error without a reason; it was not carried out.
//   - Operations are not ordered, even to one node; Fence, Wait and With.Ordered order them. The
//     trailer of a put, its signal or notification, takes effect when all its data has arrived.
//   - Operations on elements are atomic with each other and with the owner's own atomic
//     instructions. Puts and gets are plain bytes: a read during a write may see a part of the
//     write.
//   - A window with Options.Counts counts the operations of others that ask for it (With.Count),
//     each once, also if frames are lost or come twice. That takes no room in the notification ring
//     and no credit. It tells how many, not which; an operation that its sender takes for failed
//     may have counted if the failure is Doubtful.
//   - Puts and operations that need no answer are silent by default: completions are counted, and
//     only failures are reported. Quiet waits for all operations and returns the first failure.
//     With.Ack makes a put report its completion. All other operations have an ID to wait for,
//     unless With.Silent makes them silent.
//   - The memory of a long put must not change until the put is complete. The memory of a get must
//     be left alone until the get is complete.
//   - A key consists of 48 random bits and the number of a key slot. Any holder of a key may do
//     what the window permits. After Revoke returns, no byte changes.
//   - A window need not be present all the time (Suspend, Options.Absent). Operations on an absent
//     window wait; the first one notifies its owner, which brings the window back (Resume). An
//     owner that does not delays the others for a bounded time, after which they get ErrAbsent.
//   - A process that waits for other nodes to write a word of its memory waits in Until, not in a
//     loop of its own. Nothing else tells it of a put without a notification. So a loop that only
//     drives sleeps on after the put has arrived. A loop that never sleeps takes a processor from
//     the daemon.
//   - An operation's resources on the card are taken when it is issued; if there is no room, the
//     call lets the card run until there is. Everything that waits ends with the error of the drive
//     function.
//   - Tables are bounded. funi.RemoteSizes of the context gives the number of windows and of ring
//     entries, and at most 1,024 operations are in flight. A process that does not Poll delays its
//     own operations, and the puts with notifications that it gave credit for.
//
// Chains: one message or put reaches many nodes, from card to card. The sender sends one copy and
// learns the outcome (Multicast; funi/multicast.go). example and example/chain are programs.
//
// An Endpoint belongs to one goroutine, that of its interface. Nothing here has a goroutine or
// reads a clock, so the package runs in virtual time (package sim) as well as on a card of its own
// or a daemon's. Package funet provides one Endpoint for all goroutines of a process, beside
// messages (funet.Endpoint.Windows). Package rats may use another context of the process.
package rma
