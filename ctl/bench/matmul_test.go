package bench

// The matrix product: OpenMPI on a real lab, what a failure means, and the report. FUNet itself is
// the test's.

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/tests/long"
)

// matmulContest has a FUNet that takes 2 ms on all hosts and 3 ms on one.
func matmulContest() contest {
	return contest{benchmark: &matmul{size: 50}, rounds: 1, nodes: func(_ context.Context, f *program.Flags, _ string,
		_ []string) ([]node, error) {
		n := node{Seconds: 0.002, Kernel: "mill", XDPMode: "generic", BindMode: "copy"}
		if f.Alone {
			n.Seconds = 0.003
		}
		return []node{n}, nil
	}}
}

// OpenMPI multiplies on a real lab and verifies, also on more hosts than divide the columns, or is
// said to be absent.
func TestMatmul(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	for _, hosts := range []int{2, 3} {
		r := matmulContest().must(t, newLab(t, lab.Options{Hosts: hosts}))
		says(t, r, map[string]any{"nodes": float64(hosts), "size": 50.0, "mtu": float64(lab.DefaultMTU),
			"funet_kernel": "mill", "funet_seconds": 0.002, "funet_single_seconds": 0.003, "xdp_mode": "generic",
			"bind_mode": "copy", "funet_utilisation": nanos(0.003 / (0.002 * float64(hosts)))})
		if r["openmpi_present"] == false {
			t.Log(r["openmpi_note"])
			continue
		}
		all, single := r["openmpi_seconds"].(float64), r["openmpi_single_seconds"].(float64)
		if !(all > 0 && single > 0) || r["ratio"] != nanos(all*1e6/2000) ||
			r["openmpi_utilisation"] != nanos(single/(float64(hosts)*all)) || r["openmpi_poll_columns"] == 0 {
			t.Errorf("%+v", r)
		}
	}
}

// Without OpenMPI the report says what to install and has FUNet's figures alone.
func TestMatmulWithoutMPI(t *testing.T) {
	leavesNothing(t)
	t.Setenv("PATH", t.TempDir())
	var order []bool
	c := matmulContest()
	c.rounds, c.nodes = 2, func(ctx context.Context, f *program.Flags, _ string, _ []string) ([]node, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("no deadline")
		}
		order = append(order, f.Alone)
		return []node{{Seconds: float64(len(order)), Kernel: "mill", XDPMode: "native", BindMode: "copy"}}, nil
	}
	report, err := c.play(t, newLab(t, lab.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]bool{false, true, true, false}, order); diff != "" {
		t.Error(diff)
	}
	want := map[string]any{"size": 50.0, "nodes": 2.0, "rounds": 2.0, "funet_seconds": 2.5, "funet_single_seconds": 2.5,
		"funet_utilisation": 0.5, "rounds_funet_seconds": []any{1.0, 4.0}, "openmpi_seconds": nil, "ratio": nil,
		"openmpi_single_seconds": nil, "openmpi_utilisation": nil, "openmpi_present": false,
		"rounds_funet_single_seconds": []any{2.0, 3.0}, "funet_kernel": "mill", "mtu": float64(lab.DefaultMTU),
		"xdp_mode": "native", "bind_mode": "copy",
		"openmpi_note": "not found: mpirun, mpicc, gcc, nsenter, taskset; install openmpi-bin libopenmpi-dev gcc util-linux"}
	if diff := cmp.Diff(want, named(t, report)); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(report.table, "openmpi: absent; not found: mpirun") {
		t.Error(report.table)
	}
}

// A failure of FUNet, of the compiler or of mpirun ends the comparison and is named; so does a
// product that is wrong.
func TestMatmulFails(t *testing.T) {
	leavesNothing(t)
	l := newLab(t, lab.Options{})
	fake(t, "exit 0", "mpicc", "gcc", "nsenter")
	for _, c := range []struct{ tool, script, says string }{
		{"mpirun", "echo no slots; exit 3", "openmpi: mpirun: exit status 3: no slots"},
		{"mpirun", "echo seconds 1.5 worst relative error 1.000e-03", "product is wrong: off by 0.001"},
		{"mpirun", "echo seconds 1.5", "printed no result"},
		{"mpicc", "echo no mpi.h; exit 1", "openmpi: mpicc: exit status 1: no mpi.h"},
	} {
		fake(t, c.script, c.tool)
		if _, err := matmulContest().play(t, l); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.script, err, c.says)
		}
	}
	fake(t, "exit 0", "mpicc")
	fake(t, "echo seconds 1.5 worst relative error 1.000e-15", "mpirun")
	boom := errors.New("boom")
	c := matmulContest()
	c.nodes = fails(boom)
	if _, err := c.play(t, l); !errors.Is(err, errFunet) || !errors.Is(err, boom) ||
		!strings.Contains(err.Error(), "round 1, funet: ") {
		t.Error(err)
	}
}

// The parser takes the program's line, and neither half a line, a wrong product nor no number.
func TestMatmulParse(t *testing.T) {
	if us, err := parseMatmulMPI("warning\nseconds 0.021044599 worst relative error 2.674e-15\n"); err != nil ||
		nanos(us) != 21044.599 {
		t.Errorf("%v us, %v", us, err)
	}
	for _, text := range []string{
		"",
		"seconds 0.021044599 worst relative",
		"seconds 0.000000000 worst relative error 0.000e+00",
		"seconds 1.2.3 worst relative error 0.000e+00",
		"seconds 1 worst relative error ..",
		"seconds 1 worst relative error 1.1e-09",
		"seconds 1 worst relative error inf",
		"seconds 1 worst relative error -nan",
	} {
		if us, err := parseMatmulMPI(text); err == nil {
			t.Errorf("%q: %v us", text, us)
		}
	}
}

// The largest product has time to end, and a small one does not wait for ever.
func TestMatmulDeadline(t *testing.T) {
	if small, large := matmulDeadline(16), matmulDeadline(4096); small > time.Minute || large < 10*time.Minute ||
		large > time.Hour {
		t.Errorf("%v to %v", small, large)
	}
}

// The names and numbers of the JSON form are stable, and so is the table.
func TestMatmulReport(t *testing.T) {
	m := played(map[string][]float64{"funet": {25_000, 27_000.25}, "funet single": {48_000, 50_000},
		"openmpi": {30_000, 31_000.5}, "openmpi single": {47_000, 49_000}}, 2)
	m.mtu = 3500
	r, err := (&matmul{size: 512, poll: 64, kernel: "mill"}).report(m)
	goldens(t, "matmul", r, err)
}
