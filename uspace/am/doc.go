// Package am is active messages on FUNi, after the CMAM library of thesis
// appendix A: a message names a handler that runs at the receiver.
//
// The journey of a message: Request or Message.Reply reserves a slot of the send
// queue of its level, writes handler number and words, and commits it; the card
// does the rest. At the receiver Poll lets the card run, then takes every message
// out of the receive queues, replies before requests, and calls its handler with
// the words still in the slot.
//
// The packet types are those of the thesis: 0 carries four words, 3 carries 0 to
// 20. The first payload word is the number of the handler.
//
// Rules that keep two nodes that flood each other from deadlock:
//   - The main program sends requests. While its send queue is full it polls.
//   - A request handler may only reply. While the reply send queue is full it
//     handles replies, and nothing else.
//   - A reply handler sends nothing.
//
// So replies always drain, therefore request handlers end, therefore requests
// drain. Breaking the rules gives ErrHandler.
//
// A transfer (transfer.go) moves data between registered memory of two nodes without
// either process touching it, and runs a notice handler at the receiver; the same rules
// hold for it.
//
// A message that could not be delivered comes back: the next Poll, Wait or Request
// returns an Undelivered error that says which and why. Sending goes on as before;
// whether to go on is the program's decision.
//
// An Endpoint belongs to one goroutine, and its handlers run there.
package am
