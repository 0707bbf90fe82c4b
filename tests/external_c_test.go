package tests

// This file tests programs that people write in C and C++ with funet.h (tests/programs).

import (
	"syscall"
	"testing"
)

var cxx17 = []string{"c++", "-x", "c++", "-std=c++17", "-pedantic"}

// Rule: the program that exchanges verified blocks is at most half as long on funet.h as on cards, in C and in C++, through daemons by an
// ordinary user, with blocks of one packet and with longer ones; the first Ctrl-C ends it.
func TestProgramInC(t *testing.T) {
	const source = "programs/alltoall.c"
	if before, after := linesOf(t, "programs/before/alltoall.c"), linesOf(t, source); 2*after > before {
		t.Errorf("%s has %d lines, more than half of the %d on cards", source, after, before)
	}
	s := daemons(t)
	for name, compiler := range map[string][]string{"C": c11, "C++": cxx17} {
		t.Run(name, func(t *testing.T) {
			program := inC(t, compiler, source)
			for _, most := range []string{"60", "5000", "1500000"} {
				allToAll(t, s.run("-n", "3", "--", program, most, "20").ok(), "[0] ", 3, 20)
				s.free()
			}
			p := s.run("-n", "3", "--", program, "5000", "1000000000")
			eventually(t, "all nodes are attached", func() bool { return s.inUse() >= 2+3 })
			p.signal(syscall.SIGINT)
			if code := p.wait(); code != 128+int(syscall.SIGINT) {
				t.Errorf("interrupted: exit code %d, and it said %q", code, p.stderr.String())
			}
			s.free()
		})
	}
}
