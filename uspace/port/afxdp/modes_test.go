package afxdp

// This file tests which modes are tried on which kinds of interface, and that the report is
// what was got.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/xdp"
)

// Rule: the ladder is zero-copy, native copy, generic copy, cut to what was asked for. Zero-copy
// with a generic program is tried only where both were asked for, which is refused. A bond gets
// generic mode, and so does veth of one queue; for both, rungs says why.
func TestRungs(t *testing.T) {
	const (
		auto, native, generic = xdp.AttachAuto, xdp.AttachNative, xdp.AttachGeneric
		any, cp, zero         = xdp.BindAuto, xdp.BindCopy, xdp.BindZeroCopy
	)
	all := []rung{{native, zero}, {native, cp}, {generic, cp}}
	bond := xdp.Kind{Name: "bond", Native: errors.New("slaves")}
	for _, c := range []struct {
		kind   xdp.Kind
		queues int
		attach xdp.AttachMode
		bind   xdp.BindMode
		want   []rung
		why    string
	}{
		{xdp.Kind{Name: "device"}, 1, auto, any, all, ""},
		{xdp.Kind{Name: "device"}, 4, auto, any, all, ""},
		{xdp.Kind{Name: "device"}, 4, native, any, all[:2], ""},
		{xdp.Kind{Name: "device"}, 4, generic, any, all[2:], ""},
		{xdp.Kind{Name: "device"}, 4, auto, cp, all[1:], ""},
		{xdp.Kind{Name: "device"}, 4, native, cp, all[1:2], ""},
		{xdp.Kind{Name: "device"}, 4, auto, zero, all[:1], ""},
		{xdp.Kind{Name: "device"}, 4, generic, zero, []rung{{generic, zero}}, ""},
		{xdp.Kind{Name: "veth"}, 1, auto, any, all[2:], "faster"},
		{xdp.Kind{Name: "veth"}, 1, native, any, all[:2], ""},
		{xdp.Kind{Name: "veth"}, 1, auto, zero, all[:1], ""},
		{xdp.Kind{Name: "veth"}, 3, auto, any, all, ""},
		{bond, 16, auto, any, all[2:], "slaves"},
		{bond, 16, auto, cp, all[2:], "slaves"},
		{bond, 16, native, any, all[:2], ""}, // xdp.Attach refuses
		{bond, 16, auto, zero, all[:1], ""},
	} {
		got, why := (&Config{Attach: c.attach, Bind: c.bind}).rungs(c.kind, c.queues)
		if !slices.Equal(got, c.want) || !strings.Contains(strings.Join(why, "; "), c.why) ||
			(c.why == "") != (why == nil) {
			t.Errorf("%s of %d queues, asked for %s and %s: %v, %q; want %v, %q", c.kind.Name, c.queues, c.attach,
				c.bind, got, why, c.want, c.why)
		}
	}
}

// Rule: whatever is asked for, a port says the modes that it has and why they are no better, and
// where copy mode is certain a UMEM frame is as small as before: veth never has zero-copy.
func TestModesTold(t *testing.T) {
	for _, c := range []struct {
		queues int
		ask    Config
		mode   xdp.AttachMode
		why    string
	}{
		{1, Config{}, xdp.AttachGeneric, "faster"},
		{1, Config{Attach: xdp.AttachNative}, xdp.AttachNative, "no zero-copy (operation not supported)"},
		{1, Config{Attach: xdp.AttachGeneric}, xdp.AttachGeneric, ""},
		{1, Config{Attach: xdp.AttachNative, Bind: xdp.BindCopy}, xdp.AttachNative, ""},
		{2, Config{}, xdp.AttachNative, "no zero-copy (operation not supported)"},
	} {
		p := open(t, newLab(t, lab.Options{Queues: c.queues}), 0, c.ask)
		i := p.Info()
		if i.XDPMode != c.mode || i.BindMode != xdp.BindCopy || !strings.Contains(i.Why, c.why) ||
			(c.why == "") != (i.Why == "") || strings.Contains(i.Why, "\n") {
			t.Errorf("%d queues, %+v: %+v; want %s and %q", c.queues, c.ask, i, c.mode, c.why)
		}
		if size := p.umem.Config().FrameSize; size != 2048 {
			t.Errorf("%d queues, %+v: UMEM frames of %d bytes, want 2048", c.queues, c.ask, size)
		}
	}
}

