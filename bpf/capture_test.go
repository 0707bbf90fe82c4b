// This file tests captures of direct frames: what guard and NIC program show of each, how much of
// it, and what becomes of what finds no room.

package bpf

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// capture begins a capture, as a process does that is sent the descriptors.
func (b *switchBed) capture(t *testing.T, snap int) *Capture {
	t.Helper()
	fds, err := b.StartCapture(snap)
	if err != nil {
		t.Fatal(err)
	}
	for i := range fds {
		if fds[i], err = unix.FcntlInt(uintptr(fds[i]), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
	}
	c, err := OpenCapture(fds)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// next takes the only frame that is there.
func next(t *testing.T, c *Capture) Seen {
	t.Helper()
	s, ok, err := c.Next()
	if !ok || err != nil {
		t.Fatalf("no frame was captured: %v", err)
	}
	s.Data = bytes.Clone(s.Data)
	none(t, c)
	return s
}

func none(t *testing.T, c *Capture) {
	t.Helper()
	if s, ok, err := c.Next(); ok || err != nil {
		t.Fatalf("one more frame was captured: %+v, %v", s, err)
	}
}

// guarded shows a frame to the guard at the port of node here, and returns it as it was left.
func (b *switchBed) guarded(t *testing.T, frame []byte, repeat uint32) []byte {
	t.Helper()
	o := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Context: skBuff{Ifindex: b.outer[0]},
		Repeat: repeat}
	if b.generic {
		o.Context = xdpMD{IngressIfindex: b.outer[0], DataEnd: uint32(len(frame))}
	}
	if _, err := b.Guard(b.generic).Run(o); err != nil {
		t.Fatal(err)
	}
	return o.DataOut
}

// The verdicts of the guard, in the order of enum funet_port_counter.
const (
	portShort Verdict = iota
	portBadVersion
	portForged
	portBadLength
	portNoNode
	portTooLong
	portNoCredit
	portSent
	portLocal
)

// Rule (guard.c): who captures sees each frame of a port once, as it leaves or as it was dropped,
// with the counter that it moved and whose it is.
func TestCaptureAtPorts(t *testing.T) {
	both(t, func(t *testing.T, b *switchBed) {
		if err := b.SetPlace(b.job, there, &Place{Port: b.outer[1], Link: 1, Longest: MaxSnap}); err != nil {
			t.Fatal(err)
		}
		c := b.capture(t, MaxSnap)
		for name, at := range map[string]struct {
			frame []byte
			want  Verdict
		}{
			"to a port":     {directFrame(FrameMin, here, there), portLocal},
			"224 bytes":     {directFrame(224, here, there), portLocal},
			"225 bytes":     {directFrame(225, here, there), portLocal},
			"1600 bytes":    {directFrame(1600, here, there), portLocal},
			"1601 bytes":    {directFrame(1601, here, there), portLocal},
			"the longest":   {directFrame(3498+14, here, there), portLocal},
			"to a host":     {directFrame(longest, here, away), portSent},
			"too long":      {directFrame(longest+1, here, away), portTooLong},
			"too short":     {directFrame(FrameMin-1, here, there), portShort},
			"of 14 bytes":   {directFrame(14, here, there), portShort},
			"version 6":     {directFrame(100, here, there, version(6)), portBadVersion},
			"forged":        {directFrame(100, there, here), portForged},
			"a bad length":  {directFrame(100, here, there, length(87)), portBadLength},
			"to nowhere":    {directFrame(100, here, nowhere), portNoNode},
			"to another's":  {directFrame(100, here, stale), portNoNode},
			"behind a port": {directFrame(100, here, here), portLocal},
		} {
			before := Monotonic()
			left := b.guarded(t, at.frame, 1)
			s := next(t, c)
			nic := uint32(0)
			if at.want == portSent {
				nic = b.wire
			}
			if s.Verdict != at.want || s.GID != homeGroup || s.Node != here || s.NIC != nic || s.Length != len(left) ||
				!bytes.Equal(s.Data, left) || s.Time < before || s.Time > Monotonic() {
				t.Errorf("%s, which leaves as\n%x, is seen as %.300v", name, left[:min(len(left), 100)], s)
			}
			if passes := at.want >= portSent; passes != (s.Verdict.Dropped() == "") || s.Verdict.Arrived() ||
				s.Verdict.Local() != (at.want == portLocal) {
				t.Errorf("%s: the words are %q", name, s.Verdict.Dropped())
			}
		}
		if lost, err := c.Lost(); lost != 0 || err != nil {
			t.Errorf("%d are lost, %v", lost, err)
		}
	})
}

// Rule (capture.h): frames for a host are seen with the headers that lead there.
func TestCaptureOfDatagrams(t *testing.T) {
	both(t, func(t *testing.T, b *switchBed) {
		way := EthernetWay(hostMAC, nicMAC, 5)
		if err := b.SetPlace(b.job, away, &Place{NIC: b.wire, Longest: 2000, Way: way}); err != nil {
			t.Fatal(err)
		}
		c := b.capture(t, MaxSnap)
		left := b.guarded(t, directFrame(100, here, away), 1)
		if s := next(t, c); len(left) != 104 || s.Length != 104 || !bytes.Equal(s.Data, left) ||
			!bytes.HasPrefix(left, way.Head) {
			t.Errorf("%x is seen as %+v", left, s)
		}
	})
}

// Rule (nic.c): who captures sees each direct frame of a right length that comes, as it came, with
// the counter that it moves; none of the frames for the daemon's card.
func TestCaptureAtTheNIC(t *testing.T) {
	const stranger, noPort, direct = firstNIC + 8, firstNIC + 9, firstNIC + 10
	arrived := func(changes ...func([]byte)) []byte {
		return directFrame(1700, away, here, append([]func([]byte){from(hostMAC)}, changes...)...)
	}
	for _, frags := range []bool{false, true} {
		b := newSwitchBedOf(t, frags)
		c := b.capture(t, MaxSnap)
		addSocket(t, b.nic, 0)
		for name, at := range map[string]struct {
			frame []byte
			want  Verdict // 0: it is not seen
		}{
			"for a port":        {arrived(), direct},
			"of another host":   {arrived(from(nicMAC)), stranger},
			"of another tag":    {arrived(putTag(jobTag + 2)), stranger},
			"for nowhere":       {arrived(word(offsetDestination, nowhere)), noPort},
			"version 6":         {arrived(version(6)), 0},
			"with a bad length": {arrived(length(1700)), 0},
			"IPv4":              {arrived(etherType(unix.ETH_P_IP)), 0},
		} {
			o := &ebpf.RunOptions{Data: at.frame, DataOut: make([]byte, len(at.frame)+64),
				Context: xdpMD{IngressIfindex: b.wire, DataEnd: uint32(len(at.frame))}}
			if _, err := b.nic.Program().Run(o); err != nil {
				t.Fatal(err)
			}
			if at.want == 0 {
				none(t, c)
				continue
			}
			if s := next(t, c); s.Verdict != at.want || !s.Verdict.Arrived() || s.NIC != b.wire || s.GID != 0 ||
				s.Length != len(at.frame) || !bytes.Equal(s.Data, at.frame) {
				t.Errorf("%s is seen as %+v", name, s)
			}
			if passes := at.want == direct; passes != (at.want.Dropped() == "") || at.want.Local() {
				t.Errorf("%s: the words are %q", name, at.want.Dropped())
			}
		}
	}
}

// Rule (StartCapture): so many bytes of each frame are kept, whatever record they go into.
func TestCaptureSnap(t *testing.T) {
	both(t, func(t *testing.T, b *switchBed) {
		for _, snap := range []int{1, 20, FrameMin, 224, 225, 1600, 1601, MaxSnap} {
			c := b.capture(t, snap)
			left := b.guarded(t, directFrame(1900, here, there), 1)
			if s := next(t, c); s.Length != len(left) || !bytes.Equal(s.Data, left[:min(snap, len(left))]) {
				t.Errorf("of %d bytes %d are kept, not %d", s.Length, len(s.Data), snap)
			}
		}
		for _, snap := range []int{0, -1, MaxSnap + 1} {
			if _, err := b.StartCapture(snap); !errors.Is(err, ErrRange) {
				t.Errorf("%d bytes: %v", snap, err)
			}
		}
	})
}

// Rule (capture.h): what finds the ring full is counted, and passes; when there is room again,
// frames are seen again. The next capture begins with none, and when nobody captures nothing is put
// anywhere.
func TestCaptureFull(t *testing.T) {
	both(t, func(t *testing.T, b *switchBed) {
		const frames = 2 * CaptureSize / 256
		c := b.capture(t, MaxSnap)
		before, err := b.PortCounters(b.outer[0])
		if err != nil {
			t.Fatal(err)
		}
		b.guarded(t, directFrame(100, here, here), frames)
		after, err := b.PortCounters(b.outer[0])
		if err != nil || after.Local-before.Local != frames {
			t.Fatalf("of %d frames %d pass, %v", frames, after.Local-before.Local, err)
		}
		drain := func() (n uint64) {
			for {
				_, ok, err := c.Next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					return n
				}
				n++
			}
		}
		seen := drain()
		lost, err := c.Lost()
		if err != nil || seen+lost != frames || seen < frames/3 || lost < frames/3 {
			t.Errorf("of %d frames %d are seen and %d lost, %v", frames, seen, lost, err)
		}
		b.guarded(t, directFrame(90, here, here), 1)
		if s := next(t, c); s.Length != 90 {
			t.Errorf("behind them there is %+v", s)
		}
		again := b.capture(t, MaxSnap)
		none(t, again)
		if lost, err := again.Lost(); lost != 0 || err != nil {
			t.Errorf("the next one has lost %d, %v", lost, err)
		}
		b.guarded(t, directFrame(91, here, here), 1)
		if s := next(t, again); s.Length != 91 {
			t.Errorf("the next one sees %+v", s)
		}
		none(t, c)
		for range 2 {
			if err := b.StopCapture(); err != nil {
				t.Fatal(err)
			}
		}
		b.guarded(t, directFrame(92, here, here), 1)
		none(t, again)
	})
}

