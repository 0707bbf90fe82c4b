package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/program"
)

// Each number of routers that a way leads through has a contender, whose nodes are on the hosts of
// such a way; the cost is the slope in one direction. A failure ends the measurement.
func TestHops(t *testing.T) {
	leavesNothing(t)
	l := newLab(t, lab.Options{Hosts: 4, Topology: lab.FatTree})
	n, err := lab.FatTree.Network(4)
	if err != nil {
		t.Fatal(err)
	}
	o := &hops{hub: "fat-tree", exchanges: 1000}
	nodes := func(_ context.Context, f *program.Flags, name string, _ []string) ([]node, error) {
		if name != "pingpong" || len(f.Hosts) != 2 {
			return nil, fmt.Errorf("%s on %v", name, f.Hosts)
		}
		routers := n.Way(f.Hosts[0], f.Hosts[1]).Hops
		return []node{{sample: sample{P50: 3 + 0.5*float64(routers)}, XDPMode: "generic", BindMode: "copy"}}, nil
	}
	r := contest{benchmark: o, rounds: 2, nodes: nodes}.must(t, l)
	says(t, r, map[string]any{"routers": []any{1.0, 3.0}, "rtt_p50_us": []any{3.5, 4.5}, "router_us": 0.25,
		"rounds_router_us": []any{0.25, 0.25}, "hosts": 4.0})
	boom := errors.New("boom")
	_, err = contest{benchmark: &hops{hub: "fat-tree"}, rounds: 1, nodes: fails(boom)}.play(t, l)
	if !errors.Is(err, boom) || !strings.HasPrefix(err.Error(), "measure hops: round 1, ") {
		t.Errorf("got %v", err)
	}
}

// The names and numbers of the JSON form are stable, and so is the table.
func TestHopsReport(t *testing.T) {
	o := &hops{hub: "hypercube", exchanges: 100_000, routers: []int{2, 3, 4}}
	r, err := o.report(played(map[string][]float64{"2 routers": {3, 3.2}, "3 routers": {3.6, 3.6},
		"4 routers": {4.2, 4}}, 8))
	goldens(t, "hops", r, err)
}
