// What the tools print, recorded from their Debian 12 versions, and what is not their output.

package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var parsers = map[string]func(string) (sample, error){
	"sockperf.txt":        parseSockperf,
	"ucx.txt":             parseUCX,
	"openmpi.txt":         parseMPI,
	"fi_pingpong-rxd.txt": parsePingpong,
	"fi_pingpong-rxm.txt": parsePingpong,
}

func recorded(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Half round trips are doubled, whole ones are not; a mean has no p99.
func TestParse(t *testing.T) {
	for name, want := range map[string]sample{
		"sockperf.txt":        {P50: 2 * 3.875, P99: 2 * 4.501},
		"ucx.txt":             {P50: 2 * 5.082, P99: 2 * 5.708},
		"openmpi.txt":         {P50: 11.007, P99: 14.581},
		"fi_pingpong-rxd.txt": {P50: 2 * 36.65},
		"fi_pingpong-rxm.txt": {P50: 2 * 39.55},
	} {
		got, err := parsers[name](recorded(t, name))
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
}

// UCX writes warnings between its lines.
func TestParseUCXWarning(t *testing.T) {
	text := strings.ReplaceAll(recorded(t, "ucx.txt"), "\n", "\n[1.2] [vm:1 :0] tcp.c:1 UCX WARN \"a,\" b, c\n")
	if got, err := parseUCX(text); err != nil || got.P50 != 2*5.082 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Output that is empty, cut off before its figures, or another tool's is an error.
func TestParseRefuses(t *testing.T) {
	for name, parse := range parsers {
		for other := range parsers {
			text := recorded(t, other)
			if other == name || strings.HasPrefix(other, "fi_") && strings.HasPrefix(name, "fi_") {
				text = text[:len(text)/3]
			}
			if got, err := parse(text); err == nil {
				t.Errorf("%s of %s: %+v", name, other, got)
			}
		}
	}
	for _, text := range []string{
		"round trip us: p50 0 p99 0",
		"round trip us: p50 1.2.3 p99 4",
		"round trip us: p50 1 p99 .",
	} {
		if got, err := parseMPI(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// No output makes a parser panic or give a sample without a median.
func TestParseAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for name, parse := range parsers {
			raw, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter(string(raw), "\n")
			text := strings.Join(rapid.SliceOf(rapid.OneOf(rapid.SampledFrom(lines), rapid.String())).Draw(t, name), "")
			if got, err := parse(text); err == nil && !(got.P50 > 0) {
				t.Fatalf("%+v of %q", got, text)
			}
		}
	})
}

// A TCP server listens, a UDP server is unconnected (proc_net_tcp.rst); a connection in TIME_WAIT
// or another protocol's port is no server.
func TestBound(t *testing.T) {
	tcp, udp := recorded(t, "proc_net_tcp.txt"), recorded(t, "proc_net_udp.txt")
	for _, c := range []struct {
		table, protocol string
		port            int
		want            bool
	}{
		{tcp, "tcp", 6030, true},
		{tcp, "tcp", 0x1787, false}, // TIME_WAIT
		{tcp, "tcp", 6031, false},
		{udp, "udp", 6031, true},
		{udp, "udp", 6030, false},
		{"", "tcp", 6030, false},
		{"\n0: :178E\n", "tcp", 6030, false},
	} {
		if got := bound(c.table, c.protocol, c.port); got != c.want {
			t.Errorf("%s port %d: %v", c.protocol, c.port, got)
		}
	}
}
