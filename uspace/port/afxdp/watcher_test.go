package afxdp

// This file tests what is concluded from counters, and what a port does about it.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"pgregory.net/rapid"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/xdp"
)

// second holds the events of one second of a test's story.
type second struct {
	rx, tx, missed, seen uint64
	sent                 uint32
	down                 bool
	unwatched            int // seconds before it in which nobody looked
}

// tell has a watcher look once a second, times over, and returns the first verdict that is not
// sound and in which second it was.
func tell(w *watcher, story ...second) (v verdict, at int) {
	s := sample{at: time.Unix(1000, 0), carrier: true}
	w.look(s)
	for i, x := range story {
		s = sample{at: s.at.Add(time.Duration(1+x.unwatched) * time.Second), rx: s.rx + x.rx, tx: s.tx + x.tx,
			missed: s.missed + x.missed, seen: s.seen + x.seen, sent: s.sent + x.sent, carrier: !x.down}
		if v := w.look(s); v != sound {
			return v, i + 1
		}
	}
	return sound, 0
}

func times(n int, x second) (story []second) {
	for range n {
		story = append(story, x)
	}
	return story
}

func then(parts ...[]second) (story []second) {
	for _, p := range parts {
		story = append(story, p...)
	}
	return story
}

// Rule: a program that sees nothing of what the interface receives is not run; an interface that
// loses everything is deaf; one that hears nothing, where a neighbour was before and the kernel
// sends, is silent. Each is found within ten seconds of traffic, and what only looks like it is
// not.
func TestWatcher(t *testing.T) {
	busy := second{rx: 20, tx: 20, seen: 20}
	for name, c := range map[string]struct {
		story []second
		heard bool
		want  verdict
		by    int // second
	}{
		"nothing happens":         {times(300, second{}), true, sound, 0},
		"traffic":                 {times(300, busy), true, sound, 0},
		"never run":               {times(20, second{rx: 5}), false, notRun, 6},
		"run, then not (vmxnet3)": {then(times(100, busy), times(20, second{rx: 20})), false, notRun, 105},
		"not run, little traffic": {then(times(9, busy), times(60, second{rx: 1})), false, notRun, 21},
		"few frames that NICs keep": {then(times(9, busy), times(60, second{}), times(7, second{rx: 1})),
			false, sound, 0},
		"counted two seconds late": {then(times(3, second{seen: 1000}), []second{{rx: 0}, {rx: 3000}},
			times(60, second{})), false, sound, 0},
		"run again after a pause": {then(times(5, busy), times(60, second{}), times(60, busy)), false, sound, 0},
		"deaf (igb)": {then(times(1, second{}), times(20, second{missed: 3, tx: 1})),
			false, deaf, 4},
		"deaf after a while": {then(times(50, busy), times(20, second{missed: 30})), false, deaf, 53},
		"overrun, but alive": {times(100, second{rx: 20, seen: 20, missed: 1000}), false, sound, 0},
		"dropped now and then": {then(times(30, second{missed: 1, rx: 1, seen: 1}),
			times(7, second{missed: 1})), false, sound, 0},
		"silent":                       {times(20, second{tx: 1}), true, silent, 6},
		"silent, sends little":         {then(times(8, second{}), times(60, second{tx: 1})), true, silent, 12},
		"alone on the segment":         {times(200, second{tx: 3}), false, sound, 0},
		"silent, but only FUNet sends": {times(100, second{tx: 3, sent: 3}), true, sound, 0},
		"XDP not counted as sent":      {times(100, second{sent: 5}), true, sound, 0},
		"silent after a reset": {then(times(3, second{down: true}), times(60, second{tx: 1})),
			true, silent, 43},
		"a switch learns for 30 seconds": {then(times(3, second{down: true}), times(31, second{tx: 1}),
			times(300, busy)), true, sound, 0},
		"down, and nobody looked": {then(times(5, busy), []second{{unwatched: 100, tx: 9, missed: 9}},
			times(31, second{tx: 1}), times(300, busy)), true, sound, 0},
		"no carrier":         {times(300, second{tx: 1, down: true}), true, sound, 0},
		"others leave later": {then(times(119, busy), times(300, second{tx: 1})), true, sound, 0},
	} {
		w := &watcher{heardBefore: c.heard}
		if v, at := tell(w, c.story...); v != c.want || at > c.by {
			t.Errorf("%s: verdict %d in second %d, want %d by second %d", name, v, at, c.want, c.by)
		}
	}
}