// TestCaptureHeader: the numbers and words of captures are those of the headers.
func TestCaptureHeader(t *testing.T) {
	text, err := os.ReadFile("capture.h")
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`#define FUNET_SEEN_LONG (\d+)`).FindSubmatch(text); m == nil ||
		string(m[1]) != strconv.Itoa(MaxSnap) {
		t.Errorf("the longest record has %s bytes of a frame", m)
	}
	if n := reflect.TypeFor[PortCounters]().NumField(); n != len(portWords) {
		t.Errorf("%d words for %d counters of a port", len(portWords), n)
	}
	// that of redirected frames is no direct one's
	if n := reflect.TypeFor[Counters]().NumField(); n != len(nicWords)+1 {
		t.Errorf("%d words for %d counters of a NIC", len(nicWords), n)
	}
}

// Rule (decodeSeen): any bytes are a record or ErrSeen, and what is one holds no more than there
// is.
func FuzzDecodeSeen(f *testing.F) {
	f.Add(make([]byte, seenSize))
	f.Add(append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 5, 0, 6, 0, 7, 0, 0, 0, 0, 0, 0, 0},
		8, 9, 10))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeSeen(b)
		if err != nil && !errors.Is(err, ErrSeen) || err == nil &&
			(len(s.Data) > s.Length || len(s.Data)+seenSize > len(b) || s.Verdict >= Verdicts) {
			t.Fatalf("%+v, %v", s, err)
		}
		_ = s.Verdict.Dropped()
	})
}
