// Raw AF_XDP's stream on real labs: frames of one buffer and of several, and memory that is the
// same at both ends.

package bench

import (
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/rawxdp"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/xdp"
)

// Every block arrives, in whatever frames and modes: stream compares the memory of both ends. A
// block need not be a multiple of what a frame has room for, and the memory is filled several
// times.
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
		s, err := newSession(l)
		if err != nil {
			t.Fatal(err)
		}
		o := s.roleConfig(rawxdp.Modes{Attach: c.attach, Bind: xdp.BindCopy}, 0, 20)
		o.FrameSize, o.Frags = c.frame, o.Frags || c.jumbo
		o.streamConfig = streamConfig{Block: c.block, Memory: 3 * c.block, Jumbo: c.jumbo}
		if gbit, err := s.stream(t.Context(), o); err != nil || !(gbit > 0) {
			t.Errorf("%+v: %v Gbit/s, %v", c, gbit, err)
		}
	}
}

// A place walks the memory in pieces that end where FUNet's frames and blocks do, and begins again.
func TestPlace(t *testing.T) {
	for _, c := range []struct {
		block, frame int
		want         []int
	}{
		{100, 64, []int{64, 16, 20}}, // 20 are left over by parts of 80 bytes
		{160, 64, []int{64, 32, 64}}, // none are: the last packet has as many as it has room for
		{16, 64, []int{16}},
		{96, 128, []int{80, 16}},
	} {
		s := &rawStream{c: roleConfig{streamConfig: streamConfig{Block: c.block}}, block: c.frame,
			memory: make([]byte, 2*c.block)}
		for i := range s.memory {
			s.memory[i] = byte(i)
		}
		var p place
		for round := range 3 {
			at := round % 2 * c.block
			for _, n := range c.want {
				if got, want := p.next(s), s.memory[at:at+n]; string(got) != string(want) {
					t.Errorf("blocks of %d bytes in frames of %d: %d bytes from %d, want %d from %d", c.block, c.frame,
						len(got), got[0], n, want[0])
				}
				at += n
			}
		}
	}
}
