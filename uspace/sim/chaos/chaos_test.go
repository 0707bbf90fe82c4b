package chaos

// This file runs scenarios: those that once failed, some for every kind of fault, and one twice.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/funet/funet/tests/long"
)

// mustHold runs a scenario and fails the test if a promise is broken.
func mustHold(t *testing.T, s Scenario) Result {
	t.Helper()
	r := Run(s)
	if r.Failed() {
		t.Errorf("funet sim chaos %v\n%s", s, strings.Join(r.Failures, "\n"))
	}
	if r.Messages != s.Messages {
		t.Errorf("funet sim chaos %v: %d messages were sent", s, r.Messages)
	}
	if sum := r.Delivered + r.ReportedFailed - r.Both + r.Ended + r.Lost; sum != r.Messages {
		t.Errorf("funet sim chaos %v: what is said of %d messages adds up to %d: %+v", s, r.Messages, sum, r)
	}
	return r
}

// seeds returns how many seeds of n a test runs: a fifth with -short.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return n / 5
	}
	return n
}

// The corpus of seeds that once failed.
func TestSeedsThatOnceFailed(t *testing.T) {
	text, err := os.ReadFile("../testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		var s Scenario
		var faults, network, shape string
		if n, err := fmt.Sscan(line, &s.Seed, &s.Nodes, &s.Messages, &faults, &network, &s.Profile, &shape); n < 4 {
			t.Fatalf("reading %q: %v", line, err)
		} else if n >= 5 {
			if s.Network, err = ParseNetwork(network); err != nil {
				t.Fatal(err)
			}
			if n == 7 {
				if s.Shape, err = ParseShape(shape); err != nil {
					t.Fatal(err)
				}
			}
		}
		if s.Faults, err = ParseFaults(faults); err != nil {
			t.Fatal(err)
		}
		mustHold(t, s)
		n++
	}
	if n == 0 {
		t.Error("the corpus is empty")
	}
}

// Each kind of fault alone, none, and all: every message is accounted for, in both the
// smallest clusters and larger ones.
func TestEveryFault(t *testing.T) {
	kinds := []Faults{0, All}
	for k := range faultNames {
		kinds = append(kinds, 1<<k)
	}
	for _, f := range kinds {
		for _, nodes := range []int{2, 9} {
			t.Run(fmt.Sprintf("%v/%d", f, nodes), func(t *testing.T) {
				t.Parallel()
				for seed := range seeds(20) {
					mustHold(t, Scenario{Seed: 1000 + seed, Nodes: nodes, Messages: 800, Faults: f})
				}
			})
		}
	}
}

// The same on Arctic, which loses nothing: with routers of few buffers, and all that
// processes and cards do.
func TestArctic(t *testing.T) {
	for _, f := range []Faults{0, Transfer, Congestion, All} {
		for _, nodes := range []int{2, 9, 24} {
			t.Run(fmt.Sprintf("%v/%d", f, nodes), func(t *testing.T) {
				t.Parallel()
				for seed := range seeds(10) {
					mustHold(t, Scenario{Seed: 1000 + seed, Nodes: nodes, Messages: 800, Faults: f, Network: Arctic})
				}
			})
		}
	}
	for _, f := range []Faults{0, Transfer | Resize | Switch} {
		for seed := range seeds(10) {
			r := mustHold(t, Scenario{Seed: seed, Nodes: 8, Messages: 1000, Faults: f, Network: Arctic})
			if r.ReportedFailed != r.strays || r.Delivered != r.Messages-r.strays {
				t.Errorf("seed %d, faults %v: %d of %d messages delivered and %d reported failed; %d were for nobody",
					seed, f, r.Delivered, r.Messages, r.ReportedFailed, r.strays)
			}
		}
	}
}

// The same with direct cards, which have ports and a switch between them, and as a machine.
func TestDirect(t *testing.T) {
	for _, f := range []Faults{0, All, Ports, Ports | Jobs | Forge | Replay,
		Loss | Crash | Restart | Rats | RMA | Chains | Ports} {
		for _, profile := range []string{Native, "tokyo"} {
			t.Run(fmt.Sprintf("%v/%s", f, profile), func(t *testing.T) {
				t.Parallel()
				for seed := range seeds(10) {
					mustHold(t, Scenario{Seed: 3000 + seed, Nodes: 2 + int(seed), Messages: 800, Faults: f,
						Profile: profile, Direct: true})
				}
			})
		}
	}
}

