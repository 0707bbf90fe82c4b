package main

// This file has the commands about how routers are wired.

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"

	svg "github.com/ajstarks/svgo"
	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/uspace/topology"
)

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
		Use: "show",
		Example: "  funet topo show --hub hypercube --nodes 8\n" +
			"  funet topo show --hub fat-tree --nodes 16 --svg tree.svg",
		Short: "Draw the routers that join a number of hosts",
		Long: `The routers are those of a lab made with the same --hub and as many hosts; there are such
networks of more hosts than labs have. Each port leads to a host (h3), or to a port of another
router (5:2).`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			const most = 1024
			if err := cmp.Or(program.CheckHub(hub, false),
				program.InRange("--nodes", nodes, lab.MinHosts, most)); err != nil {
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
	c.Flags().StringVar(&hub, "hub", string(lab.Hypercube), "star, hypercube, fat-tree or butterfly")
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
