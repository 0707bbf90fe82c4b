package launch

// This file tests what nodes print: whole lines, each with its node's number.

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestLines: however output is cut into writes, what comes out is its lines with the prefix, and
// nothing is missing; only a line longer than longestLine is cut.
func TestLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"\n", "a", "word ", "\n\n", strings.Repeat("x", 100), "[7] "})).Draw(t, "text"), "")
		var got bytes.Buffer
		w := (&output{to: &got}).node(7, true)
		for rest := text; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if m, err := w.Write([]byte(rest[:n])); m != n || err != nil {
				t.Fatalf("wrote %d of %d: %v", m, n, err)
			}
			if got.Len() > 0 && got.Bytes()[got.Len()-1] != '\n' {
				t.Fatalf("part of a line came out: %q", got.String())
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		for line := range strings.Lines(text) {
			want.WriteString("[7] " + strings.TrimSuffix(line, "\n") + "\n")
		}
		if got.String() != want.String() {
			t.Errorf("%q came out as %q, want %q", text, got.String(), want.String())
		}
	})
}

// TestLongLine: a line without an end is kept back only so far.
func TestLongLine(t *testing.T) {
	for _, size := range []int{longestLine - 1, longestLine, longestLine + 1, 3*longestLine + 5} {
		var got bytes.Buffer
		l := (&output{to: &got}).node(1, true)
		text := strings.Repeat("y", size)
		for rest := text; rest != ""; rest = rest[min(len(rest), 1000):] {
			if _, err := l.Write([]byte(rest[:min(len(rest), 1000)])); err != nil {
				t.Fatal(err)
			}
			if kept := len(l.(*lines).begun); kept > longestLine+len("[1] ") {
				t.Fatalf("%d bytes are kept", kept)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(got.String(), "y"); n != size {
			t.Errorf("%d of %d bytes came out", n, size)
		}
		for line := range strings.Lines(got.String()) {
			if !strings.HasPrefix(line, "[1] ") || len(line) > longestLine+len("[1] \n") {
				t.Errorf("a line of %d bytes that starts with %.10q", len(line), line)
			}
		}
	}
}

// TestManyNodes: lines of nodes that print at once do not mix.
func TestManyNodes(t *testing.T) {
	var got bytes.Buffer
	out := &output{to: &got}
	var wait sync.WaitGroup
	const nodes, each = 8, 200
	for n := range nodes {
		wait.Go(func() {
			w := out.node(n, true)
			for i := range each {
				for _, part := range []string{"node ", fmt.Sprint(n), " line ", fmt.Sprint(i), "\n"} {
					if _, err := w.Write([]byte(part)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wait.Wait()
	next := make([]int, nodes)
	for line := range strings.Lines(got.String()) {
		var label, n, i int
		if c, err := fmt.Sscanf(line, "[%d] node %d line %d\n", &label, &n, &i); c != 3 || err != nil || label != n || i != next[n] {
			t.Fatalf("line %q after %v", line, next)
		}
		next[n]++
	}
	for n, i := range next {
		if i != each {
			t.Errorf("%d lines of node %d", i, n)
		}
	}
}

// TestPlain: without labels everything passes unchanged and at once, and an error comes back.
func TestPlain(t *testing.T) {
	var got bytes.Buffer
	w := (&output{to: &got}).node(0, false)
	if _, err := w.Write([]byte("half a li")); err != nil || got.String() != "half a li" {
		t.Errorf("%q came out: %v", got.String(), err)
	}
	for _, label := range []bool{false, true} {
		broken := (&output{to: failing{}}).node(0, label)
		if _, err := broken.Write([]byte("x\n")); !errors.Is(err, errFull) {
			t.Errorf("label %v: error %v", label, err)
		}
	}
}

var errFull = errors.New("full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }
