package main

// This file tests what the program says of mutations without running any: snippets are
// replaced exactly once or not at all, and only a failed check counts as a catch.

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Rule: a snippet is replaced if it is there exactly once; if not, the mutation was
// written for another engine.
func TestReplace(t *testing.T) {
	if got, err := replace("a := b + c\n", "b + c", "b"); err != nil || got != "a := b\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := replace("if x { y() }", "if x ", "if false "); err != nil || got != "if false { y() }" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, c := range []struct {
		source, old, new string
		want             error
	}{
		{"a + b", "c", "d", errSnippet},
		{"a + a", "a", "b", errSnippet},
		{"a", "", "b", errSnippet},
		{"a", "a", "a", errSame},
	} {
		if got, err := replace(c.source, c.old, c.new); !errors.Is(err, c.want) || got != "" {
			t.Errorf("%q for %q in %q: %q, %v, want %v", c.new, c.old, c.source, got, err, c.want)
		}
	}
}

// Rule: a check's program has its own test and all that is no test, at the same lines, and imports
// that only other tests use are blank.
func TestWithout(t *testing.T) {
	const source = `package x

import (
	"errors"
	other "fmt"
	"math/rand/v2"
	"os"
)

func TestA(t *T) {
	rand.Int()
}

func TestB(t *T) { errors.New(other.Sprint(os.Args)) }

func helper(errors T) { errors.New() }
`
	got, err := without([]byte(source), "TestA")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(`"errors"`, `_ "errors"`, `other "fmt"`, `_ "fmt"`, `"os"`, `_ "os"`,
		"func TestB(t *T) { errors.New(other.Sprint(os.Args)) }", "").Replace(source)
	var lines []string
	for line := range strings.Lines(string(got)) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	if text := strings.Join(lines, "\n") + "\n"; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

// Rule: every mutation can be applied to the unchanged engine, leaves it alone, and is
// listed in main.go under a name of its own.
func TestMutationsApply(t *testing.T) {
	list, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range mutations {
		original := filepath.Join(root, engineFolder, m.file)
		before, err := os.ReadFile(original)
		if err != nil {
			t.Fatal(err)
		}
		overlay, err := m.mutate(root, t.TempDir())
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		var o struct{ Replace map[string]string }
		text, _ := os.ReadFile(overlay)
		if err := json.Unmarshal(text, &o); err != nil || len(o.Replace) != 1 {
			t.Fatalf("%s: overlay %s: %v", m.name, text, err)
		}
		mutant, err := os.ReadFile(o.Replace[original])
		if err != nil || string(mutant) == string(before) {
			t.Errorf("%s: the mutant is the original: %v", m.name, err)
		}
		if after, _ := os.ReadFile(original); string(after) != string(before) {
			t.Fatalf("%s: the tree has changed", m.name)
		}
		if seen[m.name] || !strings.Contains(string(list), "//\t"+m.name+" ") {
			t.Errorf("%s is listed twice here, or not at all in main.go", m.name)
		}
		seen[m.name] = true
	}
}

// Rule: a name that is none is refused; no name means all.
func TestChoose(t *testing.T) {
	if m, err := choose(nil); err != nil || len(m) != len(mutations) {
		t.Errorf("%d of %d mutations, %v", len(m), len(mutations), err)
	}
	if m, err := choose([]string{"timer", "age"}); err != nil || len(m) != 2 || m[0].name != "timer" ||
		m[1].name != "age" {
		t.Errorf("got %v, %v", m, err)
	}
	if _, err := choose([]string{"timer", "nothing"}); err == nil {
		t.Error("a mutation that there is not was found")
	}
}

// Rule: a check that failed has caught the mutant only if it says what is wrong; a
// command that broke off, or ran into its time limit, has not.
func TestJudge(t *testing.T) {
	failed := errors.New("exit status 1")
	for _, c := range []struct {
		check   []check
		output  string
		failure error
		want    string // "": an accident
	}{
		{unit("TestX"), "--- FAIL: TestX (0.00s)\n    x_test.go:12: one is two\n    x_test.go:13: more\nFAIL\n", failed,
			"x_test.go:12: one is two"},
		{unit("TestX"),
			"--- FAIL: TestX (0.00s)\n    --- FAIL: TestX/a (0.00s)\n        --- FAIL: TestX/a/b (0.00s)\n            x_test.go:12: no\n", failed, "a/b: x_test.go:12: no"},
		{unit("TestX"), "--- FAIL: TestX (0.00s)\npanic: index out of range [recovered]\n", failed,
			"panic: index out of range [recovered]"},
		{unit("TestX"), "FAIL\n", failed, ""},
		{unit("TestX"), "fatal error: out of memory\n", failed, ""},
		{unit("TestX"), "--- FAIL: TestX (0.00s)\n    x_test.go:12: no\n", errAccident, ""},
		{chaos("loss"),
			"seed 3 failed: at 12 ns: message 4 came again; at 13 ns: more\n  the smallest\nfunet: 2 of 9 seeds broke a promise; the first again: x\n", failed, "2 of 9 seeds: message 4 came again"},
		{chaos("loss"), "funet: unknown flag: --seeds\n", failed, ""},
		{chaos("loss"), "panic: no\n", failed, ""},
	} {
		got, err := judge(c.check[0], c.output, c.failure)
		if got != c.want || errors.Is(err, errAccident) != (c.want == "") {
			t.Errorf("%q: %q, %v, want %q", c.output, got, err, c.want)
		}
	}
}
