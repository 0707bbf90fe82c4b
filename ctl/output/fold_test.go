package output

import (
	"slices"
	"strings"
	"testing"
)

// Rule (Fold): lines are no longer than they may be, but for one word or one command in back quotes; no word is lost.
func TestFold(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", []string{""}},
		{"one", []string{"one"}},
		{"one two three", []string{"one two", "three"}},
		{"longer-than-that one", []string{"longer-than-that", "one"}},
		{"see `ip link set eth1 up` or so", []string{"see", "`ip link set eth1 up`", "or so"}},
		{"(`a b`), c", []string{"(`a b`), c"}},
		{"é é é é é", []string{"é é é é é"}},
	} {
		if got := Fold(c.text, 10); !slices.Equal(got, c.want) || strings.Join(got, " ") != c.text {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}
