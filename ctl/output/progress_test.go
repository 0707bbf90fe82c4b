package output

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Rule: a sentence has the share done and how long the rest takes at the same speed; without a
// total, or before anything is done, it does not pretend to know.
func TestSentence(t *testing.T) {
	for want, c := range map[string]struct {
		done, total int64
		since       time.Duration
	}{
		"work ... 25 %, 10s, about 30s left": {1, 4, 10 * time.Second},
		"work ... 99 %, 1m0s, about 0s left": {999, 1000, time.Minute},
		"work ... 100 %, 5s, about 0s left":  {9, 4, 5 * time.Second},
		"work ... 0 %, 5s":                   {0, 4, 5 * time.Second},
		"work ... 5s":                        {3, 0, 5 * time.Second},
	} {
		g := newGauge(c.total)
		g.done.Add(c.done)
		if got := sentence("work", g, c.since); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}

// paper is a buffer that is written to while it is read.
type paper struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *paper) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// Rule: nothing is said of what takes up to two seconds; where nobody sits at a terminal there is a
// line each ten seconds, and none after the end.
func TestProgressOffATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b paper
		p := BeginOn(&b, "work", 100)
		p.Add(1)
		time.Sleep(9 * time.Second)
		p.Line("a line for people")
		if b.String() != "" {
			t.Errorf("after 9 s it has said %q", b.String())
		}
		p.Add(9)
		time.Sleep(12 * time.Second)
		p.End()
		p.End()
		if got, want := b.String(),
			"funet: work ... 10 %, 10s, about 1m30s left\nfunet: work ... 10 %, 20s, about 3m0s left\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		time.Sleep(time.Minute)
		if strings.Count(b.String(), "\n") != 2 {
			t.Errorf("after the end: %q", b.String())
		}
	})
}

// Rule: at a terminal there is one line, which is wiped before others and at the end.
func TestProgressAtATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b paper
		p := &Progress{what: "work", to: &b, live: true, gauge: newGauge(2), begin: time.Now(),
			done: make(chan struct{}), gone: make(chan struct{})}
		go p.run(refresh)
		p.Add(1)
		time.Sleep(quiet - time.Nanosecond)
		p.Line("too early")
		if b.String() != "" {
			t.Errorf("before two seconds it has said %q", b.String())
		}
		time.Sleep(refresh)
		p.Line("round 1")
		time.Sleep(refresh)
		p.End()
		const want = "\rwork ... 50 %, 2s, about 2s left\x1b[K\r\x1b[Kround 1\n\rwork ... 50 %, 3s, about 3s left\x1b[K\r\x1b[K"
		if b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
	})
}

// A nil progress and a nil gauge say and count nothing.
func TestNoProgress(t *testing.T) {
	p := BeginOn(nil, "work", 1)
	p.Add(1)
	p.Line("x")
	p.End()
	var g *Gauge
	g.Set(1, 2)
}

// Rule: what a process counts in a gauge that it got is seen by the process that made it.
func TestGaugeOfAnotherProcess(t *testing.T) {
	if os.Getenv("FUNET_TEST_GAUGE") != "" {
		g, err := OpenGauge(3)
		if err != nil {
			t.Fatal(err)
		}
		g.Set(3, 7)
		return
	}
	g, file, err := NewGauge()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestGaugeOfAnotherProcess$")
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), "FUNET_TEST_GAUGE=1"), []*os.File{file}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if text := sentence("x", g, time.Second); !strings.HasPrefix(text, "x ... 42 %") {
		t.Errorf("%q", text)
	}
}
