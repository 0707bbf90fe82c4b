package daemon

// This file adds the frames of direct ports to a capture, since they go past the card. While the
// capture lasts, guard and NIC program put them into a ring of the kernel (package bpf, capture.h).
// They never wait: frames that find the ring full are counted as lost. The connection's goroutine
// reads that ring beside the card's.

import (
	"fmt"
	"time"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/capture"
	"github.com/funet/funet/ctl/ports"
)

// directInterface is the interface that a capture names for frames that stay on this host, frames
// dropped at their port, and all lost frames.
const directInterface = "direct ports"

// directFrames is a capture's view of direct frames. It belongs to the connection's goroutine.
type directFrames struct {
	helper *ports.Client
	links  []*link
	from   *bpf.Capture
	other  int   // the number of directInterface
	origin int64 // nanoseconds since 1970 when the clock of the frames was 0
	lost   uint64
	next   bpf.Seen // a frame that found no room in the last batch
	waits  bool
}

// captureDirect begins to capture direct frames, and adds an interface to begin. It returns nil if
// there are no ports, or if they cannot be captured; begin then says why.
func (d *Daemon) captureDirect(begin *capture.Begin) (*directFrames, error) {
	if d.cfg.Ports == nil {
		return nil, nil
	}
	from, ok, err := d.cfg.Ports.StartCapture(min(begin.Snap, bpf.MaxSnap))
	if err != nil {
		return nil, fmt.Errorf("capturing direct frames: %w", err)
	}
	if !ok {
		begin.Ports = d.portsOf(nil)
		return nil, nil
	}
	begin.Interfaces = append(begin.Interfaces, directInterface)
	since := d.loop.start // as the card's frames, also if the clock has been set since
	return &directFrames{helper: d.cfg.Ports, links: d.links, from: from, other: len(begin.Interfaces) - 1,
		origin: since.UnixNano() + int64(time.Since(since)-bpf.Monotonic())}, nil
}

// close ends the capture. Without a helper it has already ended.
func (f *directFrames) close() {
	_ = f.helper.StopCapture()
	_ = f.from.Close() // nothing was written
}

// take adds frames from the ring to a batch, as long as there is room.
func (f *directFrames) take(ring *capture.Ring, batch []byte) (_ []byte, some bool, err error) {
	lost, err := f.from.Lost()
	if err != nil {
		return batch, false, err
	}
	ring.Lost(f.other, lost-f.lost) // told with the next batch
	f.lost = lost
	at := map[uint32]int{}
	for _, l := range f.links {
		if index, _ := l.current(); l.at < f.other {
			at[uint32(index)] = l.at
		}
	}
	for {
		if !f.waits {
			if f.next, f.waits, err = f.from.Next(); err != nil || !f.waits {
				return batch, some, err
			}
		}
		s := &f.next
		number, ok := at[s.NIC]
		if !ok {
			number = f.other
		}
		var added bool
		batch, added = ring.Add(batch, &capture.Record{Time: f.origin + int64(s.Time), Interface: number,
			Length: s.Length, Data: s.Data,
			Direct: true, Verdict: s.Verdict, GID: s.GID, Node: s.Node})
		if !added {
			return batch, some, nil
		}
		f.waits, some = false, true
	}
}
