package bench

// This file is `funet bench matmul`, and the MPI program that it runs, which has FUNet's algorithm.

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/program"
)

//go:embed mpi/matmul.c
var matmulSource []byte

const (
	// matmulKernel names the inner loop of OpenMPI's program.
	matmulKernel = "C compiled with -O3 -march=native"
	// matmulTolerance is the largest error of the product, relative to the largest element of the
	// product that rank 0 computes alone. FUNet's program has the same tolerance.
	matmulTolerance = 1e-9
)

// polls are the numbers of columns to try that the MPI program updates by a panel before it calls
// MPI. MPI moves data only in such calls. Over TCP each is a system call, so the best number
// depends on size and machine.
var polls = []int{1, 4, 16, 64, 256}

// matmul compares matrix products: FUNet's program and the same one over OpenMPI. Each runs on all
// hosts and on one host alone, so both have a utilisation.
type matmul struct {
	size   int    // rows and columns
	note   string // why OpenMPI is absent; "": it is present
	poll   int    // columns of its own that OpenMPI's program updates before it calls MPI
	kernel string // FUNet's inner loop
}

func (o *matmul) command(f *flags) *cobra.Command {
	c := &cobra.Command{
		Use:   "matmul",
		Short: "Compare the time of a matrix product with that of the same program over OpenMPI",
		Long: `Compare how long funet matmul takes with a program in C over OpenMPI and TCP, on the
same lab: the same panels of columns, as many of them ahead, the same loop. Each also runs
on one host alone, which gives its utilisation: the time of a single node by the number of
nodes times the time on all. Every run computes the product twice, measures the second and
verifies it. The report says what each computes with. The MPI program calls MPI as rarely
as a few trial runs find fastest. The four take turns; figures are medians over the
rounds. With more hosts than processors the nodes share them, and utilisation says
little. Without OpenMPI the report says so and has FUNet's figures alone.

The lab has --mtu 3500, where a frame fills a page of memory. TCP on it sends segments of
64 KB whatever the MTU, but to FUNet each frame costs the same: at 1500 it falls behind.`,
		Example: "  funet bench matmul --lab 2 --size 1024",
	}
	// The least size gives every host columns.
	f.number(c, &o.size, "size", limits{16, 4096, 512}, "rows and columns of the matrices")
	f.register(c, lab.MinHosts, lab.MaxHosts, 2)
	c.Flags().IntVar(&f.MTU, "mtu", 3500, "of the lab's links, in bytes, for both")
	return c
}

func (o *matmul) enter(ctx context.Context, m *match) error {
	// Microseconds, because play rounds to three digits after the point.
	m.what, m.unit, m.deadline = "compare matrix products", "us", matmulDeadline(time.Duration(o.size))
	for _, c := range []struct {
		name  string
		alone bool
	}{{"funet", false}, {"funet single", true}} {
		here := m.f.Flags
		here.Alone = c.alone
		m.ours(c.name, func(ctx context.Context) ([]node, error) {
			return m.nodes(ctx, &here, "matmul", program.MatMulOptions{Size: o.size, Seed: 1}.Arguments())
		}, func(n []node) float64 {
			o.kernel = n[0].Kernel
			return n[0].Seconds * 1e6
		})
	}
	if o.note = absent(mpiNeeds); o.note != "" {
		return nil
	}
	if err := m.fill(); err != nil {
		return err
	}
	theirs := func(hosts int) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			text, err := m.overTCP(ctx, hosts, "matmul", strconv.Itoa(o.size), strconv.Itoa(o.poll))
			if err != nil {
				return 0, err
			}
			return parseMatmulMPI(text)
		}
	}
	all := m.theirs("openmpi", theirs(len(m.hosts)))
	m.theirs("openmpi single", theirs(1))
	if err := o.fastestPoll(ctx, m, all); err != nil {
		return fmt.Errorf("openmpi: %w", err)
	}
	return nil
}

// matmulDeadline returns the deadline of a run and its check. It allows for a fiftieth of the speed
// of one processor, because a busy machine can be that slow.
func matmulDeadline(size time.Duration) time.Duration { return 30*time.Second + size*size*size*20 }

// fastestPoll compiles the program and finds the fastest of the polls. These runs do not count.
func (o *matmul) fastestPoll(ctx context.Context, m *match, mpi *contender) error {
	compile := func(ctx context.Context) error { return mpicc(ctx, m.session, "matmul", matmulSource) }
	if err := m.within(ctx, compile); err != nil {
		return err
	}
	best, least := 0, 0.0
	for _, o.poll = range polls {
		for range 2 {
			us, err := m.once(ctx, mpi)
			if err != nil {
				return err
			}
			if best == 0 || us < least {
				best, least = o.poll, us
			}
		}
	}
	o.poll = best
	return nil
}

