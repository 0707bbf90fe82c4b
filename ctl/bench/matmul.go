// This file compares matrix products: FUNet's program and the same one over OpenMPI, in turn. Each
// runs on all hosts of one lab and on one host alone, so both have a utilisation.

package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/funet/funet/ctl/lab"
)

// MatmulSize are the limits of MatmulOptions.Size. The least size gives every host columns.
var MatmulSize = Limits{16, 4096, 512}

// matmulKernel names the inner loop of OpenMPI's program.
const matmulKernel = "C compiled with -O3 -march=native"

// MatmulOptions say what Matmul does. Zero values stand for the defaults.
type MatmulOptions struct {
	Rounds int // see Rounds
	Size   int // rows and columns of the matrices, see MatmulSize

	// Funet multiplies matrices of Size within ctx, on all hosts of the lab or on host 0 alone. It
	// verifies the product and returns an error if it is wrong. It is required.
	Funet func(ctx context.Context, l *lab.Lab, alone bool) (MatmulSample, error)

	Progress io.Writer // progress, once a step has taken two seconds; nil: none
}

// MatmulSample has the measurements of one run of FUNet.
type MatmulSample struct {
	Seconds           float64
	Kernel            string // name of the inner loop
	XDPMode, BindMode string
}

// MatmulReport is the result of Matmul. Its JSON form is stable. Seconds outside of rounds are
// medians over the rounds; those of OpenMPI are nil when it is absent. Ratio and utilisations are
// computed from the medians.
type MatmulReport struct {
	Size          int      `json:"size"`  // rows and columns
	Nodes         int      `json:"nodes"` // one on each host
	Funet         float64  `json:"funet_seconds"`
	OpenMPI       *float64 `json:"openmpi_seconds"`
	Ratio         *float64 `json:"ratio"` // OpenMPI by Funet: above 1 FUNet is faster
	FunetSingle   float64  `json:"funet_single_seconds"`
	OpenMPISingle *float64 `json:"openmpi_single_seconds"`

	// FunetUtilisation is the time of a single node, divided by Nodes times the time on all nodes.
	// A single node polls, too. More than 1 is possible, because a node's part fits its caches
	// better.
	FunetUtilisation   float64  `json:"funet_utilisation"`
	OpenMPIUtilisation *float64 `json:"openmpi_utilisation"`

	Rounds              int       `json:"rounds"`
	RoundsFunet         []float64 `json:"rounds_funet_seconds"` // figures of each round, in order
	RoundsOpenMPI       []float64 `json:"rounds_openmpi_seconds,omitempty"`
	RoundsFunetSingle   []float64 `json:"rounds_funet_single_seconds"`
	RoundsOpenMPISingle []float64 `json:"rounds_openmpi_single_seconds,omitempty"`
	RoundsRatio         []float64 `json:"rounds_ratio,omitempty"`

	Present bool   `json:"openmpi_present"`
	Note    string `json:"openmpi_note,omitempty"` // why OpenMPI is absent
	// columns of its own that OpenMPI's program updates before it calls MPI
	Poll      int    `json:"openmpi_poll_columns,omitempty"`
	Kernel    string `json:"funet_kernel"`
	MPIKernel string `json:"openmpi_kernel,omitempty"`
	MTU       int    `json:"mtu"`
	XDPMode   string `json:"xdp_mode"`
	BindMode  string `json:"bind_mode"`
}

