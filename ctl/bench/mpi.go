package bench

// This file is `funet bench mpi`: MPI's programs over the provider of libfabric, and over TCP.

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed mpi/collective.c
var collectiveSource []byte

// mpiBytes is the length of a message, and of what each rank has in a collective operation.
const mpiBytes = 8

var (
	// mpiNetworks are compared; the first is FUNet.
	mpiNetworks = []*mpiNetwork{mpiFUNet, mpiTCP, mpiRXM}
	// mpiRanks are the numbers of processes.
	mpiRanks = []int{2, 4}
	// mpiOperations are those of the programs, in the order of the report. Those on the memory of
	// another process, and ping-pong, are of two ranks.
	mpiOperations = []string{"pingpong", "allreduce", "alltoall", "bcast", "put", "get", "add"}
)

// mpiBench compares MPI over FUNet's cards with MPI over TCP.
type mpiBench struct {
	exchanges int
	imb       string // the folder of Intel's benchmarks; "": none
	runs      []*mpiRuns
}

// mpiRuns is a contender: all programs with a number of ranks over one network.
type mpiRuns struct {
	rival
	ranks   int
	network *mpiNetwork
}

func (o *mpiBench) command(f *flags) *cobra.Command {
	c := &cobra.Command{
		Use:   "mpi",
		Short: "Compare MPI programs over FUNet with the same over TCP and libfabric's tcp",
		Long: `Compare programs over OpenMPI with 2 and 4 ranks on two hosts: over FUNet's provider
of libfabric on direct ports (funet), over OpenMPI's own TCP (btl_tcp) and over
libfabric's provider tcp;ofi_rxm (tcp_rxm). Two ranks exchange 8 bytes, and one of them
puts, gets and adds 8 bytes in a window of the other. All ranks have collective
operations of 8 bytes. Every result is verified. With 4 ranks on fewer processors the
ranks yield when they wait. With --imb Intel's MPI benchmarks run, too, in the same
rounds. Figures are medians over the rounds, and ratios medians of those in each round.`,
		Example: "  funet bench mpi --lab 2 --json\n  funet bench mpi --lab 2 --imb ~/mpi-benchmarks",
		PreRunE: func(*cobra.Command, []string) error {
			if what := absent(mpiNeeds); what != "" {
				return errors.New(what)
			}
			for _, name := range imbPrograms {
				if o.imb == "" {
					break
				}
				if _, err := os.Stat(filepath.Join(o.imb, name)); err != nil {
					return fmt.Errorf("--imb: %w; give the folder of %s", err, strings.Join(imbPrograms, " and "))
				}
			}
			return nil
		},
	}
	f.number(c, &o.exchanges, "exchanges", exchangeLimits, "round trips in each run; a tenth as many other operations")
	c.Flags().StringVar(&o.imb, "imb", "", "folder of Intel's MPI benchmarks, with "+strings.Join(imbPrograms, " and "))
	return f.register(c, 2, 2, 2)
}

func (o *mpiBench) enter(ctx context.Context, m *match) error {
	m.what, m.unit, m.deadline = "compare MPI", "us", 2*patient(o.exchanges)
	if err := m.fill(); err != nil {
		return err
	}
	for name, source := range map[string][]byte{"pingpong": pingpong, "collective": collectiveSource, "rma": rmaSource} {
		if err := mpicc(ctx, m.session, name, source); err != nil {
			return err
		}
	}
	for _, ranks := range mpiRanks {
		for _, network := range mpiNetworks {
			r := &mpiRuns{ranks: ranks, network: network}
			r.name = fmt.Sprintf("%s_%d", network.name, ranks)
			r.run = func(ctx context.Context) (map[string]float64, error) { return o.measure(ctx, m, r) }
			r.enter(ctx, m)
			if network == mpiFUNet {
				r.c.spared = 0 // with which all others are compared
			}
			o.runs = append(o.runs, r)
		}
	}
	return nil
}

// measure runs all programs once.
func (o *mpiBench) measure(ctx context.Context, m *match, r *mpiRuns) (map[string]float64, error) {
	found := map[string]float64{}
	own := func(name string, args ...string) []string {
		return append([]string{filepath.Join(m.dir, name)}, args...)
	}
	less := max(o.exchanges/10, 1)
	programs := [][]string{own("collective", strconv.Itoa(less/10), strconv.Itoa(less), strconv.Itoa(mpiBytes))}
	if r.ranks == 2 {
		programs = append(programs, own("pingpong", strconv.Itoa(warmUp), strconv.Itoa(o.exchanges), strconv.Itoa(mpiBytes)),
			own("rma", rmaArguments(less)...))
	}
	if o.imb != "" {
		lengths := filepath.Join(m.dir, "lengths")
		if err := os.WriteFile(lengths, []byte(imbLengths), 0o600); err != nil {
			return nil, fmt.Errorf("write the lengths of messages for IMB: %w", err)
		}
		for _, name := range imbPrograms {
			programs = append(programs, slices.Concat([]string{filepath.Join(o.imb, name)}, imbBenchmarks[name],
				[]string{"-npmin", strconv.Itoa(r.ranks), "-msglen", lengths}))
		}
	}
	for _, argv := range programs {
		job := &mpiJob{hosts: 2, ranks: r.ranks, network: r.network}
		run := func() (string, error) { return m.overNetwork(ctx, job, argv) }
		if r.network == mpiFUNet {
			run = func() (string, error) { return m.overFUNet(ctx, job, argv) }
		}
		text, err := run()
		if err == nil {
			err = addMPI(found, text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(argv[0]), err)
		}
	}
	return found, nil
}