var matmulLine = regexp.MustCompile(`(?m)^seconds ([0-9.]+) worst relative error ([0-9.e+-]+|inf)$`)

// parseMatmulMPI reads the line of matmul.c: the microseconds of a correct product.
func parseMatmulMPI(text string) (float64, error) {
	m := matmulLine.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("the MPI program printed no result: %.80q", text)
	}
	seconds, err1 := strconv.ParseFloat(m[1], 64)
	worst, err2 := strconv.ParseFloat(m[2], 64)
	if err1 != nil || err2 != nil || !(seconds > 0) {
		return 0, fmt.Errorf("the MPI program printed %q, which is no result", m[0])
	}
	if !(worst <= matmulTolerance) {
		return 0, fmt.Errorf("the MPI program's product is wrong: off by %g relative to the largest element", worst)
	}
	return seconds * 1e6, nil
}

// product is the result of one program. Times are in seconds.
type product struct {
	All, Single, Utilisation *float64
	Rounds, SingleRounds     []float64
}

// product returns the result of a program. It has no figures if the program is absent.
func (o *matmul) product(m *match, name string) (p product) {
	if o.note != "" && name == "openmpi" {
		return p
	}
	seconds := func(name string) (*float64, []float64) {
		all, rounds := m.median(name)/1e6, []float64{}
		for _, us := range m.of(name).figures {
			rounds = append(rounds, us/1e6)
		}
		return &all, rounds
	}
	p.All, p.Rounds = seconds(name)
	p.Single, p.SingleRounds = seconds(name + " single")
	used := nanos(m.median(name+" single") / (float64(len(m.hosts)) * m.median(name)))
	p.Utilisation = &used
	return p
}

func (o *matmul) report(m *match) (r report, err error) {
	funet, mpi := o.product(m, "funet"), o.product(m, "openmpi")
	var ratio *float64 // OpenMPI by FUNet: above 1 FUNet is faster
	present, mtu, nodes := o.note == "", m.mtu, len(m.hosts)
	if present {
		by := nanos(m.median("openmpi") / m.median("funet"))
		ratio = &by
	}
	r.with(figure{"size", o.size}, figure{"nodes", nodes}, figure{"funet_seconds", funet.All},
		figure{"openmpi_seconds", mpi.All}, figure{"ratio", ratio}, figure{"funet_single_seconds", funet.Single},
		figure{"openmpi_single_seconds", mpi.Single},
		// The time of a single node, which polls too, by nodes times the time on all. More than 1
		// is possible, because a node's part fits its caches better.
		figure{"funet_utilisation", funet.Utilisation}, figure{"openmpi_utilisation", mpi.Utilisation},
		figure{"rounds", m.rounds}, figure{"rounds_funet_seconds", funet.Rounds})
	if present {
		r.with(figure{"rounds_openmpi_seconds", mpi.Rounds})
	}
	r.with(figure{"rounds_funet_single_seconds", funet.SingleRounds})
	if present {
		r.with(figure{"rounds_openmpi_single_seconds", mpi.SingleRounds},
			figure{"rounds_ratio", m.ratios("openmpi", "funet")}, figure{"openmpi_present", true},
			figure{"openmpi_poll_columns", o.poll})
	} else {
		r.with(figure{"openmpi_present", false}, figure{"openmpi_note", o.note})
	}
	r.with(figure{"funet_kernel", o.kernel})
	if present {
		r.with(figure{"openmpi_kernel", matmulKernel})
	}
	r.with(figure{"mtu", mtu}, figure{"xdp_mode", m.attach}, figure{"bind_mode", m.bind})

	r.print("product of two matrices of %d x %d doubles in column blocks on %d nodes, verified; medians of %d rounds; MTU %d, XDP %s, %s\n",
		o.size, o.size, nodes, m.rounds, mtu, m.attach, m.bind)
	r.print("%-8s %10s %13s %12s  %s\n", "", "seconds", "single node", "utilisation", "seconds of each round")
	row := func(name string, p product) {
		r.print("%-8s %10.4f %13.4f %11.1f%%  %s\n", name, *p.All, *p.Single, *p.Utilisation*100,
			list("%.4f", p.Rounds, 1))
	}
	row("funet", funet)
	if present {
		row("openmpi", mpi)
		r.print("openmpi takes %.2f times as long; it calls MPI every %d columns, the fastest of those tried\n",
			*ratio, o.poll)
	} else {
		r.print("openmpi: absent; %s\n", o.note)
	}
	r.print("utilisation: time of a single node, which polls too, by %d times that of all\n", nodes)
	r.print("kernels: four columns at a time; funet: %s", o.kernel)
	if present {
		r.print("; openmpi: %s", matmulKernel)
	}
	r.print("\n")
	return r, nil
}
