package main

// This file judges the figures and prints them.

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// These are the types whose size is limited.
const (
	card     = "uspace/engine.Card"
	endpoint = "uspace/am.Endpoint"
)

// report is the document. A figure is met when its value is at most its limit.
type report struct {
	Figures  []figure      `json:"figures"`
	Packages []packageSize `json:"packages"`
	Code     int           `json:"code_lines"` // without tests and empty lines
	Tests    int           `json:"test_lines"`
	Met      bool          `json:"met"`
	alone    bool          // only one figure is left, and its places are printed
}

// figure is one figure, with its places if it counts places.
type figure struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Limit  float64 `json:"limit"`
	Met    bool    `json:"met"`
	Places []place `json:"places,omitempty"`
}

// packageSize is how large a package is, in lines that are not empty.
type packageSize struct {
	Path  string `json:"path"`
	Code  int    `json:"code_lines"`
	Tests int    `json:"test_lines"`
}

// report makes the document.
func (f *figures) report() *report {
	r := &report{Met: true}
	for _, p := range slices.Sorted(maps.Keys(merged(f.code, f.tests))) {
		r.Packages = append(r.Packages, packageSize{p, f.code[p], f.tests[p]})
		r.Code, r.Tests = r.Code+f.code[p], r.Tests+f.tests[p]
	}
	add := func(name string, value, limit float64, places []place) {
		ok := value <= limit
		r.Figures = append(r.Figures, figure{name, value, limit, ok, places})
		r.Met = r.Met && ok
	}
	count := func(name string, limit float64, places []place) { add(name, float64(len(places)), limit, places) }
	add("card_methods", float64(f.methods[card]), 60, nil)
	add("card_fields", float64(f.fields[card]), 22, nil)
	add("endpoint_methods", float64(f.methods[endpoint]), 90, nil)
	count("functions_over_100_lines", 0, f.functions)
	count("comment_lines_over_100_columns", 0, f.comments)
	add("code_lines_over_120_columns_percent", 100*float64(f.wide)/float64(max(1, r.Code+r.Tests)), 0.2, nil)
	count("sentences_over_40_words", 40, f.sentences)
	add("readme_lines", float64(f.readme), 150, nil)
	return r
}

// keep removes all figures but one from the report.
func (r *report) keep(name string) error {
	at := slices.IndexFunc(r.Figures, func(f figure) bool { return f.Name == name })
	if at < 0 {
		return fmt.Errorf("--only %s: there is no such figure; see --json", name)
	}
	r.Figures = r.Figures[at : at+1]
	r.Met = r.Figures[0].Met
	r.alone = true
	return nil
}

// merged returns a map with the keys of both maps.
func merged(a, b map[string]int) map[string]int {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// print prints the document as JSON or as a table.
func (r *report) print(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	for _, f := range r.Figures {
		verdict := "met"
		if !f.Met {
			verdict = "not met"
		}
		if _, err := fmt.Fprintf(w, "%-38s %8.4g  at most %6.4g  %s\n", f.Name, f.Value, f.Limit, verdict); err != nil {
			return err
		}
		for _, p := range f.Places {
			if !r.alone || f.Met {
				break
			}
			if _, err := fmt.Fprintf(w, "%s:%d: %d\n", p.File, p.Line, p.Size); err != nil {
				return err
			}
		}
	}
	if r.alone {
		return nil
	}
	_, err := fmt.Fprintf(w, "%-38s %8d\n%-38s %8d\n", "code_lines", r.Code, "test_lines", r.Tests)
	return err
}
