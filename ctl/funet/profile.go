package main

// This file is `funet profile`: it shows the hardware profiles that cards can be paced as.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/command"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/hwprofiles"
)

func profileCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "profile",
		Example: "  funet profile list\n  funet profile show sbus-arctic",
		Short:   "List, show and check hardware profiles: what a card, its bus and its network are paced as",
	}
	c.AddCommand(profileListCommand(), profileShowCommand(), profileCheckCommand(), profileSetCommand())
	return c
}

// profileList is the JSON document of profile list.
type profileList struct {
	Profiles []profileEntry `json:"profiles"`
}

type profileEntry struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

func profileListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Example: "  funet profile list",
		Short:   "List the profiles that are built in",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var l profileList
			for _, name := range hwprofiles.Names() {
				p, err := hwprofiles.Load(name)
				if err != nil {
					return err
				}
				l.Profiles = append(l.Profiles, profileEntry{p.Name, p.About})
			}
			return output.Show(asJSON, l)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (l profileList) WriteTable(w io.Writer) error {
	rows := [][]string{{"profile", "what it is"}}
	for _, p := range l.Profiles {
		rows = append(rows, []string{p.Name, p.About})
	}
	return output.Table(w, rows...)
}

// profileShown is the JSON document of profile show. Times that are not a whole number of
// nanoseconds are rounded to the nearest.
type profileShown struct {
	profileEntry
	Figures      []profileFigure      `json:"figures"`
	Transactions []profileTransaction `json:"bus_transactions"`
	Costs        []profileCost        `json:"costs"`
	CostSource   string               `json:"costs_source,omitempty"`
	Steps        []profileStep        `json:"steps"`
	StepSource   string               `json:"steps_source,omitempty"`
}

type profileFigure struct {
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value"`
	Time   *int64          `json:"nanoseconds,omitempty"`
	Exact  *bool           `json:"exact,omitempty"`
	Source string          `json:"source"`
	text   []string        // value and time in readable form
}

type profileTransaction struct {
	Words int   `json:"words"`
	Time  int64 `json:"nanoseconds"`
}

type profileCost struct {
	Call    string      `json:"call"`
	Measure string      `json:"measure"`
	Bytes   int         `json:"bytes"` // bytes that it moves; 0: it is the cost of a call
	Cycles  json.Number `json:"cycles"`
	Time    int64       `json:"nanoseconds"`
}

type profileStep struct {
	Step         string      `json:"step"`
	Of           string      `json:"of"`
	Side         string      `json:"side"`
	Path         string      `json:"path"` // on: something waits for it; off: nothing does
	Unit         string      `json:"unit"`
	Base         json.Number `json:"base"`
	DataByte     json.Number `json:"data_byte"`
	MetadataByte json.Number `json:"metadata_byte"`
}