// The same on timed cards, on both networks: of the thesis's machine, and of one whose
// units each take about as long as its bus (testdata/slow-units.yaml).
func TestTimedCards(t *testing.T) {
	long.Test(t)
	for _, profile := range []string{"sbus-arctic", "../testdata/slow-units.yaml"} {
		for _, n := range []Network{Ethernet, Arctic} {
			for _, f := range []Faults{0, Switch, Transfer | Resize | Switch, All} {
				t.Run(fmt.Sprintf("%s/%v/%v", filepath.Base(profile), n, f), func(t *testing.T) {
					t.Parallel()
					for seed := range seeds(10) {
						r := mustHold(t, Scenario{Seed: 2000 + seed, Nodes: 8, Messages: 800, Faults: f, Network: n,
							Profile: profile})
						if f&^(Transfer|Resize|Switch) == 0 &&
							(r.ReportedFailed != r.strays || r.Delivered != r.Messages-r.strays) {
							t.Errorf("seed %d: %d of %d messages delivered and %d reported failed; %d were for nobody",
								seed, r.Delivered, r.Messages, r.ReportedFailed, r.strays)
						}
					}
				})
			}
		}
	}
}

// Jobs that follow each other under one GID, card by card, while frames are lost and cards
// restart: what one sends reaches no other, and comes back; and it was tried.
func TestJobsUnderOneGID(t *testing.T) {
	for _, f := range []Faults{Jobs, Jobs | Loss | Dup | Reorder, Jobs | Loss | Restart | Crash, Jobs | Transfer | Loss,
		Jobs | Switch | Slow | Transfer} {
		for _, n := range []Network{Ethernet, Arctic} {
			t.Run(fmt.Sprintf("%v/%v", f, n), func(t *testing.T) {
				t.Parallel()
				parted := 0
				for seed := range uint64(25) {
					r := mustHold(t, Scenario{Seed: 3000 + seed, Nodes: 8, Messages: 800, Faults: f, Network: n})
					parted += r.parted
				}
				if parted == 0 {
					t.Error("no message was between two jobs")
				}
			})
		}
	}
}

// A profile changes what happens, and one that times nothing does not.
func TestProfileOfAScenario(t *testing.T) {
	s := Scenario{Seed: 3, Nodes: 4, Messages: 200, Faults: All}
	hashes := map[string]uint64{}
	for _, s.Profile = range []string{"", Native, "sbus-arctic", "../testdata/slow-units.yaml"} {
		hashes[s.Profile] = Run(s).Hash
	}
	if hashes[""] != hashes[Native] || hashes[""] == hashes["sbus-arctic"] ||
		hashes["sbus-arctic"] == hashes["../testdata/slow-units.yaml"] {
		t.Errorf("%x", hashes)
	}
	if s.Profile = "sbus-arctic"; !strings.HasSuffix(s.String(), "--faults all --profile sbus-arctic") {
		t.Errorf("the arguments of a scenario with a profile are %v", s)
	}
}

// Where nothing goes wrong, nothing is reported failed but messages to nobody.
func TestNothingFailsWithoutFaults(t *testing.T) {
	for _, f := range []Faults{0, Dup | Reorder, Transfer, Transfer | Resize | Switch | Reorder} {
		for seed := range seeds(20) {
			r := mustHold(t, Scenario{Seed: seed, Nodes: 8, Messages: 1000, Faults: f})
			if f&Transfer != 0 && r.Transfers == 0 {
				t.Errorf("seed %d, faults %v: no transfers", seed, f)
			}
			if r.ReportedFailed != r.strays || r.Delivered != r.Messages-r.strays {
				t.Errorf("seed %d, faults %v: %d of %d messages delivered and %d reported failed; %d were for nobody",
					seed, f, r.Delivered, r.Messages, r.ReportedFailed, r.strays)
			}
		}
	}
}

// The same scenario twice is the same run, byte for byte, at any GOMAXPROCS, and
// whether or not somebody looks (design idea 1).
func TestSameScenarioSameRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, n := range []Network{Ethernet, Arctic} {
		t.Run(n.String(), func(t *testing.T) {
			twice(t, Scenario{Seed: 5, Nodes: 8, Messages: 1000, Faults: All, Network: n})
		})
	}
}

func twice(t *testing.T, s Scenario) {
	blind := Run(s)
	var traces, captures [2]bytes.Buffer
	for i := range 2 {
		runtime.GOMAXPROCS(1 + 3*i)
		s.Trace, s.Capture = &traces[i], &captures[i]
		if r := Run(s); r.Hash != blind.Hash || r.Events != blind.Events {
			t.Errorf("run %d: hash %x after %d events, want %x after %d", i, r.Hash, r.Events, blind.Hash, blind.Events)
		}
	}
	if !bytes.Equal(traces[0].Bytes(), traces[1].Bytes()) || !bytes.Equal(captures[0].Bytes(), captures[1].Bytes()) {
		t.Error("trace or capture differ")
	}
	if !json.Valid(traces[0].Bytes()) {
		t.Error("the trace is not JSON")
	}
	if blind.Transfers == 0 {
		t.Error("nothing was transferred")
	}
	s.Seed++
	if r := Run(s); r.Hash == blind.Hash {
		t.Error("another seed gave the same run")
	}
}

