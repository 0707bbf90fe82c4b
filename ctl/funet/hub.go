package main

// This file has the commands about routers in the kernel, which join the hosts of a lab, and about
// how they are wired.

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	svg "github.com/ajstarks/svgo"
	"github.com/spf13/cobra"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/uspace/topology"
)

func hubCommands() *cobra.Command {
	c := &cobra.Command{
		Use:     "hub",
		Example: "  funet hub show\n  funet hub fail 3:1; funet hub restore 3:1",
		Short:   "Look at the routers of a lab, break their wires and mend them",
		Long: `The hosts of a lab made with --hub are joined by routers that forward in the kernel, by the
route of each frame. Here their counters are read, and wires fail: the ways are then computed
anew, and what was lost meanwhile is sent again by the cards.

A wire is named by the router and the port of one of its ends, 3:1, and a router with all its
wires by its number alone. The command topo show draws them.`,
	}
	c.AddCommand(hubShow(), hubSet("fail", "Break a wire of a router, or all of them", false),
		hubSet("restore", "Mend a wire that was broken, or all of a router", true))
	return c
}

// hubReport is what hub show prints.
type hubReport struct {
	Lab      string      `json:"lab"`
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
	rows := [][]string{{"router", "forwarded", "no way", "bad route", "wire down", "not FUNet", "ports down"}}
	for _, h := range r.Routers {
		var forwarded uint64
		for _, n := range h.Forwarded {
			forwarded += n
		}
		down := make([]string, len(h.Down))
		for i, p := range h.Down {
			down[i] = strconv.Itoa(p)
		}
		rows = append(rows, output.Row(h.Router, forwarded, h.Unknown, h.Stranger+h.Unrouted+h.Exhausted+h.Long+h.Nowhere,
			h.HubCounters.Down, h.Passed, cmp.Or(strings.Join(down, " "), "-")))
	}
	fmt.Fprintf(w, "lab %s: %s of %s; frames since it was made\n", r.Lab, r.Topology,
		output.Count(len(r.Routers), "router"))
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

func topoCommands() *cobra.Command {
	c := &cobra.Command{Use: "topo", Example: "  funet topo show --hub fat-tree --nodes 16",
		Short: "Look at how routers are wired"}
	c.AddCommand(topoShow())
	return c
}

func topoShow() *cobra.Command {
	var hub, picture string
	var nodes int
	var asJSON bool
	c := &cobra.Command{
		Use:     "show",
		Example: "  funet topo show --hub hypercube --nodes 8\n  funet topo show --hub fat-tree --nodes 16 --svg tree.svg",
		Short:   "Draw the routers that join a number of hosts",
		Long: `The routers are those of a lab made with the same --hub and as many hosts; there are such
networks of more hosts than labs have. Each port leads to a host (h3), or to a port of another
router (5:2).`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			const most = 1024
			if err := cmp.Or(program.CheckHub(hub, false), program.InRange("--nodes", nodes, lab.MinHosts, most)); err != nil {
				return err
			}
			n, err := lab.Topology(hub).Network(nodes)
			if err != nil {
				return fmt.Errorf("--nodes %d: %w", nodes, err)
			}
			if picture != "" {
				var files output.Files
				defer files.Discard()
				w, err := files.Create(picture)
				if err != nil {
					return err
				}
				draw(w, n, nodes)
				return files.Commit()
			}
			return output.Show(asJSON, wiring(n, nodes))
		},
	}
	c.Flags().StringVar(&hub, "hub", string(lab.Hypercube), "hypercube, fat-tree or butterfly")
	c.Flags().IntVar(&nodes, "nodes", 8, "number of hosts")
	c.Flags().StringVar(&picture, "svg", "", "draw a picture into this file instead")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// topoReport is what topo show prints.
type topoReport struct {
	Network string       `json:"network"`
	Hosts   int          `json:"hosts"`
	Radix   int          `json:"ports_of_a_router"`
	Hops    topoHops     `json:"routers_on_a_way"`
	Routers []topoRouter `json:"routers"`
}

// topoHops is how many routers the ways between two hosts lead through.
type topoHops struct {
	Least int     `json:"least"`
	Most  int     `json:"most"`
	Mean  float64 `json:"mean"`
}

type topoRouter struct {
	Router int      `json:"router"`
	Ports  []string `json:"ports"` // what each leads to: "h3", "5:2", or "" for nothing
}

func wiring(n *topology.Network, hosts int) topoReport {
	r := topoReport{Network: n.String(), Hosts: hosts, Radix: n.Radix(), Hops: topoHops{Least: math.MaxInt}}
	for router := range n.Routers() {
		ports := make([]string, n.Radix())
		for p := range ports {
			if host, ok := n.End(router, p).Terminal(); ok && host < hosts {
				ports[p] = fmt.Sprint("h", host)
			} else if to, q, ok := n.End(router, p).Port(n.Radix()); ok {
				ports[p] = fmt.Sprint(to, ":", q)
			}
		}
		r.Routers = append(r.Routers, topoRouter{router, ports})
	}
	for a := range hosts {
		for b := range hosts {
			if a != b {
				hops := n.Way(a, b).Hops
				r.Hops.Least, r.Hops.Most = min(r.Hops.Least, hops), max(r.Hops.Most, hops)
				r.Hops.Mean += float64(hops) / float64(hosts*(hosts-1))
			}
		}
	}
	return r
}

// WriteTable prints the report for people.
func (r topoReport) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%s: %d hosts, %s of %d ports; ways of %d to %d routers, %.2f on average\n", r.Network, r.Hosts,
		output.Count(len(r.Routers), "router"), r.Radix, r.Hops.Least, r.Hops.Most, r.Hops.Mean)
	head := []string{"router"}
	for p := range r.Radix {
		head = append(head, fmt.Sprint("port ", p))
	}
	rows := [][]string{head}
	for _, router := range r.Routers {
		row := output.Row(router.Router)
		for _, p := range router.Ports {
			row = append(row, cmp.Or(p, "-"))
		}
		rows = append(rows, row)
	}
	return output.Table(w, rows...)
}

