package main

// This file judges the functions and prints them.

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// report is the document.
type report struct {
	Trips     int             `json:"round_trips"`
	Functions int             `json:"functions"`
	Files     int             `json:"files"`
	Limit     int             `json:"functions_limit"`
	Met       bool            `json:"met"`
	Packages  []packageReport `json:"packages"`
	Executed  []function      `json:"executed"`
}

// packageReport is the part of a package.
type packageReport struct {
	Path      string `json:"path"`
	Functions int    `json:"functions"`
	Files     int    `json:"files"`
}

// newReport keeps the functions that were called at least once a round trip.
func newReport(all []function, trips, most int) *report {
	r := &report{Trips: trips, Limit: most}
	files, of := map[string]bool{}, map[string]int{}
	for _, f := range all {
		if f.Calls < trips {
			continue
		}
		r.Executed = append(r.Executed, f)
		at, ok := of[f.Package]
		if !ok {
			at = len(r.Packages)
			of[f.Package] = at
			r.Packages = append(r.Packages, packageReport{Path: f.Package})
		}
		r.Packages[at].Functions++
		if !files[f.File] {
			files[f.File] = true
			r.Packages[at].Files++
		}
	}
	slices.SortStableFunc(r.Packages, func(a, b packageReport) int { return b.Functions - a.Functions })
	r.Functions, r.Files = len(r.Executed), len(files)
	r.Met = r.Functions > 0 && r.Functions <= most
	return r
}

// print prints the report as JSON, or as a table with the names of the functions or without.
func (r *report) print(w io.Writer, asJSON, list bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	for _, p := range r.Packages {
		if _, err := fmt.Fprintf(w, "%-24s %4d functions in %3d files\n", p.Path, p.Functions, p.Files); err != nil {
			return err
		}
		for _, f := range r.Executed {
			if !list || f.Package != p.Path {
				continue
			}
			if _, err := fmt.Fprintf(w, "  %-40s %s, %.1f a round trip\n", f.Name, f.File,
				float64(f.Calls)/float64(r.Trips)); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(w, "%-24s %4d functions in %3d files of %d packages, at most %d\n", "in all", r.Functions,
		r.Files, len(r.Packages), r.Limit)
	return err
}
