package main

// This file is what people and programs see: tables, JSON, progress, errors.

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// oneLine makes one line of an error that was joined from several.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// printJSON writes one JSON document to stdout.
func printJSON(v any) error {
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// report is what was found, with a form for programs (JSON) and one for people.
type report interface{ WriteTable(io.Writer) error }

// show prints a report to stdout, for programs or for people.
func show(asJSON bool, r report) error {
	if asJSON {
		return printJSON(r)
	}
	return r.WriteTable(os.Stdout)
}

// table writes rows of cells, aligned.
func table(w io.Writer, rows ...[]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}

// count says how many of something there are, in words: "1 node", "2 nodes".
func count[N int | int64 | int32](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// userName is what a person calls a user: the name, or the number of one that this host does not know.
func userName(uid uint32) string {
	number := fmt.Sprint(uid)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}

// terminal reports whether the file is one.
func terminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// progress shows on a terminal that work goes on, once it has taken two seconds.
// The returned function ends it and wipes the line.
func progress(what string) func() {
	if !terminal(os.Stderr) {
		return func() {}
	}
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		begin, shown := time.Now(), false
		t := time.NewTicker(500 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-done:
				if shown {
					fmt.Fprint(os.Stderr, "\r\x1b[K")
				}
				return
			case <-t.C:
				if d := time.Since(begin); d >= 2*time.Second {
					fmt.Fprintf(os.Stderr, "\r%s ... %.0f s\x1b[K", what, d.Seconds())
					shown = true
				}
			}
		}
	}()
	return func() { close(done); <-gone }
}
