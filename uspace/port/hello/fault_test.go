package hello

// This file tests faults: what is named, and how often.

import (
	"testing"
)

// Rule: other clusters, other versions and other lengths of frames are named, once, and are no
// peers.
func TestFaults(t *testing.T) {
	s := newSegment(t, 5)
	a := s.add(0, 1, nil)
	s.add(1, 2, func(c *Config) { c.Self.Cluster = "two" })
	s.add(2, 3, func(c *Config) { c.Self.Frames = 4 })
	long := s.add(3, 4, nil)
	s.see = func(b []byte) { // the fourth has longer frames
		if [6]byte(b[6:12]) == long.mac && b[versionAt] == Version {
			m, from, _ := Parse(b)
			m.FrameSize = 9014
			m.Put(b, [6]byte(b), from)
		}
	}
	s.run(30*second, nil)
	lines := a.lines()
	wantLine(t, lines, "host-2", `of cluster "two", this host of "one"`)
	wantLine(t, lines, "host-3", "version 4, this host of version 3")
	wantLine(t, lines, "host-4", "up to 9014 bytes, this host of up to 1514")
	if len(lines) != 3 || len(a.order) > 0 {
		t.Errorf("%q, %d peers", lines, len(a.order))
	}
	s.run(60*second, nil)
	if l := a.lines(); len(l) > 0 {
		t.Errorf("named again: %q", l)
	}
	if f := a.Faults(s.now); len(f) != 3 {
		t.Errorf("%v", f)
	}
	s.see = nil // mended
	s.run(10*second, func() bool { return a.knows(3, long) })
	if f := a.Faults(s.now); len(f) != 2 {
		t.Errorf("%v", f)
	}
}
