// Package virtni is the virtualised network interface of Froening's thesis (chapters 2 to 4), under
// the thesis's names, over triggers (package funi) and remote memory (package rma). A port is one
// virtual process identification (VPID): a context of a card with a work queue, a notification
// queue and a trigger line, which only its process can use. Many thousands of ports share a card,
// and none needs a lock to issue work.
//
//	port.go          Open, Issue, Pointers, Quiet, Until
//	instruction.go   VCI; Put, Get, FastPut, FastGet, MisalignedPut, FetchAndAdd, CompareAndSwap
//	send.go          Send, FastSend; OpenReceive, OpenPosted, Post, Release
//	barrier.go       Barrier
//	window.go        Window, Target; Lock, TryLock, Unlock
//	notification.go  Notification, Wait
//	codes.go         Command, Code, Error: the thesis's numbers
//
// The journey of an instruction. The process fills in a VCI and composes it, which writes one slot
// of the work queue. A trigger issues up to 31 of them (Issue). The card answers in the same line
// how many it has accepted, so a process hears at once of a card that has no room, and the others
// stay in the queue. The card retrieves what it has accepted, sends it, and the target's card
// checks window, capability, rights, lock, range and alignment before it carries it out. A
// notification with the instruction's number and tags tells the origin; the target's process is
// told if the origin asked for that (VCI.Notify). What went wrong has an error code of the thesis
// (Code).
//
// A message (Send) names a port and no memory. The target's card puts up to 5 words of 64 bits into
// the notification, and more into the receive ring or the next posted buffer, as the target's
// process has said (OpenReceive, OpenPosted).
//
// Rules:
//   - A composed instruction does nothing until it is issued. Every call that waits issues what was
//     composed. Instructions are issued in the order in which they were composed, and are not
//     ordered after that, but for VCI.Ordered.
//   - An instruction that the port can see to be wrong is refused when it is composed. The thesis
//     reports that in a notification.
//   - Puts and gets are of words of 64 bits, at multiples of 8. A misaligned put writes any bytes
//     of one word, in one packet, and never reads the word back.
//   - A put without VCI.Ack makes no notification. Its failure is the error of Quiet, as in package
//     rma, whose rules about memory, windows and failures hold here.
//   - The notification queue has as many entries as the context was attached with
//     (funi.RemoteSizes). A process that does not take its completions can compose no more
//     (ErrUnread), so none is lost. Notifications that it has taken are given back to the card by a
//     trigger while a call waits.
//   - Messages, too, come in any order without VCI.Ordered. A message waits at its sender while the
//     target has no room for it. Room comes back when the process posts a buffer, releases what is
//     in the ring, or takes notifications.
//   - A barrier is complete when all its members have reached it; each then gets one notification.
//     A member that dies first leaves the others waiting, until drive ends their wait. A process in
//     its place that did not pass the barriers before is refused, and releases nobody. A process
//     that waits at a barrier is not moved to another card.
//   - An error is an *Error, which has the thesis's code, the card's reason, and package rma's
//     error. The thesis has no code for a locked window, and nothing here has physical addresses,
//     so codes 15 and 16 come only from a wrong descriptor.
//
// A Port belongs to one goroutine. Nothing here has a goroutine or reads a clock, so ports run in
// virtual time (package sim), on a card of the process's own, and on a daemon's.
package virtni
