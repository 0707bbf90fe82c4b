package bench

// Peers on a real lab: our own, the tools that are installed, and what failures do.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/ctl/rawxdp"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/xdp"
)

// peersContest compares some peers with a FUNet of the test's, in short runs.
func peersContest(only ...string) (contest, *peersBench) {
	o := &peersBench{exchanges: 200, only: only}
	return contest{benchmark: o, rounds: 2, nodes: same(map[string]node{"pingpong": {sample: sample{4, 6}}})}, o
}

// entries plays and returns the peers' entries.
func entries(t *testing.T, c contest, l *lab.Lab) map[string]*entry {
	t.Helper()
	if _, err := c.play(t, l); err != nil {
		t.Fatal(err)
	}
	return c.benchmark.(*peersBench).entries
}

// mustMeasure checks that an entry has figures of every round.
func mustMeasure(t *testing.T, entries map[string]*entry, key string, rounds int) {
	t.Helper()
	e := entries[key]
	if e == nil || !e.Present || e.Error != "" || e.P50 == nil || *e.P50 <= 0 || len(e.RoundsP50) != rounds {
		t.Fatalf("%s: %+v", key, e)
	}
	if e.Note != "mean" && (e.P99 == nil || *e.P99 < *e.P50 && key != "ucx" || len(e.RoundsP99) != rounds) {
		t.Fatalf("%s has no p99 or one below p50: %+v", key, e)
	}
}

// Our own peers measure on a real lab, in every mode that they are told, in every topology and with
// frames of every size.
func TestOwnPeers(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	for _, c := range []struct {
		lab          lab.Options
		attach, mode xdp.AttachMode
		bind         xdp.BindMode
		frame        int
	}{
		{lab.Options{}, xdp.AttachGeneric, xdp.AttachGeneric, xdp.BindCopy, 0},
		{lab.Options{}, xdp.AttachNative, xdp.AttachNative, xdp.BindCopy, rawxdp.MinFrameSize},
		{lab.Options{}, xdp.AttachAuto, xdp.AttachNative, xdp.BindAuto, 1514},
		{lab.Options{Topology: lab.Bridge, Queues: 2}, xdp.AttachGeneric, xdp.AttachGeneric, xdp.BindCopy, 0},
		{lab.Options{Hosts: 3}, xdp.AttachGeneric, xdp.AttachGeneric, xdp.BindCopy, 0},
		{lab.Options{Hosts: 4, Topology: lab.Mesh}, xdp.AttachNative, xdp.AttachNative, xdp.BindCopy, 0},
		{lab.Options{Topology: lab.Mesh, MTU: 9000}, xdp.AttachNative, xdp.AttachNative, xdp.BindCopy,
			rawxdp.UMEMFrame - rawxdp.Headroom},
	} {
		t.Run(fmt.Sprintf("%s/%s/%d/%s", c.attach, c.bind, c.frame, fmt.Sprint(c.lab.Hosts, c.lab.Topology)),
			func(t *testing.T) {
				c2, o := peersContest("raw_afxdp", "udp_spin", "tcp_spin")
				c2.attach, c2.bind = c.attach.String(), c.bind.String()
				c2.begun = func(m *match) {
					if c.frame > 0 {
						m.frame = c.frame
					}
				}
				r := named(t, must(c2.play(t, newLab(t, c.lab))))
				for _, key := range o.only {
					mustMeasure(t, o.entries, key, 2)
				}
				says(t, r, map[string]any{"xdp_mode": c.mode.String(), "bind_mode": "copy"})
				if len(o.entries) != len(o.only)+1 { // and FUNet's
					t.Errorf("%d entries, want those of %q", len(o.entries), o.only)
				}
			})
	}
}

// Every tool that is installed gives figures; one that is not says which package brings it. A tool
// of others may give up on a machine that is busy, but not each time.
func TestTools(t *testing.T) {
	leavesNothing(t)
	l := newLab(t, lab.Options{})
	for _, key := range []string{"sockperf", "ucx", "openmpi", "libfabric_rxd", "libfabric_rxm"} {
		var all map[string]*entry
		for tries := 0; tries == 0 || all[key].Error != "" && tries < 5; tries++ {
			c, _ := peersContest(key)
			c.rounds = 1
			all = entries(t, c, l)
		}
		if e := all[key]; e.Present {
			mustMeasure(t, all, key, 1)
		} else if t.Log(key, e.Note); !strings.Contains(e.Note, "install ") {
			t.Errorf("%s: no package in %q", key, e.Note)
		}
	}
}

