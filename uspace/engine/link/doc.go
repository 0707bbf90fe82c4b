// Package link is reliability between two cards (thesis 5.2.4, 5.6; design idea 4,
// uspace/DESIGN.md): exactly once, or back with a reason, over a network that loses, repeats and
// reorders frames, and between cards that restart. It knows frames, cards, levels, lines and their
// owners. Of contexts, queues, registers and memory it knows nothing; that is package engine's.
//
// An End is one card's end of the links to all others. The engine hands it lines (Queue), each a
// packet of an owner for a node behind a card, and gets each back once (NextSettled): delivered, or
// returned with a reason. It hands the End frames (Arrive), and gets trains to judge: packet by
// packet accepted, or rejected with a reason (Answer). The End owns no goroutine, clock, socket or
// lock, and allocates nothing in the steady state. Begin, Send, Flush, Arrive and Expire are the
// parts of a step, which the engine puts in order.
//
// The way out of a line, file by file:
//
//	line.go, owner.go  what the engine hands over, and whose it is
//	stream.go    lines of one owner for one node wait together
//	hold.go      and back off together when that node is full
//	turn.go, account.go  accounts, jobs and streams in the order in which they send
//	dispatch.go  builds trains from the streams in turn, each block a train of its own, and sends
//	             lost frames again
//	transmit.go  frame header with the acknowledgments of both levels, rejects, then the train,
//	             and a block
//	lone.go      a message that is alone leaves at once, past the lists of dispatch.go
//	limit.go     how long frames to a peer may be; a void frame replaces one that has become too
//	             long
//	timed.go     dispatch and transmission of a modelled machine, which take time
//
// and of a frame in:
//
//	arrive.go    parses it, checks card, group and incarnation, takes its acknowledgments, drops
//	             duplicates. A frame that is like the one before it (arctic.Prediction) needs none
//	             of these checks but that of its sum and its number
//	greeting.go  how two cards learn each other's life before they exchange packets; handshake.go
//	             says what that proves
//	keys.go, seal.go  keys of two cards, and frames that are sealed with them
//	acknowledge.go  answers that came: lines are settled, or wait for another try
//	rejects.go, verdict.go  what was rejected, so that a repeated frame gets the same answer
//	fate.go      what the owner of a direct card hears of the processes behind its peers
//	reached.go   how far the card has come with each peer's frames
//
// A peer (peer.go) is another card; its two flows (flow.go), one a level, hold the sequence numbers
// in both directions, and are parked when they are quiet (park.go). Timers (timer.go) wake the peer
// that needs it first. membership.go is how peers come and go, state.go and counters.go what an
// owner sees of them, observe.go shows frames, check.go is for tests.
//
// Rules:
//   - Exactly once: a frame is accepted only from the incarnation that was greeted with a fresh
//     nonce, and only if its sequence number has not been seen. A line is settled by an
//     acknowledgment, or with a reason; by nothing else.
//   - What a frame carries is settled when it is first sent. If it has become too long its number
//     is answered before its packets go elsewhere.
//   - An answer to a frame is final. A packet that was rejected for now travels again in another
//     frame with another number, and only what goes to the same node from the same owner waits with
//     it.
//   - A data frame of a greeted peer is answered, whatever its group is: without an answer it would
//     hold up what the two cards share. A flow whose oldest frame is not answered for PeerTimeout
//     gives its frames back.
//   - Reply before request, acknowledgment before data.
//   - Full queues: transmit ring full, and lines stay with their streams; window full, and flows
//     wait for an answer; receiver full, and streams wait for a timer; Send Queue of a modelled
//     machine full, and its Dispatch Unit waits.
//   - Who sends pays: in bytes, by account, then by job, never by how many streams there are
//     (turn.go). Tries after rejects are bounded by account, too (hold.go).
//   - A peer's frames are taken at the port that leads to it. Without a key, whoever can send
//     frames on that segment can send in its name.
//   - A virtual machine that runs on from a snapshot, or twice, has the keys and counters of the
//     snapshot. Frames sealed by both with one counter tell an observer the exclusive-or of their
//     contents, and let the observer forge others of that direction. That holds until the cards
//     greet anew. The kernel seeds its generator anew for a clone that has a generation ID
//     (vmgenid), and each nonce comes from there (Config.Nonces), so handshakes after the clone
//     have keys of their own. Nothing here notices the clone: end the daemon before the snapshot,
//     or start it anew in each copy before its interface is up.
//   - State is bounded per peer (park.go): an idle peer costs 280 bytes, and 24 for its places in
//     lists. Each of its two levels that is in use costs 736 bytes, with up to 4 frames in flight.
//     With more in flight it costs 6 KiB more, a window of frames of 24 bytes. Each frame whose
//     rejects are remembered costs 32 bytes, and there is at most a window of them (8 KiB). Each
//     pair of an owner here and a node there that speaks costs a stream of 128 bytes, and 50 in a
//     map where a level has more than 8. An end keeps spares of at most 150 KiB, beside such maps.
//
// An End and everything it returns belong to one goroutine.
package link
