package paced

// This file measures how long the real wire takes: from a frame with packets to an acknowledgment
// of it, which the other card sends at once, is twice the way. The result is the median
// of the measurements, so that as many frames arrive before the model's time as after it.

import (
	"time"

	"github.com/funet/funet/uspace/arctic"
)

// forgotten is how long a frame is waited for whose acknowledgment does not come.
const forgotten = int64(10 * time.Millisecond)

// nudge is by how much what was seen moves the estimate, in ns: one that is moved up as
// often as down is at the median.
const nudge = 10

// probe is the frame that is waited for. The frames that it looks at may say anything.
type probe struct {
	under    bool // one is under way
	level    arctic.Level
	sequence uint32
	at       int64
	took     int64 // from a frame to its acknowledgment; 0: none was measured
}

// sent notes a frame with packets if none is waited for.
func (r *probe) sent(b []byte, now int64) {
	f, ok := arctic.Peek(b)
	if !ok || f.Packets() == 0 {
		return
	}
	level, sequence := f.Level(), f.Sequence()
	switch {
	case !r.under || now-r.at > forgotten:
		r.under, r.level, r.sequence, r.at = true, level, sequence, now
	case level == r.level && sequence == r.sequence:
		r.under = false // sent again: which of them will be answered?
	}
}

// received looks for the acknowledgment in a frame.
func (r *probe) received(b []byte, now int64) {
	f, ok := arctic.Peek(b)
	if !r.under || !ok || int32(f.Acknowledged(r.level)-r.sequence) <= 0 {
		return
	}
	r.under = false
	switch took := now - r.at; {
	case r.took == 0:
		r.took = max(took, 1)
	case took > r.took:
		r.took += nudge
	case took < r.took:
		r.took = max(r.took-nudge, 1)
	}
}

// wire is how long the real wire takes one way.
func (p *Port) wire() int64 {
	if p.probe.took == 0 {
		return int64(p.c.Wire)
	}
	return p.probe.took / 2
}

// Wire returns what the real wire was measured to take one way, or 0 if it was not, and how
// much of that cannot be hidden for the shortest frame: each frame is late by that time.
func (p *Port) Wire() (way, excess time.Duration) {
	if p.probe.took == 0 {
		return 0, 0
	}
	way = time.Duration(p.wire())
	return way, max(0, way-time.Duration(p.latency(0))-p.c.Back)
}