// Matmul compares the times in which FUNet and OpenMPI over TCP multiply two matrices with the same
// blocks, on all hosts of a lab and on host 0 alone. Without OpenMPI the report says so and has
// only FUNet's figures. Nothing else uses the lab meanwhile. Errors: ErrOptions, ErrFunet, the
// context's, or a failure in OpenMPI. Any goroutine may call it, one at a time for a lab.
func Matmul(ctx context.Context, l *lab.Lab, o MatmulOptions) (*MatmulReport, error) {
	const what = "compare matrix products"
	err := complete(number{&o.Rounds, Rounds, "%d rounds"}, number{&o.Size, MatmulSize, "matrices of size %d"})
	if err == nil && o.Funet == nil {
		err = fmt.Errorf("%w: Funet is required", ErrOptions)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	r := &MatmulReport{Size: o.Size, Nodes: len(l.Hosts()), Rounds: o.Rounds, MTU: l.Options().MTU}
	side := func(name string, alone bool) *contender {
		run := func(ctx context.Context) (MatmulSample, error) { return o.Funet(ctx, l, alone) }
		return ours(name, run, func(s MatmulSample) float64 {
			r.Kernel, r.XDPMode, r.BindMode = s.Kernel, s.XDPMode, s.BindMode
			return s.Seconds * 1e6
		})
	}
	// Microseconds, because play rounds to three digits after the point.
	c := comparison{what: what, unit: "us", rounds: o.Rounds, deadline: matmulDeadline(o.Size), progress: o.Progress}
	contenders := []*contender{side("funet", false), side("funet single", true)}
	r.Note = absent(mpiNeeds)
	if r.Present = r.Note == ""; r.Present {
		r.MPIKernel = matmulKernel
		s, err := newSession(l, Options{})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		folder, err := makeFolder()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		defer folder.Remove()
		s.dir = folder.Path()
		theirs := func(name string, hosts int) *contender {
			return &contender{name: name, run: func(ctx context.Context) (float64, error) {
				return runMatmulMPI(ctx, s, hosts, o.Size, r.Poll)
			}}
		}
		all := theirs("openmpi", r.Nodes)
		contenders = append(contenders, all, theirs("openmpi single", 1))
		if r.Poll, err = fastestPoll(ctx, &c, s, r.Nodes, o.Size); err != nil {
			return nil, fmt.Errorf("%s: openmpi: %w", what, err)
		}
	}
	if err := c.play(ctx, contenders...); err != nil {
		return nil, err
	}
	r.sum(figures(contenders))
	return r, nil
}

// matmulDeadline returns the deadline of a run and its check. It allows for a fiftieth of the speed
// of one processor, because a busy machine can be that slow.
func matmulDeadline(size int) time.Duration {
	return 30*time.Second + time.Duration(size)*time.Duration(size)*time.Duration(size)*20
}

// sum enters the figures of the rounds in microseconds. They are FUNet's on all hosts and on one,
// then OpenMPI's two if it ran.
func (r *MatmulReport) sum(figures [][]float64) {
	micros := make([]float64, len(figures)) // medians
	seconds := make([][]float64, len(figures))
	for i, rounds := range figures {
		micros[i] = *median(rounds)
		for _, us := range rounds {
			seconds[i] = append(seconds[i], us/1e6)
		}
	}
	utilisation := func(all, single float64) float64 { return nanos(single / (float64(r.Nodes) * all)) }
	r.Funet, r.FunetSingle = micros[0]/1e6, micros[1]/1e6
	r.RoundsFunet, r.RoundsFunetSingle = seconds[0], seconds[1]
	r.FunetUtilisation = utilisation(micros[0], micros[1])
	if len(figures) < 4 {
		return
	}
	all, single := micros[2]/1e6, micros[3]/1e6
	ratio, used := nanos(micros[2]/micros[0]), utilisation(micros[2], micros[3])
	r.OpenMPI, r.OpenMPISingle, r.Ratio, r.OpenMPIUtilisation = &all, &single, &ratio, &used
	r.RoundsOpenMPI, r.RoundsOpenMPISingle = seconds[2], seconds[3]
	r.RoundsRatio = byRound(figures[2], figures[0])
}

// WriteTable prints the report for people.
func (r *MatmulReport) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b,
		"product of two matrices of %d x %d doubles in column blocks on %d nodes, verified; medians of %d rounds; MTU %d, XDP %s, %s\n",
		r.Size, r.Size, r.Nodes, r.Rounds, r.MTU, r.XDPMode, r.BindMode)
	fmt.Fprintf(&b, "%-8s %10s %13s %12s  %s\n", "", "seconds", "single node", "utilisation", "seconds of each round")
	row := func(name string, all, single, used float64, rounds []float64) {
		var each []string
		for _, v := range rounds {
			each = append(each, fmt.Sprintf("%.4f", v))
		}
		fmt.Fprintf(&b, "%-8s %10.4f %13.4f %11.1f%%  %s\n", name, all, single, used*100, strings.Join(each, " "))
	}
	row("funet", r.Funet, r.FunetSingle, r.FunetUtilisation, r.RoundsFunet)
	if r.Present {
		row("openmpi", *r.OpenMPI, *r.OpenMPISingle, *r.OpenMPIUtilisation, r.RoundsOpenMPI)
		fmt.Fprintf(&b, "openmpi takes %.2f times as long; it calls MPI every %d columns, the fastest of those tried\n",
			*r.Ratio, r.Poll)
	} else {
		fmt.Fprintf(&b, "openmpi: absent; %s\n", r.Note)
	}
	fmt.Fprintf(&b, "utilisation: time of a single node, which polls too, by %d times that of all\n", r.Nodes)
	fmt.Fprintf(&b, "kernels: four columns at a time; funet: %s", r.Kernel)
	if r.Present {
		fmt.Fprintf(&b, "; openmpi: %s", r.MPIKernel)
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}
