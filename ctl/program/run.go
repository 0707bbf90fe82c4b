package program

// This file has the parts that all programs on a group share: it runs them, and prints their
// results.

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/port/shared"
)

// Place says which node a result is of, and how the node's frames travelled.
type Place struct {
	Node int `json:"node"`
	// Carrier is "daemon", "embedded" (the process's own card) or "direct" (its own card on a
	// daemon's direct port).
	Carrier  string `json:"card_of"`
	XDPMode  string `json:"xdp_mode"`
	BindMode string `json:"bind_mode"`
	Why      string `json:"xdp_why,omitempty"` // why the modes are no better; "": no remark
	Profile  string `json:"profile"`
	// Shared is the traffic of a direct port with nodes of the same host; nil: there was none.
	Shared *Shared `json:"shared,omitempty"`
	Host   *host   `json:"host,omitempty"` // nil: no machine is modelled
}

func (p Place) where() Place { return p }

// Shared holds the number of nodes of the host that frames went to through shared memory, at the
// end, and the counts of such frames.
type Shared struct {
	With int `json:"with"`
	shared.Counters
}

// Modes returns the modes of XDP and AF_XDP, and whose card it is, in readable form.
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

// Run runs the command's program where the flags say. On a lab made for this run each node gets
// args, which are the program's own flags; else this process is one node of many. It returns the
// result of the lab's node 0, or of this node.
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

// progress makes the node's program report its progress: to the command that made the lab, or on
// node 0 to standard error.
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

// result is the result of a program on one node. Only node 0 has figures and a table.
type result interface {
	where() Place
	output.Report
}

// Show prints the result of a program.
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

// WriteWhy prints why the modes are no better.
func (p Place) WriteWhy(w io.Writer) error {
	if p.Why == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "XDP mode %s, %s: %s\n", p.XDPMode, p.BindMode, p.Why)
	return err
}
