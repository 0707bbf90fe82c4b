// Package am is active messages on FUNi, after the CMAM library of thesis
// appendix A: a message names a handler that runs at the receiver.
//
// The journey of a message: Request or Message.Reply reserves a slot of the send queue of its
// level, writes handler number and words, and commits the slot. The card does the rest. At the
// receiver Poll lets the card run, then takes every message out of the receive queues, replies
// before requests. It calls each message's handler with the words still in the slot.
//
// The calls, and their names in CMAM and the thesis:
//
//	Request4, Request, Post4, Post, Message.Reply4, Reply   cmam_4, cmam_n, cmam_reply_4,
//	                                                        cmam_reply_n
//	RequestIndirect4, ..., Message.ReplyIndirect            cmam_indirect_4, cmam_indirect_n and
//	                                                        replies
//	Xfer4, Xfer, Message.ReplyXfer4, ReplyXfer              cmam_xfer_4, cmam_xfer and replies
//	Mfer, Message.ReplyMfer                                 cmam_mfer_n, of any length
//	OpenSegment, CloseSegment, Remaining                    cmam_open_segment and so on
//	Transfer, Message.Transfer, HandleNotice                an XFER with a handler of the
//	                                                        program's own
//	Poll, Wait, WaitFor, WaitFlag                           cmam_poll, cmam_wait
//	ReadInt32, WriteFloat64, ...                            read_i, write_d, ...
//	Get, Put, PutInt32, PutFloat64, WaitCounter             get and put
//	Barrier                                                 cmam_barrier
//	Call, StartCall, HandleCall, Cancel                     (none: remote procedure calls)
//	SendTag, StartSendTag, Recv, StartRecv, Exchange        (none: MPI_Send, MPI_Isend, MPI_Recv,
//	                                                        MPI_Irecv, MPI_Sendrecv)
//	SendBytes, StartBytes, Message.ReplyBytes, HandleBytes  (none: messages of bytes of any
//	                                                        length)
//	StartSendWide, StartRecvWide, PeekWide, ClaimWide       (none: MPI_Isend, MPI_Irecv,
//	Claim.StartRecv, Claim.Discard                          MPI_Iprobe, MPI_Improbe; tagged
//	                                                        messages of libfabric)
//	Bind                                                    (none: a CMAM program waits for ever)
//
// An Endpoint is a core and units (endpoint.go). The core has the queues, says what may be sent,
// and waits. A unit has the state, the handlers and the messages of one kind of calls: segments,
// calls (Get and Put), remote (Call), tags, rounds (Barrier), bytes, and in some endpoints member
// (Rejoin) and pace (Pace). The exported methods are the Endpoint's, beside the units that they
// use.
//
// The packet types are in types.go, with the table of their handlers. On a modelled machine
// (Endpoint.Pace) each call takes the time that it would have taken there: pace.go charges the
// costs, which costs.go lists. On a machine that was only measured, whole calls have a price
// (prices.go).
//
// Each call is allowed in some contexts only. The main program is all code that runs outside
// handlers. A request handler runs for a message of request priority, and a reply handler for one
// of reply priority. Either is a Handler, a NoticeHandler, an Object or a Completion. Rules that
// keep two nodes that flood each other from deadlock:
//   - The main program sends requests. While its send queue is full the call polls.
//   - A request handler may only reply. While the reply send queue is full it
//     handles replies, and nothing else.
//   - A reply handler sends nothing.
//
// So replies always drain; therefore request handlers end; therefore requests drain. A call that
// breaks the rules returns ErrHandler.
//
// Request or Post: a Request lets the card run. So the message leaves at once, in a frame of its
// own if it is the only one. That suits a program that then waits for the outcome. A Post only puts
// the message into the send queue, and the next call that polls takes all of them along. That suits
// programs that send many messages, and is up to twenty times as fast (Post4 has figures).
//
// A transfer (transfer.go) moves data between registered memory of two nodes without either process
// touching it, and runs a notice handler at the receiver. The same rules apply. Share makes memory
// known to other nodes. They can read and write it by Get, Put and the like, and fill segments in
// it. The library's own handlers serve these when the owner polls.
//
// A call (remote.go) is a request whose answer is bytes or an error. Its handler is a request
// handler, and the handler's result is sent as its reply. Cancel ends a started call that is no
// longer wanted.
//
// A message with a tag (tags.go) runs no handler: a receive of the program waits for it. Messages
// from one node with one tag are received in the order of sending. Package collective builds
// broadcasts, reductions and the like on Exchange.
//
// A wide message (wide.go) has a channel, a tag of 64 bits of which a receive may ignore any, and
// 64 bits of data, as MPI libraries and libfabric need it. A program of several endpoints says in
// its origin which of them sent it. Up to PartedWide bytes leave at once. A node keeps up to
// WideWindow unreceived ones of another, so that a program may receive the last of many messages
// first. The time to match a message does not grow with the number that wait. A receive with Many
// stores messages one behind the other in its memory.
//
// A message of bytes (bytes.go) of up to 80 bytes is one packet. Transfers move the bytes of a
// longer one into memory that the receiver keeps for such messages (UseMemory), and its handler
// gets them there. Requests and grants obey the same rules. The library sends messages that a
// handler must not send when the program polls.
//
// A message that could not be delivered comes back: the next Poll, Wait or Request returns an
// Undelivered error with the message and the reason. The program decides whether to continue;
// sending still works. A call that waits for a node that is gone ends with such an error, because
// it sends the node a probe now and then. A node whose process was started anew is not gone, and
// does not know the requests to its predecessor. A message without a handler at its receiver also
// gives an Undelivered error: the receiver reports it, and drops and counts it (Unknown).
//
// The package has these limits. A full send queue holds up the sender, as the rules say. Beyond
// MaxCalls split-phase calls, or MaxRemoteCalls remote ones, the next call waits. Opening more than
// OpenSegments segments, or adding more than MaxObjects objects, is an error. Poll ends after some
// two thousand messages. Beyond MaxSends long messages the next one waits. A message for which the
// receiver has no memory waits until it has. A message longer than that memory gets memory of its
// own (Memory.Grow), or is refused (ErrMemory). After the first call of a kind, later calls of that
// kind allocate only if they fail.
//
// Every call that waits can be cancelled. It ends when the context.Context that the endpoint is
// bound to (Bind) ends, with an error that wraps ErrCancelled.
//
// An Endpoint belongs to one goroutine, and its handlers run there.
package am
