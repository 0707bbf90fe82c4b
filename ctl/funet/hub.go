package main

// This file has the commands about routers in the kernel, which join the hosts of a lab.

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/output"
)

func hubCommands() *cobra.Command {
	c := &cobra.Command{
		Use:     "hub",
		Example: "  funet hub show\n  funet hub fail 3:1; funet hub restore 3:1",
		Short:   "Look at the routers of a lab, break their wires and mend them; be a router",
		Long: `The hosts of a lab made with --hub are joined by routers that forward in the kernel, by the
route of each frame. Here their counters are read, and wires fail: the ways are then computed
anew, and what was lost meanwhile is sent again by the cards.

A wire is named by the router and the port of one of its ends, 3:1, and a router with all its
wires by its number alone. The command topo show draws them.`,
	}
	c.AddCommand(hubRun(), hubShow(), hubSet("fail", "Break a wire of a router, or all of them", false),
		hubSet("restore", "Mend a wire that was broken, or all of a router", true))
	return c
}

// hubReport is what hub show prints, and hub run at its end.
type hubReport struct {
	Lab      string      `json:"lab,omitempty"`
	Topology string      `json:"topology"`
	Routers  []hubRouter `json:"routers"`
}

type hubRouter struct {
	Router int   `json:"router"`
	Down   []int `json:"ports_down"`
	bpf.HubCounters
}

// WriteTable prints the report for people.
func (r hubReport) WriteTable(w io.Writer) error {
	rows := [][]string{{"router", "forwarded", "no way", "bad address", "wire down", "not FUNet", "ports down"}}
	for _, h := range r.Routers {
		var forwarded uint64
		for _, n := range h.Forwarded {
			forwarded += n
		}
		down := make([]string, len(h.Down))
		for i, p := range h.Down {
			down[i] = strconv.Itoa(p)
		}
		rows = append(rows, output.Row(h.Router, forwarded, h.Unknown,
			h.Stranger+h.Unrouted+h.Exhausted+h.Long+h.Nowhere+h.Forged+h.Unbundled, h.HubCounters.Down, h.Passed,
			cmp.Or(strings.Join(down, " "), "-")))
	}
	if r.Lab != "" {
		fmt.Fprintf(w, "lab %s: %s of %s; frames since it was made\n", r.Lab, r.Topology,
			output.Count(len(r.Routers), "router"))
	}
	return output.Table(w, rows...)
}

func hubShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "show [NAME]",
		Example: "  funet hub show\n  funet hub show wide --json",
		Short:   "Print what each router of a lab has forwarded and dropped",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) (err error) {
			l, err := lab.Open(nameOf(args))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, l.Close()) }()
			states, err := l.Routers()
			if err != nil {
				return fmt.Errorf("lab %s: %w; make one with --hub", nameOf(args), err)
			}
			r := hubReport{Lab: nameOf(args), Topology: string(l.Options().Topology)}
			for i, s := range states {
				if s.Down == nil {
					s.Down = []int{}
				}
				r.Routers = append(r.Routers, hubRouter{i, s.Down, s.Counters})
			}
			return output.Show(asJSON, r)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func hubSet(verb, short string, up bool) *cobra.Command {
	return &cobra.Command{
		Use:     verb + " ROUTER[:PORT] [NAME]",
		Example: fmt.Sprintf("  funet hub %s 3:1\n  funet hub %s 3 wide", verb, verb),
		Short:   short,
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) (err error) {
			router, port, err := parseWire(args[0])
			if err != nil {
				return err
			}
			l, err := lab.Open(nameOf(args[1:]))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, l.Close()) }()
			apart, err := l.SetWire(router, port, up)
			if err != nil {
				return fmt.Errorf("%s %s: %w", verb, args[0], err)
			}
			for _, pair := range apart {
				fmt.Printf("hosts %d and %d cannot reach each other\n", pair[0], pair[1])
			}
			return nil
		},
	}
}

// parseWire reads ROUTER or ROUTER:PORT. The port of a router alone is -1.
func parseWire(s string) (router, port int, err error) {
	r, p, named := strings.Cut(s, ":")
	router, err = strconv.Atoi(r)
	if port = -1; err == nil && named {
		port, err = strconv.Atoi(p)
	}
	if err != nil || router < 0 || named && port < 0 {
		return 0, 0, fmt.Errorf("%q is no wire; give the number of a router, and of a port behind a colon: 3:1", s)
	}
	return router, port, nil
}
