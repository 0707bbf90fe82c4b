package paced

// This file is what the real wire takes: from a frame with packets to an acknowledgment
// of it, which the other card sends at once, is twice the way. The least that was seen
// counts, so that no frame is told to have arrived sooner than the fastest did.

import (
	"encoding/binary"
	"time"
)

// Offsets in a frame; see package arctic.
const (
	sequenceAt = 40
	requestAck = 44
	replyAck   = 56
)

// forgotten is how long a frame is waited for whose acknowledgment does not come.
const forgotten = int64(10 * time.Millisecond)

// probe is the frame that is waited for. The frames that it looks at may say anything.
type probe struct {
	under    bool // one is under way
	level    byte
	sequence uint32
	at       int64
	least    int64 // from a frame to its acknowledgment; 0: none was measured
}

// sent notes a frame with packets if none is waited for.
func (r *probe) sent(b []byte, now int64) {
	if len(b) < replyAck+4 || b[packetsAt] == 0 {
		return
	}
	level, sequence := b[flagsAt]&1, binary.LittleEndian.Uint32(b[sequenceAt:])
	switch {
	case !r.under || now-r.at > forgotten:
		r.under, r.level, r.sequence, r.at = true, level, sequence, now
	case level == r.level && sequence == r.sequence:
		r.under = false // sent again: which of them will be answered?
	}
}

// received looks for the acknowledgment in a frame.
func (r *probe) received(b []byte, now int64) {
	if !r.under || len(b) < replyAck+4 {
		return
	}
	at := requestAck
	if r.level == 1 {
		at = replyAck
	}
	if ack := binary.LittleEndian.Uint32(b[at:]); int32(ack-r.sequence) <= 0 {
		return
	}
	r.under = false
	if took := now - r.at; took > 0 && (r.least == 0 || took < r.least) {
		r.least = took
	}
}

// wire is what the real wire takes one way.
func (p *Port) wire() int64 {
	if p.probe.least == 0 {
		return int64(p.c.Wire)
	}
	return p.probe.least / 2
}

// Wire returns the least that the real wire was measured to take one way, or 0 if it was
// not, and Excess how much of it is beyond what the model's latency for a frame of n bytes
// and Config.Back can hide: by so much each frame is late.
func (p *Port) Wire() time.Duration { return time.Duration(p.probe.least / 2) }

// Excess is explained with Wire.
func (p *Port) Excess(n int) time.Duration {
	return max(0, time.Duration(p.wire()-p.latency(n))-p.c.Back)
}
