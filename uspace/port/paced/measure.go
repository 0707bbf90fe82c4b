package paced

// This file measures how long the real wire takes. The time from a frame with packets to its
// acknowledgment, which the other card sends at once, is twice the way. The result is the median of
// the measurements, so that as many frames arrive before the model's time as after it.

import (
	"time"

	"github.com/funet/funet/uspace/arctic"
)

// forgotten is how long the probe waits for the acknowledgment of a frame.
const forgotten = int64(10 * time.Millisecond)

// nudge is the step, in ns, by which a measurement moves the estimate up or down. An estimate that
// moves up as often as down is the median.
const nudge = 10

// probe measures one frame at a time, from sending to acknowledgment. It accepts any bytes as
// frames.
type probe struct {
	under    bool // one is under way
	level    arctic.Level
	sequence uint32
	at       int64
	took     int64 // from a frame to its acknowledgment; 0: none was measured
}

// sent notes a frame with packets, unless the probe waits for another.
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

// wire returns how long the real wire takes one way, in nanoseconds.
func (p *Port) wire() int64 {
	if p.probe.took == 0 {
		return int64(p.c.Wire)
	}
	return p.probe.took / 2
}

// Wire returns the measured time of the real wire, one way, or 0 if it was not measured. excess is
// the part of it that cannot be hidden for the shortest frame: each frame is late by that time.
func (p *Port) Wire() (way, excess time.Duration) {
	if p.probe.took == 0 {
		return 0, 0
	}
	way = time.Duration(p.wire())
	return way, max(0, way-time.Duration(p.latency(0))-p.c.Back)
}
