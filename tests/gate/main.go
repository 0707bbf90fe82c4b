// Command gate reads `go test -json` from standard input and prints it for people: a line for each
// package, all output of failures, the slowest tests, and a closing line with the totals. It fails
// when a test failed, a package did not build, or no test ran. It also fails when a test was
// skipped, unless the reason names a missing kernel feature. With -short, for `go test -short`,
// tests may be left to `make test-all` (tests/long); the closing line says how many were.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/funet/funet/tests/long"
)

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// kernelLacks is how the reason of an allowed skip begins.
const kernelLacks = "the kernel "

// mostSlow is how many of the slowest tests are printed.
const mostSlow = 10

func main() {
	short := flag.Bool("short", false, "the tests ran with -short, and may be left to make test-all")
	flag.Parse()
	output := map[[2]string]*strings.Builder{}
	text := func(p, t string) *strings.Builder {
		k := [2]string{p, t}
		if output[k] == nil {
			output[k] = &strings.Builder{}
		}
		return output[k]
	}
	running := map[string][]string{} // tests by package
	var passed, failed, skipped, left, refused int
	var took []event // tests that have ended, without those within others
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Println(in.Text())
			continue
		}
		switch e.Action {
		case "run":
			running[e.Package] = append(running[e.Package], e.Test)
		case "pass", "fail", "skip":
			if e.Test != "" && !strings.Contains(e.Test, "/") {
				took = append(took, e)
			}
			running[e.Package] = slices.DeleteFunc(running[e.Package], func(t string) bool { return t == e.Test })
		}
		switch {
		case e.Action == "output":
			text(e.Package, e.Test).WriteString(e.Output)
		case e.Action == "build-output":
			fmt.Print(e.Output)
		case e.Test == "" && e.Action == "pass":
			fmt.Printf("ok    %-50s %6.1f s\n", e.Package, e.Elapsed)
		case e.Test == "" && e.Action == "skip":
			fmt.Printf("-     %-50s no tests\n", e.Package)
		case e.Test == "" && e.Action == "fail":
			fmt.Printf("FAIL  %-50s %6.1f s\n%s", e.Package, e.Elapsed, text(e.Package, ""))
			failed++
			for _, t := range running[e.Package] { // it died in them
				fmt.Printf("FAIL  %s %s, in which the process ended\n%s", e.Package, t, text(e.Package, t))
			}
		case e.Action == "pass":
			passed++
		case e.Action == "fail":
			failed++
			fmt.Printf("FAIL  %s %s\n%s", e.Package, e.Test, text(e.Package, e.Test))
		case e.Action == "skip":
			reason := text(e.Package, e.Test).String()
			if *short && strings.Contains(reason, long.Left) {
				left++
				continue
			}
			skipped++
			fmt.Printf("skip  %s %s\n%s", e.Package, e.Test, reason)
			if !strings.Contains(reason, kernelLacks) {
				refused++
			}
		}
	}
	slices.SortStableFunc(took, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for i, e := range took[:min(len(took), mostSlow)] {
		if i == 0 {
			fmt.Println("the slowest:")
		}
		fmt.Printf("      %-50s %6.1f s\n", path.Base(e.Package)+" "+e.Test, e.Elapsed)
	}
	fmt.Printf("%d passed, %d failed, %d skipped", passed, failed, skipped)
	if left > 0 {
		fmt.Printf(", %d left to make test-all", left)
	}
	fmt.Println()
	switch {
	case in.Err() != nil:
		fail("reading test output: %v", in.Err())
	case failed > 0:
		os.Exit(1)
	case refused > 0:
		fail("%d tests were skipped without naming a missing kernel feature (%q ...)", refused, kernelLacks)
	case passed == 0:
		fail("no test ran")
	}
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "gate: "+format+"\n", args...)
	os.Exit(1)
}
