package hostile

// This file judges whether daemons grow. What they have at one instant says little. A connection
// that has just ended may not be closed yet, the Go heap is not the same twice, and some things are
// made when they are first needed. So the daemons are asked after each attack, when the attacker is
// gone. What they had at most in the last third of the time is compared with the first third. A
// daemon that then has more may still fall back to what it had, as a leak never does.

import (
	"fmt"
	"testing"

	"github.com/funet/funet/tests/long"
)

const (
	// leastSamples is how many samples make thirds.
	leastSamples = 6
	// What daemons may have more in the last third, in KiB: the Go heap is not the same twice.
	moreResident = 8 << 10
	moreHeap     = 2 << 10
)

// growth is the samples of the daemons of a bed.
type growth struct {
	b           *bed
	connections []int // by host, without the attacker
	samples     [][]figures
}

// newGrowth is called when everybody is there but the attacker.
func newGrowth(b *bed) *growth {
	g := &growth{b: b, samples: make([][]figures, len(b.sockets))}
	for host := range b.sockets {
		g.connections = append(g.connections, b.status(host).Connections)
	}
	return g
}

// sample asks the daemons, when the attacker's connections have ended with him.
func (g *growth) sample() {
	g.b.t.Helper()
	for host := range g.samples {
		s := g.b.status(host)
		until(g.b.t, "the attacker's connections end with him", func() bool {
			s = g.b.status(host)
			return s.Connections <= g.connections[host]
		}, func() string {
			return fmt.Sprintf("%d connections, not %d: %+v", s.Connections, g.connections[host], s)
		})
		g.samples[host] = append(g.samples[host], g.b.figures(host))
	}
}

// judge fails the test if a daemon has grown and does not fall back.
func (g *growth) judge() {
	g.b.t.Helper()
	for host, samples := range g.samples {
		first, last := thirds(samples)
		g.b.t.Logf("daemon %d at most in the first third: %v", host, first)
		g.b.t.Logf("daemon %d at most in the last third:  %v", host, last)
		until(g.b.t, fmt.Sprintf("daemon %d falls back to what it had at first", host), func() bool {
			if last.within(first) {
				return true
			}
			last = g.b.figures(host)
			return false
		}, func() string { return fmt.Sprintf("it has grown from %v to %v", first, last) })
	}
}

// thirds returns what a daemon had at most in the first third of the samples, and in the last.
func thirds(samples []figures) (first, last figures) {
	n := len(samples) / 3
	return most(samples[:n]), most(samples[len(samples)-n:])
}

// most returns what was the most of each.
func most(samples []figures) (m figures) {
	for _, f := range samples {
		m = figures{resident: max(m.resident, f.resident), shared: max(m.shared, f.shared),
			descriptors: max(m.descriptors, f.descriptors),
			goroutines:  max(m.goroutines, f.goroutines), heap: max(m.heap, f.heap)}
	}
	return m
}

// within reports whether the figures are no more than others, but for what the heap may vary.
func (f figures) within(other figures) bool {
	return f.descriptors <= other.descriptors && f.goroutines <= other.goroutines &&
		f.resident <= other.resident+moreResident && f.heap <= other.heap+moreHeap
}

// TestThirds: a daemon that keeps one descriptor, or one goroutine, of each attack grows, and
// so does one whose memory does; one that has made something once, or wavers, does not.
func TestThirds(t *testing.T) {
	long.Test(t)
	base := figures{resident: 20 << 10, descriptors: 31, goroutines: 12, heap: 2 << 10}
	for what, c := range map[string]struct {
		at   func(f *figures, i int)
		good bool
	}{
		"the same":      {func(*figures, int) {}, true},
		"made once":     {func(f *figures, i int) { f.descriptors += min(i, 1) }, true},
		"wavering":      {func(f *figures, i int) { f.goroutines, f.heap = f.goroutines+i%2, f.heap+i%3<<9 }, true},
		"descriptors":   {func(f *figures, i int) { f.descriptors += i }, false},
		"goroutines":    {func(f *figures, i int) { f.goroutines += i }, false},
		"heap":          {func(f *figures, i int) { f.heap += i << 10 }, false},
		"mapped memory": {func(f *figures, i int) { f.resident += i * 2500 }, false},
	} {
		samples := make([]figures, leastSamples)
		for i := range samples {
			samples[i] = base
			c.at(&samples[i], i)
		}
		if first, last := thirds(samples); last.within(first) != c.good {
			t.Errorf("%s: from %v to %v is good: %v", what, first, last, !c.good)
		}
	}
}
