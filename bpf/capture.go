// This file is captures of direct frames: the ring that guard and NIC program put frames into
// during a capture (capture.h), and its reader.

package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

const (
	// CaptureSize is the size of a capture's ring in bytes: some 1,000 of the longest frames, or
	// 15,000 short ones. While the capture lasts, its process is charged for the ring.
	CaptureSize = 1 << 22
	// MaxSnap is the most bytes of a frame that a capture keeps. No frame of a port, with its
	// headers, is longer.
	MaxSnap = 3584

	seenSize = 32 // of struct funet_seen
)

// Verdict says what the switch did with a frame: it is the counter that the frame moved.
type Verdict uint8

// firstNIC is the verdict of the NIC program's first counter (funet_counter). Verdicts below it are
// the guard's (funet_port_counter).
const firstNIC = Verdict(len(portWords))

// These are the verdicts in words, in the order of the enums. The text is "" for frames that pass,
// and for verdicts that a direct frame cannot have.
var (
	portWords = [...]string{"it ends inside its header", "no direct frame", "in another's name",
		"its length does not fit", "there is no such node", "too long for the way",
		"for a host that sends nothing", "", ""}
	nicWords = [...]string{"", "it ends inside its header", "", "", "", "merged of several by the kernel", "", "",
		"not from the host of its node", "its node has no port here", "", "", "", ""}
)

// Verdicts is the number of verdicts.
const Verdicts = firstNIC + Verdict(len(nicWords))

// Arrived reports whether the frame came from another host.
func (v Verdict) Arrived() bool { return v >= firstNIC }

// Dropped says why the frame was dropped, or "" if it was not.
func (v Verdict) Dropped() string {
	switch {
	case v < firstNIC:
		return portWords[v]
	case v < Verdicts:
		return nicWords[v-firstNIC]
	}
	return "unknown"
}

// Local reports whether the frame went to another port of this host.
func (v Verdict) Local() bool { return v == firstNIC-1 }

// Seen is a direct frame that was captured. One to or from another host has the wire's headers.
type Seen struct {
	Time    time.Duration // of CLOCK_MONOTONIC
	NIC     uint32        // index of the interface that it leaves by, or came in by; 0: none
	GID     uint16        // GID and Node of the port that sent it, unless it has Arrived
	Node    uint16
	Verdict Verdict
	Length  int    // bytes of the frame
	Data    []byte // its first bytes
}

// StartCapture has guard and NIC program put frames into a new ring, at most snap bytes of each. It
// ends a capture that is under way. It returns the descriptors of ring and counters, which any
// process can give to OpenCapture. They stay the switch's.
func (s *Switch) StartCapture(snap int) (fds [CaptureMaps]int, err error) {
	if snap < 1 || snap > MaxSnap {
		return fds, fmt.Errorf("capture %d bytes of each direct frame: %w: give 1 to %d", snap, ErrRange, MaxSnap)
	}
	if err := s.StopCapture(); err != nil {
		return fds, err
	}
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Name: "funet_ring", Type: ebpf.RingBuf, MaxEntries: CaptureSize})
	if err == nil {
		if err = s.maps.FunetCapture.Update(uint32(0), guardFunetCapture{Snap: uint32(snap)},
			ebpf.UpdateAny); err == nil {
			err = s.maps.FunetRings.Update(uint32(0), uint32(ring.FD()), ebpf.UpdateAny)
		}
		if err != nil {
			err = errors.Join(err, ring.Close())
		}
	}
	if err != nil {
		return fds, fmt.Errorf("begin a capture of direct frames: %w", err)
	}
	s.ring = ring
	return [CaptureMaps]int{ring.FD(), s.maps.FunetCapture.FD()}, nil
}

// StopCapture ends the capture that is under way, if any, even one that a former switch began
// (TakeSwitch). After its return nothing is put into that ring.
func (s *Switch) StopCapture() error {
	ring := s.ring
	s.ring = nil
	err := s.maps.FunetRings.Delete(uint32(0))
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		err = nil
	}
	if err = errors.Join(err, ring.Close()); err != nil { // nil: nothing to close
		return fmt.Errorf("end the capture of direct frames: %w", err)
	}
	return nil
}

// CaptureMaps is the number of maps of a capture.
const CaptureMaps = 2

// Capture is the reader's side of a capture. One goroutine at a time calls its methods.
type Capture struct {
	ring   *ebpf.Map
	counts *ebpf.Map
	reader *ringbuf.Reader
	record ringbuf.Record
}

// OpenCapture opens a capture that has begun. It takes over the descriptors, even if it fails. It
// needs no capability.
func OpenCapture(fds [CaptureMaps]int) (_ *Capture, err error) {
	c := new(Capture)
	var opening [CaptureMaps]error
	c.ring, opening[0] = ebpf.NewMapFromFD(fds[0])
	c.counts, opening[1] = ebpf.NewMapFromFD(fds[1])
	if err = errors.Join(opening[:]...); err == nil {
		if c.reader, err = ringbuf.NewReader(c.ring); err == nil {
			c.reader.SetDeadline(time.Unix(0, 0)) // it never waits
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a capture of direct frames: %w", err), c.Close())
	}
	return c, nil
}

// Next returns the next frame, if one is there. The frame's bytes are valid until the next call.
func (c *Capture) Next() (s Seen, ok bool, err error) {
	if err = c.reader.ReadInto(&c.record); errors.Is(err, os.ErrDeadlineExceeded) {
		return s, false, nil
	}
	if err == nil {
		s, err = decodeSeen(c.record.RawSample)
	}
	if err != nil {
		return s, false, fmt.Errorf("read a captured direct frame: %w", err)
	}
	return s, true, nil
}

// ErrSeen reports bytes that are not a record of a captured frame.
var ErrSeen = errors.New("not a record of a captured frame")

// decodeSeen reads struct funet_seen and what follows it. Any bytes may be given.
func decodeSeen(b []byte) (s Seen, err error) {
	ne := binary.NativeEndian
	if len(b) < seenSize {
		return s, ErrSeen
	}
	length, kept := ne.Uint32(b[8:]), ne.Uint32(b[12:])
	s = Seen{Time: time.Duration(ne.Uint64(b)), Length: int(length), NIC: ne.Uint32(b[16:]), GID: ne.Uint16(b[20:]),
		Node: ne.Uint16(b[22:]), Verdict: Verdict(b[24])}
	if b = b[seenSize:]; int64(kept) > int64(len(b)) || kept > length || s.Verdict >= Verdicts {
		return Seen{}, ErrSeen
	}
	s.Data = b[:kept]
	return s, nil
}

// Lost returns how many frames found no room in the ring since the capture began.
func (c *Capture) Lost() (uint64, error) {
	var v guardFunetCapture
	if err := c.counts.Lookup(uint32(0), &v); err != nil {
		return 0, fmt.Errorf("read how many direct frames a capture has lost: %w", err)
	}
	return v.Lost, nil
}

// Close gives back what OpenCapture opened. The programs go on putting frames in until StopCapture.
func (c *Capture) Close() error {
	var errs []error
	if c.reader != nil {
		errs = append(errs, c.reader.Close())
	}
	return errors.Join(append(errs, c.ring.Close(), c.counts.Close())...) // nil: nothing to close
}

// Monotonic returns the time by CLOCK_MONOTONIC, the clock of Seen.Time.
func Monotonic() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0 // every kernel has it
	}
	return time.Duration(t.Nano())
}
