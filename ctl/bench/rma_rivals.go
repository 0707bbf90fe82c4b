package bench

// This file runs the rivals of operations on another process's memory: UCX's tests, one-sided
// operations of MPI by a program of our own, and libfabric's tests. The report names absent rivals.

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// rivalResult is the result of one rival, with medians over the rounds. Figures that a rival does
// not have are absent.
type rivalResult struct {
	// "openmpi", "ucx_put_bw", "fabtests"
	Name  string             `json:"name"`
	P50   map[string]float64 `json:"p50_us,omitempty"`         // by operation, as in operation
	Ratio map[string]float64 `json:"ratio_to_rival,omitempty"` // FUNet's P50 by this one's
	Puts  *float64           `json:"put_1m_gbit_per_s"`        // blocks of rmaBlock
	Gets  *float64           `json:"get_1m_gbit_per_s"`        // the same
	Note  string             `json:"note,omitempty"`           // why it is absent, or how it failed
}

// Keys of a rival's figures that are not for operations of 8 bytes.
const (
	rivalPuts = "put_1m"
	rivalGets = "get_1m"
)

// rival runs all comparable operations that it supports, as one contender with several figures.
type rival struct {
	name    string
	needs   []tool
	prepare func(context.Context) error // once; may be nil
	run     func(context.Context) (map[string]float64, error)

	found map[string][]float64 // figures of the rounds without a failure, by measurement
	c     *contender           // nil: absent
	note  string
}

// rivalsOn returns the rivals besides UCX's round trips, which RMA runs itself.
func (o *rma) rivalsOn(s *session) []*rival {
	return []*rival{
		{name: "openmpi", needs: mpiNeeds, prepare: func(ctx context.Context) error {
			return mpicc(ctx, s, "rma", rmaSource)
		}, run: func(ctx context.Context) (map[string]float64, error) {
			text, err := s.overTCP(ctx, 2, "rma", rmaArguments(o.ucxExchanges())...)
			if err != nil {
				return nil, err
			}
			return parseRMAMPI(text)
		}},
		{name: "ucx_put_bw", needs: ucxNeeds, run: func(ctx context.Context) (map[string]float64, error) {
			return runUCXBlocks(ctx, s)
		}},
		{name: "fabtests", needs: []tool{{"fi_rma_bw", "fabtests, which libfabric's source has and Debian has not"},
			taskset}, run: func(ctx context.Context) (map[string]float64, error) { return runFabtests(ctx, s) }},
	}
}

// enter makes a rival a contender, if its tools are present.
func (v *rival) enter(ctx context.Context, m *match) {
	if v.note = absent(v.needs); v.note != "" {
		return
	}
	if v.prepare != nil {
		if err := m.within(ctx, v.prepare); err != nil {
			v.note = err.Error()
			return
		}
	}
	v.found = map[string][]float64{}
	v.c = m.theirs(v.name, func(ctx context.Context) (float64, error) {
		found, err := v.run(ctx)
		if err != nil {
			return 0, err
		}
		var any float64
		for what, figure := range found {
			v.found[what] = append(v.found[what], figure)
			any = max(any, figure)
		}
		return any, nil
	})
	v.c.spared = failures
}

// report returns a rival's entry in the report.
func (v *rival) report(ops []operation) rivalResult {
	e := rivalResult{Name: v.name, Note: v.note, Puts: median(v.found[rivalPuts]), Gets: median(v.found[rivalGets])}
	if v.c != nil && v.c.err != nil {
		e.Note = v.c.err.Error()
	}
	for _, op := range ops {
		p50 := median(v.found[op.Op])
		if p50 == nil {
			continue
		}
		if e.P50 == nil {
			e.P50, e.Ratio = map[string]float64{}, map[string]float64{}
		}
		e.P50[op.Op], e.Ratio[op.Op] = *p50, nanos(op.P50 / *p50)
	}
	return e
}

//go:embed mpi/rma.c
var rmaSource []byte

