package tests

// This file tests the programs of the tutorial.

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/funet/funet/tests/long"
)

// Rule: the programs of the tutorial build as their first lines say, run through daemons as an
// ordinary user, and print what the text beside them promises.
func TestTutorial(t *testing.T) {
	s := daemons(t, "--hosts", "3")
	folder := open(t)
	build := exec.Command("go", "build", "-o", folder+"/", "./uspace/apps/tutorial/...")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out := s.run("-n", "3", "--", folder+"/hello").ok()
	for _, want := range []string{"[0] hello from node 0, this is node 1\n", "[1] hello from node 1, this is node 2\n",
		"[2] hello from node 2, this is node 0\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("hello printed %q, want %q", out, want)
		}
	}
	out = s.run("-n", "4", "--", folder+"/ring", "--laps", "200").ok()
	if !regexp.MustCompile(`^\[0\] 200 laps over 4 nodes, \S+ each; all nodes together waited [0-9.]+ s\n$`).MatchString(out) {
		t.Errorf("ring printed %q", out)
	}
	p := s.run("-n", "2", "--", folder+"/ring", "--laps", "1000000000", "--patience", "200ms")
	if code, said := p.wait(), p.stderr.String(); code != 1 || !strings.Contains(said, "ring: ") ||
		!strings.Contains(said, "the token has not come back within 200ms") {
		t.Errorf("after its patience ring ended with %d and said %q", code, said)
	}
	s.free()
}

// Rule: wordcount counts the same words on any number of nodes: those of a text longer than a
// packet, which comes on standard input.
func TestTutorialWordCount(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	folder := open(t)
	build := exec.Command("go", "build", "-o", folder+"/", "./uspace/apps/tutorial/wordcount")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text := strings.Repeat("one Two three, two THREE\nthree four.\n", 20000)
	for _, nodes := range []string{"1", "2", "5"} {
		cmd := nobody(exec.Command(command, "run", "--lab="+s.name, "-n", nodes, "--", folder+"/wordcount"))
		cmd.Stdin = strings.NewReader(text)
		const want = "[0]   60000 three\n[0]   40000 two\n[0]   20000 four\n[0]   20000 one\n"
		if out := start(t, cmd, nil).ok(); out != want {
			t.Errorf("on %s nodes it printed %q, want %q", nodes, out, want)
		}
	}
	s.free()
}
