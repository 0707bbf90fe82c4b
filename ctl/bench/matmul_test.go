// The matrix product: OpenMPI on a real lab, what is refused, what a failure means, and the report.
// FUNet itself is the caller's.

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
	"github.com/google/go-cmp/cmp"
)

// matmulOptions have a FUNet that takes 2 ms on all hosts and 3 ms on one.
func matmulOptions() MatmulOptions {
	return MatmulOptions{Rounds: 1, Size: 50, Funet: func(_ context.Context, _ *lab.Lab,
		alone bool) (MatmulSample, error) {
		s := MatmulSample{Seconds: 0.002, Kernel: "mill", XDPMode: "generic", BindMode: "copy"}
		if alone {
			s.Seconds = 0.003
		}
		return s, nil
	}}
}

// OpenMPI multiplies on a real lab and verifies, also on more hosts than divide the columns, or is
// said to be absent.
func TestMatmul(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	for _, hosts := range []int{2, 3} {
		r, err := Matmul(t.Context(), newLab(t, lab.Options{Hosts: hosts}), matmulOptions())
		if err != nil {
			t.Fatalf("%d hosts: %v", hosts, err)
		}
		if r.Nodes != hosts || r.Size != 50 || r.MTU != lab.DefaultMTU || r.Kernel != "mill" || r.Funet != 0.002 ||
			r.FunetSingle != 0.003 || r.XDPMode != "generic" || r.BindMode != "copy" {
			t.Errorf("%+v", r)
		}
		if want := nanos(0.003 / (0.002 * float64(hosts))); r.FunetUtilisation != want {
			t.Errorf("%d hosts: FUNet's utilisation is %v, want %v", hosts, r.FunetUtilisation, want)
		}
		if !r.Present {
			t.Log(r.Note)
			continue
		}
		all, single := *r.OpenMPI, *r.OpenMPISingle
		if !(all > 0 && single > 0) || *r.Ratio != nanos(all*1e6/2000) ||
			*r.OpenMPIUtilisation != nanos(single/(float64(hosts)*all)) || r.Poll == 0 {
			t.Errorf("%+v", r)
		}
	}
}

// Without OpenMPI the report says what to install and has FUNet's figures alone.
func TestMatmulWithoutMPI(t *testing.T) {
	leavesNothing(t)
	t.Setenv("PATH", t.TempDir())
	var order []bool
	o := matmulOptions()
	o.Rounds = 2
	o.Funet = func(ctx context.Context, _ *lab.Lab, alone bool) (MatmulSample, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("no deadline")
		}
		order = append(order, alone)
		return MatmulSample{Seconds: float64(len(order)), Kernel: "mill", XDPMode: "native", BindMode: "copy"}, nil
	}
	r, err := Matmul(t.Context(), newLab(t, lab.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]bool{false, true, true, false}, order); diff != "" {
		t.Error(diff)
	}
	want := &MatmulReport{Size: 50, Nodes: 2, Rounds: 2, Funet: 2.5, FunetSingle: 2.5, FunetUtilisation: 0.5,
		RoundsFunet: []float64{1, 4}, RoundsFunetSingle: []float64{2, 3}, Kernel: "mill", MTU: lab.DefaultMTU,
		XDPMode: "native", BindMode: "copy",
		Note: "not found: mpirun, mpicc, gcc, nsenter, taskset; install openmpi-bin libopenmpi-dev gcc util-linux"}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil || !strings.Contains(b.String(), "openmpi: absent; not found: mpirun") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// Options are checked before anything runs.
func TestMatmulRefuses(t *testing.T) {
	l := newLab(t, lab.Options{})
	for _, c := range []struct {
		change func(*MatmulOptions)
		says   string
	}{
		{func(o *MatmulOptions) { o.Rounds = -1 }, "-1 rounds; use 1 to 1000"},
		{func(o *MatmulOptions) { o.Rounds = Rounds.Most + 1 }, "1001 rounds"},
		{func(o *MatmulOptions) { o.Size = MatmulSize.Least - 1 }, "size 15; use 16 to 4096"},
		{func(o *MatmulOptions) { o.Size = MatmulSize.Most + 1 }, "size 4097"},
		{func(o *MatmulOptions) { o.Size = -1 }, "size -1"},
		{func(o *MatmulOptions) { o.Funet = nil }, "Funet is required"},
	} {
		o := matmulOptions()
		o.Funet = func(context.Context, *lab.Lab, bool) (MatmulSample, error) {
			t.Error("FUNet ran")
			return MatmulSample{}, errors.New("refused too late")
		}
		c.change(&o)
		_, err := Matmul(t.Context(), l, o)
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %v with %q", err, ErrOptions, c.says)
		}
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
		if _, err := Matmul(t.Context(), l, matmulOptions()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.script, err, c.says)
		}
	}
	fake(t, "exit 0", "mpicc")
	fake(t, "echo seconds 1.5 worst relative error 1.000e-15", "mpirun")
	boom := errors.New("boom")
	o := matmulOptions()
	o.Funet = func(context.Context, *lab.Lab, bool) (MatmulSample, error) { return MatmulSample{}, boom }
	if _, err := Matmul(t.Context(), l, o); !errors.Is(err, ErrFunet) || !errors.Is(err, boom) ||
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
	if small, large := matmulDeadline(MatmulSize.Least), matmulDeadline(MatmulSize.Most); small > time.Minute ||
		large < 10*time.Minute || large > time.Hour {
		t.Errorf("%v to %v", small, large)
	}
}

// The names and numbers of the JSON form are stable, and so is the table.
func TestMatmulReport(t *testing.T) {
	r := &MatmulReport{Size: 512, Nodes: 2, Rounds: 2, Present: true, Poll: 64, Kernel: "mill", MPIKernel: matmulKernel,
		MTU: 3500, XDPMode: "generic", BindMode: "copy"}
	r.sum([][]float64{{25_000, 27_000.25}, {48_000, 50_000}, {30_000, 31_000.5}, {47_000, 49_000}})
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "matmul.json", append(got, '\n'))
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "matmul.txt", b.Bytes())
}
