// The comparison on a real lab: our own peers, the tools that are installed, and what failures do.

package bench

import (
	"bytes"
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
	"github.com/funet/funet/ctl/rawxdp"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/xdp"
	"github.com/google/go-cmp/cmp"
)

// mustMeasure checks that an entry has figures of every round.
func mustMeasure(t *testing.T, r *Report, key string, rounds int) {
	t.Helper()
	e := r.Peers[key]
	if e == nil || !e.Present || e.Error != "" || e.P50 == nil || *e.P50 <= 0 || len(e.RoundsP50) != rounds {
		t.Fatalf("%s: %+v", key, e)
	}
	if e.Note != "mean" && (e.P99 == nil || *e.P99 < *e.P50 && key != "ucx" || len(e.RoundsP99) != rounds) {
		t.Fatalf("%s has no p99 or one below p50: %+v", key, e)
	}
}

// Our own peers measure on a real lab, in every mode that they are told, in every topology and with
// frames of every size that Options allow.
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
				o := options("raw_afxdp", "udp_spin", "tcp_spin")
				o.Attach, o.Bind, o.FrameSize = c.attach, c.bind, c.frame
				r, err := Peers(t.Context(), newLab(t, c.lab), o)
				if err != nil {
					t.Fatal(err)
				}
				for _, key := range o.Only {
					mustMeasure(t, r, key, o.Rounds)
				}
				if r.XDPMode != c.mode.String() || r.BindMode != "copy" {
					t.Errorf("report says %s, %s; want %s, copy", r.XDPMode, r.BindMode, c.mode)
				}
				if len(r.Peers) != len(o.Only) {
					t.Errorf("%d entries, want those of %q", len(r.Peers), o.Only)
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
		o := options(key)
		o.Rounds = 1
		var r *Report
		for tries := 0; tries == 0 || r.Peers[key].Error != "" && tries < 5; tries++ {
			var err error
			if r, err = Peers(t.Context(), l, o); err != nil {
				t.Fatal(err)
			}
		}
		if e := r.Peers[key]; e.Present {
			mustMeasure(t, r, key, 1)
		} else if t.Log(key, e.Note); !strings.Contains(e.Note, "install ") {
			t.Errorf("%s: no package in %q", key, e.Note)
		}
	}
}

