// What iperf3 prints, recorded from its Debian 12 version, and what is not its output.

package bench

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The goodput is the receiver's count, not the sender's.
func TestParseIperf3(t *testing.T) {
	got, err := parseIperf3(recorded(t, "iperf3.txt"))
	want := streamed{Gbit: 18.240398555332909, Retransmitted: 6303, Control: "bbr"}
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// An error that iperf3 tells is told; output that is empty, cut off or of another tool is an error.
func TestParseIperf3Refuses(t *testing.T) {
	whole := recorded(t, "iperf3.txt")
	for text, want := range map[string]string{
		recorded(t, "iperf3-refused.txt"): "unable to connect to server",
		"":                                "no JSON",
		whole[:len(whole)-20]:             "no JSON",
		recorded(t, "sockperf.txt"):       "no JSON",
		"{}":                              "bits_per_second",
		strings.ReplaceAll(whole, "18240398555.332909", "-1"):    "bits_per_second",
		strings.ReplaceAll(whole, "18240398555.332909", `"all"`): "no JSON",
	} {
		if got, err := parseIperf3(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %+v, %v; want an error with %q", text, got, err, want)
		}
	}
}

// No output makes the parser panic or give a rate that cannot be.
func TestParseIperf3Anything(t *testing.T) {
	lines := strings.SplitAfter(recorded(t, "iperf3.txt"), "\n")
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.OneOf(rapid.SampledFrom(lines), rapid.String())).Draw(t, "text"), "")
		if got, err := parseIperf3(text); err == nil && !(got.Gbit > 0) {
			t.Fatalf("%+v of %q", got, text)
		}
	})
}
