package bench

// This file is `funet bench peers`: which peers are present, the rounds, the meaning of a failure,
// and the report.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/uspace/cluster"
)

// peer is one of the compared transports.
type peer struct {
	key     string
	note    string // how its figures were measured
	needs   []tool
	prepare func(context.Context, *session) error           // once, before the rounds; may be nil
	run     func(context.Context, *session) (sample, error) // nil for FUNet
	funet   func(context.Context, *match) (sample, error)
}

var (
	taskset  = tool{"taskset", "util-linux"}
	ucxNeeds = []tool{{"ucx_perftest", "ucx-utils"}, taskset}

	peers = []peer{
		{key: funetKey, funet: func(ctx context.Context, m *match) (sample, error) {
			return embedded(ctx, m, &m.f.Flags)
		}},
		{key: "funet_udp", note: "frames in UDP datagrams", funet: inDatagrams},
		{key: "funet_daemons", note: "two daemons and two clients", funet: throughDaemons},
		{key: "funet_direct", note: "two processes of an ordinary user, direct ports", funet: directly(2)},
		{key: "funet_shared", note: "the same on one host, through shared memory", funet: directly(1)},
		{key: "funet_local", note: "two contexts of a process, a daemon that spins", funet: twoContexts},
		{key: "ultra", note: "lines of 56 bytes on two paths, embedded cards", funet: onPaths},
		{key: "virtni_send", note: "messages of 64 bytes into receive rings, by triggers", funet: bySends},
		{key: "raw_afxdp", run: own("raw_afxdp")},
		{key: "udp_spin", run: own("udp_spin")},
		{key: "tcp_spin", run: own("tcp_spin")},
		{key: "sockperf", note: "half round trips, doubled", run: runSockperf,
			needs: []tool{{"sockperf", "sockperf"}, taskset}},
		{key: "ucx", note: "half round trips, doubled; p99 of a second series", run: runUCX,
			needs: ucxNeeds},
		{key: "openmpi", prepare: compileMPI, run: runMPI, needs: mpiNeeds},
		{key: "libfabric_rxd", note: "mean", run: libfabric("udp;ofi_rxd"),
			needs: []tool{{"fi_pingpong", "libfabric-bin"}, taskset}},
		{key: "libfabric_rxm", note: "mean", run: libfabric("tcp;ofi_rxm"),
			needs: []tool{{"fi_pingpong", "libfabric-bin"}, taskset}},
	}
)

// funetKey is the peer that all others are compared with.
const funetKey = "funet"

// failures is the number of failed runs after which a peer is left out of further rounds.
const failures = 2

// errOptions reports options that are out of range.
var errOptions = errors.New("option out of range")

// keys returns the peers' names in the report, in the order of its table.
func keys() (keys []string) {
	for i := range peers {
		keys = append(keys, peers[i].key)
	}
	return keys
}

// peersBench compares round trips of all peers, or of some.
type peersBench struct {
	exchanges int
	only      []string // the keys of the peers to run, besides funet's; empty: all
	entries   map[string]*entry
}

func (o *peersBench) command(f *flags) *cobra.Command {
	c := &cobra.Command{
		Use:     "peers",
		Example: "  funet bench peers --lab 2\n  funet bench peers --lab 2 --only tcp_spin,ucx --rounds 9",
		Short:   "Compare round trips of FUNet, raw AF_XDP, sockets, UCX, libfabric and MPI on one lab",
		Long: `Compare round trips on one lab of two hosts. Every round runs every peer once, so
that a change of the machine's speed meets all of them; figures are medians over
the rounds. Peers that are not installed are reported as absent; "make peers"
installs them.`,
		PreRunE: func(*cobra.Command, []string) error {
			for _, key := range o.only {
				if !slices.Contains(keys(), key) {
					return fmt.Errorf("%w: no peer %q; use %s", errOptions, key, strings.Join(keys(), ", "))
				}
			}
			return nil
		},
	}
	f.number(c, &o.exchanges, "exchanges", exchangeLimits, "round trips of each peer and round")
	c.Flags().StringSliceVar(&o.only, "only", nil, "measure only these peers, besides funet: "+
		strings.Join(keys(), ", "))
	return f.register(c, 2, 2, 2)
}

func (o *peersBench) enter(ctx context.Context, m *match) (err error) {
	m.what, m.unit, m.deadline = "compare peers", "p50 us", patient(o.exchanges)
	m.exchanges, o.entries = o.exchanges, map[string]*entry{}
	// The modes that were found for FUNet are raw_afxdp's too.
	if m.modes.Attach, err = program.ParseAttach(m.f.Mode); err == nil {
		m.modes.Bind, err = program.ParseBind(m.f.Bind)
	}
	m.got = m.modes
	if err != nil {
		return err
	}
	if err := m.fill(); err != nil {
		return err
	}
	for i := range peers {
		p := &peers[i]
		if len(o.only) > 0 && p.key != funetKey && !slices.Contains(o.only, p.key) {
			continue
		}
		e := &entry{Note: p.note}
		o.entries[p.key] = e
		if note := absent(p.needs); note != "" {
			e.Note = note
			continue
		}
		e.Present = true
		if p.prepare != nil {
			if err := m.within(ctx, func(ctx context.Context) error { return p.prepare(ctx, m.session) }); err != nil {
				e.fail(err)
				continue
			}
		}
		e.contender = m.theirs(p.key, func(ctx context.Context) (float64, error) {
			found, err := p.measure(ctx, m)
			if err == nil {
				e.add(found)
			}
			return found.P50, err
		})
		if e.spared = failures; p.key == funetKey { // with which all others are compared
			e.spared = 0
		}
	}
	return nil
}

