package tests

// This file tests the programs where nothing goes wrong: what they print, on labs of
// their own and with a process a host.

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/funet/funet/tests/long"
)

// pingpong is the JSON document; the names are what scripts rely on.
type pingpong struct {
	Exchanges *int64   `json:"exchanges"`
	P50       *float64 `json:"rtt_p50_us"`
	P99       *float64 `json:"rtt_p99_us"`
	XDPMode   *string  `json:"xdp_mode"`
	BindMode  *string  `json:"bind_mode"`
}

// check fails the test unless all names are there with values that can be.
func (r *pingpong) check(t *testing.T, exchanges int64, modes ...string) {
	t.Helper()
	if r.Exchanges == nil || r.P50 == nil || r.P99 == nil || r.XDPMode == nil || r.BindMode == nil {
		t.Fatalf("names are missing: %+v", r)
	}
	if *r.Exchanges != exchanges || !(0 < *r.P50 && *r.P50 <= *r.P99) {
		t.Errorf("%d exchanges with p50 %v us and p99 %v us, want %d and 0 < p50 <= p99", *r.Exchanges, *r.P50,
			*r.P99, exchanges)
	}
	if !slices.Contains(modes, *r.XDPMode) || *r.BindMode != "copy" { // veth has no zero-copy
		t.Errorf("XDP mode %s, bind mode %s, want one of %v and copy", *r.XDPMode, *r.BindMode, modes)
	}
}

// TestPingPongLab: the mode asked for is the mode got; auto is one of both.
func TestPingPongLab(t *testing.T) {
	for mode, got := range map[string][]string{"auto": {"native", "generic"}, "native": {"native"},
		"generic": {"generic"}} {
		t.Run(mode, func(t *testing.T) {
			p := funet(t, "pingpong", "--lab", "2", "--exchanges", "500", "--warm-up", "100", "--xdp", mode, "--json")
			r := decode[pingpong](t, p.ok())
			r.check(t, 500, got...)
			(&holdings{}).gone(t, p.mark)
		})
	}
}

// TestPingPongTable: without --json a person gets a table with units and the mode.
func TestPingPongTable(t *testing.T) {
	long.Test(t)
	out := funet(t, "pingpong", "--lab", "2", "--exchanges", "500", "--warm-up", "100", "--xdp", "generic").ok()
	for _, want := range []string{"500 exchanges", "p50", "p99", " us", "generic, copy"} {
		if !strings.Contains(out, want) {
			t.Errorf("the table does not say %q:\n%s", want, out)
		}
	}
}

// explicit runs a program as a person would on real hosts: `funet lab exec` once a
// host, and returns what each printed.
func explicit(t *testing.T, name string, ifaces []string, program ...string) (out []string) {
	t.Helper()
	var nodes []*process
	for host, iface := range ifaces {
		args := append([]string{"lab", "exec", "--name", name, strconv.Itoa(host), "--", command}, program...)
		args = append(args, "--iface", iface, "--node", strconv.Itoa(host), "--peers",
			peersFile(t, name, host), "--json")
		nodes = append(nodes, funet(t, args...))
	}
	for _, p := range nodes {
		out = append(out, p.ok())
	}
	return out
}

// TestExplicit: in a named lab each host has a process that was given interface, node and peers
// file, and then the lab ends. The lab is a pair, a bridge, or a mesh, where every neighbour is
// behind an interface of its own.
func TestExplicit(t *testing.T) {
	long.Test(t)
	for _, c := range []struct {
		hosts          int
		topology, mode string
	}{{2, "pair", "native"}, {3, "bridge", "generic"}, {3, "mesh", "generic"}, {4, "mesh", "native"}} {
		t.Run(fmt.Sprintf("%s of %d %s", c.topology, c.hosts, c.mode), func(t *testing.T) {
			name, l := namedLab(t, "--hosts", strconv.Itoa(c.hosts), "--topology", c.topology)
			var ifaces []string
			for host := range c.hosts {
				ifaces = append(ifaces, interfaces(l, host))
			}
			for i, out := range explicit(t, name, ifaces, "pingpong", "--exchanges", "500", "--warm-up", "100", "--xdp",
				c.mode, "--gid", "1234") {
				r := decode[pingpong](t, out)
				if i == 0 {
					r.check(t, 500, c.mode)
				} else if *r.Exchanges != 0 || *r.XDPMode != c.mode {
					t.Errorf("node %d printed %s", i, out)
				}
			}
			out := explicit(t, name, ifaces, "matmul", "--size", "50", "--xdp", c.mode)
			if r := decode[matmul](t, out[0]); !r.Verified || r.Nodes != c.hosts {
				t.Errorf("node 0 printed %s", out[0])
			}
			for host := range c.hosts {
				if names := attached(t, l, host); names != nil {
					t.Errorf("host %d: %v have an XDP program after the programs have ended", host, names)
				}
			}
			if list := decode[[]map[string]any](t, funet(t, "lab", "list", "--json").ok()); !slices.ContainsFunc(list,
				func(m map[string]any) bool { return m["name"] == name && m["state"] == "up" }) {
				t.Errorf("lab list does not have %s: %v", name, list)
			}
			funet(t, "lab", "down", name).ok()
			noLab(t, name)
			outside(t)
		})
	}
}

