package bench

// This file compiles our own programs over OpenMPI in the session's directory, and runs them with
// one process on each of the lab's first hosts.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// mpicc compiles a program into the session's directory.
func mpicc(ctx context.Context, s *session, name string, source []byte) error {
	file := filepath.Join(s.dir, name+".c")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return fmt.Errorf("write %s.c: %w", name, err)
	}
	_, err := s.runTool(ctx, nil, "mpicc", "-O3", "-march=native", "-o", filepath.Join(s.dir, name), file, "-lm")
	return err
}

// mpirun runs a program that mpicc made, one process on each of the first hosts, and returns its
// output. mpirun(1), on host 0, would use ssh to start its daemon on another host. Here it runs a
// script instead that enters that host's namespace, which this process holds open meanwhile. All
// daemons take this machine's name and so would share a directory; each is given one of its own.
// With more hosts than processors, processes are not pinned and yield when they wait.
func mpirun(ctx context.Context, s *session, hosts int, program string, args ...string) (string, error) {
	crowded := hosts > runtime.NumCPU()
	// mpirun calls: agent HOST COMMAND...
	var script, list strings.Builder
	script.WriteString("#!/bin/sh\nhost=$1\nshift\ncase $host in\n")
	for i := range hosts {
		fmt.Fprintf(&list, ",%s:1", s.address(i))
		if i == 0 {
			continue
		}
		var ns *os.File
		err := s.lab.Do(i, func() (err error) {
			ns, err = os.Open("/proc/thread-self/ns/net")
			return err
		})
		if err != nil {
			return "", fmt.Errorf("open the namespace of host %d: %w", i, err)
		}
		defer ns.Close()
		pin := ""
		if !crowded {
			pin = fmt.Sprintf("taskset -c %d ", i)
		}
		fmt.Fprintf(&script,
			"%s) export TMPDIR=%s/%d; mkdir -p $TMPDIR; exec nsenter --net=/proc/%d/fd/%d %s/bin/sh -c \"$*\";;\n",
			s.address(i), s.dir, i, os.Getpid(), ns.Fd(), pin)
	}
	script.WriteString("esac\nexit 1\n")
	agent := filepath.Join(s.dir, "agent")
	if err := os.WriteFile(agent, []byte(script.String()), 0o700); err != nil {
		return "", fmt.Errorf("write mpirun's agent: %w", err)
	}

	network, yield := s.hosts[0].Interfaces[0].Addr.Masked().String(), "0"
	argv := []string{"mpirun"}
	if crowded {
		yield = "1"
		// tools are pinned
		argv = []string{"taskset", "-c", fmt.Sprintf("0-%d", runtime.NumCPU()-1), "mpirun"}
	}
	for _, mca := range [][2]string{
		{"plm_rsh_agent", agent},
		{"plm_rsh_no_tree_spawn", "1"}, // only this host has the agent's namespaces
		{"pml", "ob1"},
		{"btl", "tcp,self"},
		// one-sided operations by messages: of 4.1's components the one that needs neither shared
		// memory nor RDMA
		{"osc", "pt2pt"},
		{"btl_tcp_if_include", network},
		{"oob_tcp_if_include", network},
		{"mpi_yield_when_idle", yield},
	} {
		argv = append(argv, "--mca", mca[0], mca[1])
	}
	argv = append(argv, "--bind-to", "none", "-np", strconv.Itoa(hosts), "-host", list.String()[1:],
		filepath.Join(s.dir, program))
	env := []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "TMPDIR=" + s.dir}
	return s.runTool(ctx, env, append(argv, args...)...)
}
