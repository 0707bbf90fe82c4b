package afxdp

// This file tests what is concluded about single queues, from counters and from real ones.

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/xdp"
)

// turn holds the events on a queue in a second.
type turn struct {
	redirected, arrived uint64
	completed           uint32
	held                uint32 // at its end
	down                bool
}

// tellOf has a watcher of three queues look once a second; the story is the second's.
func tellOf(story []turn) (v verdict, at int, queue int) {
	w := new(watcher)
	s := sample{at: time.Unix(1000, 0), carrier: true, lanes: make([]lane, 3)}
	w.look(s)
	for i, x := range story {
		l := s.lanes[1]
		l.redirected, l.arrived, l.completed, l.held = l.redirected+x.redirected, l.arrived+x.arrived,
			l.completed+x.completed, x.held
		busy := lane{redirected: uint64(i), arrived: uint64(i)}
		s = sample{at: s.at.Add(time.Second), carrier: !x.down, lanes: []lane{busy, l, {}}}
		if v := w.look(s); v != sound {
			return v, i + 1, w.lane
		}
	}
	return sound, 0, 0
}

func repeat(n int, x turn) (story []turn) {
	for range n {
		story = append(story, x)
	}
	return story
}

func after(parts ...[]turn) (story []turn) {
	for _, p := range parts {
		story = append(story, p...)
	}
	return story
}

// Rule: a queue is lost when the program hands frames to its socket and none of them arrives, for
// seconds; one that has frames to send and sends none is stuck; the verdict names it, within ten
// seconds of traffic. What only looks so is not, and what nobody sends through is neither.
func TestWatcherOfQueues(t *testing.T) {
	busy := turn{redirected: 9, arrived: 9, completed: 9, held: 20}
	for name, c := range map[string]struct {
		story []turn
		want  verdict
		by    int
	}{
		"nothing is steered here":    {repeat(100, turn{}), sound, 0},
		"traffic":                    {repeat(100, busy), sound, 0},
		"never any (a bond's slave)": {repeat(20, turn{redirected: 5}), lost, 3},
		"later none": {after(repeat(50, busy), repeat(20, turn{redirected: 5, completed: 1})),
			lost, 53},
		"little": {after(repeat(5, busy), repeat(20, turn{redirected: 1})), lost, 13},
		"few": {after(repeat(5, busy), repeat(7, turn{redirected: 1}), repeat(60, turn{})),
			sound, 0},
		"on their way at the look": {after(repeat(50, turn{}), []turn{{redirected: 500}, {arrived: 500}},
			repeat(60, turn{})), sound, 0},
		"some of them":              {repeat(60, turn{redirected: 100, arrived: 1}), sound, 0},
		"has frames and sends none": {after(repeat(50, busy), repeat(20, turn{held: 40})), stuck, 56},
		"never sent one":            {repeat(20, turn{held: 40}), stuck, 7},
		"the last few, unhurried":   {after(repeat(50, busy), repeat(90, turn{held: enough - 1})), sound, 0},
		"stopped by flow control": {after(repeat(50, busy), repeat(5, turn{held: 500}), repeat(9, busy)),
			sound, 0},
		"slow, but sends": {repeat(90, turn{held: 500, completed: 1}), sound, 0},
		"no carrier": {after(repeat(50, busy), repeat(90, turn{held: 500, down: true}),
			repeat(5, turn{held: 500})), sound, 0},
		"no carrier, then back, and so": {after(repeat(5, turn{held: 500, down: true}), repeat(20, turn{held: 500})),
			stuck, 12},
	} {
		if v, at, queue := tellOf(c.story); v != c.want || at > c.by || v != sound && queue != 1 {
			t.Errorf("%s: %v of queue %d in second %d, want %v by second %d", name, v, queue, at, c.want, c.by)
		}
	}
}

// Rule: a queue whose frames arrive in the second in which they are handed over or the next, and
// leave within two, is never judged.
func TestWatcherOfSoundQueues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l watchedLane
		at, now := time.Unix(1000, 0), lane{}
		l.begin(at, now)
		late, unsent := uint64(0), uint32(0)
		for range rapid.IntRange(1, 200).Draw(t, "seconds") {
			at = at.Add(time.Duration(rapid.IntRange(900, 1500).Draw(t, "ms")) * time.Millisecond)
			n := rapid.SampledFrom([]uint64{0, 0, 1, 7, 5000}).Draw(t, "frames")
			now.redirected += n
			now.arrived += late
			if late = n; rapid.Bool().Draw(t, "at once") {
				now.arrived, late = now.arrived+n, 0
			}
			out := rapid.SampledFrom([]uint32{0, 0, 1, 500}).Draw(t, "sent")
			now.completed += unsent
			now.held, unsent = out, out
			if v := l.look(at, now, rapid.IntRange(0, 9).Draw(t, "carrier") > 0); v != sound {
				t.Fatalf("%v of %+v", v, now)
			}
		}
	})
}