// TestExecExitCode: the exit code of lab exec is the program's, what it prints is
// printed, and what it reads is read.
func TestExecExitCode(t *testing.T) {
	name, _ := namedLab(t)
	for _, code := range []int{0, 1, 7, 255} {
		p := funet(t, "lab", "exec", "--name", name, "1", "--", "sh", "-c",
			fmt.Sprintf("echo out; echo err >&2; exit %d", code))
		if got := p.wait(); got != code || p.stdout.String() != "out\n" || p.stderr.String() != "err\n" {
			t.Errorf("exit %d: ended with %d, stdout %q, stderr %q", code, got, &p.stdout, &p.stderr)
		}
	}
	cmd := exec.Command(command, "lab", "exec", "--name", name, "0", "--", "cat")
	cmd.Stdin = strings.NewReader("what cat reads\n")
	if out := start(t, cmd, nil).ok(); out != "what cat reads\n" {
		t.Errorf("cat printed %q", out)
	}
	funet(t, "lab", "exec", "--name", name, "0", "--", "sh", "-c", "kill -9 $$").fails("killed")
	funet(t, "lab", "exec", "--name", name, "0", "--", "there-is-no-such-program").fails("there-is-no-such-program",
		"not found")
}

// matmul is the JSON document.
type matmul struct {
	Nodes    int     `json:"nodes"`
	Size     int     `json:"size"`
	Verified bool    `json:"verified"`
	Error    float64 `json:"worst_relative_error"`
	XDPMode  string  `json:"xdp_mode"`
}

// TestMatMulLab: the product is right on any number of nodes, also more than there
// are processors and more than there are columns.
func TestMatMulLab(t *testing.T) {
	for _, nodes := range []int{2, 3, 4, 8} {
		for i, size := range []int{1, 7, 64, 100, 257} {
			mode := []string{"native", "generic"}[i%2]
			t.Run(fmt.Sprintf("%d nodes size %d %s", nodes, size, mode), func(t *testing.T) {
				matMulLab(t, nodes, size, "--xdp", mode)
			})
		}
	}
	t.Run("mesh", func(t *testing.T) { matMulLab(t, 4, 100, "--topology", "mesh", "--xdp", "generic") })
	t.Run("bridge of 2", func(t *testing.T) { matMulLab(t, 2, 100, "--topology", "bridge", "--xdp", "native") })
	t.Run("auto", func(t *testing.T) { matMulLab(t, 4, 100) })
	t.Run("queues of 2 slots", func(t *testing.T) { matMulLab(t, 4, 64, "--slots", "2", "--xdp", "generic") })
	t.Run("jumbo frames", func(t *testing.T) { matMulLab(t, 3, 100, "--mtu", "3000", "--xdp", "native") })
}

func matMulLab(t *testing.T, nodes, size int, args ...string) {
	t.Helper()
	p := funet(t, append([]string{"matmul", "--lab", strconv.Itoa(nodes), "--size", strconv.Itoa(size), "--json"},
		args...)...)
	if r := decode[matmul](t, p.ok()); !r.Verified || r.Nodes != nodes || r.Size != size || r.Error > 1e-9 {
		t.Errorf("got %+v", r)
	}
	(&holdings{}).gone(t, p.mark)
}

// flood is the JSON document.
type flood struct {
	Messages   int    `json:"messages"`
	Lost       int    `json:"lost"`
	Duplicated int    `json:"duplicated"`
	Damaged    int    `json:"damaged"`
	RingFull   uint64 `json:"rx_ring_full"`
	FillEmpty  uint64 `json:"fill_ring_empty"`
	Nodes      []struct {
		Level     string `json:"level"`
		Delivered int    `json:"delivered"`
		RingFull  uint64 `json:"rx_ring_full"`
		FillEmpty uint64 `json:"fill_ring_empty"`
		Card      struct {
			Rejected      uint64 `json:"packets_rejected"`
			Retransmitted uint64 `json:"frames_retransmitted"`
		} `json:"card"`
	} `json:"nodes"`
}

// TestFlood: a full-rate sender and receivers that stall lose nothing and repeat
// nothing at either level, although rings overflow in the kernel and queues in the
// card (design idea 4).
func TestFlood(t *testing.T) {
	long.Test(t)
	for _, c := range []struct {
		messages int
		args     []string
	}{
		{200_000, []string{"--stalls", "3", "--xdp", "generic"}},
		{200_000, []string{"--stalls", "3", "--xdp", "native", "--seed", "2"}},
		{1_000_000, []string{"--xdp", "generic"}},
	} {
		t.Run(fmt.Sprint(c.messages, c.args), func(t *testing.T) {
			p := funet(t, append([]string{"flood", "--lab", "2", "--messages", strconv.Itoa(c.messages), "--json"},
				c.args...)...)
			r := decode[flood](t, p.ok())
			if r.Messages != c.messages || r.Lost != 0 || r.Duplicated != 0 || r.Damaged != 0 || len(r.Nodes) != 2 {
				t.Fatalf("got %+v", r)
			}
			var full, empty, rejected, again uint64
			for i, n := range r.Nodes {
				if n.Delivered != c.messages || n.Level != []string{"reply", "request"}[i] {
					t.Errorf("node %d: %+v", i, n)
				}
				full, empty = full+n.RingFull, empty+n.FillEmpty
				rejected, again = rejected+n.Card.Rejected, again+n.Card.Retransmitted
			}
			if full != r.RingFull || empty != r.FillEmpty {
				t.Errorf("the sums are not those of the nodes: %+v", r)
			}
			if full == 0 || empty == 0 || rejected == 0 || again == 0 {
				t.Errorf("%d frames found the ring full, %d no frame to fill, %d packets were rejected, %d frames retransmitted: nothing went wrong, so nothing was tested", full, empty, rejected, again)
			}
			(&holdings{}).gone(t, p.mark)
		})
	}
}