// The sums of many seeds do not depend on how many goroutines run them.
func TestMany(t *testing.T) {
	s := func(seed uint64) Scenario { return Scenario{Seed: seed, Nodes: 6, Messages: 300, Faults: All} }
	var ran atomic.Int64
	one := Many(context.Background(), s, 1, 12, 1, nil)
	four := Many(context.Background(), s, 1, 12, 4, func() { ran.Add(1) })
	if ran.Load() != 12 {
		t.Errorf("%d runs were told of", ran.Load())
	}
	if one.Seeds != 12 || one.Trace != four.Trace || one.Messages != four.Messages || one.Delivered != four.Delivered ||
		one.Failed != nil {
		t.Errorf("one goroutine: %+v; four: %+v", one, four)
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if r := Many(done, s, 1, 12, 2, nil); r.Seeds != 0 {
		t.Errorf("%d seeds ran although it was over", r.Seeds)
	}
	b, err := json.Marshal(one)
	if err != nil {
		t.Fatal(err)
	}
	var names map[string]any
	if err := json.Unmarshal(b, &names); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"seeds", "messages", "transfers", "delivered", "reported_failed", "lost",
		"duplicated", "misdelivered", "damaged", "stuck", "events_per_s"} {
		if _, ok := names[name]; !ok {
			t.Errorf("the report has no %s: %s", name, b)
		}
	}
}

// Names of faults are read in their written form, and others refused.
func TestFaultNames(t *testing.T) {
	for _, f := range []Faults{0, All, Loss, Loss | Restart, Cut | Pause | Slow, 1<<len(faultNames) - 1} {
		if got, err := ParseFaults(f.String()); err != nil || got != f {
			t.Errorf("%q: %v, %v", f.String(), got, err)
		}
	}
	for _, bad := range []string{"fire", "loss,", "loss;dup", "ALL"} {
		if _, err := ParseFaults(bad); !errors.Is(err, ErrFaults) {
			t.Errorf("%q: %v, want ErrFaults", bad, err)
		}
	}
}

// Names of networks are read in their written form, and others refused.
func TestNetworkNames(t *testing.T) {
	for _, n := range []Network{Ethernet, Arctic} {
		if got, err := ParseNetwork(n.String()); err != nil || got != n {
			t.Errorf("%v: %v, %v", n, got, err)
		}
	}
	for _, bad := range []string{"", "Arctic", "token ring"} {
		if _, err := ParseNetwork(bad); !errors.Is(err, ErrNetwork) {
			t.Errorf("%q: %v, want ErrNetwork", bad, err)
		}
	}
}

// What cannot be run is refused.
func TestImpossibleScenarios(t *testing.T) {
	for _, s := range []Scenario{{Nodes: 1, Messages: 1}, {Nodes: MaxNodes + 1, Messages: 1}, {Nodes: 2},
		{Nodes: 2, Messages: -1}, {Nodes: maxArctic + 1, Messages: 1, Network: Arctic},
		{Nodes: 2, Messages: 1, Profile: "cm5"}, {Nodes: 2, Messages: 1, Profile: "abacus"}} {
		if err := s.Check(); !errors.Is(err, ErrScenario) {
			t.Errorf("%v: %v, want ErrScenario", s, err)
		}
		if r := Run(s); !r.Failed() {
			t.Errorf("%v ran", s)
		}
	}
}

// Shrinking finds the smallest scenario that still fails, within a number of runs, and leaves alone
// what does not fail.
func TestShrink(t *testing.T) {
	runs := 0
	fails := func(s Scenario) (r Result) {
		runs++
		if s.Faults&Loss != 0 && s.Faults&Slow != 0 && s.Nodes >= 3 && s.Messages >= 40 {
			r.Lost = 1
		}
		return r
	}
	s, r := shrink(context.Background(), Scenario{Seed: 9, Nodes: 100, Messages: 20_000, Faults: All}, 2000, fails)
	if s.Faults != Loss|Slow || s.Nodes != 3 || s.Messages > 46 || !r.Failed() {
		t.Errorf("shrunk to %v", s)
	}
	runs = 0
	if s, r := shrink(context.Background(), Scenario{Nodes: 100, Messages: 100, Faults: All}, 5, fails); runs > 6 ||
		!r.Failed() {
		t.Errorf("%d runs to shrink to %v in 5 tries", runs, s)
	}
	if s, r := shrink(context.Background(), Scenario{Nodes: 2, Messages: 100}, 5, fails); r.Failed() ||
		s.Messages != 100 {
		t.Errorf("%v was shrunk although it does not fail", s)
	}
}
