package paper

// This file makes the tree of commands, and has what they share: flags, and the form of results.

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/command"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/hwprofiles"
)

// Tree is funet-paper.
func Tree() command.Tree {
	sim := &cobra.Command{Use: "sim"}
	var paths []string
	for i, c := range []*cobra.Command{cmamCommand(), matmulCommand(), niCommand(), ratsCommand()} {
		p := command.Papers[i]
		c.Use, c.Short, c.Args = strings.TrimPrefix(p.Path, "sim "), p.Short, cobra.NoArgs
		sim.AddCommand(c)
		paths = append(paths, p.Path)
	}
	return command.Tree{
		Commands: []*cobra.Command{sim, usage.Man(usage.Written{Section: "1", Of: paths})},
		Completed: usage.Completed{
			"--profile":  usage.Profiles.OrFiles(),
			"--figure":   usage.Words(slices.Sorted(maps.Keys(figures))...),
			"--hold-out": usage.Words(groupNames()...),
			"--plot":     usage.Files,
			"--real":     usage.Files,
		},
		OnCtrlC: map[string]string{"sim": "Ctrl-C ends it within a second; no file is written."},
	}
}

// flags are the flags that the commands share.
type flags struct {
	profile       string
	json, explain bool
	plots         []string // names of files for pictures
}

// register gives a command the flag --json, and those that are not "": --profile of machines with
// something, --plot to draw something, --explain to say something.
func (f *flags) register(c *cobra.Command, profile, with, plot, explain string) {
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON document")
	if plot != "" {
		c.Flags().StringArrayVar(&f.plots, "plot", nil, "draw "+plot+" into `FILE`.svg or .png; may be repeated")
	}
	if explain != "" {
		c.Flags().BoolVar(&f.explain, "explain", false, explain)
	}
	if profile != "" {
		c.Flags().StringVar(&f.profile, "profile", profile,
			"hardware profile"+with+": a name, or a file with a / or .yaml in its name")
	}
}

// load makes a model of the profile that the flag names.
func load[M any](c *cobra.Command, f *flags, model func(*hwprofiles.Profile) (M, error)) (m M, err error) {
	p, err := hwprofiles.Load(f.profile)
	if err == nil {
		m, err = model(p)
	}
	return m, usage.Explain(c, err)
}

// report is the result of a command: a JSON document, and a text for people.
type report interface{ print(*sheet) }

// drawn is a report that can be drawn.
type drawn interface {
	report
	picture() *picture
}

// cell is a figure of a model, beside the one that a paper prints.
type cell struct {
	Case    string   `json:"case"`
	Unit    string   `json:"unit"`
	Section string   `json:"section,omitempty"`
	Printed *float64 `json:"printed"` // nil: the paper does not print it
	Model   float64  `json:"model"`
	Diff    *float64 `json:"diff_percent"`
	// LastDigit reports that the model agrees to within one of the last printed digit, if that is
	// asked. A paper may cut some figures off and round others.
	LastDigit *bool  `json:"to_last_digit,omitempty"`
	Slip      string `json:"slip"` // the mistake in the printed figure
	How       string `json:"how,omitempty"`
}

// sheet is a text for people, while it is written.
type sheet struct{ bytes.Buffer }

// line writes a line.
func (s *sheet) line(format string, args ...any) { fmt.Fprintf(s, format+"\n", args...) }

// table writes rows of cells, aligned.
func (s *sheet) table(rows ...[]string) { _ = output.Table(s, rows...) } // a buffer takes all

// show prints a report, unless there is an error.
func (f *flags) show(r report, err error) error {
	switch {
	case err != nil:
		return err
	case f.json:
		return output.JSON(r)
	}
	var s sheet
	r.print(&s)
	_, err = s.WriteTo(os.Stdout)
	return err
}

// draw makes a report, prints it, and draws it into the files that --plot names. It opens these
// first, before a minute of simulation.
func (f *flags) draw(c *cobra.Command, simulate func() (drawn, error)) error {
	files, err := openPictures(f.plots)
	if err != nil {
		return usage.Explain(c, err)
	}
	defer files.Discard()
	r, err := simulate()
	if err != nil {
		return err
	}
	return errors.Join(files.write(r.picture()), f.show(r, nil))
}

// each calls do for the numbers below n, on all processors. It ends with the context.
func each(ctx context.Context, n int, do func(i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				errs[i] = do(i)
			}
		})
	}
	wg.Wait()
	return cmp.Or(ctx.Err(), errors.Join(errs...))
}

// verdict says for people whether a paper's statement holds. It is nil where the text gives no
// figure to judge by.
func verdict(holds *bool) string {
	switch {
	case holds == nil:
		return "shown"
	case *holds:
		return "holds"
	}
	return "DOES NOT HOLD"
}

// share returns a part of a unit, which profiles hold as a fixed-point number.
func share(v hwprofiles.Share) float64 { return float64(v) / float64(hwprofiles.One) }

// percent returns the difference of a model from the printed figure, in per cent.
func percent(model, printed float64) float64 { return (model/printed - 1) * 100 }
