// OpenMPI over TCP: a ping-pong program of our own, compiled when it is needed.

package bench

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

//go:embed mpi/pingpong.c
var pingpong []byte

// compileMPI makes the program in the session's directory.
func compileMPI(ctx context.Context, s *session) error {
	source := filepath.Join(s.dir, "pingpong.c")
	if err := os.WriteFile(source, pingpong, 0o600); err != nil {
		return fmt.Errorf("write pingpong.c: %w", err)
	}
	_, err := s.runTool(ctx, nil, "mpicc", "-O2", "-o", filepath.Join(s.dir, "pingpong"), source)
	return err
}

// runMPI runs mpirun on host 0. Where it would use ssh to start its daemon on the other host, it
// runs a script that enters host 1's namespace, which this process holds open meanwhile.
func runMPI(ctx context.Context, s *session) (Sample, error) {
	var ns *os.File
	err := s.lab.Do(1, func() (err error) {
		ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return Sample{}, fmt.Errorf("open the namespace of host 1: %w", err)
	}
	defer ns.Close()

	// mpirun calls: agent HOST COMMAND...
	agent := filepath.Join(s.dir, "agent")
	script := fmt.Sprintf("#!/bin/sh\nshift\nexec nsenter --net=/proc/%d/fd/%d taskset -c 1 /bin/sh -c \"$*\"\n", os.Getpid(), ns.Fd())
	if err := os.WriteFile(agent, []byte(script), 0o700); err != nil {
		return Sample{}, fmt.Errorf("write mpirun's agent: %w", err)
	}

	network := s.hosts[0].Interfaces[0].Addr.Masked().String()
	argv := []string{"mpirun"}
	for _, mca := range [][2]string{
		{"plm_rsh_agent", agent},
		{"orte_tmpdir_base", s.dir},
		{"pml", "ob1"},
		{"btl", "tcp,self"},
		{"btl_tcp_if_include", network},
		{"oob_tcp_if_include", network},
		{"mpi_yield_when_idle", "0"},
	} {
		argv = append(argv, "--mca", mca[0], mca[1])
	}
	argv = append(argv, "--bind-to", "none", "-np", "2", "-host", s.address(0)+":1,"+s.address(1)+":1",
		filepath.Join(s.dir, "pingpong"), strconv.Itoa(Warmup), strconv.Itoa(s.o.Exchanges), strconv.Itoa(PayloadBytes))
	env := []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}
	text, err := s.runTool(ctx, env, argv...)
	if err != nil {
		return Sample{}, err
	}
	return parseMPI(text)
}

var mpiLine = regexp.MustCompile(`(?m)^round trip us: p50 ([0-9.]+) p99 ([0-9.]+)$`)

// parseMPI reads the line that pingpong.c prints.
func parseMPI(text string) (Sample, error) {
	m := mpiLine.FindStringSubmatch(text)
	if m == nil {
		return Sample{}, fmt.Errorf("the MPI program printed no result: %.80q", text)
	}
	p50, err1 := strconv.ParseFloat(m[1], 64)
	p99, err2 := strconv.ParseFloat(m[2], 64)
	if err1 != nil || err2 != nil || p50 <= 0 || p99 <= 0 {
		return Sample{}, fmt.Errorf("the MPI program printed %q, which is no result", m[0])
	}
	return Sample{P50: p50, P99: p99}, nil
}
