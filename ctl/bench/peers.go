// This file compares peers: which are present, the rounds, and the meaning of a failure.

package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/rawxdp"
	"github.com/funet/funet/ctl/scratch"
)

// peer is one of the compared transports.
type peer struct {
	key     string
	note    string // how its figures were measured
	needs   []tool
	prepare func(context.Context, *session) error           // once, before the rounds; may be nil
	run     func(context.Context, *session) (Sample, error) // nil for the caller's functions
	own     func(*Options) Runner                           // the caller's function
}

var (
	taskset  = tool{"taskset", "util-linux"}
	ucxNeeds = []tool{{"ucx_perftest", "ucx-utils"}, taskset}

	peers = []peer{
		{key: funetKey, own: func(o *Options) Runner { return o.Funet }},
		{key: "funet_udp", note: "frames in UDP datagrams", own: func(o *Options) Runner { return o.UDP }},
		{key: "funet_daemons", note: "two daemons and two clients", own: func(o *Options) Runner { return o.Daemons }},
		{key: "funet_direct", note: "two processes of an ordinary user, direct ports", own: func(o *Options) Runner {
			return o.Direct
		}},
		{key: "funet_shared", note: "the same on one host, through shared memory", own: func(o *Options) Runner {
			return o.Shared
		}},
		{key: "funet_local", note: "two contexts of a process, a daemon that spins", own: func(o *Options) Runner {
			return o.Local
		}},
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

// DebianPackages contain every tool of Debian's that the comparisons can run.
var DebianPackages = []string{"sockperf", "ucx-utils", "openmpi-bin", "libopenmpi-dev", "gcc", "libfabric-bin",
	"iperf3", "util-linux"}

// Keys returns the peers' names in the report, in the order of its table.
func Keys() (keys []string) {
	for i := range peers {
		keys = append(keys, peers[i].key)
	}
	return keys
}

// failures is the number of failed runs after which a peer is left out of further rounds.
const failures = 2

// comparePeers is the prefix of the errors of Peers.
const comparePeers = "compare peers"

// Peers compares the transports between hosts 0 and 1 of a lab, which nothing else uses meanwhile.
// The report lacks only what could not be measured. With an error, Peers returns the report as far
// as it got. Errors: ErrOptions, ErrFunet, the context's, or the system's if no run could be
// started at all. Any goroutine may call it, one at a time for a lab.
func Peers(ctx context.Context, l *lab.Lab, o Options) (*Report, error) {
	o, err := o.withDefaults(l)
	if err != nil {
		return nil, err
	}
	s, err := newSession(l, o)
	if err != nil {
		return nil, err
	}
	folder, err := makeFolder()
	if err != nil {
		return nil, err
	}
	defer folder.Remove()
	s.dir = folder.Path()

	r := newReport(o)
	c := comparison{what: comparePeers, unit: "p50 us", rounds: o.Rounds, deadline: o.deadline, progress: o.Progress}
	var playing []*contender
	for _, p := range o.chosen() {
		e := r.entry(p)
		if note := absent(p.needs); note != "" {
			e.Note = note
			continue
		}
		if p.run == nil && p.own(&o) == nil {
			e.Note = "not run by this caller"
			continue
		}
		e.Present = true
		if p.prepare != nil {
			if err := c.within(ctx, func(ctx context.Context) error { return p.prepare(ctx, s) }); err != nil {
				e.fail(err)
				continue
			}
		}
		playing = append(playing, s.contender(p, e))
	}
	err = c.play(ctx, playing...)
	for _, p := range playing {
		r.Peers[p.name].fail(p.err)
	}
	return r.finish(s), err
}

// contender makes a contender of a peer and its entry in the report.
func (s *session) contender(p *peer, e *Peer) *contender {
	round := 0
	c := &contender{name: p.key, spared: failures, run: func(ctx context.Context) (float64, error) {
		round++
		sample, err := s.measure(ctx, p, round-1)
		if err == nil {
			e.add(sample)
		}
		return sample.P50, err
	}}
	if p.key == funetKey { // with which all others are compared
		measure := c.run
		c.spared = 0
		c.run = func(ctx context.Context) (float64, error) {
			p50, err := measure(ctx)
			if err != nil {
				err = fmt.Errorf("%w: %w", ErrFunet, err)
			}
			return p50, err
		}
	}
	return c
}

// session is a lab, and the state of the measurements on it.
type session struct {
	lab   *lab.Lab
	o     Options
	hosts []lab.Host
	exe   string       // this program's binary
	dir   string       // a temporary directory of its own, for Peers
	port  int          // the last one taken
	got   rawxdp.Modes // the modes that raw_afxdp got last
}

func newSession(l *lab.Lab, o Options) (*session, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's binary: %w", err)
	}
	return &session{lab: l, o: o, hosts: l.Hosts(), exe: exe, port: 20_000, got: rawxdp.Modes{Attach: o.Attach, Bind: o.Bind}}, nil
}

// makeFolder makes a folder for temporary files, and removes those left by killed benchmarks.
func makeFolder() (*scratch.Folder, error) {
	// Absolute, because mpirun changes directories.
	temp, err := filepath.Abs(os.TempDir())
	if err != nil {
		return nil, fmt.Errorf("find the directory for temporary files: %w", err)
	}
	return scratch.Make(temp, "funet-bench-")
}

// address returns host's address in the lab.
func (s *session) address(host int) string { return s.hosts[host].Interfaces[0].Addr.Addr().String() }

// newPort returns a port that no earlier run used, below the ephemeral ones. The kernel keeps a TCP
// connection's port for a minute after its end.
func (s *session) newPort() int {
	if s.port++; s.port >= 32_000 {
		s.port = 20_001
	}
	return s.port
}

// measure runs a peer once, in a round counted from 0.
func (s *session) measure(ctx context.Context, p *peer, round int) (sample Sample, err error) {
	if p.run == nil {
		sample, err = p.own(&s.o)(ctx, s.lab, round)
	} else {
		sample, err = p.run(ctx, s)
	}
	if err == nil && !(sample.P50 > 0 && sample.P99 >= 0) {
		err = fmt.Errorf("measured a round trip of %v us (p99 %v us), which cannot be", sample.P50, sample.P99)
	}
	return sample, err
}
