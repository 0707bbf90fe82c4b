package tests

// This file tests programs whose hosts are joined by routers in the kernel: on a lab of their own,
// by daemons and by direct ports, and while wires fail and are mended.

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/funet/funet/tests/long"
)

// hubs are the networks of routers.
var hubs = []string{"hypercube", "fat-tree", "butterfly"}

// TestHubPrograms: ping-pong, matrix multiply and a flood, with cards of their own and by direct
// ports. Nothing of them is told of the routers.
func TestHubPrograms(t *testing.T) {
	for i, hub := range hubs {
		for j, c := range [][]string{
			{"matmul", "--lab", "5", "--size", "60", "--json"},
			{"pingpong", "--lab", "2", "--exchanges", "500", "--warm-up", "100", "--json"},
			{"pingpong", "--lab", "2", "--exchanges", "500", "--warm-up", "100", "--card", "direct", "--json"},
			{"flood", "--lab", "2", "--messages", "20000", "--stalls", "2", "--stall", "20ms", "--json"},
		} {
			if long.Short() && j != i {
				continue
			}
			p := funet(t, append(c, "--hub", hub)...)
			out := p.ok()
			if c[0] == "matmul" && !decode[matmul](t, out).Verified {
				t.Errorf("%s: %s", hub, out)
			}
			(&holdings{}).gone(t, p.mark)
		}
	}
}

// hubShow is what hub show prints.
type hubShow struct {
	Routers []struct {
		Forwarded []uint64 `json:"frames_forwarded"`
		Down      []int    `json:"ports_down"`
		Lost      uint64   `json:"frames_down"`
		Bundles   uint64   `json:"bundles"`
		Unbundled uint64   `json:"frames_no_bundle"`
	} `json:"routers"`
}

// TestHubWires: each wire of the network breaks and is mended, each during a flood, which accounts
// for every message: none is lost, none arrives twice. What cannot be reached is said.
func TestHubWires(t *testing.T) {
	long.Test(t)
	name, l := namedLab(t, "--hosts", "4", "--hub", "hypercube")
	var files []string
	for host := range 2 {
		f := l.Peers(host)
		f.Peers = f.Peers[:2]
		b, err := f.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file(t, string(b)))
	}
	for _, wire := range []string{"0:0", "0:1", "1:1", "2:0"} { // the first is that of the flood
		var flood []*process
		for node, peers := range files {
			flood = append(flood, on(t, l, node, "flood", "--messages", "1500000", "--stalls", "0", "--iface", "fu0", "--node",
				strconv.Itoa(node), "--peers", peers, "--xdp", "generic"))
		}
		busy(t, l, 0)
		if out := funet(t, "hub", "fail", wire, name).ok(); out != "" {
			t.Fatalf("without wire %s: %s", wire, out)
		}
		funet(t, "hub", "restore", wire, name).ok()
		for _, p := range flood {
			p.ok()
		}
	}
	if out := funet(t, "hub", "fail", "3", name).ok(); strings.Count(out, "cannot reach each other\n") != 3 {
		t.Errorf("without router 3 it says %q", out)
	}
	r := decode[hubShow](t, funet(t, "hub", "show", name, "--json").ok())
	if len(r.Routers) != 4 || fmt.Sprint(r.Routers[3].Down) != "[0 1 2]" || r.Routers[0].Forwarded[0] == 0 {
		t.Errorf("the routers are %+v", r)
	}
	funet(t, "hub", "restore", "3", name).ok()
	funet(t, "hub", "fail", "4", name).fails("router 4", "there are 4 routers")
	funet(t, "hub", "fail", "x:1", name).fails("x:1", "no wire")
}

// TestHubDaemons: daemons and their direct ports meet over routers.
func TestHubDaemons(t *testing.T) {
	long.Test(t)
	for _, flags := range [][]string{nil, {"--carriage", "direct"}} {
		s := daemons(t, append(flags, "--hub", "fat-tree", "--hosts", "4")...)
		out := s.run("-n", "8", "--", "funet", "matmul", "--size", "64", "--json").ok()
		if !strings.Contains(out, `"verified": true`) {
			t.Errorf("node 0 printed %s", out)
		}
		s.free()
		// the broadcast of its last step leaves node 0 in bundles
		var bundles, bad uint64
		for _, r := range decode[hubShow](t, funet(t, "hub", "show", s.name, "--json").ok()).Routers {
			bundles, bad = bundles+r.Bundles, bad+r.Unbundled
		}
		if bad > 0 || bundles == 0 {
			t.Errorf("%v: %d bundles, and %d that routers refused", flags, bundles, bad)
		}
		funet(t, "lab", "down", s.name).ok()
	}
}

// TestHubRefuses: a hub that there is not, or beside another topology, makes no lab.
func TestHubRefuses(t *testing.T) {
	for _, args := range [][]string{{"pingpong", "--lab", "2", "--hub", "ring"}, {"lab", "up", "--hub", "mesh"}} {
		funet(t, args...).fails("--hub", "star, hypercube, fat-tree or butterfly")
	}
	funet(t, "pingpong", "--lab", "2", "--hub", "hypercube", "--topology", "pair").fails("--topology")
	funet(t, "pingpong", "--lab", "2", "--encap", "hub").fails("--encap hub", "--hub")
	funet(t, "pingpong", "--lab", "17", "--hub", "hypercube").fails("17", "2 to 16")
	funet(t, "topo", "show", "--nodes", "1").fails("--nodes")
}
