package output

import (
	"slices"
	"strings"
	"testing"
)

// Rule (Fold): lines are no longer than they may be, but for one word or one command in back
// quotes; no word is lost.
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

// Rule (Table): a last column goes on below where a line would be longer than Width; if the columns
// before it leave little room, it stays in one line. Words are not lost.
func TestTableFoldsItsLastColumn(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 30))
	for before, folds := range map[string]bool{"short": true, strings.Repeat("x", Width-gap-leastLast): true,
		strings.Repeat("x", Width-gap-leastLast+1): false} {
		var b strings.Builder
		if err := Table(&b, []string{"a", "b"}, []string{before, long}, []string{"alone"}); err != nil {
			t.Fatal(err)
		}
		wide := 0
		for line := range strings.Lines(b.String()) {
			wide = max(wide, len(strings.TrimSuffix(line, "\n")))
		}
		if folds != (wide <= Width) || strings.Count(b.String(), "word") != 30 {
			t.Errorf("behind %q lines are %d wide:\n%s", before, wide, b.String())
		}
	}
}
