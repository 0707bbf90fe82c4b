package tests

// This file tests programs that people write in C and C++ (tests/programs).

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/funet/funet/tests/long"
)

var cxx17 = []string{"c++", "-x", "c++", "-std=c++17", "-pedantic"}

// Rule: the program that exchanges verified blocks works in C and in C++, on direct ports by an
// ordinary user, with blocks of one packet and with longer ones. The first Ctrl-C ends it. Some of
// its nodes may be in Go.
func TestProgramInC(t *testing.T) {
	long.Test(t)
	s := directs(t)
	inGo, inC := filepath.Join(external(t, "./alltoall"), "alltoall"), withLibrary(t, c11, "programs/alltoall.c")
	for _, nodes := range [][3]string{{inC, inGo, inC}, {inGo, inC, inGo}} {
		script := fmt.Sprintf("case $FUNET_NODE in 0) exec %s;; 1) exec %s;; *) exec %s;; esac", nodes[0], nodes[1],
			nodes[2])
		allToAll(t, s.run("-n", "3", "--", "sh", "-c", script).ok(), "[0] ", 3, 100)
	}
	for name, compiler := range map[string][]string{"C": c11, "C++": cxx17} {
		t.Run(name, func(t *testing.T) {
			program := withLibrary(t, compiler, "programs/alltoall.c")
			for _, most := range []string{"60", "1500000"} {
				allToAll(t, s.run("-n", "3", "--", program, most, "20").ok(), "[0] ", 3, 20)
				s.free()
			}
			verified(t, s, program, "5000")
		})
	}
}

// Rule: programs in C read nothing that was never set, whatever memory the C library hands out
// (MALLOC_PERTURB_, mallopt(3)), and nothing beyond or after its life (valgrind): those of funi.h,
// and those of the library, through daemons by an ordinary user.
func TestCReadsWhatWasSet(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	text, err := os.ReadFile("../uspace/libfunet/valgrind.supp")
	if err != nil {
		t.Fatal(err)
	}
	suppressions := filepath.Join(open(t), "valgrind.supp") // where nobody may read it
	if err := os.WriteFile(suppressions, text, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		source string
		args   []string
	}{
		{"programs/alltoall.c", []string{"60", "5", "1"}},
		{"programs/alltoall.c", []string{"100000", "2", "1"}},
		{"../uspace/libfunet/testdata/windows.c", nil},
		{"programs/windows.c", nil},
		{"../uspace/funi/example/pingpong.c", []string{"30"}},
		{"../uspace/funi/example/keyed.c", nil},
		{"../uspace/funi/example/structures.c", nil},
		{"../uspace/funi/example/chain.c", nil},
	} {
		compile := inC
		if strings.Contains(c.source, "libfunet") || strings.Contains(c.source, "alltoall") {
			compile = withLibrary
		}
		program := compile(t, []string{"cc", "-std=c11", "-g"}, c.source)
		// valgrind promises RDTSCP, which Go uses, also on processors without it
		for _, with := range [][]string{{"env", "MALLOC_PERTURB_=165"}, {"env", "GODEBUG=cpu.rdtscp=off", "valgrind", "-q",
			"--suppressions=" + suppressions, "--error-exitcode=9"}} {
			if out := s.run(slices.Concat([]string{"-n", "2", "--"}, with, []string{program}, c.args)...); out.wait() !=
				0 {
				t.Errorf("%v %s: exit code %d: %s%s", with, c.source, out.wait(), out.stdout.String(),
					out.stderr.String())
			}
			s.free()
		}
	}
}