// measure runs a peer once.
func (p *peer) measure(ctx context.Context, m *match) (found sample, err error) {
	if p.run != nil {
		found, err = p.run(ctx, m.session)
	} else if found, err = p.funet(ctx, m); err != nil && p.key == funetKey {
		err = fmt.Errorf("%w: %w", errFunet, err)
	}
	if err == nil && !(found.P50 > 0 && found.P99 >= 0) {
		err = fmt.Errorf("measured a round trip of %v us (p99 %v us), which cannot be", found.P50, found.P99)
	}
	return found, err
}

// embedded measures FUNet between embedded cards.
func embedded(ctx context.Context, m *match, f *program.Flags) (sample, error) {
	return between(ctx, m, f, "pingpong", pingPong(m.exchanges))
}

// onPaths measures lines on ULTRA paths between embedded cards.
func onPaths(ctx context.Context, m *match) (sample, error) {
	return between(ctx, m, &m.f.Flags, program.UltraProgram, program.UltraOptions{Count: m.exchanges, WarmUp: warmUp})
}

// between runs a program on both nodes, and returns the figures of the first.
func between(ctx context.Context, m *match, f *program.Flags, name string, a args) (sample, error) {
	n, err := m.nodes(ctx, f, name, a.Arguments())
	if err != nil {
		return sample{}, err
	}
	return n[0].sample, nil
}

// bySends measures messages between two ports of package virtni.
func bySends(ctx context.Context, m *match) (sample, error) {
	n, err := m.nodes(ctx, &m.f.Flags, program.RMAProgram, program.RMAOptions{Do: program.RMASend,
		Face: program.FaceVirtni, Count: m.exchanges, WarmUp: warmUp}.Arguments())
	if err != nil {
		return sample{}, err
	}
	return n[0].sample, nil
}

// inDatagrams measures the same in UDP datagrams.
func inDatagrams(ctx context.Context, m *match) (sample, error) {
	f := m.f.Flags
	f.Encap = cluster.UDP.String()
	return embedded(ctx, m, &f)
}

// entry is one peer's entry in the report. A pointer is nil when there is no figure.
type entry struct {
	*contender `json:"-"` // nil: it cannot be tried

	Present bool     `json:"present"` // installed, so that it could be tried
	P50     *float64 `json:"rtt_p50_us,omitempty"`
	P99     *float64 `json:"rtt_p99_us,omitempty"`
	Ratio   *float64 `json:"ratio_to_funet,omitempty"` // P50 by funet's

	// RoundRatio is the median of the ratios of each round. The runs of a round follow each other
	// closely, so it says more than Ratio on a machine whose speed changes between rounds. It is
	// nil when either failed in a round.
	RoundRatio *float64 `json:"median_round_ratio_to_funet,omitempty"`

	// Figures of each round, in their order; failed rounds are left out.
	RoundsP50 []float64 `json:"rounds_p50_us,omitempty"`
	RoundsP99 []float64 `json:"rounds_p99_us,omitempty"`

	Note  string `json:"note,omitempty"`
	Error string `json:"error,omitempty"` // the last failure
}

func (e *entry) add(s sample) {
	e.RoundsP50 = append(e.RoundsP50, nanos(s.P50))
	if s.P99 > 0 {
		e.RoundsP99 = append(e.RoundsP99, nanos(s.P99))
	}
}

// fail enters err as a failure, unless it is nil.
func (e *entry) fail(err error) {
	if err != nil {
		e.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
}

func (o *peersBench) report(m *match) (r report, err error) {
	funet := o.entries[funetKey]
	for _, e := range o.entries {
		if e.contender != nil {
			e.fail(e.err)
		}
		e.P50, e.P99 = median(e.RoundsP50), median(e.RoundsP99)
	}
	for _, e := range o.entries {
		if funet.P50 != nil && e.P50 != nil {
			ratio := nanos(*e.P50 / *funet.P50)
			e.Ratio, e.RoundRatio = &ratio, median(byRound(e.RoundsP50, funet.RoundsP50))
		}
	}
	// raw_afxdp's modes; the requested ones when it did not run
	attach, bind := m.got.Attach.String(), m.got.Bind.String()
	r.with(figure{"rounds", m.rounds}, figure{"xdp_mode", attach}, figure{"bind_mode", bind},
		figure{"frame_bytes", m.frame}, figure{"peers", o.entries})
	r.print("round trip of %d bytes, medians of %d rounds; raw_afxdp: frames of %d bytes, XDP %s, %s\n",
		payload, m.rounds, m.frame, attach, bind)
	r.print("%-14s %9s %9s %9s %9s  %s\n", "peer", "p50 us", "p99 us", "x funet", "by round", "note")
	for _, key := range keys() {
		e := o.entries[key]
		if e == nil {
			continue
		}
		var notes []string
		if !e.Present {
			notes = append(notes, "absent")
		}
		if e.Note != "" {
			notes = append(notes, e.Note)
		}
		if e.Error != "" {
			notes = append(notes, "error: "+e.Error)
		}
		r.line("%-14s %9s %9s %9s %9s  %s", key, two(e.P50), two(e.P99), two(e.Ratio), two(e.RoundRatio),
			strings.Join(notes, "; "))
	}
	return r, nil
}
