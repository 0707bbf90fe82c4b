package tests

// This file tests what a program does when a peer is not there, or no longer, or its
// own interface goes: it ends with an error that says so (design idea 4: silence ends).

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// nodes starts a program on the given hosts of a named lab.
func nodes(t *testing.T, name string, l *lab.Lab, hosts []int, args ...string) (list []*process) {
	t.Helper()
	for _, host := range hosts {
		list = append(list, on(t, l, host, append(slices.Clone(args), "--iface", interfaces(l, host), "--node",
			strconv.Itoa(host), "--peers", peersFile(t, name, host))...))
	}
	return list
}

// busy waits until a host's interface has carried many frames, so that a program that
// sends without end is in its middle.
func busy(t *testing.T, l *lab.Lab, host int) {
	t.Helper()
	first := frames(t, l, host)
	eventually(t, "the program has exchanged a thousand frames", func() bool { return frames(t, l, host) > first+1000 })
}

// TestPeerAbsent: a node alone gives up after --wait and names the node that is silent.
func TestPeerAbsent(t *testing.T) {
	long.Test(t)
	t.Parallel()
	name, l := namedLab(t)
	for _, mode := range []string{"native", "generic"} {
		p := nodes(t, name, l, []int{0}, "pingpong", "--wait", "1s", "--xdp", mode)[0]
		p.fails("node 1", "peer silent", "see that the program runs there")
		p = nodes(t, name, l, []int{1}, "matmul", "--wait", "1s", "--xdp", mode)[0]
		p.fails("node 0", "peer silent")
		nothingIn(t, l)
	}
}

// TestOtherGroup: a peer of another group is as silent as none.
func TestOtherGroup(t *testing.T) {
	long.Test(t)
	t.Parallel()
	name, l := namedLab(t)
	a := nodes(t, name, l, []int{0}, "pingpong", "--wait", "2s", "--xdp", "generic", "--gid", "5")[0]
	b := nodes(t, name, l, []int{1}, "pingpong", "--wait", "2s", "--xdp", "generic", "--gid", "6")[0]
	a.fails("node 1", "peer silent")
	b.fails("node 0", "peer silent")
}

// TestPeerKilled: when a node dies in the middle of a run, all others end with an error
// that says which node is silent, or which one has gone that noticed before them.
func TestPeerKilled(t *testing.T) {
	long.Test(t)
	for _, c := range []struct {
		hosts, victim int
		args          []string
	}{
		{2, 0, []string{"pingpong", "--exchanges", "1000000000", "--xdp", "generic"}},
		{2, 1, []string{"pingpong", "--exchanges", "1000000000", "--xdp", "native"}},
		// node 2 only waits at a barrier
		{3, 1, []string{"pingpong", "--exchanges", "1000000000", "--xdp", "generic"}},
		{3, 2, []string{"matmul", "--size", "3000", "--xdp", "generic"}},
		{2, 1, []string{"flood", "--messages", "1000000000", "--stalls", "0", "--xdp", "native"}},
	} {
		t.Run(c.args[0]+" node "+strconv.Itoa(c.victim), func(t *testing.T) {
			name, l := namedLab(t, "--hosts", strconv.Itoa(c.hosts))
			hosts := []int{0, 1, 2}[:c.hosts]
			list := nodes(t, name, l, hosts, c.args...)
			busy(t, l, c.victim)
			if err := list[c.victim].cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			silent := fmt.Sprintf("to node %d (", c.victim)
			named := false
			for i, p := range list {
				if i == c.victim {
					continue
				}
				line := p.fails("node ")
				// One of several may have waited for another that gave up before it.
				if strings.Contains(line, silent) && strings.Contains(line, "peer silent") {
					named = true
				} else if c.hosts == 2 || !strings.Contains(line, "peer silent") &&
					!strings.Contains(line, "peer has left") {
					t.Errorf("node %d: %q, want node %d silent", i, line, c.victim)
				}
			}
			if !named {
				t.Errorf("nobody says that node %d is silent", c.victim)
			}
			nothingIn(t, l)
		})
	}
}

// TestInterfaceDown: when its interface is set down in the middle of a run, a program
// says which and that it is down; its peer, that it is silent.
func TestInterfaceDown(t *testing.T) {
	long.Test(t)
	t.Parallel()
	for _, mode := range []string{"native", "generic"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			name, l := namedLab(t)
			list := nodes(t, name, l, []int{0, 1}, "pingpong", "--exchanges", "1000000000", "--xdp", mode)
			busy(t, l, 0)
			setLink(t, l, 0, "fu0", false)
			list[0].fails("fu0", "interface is down")
			list[1].fails("node 0", "peer silent")
			nothingIn(t, l)
		})
	}
}

// TestDifferentSizes: nodes that were not told the same end with an error that says so.
func TestDifferentSizes(t *testing.T) {
	long.Test(t)
	name, l := namedLab(t)
	a := nodes(t, name, l, []int{0}, "matmul", "--size", "64", "--xdp", "generic")[0]
	b := nodes(t, name, l, []int{1}, "matmul", "--size", "32", "--xdp", "generic")[0]
	x, y := a.fails(), b.fails()
	if !slices.ContainsFunc([]string{x, y}, func(s string) bool {
		return strings.Contains(s, "give all nodes the same dimensions")
	}) {
		t.Errorf("neither says what is wrong: %q, %q", x, y)
	}
}
