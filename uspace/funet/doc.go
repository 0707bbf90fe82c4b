// Package funet is FUNet's interface for modern programs. It sends messages of bytes of any length
// between the processes of a job, and makes calls that return an answer or an error. Any goroutine
// may use it, and everything that waits takes a context.Context. The package is written over active
// messages (package am), which remain available (Endpoint.AM).
//
//	e, err := funet.Open(ctx, funet.Options{}) // this process's place in the job
//	err = e.Serve(1, func(m *funet.Message) ([]byte, error) {
//		return append([]byte("hello "), m.Bytes...), nil
//	})
//	err = e.Barrier(ctx)                       // everybody has registered
//	answer, err := e.Call(ctx, 1, 1, []byte("world"))
//	err = e.Barrier(ctx)                       // nobody calls any more
//	err = e.Close(ctx)
//
// The journey of a message: Send takes the lock, has package am write the message into the send
// queue, lets the card run and releases the lock (send.go). At the receiver, one goroutine that
// waits on the endpoint polls on behalf of all that wait (wait.go). It runs the handler of the
// message (handle.go). A reply of the handler has been sent when the poll ends. The card is in this
// process or in a daemon (carrier.go); Open finds out which (open.go).
//
// Rules:
//
//   - Messages are handled, and calls answered, only while some goroutine of the process waits on
//     the endpoint (in Wait, Run, Call, Barrier and the like) or calls Poll. A program that
//     computes for long lets one goroutine Run. If no goroutine waits, the card of a daemon or of a
//     direct port still takes messages into the queues and carries out operations on windows. A
//     card on interfaces of the process's own does nothing then.
//   - Handlers run one at a time, with the lock held. A handler may reply and nothing else; every
//     call that waits returns ErrHandler there. So replies always drain, and two nodes that flood
//     each other do not deadlock (package am explains why).
//   - Handlers are registered before the first call that waits. A Barrier after that ensures that
//     all nodes have registered. A message without a handler is reported to its sender
//     (ErrNoHandler).
//   - Where other nodes may still send something, a Barrier comes before Close. Close discards
//     messages that arrive after the last call that polled, and answers no further calls. Messages
//     that this node sent before are still delivered.
//   - A call that waits ends within some milliseconds when its context ends. Its error wraps
//     am.ErrCancelled and the context's cause. A handler that does not return blocks all
//     goroutines, and nothing ends it.
//   - An error is returned by the call that it belongs to. Errors that belong to no call go to
//     Options.OnError.
//
// A job whose nodes may die and be started again sets Options.Rejoin. The other nodes then get
// events (Events), sends to a node that has left fail at once, and collective calls work again
// after an Agree.
//
// StartSend, StartSendTag, StartRecv and Go begin something without waiting for its end, which
// Pending.Wait does.
//
// The lock costs a lone caller 7 ns (BenchmarkLock). A goroutine that waits alone polls. If several
// wait, one polls, and the others are parked until the event that they wait for (package lead).
// Package socket opens an endpoint beside its connections, on one card with them (beside.go).
//
// Messages with tags run no handler: Recv waits for them (tags.go). Collective operations are
// written over them, with MPI's names (group.go, package collective). Streams of bytes are
// connections of package socket.
//
// A window is memory that other nodes read, write and change without involving this process
// (windows.go, package rma): put, get, atomics, locks. Windows belong to the same endpoint. A
// goroutine that waits for an operation waits like any other, so messages and operations proceed
// side by side.
//
// Send or Post: Send lets the card run, so a short message leaves at once, in a frame of its own if
// it is the only one. It suits a program that then waits for the outcome. Post leaves a short
// message in the send queue until the next call that lets the card run. It suits programs that send
// many messages. Three nodes, on cards of their own, each sent the two others 10,000 messages of
// four words. That took 275 to 407 ms with package am's form of Send and 15 to 17 ms with that of
// Post (am.Endpoint.Post4). The meaning of nil: a message that leaves at once will be delivered, or
// its failure is reported to Options.OnError. A longer message has been delivered and its handler
// has run.
//
// The limits, and what happens at them: while the send queue is full, Send and Call wait. At most
// am.MaxRemoteCalls calls and am.MaxSends long messages are in flight; the next one waits. A
// message has at most am.MaxBytes bytes (ErrLong). If its receiver sets Options.Memory, it has at
// most about two thirds of that memory (ErrMemory). At most am.TagWindow messages with tags wait at
// their receiver; further ones wait at their sender. Of the events that the program has not read,
// 256 are kept, and two more for each node.
package funet
