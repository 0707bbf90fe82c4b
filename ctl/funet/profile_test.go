package main

// This file tests `funet profile`.

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/command"
	"github.com/funet/funet/hwprofiles"
)

// profileOutput runs `funet profile` and returns what it printed.
func profileOutput(t *testing.T, args ...string) (string, error) {
	t.Helper()
	old := os.Stdout
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = w
	read := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(r) // what cannot be read is missed below
		read <- b
	}()
	c := root()
	c.SetArgs(append([]string{"profile"}, args...))
	err = c.Execute()
	os.Stdout = old
	w.Close()
	b := <-read
	r.Close()
	return string(b), err
}

// Each command prints one JSON document, or a table.
func TestProfileList(t *testing.T) {
	out, err := profileOutput(t, "list", "--json")
	var l profileList
	if err != nil || json.Unmarshal([]byte(out), &l) != nil || len(l.Profiles) != len(hwprofiles.Names()) {
		t.Errorf("%v, %s", err, out)
	}
	out, err = profileOutput(t, "list")
	for _, name := range hwprofiles.Names() {
		if err != nil || !strings.Contains(out, "\n"+name+" ") {
			t.Errorf("%s is not listed: %v, %s", name, err, out)
		}
	}
}

// What is shown has every figure with its value, its time and its source.
func TestProfileShow(t *testing.T) {
	for _, name := range hwprofiles.Names() {
		p, err := hwprofiles.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		out, err := profileOutput(t, "show", name)
		for _, f := range p.Figures() {
			line := "" // with what goes on below it
			for l := range strings.Lines(out) {
				if strings.HasPrefix(l, f.Key+" ") || line != "" && strings.HasPrefix(l, " ") {
					line += " " + strings.TrimSpace(l)
				} else if line != "" {
					break
				}
			}
			if err != nil || !strings.Contains(line, " "+f.Value+" ") ||
				!strings.HasSuffix(line, strings.Join(strings.Fields(f.Source), " ")) ||
				f.Timed != strings.Contains(line, " ns ") {
				t.Errorf("%s: %s is shown as %q (%v)", name, f.Key, line, err)
			}
		}
		out, err = profileOutput(t, "show", name, "--json")
		var doc struct {
			Name    string
			Figures []struct {
				Key, Source string
				Value       any
				Nanoseconds *int64
				Exact       *bool
			}
			Transactions []struct{ Words, Nanoseconds int64 } `json:"bus_transactions"`
			Costs        []struct {
				Call, Measure string
				Cycles        float64
				Nanoseconds   int64
			}
		}
		d := json.NewDecoder(bytes.NewReader([]byte(out)))
		if err != nil || d.Decode(&doc) != nil || d.More() {
			t.Fatalf("%s: no JSON document (%v): %s", name, err, out)
		}
		if doc.Name != name || len(doc.Figures) != len(p.Figures()) || len(doc.Transactions) != len(p.Bus.Bursts) ||
			len(doc.Costs) != len(p.Costs) {
			t.Errorf("%s: %d figures, %d transactions, %d costs", doc.Name, len(doc.Figures), len(doc.Transactions),
				len(doc.Costs))
		}
		for i, f := range p.Figures() {
			g := doc.Figures[i]
			if g.Key != f.Key || g.Source != f.Source || g.Value == nil || f.Timed != (g.Nanoseconds != nil) ||
				f.Timed != (g.Exact != nil) ||
				f.Timed && (*g.Nanoseconds != f.Time.Nanoseconds() || *g.Exact != f.Exact) {
				t.Errorf("%s: %s is %+v", name, f.Key, g)
			}
		}
	}
	// Figures that are no whole number of nanoseconds are marked.
	if out, err := profileOutput(t, "show", "cm5"); err != nil || !strings.Contains(out, "about 30 ns") ||
		!strings.Contains(out, "12.54 us") {
		t.Errorf("%v, %s", err, out)
	}
}

// What --yaml prints can be checked and shown again; a change that breaks a rule is refused
// with line and column, in a document too.
func TestProfileCheck(t *testing.T) {
	yaml, err := profileOutput(t, "show", "sbus-arctic", "--yaml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mine.yaml")
	write := func(old, new string) {
		t.Helper()
		if !strings.Contains(yaml, old) {
			t.Fatalf("no %q in %s", old, yaml)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(yaml, old, new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("", "")
	first, _ := profileOutput(t, "show", "sbus-arctic")
	if again, err := profileOutput(t, "show", path); err != nil || again != first {
		t.Errorf("written and loaded it is another profile (%v):\n%s", err, again)
	}
	if out, err := profileOutput(t, "check", path); err != nil || out != path+": valid, the profile sbus-arctic\n" {
		t.Errorf("%v, %q", err, out)
	}

	write("  card.lines: ", "  # ")
	var doc profileChecked
	out, err := profileOutput(t, "check", path, "--json")
	if err != nil || json.Unmarshal([]byte(out), &doc) != nil || !doc.Valid || doc.Name != "sbus-arctic" ||
		len(doc.Unsourced) != 1 || doc.Unsourced[0] != "card.lines" {
		t.Errorf("%v, %s", err, out)
	}
	if out, err := profileOutput(t, "check", path); err != nil ||
		!strings.HasSuffix(out, "\n  without a source: card.lines\n") {
		t.Errorf("%v, %s", err, out)
	}

	write("lines: 8", "lines: 1")
	if out, err := profileOutput(t, "check", path); !errors.Is(err, hwprofiles.ErrInvalid) ||
		!strings.HasPrefix(err.Error(), path+":22:10: card.lines is 1, want") || out != "" {
		t.Errorf("%v, %s", err, out)
	}
	out, err = profileOutput(t, "check", path, "--json")
	doc = profileChecked{}
	if err != command.ExitCode(1) || json.Unmarshal([]byte(out), &doc) != nil || doc.Valid ||
		!strings.HasPrefix(doc.Error, path+":22:10: ") {
		t.Errorf("%v, %s", err, out)
	}
}

// What makes no sense is refused.
func TestProfileRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"there are cm5, hamlyn":  {"show", "sbus"},
		"no such file":           {"check", "--json", "absent"},
		"show --help":            {"show"},
		"check --help":           {"check", "a", "b"},
		"[json yaml]":            {"show", "native", "--json", "--yaml"},
		"funet profile --help":   {"paint"},
		"profile list --help":    {"list", "native"},
		"is a directory":         {"show", "./"},
		"absent.yaml: no such f": {"show", "absent.yaml"},
	} {
		if out, err := profileOutput(t, args...); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%v: %v, want an error with %q", args, err, want)
		}
	}
}
