package engine

// This file follows single packets through the card for its owner: it records the times at which a
// packet reached each stage, by Step's time. Without a tracer it costs one comparison a packet.
//
// A Tracer chooses one packet in every few, by the number of the frame in which a packet first
// travels and the packet's index in the frame. So a tracer with the same ratio at the other end
// chooses the same packets. The two records of a packet can be joined by the fields that name its
// frame, without a further word on the wire.
//
// The memory is bounded. A Trail holds two times for each line of a context. A Tracer has a ring of
// open records and a ring of finished ones, for its owner to take. When the first ring is full its
// oldest packet counts as unfinished; when the second is full a record is counted as lost.
// NewTracer and NewTrail make all memory beforehand.
//
// Packets for contexts of the same card, which travel in no frame, are not followed.

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// End says how a packet that was traced ended.
type End uint8

// The ends. The first three are the sender's, the others the receiver's.
const (
	Unfinished   End = iota // unknown: its context has ended, or it takes too long
	Acknowledged            // it was accepted at the other end
	Returned                // to the process, for Trace.Reason
	Delivered               // into memory or the receive queue
	// accepted, but the receive queue was full: it waits in the receive FIFO
	Held
	Refused // rejected, for Trace.Reason
)

var ends = [...]string{"unfinished", "acknowledged", "returned", "delivered", "held", "refused"}

// String returns the end as a word.
func (e End) String() string {
	if int(e) < len(ends) {
		return ends[e]
	}
	return "unknown"
}

// MarshalText writes the word.
func (e End) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads the word.
func (e *End) UnmarshalText(b []byte) error {
	for *e = Unfinished; int(*e) < len(ends); *e++ {
		if e.String() == string(b) {
			return nil
		}
	}
	return fmt.Errorf("a packet that ended as %q: unknown", b)
}

// Trace is a packet's record, at its sender or at its receiver. Times are Step's. A time of 0 means
// that the packet did not reach the stage.
type Trace struct {
	End    End           `json:"end"`
	Reason arctic.Reason `json:"reason,omitempty"` // of the last rejection
	Level  arctic.Level  `json:"level"`
	// rejections for a transient reason; 255: or more
	Retried uint8 `json:"retried,omitempty"`
	// frames with the packet after the first one, because a frame was lost or the packet rejected
	Resent      uint8  `json:"resent,omitempty"`
	Index       uint8  `json:"index"` // in the frame in which it first travelled
	Bytes       uint16 `json:"bytes"`
	GID         uint16 `json:"gid"`
	Source      uint16 `json:"source"` // node
	Destination uint16 `json:"destination"`
	FromCard    uint16 `json:"from_card"`
	ToCard      uint16 `json:"to_card"`
	// names the epoch of the two cards, to which Sequence belongs
	Session  uint16 `json:"session"`
	Sequence uint32 `json:"sequence"` // of that frame
	Context  uint32 `json:"context"`  // at this end

	// The sender's.
	Seen       int64 `json:"seen_ns,omitempty"`       // the card saw the slot filled
	Retrieved  int64 `json:"retrieved_ns,omitempty"`  // copied into a line of the cache
	Dispatched int64 `json:"dispatched_ns,omitempty"` // in a train, for the first time
	Sent       int64 `json:"sent_ns,omitempty"`       // its frame was given to the port
	SentLast   int64 `json:"sent_last_ns,omitempty"`  // the same, the last time
	Rejected   int64 `json:"rejected_ns,omitempty"`   // by the receiver, for the first time
	Answered   int64 `json:"answered_ns,omitempty"`   // acknowledged or returned
	// The receiver's: it was delivered, held or refused in the step in which it arrived.
	Arrived int64 `json:"arrived_ns,omitempty"`
}

// sessionOf names an epoch without revealing it. A host that knows an epoch can send frames in a
// card's name where there are no keys. Of the 64 bits of an epoch 48 stay unknown.
func sessionOf(epoch uint64) uint16 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], epoch)
	sum := sha256.Sum256(b[:])
	return binary.LittleEndian.Uint16(sum[:])
}

const (
	// openTraces and doneTraces are the sizes of a tracer's rings, in records. Powers of two.
	openTraces = 4096
	doneTraces = 1024
	// sightings is the number of looks at a queue that a trail remembers. It remembers looks that
	// found more slots than the look before. Slots of later looks count as seen with the last one.
	sightings = 16
)

// Tracer chooses packets and keeps their records. Like a card's contexts it belongs to the
// goroutine that steps the card.
type Tracer struct {
	every  uint64
	serial uint32 // of the last one that was begun
	lost   uint64
	open   [openTraces]opened
	done   [doneTraces]Trace
	put    uint64
	taken  uint64
}

// opened is a record that is not finished. serial 0: there is none.
type opened struct {
	serial uint32
	Trace
}

