package main

// This file tests what programs say about their XDP modes.

import (
	"strings"
	"testing"

	"github.com/funet/funet/ctl/program"
)

// Rule: why the modes are no better is said in a line of its own, and nothing where there is
// nothing to say.
func TestWhy(t *testing.T) {
	for p, want := range map[program.Place]string{
		{XDPMode: "generic", BindMode: "copy"}: "",
		{XDPMode: "native", BindMode: "copy",
			Why: "eth0: no zero-copy (operation not supported)"}: "XDP mode native, copy: eth0: no zero-copy (operation not supported)\n",
	} {
		var out strings.Builder
		if err := p.WriteWhy(&out); err != nil || out.String() != want {
			t.Errorf("%+v says %q, %v; want %q", p, out.String(), err, want)
		}
	}
}
