package usage

import (
	"math"
	"testing"
)

// Rule: a flag of bytes takes what configuration files take, and refuses what is no number of
// bytes.
func TestBytes(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "4096": 4096, "256MiB": 256 << 20, "2 MiB": 2 << 20, "1KiB": 1 << 10,
		"3GiB": 3 << 30, "1TiB": 1 << 40} {
		got := -1
		if err := (Bytes{&got}).Set(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "-1KiB", "1MB", "9223372036854775807KiB", "1.5MiB"} {
		got := math.MinInt
		if err := (Bytes{&got}).Set(text); err == nil || got != math.MinInt {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