// NewTracer makes a tracer that follows one in every packets; an every below 1 counts as 1. Any
// goroutine may call it.
func NewTracer(every int) *Tracer { return &Tracer{every: uint64(max(every, 1))} }

// Take copies finished records, the oldest first. It returns the number of copied records, and the
// number of records lost so far.
func (t *Tracer) Take(into []Trace) (n int, lost uint64) {
	for ; n < len(into) && t.taken < t.put; n++ {
		into[n] = t.done[t.taken%doneTraces]
		t.taken++
	}
	return n, t.lost
}

// Flush ends the records that are open, as unfinished.
func (t *Tracer) Flush() {
	for i := range t.open {
		t.end(&t.open[i])
	}
}

// end ends an open record.
func (t *Tracer) end(o *opened) {
	if o.serial == 0 {
		return
	}
	o.serial = 0
	t.finish(&o.Trace)
}

// finish puts a record into the ring of finished ones.
func (t *Tracer) finish(r *Trace) {
	if t.put-t.taken == doneTraces {
		t.lost++
		return
	}
	t.done[t.put%doneTraces] = *r
	t.put++
}

// chooses reports whether the packet at an index in a frame is traced. The frame's number is mixed
// as in SplitMix64, so that no regular pattern in a program's sending biases the choice.
func (t *Tracer) chooses(from, to uint16, l arctic.Level, seq uint32, index int) bool {
	h := uint64(seq) | uint64(from)<<32 | uint64(to)<<48
	h += uint64(l) * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return (h^h>>31+uint64(index))%t.every == 0
}

// begin opens a record. The record that had its place ends as unfinished.
func (t *Tracer) begin() *opened {
	if t.serial++; t.serial == 0 {
		t.serial = 1
	}
	o := &t.open[t.serial%openTraces]
	t.end(o)
	*o = opened{serial: t.serial}
	return o
}

// Trail holds what a tracer knows about a context that it follows.
type Trail struct {
	tracer *Tracer
	queues [arctic.Levels]sighted
	lines  []stamped
}

// stamped holds the times of a line. serial 0: its packet is not traced.
type stamped struct {
	seen, retrieved int64
	serial          uint32
}

// sighted holds the times at which slots of a send queue were first seen. Slots are counted from
// the beginning of the trail.
type sighted struct {
	retrieved uint64 // slots
	first, n  int
	at        [sightings]struct {
		upTo uint64
		time int64
	}
}

// TracerBytes is the size of a tracer.
const TracerBytes = int64(unsafe.Sizeof(Tracer{}))

// TrailBytes returns the size of a trail of this card. Any goroutine may call it.
func (c *Card) TrailBytes() int64 {
	return int64(unsafe.Sizeof(Trail{})) + int64(c.table.placesOfLines())*int64(unsafe.Sizeof(stamped{}))
}

// NewTrail makes the trail of a context of this card. Any goroutine may call it.
func (c *Card) NewTrail(t *Tracer) *Trail {
	return &Trail{tracer: t, lines: make([]stamped, c.table.placesOfLines())}
}

// Follow has a trail follow the context from now on; with nil no trail follows it. Follow returns
// false and changes nothing if another tracer's trail follows the context, or the trail was made
// for another card.
func (x *Context) Follow(t *Trail) bool {
	if t != nil && (x.trail != nil && x.trail.tracer != t.tracer || len(t.lines) != x.card.table.placesOfLines()) {
		return false
	}
	x.trail, x.owner.Follower = t, nil
	if t != nil {
		x.owner.Follower = &follower{x, t}
	}
	return true
}

// Followed reports whether a trail of the tracer follows the context.
func (x *Context) Followed(t *Tracer) bool { return x.trail != nil && x.trail.tracer == t }

// saw notes the number of slots of a queue that wait to be retrieved.
func (t *Trail) saw(l arctic.Level, waiting int, now int64) {
	q := &t.queues[l]
	upTo := q.retrieved + uint64(waiting)
	if q.n > 0 {
		last := &q.at[(q.first+q.n-1)%sightings]
		if upTo <= last.upTo {
			return
		}
		if q.n == sightings {
			last.upTo, last.time = upTo, now
			return
		}
	} else if waiting == 0 {
		return
	}
	q.at[(q.first+q.n)%sightings].upTo, q.at[(q.first+q.n)%sightings].time = upTo, now
	q.n++
}

// took notes that a slot is retrieved, and returns the time at which it was first seen.
func (t *Trail) took(l arctic.Level, now int64) int64 {
	q := &t.queues[l]
	q.retrieved++
	for q.n > 0 && q.at[q.first].upTo < q.retrieved {
		q.first = (q.first + 1) % sightings
		q.n--
	}
	if q.n == 0 {
		return now
	}
	return q.at[q.first].time
}

