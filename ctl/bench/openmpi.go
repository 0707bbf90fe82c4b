package bench

// This file measures OpenMPI over TCP: a ping-pong program of our own, compiled on demand.

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
)

//go:embed mpi/pingpong.c
var pingpong []byte

// mpiNeeds are the tools that compile and run an MPI program.
var mpiNeeds = []tool{{"mpirun", "openmpi-bin"}, {"mpicc", "libopenmpi-dev"}, {"gcc", "gcc"},
	{"nsenter", "util-linux"}, taskset}

// compileMPI compiles the ping-pong program into the session's directory.
func compileMPI(ctx context.Context, s *session) error {
	return mpicc(ctx, s, "pingpong", pingpong)
}

// runMPI runs the ping-pong program between hosts 0 and 1.
func runMPI(ctx context.Context, s *session) (sample, error) {
	text, err := s.overTCP(ctx, 2, "pingpong", strconv.Itoa(warmUp), strconv.Itoa(s.exchanges),
		strconv.Itoa(payload))
	if err != nil {
		return sample{}, err
	}
	return parseMPI(text)
}

var mpiLine = regexp.MustCompile(`(?m)^round trip us: p50 ([0-9.]+) p99 ([0-9.]+)$`)

// parseMPI reads the line of pingpong.c.
func parseMPI(text string) (sample, error) {
	m := mpiLine.FindStringSubmatch(text)
	if m == nil {
		return sample{}, fmt.Errorf("the MPI program printed no result: %.80q", text)
	}
	p50, err1 := strconv.ParseFloat(m[1], 64)
	p99, err2 := strconv.ParseFloat(m[2], 64)
	if err1 != nil || err2 != nil || p50 <= 0 || p99 <= 0 {
		return sample{}, fmt.Errorf("the MPI program printed %q, which is no result", m[0])
	}
	return sample{P50: p50, P99: p99}, nil
}
