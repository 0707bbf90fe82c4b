package usage

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/funet/funet/ctl/output"
)

// Rule (fold): paragraphs that fit stay as they are. Others flow, but lines that begin with a space
// stand by themselves and go on below their text; what goes on behind a # is a remark, too.
func TestFold(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 30))
	for _, row := range []struct{ text, want string }{
		{"a\nb\n\nc", "a\nb\n\nc"},
		{"a\nb\n  c    d", "a\nb\n  c    d"},
		{"a\n" + long, "a " + long[:74] + "\n" + long[75:]},
		{"  do:   " + long, "  do:   " + long[:69] + "\n        " + long[70:139] + "\n        " + long[140:]},
		{"  card: 0   # " + long, "  card: 0   # " + long[:64] + "\n            # " + long[65:129] +
			"\n            # " + long[130:]},
		{"  card: 0   # x\n" + long, "  card: 0   # x\n" + long[:79] + "\n" + long[80:]},
	} {
		got := fold(row.text)
		if got != row.want {
			t.Errorf("%q becomes\n%s\nnot\n%s", row.text, got, row.want)
		}
		for line := range strings.Lines(got) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > output.Width {
				t.Errorf("too wide: %q", line)
			}
		}
	}
}
