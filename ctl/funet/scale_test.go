package main

// This file tests the command line of `funet sim scale`.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/uspace/sim/scale"
)

// printed returns what a function writes to standard output.
func printed(t *testing.T, do func() error) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = w
	err = do()
	os.Stdout = stdout
	w.Close()
	text, readErr := io.ReadAll(r)
	if err := errors.Join(err, readErr); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Rule: what makes no sense is refused in one line, with a word on what does.
func TestScaleOptions(t *testing.T) {
	for _, c := range []struct{ flag, value, want string }{
		{"--nodes", "1", "use 2 to 65536"}, {"--nodes", "65537", "use 2 to 65536"},
		{"--pattern", "storm", "barrier, ring, random, incast, alltoall-sample"},
		{"--network", "ethernet", "fat-tree, hypercube, butterfly"},
		{"--messages", "0", "use 1 to 64"}, {"--messages", "65", "use 1 to 64"}, {"--cores", "0", "use 1 to 64"},
		{"--seed", "-1", "-1"},
	} {
		r := root()
		r.SetArgs([]string{"sim", "scale", c.flag, c.value})
		err := r.Execute()
		if err == nil || !strings.Contains(err.Error(), c.flag) || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %s: %v, want one line with %q", c.flag, c.value, err, c.want)
		}
	}
}

// Rule: JSON has a stable name for every number, and but for times and memory it is the same on one
// processor and on two.
func TestScaleJSON(t *testing.T) {
	on := func(cores string) map[string]any {
		text := printed(t, func() error {
			r := root()
			r.SetArgs([]string{"sim", "scale", "--nodes", "64", "--pattern", "barrier", "--messages", "2", "--json",
				"--cores", cores})
			return r.Execute()
		})
		var fields map[string]any
		if err := json.Unmarshal([]byte(text), &fields); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return fields
	}
	one, two := on("1"), on("2")
	want := []string{"bytes_per_node", "cores", "events", "events_per_second", "frames", "hash", "hops",
		"hops_expected", "memory_bytes", "messages_per_node", "network", "nodes", "packets_rejected", "parts",
		"pattern", "retransmitted", "routers", "seed", "setup_seconds", "virtual_time_us", "wall_seconds"}
	if names := slices.Sorted(maps.Keys(one)); !slices.Equal(names, want) {
		t.Errorf("the fields are %q, want %q", names, want)
	}
	for name, v := range one {
		switch name {
		case "bytes_per_node", "cores", "events_per_second", "memory_bytes", "setup_seconds", "wall_seconds":
			if n, ok := v.(float64); !ok || n <= 0 {
				t.Errorf("%s is %v", name, v)
			}
		default:
			if v != two[name] {
				t.Errorf("%s is %v on one processor and %v on two", name, v, two[name])
			}
		}
	}
	if one["hops"] != one["hops_expected"] || one["hops"] == 0.0 {
		t.Errorf("packets passed %v routers, want %v", one["hops"], one["hops_expected"])
	}
}

// Rule: people are told in 80 columns, whatever the numbers are.
func TestScaleTable(t *testing.T) {
	const most = 1 << 40
	var out bytes.Buffer
	err := scaleReport{Pattern: "alltoall-sample", Network: "hypercube", Nodes: 65_536, Routers: 131_072, Cores: 64,
		Memory: most, BytesPerNode: most, Events: most, EventsPerSecond: most, Virtual: most, Wall: most, Setup: most,
		Hops: most, HopsExpected: most, Frames: most, Retransmitted: most, Rejected: most,
		Hash: "0123456789abcdef"}.WriteTable(&out)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > output.Width+1 {
			t.Errorf("%q is wider than %d columns", line, output.Width)
		}
	}
}

// Rule: a run that is interrupted ends with the context's error, and prints nothing.
func TestScaleInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	text := printed(t, func() error {
		o := scale.Options{Nodes: 64, Pattern: "ring", Network: "fat-tree", Messages: 1, Cores: 1}
		err := runScale(ctx, o, true)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		return nil
	})
	if text != "" {
		t.Errorf("it printed %q", text)
	}
}