func profileShowCommand() *cobra.Command {
	var asJSON, asYAML bool
	c := &cobra.Command{
		Use:   "show PROFILE",
		Short: "Show every figure of a profile, with its source",
		Long: `Show every figure of a profile with what it comes to in nanoseconds and where it is
from. PROFILE is the name of one that is built in, or a file, whose name has a '/' or
ends in .yaml. A figure of zero costs nothing or, where it is a limit, sets none.
With --yaml the profile is printed as a file to start one's own from.`,
		Example: "  funet profile show sbus-arctic\n  funet profile show sbus-arctic --yaml > mine.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := hwprofiles.Load(args[0])
			if err != nil {
				return err
			}
			if !asYAML {
				return output.Show(asJSON, shownProfile(p))
			}
			data, err := p.Marshal()
			if err != nil {
				return err
			}
			_, err = os.Stdout.Write(data)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().BoolVar(&asYAML, "yaml", false, "print a profile file")
	c.MarkFlagsMutuallyExclusive("json", "yaml")
	return c
}

// shownProfile makes the document of profile show.
func shownProfile(p *hwprofiles.Profile) *profileShown {
	s := &profileShown{
		profileEntry: profileEntry{p.Name, p.About},
		Transactions: []profileTransaction{}, Costs: []profileCost{}, CostSource: p.Sources["costs"],
		Steps: []profileStep{}, StepSource: p.Sources["steps"],
	}
	for _, f := range p.Figures() {
		g := profileFigure{Key: f.Key, Value: json.RawMessage(f.Value), Source: f.Source, text: []string{f.Value, ""}}
		if !json.Valid(g.Value) { // a word, or a list of words
			g.Value = json.RawMessage(`"` + f.Value + `"`)
			if list := strings.Trim(f.Value, "[]"); list != f.Value {
				g.Value = json.RawMessage(`["` + strings.ReplaceAll(list, ", ", `", "`) + `"]`)
			}
		}
		if f.Timed {
			ns := f.Time.Nanoseconds()
			g.Time, g.Exact, g.text[1] = &ns, &f.Exact, nanoseconds(f.Time, f.Exact)
		}
		s.Figures = append(s.Figures, g)
	}
	for _, n := range p.Bus.Bursts {
		s.Transactions = append(s.Transactions, profileTransaction{n, p.Bus.Transaction(n).Nanoseconds()})
	}
	for _, t := range p.Steps {
		s.Steps = append(s.Steps, profileStep{t.Name, t.Of, t.Side, t.Path, t.Unit, json.Number(t.Base.String()),
			json.Number(t.DataByte.String()), json.Number(t.MetadataByte.String())})
	}
	for _, c := range p.Costs {
		s.Costs = append(s.Costs, profileCost{c.Call, c.Measure, c.Bytes, json.Number(c.Cycles.String()),
			p.CPU.Clock.Duration(c.Cycles).Nanoseconds()})
	}
	return s
}

// nanoseconds returns a duration in readable form.
func nanoseconds(d time.Duration, exact bool) string {
	if exact {
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	}
	return fmt.Sprintf("about %d ns", d.Nanoseconds())
}

func (s *profileShown) WriteTable(w io.Writer) error {
	said := func(text string) { fmt.Fprintln(w, strings.Join(output.Fold(text, output.Width), "\n")) }
	said(s.Name + ": " + s.About)
	fmt.Fprintln(w)
	rows := [][]string{{"figure", "value", "time", "source"}}
	for _, f := range s.Figures {
		rows = append(rows, []string{f.Key, f.text[0], f.text[1], f.Source})
	}
	if err := output.Table(w, rows...); err != nil {
		return err
	}
	if len(s.Transactions) != 0 {
		rows = [][]string{{"bus transaction", "time"}}
		for _, t := range s.Transactions {
			rows = append(rows, []string{fmt.Sprintf("words: %d", t.Words), fmt.Sprintf("%d ns", t.Time)})
		}
		fmt.Fprintln(w)
		if err := output.Table(w, rows...); err != nil {
			return err
		}
	}
	if len(s.Steps) != 0 {
		rows = [][]string{{"step", "of", "side", "on the path", "takes", "a byte of data", "of metadata", "unit"}}
		for _, t := range s.Steps {
			rows = append(rows, []string{t.Step, t.Of, t.Side, t.Path, t.Base.String(), t.DataByte.String(),
				t.MetadataByte.String(), t.Unit})
		}
		fmt.Fprintln(w)
		said("steps: " + s.StepSource)
		if err := output.Table(w, rows...); err != nil {
			return err
		}
	}
	if len(s.Costs) == 0 {
		return nil
	}
	rows = [][]string{{"call", "measure", "cycles", "time", "of"}}
	for _, c := range s.Costs {
		of := "a call"
		if c.Bytes != 0 {
			of = fmt.Sprintf("%d bytes", c.Bytes)
		}
		rows = append(rows, []string{c.Call, c.Measure, c.Cycles.String(),
			fmt.Sprintf("%.2f us", float64(c.Time)/1e3), of})
	}
	fmt.Fprintln(w)
	said("costs: " + s.CostSource)
	return output.Table(w, rows...)
}

// profileChecked is the JSON document of profile check.
type profileChecked struct {
	File  string `json:"file"`
	Valid bool   `json:"valid"`
	Name  string `json:"name,omitempty"`
	Error string `json:"error,omitempty"` // with file, line and column
	// Unsourced lists the figures other than zero for which the file names no source.
	Unsourced []string `json:"unsourced,omitempty"`
}

func profileCheckCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a profile file; what is wrong is told with line and column",
		Long: `Check a profile file. What is wrong is told with line, column and what to write
instead, and the exit status is 1. Figures without a source are listed, which is no error.`,
		Example: "  funet profile check mine.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			r := profileChecked{File: args[0]}
			p, err := hwprofiles.LoadFile(args[0])
			switch {
			case err != nil && (!asJSON || !errors.Is(err, hwprofiles.ErrInvalid)):
				return err
			case err != nil:
				r.Error = err.Error()
				if err := output.JSON(r); err != nil {
					return err
				}
				return command.ExitCode(1) // the document says what is wrong
			}
			r.Valid, r.Name = true, p.Name
			for _, f := range p.Figures() {
				if f.Source == "" && f.Value != "0" && f.Value != "false" && f.Value != "[]" && f.Value != "any" {
					r.Unsourced = append(r.Unsourced, f.Key)
				}
			}
			if len(p.Costs) != 0 && p.Sources["costs"] == "" {
				r.Unsourced = append(r.Unsourced, "costs")
			}
			if len(p.Steps) != 0 && p.Sources["steps"] == "" {
				r.Unsourced = append(r.Unsourced, "steps")
			}
			return output.Show(asJSON, r)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (r profileChecked) WriteTable(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s: valid, the profile %s\n", r.File, r.Name); err != nil || r.Unsourced == nil {
		return err
	}
	_, err := fmt.Fprintf(w, "  without a source: %s\n", strings.Join(r.Unsourced, ", "))
	return err
}