// A tool that is not in PATH is absent and no error; `make peers` installs its packages.
func TestAbsent(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	t.Setenv("PATH", t.TempDir())
	own := []string{"raw_afxdp", "udp_spin", "tcp_spin"}
	var only []string
	for i := range peers {
		if peers[i].funet == nil { // FUNet's programs run funet, which is not in PATH either
			only = append(only, peers[i].key)
		}
	}
	c, _ := peersContest(only...)
	all := entries(t, c, newLab(t, lab.Options{}))
	_, pkgs := missing(iperf3Needs)
	for _, key := range only {
		e := all[key]
		if e.Present != slices.Contains(own, key) || e.Error != "" ||
			!e.Present && (e.P50 != nil || e.Ratio != nil || e.Note == "") {
			t.Errorf("%s: %+v", key, e)
		}
		if _, list, found := strings.Cut(e.Note, "install "); found {
			pkgs = append(pkgs, strings.Fields(list)...)
		}
	}
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, rule, _ := strings.Cut(string(text), "\npeers:")
	rule, _, _ = strings.Cut(rule, "\n\n")
	for _, pkg := range pkgs {
		// All systems have util-linux.
		if pkg != "util-linux" && !slices.Contains(strings.Fields(rule), pkg) {
			t.Errorf("make peers does not install %s:%s", pkg, rule)
		}
	}
	if len(pkgs) < 5 {
		t.Errorf("only %q are missed", pkgs)
	}
}