// rmaArguments are those of MPI's program of one-sided operations, between hosts 0 and 1. Process 1
// waits in MPI, which carries the operations out.
func rmaArguments(exchanges int) []string {
	return []string{strconv.Itoa(leastUCX / 10), strconv.Itoa(exchanges), strconv.Itoa(rivalBlocks), strconv.Itoa(rmaDepth)}
}

// rivalBlocks is the number of blocks that a rival moves each way.
const rivalBlocks = 200

var rmaLine = regexp.MustCompile(`(?m)^(put|get|add|swap|puts|gets) (?:us: p50|Gbit/s:) ([0-9.]+)(?: p99 [0-9.]+)?$`)

// parseRMAMPI reads the lines of rma.c.
func parseRMAMPI(text string) (map[string]float64, error) {
	found := map[string]float64{}
	for _, m := range rmaLine.FindAllStringSubmatch(text, -1) {
		figure, err := strconv.ParseFloat(m[2], 64)
		if err != nil || figure <= 0 {
			return nil, fmt.Errorf("the MPI program printed %q, which is no result", m[0])
		}
		what := m[1]
		switch what {
		case "puts":
			what = rivalPuts
		case "gets":
			what = rivalGets
		}
		found[what] = figure
	}
	if len(found) != 6 {
		return nil, fmt.Errorf("the MPI program printed %d of 6 results: %.80q", len(found), text)
	}
	return found, nil
}

// runUCXBlocks writes blocks; ucx_perftest has no test of many reads at once.
func runUCXBlocks(ctx context.Context, s *session) (map[string]float64, error) {
	text, err := s.ucxBatch(ctx, fmt.Sprintf("puts -t ucp_put_bw -s %d -n %d -w %d\n", rmaBlock, rivalBlocks, rmaDepth))
	if err != nil {
		return nil, err
	}
	return parseUCXBlocks(text)
}

// parseUCXBlocks reads the CSV of ucp_put_bw: overall_bw is in units of 2^20 bytes a second.
func parseUCXBlocks(text string) (map[string]float64, error) {
	bw := series(text, "overall_bw")["puts"]
	if bw == 0 {
		return nil, fmt.Errorf("ucx_perftest printed no overall_bw: %.80q", text)
	}
	return map[string]float64{rivalPuts: nanos(bw * (1 << 20) * 8 / 1e9)}, nil
}

// runFabtests writes and reads blocks with libfabric's own test, over TCP.
func runFabtests(ctx context.Context, s *session) (map[string]float64, error) {
	found := map[string]float64{}
	for what, op := range map[string]string{rivalPuts: "write", rivalGets: "read"} {
		text, err := s.fabric(ctx, blocksOver("fi_rma_bw", "tcp;ofi_rxm", op))
		if err != nil {
			return nil, err
		}
		if found[what], err = parseFabtests(text); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// blocksOver is the command of fi_rma_bw, in its place, over a provider.
func blocksOver(path, provider, op string) []string {
	return []string{path, "-p", provider, "-e", "rdm", "-o", op, "-S", strconv.Itoa(rmaBlock), "-I",
		strconv.Itoa(rivalBlocks), "-W", strconv.Itoa(rmaDepth)}
}

// parseFabtests reads the table of fi_rma_bw, whose column MB/sec is in units of 10^6 bytes, and
// returns Gbit/s.
func parseFabtests(text string) (float64, error) {
	mb, err := column(text, "fi_rma_bw", "MB/sec")
	return nanos(mb * 8 / 1e3), err
}

// String has a rival's figures for people.
func (v *rivalResult) String() string {
	var words []string
	for _, op := range slices.Sorted(maps.Keys(v.P50)) {
		words = append(words, fmt.Sprintf("%s %.2f us (x %.3f)", op, v.P50[op], v.Ratio[op]))
	}
	for _, blocks := range []struct {
		what   string
		figure *float64
	}{{"put", v.Puts}, {"get", v.Gets}} {
		if blocks.figure != nil {
			words = append(words, fmt.Sprintf("%s of 1 MiB %.2f Gbit/s", blocks.what, *blocks.figure))
		}
	}
	if v.Note != "" {
		words = append(words, v.Note)
	}
	return v.Name + ": " + strings.Join(words, ", ")
}
