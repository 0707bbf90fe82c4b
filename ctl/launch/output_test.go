package launch

// This file tests what nodes print: whole lines, each with its node's number.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestLines: however output is cut into writes, what comes out is its lines with the prefix, and
// nothing is missing; only a line longer than longestLine is cut.
func TestLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"\n", "a", "word ", "\n\n",
			strings.Repeat("x", 100), "[7] "})).Draw(t, "text"), "")
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

// TestLongLine: a line is kept back only so far, and comes out as one line however long it is, with
// one prefix; where another node prints meanwhile it goes on in a line of its own.
func TestLongLine(t *testing.T) {
	for _, size := range []int{longestLine - 1, longestLine, longestLine + 1, 3*longestLine + 5} {
		for _, end := range []string{"", "\n", "\nmore\n"} {
			var got bytes.Buffer
			l := (&output{to: &got}).node(1, true)
			text := strings.Repeat("y", size) + end
			for rest := text; rest != ""; rest = rest[min(len(rest), 1000):] {
				if _, err := l.Write([]byte(rest[:min(len(rest), 1000)])); err != nil {
					t.Fatal(err)
				}
				if kept := len(l.(*lines).begun); kept > longestLine {
					t.Fatalf("%d bytes are kept", kept)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			want := "[1] " + strings.Repeat("y", size) + "\n"
			if end == "\nmore\n" {
				want += "[1] more\n"
			}
			if got.String() != want {
				t.Errorf("%d bytes and %q came out as %d bytes in %d lines", size, end, got.Len(),
					strings.Count(got.String(), "\n"))
			}
		}
	}
	var got bytes.Buffer
	out := &output{to: &got}
	one, two := out.node(1, true), out.node(2, true)
	piece := strings.Repeat("y", longestLine+1)
	for _, w := range []struct {
		to   io.Writer
		text string
	}{{one, piece}, {two, "short\n"}, {one, piece}, {one, "z\n"}} {
		if _, err := io.WriteString(w.to, w.text); err != nil {
			t.Fatal(err)
		}
	}
	if want := "[1] " + piece + "\n[2] short\n[1] " + piece + "z\n"; got.String() != want {
		t.Errorf("%d bytes came out, want %d", got.Len(), len(want))
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
		if c, err := fmt.Sscanf(line, "[%d] node %d line %d\n", &label, &n, &i); c != 3 || err != nil ||
			label != n || i != next[n] {
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
