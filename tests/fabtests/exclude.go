package main

// This file reads which tests fail, and judges the results by it.

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// excludedPatience bounds tests that are expected to fail, some of which wait for ever.
const excludedPatience = 15 * time.Second

// excludes are regular expressions, each of which matches tests that fail.
type excludes []*regexp.Regexp

// readExcludes reads a file in the form of runfabtests.sh: a regular expression a line. Lines that
// begin with # are comments.
func readExcludes(path string) (all excludes, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the excludes: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		r, err := regexp.Compile(line)
		if err != nil {
			return nil, fmt.Errorf("reading the excludes %s: %w", path, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// of returns the first expression that excludes a test, or "".
func (x excludes) of(t test) string {
	for _, r := range x {
		if r.MatchString(t.line) {
			return r.String()
		}
	}
	return ""
}

// check returns an error for an expression that excludes no test of its own, if tests are all.
func (x excludes) check(tests []test, all bool) error {
	used := map[string]bool{}
	for _, t := range tests {
		used[x.of(t)] = true
	}
	for _, r := range x {
		if all && !used[r.String()] {
			return fmt.Errorf("the exclude %q is the first of no test; remove it", r)
		}
	}
	return nil
}

// verdict is what a result means.
type verdict string

const (
	passed     verdict = "pass"
	wrong      verdict = "FAIL"
	excluded   verdict = "excluded"
	unexpected verdict = "PASS NOW" // but excluded
)

// tally counts verdicts.
type tally map[verdict]int

// judge counts a result; pattern is the expression that excludes the test, or "".
func (s *tally) judge(ok bool, pattern string) (v verdict) {
	switch {
	case ok && pattern == "":
		v = passed
	case ok:
		v = unexpected
	case pattern == "":
		v = wrong
	default:
		v = excluded
	}
	if *s == nil {
		*s = tally{}
	}
	(*s)[v]++
	return v
}

func (s tally) String() string {
	return fmt.Sprintf("%d passed, %d excluded tests failed, %d others failed, %d excluded tests passed", s[passed],
		s[excluded], s[wrong], s[unexpected])
}

// err returns the error of a run.
func (s tally) err() error {
	switch {
	case s[wrong] > 0:
		return fmt.Errorf("%d tests failed that are not excluded", s[wrong])
	case s[unexpected] > 0:
		return fmt.Errorf("%d excluded tests passed; remove them from the excludes", s[unexpected])
	case s[passed]+s[excluded] == 0:
		return errors.New("no test was chosen; --only and --sets choose them")
	}
	return nil
}
