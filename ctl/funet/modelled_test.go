package main

// This file tests what programs on modelled machines refuse, in real and in virtual time.

import (
	"slices"
	"strings"
	"testing"
)

// Rule: a profile that is not there, or that cannot be played because it has no parts, is refused
// before a lab is made, by its name; an option that the benchmark does not support is refused, too.
func TestModelledRefused(t *testing.T) {
	for _, program := range []string{"pingpong", "matmul", "flood", "stream", "transfer", "cmam"} {
		for profile, says := range map[string]string{"abacus": `"abacus"`,
			"cm5":          "profile cm5: it has no bus, no processor or no network, only measured costs",
			"no/such.yaml": "no/such.yaml"} {
			c := root()
			c.SetArgs([]string{program, "--lab", "2", "--profile", profile})
			if err := c.Execute(); err == nil || !strings.Contains(err.Error(), says) ||
				!strings.HasPrefix(err.Error(), "--profile: ") {
				t.Errorf("%s --profile %s: %v", program, profile, err)
			}
		}
	}
	for _, args := range [][]string{{"--rounds", "0"}, {"--rounds", "101"}, {"--slots", "128"}, {"extra"}} {
		c := root()
		c.SetArgs(slices.Concat([]string{"cmam", "--lab", "2"}, args))
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// A profile that is not there, or has no machine, is an error that names it.
func TestCMAMRefuses(t *testing.T) {
	for _, args := range [][]string{{"--profile", "abacus"}, {"--profile", "native"},
		{"--profile", "no/such.yaml"}, {"extra"}} {
		c := root()
		c.SetArgs(slices.Concat([]string{"sim", "cmam"}, args))
		if err := c.Execute(); err == nil || len(args) == 2 && !strings.Contains(err.Error(), args[1]) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// Figures that the thesis does not have, and pictures of other kinds, are refused at once.
func TestFigureRefused(t *testing.T) {
	for _, args := range [][]string{{"--figure", "6.1"}, {"--figure", ""}, {"extra"},
		{"--plot", "f.jpg"}, {"--plot", "f"}, {"--plot", ""}, {"--plot", "svg"}, {"--plot", "f.svg.gz"},
		{"--plot", "f.svg", "--plot", "f.pdf"},
		{"--plot", "no-such-folder/f.svg"}, {"--plot", "modelled_test.go/f.png"}} {
		c := root()
		c.SetArgs(slices.Concat([]string{"sim", "matmul"}, args))
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), "--help") {
			t.Errorf("%v: %v", args, err)
		}
	}
}