// A tool that is not in PATH is absent and no error; its packages are those of DebianPackages.
func TestAbsent(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	t.Setenv("PATH", t.TempDir())
	r, err := Peers(t.Context(), newLab(t, lab.Options{}), options())
	if err != nil {
		t.Fatal(err)
	}
	_, pkgs := missing(iperf3Needs)
	for _, key := range Keys() {
		e := r.Peers[key]
		if own := slices.Contains([]string{"raw_afxdp", "udp_spin", "tcp_spin"}, key); e.Present != own {
			t.Errorf("%s: %+v", key, e)
		}
		if e.Error != "" || !e.Present && (e.P50 != nil || e.Ratio != nil || e.Note == "") {
			t.Errorf("%s: %+v", key, e)
		}
		if _, list, found := strings.Cut(e.Note, "install "); found {
			pkgs = append(pkgs, strings.Fields(list)...)
		}
	}
	slices.Sort(pkgs)
	if diff := cmp.Diff(slices.Sorted(slices.Values(DebianPackages)), slices.Compact(pkgs)); diff != "" {
		t.Errorf("DebianPackages are not those that are missed (-var +notes):\n%s", diff)
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
	o := options("udp_spin", "sockperf", "openmpi")
	o.Rounds, o.deadline = 1, 10*time.Second // in which udp_spin is done wherever it runs
	r, err := Peers(t.Context(), newLab(t, lab.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	mustMeasure(t, r, "udp_spin", 1)
	for _, key := range []string{"sockperf", "openmpi"} {
		if e := r.Peers[key]; !e.Present || !strings.Contains(e.Error, "not done within 10s") || e.P50 != nil {
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
	o := options("sockperf", "ucx", "tcp_spin")
	o.Rounds = 4
	r, err := Peers(t.Context(), newLab(t, lab.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	mustMeasure(t, r, "tcp_spin", 4)
	e := r.Peers["sockperf"]
	if !e.Present || e.P50 != nil || !strings.HasPrefix(e.Error, "round 2: ") ||
		!strings.HasSuffix(e.Error, "exit status 3: no such; thing") {
		t.Errorf("%+v", e)
	}
	if runs, err := os.ReadFile(count); err != nil || strings.Count(string(runs), "run") != 2 {
		t.Errorf("it ran %q times (%v), want 2", runs, err)
	}
	if e := r.Peers["ucx"]; !strings.Contains(e.Error, "exit status 4") || len(e.Error) > 600 {
		t.Errorf("%d bytes: %+v", len(e.Error), e)
	}
}

// A binary that does not lead to RunRole is told so.
func TestWrongRoleCommand(t *testing.T) {
	leavesNothing(t)
	for _, c := range []struct{ arg, want string }{
		{"-test.run=^$", "RoleCommand"},       // does something else
		{"-test.nosuchflag", "exit status 2"}, // fails
	} {
		o := options("udp_spin")
		o.RoleCommand = []string{c.arg}
		r, err := Peers(t.Context(), newLab(t, lab.Options{}), o)
		if err != nil {
			t.Fatal(err)
		}
		if e := r.Peers["udp_spin"]; !strings.Contains(e.Error, c.want) {
			t.Errorf("%s: %+v", c.arg, e)
		}
	}
}

// Funet's figures come from the caller, once a round, and divide everybody's.
func TestFunet(t *testing.T) {
	leavesNothing(t)
	l := newLab(t, lab.Options{})
	o := options("udp_spin") // Funet is enough to have funet
	o.Rounds = 3
	var rounds []int
	o.Funet = func(ctx context.Context, got *lab.Lab, round int) (Sample, error) {
		if _, bounded := ctx.Deadline(); !bounded || got != l {
			t.Error("no deadline, or another lab")
		}
		rounds = append(rounds, round)
		return Sample{P50: []float64{3, 1, 2}[round], P99: 5}, nil
	}
	r, err := Peers(t.Context(), l, o)
	if err != nil {
		t.Fatal(err)
	}
	mustMeasure(t, r, "udp_spin", 3)
	if e := r.Peers["funet"]; *e.P50 != 2 || *e.P99 != 5 || *e.Ratio != 1 {
		t.Errorf("funet: %+v", e)
	}
	if e := r.Peers["udp_spin"]; *e.Ratio != nanos(*e.P50/2) {
		t.Errorf("ratio %v of %v", *e.Ratio, *e.P50)
	}
	if !slices.Equal(rounds, []int{0, 1, 2}) {
		t.Errorf("rounds %v", rounds)
	}
}

// Funet's failure ends the comparison; the report tells what was done before.
func TestFunetFails(t *testing.T) {
	leavesNothing(t)
	boom := errors.New("boom")
	o := options("funet", "udp_spin")
	for _, c := range []struct {
		sample Sample
		err    error
	}{{Sample{}, boom}, {Sample{P50: -1}, nil}} {
		o.Funet = func(context.Context, *lab.Lab, int) (Sample, error) { return c.sample, c.err }
		r, err := Peers(t.Context(), newLab(t, lab.Options{}), o)
		if !errors.Is(err, ErrFunet) || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("error %v", err)
		}
		if r == nil || r.Peers["funet"].Error == "" || r.Peers["funet"].P50 != nil {
			t.Errorf("report %+v", r)
		}
	}
}

// A cancelled comparison ends with the context's error and leaves nothing.
func TestCancel(t *testing.T) {
	leavesNothing(t)
	l := newLab(t, lab.Options{})
	o := options("funet", "udp_spin")
	ctx, cancel := context.WithCancel(t.Context())
	o.Funet = func(context.Context, *lab.Lab, int) (Sample, error) { cancel(); return Sample{P50: 1}, nil }
	r, err := Peers(ctx, l, o)
	if !errors.Is(err, context.Canceled) || r == nil {
		t.Errorf("report %v, error %v", r, err)
	}
}

// What Options do not allow is refused before anything runs.
func TestOptions(t *testing.T) {
	leavesNothing(t)
	l := newLab(t, lab.Options{})
	for _, change := range []func(*Options){
		func(o *Options) { o.Rounds = -1 },
		func(o *Options) { o.Rounds = Rounds.Most + 1 },
		func(o *Options) { o.Exchanges = -1 },
		func(o *Options) { o.Exchanges = Exchanges.Most + 1 },
		func(o *Options) { o.FrameSize = rawxdp.MinFrameSize - 1 },
		func(o *Options) { o.FrameSize = 1515 },
		func(o *Options) { o.RoleCommand = nil },
		func(o *Options) { o.Only = []string{"funet", "nobody"} },
	} {
		o := options()
		change(&o)
		if r, err := Peers(t.Context(), l, o); !errors.Is(err, ErrOptions) || r != nil {
			t.Errorf("%+v: report %v, error %v", o, r, err)
		}
	}
}

// Progress is for those who wait: nothing is printed within the first two seconds.
func TestProgress(t *testing.T) {
	leavesNothing(t)
	var b bytes.Buffer
	o := options("funet")
	o.Progress = &b
	o.Funet = func(context.Context, *lab.Lab, int) (Sample, error) { return Sample{P50: 1}, nil }
	if _, err := Peers(t.Context(), newLab(t, lab.Options{}), o); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 0 {
		t.Errorf("printed %q", b.String())
	}
}

func newTestSession(t *testing.T) *session {
	t.Helper()
	l := newLab(t, lab.Options{})
	o, err := options().withDefaults(l)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSession(l, o)
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
