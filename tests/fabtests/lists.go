package main

// This file reads the lists of tests from scripts/runfabtests.sh of fabtests.

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// sets are the sets that are run, in their order.
var sets = []string{"unit", "functional", "short", "standard", "complex"}

// refusedSet is the script's list of unit tests that must be refused.
const refusedSet = "neg_unit"

// test is a test of one of the lists.
type test struct {
	set     string
	line    string // program and arguments, as the script has them
	pair    bool   // it has a server and a client
	refused bool   // it must end with FI_ENODATA
}

var (
	listBegin = regexp.MustCompile(`^(\w+)_tests=\(`)
	listEntry = regexp.MustCompile(`^\s*"(fi_[^"]+)"$`)
)

// readTests reads the tests of some sets.
func readTests(tree string, want []string) (all []test, err error) {
	path := filepath.Join(tree, "scripts", "runfabtests.sh")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the lists of tests, with FABTESTS=DIR a tree of fabtests 1.17.0: %w", err)
	}
	lists := parseLists(string(text))
	for _, set := range want {
		if !slices.Contains(sets, set) {
			return nil, fmt.Errorf("--sets %s: use some of %s", set, strings.Join(sets, ", "))
		}
		if len(lists[set]) == 0 {
			return nil, fmt.Errorf("%s has no list %s_tests; use fabtests 1.17.0", path, set)
		}
		for _, line := range lists[set] {
			all = append(all, test{set: set, line: line, pair: set != "unit"})
		}
		if set == "unit" {
			for _, line := range lists[refusedSet] {
				all = append(all, test{set: set, line: line, refused: true})
			}
		}
	}
	return all, nil
}

// parseLists returns the lists of the script by name, without _tests.
func parseLists(script string) map[string][]string {
	lists, name := map[string][]string{}, ""
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if m := listBegin.FindStringSubmatch(line); m != nil {
			name = m[1]
		} else if strings.HasPrefix(line, ")") {
			name = ""
		} else if m := listEntry.FindStringSubmatch(line); m != nil && name != "" {
			lists[name] = append(lists[name], m[1])
		}
	}
	return lists
}
