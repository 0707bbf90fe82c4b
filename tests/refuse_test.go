package tests

// This file tests what the command refuses: each mistake of a person ends with an exit
// code that is not 0 and one line that says what was wrong and what to do, and leaves
// nothing behind.

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// nobody runs a command without privileges, where nobody may be.
func nobody(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return cmd
}

// TestRefusals: mistakes on the command line and without privileges.
func TestRefusals(t *testing.T) {
	long.Test(t)
	name, l := namedLab(t)
	peers := peersFile(t, name, 0)
	good := funet(t, "lab", "peers", name).ok()
	duplicate := file(t, strings.Replace(good, "node: 1", "node: 0", 1))
	// run are a program's arguments on a host of the lab.
	run := func(iface, node, peers string, more ...string) []string {
		return append([]string{"pingpong", "--iface", iface, "--node", node, "--peers", peers}, more...)
	}
	const anywhere = -1
	for what, c := range map[string]struct {
		host int
		args []string
		want []string // what is wrong, then the cure
	}{
		"interface that is not there": {0, run("eth7", "0", peers), []string{"eth7", "no such interface", "ip link"}},
		"interface without Ethernet": {0, run("lo", "0", peers),
			[]string{"lo", "no Ethernet address", "use an Ethernet interface"}},
		"node beyond the peers file": {0, run("fu0", "2", peers), []string{"--node 2", "nodes 0 to 1"}},
		"node far beyond":            {0, run("fu0", "70000", peers), []string{"--node 70000", "nodes 0 to 1"}},
		"negative node":              {0, run("fu0", "-2", peers), []string{"--node -2", "from 0"}},
		"node -1":                    {0, run("fu0", "-1", peers), []string{"--node -1", "from 0"}},
		"GID 2048": {0, run("fu0", "0", peers, "--gid", "2048"),
			[]string{"--gid 2048", "use 1 to 2047"}},
		"negative GID": {0, run("fu0", "0", peers, "--gid", "-1"),
			[]string{"--gid -1", "use 1 to 2047"}},
		"GID 3000 in the file": {0, run("fu0", "0", file(t, "gid: 3000\n"+good)),
			[]string{"peers.yaml:1", "gid 3000", "want 1..2047"}},
		"system group in the file": {0, run("fu0", "0", file(t, "gid: 0\n"+good)),
			[]string{"peers.yaml:1", "gid 0", "want 1..2047"}},
		"node twice in the file": {0, run("fu0", "0", duplicate),
			[]string{duplicate + ":3", "node 0 is already at", "give each node once"}},
		"no peers file": {0, run("fu0", "0", "/no/such/peers.yaml"),
			[]string{"/no/such/peers.yaml", "no such file", "funet lab peers"}},
		"peers file of other text": {0, run("fu0", "0", file(t, "{")), []string{"peers.yaml:1", "not a peers file"}},
		"peers file of other MACs": {0, run("fu0", "0",
			file(t, strings.Replace(good, "02:46:55:00:01:01", "ff:ff:ff:ff:ff:ff", 1))),
			[]string{"peers.yaml:3", "mac", "not multicast or broadcast"}},
		"slots of no power of two": {0, run("fu0", "0", peers, "--slots", "3"),
			[]string{"--slots 3", "power of two", "from 2 to 65536"}},
		"one slot": {0, run("fu0", "0", peers, "--slots", "1"),
			[]string{"--slots 1", "power of two"}},
		"zero-copy on veth": {0, run("fu0", "0", peers, "--bind", "zero-copy"),
			[]string{"fu0", "zero-copy", "not supported", "use copy mode"}},
		"zero-copy on a lab": {anywhere, []string{"pingpong", "--lab", "2", "--xdp", "generic", "--bind",
			"zero-copy"}, []string{"zero-copy", "use copy mode"}},
		"processor that is not there": {0, run("fu0", "0", peers, "--cpu", "5000"),
			[]string{"processor 5000", "nproc"}},
		"interface without its peers": {0, run("fu0", "0", file(t, strings.ReplaceAll(good, "fu0", "fu9")), "--iface",
			"lo"), []string{"fu9", "does not have"}},
		"wait below 0":               {0, run("fu0", "0", peers, "--wait", "-1s"), []string{"--wait -1s", "above 0"}},
		"one host":                   {anywhere, []string{"pingpong", "--lab", "1"}, []string{"--lab 1", "2 to 8"}},
		"nine hosts":                 {anywhere, []string{"matmul", "--lab", "9"}, []string{"--lab 9", "2 to 8"}},
		"a negative number of hosts": {anywhere, []string{"flood", "--lab", "-2"}, []string{"--lab -2", "2 to 8"}},
		"lab and interface": {anywhere, []string{"pingpong", "--lab", "2", "--iface", "fu0"},
			[]string{"--lab", "leave out --iface"}},
		"neither": {anywhere, []string{"pingpong"}, []string{"--lab N", "--iface"}},
		"XDP mode": {anywhere, []string{"pingpong", "--lab", "2", "--xdp", "bogus"},
			[]string{"--xdp bogus", "auto, native or generic"}},
		"bind mode": {anywhere, []string{"pingpong", "--lab", "2", "--bind", "bogus"},
			[]string{"--bind bogus", "auto, copy or zero-copy"}},
		"topology": {anywhere, []string{"pingpong", "--lab", "2", "--topology", "ring"},
			[]string{`topology "ring"`, "pair, bridge, mesh, router, star, hypercube, fat-tree or butterfly"}},
		"MTU of no link": {anywhere, []string{"pingpong", "--lab", "2", "--mtu", "60"},
			[]string{"--mtu 60", "674 to 65535"}},
		"MTU too small for frames": {anywhere, []string{"pingpong", "--lab", "2", "--mtu", "300", "--xdp",
			"generic"}, []string{"--mtu 300", "674 to 65535"}},
		"size 0": {anywhere, []string{"matmul", "--lab", "2", "--size", "0"},
			[]string{"--size 0", "use 1 to"}},
		"size of no memory": {anywhere, []string{"matmul", "--lab", "2", "--size", "1000000"},
			[]string{"--size 1000000", "use 1 to"}},
		"no messages": {anywhere, []string{"flood", "--lab", "2", "--messages", "0"},
			[]string{"--messages must be at least 1"}},
		"no exchanges": {anywhere, []string{"pingpong", "--lab", "2", "--exchanges", "0"},
			[]string{"--exchanges must be at least 1"}},
		"ring of no power of two": {anywhere, []string{"flood", "--lab", "2", "--rx-ring", "7"},
			[]string{"--rx-ring", "power of two"}},
		"unknown flag": {anywhere, []string{"pingpong", "--bogus"},
			[]string{"unknown flag: --bogus", "funet pingpong --help"}},
		"flag that is no number": {anywhere, []string{"matmul", "--lab", "two"},
			[]string{"two", "funet matmul --help"}},
		"unknown command": {anywhere, []string{"bogus"},
			[]string{"unknown command", "bogus", "funet --help"}},
		"unknown lab command": {anywhere, []string{"lab", "bogus"},
			[]string{"unknown command", "bogus", "funet lab --help"}},
		"argument too many": {anywhere, []string{"pingpong", "now"},
			[]string{"now", "funet pingpong --help"}},
		"lab that is up already": {anywhere, []string{"lab", "up", name},
			[]string{name, "already exists", "funet lab down " + name}},
		"lab that is unknown": {anywhere, []string{"lab", "down", "nosuch-" + name[:4]},
			[]string{"no such lab", "funet lab list"}},
		"exec in an unknown lab": {anywhere, []string{"lab", "exec", "--name", "nosuch-" + name[:4], "0", "--",
			"true"}, []string{"no such lab", "funet lab list"}},
		"exec on no host": {anywhere, []string{"lab", "exec", "--name", name, "2", "--", "true"},
			[]string{"no such host", "0 to 1"}},
		"exec on a host by name": {anywhere, []string{"lab", "exec", "--name", name, "one", "--", "true"},
			[]string{`"one"`, "not a number"}},
		"exec of nothing": {anywhere, []string{"lab", "exec", "--name", name, "0", "--"},
			[]string{"funet lab exec"}},
		"name that is a path": {anywhere, []string{"lab", "up", "../x"},
			[]string{"bad name", "letters, digits"}},
		"hosts of a lab": {anywhere, []string{"lab", "up", "--hosts", "9", "x" + name[1:]},
			[]string{"9 hosts", "2 to 8"}},
		"peers of no host": {anywhere, []string{"lab", "peers", name, "--host", "2"},
			[]string{"--host 2", "0 to 1"}},
		"simulation of too many nodes": {anywhere, []string{"sim", "scale", "--nodes", "65537"},
			[]string{"--nodes 65537", "use 2 to 65536"}},
		"simulation of no pattern": {anywhere, []string{"sim", "scale", "--pattern", "storm"},
			[]string{`--pattern "storm"`, "barrier, ring, random, incast, alltoall-sample"}},
		"gangs on one host": {anywhere, []string{"sim", "gang", "--hosts", "1"},
			[]string{"--hosts 1", "use 2 to 16"}},
		"probe of nothing there": {anywhere, []string{"probe", "eth7"},
			[]string{"eth7", "no such interface", "ip link"}},
	} {
		t.Run(what, func(t *testing.T) {
			var p *process
			if c.host == anywhere {
				p = funet(t, c.args...)
			} else {
				p = on(t, l, c.host, c.args...)
			}
			p.fails(c.want...)
			if p.stdout.Len() != 0 {
				t.Errorf("it printed %q as if it had succeeded", tail(p.stdout.String()))
			}
			(&holdings{}).gone(t, p.mark)
			nothingIn(t, l)
		})
	}
	t.Run("without root", func(t *testing.T) {
		for _, args := range [][]string{{"pingpong", "--lab", "2"}, {"matmul", "--lab", "4"},
			{"lab", "up", "x" + name[1:]}, {"lab", "down", name}, {"lab", "exec", "--name", name, "0", "--", "true"}} {
			p := start(t, nobody(exec.Command(command, args...)), nil)
			p.fails("not permitted", "run as root")
			(&holdings{}).gone(t, p.mark)
		}
		p := start(t, nobody(exec.Command(command, run("fu0", "0", peers)...)), func(c *exec.Cmd) error {
			return l.Start(0, c)
		})
		p.fails("fu0", "run as root or with CAP_")
		nothingIn(t, l)
	})
	t.Run("interface down", func(t *testing.T) {
		setLink(t, l, 0, "fu0", false)
		defer setLink(t, l, 0, "fu0", true)
		on(t, l, 0, run("fu0", "0", peers)...).fails("fu0", "interface is down", "ip link set fu0 up")
		nothingIn(t, l)
	})
	t.Run("two processes on an interface", func(t *testing.T) {
		first := on(t, l, 0, run("fu0", "0", peers, "--xdp", "generic")...)
		eventually(t, "the first process has the interface", func() bool {
			return slices.Equal(attached(t, l, 0), []string{"fu0"})
		})
		for _, mode := range []string{"auto", "native", "generic"} {
			on(t, l, 0, run("fu0", "0", peers, "--xdp", mode)...).fails("fu0", "already attached", "detach it first")
		}
		if !slices.Equal(attached(t, l, 0), []string{"fu0"}) {
			t.Error("the second process took the interface from the first")
		}
		h := hold(t, first.mark)
		if len(h.programs) != 1 {
			t.Errorf("the first process holds programs %v, want one: the census tells nothing", h.programs)
		}
		if err := first.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		first.wait()
		h.namespaces = nil // the lab's, which stay
		h.gone(t, first.mark)
		nothingIn(t, l)
	})
	// The lab itself has been refused nothing and lost nothing.
	explicit(t, name, []string{"fu0", "fu0"}, "pingpong", "--exchanges", "500", "--warm-up", "100", "--xdp", "generic")
	if up, err := filepath.Glob("/run/netns/funet-x" + name[1:] + "*"); err != nil || len(up) != 0 {
		t.Errorf("left behind: %v", up)
	}
}

// nothingIn fails the test if a host's interface has a program: what was refused must
// not stay attached.
func nothingIn(t *testing.T, l *lab.Lab) {
	t.Helper()
	for host := range l.Hosts() {
		eventually(t, fmt.Sprintf("no XDP program is left on host %d", host), func() bool {
			return len(attached(t, l, host)) == 0
		})
	}
}

// TestMTUTooSmall: a lab may have a small MTU; a program on it says that it needs more.
func TestMTUTooSmall(t *testing.T) {
	long.Test(t)
	name, l := namedLab(t, "--mtu", "300")
	on(t, l, 0, "pingpong", "--iface", "fu0", "--node", "0", "--peers", peersFile(t, name, 0)).fails("fu0",
		"MTU too small: 300 bytes", "ip link set fu0 mtu 1500")
	nothingIn(t, l)
}
