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
//     handlers. An empty poll crosses, since it drives the card.
//
// A crossing takes some 70 ns, and one from Go into C 50. So funet_poll and funet_send_many move
// many messages in one, and what waits does so in Go.
package main

// main is never called; a library of Go has one nevertheless.
func main() {}
