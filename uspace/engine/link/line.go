package link

// This file is the line: a packet that its owner hands over, and gets back settled.

import (
	"time"

	"github.com/funet/funet/uspace/arctic"
)

// Line holds one packet in wire format. It is the link's from Queue until it comes back as settled
// (NextSettled); then it is the owner's again. Its owner sets the exported fields before Queue.
// While the link has the line, its owner may still call Cut and change the content of Data and
// Block. Each transmission carries the content as it is then.
type Line struct {
	next   *Line   // of a train or list
	stream *stream // the one it waits or travels with
	Owner  *Owner
	Node   uint16 // the destination of the packet in the group of its owner
	Size   uint16 // how many bytes of Data the packet has
	Index  uint16 // tells the owner which line it is
	piece  uint16 // bytes of Block in the frame; the rest follows in others (limit.go)
	// Part marks a part of a long transfer, which needs no room in a queue: such lines have a
	// stream of their own.
	Part bool
	// Answer marks an answer to a peer's operation. Answers have a stream of their own, too, which
	// goes on while their owner is halted: the operation has been carried out, and its process
	// waits for the answer.
	Answer bool
	// Counts says of a remote write with a block that its receiver counts it. The receiver counts
	// it once, with the last piece.
	Counts bool
	// Chain is 1 plus the number of the chain that the packet goes along, at most 64; 0: it goes
	// along none. A chain's lines have a stream of their own: what waits for room on one chain must
	// not stop another. With Answer the packet is a copy that a member sends on.
	Chain uint8
	// Path marks a packet of an ULTRA path, which needs room in the ring of the path's end: such
	// lines have a stream of their own.
	Path bool
	// Takes is how long the Transmit Scheduler of a modelled machine works on the packet in
	// addition to Config.Transmit. Behind is how long it is busy after the packet has left
	// (timed.go). The owner sets both, and leaves them alone while the line is the link's.
	Takes, Behind time.Duration
	// Settled says how the line was settled, and Reason why, once it comes back.
	Settled Settled
	Reason  arctic.Reason
	// Block is the data behind the packet, which goes straight from there into each frame that
	// carries it; nil: none.
	Block []byte
	Data  [arctic.MaxPacketSize]byte
}

// Settled is how the link is done with a line.
type Settled uint8

const (
	Delivered Settled = iota // the peer has accepted the packet
	Returned                 // the packet was not delivered, or that is unknown, for Line.Reason
	// Discarded: the peer rejected the packet for now, and its owner has ended, so it is not tried
	// again.
	Discarded
	// Moved: the peer says that the node is on another card now (arctic.ReasonMoved). The packet
	// was not delivered, and its owner looks up where it goes. Its stream backs off, so the same
	// card may be tried again.
	Moved
)

// Packet returns the packet.
func (ln *Line) Packet() arctic.Packet { return arctic.Packet(ln.Data[:ln.Size]) }

// Next returns the line behind it in a train (Follower) or on a list, or nil.
func (ln *Line) Next() *Line { return ln.next }

// Cut drops the part of the block of a line in flight that is not in its frame, because it is not
// wanted any more.
func (ln *Line) Cut() { ln.Block = ln.inFrame() }

// Clear forgets block, kind and times of a line that came back.
func (ln *Line) Clear() {
	ln.Block, ln.Part, ln.Answer, ln.Counts, ln.Chain, ln.Path, ln.piece = nil, false, false, false, 0, false, 0
	ln.Takes, ln.Behind = 0, 0
}

// Lines is a FIFO of lines. A line is on at most one, because it holds the link to the next itself.
// An owner may use a Lines for lines that the link does not have. The zero value is empty.
type Lines struct {
	head, tail *Line
}

// Head returns the first line, or nil.
func (q *Lines) Head() *Line { return q.head }

// Push puts a line behind all others.
func (q *Lines) Push(ln *Line) {
	ln.next = nil
	if q.head == nil {
		q.head = ln
	} else {
		q.tail.next = ln
	}
	q.tail = ln
}

// Pop takes the first line; there must be one.
func (q *Lines) Pop() *Line {
	ln := q.head
	q.head = ln.next
	ln.next = nil
	return ln
}

// prepend puts the chain first..last before all others.
func (q *Lines) prepend(first, last *Line) {
	if q.head == nil {
		q.tail = last
	}
	last.next = q.head
	q.head = first
}

func (q *Lines) length() (n int) {
	for ln := q.head; ln != nil; ln = ln.next {
		n++
	}
	return n
}

// settle hands a line back. Settled lines wait, in order, for NextSettled.
func (e *End) settle(ln *Line, how Settled, reason arctic.Reason) {
	ln.Settled, ln.Reason = how, reason
	e.settled.Push(ln)
	e.Settles = true
}

// NextSettled takes the next line that the link is done with, or returns nil. The owner calls it
// after Arrive, Expire, RemovePeer, SetPeer and GiveUp until it returns nil. No more lines are
// settled than were queued.
func (e *End) NextSettled() *Line {
	ln := e.settled.head
	if ln != nil {
		e.settled.head, ln.next = ln.next, nil
	}
	e.Settles = e.settled.head != nil || e.anew != 0
	return ln
}
