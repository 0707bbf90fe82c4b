package tests

// This file tests programs that people write in C and C++ with funet.h (tests/programs).

import (
	"slices"
	"testing"

	"github.com/funet/funet/tests/long"
)

var cxx17 = []string{"c++", "-x", "c++", "-std=c++17", "-pedantic"}

// Rule: the program that exchanges verified blocks works in C and in C++, through daemons by an
// ordinary user, with blocks of one packet and with longer ones. The first Ctrl-C ends it.
func TestProgramInC(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	for name, compiler := range map[string][]string{"C": c11, "C++": cxx17} {
		t.Run(name, func(t *testing.T) {
			program := inC(t, compiler, "programs/alltoall.c")
			for _, most := range []string{"60", "1500000"} {
				allToAll(t, s.run("-n", "3", "--", program, most, "20").ok(), "[0] ", 3, 20)
				s.free()
			}
			verified(t, s, program, "5000")
		})
	}
}

// Rule: programs in C read nothing that was never set, whatever memory the C library hands out
// (MALLOC_PERTURB_, mallopt(3)), and nothing beyond or after its life (valgrind): those on cards
// and those on funet.h, through daemons by an ordinary user.
func TestCReadsWhatWasSet(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	for _, c := range []struct {
		source string
		args   []string
	}{
		{"programs/alltoall.c", []string{"60", "5", "1"}},
		{"programs/alltoall.c", []string{"100000", "2", "1"}},
		{"programs/windows.c", nil},
		{"../uspace/funi/example/pingpong.c", []string{"30"}},
		{"../uspace/funi/example/keyed.c", nil},
		{"../uspace/funi/example/structures.c", nil},
		{"../uspace/funi/example/chain.c", nil},
	} {
		program := inC(t, []string{"cc", "-std=c11", "-g"}, c.source)
		for _, with := range [][]string{{"env", "MALLOC_PERTURB_=165"}, {"valgrind", "-q", "--error-exitcode=9"}} {
			if out := s.run(slices.Concat([]string{"-n", "2", "--"}, with, []string{program}, c.args)...); out.wait() !=
				0 {
				t.Errorf("%v %s: exit code %d: %s%s", with, c.source, out.wait(), out.stdout.String(),
					out.stderr.String())
			}
			s.free()
		}
	}
}
