package output

// This file prints tables, JSON documents and errors.

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
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

// Report is the result of a command, in a form for programs (JSON) and one for people.
type Report interface{ WriteTable(io.Writer) error }

// Show prints a report to stdout, for programs or for people.
func Show(asJSON bool, r Report) error {
	if asJSON {
		return JSON(r)
	}
	return r.WriteTable(os.Stdout)
}

const (
	Width = 80 // the width of tables and folded text in characters, where it can be kept
	// gap is the space between columns. leastLast is the least width of a folded last column.
	gap, leastLast = 3, 24
)

// Row returns the cells of a table that have the values.
func Row(values ...any) (cells []string) {
	for _, v := range values {
		cells = append(cells, fmt.Sprint(v))
	}
	return cells
}

// Table writes rows of cells, aligned. Where a line would be wider than Width, the last column's
// cell is folded onto further lines.
func Table(w io.Writer, rows ...[]string) error {
	columns := 0
	for _, r := range rows {
		columns = max(columns, len(r))
	}
	wide := make([]int, columns)
	for _, r := range rows {
		for i, cell := range r {
			wide[i] = max(wide[i], utf8.RuneCountInString(cell)+gap)
		}
	}
	last := Width
	for _, n := range wide[:max(columns-1, 0)] {
		last -= n
	}
	t := tabwriter.NewWriter(w, 0, 0, gap, ' ', 0)
	for _, r := range rows {
		if len(r) == columns && columns > 1 && last >= leastLast && utf8.RuneCountInString(r[columns-1]) > last {
			lines := Fold(r[columns-1], last)
			r = append(slices.Clone(r[:columns-1]), strings.Join(lines, "\n"+strings.Repeat("\t", columns-1)))
		}
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}

// Fold breaks a text between words into lines of at most wide characters. It returns at least one
// line. Text in back quotes, which is meant to be copied, stays in one piece.
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

// Count returns a number with a noun: "1 node", "2 nodes".
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

// Terminal reports whether the file is a terminal.
func Terminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