// of returns the stamps of a line.
func (t *Trail) of(ln *line) *stamped { return &t.lines[ln.ctx.card.table.placeOf(ln.Index)] }

// record returns the open record of a line, or nil.
func (t *Trail) record(ln *line) *opened {
	s := t.of(ln)
	if s.serial == 0 {
		return nil
	}
	if o := &t.tracer.open[s.serial%openTraces]; o.serial == s.serial {
		return o
	}
	s.serial = 0 // it took too long
	return nil
}

// launched notes that a packet has been retrieved, from a slot or as one of a long transfer.
func (t *Trail) launched(ln *line, l arctic.Level, now int64) {
	seen := now
	if ln.transfer == nil {
		seen = t.took(l, now)
	}
	*t.of(ln) = stamped{seen: seen, retrieved: now}
}

// follower passes the link's reports on to a trail.
type follower struct {
	x *Context
	t *Trail
}

// Dispatched chooses packets to trace from a new frame.
func (w *follower) Dispatched(to uint16, l arctic.Level, seq uint32, train *link.Line) {
	x, t, c := w.x, w.t, w.x.card
	index := 0
	for next := train; next != nil; next = next.Next() {
		ln := c.table.lineOf(next)
		if t.record(ln) == nil && t.tracer.chooses(c.cfg.Card, to, l, seq, index) {
			s := t.of(ln)
			if s.retrieved == 0 {
				s.seen, s.retrieved = c.clock.now, c.clock.now // there before it was followed
			}
			o := t.tracer.begin()
			s.serial = o.serial
			o.Level, o.Index, o.Bytes = l, uint8(index), uint16(int(ln.Size)+len(ln.Block))
			o.GID, o.Source, o.Destination, o.Context = x.gid, x.node, ln.Node, x.bell
			o.FromCard, o.ToCard, o.Session, o.Sequence = c.cfg.Card, to, sessionOf(c.link.Epoch(to)), seq
			o.Seen, o.Retrieved, o.Dispatched = s.seen, s.retrieved, c.clock.now
		}
		index++
	}
}

// Sent notes that a frame was given to the port.
func (w *follower) Sent(train *link.Line) {
	now := w.x.card.clock.now
	for next := train; next != nil; next = next.Next() {
		if o := w.t.record(w.x.card.table.lineOf(next)); o != nil {
			if o.Sent == 0 {
				o.Sent = now
			} else {
				o.Resent = max(o.Resent, o.Resent+1)
			}
			o.SentLast = now
		}
	}
}

// Answered notes the verdict on the packets of a frame.
func (w *follower) Answered(train *link.Line, verdict link.Verdict) {
	t, now := w.t, w.x.card.clock.now
	bit := uint64(1)
	for next := train; next != nil; next = next.Next() {
		if o := t.record(w.x.card.table.lineOf(next)); o != nil {
			switch {
			case (verdict.Retry|verdict.Fail)&bit == 0:
				o.End, o.Answered = Acknowledged, now
				t.tracer.end(o)
			case verdict.Fail&bit != 0:
				o.End, o.Reason, o.Answered = Returned, verdict.FailReason, now
				t.tracer.end(o)
			default:
				o.Reason, o.Retried = verdict.RetryReason, max(o.Retried, o.Retried+1)
				if o.Rejected == 0 {
					o.Rejected = now
				}
			}
		}
		bit <<= 1
	}
}

// returned notes that a packet goes back to its process.
func (t *Trail) returned(ln *line, reason arctic.Reason, now int64) {
	if o := t.record(ln); o != nil {
		o.End, o.Reason, o.Answered = Returned, reason, now
		t.tracer.end(o)
	}
}

// accept is delivery.accept for a context that is followed. index is the packet's place in its
// frame.
func (t *Trail) accept(x *Context, train *link.Train, p arctic.Packet, index int) arctic.Reason {
	c, h := x.card, train.Header
	before := x.fifo[h.Level].n
	who := p.Header()
	reason := c.in.accept(x, train, h.Level, p, &who, train.Block)
	if !t.tracer.chooses(h.SourceCard, h.DestinationCard, h.Level, h.Sequence, index) {
		return reason
	}
	r := Trace{End: Delivered, Reason: reason, Level: h.Level, Index: uint8(index),
		Bytes: uint16(len(p) + len(train.Block)), GID: h.GID, Source: who.Source, Destination: who.Destination,
		FromCard: h.SourceCard, ToCard: h.DestinationCard, Session: sessionOf(h.Epoch), Sequence: h.Sequence,
		Context: x.bell, Arrived: c.clock.now}
	if reason != arctic.ReasonNone {
		r.End = Refused
	} else if x.fifo[h.Level].n > before {
		r.End = Held
	}
	t.tracer.finish(&r)
	return reason
}
