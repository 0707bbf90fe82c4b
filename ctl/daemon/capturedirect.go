package daemon

// This file has a capture show the frames of direct ports as well, which go past the card. Guard
// and NIC program put them into a ring of the kernel while the capture lasts (package bpf,
// capture.h), and wait for nobody; frames that find the ring full are counted as lost. The
// connection's goroutine reads that ring beside the card's.

import (
	"fmt"
	"time"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/capture"
	"github.com/funet/funet/ctl/ports"
)

// directInterface is the name of the interface of frames that stay on this host, or were dropped at
// their port, and of all that were lost.
const directInterface = "direct ports"

// directFrames is the direct frames of a capture. It belongs to the connection's goroutine.
type directFrames struct {
	helper *ports.Client
	links  []*link
	from   *bpf.Capture
	other  int   // the number of directInterface
	origin int64 // nanoseconds since 1970 when the clock of the frames was 0
	lost   uint64
	next   bpf.Seen // that has found no room in a batch
	waits  bool
}

// captureDirect begins to capture direct frames, with an interface more; nil: there are none, or
// begin says why they are not captured.
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

// close ends it. Without a helper it has ended.
func (f *directFrames) close() {
	_ = f.helper.StopCapture()
	_ = f.from.Close() // nothing was written
}

// take adds to a batch what is there, as long as there is room.
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
