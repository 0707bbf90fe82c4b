// Package link is reliability between two cards (thesis 5.2.4, 5.6; design idea 4,
// uspace/DESIGN.md). It delivers each packet exactly once, or returns it with a reason. It does so
// over a network that loses, repeats and reorders frames, and between cards that restart. It knows
// frames, cards, levels, lines and their owners. Contexts, queues, registers and memory are known
// to package engine alone.
//
// An End is one card's end of the links to all others. The engine hands it lines (Queue); each is a
// packet of an owner for a node behind a card. The engine gets each line back once (NextSettled):
// delivered, or returned with a reason. The engine also hands the End the frames that arrive
// (Arrive), and gets their trains to judge. It accepts each packet of a train, or rejects it with a
// reason (Answer). The End owns no goroutine, clock, socket or lock, and allocates nothing in the
// steady state. Begin, Send, Arrive and Expire are the parts of a step, which the engine
// puts in order.
//
// The files that a line goes through on its way out:
//
//	line.go, owner.go    lines, which the engine hands over, and their owners
//	stream.go            lines of one owner for one node wait together
//	hold.go              a stream backs off when its node is full
//	defer.go             the same when a switch says that the node's group is not there yet
//	turn.go, account.go  the order in which accounts, jobs and streams send
//	dispatch.go          builds trains from the streams in turn, each block a train of its own,
//	                     and sends lost frames again
//	transmit.go          writes a frame: header with the acknowledgments of both levels, rejects,
//	                     then the train, and a block
//	lone.go              a message that is alone leaves at once, past the lists of dispatch.go
//	limit.go             how long frames to a peer may be; a void frame replaces one that has
//	                     become too long
//	timed.go             dispatch and transmission of a modelled machine, which take time
//
// The files that a frame goes through on its way in:
//
//	arrive.go            parses it, checks card, group and incarnation, takes its
//	                     acknowledgments, drops duplicates. A frame that is like the one before it
//	                     (arctic.Prediction) is checked for its sum and its number only
//	greeting.go          how two cards learn each other's life before they exchange packets;
//	                     handshake.go says what that proves
//	keys.go, seal.go     keys of two cards, and frames that are sealed with them
//	acknowledge.go       settles or requeues the lines of frames that the peer has answered
//	rejects.go, verdict.go  remembers rejects, so that a repeated frame gets the same answer
//	fate.go              what the owner of a direct card tells it of its peers' processes
//
// A peer (peer.go) is another card. Its two flows (flow.go), one a level, hold the sequence numbers
// in both directions. They are parked when they are quiet (park.go). Timers (timer.go, heap.go)
// wake the peer that needs it first. Peers come and go in membership.go. An owner sees them through
// state.go and counters.go, and their frames through observe.go. check.go is for tests.
//
// Rules:
//   - Exactly once: a frame is accepted only from the incarnation that was greeted with a fresh
//     nonce, and only if its sequence number has not been seen. A line is settled by an
//     acknowledgment or with a reason, and by nothing else.
//   - The packets of a frame are fixed when it is first sent. If it has become too long, its number
//     is answered before its packets go elsewhere.
//   - An answer to a frame is final. A packet that was rejected for now travels again in another
//     frame with another number. Only lines of the same owner for the same node wait with it.
//   - A data frame of a greeted peer is answered, whatever its group is: without an answer it would
//     hold up what the two cards share. A switch's deferral (defer.go) is no answer: it delays a
//     frame, and a void frame takes the frame's number before others have to wait for it. A flow
//     whose oldest frame is not answered for PeerTimeout gives its frames back.
//   - Reply before request, acknowledgment before data.
//   - Back-pressure: while the transmit ring is full, lines stay with their streams. While the
//     sequence window or the congestion window is full, flows wait for an answer. While a receiver
//     is full, streams wait for a timer. While the Send Queue of a modelled machine is full, its
//     Dispatch Unit waits.
//   - The sender pays: in bytes, by account, then by job, never by the number of streams (turn.go).
//     Tries after rejects are bounded by account, too (hold.go).
//   - A peer's frames are taken at the port that leads to it. Without a key, any station that can
//     send frames on that segment can send in the peer's name.
//   - A virtual machine that runs on from a snapshot, or twice, has the keys and counters of the
//     snapshot. Frames sealed by both copies with one counter tell an observer the exclusive-or of
//     their contents, and let the observer forge others of that direction. That holds until the
//     cards greet anew. The kernel seeds its generator anew for a clone that has a generation ID
//     (vmgenid), and each nonce comes from there (Config.Nonces). So handshakes after the clone
//     have keys of their own. Nothing here notices the clone: end the daemon before the snapshot,
//     or start it anew in each copy before its interface is up.
//   - State is bounded per peer (park.go): an idle peer costs 280 bytes, and 24 for its places in
//     lists. Each of its two levels that is in use costs 736 bytes, with up to 4 frames in flight.
//     With more in flight it costs 6 KiB more: room for a sequence window of frames, 24 bytes each.
//     Each frame whose rejects are remembered costs 32 bytes, and there is at most a sequence
//     window of them (8 KiB). Each pair of an owner here and a node there that exchange packets
//     costs a stream of 144 bytes, and 50 in a map where a level has more than 8. An end keeps
//     spares of at most 150 KiB, beside such maps.
//
// An End and everything it returns belong to one goroutine.
package link
