package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// script is of the form of runfabtests.sh.
const script = `#!/usr/bin/env bash
neg_unit_tests=(
	"fi_rdm g00n13s"
)
functional_tests=(
	"fi_rdm"
	"fi_rdm -U"
)
short_tests=(
	"fi_msg -I 5"
)
prov_efa_tests=( \
	"fi_efa_other"
)
unit_tests=(
	"fi_av_test -g GOOD_ADDR"
)
echo "fi_rdm is no test here"
`

// tree makes a folder with the script.
func tree(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "scripts"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "scripts", "runfabtests.sh"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Rule: the tests are those of the script's lists, in the order of the sets that are asked for.
func TestReadTests(t *testing.T) {
	tests, err := readTests(tree(t, script), []string{"short", "unit", "functional"})
	if err != nil {
		t.Fatal(err)
	}
	want := []test{{set: "short", line: "fi_msg -I 5", pair: true}, {set: "unit", line: "fi_av_test -g GOOD_ADDR"},
		{set: "unit", line: "fi_rdm g00n13s", refused: true}, {set: "functional", line: "fi_rdm", pair: true},
		{set: "functional", line: "fi_rdm -U", pair: true}}
	if len(tests) != len(want) {
		t.Fatalf("%d tests, want %d: %+v", len(tests), len(want), tests)
	}
	for i := range want {
		if tests[i] != want[i] {
			t.Errorf("test %d is %+v, want %+v", i, tests[i], want[i])
		}
	}
	for set, says := range map[string]string{"standard": "has no list standard_tests", "efa": "use some of unit, "} {
		if _, err := readTests(tree(t, script), []string{set}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("set %s: %v", set, err)
		}
	}
	if _, err := readTests(t.TempDir(), sets); err == nil || !strings.Contains(err.Error(), "FABTESTS=DIR") {
		t.Errorf("without a script: %v", err)
	}
}

// Rule: a run fails if a test fails that no line excludes, if an excluded one passes, and if no
// test is chosen. Each line excludes a test that no earlier line does.
func TestExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "excludes")
	if err := os.WriteFile(path, []byte("# a comment\n\n^fi_msg$\n -U\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	x, err := readExcludes(path)
	if err != nil || len(x) != 2 {
		t.Fatalf("%v, %v", x, err)
	}
	for line, want := range map[string]string{"fi_msg": "^fi_msg$", "fi_msg_inject": "", "fi_rdm -U": "-U"} {
		if got := x.of(test{line: line}); got != want {
			t.Errorf("%s is excluded by %q, want %q", line, got, want)
		}
	}
	some := []test{{line: "fi_msg"}, {line: "fi_rdm"}}
	if err := x.check(some, true); err == nil || !strings.Contains(err.Error(), `"-U"`) {
		t.Errorf("a line that excludes nothing: %v", err)
	}
	if err := x.check(some, false); err != nil {
		t.Errorf("of some sets: %v", err)
	}
	for _, c := range []struct {
		ok      bool
		pattern string
		want    verdict
		err     string
	}{{true, "", passed, ""}, {false, "x", excluded, ""}, {false, "", wrong, "1 tests failed that are not excluded"},
		{true, "x", unexpected, "1 excluded tests passed"}} {
		var s tally
		v, err := s.judge(c.ok, c.pattern), s.err()
		if v != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v, excluded by %q: %q, %v", c.ok, c.pattern, v, err)
		}
	}
	if (tally{}).err() == nil {
		t.Error("no test was run, and it is no error")
	}
	if _, err := readExcludes(filepath.Join("..", "..", "uspace", "ofi", "fabtests.exclude")); err != nil {
		t.Error(err)
	}
}

// Rule: of a process's output the end is kept.
func TestTail(t *testing.T) {
	var s tail
	for range 100 {
		_, _ = s.Write([]byte(strings.Repeat("x", 1000)))
	}
	_, _ = s.Write([]byte("the end\n"))
	if got := s.String(); len(got) > mostOutput || !strings.HasSuffix(got, "xthe end") {
		t.Errorf("%d bytes: %q", len(got), got[max(0, len(got)-20):])
	}
}
