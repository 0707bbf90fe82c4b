// Command libfunet is the library libfunet: packages funet and rma behind the C functions of
// funet.h, as a shared or a static library (-buildmode=c-shared, c-archive). It is no program.
//
// The journey of a call: a program in C calls a function of gate.c. That function checks that the
// process is no child of fork, gives a thread that comes for the first time a signal stack, and
// crosses into Go with numbers only. The exported Go function (send.go, call.go and so on) finds
// the endpoint by its handle (handle.go), makes a context of the deadline and the handle for
// cancellation (until.go), and calls package funet. An error becomes a code, and a text in a buffer
// of the thread (errors.go). Messages reach the program in two ways: a handler of the program runs
// within the poll (message.go), or the message waits in an inbox until funet_poll copies it into
// the program's memory (inbox.go).
//
// Rules, besides those of package guest:
//
//   - Handles are numbers of tables. C has no pointer of Go, and Go none of C beyond a call, but of
//     the request of a call and the memory of an operation until that is complete.
//   - Each exported function recovers from panics, and returns an error. A panic that left Go would
//     abort the program.
//   - Each function fails in a child of fork, also if the parent had not called any: Go's threads
//     begin when the library is loaded.
//   - What C can answer stays in C: a node's number, the size of the job, errors, short answers of
//     handlers, and most empty polls.
//
// Empty polls. A poll that has crossed and found nothing leaves the words in C that change with
// what comes: of the queues' page, of the socket's ring, and of rings shared with neighbours
// (funi.Watch). Up to 127 later polls of a thread compare them and return. Then one crosses, since
// timers and what is rare do not show there. So does a poll after any other crossing, and each one
// of a program that works between its polls. Words whose memory goes away (at the end of the
// endpoint or of a neighbour, when a port is opened anew, or when a context moves) are taken back
// first, with membarrier(2); without that every poll crosses.
//
// A crossing takes some 70 ns, and one from Go into C 50. So funet_poll and funet_send_many move
// many messages in one, and what waits does so in Go.
package main

// main is never called; a library of Go has one nevertheless.
func main() {}
