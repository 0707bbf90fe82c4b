// Package funet is the interface for programs of today: messages of bytes of any length between the
// processes of a job, calls that return an answer or an error, from any goroutine, with a
// context.Context on everything that waits. It is written over active messages (package am), which
// are there, too (Endpoint.AM).
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
// queue, lets the card run and gives the lock back (send.go). At the receiver a goroutine that
// waits on the endpoint, for whatever it is, polls for all goroutines that wait (wait.go). It runs
// the handler of the message (handle.go), and what the handler replies is on its way when the poll
// ends. The card is in this process or in a daemon (carrier.go); Open finds out (open.go).
//
// Rules:
//
//   - Messages are handled, and calls answered, while some goroutine of the process waits on the
//     endpoint: in Wait, Run, Call, Barrier and the like, or while the program calls Poll. A
//     program that computes for long lets one goroutine Run. Without, the card of a daemon or of a
//     direct port takes messages into the queues and carries out operations on windows meanwhile; a
//     card on interfaces of the process's own does nothing.
//   - Handlers run one at a time, with the lock. They may reply and nothing else; what waits
//     returns ErrHandler there. So replies always drain, and two nodes that flood each other do not
//     deadlock (package am says why).
//   - Handlers are registered before the first call that waits; a Barrier after that says that all
//     nodes have. The sender of a message that finds no handler hears it (ErrNoHandler).
//   - Before Close comes a Barrier, where others may still send something: Close discards what
//     arrives after the last call that polled, and answers no calls any more. What this node itself
//     has sent before still leaves.
//   - What waits ends when its context ends, within some milliseconds, with an error that wraps
//     am.ErrCancelled and the context's cause. A handler that does not return holds everybody up,
//     and nothing ends it.
//   - An error belongs to the call that it is the answer to. Others are told to Options.OnError.
//
// A job whose nodes may die and be started again asks for it (Options.Rejoin): the others get
// events (Events), sends to a node that has left fail at once, and collective calls work again
// after an Agree.
//
// What the lock costs: 7 ns for a lone caller (BenchmarkLock). A goroutine that waits alone polls;
// of many that wait one polls, and the others are parked until what they wait for is there.
//
// Messages with tags run no handler: Recv waits for them (tags.go). What all nodes do together,
// with MPI's names, is written over them (group.go, package collective), and so are streams of
// bytes between two nodes, an io.Writer at one and an io.Reader at the other (stream.go).
//
// Windows are memory that others write, read and change without a part of this process in it, by
// the same endpoint (windows.go, package rma): put, get, atomics, locks. A goroutine that waits for
// an operation waits as others do, so messages and operations go on beside each other.
//
// Send or Post: Send lets the card run, so that a short message is on its way, in a frame of its
// own if it is the only one. It is for a program that then waits for what comes of it. Post leaves
// a short message in the send queue until the next call that lets the card run. It is for programs
// that send many messages. Three nodes, on cards of their own, each sent the two others 10,000
// messages of four words. That took 275 to 407 ms with package am's form of Send and 15 to 17 ms
// with that of Post (am.Endpoint.Post4). What nil means: a message that leaves at once will be
// delivered or told to Options.OnError. A longer one has been delivered and its handler has run.
//
// The bounds, and what happens at them: while the send queue is full, Send and Call wait. At most
// am.MaxRemoteCalls calls and am.MaxSends long messages are under way, and one more waits. A
// message has at most am.MaxBytes bytes (ErrLong). Where its receiver sets Options.Memory, it has
// at most about two thirds of that (ErrMemory). Of messages with tags am.TagWindow wait at their
// receiver, and more at their sender. Of events that the program does not read 256 are kept, and
// two more of each node.
package funet
