package output

// This file prints: tables, JSON, progress, errors.

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// OneLine makes one line of an error that was joined from several.
func OneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// JSON writes one JSON document to stdout.
func JSON(v any) error {
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Report is the result of a command, with a form for programs (JSON) and one for people.
type Report interface{ WriteTable(io.Writer) error }

// Show prints a report to stdout, for programs or for people.
func Show(asJSON bool, r Report) error {
	if asJSON {
		return JSON(r)
	}
	return r.WriteTable(os.Stdout)
}

// Table writes rows of cells, aligned.
func Table(w io.Writer, rows ...[]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}

// Width is how wide lines of tables are where they can be, in characters.
const Width = 80

// Fold breaks a text between words into lines of at most wide characters, one at least. What stands in back quotes, to be copied, stays in one piece.
func Fold(text string, wide int) (lines []string) {
	var words []string
	open := false
	for _, w := range strings.Fields(text) {
		if open {
			words[len(words)-1] += " " + w
		} else {
			words = append(words, w)
		}
		open = open != (strings.Count(w, "`")%2 == 1)
	}
	for i, w := range words {
		if last := len(lines) - 1; i > 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(w) <= wide {
			lines[last] += " " + w
		} else {
			lines = append(lines, w)
		}
	}
	if lines == nil {
		lines = []string{""}
	}
	return lines
}

// Count says how many of something there are, in words: "1 node", "2 nodes".
func Count[N int | int64 | int32](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// UserName returns the name of a user, or the number if this host does not know the user.
func UserName(uid uint32) string {
	number := fmt.Sprint(uid)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}

// Terminal reports whether the file is one.
func Terminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