// Rule: the port notices frames that the program hands to a socket and that the kernel refuses
// there. Here the socket is one of another queue. In native mode the port attaches in generic mode
// instead, with a sentence that names the queue. In generic mode nothing is left to mend, and the
// port says so once. The queue counts as lost until a frame comes.
func TestWatchFindsLostFrames(t *testing.T) {
	l := newLab(t, lab.Options{Queues: 2})
	c := Config{Attach: xdp.AttachNative}
	a, b := open(t, l, 0, c), open(t, l, 1, c)
	a.only(1)
	exchange(t, a, b, mixture(a, 50), 20)
	right, wrong := b.queues[1].sock, b.queues[0].sock
	now := time.Unix(1000, 0)
	traffic := func(seconds int) (all []Finding) {
		for range seconds {
			for range 5 {
				send(t, a, b, 1, 200)
			}
			a.Flush()
			settled(t, a)
			now = now.Add(time.Second)
			var f Finding
			if err := l.Do(1, func() error { f = b.Watch(now); return nil }); err != nil {
				t.Fatal(err)
			}
			if f.Said != "" {
				all = append(all, f)
			}
			for lent := make([][]byte, maxLent); b.Ready(); b.Release() {
				b.Receive(lent)
			}
		}
		return all
	}
	if f := traffic(20); f != nil {
		t.Fatalf("queues that work: %+v", f)
	}
	if err := wrong.Register(b.nic.Sockets(), 1); err != nil {
		t.Fatal(err)
	}
	f := traffic(8)
	if len(f) != 1 || f[0].Reopen || !strings.Contains(f[0].Said, "of queue 1 to its socket, where none came") ||
		!strings.HasSuffix(f[0].Said, "attached it anew in generic mode") {
		t.Fatalf("found %+v", f)
	}
	t.Log(f[0].Said)
	if why := b.Info().Why; !strings.Contains(why, "native mode was left (frames did not come to the sockets)") {
		t.Errorf("why: %q", why)
	}
	// There veth takes what left on queue 1 for what came on queue 0, which is right again.
	if err := right.Register(b.nic.Sockets(), 0); err != nil {
		t.Fatal(err)
	}
	f = traffic(30)
	if len(f) != 1 || !strings.Contains(f[0].Said, "of queue 0 to its socket, where none came") ||
		!strings.Contains(f[0].Said, "has no part in that") {
		t.Fatalf("found %+v", f)
	}
	if s := b.Queues()[0]; s.Receives != Lost {
		t.Errorf("a queue whose frames are lost: %+v", s)
	}
	if err := wrong.Register(b.nic.Sockets(), 0); err != nil {
		t.Fatal(err)
	}
	if f := traffic(20); f != nil {
		t.Fatalf("queues that work again: %+v", f)
	}
	if s := b.Queues()[0]; s.Receives != Proven {
		t.Errorf("a queue that receives again: %+v", s)
	}
}

// Rule: the port notices a queue from which nothing leaves while it is told to send, in a sentence
// that names the queue. Here the kernel stops because the test takes no completions back. The queue
// counts as stuck until a frame leaves. A queue whose card does not run is not noticed.
func TestWatchFindsStuckQueue(t *testing.T) {
	l := newLab(t, lab.Options{Queues: 2})
	c := Config{Attach: xdp.AttachNative}
	a, b := open(t, l, 0, c), open(t, l, 1, c)
	now := time.Unix(1000, 0)
	watch := func(seconds int, each func()) (all []Finding) {
		for range seconds {
			each()
			now = now.Add(time.Second)
			var f Finding
			if err := l.Do(0, func() error { f = a.Watch(now); return nil }); err != nil {
				t.Fatal(err)
			}
			if f.Said != "" {
				all = append(all, f)
			}
		}
		return all
	}
	q := a.queues[1]
	// Without reap, the same frame again and again.
	frame := a.Reserve()
	compose(frame[:200], b, a, 1)
	post := func(n uint32) {
		if got := q.tx.Reserve(n); got != n {
			t.Fatalf("room for %d of %d frames", got, n)
		}
		for i := range n {
			q.tx.Set(i, xdp.Desc{Addr: a.at, Len: 200})
		}
		q.tx.Submit(n)
	}
	for range 8 {
		post(q.done.Cap() / 8)
		_ = q.sock.Kick()
	}
	if q.done.Len() != q.done.Cap() {
		t.Fatalf("%d of %d completions", q.done.Len(), q.done.Cap())
	}
	post(40)
	if f := watch(20, func() {}); f != nil {
		t.Fatalf("a card that does not run: %+v", f)
	}
	kick := func() {
		if err := q.sock.Kick(); err == xdp.ErrTxPending {
			q.vain.Add(1)
		}
	}
	f := watch(9, kick)
	if len(f) != 1 || f[0].Reopen || !strings.Contains(f[0].Said,
		"interface fu0: 40 frames for queue 1 were not sent in ") ||
		!strings.HasSuffix(f[0].Said, "attached it anew in generic mode") {
		t.Fatalf("found %+v", f)
	}
	t.Log(f[0].Said)
	if s := a.Queues(); s[1].Sends != Stuck || s[0].Sends == Stuck {
		t.Errorf("queue 1 is stuck: %+v", s)
	}
	q.done.Release(q.done.Peek(q.done.Cap()))
	kick()
	if s := a.Queues(); s[1].Sends == Stuck {
		t.Errorf("queue 1 sends again: %+v", s)
	}
	if f := watch(20, func() {}); f != nil {
		t.Fatalf("a queue that sends again: %+v", f)
	}
}
