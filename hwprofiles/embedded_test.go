package hwprofiles

// This file tests the embedded profiles: that they say what the papers say, exactly.

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func load(t testing.TB, name string) *Profile {
	t.Helper()
	p, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// golden writes all that a profile says.
func golden(p *Profile) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s: %s\n", p.Name, p.About)
	for _, f := range p.Figures() {
		at := "-"
		if f.Timed {
			at = fmt.Sprintf("%d ns, exact %t", f.Time, f.Exact)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Key, f.Value, at, f.Source)
	}
	for _, n := range p.Bus.Bursts {
		fmt.Fprintf(w, "transaction of %d words\t\t%d ns\n", n, p.Bus.Transaction(n))
	}
	for _, c := range p.Costs {
		fmt.Fprintf(w, "cost of %s, %s\t%v\t%d ns\t%d bytes\n", c.Call, c.Measure, c.Cycles,
			p.CPU.Clock.Duration(c.Cycles), c.Bytes)
	}
	for _, s := range p.Steps {
		fmt.Fprintf(w, "step of %s, %s: %s\t%s the path\t%v + %v d + %v m %s\n", s.Of, s.Side, s.Name, s.Path, s.Base,
			s.DataByte, s.MetadataByte, s.Unit)
	}
	w.Flush()
	return b.String()
}

