package main

// This file tests the command line of `funet sim gang`.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/uspace/sim/gang"
)

// Rule: JSON has a stable name for every number, and each case has figures of all jobs.
func TestGangJSON(t *testing.T) {
	text := printed(t, func() error {
		r := root()
		r.SetArgs([]string{"sim", "gang", "--hosts", "2", "--json"})
		return r.Execute()
	})
	var fields map[string]any
	var r gang.Result
	if err := errors.Join(json.Unmarshal([]byte(text), &fields), json.Unmarshal([]byte(text), &r)); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	want := []string{"alone_pair_rounds_per_s", "alone_rounds_per_s", "cases", "hosts", "room_groups", "seed"}
	if names := slices.Sorted(maps.Keys(fields)); !slices.Equal(names, want) {
		t.Errorf("the fields are %q, want %q", names, want)
	}
	var names []string
	for _, c := range r.Cases {
		names = append(names, c.Name)
		if len(c.Rounds) != len(c.Nodes) || len(c.Share) != len(c.Nodes) || len(c.Nodes) != 2 || c.Does == "" {
			t.Errorf("%+v", c)
		}
		for i := range c.Share {
			alone := r.Alone
			if c.Name == "wide" && i > 0 {
				alone = r.AlonePair
			}
			if got := 2 * c.Rounds[i] / alone; got < c.Share[i]*0.999 || got > c.Share[i]*1.001 {
				t.Errorf("%+v: a share is not that of the rounds", c)
			}
		}
	}
	if !slices.Equal(names, []string{"alone", "together", "gone", "liar", "wide"}) {
		t.Errorf("cases %q", names)
	}
}

// Rule: people are told in 80 columns.
func TestGangTable(t *testing.T) {
	r := gangReport{&gang.Result{Hosts: 16, Room: 1, Alone: 1 << 30, Cases: []gang.Case{
		{Does: "together, after the first card's clock fell silent", Share: []float64{0.9, 100}}}}}
	var out bytes.Buffer
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > output.Width+1 {
			t.Errorf("%q is wider than %d columns", line, output.Width)
		}
	}
}

// Rule: a run that is interrupted ends with the context's error, and prints nothing.
func TestGangInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	text := printed(t, func() error {
		if err := runGang(ctx, gang.Options{Hosts: 4}, true); !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		return nil
	})
	if text != "" {
		t.Errorf("it printed %q", text)
	}
}
