package main

// This file tests the command line of `funet sim chaos`.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/funet/funet/uspace/sim/chaos"
)

// Seeds are one, or a range; what makes no sense is refused with a word on what does.
func TestChaosOptions(t *testing.T) {
	for _, c := range []struct {
		seeds       string
		first, last uint64
		refused     string
	}{
		{"1..200", 1, 200, ""},
		{"7", 7, 7, ""},
		{"7..7", 7, 7, ""},
		{"5..1", 0, 0, "FIRST..LAST"},
		{"a..b", 0, 0, "FIRST..LAST"},
		{"-1..3", 0, 0, "FIRST..LAST"},
		{"0..18446744073709551615", 0, 0, "10 million"},
	} {
		o := chaosOptions{seeds: c.seeds, faults: "all", network: "ethernet", shape: "given"}
		o.Nodes, o.Messages = 2, 1
		first, last, err := o.check(false)
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("--seeds %s: %v, want an error with %q", c.seeds, err, c.refused)
			}
		} else if err != nil || first != c.first || last != c.last {
			t.Errorf("--seeds %s: %d to %d, %v", c.seeds, first, last, err)
		}
	}
	for _, args := range [][]string{
		{"--seed", "1", "--seeds", "1..2"}, {"--faults", "fire"}, {"--network", "token ring"}, {"--shape", "bees"},
		{"--network", "arctic", "--nodes", "1025"}, {"--nodes", "1"}, {"--profile", "abacus"}, {"--profile", "cm5"},
		{"--messages", "0"},
		{"--seeds", "1..2", "--trace", "t.json"}, {"extra"},
	} {
		c := root()
		c.SetArgs(append([]string{"sim", "chaos"}, args...))
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), "--help") {
			t.Errorf("%v: %v, want an error that says where to read on", args, err)
		}
	}
}

// Rule: of a swarm an option that is given counts, and the seed draws the others. The arguments
// that a scenario prints give the same scenario.
func TestChaosOfASwarm(t *testing.T) {
	of := func(args ...string) chaos.Scenario {
		var o chaosOptions
		c := chaosCommandOf(&o)
		if err := c.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		o.given = c.Flags().Changed
		first, _, err := o.check(true)
		if err != nil {
			t.Fatal(err)
		}
		return o.of(first)
	}
	drawn := of("--shape", "swarm", "--seed", "17")
	if want := (chaos.Scenario{Seed: 17}).Drawn(); drawn != want {
		t.Errorf("%v, want %v", drawn, want)
	}
	if again := of(strings.Fields(drawn.String())...); again != drawn {
		t.Errorf("%v, want %v", again, drawn)
	}
	some := of("--shape", "swarm", "--seed", "17", "--nodes", "3", "--messages", "40", "--faults", "none", "--network",
		"arctic", "--profile", "tokyo")
	if want := (chaos.Scenario{Seed: 17, Nodes: 3, Messages: 40, Network: chaos.Arctic, Profile: "tokyo",
		Shape: chaos.Swarm}); some != want {
		t.Errorf("%v, want %v", some, want)
	}
	if plain := of("--seed", "17"); plain != (chaos.Scenario{Seed: 17, Nodes: 16, Messages: 20_000, Faults: chaos.All,
		Profile: chaos.Native}) {
		t.Errorf("without a shape the scenario is %v", plain)
	}
}

// A profile with a bus is run.
func TestChaosWithAProfile(t *testing.T) {
	c := root()
	c.SetArgs([]string{"sim", "chaos", "--seed", "3", "--nodes", "3", "--messages", "50", "--profile", "sbus-arctic"})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
}

// One seed leaves a trace that is JSON and a capture that is pcap.
func TestChaosWritesTraceAndCapture(t *testing.T) {
	dir := t.TempDir()
	trace, capture := filepath.Join(dir, "t.json"), filepath.Join(dir, "t.pcap")
	c := root()
	c.SetArgs([]string{"sim", "chaos", "--seed", "3", "--nodes", "3", "--messages", "50", "--trace", trace,
		"--pcap", capture})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(trace)
	if err != nil || !json.Valid(b) || !bytes.Contains(b, []byte(`"ph":"s"`)) {
		t.Errorf("the trace is no JSON with flows: %v", err)
	}
	b, err = os.ReadFile(capture)
	if err != nil || len(b) < 40 || binary.LittleEndian.Uint32(b) != 0xa1b23c4d {
		t.Errorf("the capture is no pcap: %v", err)
	}
	c = root()
	c.SetArgs([]string{"sim", "chaos", "--seed", "3", "--trace", filepath.Join(dir, "no", "t.json")})
	if err := c.Execute(); err == nil {
		t.Error("a trace was written to a folder that is not there")
	}
}

// Rule: the help of a command names everything that it can be asked for.
func TestHelpNamesEveryFault(t *testing.T) {
	_, faults, found := strings.Cut(chaosCommand().Long, "Faults: ")
	faults, _, ended := strings.Cut(faults, "; all or none.")
	if !found || !ended {
		t.Fatal("the help lists no faults")
	}
	named := strings.FieldsFunc(faults, func(c rune) bool { return c < 'a' || c > 'z' })
	for _, name := range chaos.FaultNames() {
		if !slices.Contains(named, name) {
			t.Errorf("the help says nothing of %s", name)
		}
	}
}
