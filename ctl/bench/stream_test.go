// Raw AF_XDP's stream on real labs: frames of one buffer and of several, and memory that is the same at both ends.

package bench

import (
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/xdp"
)

// Every block arrives, in whatever frames and modes: stream compares the memory of both ends. A block need not be a
// multiple of what a frame has room for, and the memory is filled several times.
func TestStream(t *testing.T) {
	leavesNothing(t)
	for _, c := range []struct {
		mtu, frame int
		jumbo      bool
		attach     xdp.AttachMode
		block      int
	}{
		{1500, 1514, false, xdp.AttachGeneric, 128 << 10},
		{1500, 1514, false, xdp.AttachNative, 16},
		{9000, 3836, false, xdp.AttachGeneric, 50_000},
		{9000, 9014, true, xdp.AttachGeneric, 128 << 10},
		{lab.MaxMTU, arctic.MaxFrame, true, xdp.AttachGeneric, 1 << 20},
	} {
		l := newLab(t, lab.Options{MTU: c.mtu})
		s, err := newSession(l, Options{RoleCommand: []string{roleArg}})
		if err != nil {
			t.Fatal(err)
		}
		o := s.roleConfig(c.attach, xdp.BindCopy, 0, 20)
		o.FrameSize, o.Frags = c.frame, o.Frags || c.jumbo
		o.streamConfig = streamConfig{Block: c.block, Memory: 3 * c.block, Jumbo: c.jumbo}
		if gbit, err := s.stream(t.Context(), o); err != nil || !(gbit > 0) {
			t.Errorf("%+v: %v Gbit/s, %v", c, gbit, err)
		}
	}
}

// A place walks the memory in pieces that end where blocks and frames do, and begins again.
func TestPlace(t *testing.T) {
	s := &rawStream{c: roleConfig{streamConfig: streamConfig{Block: 10}}, block: 4, memory: make([]byte, 20)}
	for i := range s.memory {
		s.memory[i] = byte(i)
	}
	var p place
	for _, want := range []string{"\x00\x01\x02\x03", "\x04\x05\x06\x07", "\x08\x09", "\x0a\x0b\x0c\x0d", "\x0e\x0f\x10\x11", "\x12\x13", "\x00\x01\x02\x03"} {
		if got := string(p.next(s)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
