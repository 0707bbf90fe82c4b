package bench

// This file compiles our own programs over OpenMPI in the session's directory, and runs MPI's
// programs with processes on the lab's first hosts.

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/funet/funet/ctl/launch"
	"github.com/funet/funet/ctl/program"
)

//go:embed mpi/times.h
var mpiTimes []byte

// mpicc compiles a program into the session's directory.
func mpicc(ctx context.Context, s *session, name string, source []byte) error {
	file := filepath.Join(s.dir, name+".c")
	err := errors.Join(os.WriteFile(filepath.Join(s.dir, "times.h"), mpiTimes, 0o600), os.WriteFile(file, source, 0o600))
	if err != nil {
		return fmt.Errorf("write %s.c: %w", name, err)
	}
	_, err = s.runTool(ctx, nil, "mpicc", "-O3", "-march=native", "-o", filepath.Join(s.dir, name), file, "-lm")
	return err
}

// mpiNetwork is how MPI's processes reach each other.
type mpiNetwork struct {
	name string
	mca  []string // name=value; %s in a value is the lab's network
	// env is for the processes, as NAME=VALUE; %s in a value is the interface of the lab's hosts.
	env []string
}

// Networks of MPI's processes. Their one-sided operations go by messages over TCP: of 4.1's
// components this one needs neither shared memory nor RDMA.
var (
	mpiTCP = &mpiNetwork{name: "btl_tcp", mca: []string{"pml=ob1", "btl=tcp,self", "btl_tcp_if_include=%s", "osc=pt2pt"}}
	mpiRXM = &mpiNetwork{name: "tcp_rxm", mca: []string{"pml=cm", "mtl=ofi", "btl=self", "osc=pt2pt",
		"mtl_ofi_provider_include=tcp;ofi_rxm", "opal_common_ofi_provider_include=tcp;ofi_rxm"},
		env: []string{"FI_TCP_IFACE=%s"}}
	mpiFUNet = &mpiNetwork{name: "funet"} // by the launcher's variables
)

// mpiJob is a run of an MPI program, with process n on host n modulo their number.
//
// mpirun(1), on host 0, would use ssh to start its daemon on another host. Here it runs a script
// instead that enters that host's namespace, which this process holds open meanwhile, and gives it
// a name of its own: OpenMPI takes hosts of one name for one host, whose ranks share memory, and
// its daemons name their directories after hosts. With more ranks than processors, processes are
// not pinned and yield when they wait.
type mpiJob struct {
	hosts, ranks int
	network      *mpiNetwork

	namespaces []*os.File // of all hosts
}

// overTCP runs a program that mpicc made over TCP, with one process on each of the first hosts, and
// returns its output.
func (s *session) overTCP(ctx context.Context, hosts int, program string, args ...string) (string, error) {
	r := &mpiJob{hosts: hosts, ranks: hosts, network: mpiTCP}
	return s.overNetwork(ctx, r, append([]string{filepath.Join(s.dir, program)}, args...))
}

// overNetwork runs an MPI program over a network of the system's.
func (s *session) overNetwork(ctx context.Context, r *mpiJob, argv []string) (string, error) {
	defer r.close()
	argv, env, err := r.command(s, argv)
	if err != nil {
		return "", err
	}
	return s.runTool(ctx, env, argv...)
}

// impatience is how long mpirun may take to end after Ctrl-C. By itself it takes two seconds.
const impatience = 300 * time.Millisecond

// overFUNet runs an MPI program over FUNet's provider of libfabric, on direct ports of daemons that
// are started for it.
func (m *match) overFUNet(ctx context.Context, r *mpiJob, argv []string) (text string, err error) {
	defer r.close()
	argv, env, err := r.command(m.session, argv)
	if err != nil {
		return "", err
	}
	argv = append(r.enter(0), argv...)
	err = program.WithDaemons(m.lab, m.f.DirectPorts(), func(sockets []string) error {
		text, err = program.Printed(ctx, launch.Options{Nodes: r.ranks, Once: true, OFI: true, Cards: launch.DirectCards,
			Sockets: sockets, Program: argv[0], Args: argv[1:], Env: env, Grace: impatience})
		return err
	})
	return text, err
}

func (r *mpiJob) crowded() bool { return r.ranks > runtime.NumCPU() }

// close closes the namespaces.
func (r *mpiJob) close() {
	for _, ns := range r.namespaces {
		ns.Close()
	}
}

// enter is the beginning of a command on a host, with its processor.
func (r *mpiJob) enter(host int) []string {
	argv := []string{"nsenter", fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), r.namespaces[host].Fd())}
	if !r.crowded() {
		argv = append(argv, "taskset", "-c", strconv.Itoa(host))
	}
	return argv
}

// command returns mpirun's arguments and environment, on host 0, for a program.
func (r *mpiJob) command(s *session, program []string) (argv, env []string, err error) {
	agent, err := r.agent(s)
	if err != nil {
		return nil, nil, err
	}
	network, yield := s.hosts[0].Interfaces[0].Addr.Masked().String(), "0"
	if argv = []string{"mpirun"}; r.crowded() {
		yield = "1"
		// tools are pinned
		argv = []string{"taskset", "-c", fmt.Sprintf("0-%d", runtime.NumCPU()-1), "mpirun"}
	}
	settings := append([]string{"plm_rsh_agent=" + agent,
		"plm_rsh_no_tree_spawn=1", // only this host has the agent's namespaces
		"oob_tcp_if_include=" + network, "mpi_yield_when_idle=" + yield}, r.network.mca...)
	for _, setting := range settings {
		name, value, _ := strings.Cut(strings.ReplaceAll(setting, "%s", network), "=")
		argv = append(argv, "--mca", name, value)
	}
	env = []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "TMPDIR=" + s.dir}
	for _, v := range r.network.env {
		v = strings.ReplaceAll(v, "%s", s.hosts[0].Interfaces[0].Name)
		name, _, _ := strings.Cut(v, "=")
		env, argv = append(env, v), append(argv, "-x", name)
	}
	var list []string
	for i := range r.hosts {
		list = append(list, fmt.Sprintf("%s:%d", s.address(i), (r.ranks+r.hosts-1-i)/r.hosts))
	}
	argv = append(argv, "--map-by", "node", "--bind-to", "none", "-np", strconv.Itoa(r.ranks), "-host",
		strings.Join(list, ","))
	return append(argv, program...), env, nil
}

// agent writes the script that mpirun calls: agent HOST COMMAND...
func (r *mpiJob) agent(s *session) (path string, err error) {
	var script strings.Builder
	script.WriteString("#!/bin/sh\nhost=$1\nshift\ncase $host in\n")
	for i := range r.hosts {
		err := s.lab.Do(i, func() error {
			ns, err := os.Open("/proc/thread-self/ns/net")
			r.namespaces = append(r.namespaces, ns)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("open the namespace of host %d: %w", i, err)
		}
		fmt.Fprintf(&script, "%s) exec %s unshare --uts /bin/sh -c \"echo lab-%d >/proc/sys/kernel/hostname; $*\";;\n",
			s.address(i), strings.Join(r.enter(i), " "), i)
	}
	script.WriteString("esac\nexit 1\n")
	path = filepath.Join(s.dir, "agent")
	if err := os.WriteFile(path, []byte(script.String()), 0o700); err != nil {
		return "", fmt.Errorf("write mpirun's agent: %w", err)
	}
	return path, nil
}
