// The comparison: who is there, the rounds, and what a failure means.

package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/scratch"
)

// peer is one transport that is compared.
type peer struct {
	key     string
	note    string // how its figures came about
	needs   []tool
	prepare func(context.Context, *session) error           // once, before the rounds; may be nil
	run     func(context.Context, *session) (Sample, error) // nil for the caller's
	own     func(*Options) Runner                           // the caller's function
}

var (
	taskset = tool{"taskset", "util-linux"}

	peers = []peer{
		{key: funetKey, own: func(o *Options) Runner { return o.Funet }},
		{key: "funet_udp", note: "frames in UDP datagrams", own: func(o *Options) Runner { return o.UDP }},
		{key: "funet_daemons", note: "two daemons and two clients", own: func(o *Options) Runner { return o.Daemons }},
		{key: "funet_local", note: "two contexts of a process, a daemon that spins", own: func(o *Options) Runner { return o.Local }},
		{key: "raw_afxdp", run: own("raw_afxdp")},
		{key: "udp_spin", run: own("udp_spin")},
		{key: "tcp_spin", run: own("tcp_spin")},
		{key: "sockperf", note: "half round trips, doubled", run: runSockperf,
			needs: []tool{{"sockperf", "sockperf"}, taskset}},
		{key: "ucx", note: "half round trips, doubled; p99 of a second series", run: runUCX,
			needs: []tool{{"ucx_perftest", "ucx-utils"}, taskset}},
		{key: "openmpi", prepare: compileMPI, run: runMPI, needs: mpiNeeds},
		{key: "libfabric_rxd", note: "mean", run: libfabric("udp;ofi_rxd"),
			needs: []tool{{"fi_pingpong", "libfabric-bin"}, taskset}},
		{key: "libfabric_rxm", note: "mean", run: libfabric("tcp;ofi_rxm"),
			needs: []tool{{"fi_pingpong", "libfabric-bin"}, taskset}},
	}
)

// funetKey is the peer that all others are compared with.
const funetKey = "funet"

// DebianPackages bring every tool that Peers, Xfer and Matmul can run.
var DebianPackages = []string{"sockperf", "ucx-utils", "openmpi-bin", "libopenmpi-dev", "gcc", "libfabric-bin", "iperf3", "util-linux"}

// Keys are the peers' names in the report, in the order of its table.
func Keys() (keys []string) {
	for i := range peers {
		keys = append(keys, peers[i].key)
	}
	return keys
}

const (
	// failures is after how many failed runs a peer is left out of further rounds.
	failures = 2
	// quiet is how long a comparison goes on before it reports progress.
	quiet = 2 * time.Second
)

// Peers compares the transports between hosts 0 and 1 of a lab, which nothing else uses meanwhile.
// The report is complete but for what could not be measured, and is returned together with an error
// as far as it got. Errors: ErrOptions, ErrFunet, the context's, or what the system said when
// no run could be started at all. Any goroutine may call it, one at a time for a lab.
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
	var playing []*peer
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
			if err := s.within(ctx, p.prepare); err != nil {
				e.fail(0, err)
				continue
			}
		}
		playing = append(playing, p)
	}

	start := time.Now()
	for round := range o.Rounds {
		samples := map[string]Sample{}
		for _, p := range rotate(playing, round) {
			e := r.Peers[p.key]
			if e.failed >= failures {
				continue
			}
			sample, err := s.measure(ctx, p, round)
			if ctx.Err() != nil {
				return r.finish(s), fmt.Errorf("compare peers: round %d, %s: %w", round+1, p.key, ctx.Err())
			}
			if err != nil {
				e.fail(round+1, err)
				if p.key == funetKey {
					return r.finish(s), fmt.Errorf("compare peers: round %d: %w: %w", round+1, ErrFunet, err)
				}
				continue
			}
			e.add(sample)
			samples[p.key] = sample
		}
		if o.Progress != nil && time.Since(start) > quiet {
			r.progress(o.Progress, round, time.Since(start), samples)
		}
	}
	return r.finish(s), nil
}

// rotate is the order of a round: the peers, beginning with another one each time.
func rotate(playing []*peer, round int) []*peer {
	if len(playing) == 0 {
		return nil
	}
	n := round % len(playing)
	return append(append([]*peer(nil), playing[n:]...), playing[:n]...)
}

// session is one lab and what is known of it while something is measured on it.
type session struct {
	lab   *lab.Lab
	o     Options
	hosts []lab.Host
	exe   string // this program's binary
	dir   string // Peers': a temporary directory of its own
	port  int    // the last one given out
	got   modes  // what raw_afxdp was given last
}

func newSession(l *lab.Lab, o Options) (*session, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's binary: %w", err)
	}
	return &session{lab: l, o: o, hosts: l.Hosts(), exe: exe, port: 20_000, got: modes{o.Attach, o.Bind}}, nil
}

// makeFolder makes a folder for temporary files, and removes those of benchmarks that were killed.
func makeFolder() (*scratch.Folder, error) {
	// Absolute, because mpirun changes directories.
	temp, err := filepath.Abs(os.TempDir())
	if err != nil {
		return nil, fmt.Errorf("find the directory for temporary files: %w", err)
	}
	return scratch.Make(temp, "funet-bench-")
}

// address is host's address in the lab.
func (s *session) address(host int) string { return s.hosts[host].Interfaces[0].Addr.Addr().String() }

// newPort is a port below the ephemeral ones that no earlier run used: the kernel keeps a TCP
// connection's port for a minute after its end.
func (s *session) newPort() int {
	if s.port++; s.port >= 32_000 {
		s.port = 20_001
	}
	return s.port
}

// measure runs a peer once.
func (s *session) measure(ctx context.Context, p *peer, round int) (sample Sample, err error) {
	err = s.within(ctx, func(ctx context.Context, s *session) error {
		if p.run == nil {
			sample, err = p.own(&s.o)(ctx, s.lab, round)
		} else {
			sample, err = p.run(ctx, s)
		}
		if err == nil && !(sample.P50 > 0 && sample.P99 >= 0) {
			err = fmt.Errorf("measured a round trip of %v us (p99 %v us), which cannot be", sample.P50, sample.P99)
		}
		return err
	})
	return sample, err
}

// within runs f with the deadline of a run.
func (s *session) within(ctx context.Context, f func(context.Context, *session) error) error {
	cause := fmt.Errorf("not done within %v: %w", s.o.deadline, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.deadline, cause)
	defer cancel()
	err := f(ctx, s)
	if err != nil && context.Cause(ctx) == cause {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}