// Rule: an interface whose program sees every frame is never judged, whatever the traffic, however
// late (up to two seconds) the driver counts, and when it begins to count anew.
func TestWatcherOfSoundInterfaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &watcher{heardBefore: rapid.Bool().Draw(t, "heard before")}
		s := sample{at: time.Unix(1000, 0), carrier: true}
		var late [3]uint64
		for range rapid.IntRange(1, 200).Draw(t, "seconds") {
			n := rapid.SampledFrom([]uint64{0, 0, 0, 1, 5, 1000}).Draw(t, "frames")
			s.at = s.at.Add(time.Duration(rapid.IntRange(900, 1500).Draw(t, "ms")) * time.Millisecond)
			s.seen += n
			late[0], late[1], late[2] = n, late[0], late[1]
			by := rapid.IntRange(0, 2).Draw(t, "late")
			for i := by; i < len(late); i++ {
				s.rx += late[i]
				late[i] = 0
			}
			sent := rapid.Uint32Range(0, 10).Draw(t, "sent")
			s.sent += sent
			s.tx += rapid.Uint64Range(0, uint64(sent)).Draw(t, "of them counted")
			if n > 0 { // the kernel answers
				s.missed += rapid.Uint64Range(0, 100).Draw(t, "missed")
				s.tx += n
			}
			s.carrier = rapid.IntRange(0, 9).Draw(t, "carrier") > 0
			if rapid.IntRange(0, 30).Draw(t, "anew") == 0 {
				s.rx, s.tx, s.missed, late = 0, 0, 0, [3]uint64{}
			}
			if v := w.look(s); v != sound {
				t.Fatalf("verdict %d of %+v", v, s)
			}
		}
	})
}

// behindBack detaches the program of a port silently, as a driver does that forgets it.
func behindBack(t *testing.T, l *lab.Lab, host int) {
	t.Helper()
	if err := l.Do(host, func() error {
		i, err := netlink.LinkByName("fu0")
		if err != nil {
			return err
		}
		it := new(link.Iterator)
		defer it.Close()
		for it.Next() {
			info, err := it.Link.Info()
			if err != nil {
				return err
			}
			if x := info.XDP(); x != nil && int(x.Ifindex) == i.Attrs().Index && uint32(info.Program) ==
				i.Attrs().Xdp.ProgId {
				return it.Link.Detach()
			}
		}
		return fmt.Errorf("no link of program %d: %w", i.Attrs().Xdp.ProgId, it.Err())
	}); err != nil {
		t.Fatal(err)
	}
}