// draw draws routers as circles and hosts as squares: routers in rows by how far they are from
// hosts, or on a circle where all have hosts.
func draw(w io.Writer, n *topology.Network, hosts int) {
	const gap, size, margin = 70, 14, 60
	depth := make([]int, n.Routers())
	for r := range depth {
		depth[r] = -1
	}
	var row []int
	for h := range n.Terminals() {
		if r, _ := n.Home(h); depth[r] < 0 {
			depth[r], row = 0, append(row, r)
		}
	}
	var rows [][]int
	for len(row) > 0 {
		rows = append(rows, row)
		var next []int
		for _, r := range row {
			for p := range n.Radix() {
				if to, _, ok := n.End(r, p).Port(n.Radix()); ok && depth[to] < 0 {
					depth[to], next = depth[r]+1, append(next, to)
				}
			}
		}
		row = next
	}
	x, y := make([]float64, n.Routers()), make([]float64, n.Routers())
	wide, high := 0.0, 0.0
	for level, routers := range rows {
		for i, r := range routers {
			if len(rows) > 1 {
				x[r], y[r] = float64(i)*gap*2, float64(len(rows)-1-level)*gap*2
			} else {
				radius := float64(len(routers)) * gap / 4
				s, c := math.Sincos(2 * math.Pi * float64(i) / float64(len(routers)))
				x[r], y[r] = radius*(1+s), radius*(1-c)
			}
			wide, high = max(wide, x[r]), max(high, y[r])
		}
	}
	px := func(v float64) int { return int(v) + margin }
	s := svg.New(w)
	s.Start(int(wide)+2*margin, int(high)+2*margin+gap)
	s.Title(fmt.Sprintf("%s of %d hosts", n, hosts))
	for r := range n.Routers() {
		for p := range n.Radix() {
			if to, q, ok := n.End(r, p).Port(n.Radix()); ok && (r < to || n.End(to, q) == topology.Unwired) {
				s.Line(px(x[r]), px(y[r]), px(x[to]), px(y[to]), "stroke:gray")
			}
		}
	}
	text := "text-anchor:middle;font-size:11px;font-family:sans-serif"
	at := map[int][]int{} // hosts of each router
	for h := range hosts {
		r, _ := n.Home(h)
		at[r] = append(at[r], h)
	}
	for h := range hosts {
		r, _ := n.Home(h)
		hx, hy := px(x[r])+(2*(h-at[r][0])-len(at[r])+1)*size, px(y[r])+gap/2
		s.Line(px(x[r]), px(y[r]), hx, hy, "stroke:gray")
		s.CenterRect(hx, hy, size*3/2, size*3/2, "fill:white;stroke:black")
		s.Text(hx, hy+4, strconv.Itoa(h), text)
	}
	for r := range n.Routers() {
		s.Circle(px(x[r]), px(y[r]), size, "fill:lightgray;stroke:black")
		s.Text(px(x[r]), px(y[r])+4, strconv.Itoa(r), text)
	}
	s.End()
}