// fake puts a shell script in the place of a tool, in front of PATH.
func fake(t *testing.T, script string, names ...string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// A tool that hangs is ended by the deadline, with the daemon that it started in a session of its
// own and which ignores every signal that can be ignored. The other peers go on.
func TestHang(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	fake(t, `trap "" TERM INT HUP; setsid sh -c 'trap "" TERM INT HUP; sleep 1000' & sleep 1000`,
		"sockperf", "mpirun", "mpicc", "gcc", "ucx_perftest", "fi_pingpong")
	c, _ := peersContest("udp_spin", "sockperf", "openmpi")
	c.rounds = 1
	leastDeadline = 9 * time.Second // and one of round trips: udp_spin is done wherever it runs
	defer func() { leastDeadline = time.Minute }()
	all := entries(t, c, newLab(t, lab.Options{}))
	mustMeasure(t, all, "udp_spin", 1)
	for _, key := range []string{"sockperf", "openmpi"} {
		if e := all[key]; !e.Present || !strings.Contains(e.Error, "not done within 10s") || e.P50 != nil {
			t.Errorf("%s: %+v", key, e)
		}
	}
	if left := descendants(t); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
}

// Stopping a process ends its daemons before stop returns (pid_namespaces(7)).
func TestStopEndsDaemons(t *testing.T) {
	leavesNothing(t)
	s := newTestSession(t)
	p, err := s.tool(t.Context(), 1, nil, "sh", "-c", `setsid sh -c 'echo two; sleep 1000' & echo one; sleep 1000`)
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	eventually(t, "both have started", func() bool {
		said := p.output.String()
		return strings.Contains(said, "one") && strings.Contains(said, "two")
	})
	if found := descendants(t); len(found) < 2 {
		t.Errorf("only %q are seen", found)
	}
	p.stop()
	if left := descendants(t); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
}

// A tool that fails is tried twice and then left out, with its words in the report; what one
// prints without end is cut.
func TestToolFails(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	count := filepath.Join(t.TempDir(), "count")
	fake(t, fmt.Sprintf(`echo run >> %s; echo "no such
		thing" >&2; exit 3`, count), "sockperf")
	fake(t, `head -c 1000000 /dev/zero | tr '\0' a; exit 4`, "ucx_perftest")
	c, _ := peersContest("sockperf", "ucx", "tcp_spin")
	c.rounds = 4
	all := entries(t, c, newLab(t, lab.Options{}))
	mustMeasure(t, all, "tcp_spin", 4)
	e := all["sockperf"]
	if !e.Present || e.P50 != nil || !strings.HasPrefix(e.Error, "round 2: ") ||
		!strings.HasSuffix(e.Error, "exit status 3: no such; thing") {
		t.Errorf("%+v", e)
	}
	if runs, err := os.ReadFile(count); err != nil || strings.Count(string(runs), "run") != 2 {
		t.Errorf("it ran %q times (%v), want 2", runs, err)
	}
	if e := all["ucx"]; !strings.Contains(e.Error, "exit status 4") || len(e.Error) > 600 {
		t.Errorf("%d bytes: %+v", len(e.Error), e)
	}
}

// A program that does not lead to runRole is told so.
func TestWrongRoleCommand(t *testing.T) {
	leavesNothing(t)
	for _, wrong := range []struct{ arg, want string }{
		{"-test.run=^$", "must lead to runRole"}, // does something else
		{"-test.nosuchflag", "exit status 2"},    // fails
	} {
		c, _ := peersContest("udp_spin")
		c.exe = []string{"/proc/self/exe", wrong.arg}
		if e := entries(t, c, newLab(t, lab.Options{}))["udp_spin"]; !strings.Contains(e.Error, wrong.want) {
			t.Errorf("%s: %+v", wrong.arg, e)
		}
	}
}

// FUNet's figures divide everybody's.
func TestFunet(t *testing.T) {
	leavesNothing(t)
	c, _ := peersContest("udp_spin") // besides funet
	c.rounds = 3
	round := 0
	c.nodes = func(ctx context.Context, _ *program.Flags, name string, args []string) ([]node, error) {
		if _, bounded := ctx.Deadline(); !bounded || name != "pingpong" {
			t.Errorf("no deadline, or %s", name)
		}
		round++
		return []node{{sample: sample{P50: []float64{3, 1, 2}[round-1], P99: 5}}}, nil
	}
	all := entries(t, c, newLab(t, lab.Options{}))
	mustMeasure(t, all, "udp_spin", 3)
	if e := all["funet"]; *e.P50 != 2 || *e.P99 != 5 || *e.Ratio != 1 {
		t.Errorf("funet: %+v", e)
	}
	if e := all["udp_spin"]; *e.Ratio != nanos(*e.P50/2) {
		t.Errorf("ratio %v of %v", *e.Ratio, *e.P50)
	}
}

// FUNet's failure ends the comparison, and so does a round trip that cannot be.
func TestFunetFails(t *testing.T) {
	leavesNothing(t)
	boom := errors.New("boom")
	c, _ := peersContest("udp_spin")
	c.nodes = fails(boom)
	l := newLab(t, lab.Options{})
	if _, err := c.play(t, l); !errors.Is(err, errFunet) || !errors.Is(err, boom) {
		t.Error(err)
	}
	c.nodes = same(map[string]node{"pingpong": {sample: sample{P50: -1}}})
	if _, err := c.play(t, l); err == nil || !strings.Contains(err.Error(), "which cannot be") {
		t.Error(err)
	}
}

// A cancelled comparison ends with the context's error and leaves nothing.
func TestCancel(t *testing.T) {
	leavesNothing(t)
	c, _ := peersContest("udp_spin")
	ctx, cancel := context.WithCancel(t.Context())
	c.ctx = ctx
	c.nodes = func(context.Context, *program.Flags, string, []string) ([]node, error) {
		cancel()
		return []node{{sample: sample{P50: 1}}}, nil
	}
	if _, err := c.play(t, newLab(t, lab.Options{})); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func newTestSession(t *testing.T) *session {
	t.Helper()
	s, err := newSession(newLab(t, lab.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// eventually polls a condition of the system.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// The names and numbers of the JSON form are stable: scripts read them. Without FUNet's figures
// there are no ratios.
func TestPeersReport(t *testing.T) {
	o := &peersBench{entries: map[string]*entry{}}
	for _, p := range peers {
		o.entries[p.key] = &entry{Note: p.note, Present: true}
	}
	for _, s := range []sample{{4, 6}, {5, 9}, {4.2, 7.12345}} {
		for key, by := range map[string]float64{"funet": 1, "raw_afxdp": 0.5, "ucx": 3, "funet_udp": 1.1,
			"funet_daemons": 10, "funet_direct": 1.3, "funet_shared": 0.3, "funet_local": 0.1} {
			o.entries[key].add(sample{s.P50 * by, s.P99 * by})
		}
		o.entries["libfabric_rxm"].add(sample{P50: s.P50 * 4})
	}
	o.entries["udp_spin"].add(sample{4.2, 5})
	o.entries["udp_spin"].contender = &contender{err: errors.New("round 2: no\nluck")}
	o.entries["openmpi"].fail(errors.New("mpicc: exit status 1"))
	o.entries["sockperf"] = &entry{Note: "not found: sockperf; install sockperf"}
	m := played(nil, 2)
	m.rounds, m.got = 3, rawxdp.Modes{Attach: xdp.AttachGeneric, Bind: xdp.BindCopy}
	r, err := o.report(m)
	goldens(t, "report", r, err)
	for _, e := range o.entries {
		e.Ratio = nil
	}
	o.entries["funet"] = &entry{}
	if _, err := o.report(m); err != nil {
		t.Fatal(err)
	}
	for key, e := range o.entries {
		if e.Ratio != nil {
			t.Errorf("%s has the ratio %v", key, *e.Ratio)
		}
	}
}
