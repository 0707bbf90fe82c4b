package paper

// This file tests the picture of Table 6.1.

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/paper/virtual"
)

// svg returns the picture of a result as SVG.
func svg(t *testing.T, r drawn) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "t.svg")
	p, err := openPictures([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Discard()
	if err := p.write(r.picture()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A picture has the name of each primitive and of each measure, and names the series that it has,
// real time only if there is any; a row in real time that the table has not is left out.
func TestTablePicture(t *testing.T) {
	rows := virtual.Table61()
	for i := range rows {
		rows[i].Cycles = rows[i].PaperCycles * 1.1
	}
	r := &cmamTable{Profile: "some-profile", Comparison: virtual.Comparison{Rows: rows}}
	alone := svg(t, r)
	r.real = append(rows[:2:2], virtual.Row{Name: "other", Measure: "send_tp", Cycles: 1, PaperCycles: 1})
	both := svg(t, r)
	for _, row := range rows {
		for _, word := range []string{row.Name, row.Measure, "paper", "virtual time", "some-profile"} {
			if !strings.Contains(alone, ">"+word+"<") && !strings.Contains(alone, word) {
				t.Errorf("the picture does not say %q", word)
			}
		}
	}
	if strings.Contains(alone, "real time") || !strings.Contains(both, "real time") ||
		strings.Contains(both, ">other<") {
		t.Error("real time is named without a measurement, or not with one, or a row without a place is")
	}
	if strings.Contains(both, "NaN") || strings.Contains(both, "Inf") {
		t.Error("there are places that are none")
	}
}

// A file with a measurement is read; one without rows of the table, or that is none, says how to
// write one.
func TestReadReal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "real.json")
	for text, want := range map[string]struct {
		rows int
		err  error
	}{
		`{"rows":[{"name":"cmam_4","measure":"send_tp","cycles":230,"paper_cycles":219.4},{"name":"barrier","measure":"time","cycles":0,"paper_cycles":1}]}`: {1, nil},
		`{"rows":[]}`: {0, errNotMeasured},
		`{"rows":[{"name":"cmam_4","cycles":-1,"paper_cycles":219.4}]}`: {0, errNotMeasured},
		`nothing`: {0, nil},
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		rows, err := readReal(name)
		if len(rows) != want.rows || (err == nil) != (want.rows > 0) || want.err != nil && !errors.Is(err, want.err) {
			t.Errorf("%s: %d rows, %v", text, len(rows), err)
		}
	}
	if _, err := readReal(name + "x"); err == nil {
		t.Error("a file that is not there was read")
	}
}
