package hwprofiles

// This file holds the list of steps: what is written is read again, and what is none is refused
// with its place.

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Rule (Marshal): a profile with steps is read as it was written.
func TestStepsRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := *load(t, "hamlyn")
		p.Steps = nil
		names := rapid.SampledFrom([]string{"a", "write::x", "link to interface", "(N-1)"})
		for i := range rapid.IntRange(0, 5).Draw(r, "steps") {
			share := func() Share { return Share(rapid.Int64Range(0, int64(maxShare)).Draw(r, "share")) }
			p.Steps = append(p.Steps, Step{Name: names.Draw(r, "name"), Of: "of" + string(rune('a'+i)), Side: "sender",
				Path: rapid.SampledFrom([]string{"on", "off"}).Draw(r, "path"),
				Unit: rapid.SampledFrom([]string{"instructions", "cycles", "cpu_cycles", "ns"}).Draw(r, "unit"),
				Base: share(), DataByte: share(), MetadataByte: share()})
		}
		text, err := p.Marshal()
		if err != nil {
			r.Fatal(err)
		}
		got, err := Parse("p.yaml", text)
		if err != nil {
			r.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(p.Steps, got.Steps); diff != "" {
			r.Fatal(diff)
		}
	})
}

// Rule: errors name the place and what to write.
func TestStepsRefused(t *testing.T) {
	const good = `{of: a, side: sender, step: "send", path: "on", unit: instructions, base: 1, data_byte: 0.5, metadata_byte: 0}`
	head :=
		"name: x\nabout: y\ncpu:\n  clock_mhz: 100\n  instruction_cycles: 1\n  load_double_cycles: 1\n  flow_cycles: 1\n  uncached_read_cycles: 1\n  uncached_write_cycles: 1\n  queues_uncached: false\nsteps:"
	if _, err := Parse("p.yaml", []byte(head+"\n  - "+good+"\n")); err != nil {
		t.Fatal(err)
	}
	for bad, want := range map[string]string{
		" 3":                              "steps is",
		"\n  - {of: a}":                   "a step has no side",
		"\n  - " + good + "\n  - " + good: "given twice",
		"\n  - " + strings.Replace(good, "0.5", "0.00001", 1):                 "data_byte is",
		"\n  - " + strings.Replace(good, "base: 1", "base: 1000001", 1):       "base is",
		"\n  - " + strings.Replace(good, `path: "on"`, "path: maybe", 1):      `path "maybe", want on or off`,
		"\n  - " + strings.Replace(good, "instructions", "cycles", 1):         "that clock is 0",
		"\n  - " + strings.Replace(good, "instructions", "hours", 1):          `unit "hours"`,
		"\n  - " + strings.Replace(good, "instructions", "network_cycles", 1): "that clock is 0",
		"\n  - " + strings.Replace(good, `of: a`, `of: "a b"`, 1):             `of "a b"`,
		"\n  - " + strings.Replace(good, `step: "send"`, `step: ""`, 1):       "step \"\"",
	} {
		_, err := Parse("p.yaml", []byte(head+bad+"\n"))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "p.yaml:") {
			t.Errorf("%s: %v, want %q", bad, err, want)
		}
	}
}