// Every embedded profile says what it said; `go test -update` accepts a change.
func TestGolden(t *testing.T) {
	if diff := cmp.Diff([]string{"cm5", "hamlyn", "hamlyn-statemachine", "native", "sbus-arctic", "sbus-arctic-1994",
		"sbus-arctic-paper", "tokyo", "tokyo-text", "ultra", "ultra-asic", "ultra-htx", "virt-ni"}, Names()); diff != "" {
		t.Error(diff)
	}
	for _, name := range Names() {
		p := load(t, name)
		if p.Name != name {
			t.Errorf("%s.yaml names itself %q", name, p.Name)
		}
		got, path := golden(p), filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Every figure of an embedded profile has its source in `sources`, and the comment behind it
// in the file says the same.
func TestEverySourceIsGiven(t *testing.T) {
	line := regexp.MustCompile(`(?m)^  (\w+): .*?# (.*)$`)
	for _, name := range Names() {
		p := load(t, name)
		data, err := embedded.ReadFile(name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		comments := line.FindAllStringSubmatch(string(data), -1)
		if len(comments) != len(p.Figures()) {
			t.Fatalf("%s: %d figures with comments, want all %d", name, len(comments), len(p.Figures()))
		}
		for i, f := range p.Figures() {
			if _, key, _ := strings.Cut(f.Key, "."); comments[i][1] != key || comments[i][2] != f.Source || f.Source == "" {
				t.Errorf("%s: %s has the source %q and the comment %v", name, f.Key, f.Source, comments[i][1:])
			}
		}
		if (p.Sources["costs"] == "") != (len(p.Costs) == 0) {
			t.Errorf("%s: %d costs from %q", name, len(p.Costs), p.Sources["costs"])
		}
		if (p.Sources["steps"] == "") != (len(p.Steps) == 0) {
			t.Errorf("%s: %d steps from %q", name, len(p.Steps), p.Sources["steps"])
		}
	}
}

// Section 6.1 of the thesis in nanoseconds: nothing is rounded, and bus transactions of 1, 2,
// 4 and 8 words take 27.2, 30.4, 36.8 and 49.6 cycles of the CPU.
func TestSBusIsExact(t *testing.T) {
	for _, name := range []string{"sbus-arctic", "sbus-arctic-paper"} {
		p := load(t, name)
		for _, f := range p.Figures() {
			if f.Timed && !f.Exact {
				t.Errorf("%s: %s is not a whole number of nanoseconds", name, f.Key)
			}
		}
		for words, cycles := range map[int]Cycles{1: 272, 2: 304, 4: 368, 8: 496} {
			got, want := p.Bus.Transaction(words), p.CPU.Clock.Duration(cycles)
			if got != want || !p.CPU.Clock.Exact(cycles) || !p.Bus.Clock.Exact(p.Bus.cycles(words)) {
				t.Errorf("%s: a transaction of %d words takes %v, want %v", name, words, got, want)
			}
		}
		if got := p.CPU.Clock.Duration(p.CPU.UncachedReadCycles); got != 680*time.Nanosecond ||
			got != p.Bus.Transaction(1) {
			t.Errorf("%s: an uncached read takes %v, want 680 ns, its transaction", name, got)
		}
	}
}

// The later paper's machine is the thesis's but for what section 5 and 4.1 change.
func TestPaperDiffersFromThesis(t *testing.T) {
	want := *load(t, "sbus-arctic")
	want.Card.Lines, want.Card.TransferWords, want.Card.Types = 16, 20, 1<<14
	want.Network.RouterPorts, want.Network.RouterCycles = 8, 6*Cycle
	got := *load(t, "sbus-arctic-paper")
	got.Name, got.About, got.Sources = want.Name, want.About, want.Sources
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Native costs nothing and limits nothing (design idea 6): all is zero, blocks go (idea 7).
func TestNativeIsFree(t *testing.T) {
	p := load(t, "native")
	want := Profile{Name: "native", About: p.About, Sources: p.Sources, Card: Card{Blocks: true}}
	got := *p
	if len(got.Bus.Bursts) != 0 {
		t.Error("native has bursts")
	}
	got.Bus.Bursts = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestCM5AgreesWithTable61: in table 6.1's CMAM rows the printed cycles are the profile's costs. At
// 33 MHz they agree with the printed microseconds and MB/s to a unit of the last digit (some were
// cut off, not rounded). At the 32 MHz of section 6.2.1 they do not.
func TestCM5AgreesWithTable61(t *testing.T) {
	p := load(t, "cm5")
	rows := []struct {
		call, measure   string
		printed, cycles float64
		bytes           int
	}{
		{"CMAM_4", "send", 1.5, 50.7, 0}, {"CMAM_4", "recv", 1.6, 52.2, 0}, {"CMAM_4", "round_trip", 12.5, 413.9, 0},
		{"CMAM_reply_4", "send", 1.3, 42.8, 0}, {"CMAM_reply_4", "recv", 1.6, 52.2, 0},
		{"CMAM_xfer_4", "send", 7.2, 73.2, 16}, {"CMAM_xfer_4", "recv", 8.5, 62.0, 16},
		{"CMAM_reply_xfer_4", "send", 9.8, 54.1, 16}, {"CMAM_reply_xfer_4", "recv", 10.0, 52.6, 16},
		{"shared_memory", "read_i", 13.7, 450.8, 0}, {"shared_memory", "read_d", 14.5, 480.3, 0},
		{"shared_memory", "write_i", 12.8, 421.5, 0}, {"shared_memory", "write_d", 13.2, 434.7, 0},
		{"get", "1_ovhd", 4.3, 141.3, 0}, {"get", "1_lat", 13.4, 443.0, 0},
		{"get", "16_ovhd", 11.1, 364.9, 0}, {"get", "16_lat", 20.5, 678.9, 0},
		{"put", "1_ovhd", 2.0, 65.7, 0}, {"put", "1_lat", 16.2, 533.8, 0},
	}
	if len(p.Costs) != len(rows) {
		t.Fatalf("%d costs, want %d", len(p.Costs), len(rows))
	}
	agree := func(clock Clock, i int) bool {
		us := float64(clock.Duration(p.Costs[i].Cycles)) / 1e3
		if rows[i].bytes != 0 {
			return math.Abs(float64(rows[i].bytes)/us-rows[i].printed) <= 0.1
		}
		return math.Abs(us-rows[i].printed) <= 0.1
	}
	off := 0
	for i, r := range rows {
		want := Cost{r.call, r.measure, Cycles(math.Round(r.cycles * 10)), r.bytes}
		if diff := cmp.Diff(want, p.Costs[i]); diff != "" {
			t.Error(diff)
		}
		if !agree(p.CPU.Clock, i) {
			t.Errorf("%s %s: %v cycles at %v MHz are not the printed %v", r.call, r.measure, r.cycles,
				p.CPU.Clock, r.printed)
		}
		if !agree(32_000, i) {
			off++
		}
	}
	if off < len(rows)/2 {
		t.Errorf("at 32 MHz only %d rows disagree", off)
	}
}

// A name is an embedded profile's, and a '/' or .yaml makes it a path.
func TestLoad(t *testing.T) {
	for _, name := range []string{"", "sbus", "native\n", "..", strings.Repeat("x", 1000)} {
		if p, err := Load(name); p != nil || !errors.Is(err, ErrUnknown) ||
			!strings.Contains(err.Error(), "sbus-arctic") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", name, err)
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "mine")
	for _, name := range []string{path, path + ".yaml", "absent.yaml"} {
		if _, err := Load(name); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := os.WriteFile(path, []byte("name: mine\nabout: nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Load(path)
	if diff := cmp.Diff(&Profile{Name: "mine", About: "nothing"}, p); err != nil || diff != "" {
		t.Error(err, diff)
	}
	// The longest file is read, and a longer one is not cut off.
	for more, want := range map[int]error{0: nil, 1: ErrInvalid} {
		text := "name: mine\nabout: nothing\n#"
		if err := os.WriteFile(path, []byte(text+strings.Repeat("-", MaxBytes-len(text)+more)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", MaxBytes+more, err)
		}
	}
	// A file that never ends is not read to its end, and a folder is none.
	if _, err := Load("/dev/zero"); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Error(err)
	}
}

// Rule (Froening's thesis, 4.4.3): ultra-asic is ultra at another clock of the units.
func TestASICIsUltraFaster(t *testing.T) {
	want, got := *load(t, "ultra"), *load(t, "ultra-asic")
	want.Ultra.Clock, want.Units.Clock = 500_000, 500_000
	got.Name, got.About, got.Sources = want.Name, want.About, want.Sources
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Rule (Froening's thesis, 4.4.1): ultra-htx is ultra with accesses over another interface.
func TestHTXIsUltraNearer(t *testing.T) {
	want, got := *load(t, "ultra"), *load(t, "ultra-htx")
	want.IO = got.IO
	got.Name, got.About, got.Sources = want.Name, want.About, want.Sources
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
