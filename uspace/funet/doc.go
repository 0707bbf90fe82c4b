// Package funet is what programs of 2026 use FUNet by: messages of bytes between the processes of a job, calls that
// return an answer or an error, from any goroutine, with a context.Context on everything that waits. It is written over
// active messages (package am), which are there, too (Endpoint.AM).
//
//	e, err := funet.Open(ctx, funet.Options{}) // this process's place in the job
//	err = e.Serve(1, func(m *funet.Message) ([]byte, error) { return append([]byte("hello "), m.Bytes...), nil })
//	err = e.Barrier(ctx)                       // everybody has registered
//	answer, err := e.Call(ctx, 1, 1, []byte("world"))
//	err = e.Barrier(ctx)                       // nobody calls any more
//	err = e.Close(ctx)
//
// The journey of a message: Send takes the lock, has package am write the message into the send queue, lets the card run
// and gives the lock back (send.go). At the receiver a goroutine that waits on the endpoint, for whatever it is, polls for
// all that wait (wait.go): it runs the handler of the message (handle.go), and what the handler replies is on its way
// when the poll ends. The card is in this process or in a daemon (carrier.go); Open finds out (open.go).
//
// Rules:
//
//   - Messages are handled, and calls answered, while some goroutine of the process waits on the endpoint: in Wait, Run,
//     Call, Barrier and the like, or while the program calls Poll. A program that computes for long lets one goroutine
//     Run.
//   - Handlers run one at a time, with the lock. They may reply and nothing else; what waits returns ErrHandler there.
//     So replies always drain, and two nodes that flood each other do not deadlock (package am says why).
//   - Handlers are registered before the first call that waits; a Barrier after that says that all nodes have.
//   - Before Close comes a Barrier, where others may still send something: Close discards it.
//   - What waits ends when its context ends, within some milliseconds, with an error that wraps am.ErrCancelled and the
//     context's cause. A handler that does not return holds everybody up, and nothing ends it.
//   - An error belongs to the call that it is the answer to. Others are told to Options.OnError.
//
// A job whose nodes may die and be started again asks for it (Options.Rejoin): the others get events (Events), sends to a
// node that has left fail at once, and collective calls work again after an Agree.
//
// What the lock costs: 7 ns for a lone caller (BenchmarkLock). A goroutine that waits alone polls; of many that
// wait one polls, and the others are parked until what they wait for is there.
//
// Messages with tags run no handler: Recv waits for them (tags.go). What all nodes do together, with MPI's names, is
// written over them (group.go, package collective).
//
// The bounds, and what happens at them: while the send queue is full, Send and Call wait; am.MaxRemoteCalls calls are
// under way, and one more waits; of messages with tags am.TagWindow wait at their receiver, and more at their sender; a
// message without has at most am.ShortBytes bytes (ErrLong).
package funet