// Rule: a native program that is not run any more is found by the counters and attached anew, with
// the same sockets; when it sees nothing then either, generic mode takes its place; and frames pass
// each time. Meanwhile the kernel has every frame.
func TestWatchAttachesAnew(t *testing.T) {
	l := newLab(t, lab.Options{})
	a, b := open(t, l, 0, Config{Attach: xdp.AttachNative}), open(t, l, 1, Config{Attach: xdp.AttachNative})
	now := time.Unix(1000, 0)
	watch := func(p *Port, host int) (f Finding) {
		now = now.Add(time.Second)
		if err := l.Do(host, func() error { f = p.Watch(now); return nil }); err != nil {
			t.Fatal(err)
		}
		return f
	}
	traffic := func(seconds int) (all []Finding) {
		for range seconds {
			for range 5 {
				send(t, a, b, 1, 200)
			}
			a.Flush()
			settled(t, a)
			if f := watch(b, 1); f.Said != "" || f.Reopen {
				all = append(all, f)
			}
			for lent := make([][]byte, maxLent); b.Ready(); b.Release() {
				b.Receive(lent)
			}
		}
		return all
	}
	if found := traffic(20); found != nil {
		t.Fatalf("an interface that works: %v", found)
	}
	for _, c := range []struct {
		mode xdp.AttachMode
		says string
	}{
		{xdp.AttachNative, "attached it anew"},
		{xdp.AttachGeneric, "attached it anew in generic mode"},
	} {
		behindBack(t, l, 1)
		var found []Finding
		for n := 0; found == nil && n < 20; n++ {
			found = traffic(1)
		}
		if len(found) != 1 || found[0].Reopen || !strings.HasSuffix(found[0].Said, c.says) ||
			!strings.Contains(found[0].Said, "interface fu0 received ") {
			t.Fatalf("found %+v, want one that ends with %q", found, c.says)
		}
		t.Log(found[0].Said)
		if got := b.Info().XDPMode; got != c.mode {
			t.Fatalf("attached %s, want %s", got, c.mode)
		}
		if why := b.Info().Why; strings.Contains(why, "native mode was left (the program was not run)") !=
			(c.mode == xdp.AttachGeneric) {
			t.Errorf("attached %s: %q", c.mode, why)
		}
		if c.mode == xdp.AttachNative {
			// Before it sees anything again.
			continue
		}
		exchange(t, a, b, mixture(a, 100), 20)
		exchange(t, b, a, mixture(b, 100), 20)
	}
	if found := traffic(20); found != nil {
		t.Fatalf("an interface that works again: %v", found)
	}
	// In generic mode there is nothing to mend; the port says so once.
	behindBack(t, l, 1)
	if found := traffic(40); len(found) != 1 || found[0].Reopen ||
		!strings.Contains(found[0].Said, "has no part in that") {
		t.Fatalf("found %+v", found)
	}
}

// Rule: where the sockets that a port has cannot mend a fault, the port asks its owner to open it
// anew, and names the modes. A zero-copy port that worked is opened as it was. One that never
// worked is opened a rung lower. One that has taken the network from the kernel is opened at once
// in generic mode.
func TestWatchAsksToReopen(t *testing.T) {
	for name, c := range map[string]struct {
		proven, heard bool
		each          func(n int, s *sample)
		attach        xdp.AttachMode
		bind          xdp.BindMode
		says          string
	}{
		"worked": {true, false, func(n int, s *sample) {
			s.rx += 10
		}, xdp.AttachAuto, xdp.BindAuto, "not run any more; opening it anew"},
		"never did": {false, false, func(n int, s *sample) {
			s.rx += 10
		}, xdp.AttachAuto, xdp.BindCopy, "without zero-copy"},
		"deaf": {true, false, func(n int, s *sample) {
			s.missed += 10
		}, xdp.AttachAuto, xdp.BindCopy, "for want of buffers"},
		"silent": {false, true, func(n int, s *sample) {
			s.tx += 10
		}, xdp.AttachGeneric, xdp.BindCopy, "heard nothing for"},
		"lost": {true, false, func(n int, s *sample) { s.lanes = []lane{{redirected: uint64(10 * n)}} },
			xdp.AttachAuto, xdp.BindCopy, "frames of queue 0 to its socket, where none came"},
		"stuck": {true, false, func(n int, s *sample) {
			s.lanes = []lane{{held: 99}}
		}, xdp.AttachAuto, xdp.BindCopy, "99 frames for queue 0 were not sent in 6s"},
	} {
		p := &Port{info: Info{Interface: "eth0", XDPMode: xdp.AttachNative, BindMode: xdp.BindZeroCopy},
			watcher: watcher{heardBefore: c.heard}}
		s := sample{at: time.Unix(1000, 0), carrier: true, lanes: make([]lane, 1)}
		var f Finding
		for n := 0; f.Said == "" && n < 20; n++ {
			f = p.judge(s)
			s.at = s.at.Add(time.Second)
			if n == 0 && c.proven {
				s.rx, s.seen = s.rx+1, s.seen+1
			} else {
				c.each(n, &s)
			}
		}
		if !f.Reopen || f.Attach != c.attach || f.Bind != c.bind || !strings.Contains(f.Said, c.says) ||
			!strings.HasPrefix(f.Said, "interface eth0") {
			t.Errorf("%s: %+v; want %s, %s and %q", name, f, c.attach, c.bind, c.says)
		}
	}
}
