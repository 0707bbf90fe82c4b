package program

// This file has the parts that all programs on a group share: where they run, and how their
// results are printed.

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/port/shared"
)

// Place says which node a result is of, and how its frames went.
type Place struct {
	Node int `json:"node"`
	// "embedded": the process's own; "daemon"; "direct": the process's own, on a port of a daemon's
	Carrier  string `json:"card_of"`
	XDPMode  string `json:"xdp_mode"`
	BindMode string `json:"bind_mode"`
	Why      string `json:"xdp_why,omitempty"` // the modes are no better; "": no remark
	Profile  string `json:"profile"`
	// of a direct port with nodes of the same host that were spoken to; nil: there is none
	Shared *Shared `json:"shared,omitempty"`
	Host   *host   `json:"host,omitempty"` // nil: nothing is modelled
}

func (p Place) where() Place { return p }

// Shared says how many nodes of the host frames went to through memory, at the end, and what became
// of frames.
type Shared struct {
	With int `json:"with"`
	shared.Counters
}

// Modes are those of XDP and AF_XDP, and whose card it is, for people.
func (p Place) Modes() string {
	switch p.Carrier {
	case "daemon":
		return p.XDPMode + ", " + p.BindMode + "; card of a daemon"
	case "direct":
		modes := p.XDPMode + ", " + p.BindMode + "; own card on a direct port"
		if p.Shared != nil {
			modes += fmt.Sprintf(", shared memory with %d of its host's nodes", p.Shared.With)
		}
		return modes
	}
	return p.XDPMode + ", " + p.BindMode
}

// Flow is the result of a program that moves data one way.
type Flow struct {
	Place
	Seconds float64          `json:"seconds"`
	Goodput float64          `json:"goodput_gbit_per_s"`
	Card    *engine.Counters `json:"card,omitempty"` // not with a daemon
}

// Run runs the command's program where the flags say: on a lab of its own, where
// each node gets args, which are the program's own flags; or as one node of many. It
// returns what node 0 of the lab found, or this node.
func Run[R any](c *cobra.Command, f *Flags, args []string, one func(*Node) (R, error)) (R, error) {
	var none R
	if err := f.Check(); err != nil {
		return none, err
	}
	if f.Lab == 0 {
		return runOn(c, f, one)
	}
	all, err := onLab[R](c.Context(), f, c.Name(), args)
	if err != nil {
		return none, err
	}
	if first, ok := any(all[0]).(result); ok {
		for _, r := range all[1:] {
			first.where().Host.add(any(r).(result).where().Host)
		}
	}
	return all[0], nil
}

// progress has the node's program tell how far it has come: to the command that made the lab, or to
// who waits for node 0.
func (f *Flags) progress(what string, n *Node) (*output.Progress, error) {
	var to io.Writer
	g := new(output.Gauge)
	switch {
	case f.told > 0:
		shared, err := output.OpenGauge(f.told)
		if err != nil {
			return nil, err
		}
		g = shared
	case n.Endpoint.Node() == 0:
		to = os.Stderr
	}
	n.Progress = func(done, total int) { g.Set(int64(done), int64(total)) }
	return output.Watch(to, what, g), nil
}

// result is the result of a program on one node. Only node 0 has figures, and a table.
type result interface {
	where() Place
	output.Report
}

// Show prints what a program found.
func Show(asJSON bool, r result) error {
	if p := r.where(); p.Node != 0 && !asJSON {
		_, err := fmt.Printf("node %d: done; node 0 has the figures (XDP %s)\n", p.Node, p.Modes())
		return err
	}
	if err := output.Show(asJSON, r); err != nil || asJSON {
		return err
	}
	if err := r.where().WriteWhy(os.Stdout); err != nil {
		return err
	}
	return r.where().writeHost(os.Stdout)
}

// WriteWhy says for people why the modes are no better.
func (p Place) WriteWhy(w io.Writer) error {
	if p.Why == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "XDP mode %s, %s: %s\n", p.XDPMode, p.BindMode, p.Why)
	return err
}