var mpiFigure = regexp.MustCompile(`(?m)^(round trip|allreduce|alltoall|bcast|put|get|add) us: p50 ([0-9.]+)`)

// addMPI adds the figures that a program printed, in us, by operation. Those of Intel's programs
// have a name with a space.
func addMPI(found map[string]float64, text string) error {
	before := len(found)
	for _, f := range mpiFigure.FindAllStringSubmatch(text, -1) {
		us, err := strconv.ParseFloat(f[2], 64)
		if err != nil || us <= 0 {
			return fmt.Errorf("it printed %q, which is no result", f[0])
		}
		name := f[1]
		if name == "round trip" {
			name = "pingpong"
		}
		found[name] = us
	}
	for _, row := range parseIMB(text) {
		found[row.key()] = row.US
	}
	if len(found) == before {
		return fmt.Errorf("it printed no result: %.80q", text)
	}
	return nil
}

// mpiFigures are the times of one operation with a number of ranks over one network. Ratios are
// FUNet's time by this one's: the median of those in each round.
type mpiFigures struct {
	Operation string    `json:"operation,omitempty"` // of our own programs
	Benchmark string    `json:"benchmark,omitempty"` // of Intel's
	Bytes     int       `json:"bytes"`
	Ranks     int       `json:"ranks"`
	Network   string    `json:"network"`
	US        *float64  `json:"us"` // median of our programs, mean of Intel's; nil: it failed
	Ratio     *float64  `json:"ratio_of_funet"`
	Rounds    []float64 `json:"rounds_us"`
}

// of returns the contender with a number of ranks over a network.
func (o *mpiBench) of(ranks int, n *mpiNetwork) *mpiRuns {
	return o.runs[slices.IndexFunc(o.runs, func(r *mpiRuns) bool { return r.ranks == ranks && r.network == n })]
}

// ratio is FUNet's time of an operation by another network's; nil: one of them failed.
func (o *mpiBench) ratio(what string, ranks int, n *mpiNetwork) *float64 {
	return median(byRound(o.of(ranks, mpiFUNet).found[what], o.of(ranks, n).found[what]))
}

func (o *mpiBench) report(m *match) (r report, err error) {
	const most = 4 // ranks of collective operations
	var own, imb []mpiFigures
	for _, run := range o.runs {
		figures := func(what string) mpiFigures {
			return mpiFigures{Bytes: mpiBytes, Ranks: run.ranks, Network: run.network.name, US: median(run.found[what]),
				Ratio: o.ratio(what, run.ranks, run.network), Rounds: run.found[what]}
		}
		for _, what := range mpiOperations {
			if f := figures(what); f.US != nil {
				f.Operation = what
				own = append(own, f)
			}
		}
		for what := range run.found {
			if row := imbOf(what); row.Benchmark != "" {
				f := figures(what)
				f.Benchmark, f.Bytes = row.Benchmark, row.Bytes
				imb = append(imb, f)
			}
		}
	}
	slices.SortFunc(imb, func(a, b mpiFigures) int {
		return cmp.Or(cmp.Compare(a.Ranks, b.Ranks), cmp.Compare(a.Benchmark, b.Benchmark), cmp.Compare(a.Bytes, b.Bytes))
	})
	r.with(figure{"pingpong_8_ratio_to_btl_tcp", o.ratio("pingpong", 2, mpiTCP)},
		figure{"pingpong_8_ratio_to_tcp_rxm", o.ratio("pingpong", 2, mpiRXM)},
		figure{"allreduce_8_ratio_to_btl_tcp", o.ratio("allreduce", most, mpiTCP)},
		figure{"put_8_ratio_to_osc_tcp", o.ratio("put", 2, mpiTCP)},
		figure{"get_8_ratio_to_osc_tcp", o.ratio("get", 2, mpiTCP)},
		figure{"operations", own}, figure{"imb", imb}, figure{"rounds", m.rounds}, figure{"exchanges", o.exchanges})
	r.print("MPI on two hosts, 8 bytes, medians of %d rounds, us; x: FUNet's time by theirs\n", m.rounds)
	o.table(&r, own, func(f *mpiFigures) string { return f.Operation })
	if len(imb) > 0 {
		r.print("Intel's MPI benchmarks, us\n")
		o.table(&r, imb, func(f *mpiFigures) string { return fmt.Sprintf("%s %d", f.Benchmark, f.Bytes) })
	}
	for _, run := range o.runs {
		if run.c.err != nil {
			r.line("%s, %d ranks: %v", run.network.name, run.ranks, run.c.err)
		}
	}
	return r, nil
}

// table prints a line for each operation and number of ranks.
func (o *mpiBench) table(r *report, all []mpiFigures, name func(*mpiFigures) string) {
	r.print("%5s  %-24s", "ranks", "operation")
	for i, n := range mpiNetworks {
		if r.print(" %9s", n.name); i > 0 {
			r.print(" %6s", "x")
		}
	}
	r.print("\n")
	for i := range all {
		f := &all[i]
		if f.Network != mpiFUNet.name {
			continue
		}
		text := fmt.Sprintf("%5d  %-24s", f.Ranks, name(f))
		for _, n := range mpiNetworks {
			at := slices.IndexFunc(all, func(g mpiFigures) bool {
				return g.Network == n.name && g.Ranks == f.Ranks && name(&g) == name(f)
			})
			var other mpiFigures
			if at >= 0 {
				other = all[at]
			}
			if text += fmt.Sprintf(" %9s", two(other.US)); n != mpiFUNet {
				text += fmt.Sprintf(" %6s", two(other.Ratio))
			}
		}
		r.line("%s", text)
	}
}