// Rule: a UMEM for zero-copy has frames of 4096 bytes at every MTU, also where 2048 would do.
func TestFramesForZeroCopy(t *testing.T) {
	for mtu, want := range map[int]uint32{1500: 2048, 1774: 2048, 1775: 4096, 3000: 4096} {
		if z := (&Config{}).sizes(mtu, false); z.umemFrame != want || z.frameMax != mtu+14 {
			t.Errorf("MTU %d, copy: %+v, want UMEM frames of %d bytes", mtu, z, want)
		}
		if z := (&Config{}).sizes(mtu, true); z.umemFrame != 4096 || z.frameMax != mtu+14 {
			t.Errorf("MTU %d, zero-copy: %+v, want UMEM frames of 4096 bytes", mtu, z)
		}
	}
}

// Rule: a port that replaces another sends no longer frames than that one did, and shorter ones
// where its MTU is smaller.
func TestLongest(t *testing.T) {
	for mtu, want := range map[int]int{1000: 1014, 1500: 1400, 9000: 1400} {
		for _, jumbo := range []bool{false, true} {
			if z := (&Config{Longest: 1400, Jumbo: jumbo}).sizes(mtu, false); z.frameMax != want {
				t.Errorf("MTU %d, jumbo %v: frames of %d bytes, want %d", mtu, jumbo, z.frameMax, want)
			}
		}
	}
}

// Rule: a mode that cannot work is refused in one line that says what to do, and nothing else is
// taken in its place.
func TestModesRefused(t *testing.T) {
	l := newLab(t, lab.Options{})
	for _, c := range []struct {
		ask  Config
		says string
	}{
		{Config{Attach: xdp.AttachGeneric, Bind: xdp.BindZeroCopy}, "attach native before, or use copy mode"},
		{Config{Bind: xdp.BindZeroCopy}, "use copy mode"},
		{Config{Attach: xdp.AttachNative, Bind: xdp.BindZeroCopy}, "use copy mode"},
	} {
		p, err := tryOpen(l, 0, c.ask)
		if err == nil {
			t.Fatalf("%+v was opened as %+v, %v", c.ask, p.Info(), p.Close())
		}
		if !errors.Is(err, xdp.ErrNotSupported) || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v; want %q", c.ask, err, c.says)
		}
	}
	open(t, l, 0, Config{}) // nothing is left of the others
}

// Rule: Close has what was committed leave, also what the kernel did not take at the last kick:
// here because the interface was down, and comes up while Close waits.
func TestCloseSendsTheLast(t *testing.T) {
	for _, jumbo := range []bool{false, true} {
		t.Run(fmt.Sprintf("jumbo %v", jumbo), func(t *testing.T) {
			l := newLab(t, lab.Options{})
			a, b := open(t, l, 0, Config{Jumbo: jumbo}), open(t, l, 1, Config{Jumbo: jumbo})
			// The port waits for as long as this test's own patience, not drainTime: the machine is
			// busy.
			a.drainTime = patience
			setLink(t, l, 0, false)
			send(t, a, b, 7, 200)
			a.Flush()
			if !errors.Is(a.Err(), xdp.ErrNetDown) {
				t.Fatalf("sending on an interface that is down: %v", a.Err())
			}
			up := make(chan struct{})
			go func() {
				defer close(up)
				setLink(t, l, 0, true)
			}()
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			<-up
			if f := receive(t, b, 1, 1)[0]; len(f) != 200 {
				t.Errorf("a frame of %d bytes arrived, want 200", len(f))
			}
		})
	}
}

// Rule: in zero-copy mode Close waits until every frame has been completed, at most drainTime; in
// copy mode only until the kernel has taken all. A frame that nobody completes stands for a NIC
// that is slow.
func TestCloseWaitsForCompletions(t *testing.T) {
	for _, jumbo := range []bool{false, true} {
		l := newLab(t, lab.Options{})
		p := open(t, l, 0, Config{Jumbo: jumbo})
		if p.underWay() != 0 {
			t.Fatalf("%d frames are under way before anything was sent", p.underWay())
		}
		p.Reserve() // not committed, so nobody waits for it
		p.drainTime = patience
		p.drain() // or this test takes that long
		p.slabs.free = p.slabs.free[1:]
		if p.underWay() != 1 {
			t.Fatalf("%d frames are under way, want 1", p.underWay())
		}
		p.drain() // copy mode
		p.info.BindMode, p.drainTime = xdp.BindZeroCopy, 50*time.Millisecond
		start := time.Now()
		p.drain()
		if took := time.Since(start); took < p.drainTime {
			t.Errorf("jumbo %v: Close would wait for %v, want %v", jumbo, took, p.drainTime)
		}
	}
}
