package tests

// This file tests funet run --ofi, and what it preloads.

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/funet/funet/tests/long"
)

// ofi starts funet run --ofi on the lab, as nobody, with cards as --ofi chooses them.
func (s *service) ofi(args ...string) *process {
	s.t.Helper()
	if _, err := provider(); err != nil {
		s.t.Fatal(err)
	}
	return start(s.t, nobody(exec.Command(command, append([]string{"run", "--lab=" + s.name, "--ofi"}, args...)...)), nil)
}

// withMPI compiles the program in C that uses MPI.
func withMPI(t *testing.T) string {
	t.Helper()
	program := filepath.Join(open(t), "mpi")
	if out, err := exec.Command("mpicc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program,
		"../uspace/ofi/testdata/mpi.c").CombinedOutput(); err != nil {
		t.Fatalf("compiling with mpicc, which libopenmpi-dev brings: %v\n%s", err, out)
	}
	if err := os.Chmod(program, 0o755); err != nil { // nobody runs it
		t.Fatal(err)
	}
	return program
}

// forAll returns a folder that every user may write.
func forAll(t *testing.T) string {
	t.Helper()
	dir := open(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// mpirun returns Open MPI's command for four ranks, which share this machine with other tests.
func mpirun(dir string, args ...string) []string {
	return append([]string{"env", "HOME=" + dir, "TMPDIR=" + dir, "SHELL=/bin/sh", "mpirun", "--oversubscribe", "--bind-to", "none",
		"-n", "4"}, args...)
}

// Rule: Open MPI's programs run as they are, with ranks on two hosts, on direct ports and on the
// daemons' cards.
func TestProviderMPI(t *testing.T) {
	program := withMPI(t)
	s := directs(t)
	for _, card := range [][]string{nil, {"--card", "daemon"}} {
		if card != nil && long.Short() {
			break
		}
		args := append([]string{"-n", "4", "--once"}, card...)
		args = append(append(args, "--"), mpirun(forAll(t), program)...)
		if out := s.ofi(args...).ok(); out != "4 ranks: all results are right\n" {
			t.Errorf("%q: it printed %q", card, out)
		}
		s.free()
	}
}

// Rule: ranks that mpirun starts by an agent, which passes no variable on, are placed on the hosts
// of their numbers, and find provider and job.
func TestProviderMPIHosts(t *testing.T) {
	long.Test(t)
	program, dir := withMPI(t), forAll(t)
	agent := filepath.Join(dir, "agent")
	script := "#!/bin/sh\n# agent HOST COMMAND: both hosts are this machine, and need folders of their own\n" +
		"host=$1; shift; mkdir -p " + dir + "/$host\n" +
		"exec env -i PATH=\"$PATH\" TMPDIR=" + dir + "/$host " +
		"OMPI_MCA_osc_rdma_backing_directory=" + dir + "/$host HOST=$host sh -c \"$*\"\n"
	if err := os.WriteFile(agent, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(agent, 0o755); err != nil {
		t.Fatal(err)
	}
	s := directs(t)
	run := func(program ...string) string {
		args := append([]string{"-n", "4", "--once", "--"}, mpirun(dir, "--mca", "plm_rsh_agent", agent, "-host", "a:2,b:2",
			"--mca", "oob_tcp_if_include", "lo")...)
		return s.ofi(append(args, program...)...).ok()
	}
	places := run("sh", "-c", "echo $OMPI_COMM_WORLD_RANK on $HOST")
	for rank, host := range []string{"a", "b", "a", "b"} {
		if !strings.Contains(places, fmt.Sprintf("%d on %s\n", rank, host)) {
			t.Errorf("rank %d is not on %s: %q", rank, host, places)
		}
	}
	if out := run(program); out != "4 ranks: all results are right\n" {
		t.Errorf("it printed %q", out)
	}
	s.free()
}

// Rule: ranks of srun and of launchers that speak PMI find their places by the variables of these.
func TestProviderRanks(t *testing.T) {
	program := withFabric(t, "messages")
	s := directs(t)
	for _, names := range [][2]string{{"SLURM_PROCID", "SLURM_NTASKS"}, {"PMI_RANK", "PMI_SIZE"}, {"PMIX_RANK", "NONE"}} {
		// NODE tells the program itself
		script := fmt.Sprintf(`[ -z "$FUNET_NODE" ] || exit 9; for i in 0 1; do NODE=$i %s=$i %s=2 %s & done; wait`,
			names[0], names[1], program)
		if out := s.ofi("-n", "2", "--once", "--", "sh", "-c", script).ok(); strings.Count(out, "all rules hold\n") != 2 {
			t.Errorf("%s: it printed %q", names[0], out)
		}
		s.free()
	}
}

// Rule: each host's own agent finds the provider there, and variables of the user win.
func TestProviderHosts(t *testing.T) {
	long.Test(t)
	dir, err := provider()
	if err != nil {
		t.Fatal(err)
	}
	s := directs(t)
	hosts := s.behindSSH(t)
	out := hosts("", "-n", "2", "--ofi", "--hosts", "host-0,host-1", "--env", "OMPI_MCA_btl=self,vader",
		"--env", "LD_PRELOAD=libdl.so.2", "--env", "FI_PROVIDER=funet,tcp", "--", "sh", "-c",
		"echo $FI_PROVIDER_PATH $FI_PROVIDER $LD_PRELOAD $OMPI_MCA_btl $OMPI_MCA_pml $OMPI_MCA_osc; "+
			"fi_info -p funet | grep -c 'provider: funet'").ok()
	for node := range 2 {
		want := fmt.Sprintf("[%d] %s funet,tcp libdl.so.2:%s/libfunet-onstack.so self,vader cm rdma\n", node, dir, dir)
		if !strings.Contains(out, want) || !regexp.MustCompile(fmt.Sprintf(`(?m)^\[%d\] [1-9]`, node)).MatchString(out) {
			t.Errorf("it printed %q, not %q and a number", out, want)
		}
	}
	s.free()
}

// Rule: root's program finds provider and preloaded library in a folder that its user may not
// enter, and so do the ranks that it starts. What is missing there, or may not be read, is named.
func TestProviderHandedOver(t *testing.T) {
	long.Test(t)
	from, err := provider()
	if err != nil {
		t.Fatal(err)
	}
	private := filepath.Join(t.TempDir(), "bin") // its parent is root's alone
	if err := os.Mkdir(private, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(private), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"funet", "libfunet-fi.so", "libfunet-onstack.so"} {
		if out, err := exec.Command("install", "-m", "755", filepath.Join(from, name), private).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	s := directs(t)
	run := func(args ...string) *process {
		cmd := exec.Command(filepath.Join(private, "funet"), append([]string{"run", "--lab=" + s.name, "--ofi",
			"--user", "nobody"}, args...)...)
		cmd.Dir = "/" // where nobody may be
		return start(t, cmd, nil)
	}
	out := run(append([]string{"-n", "4", "--once", "--"}, mpirun(forAll(t), withMPI(t))...)...).ok()
	if out != "4 ranks: all results are right\n" {
		t.Errorf("it printed %q", out)
	}
	s.free()
	library := filepath.Join(private, "libfunet-fi.so")
	if err := os.Chmod(library, 0o600); err != nil {
		t.Fatal(err)
	}
	run("--", "true").fails("reading " + library + ": permission denied; let the program's user read it")
	if err := os.Remove(library); err != nil {
		t.Fatal(err)
	}
	run("--", "true").fails("libfunet-fi.so is neither beside "+private+"/funet nor in", "make ofi")
	s.free()
}

// Rule: what is preloaded adds SA_ONSTACK to every handler and changes nothing else.
func TestOnStackHandlers(t *testing.T) {
	dir, err := provider()
	if err != nil {
		t.Fatal(err)
	}
	program := withFabric(t, "handlers")
	run := func(preload string) (printed, lacking string) {
		var out, said bytes.Buffer
		cmd := exec.Command(program)
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "LD_PRELOAD="+preload), &out, &said
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s%s", err, out.String(), said.String())
		}
		return out.String(), said.String()
	}
	without, lacked := run("")
	with, lacks := run(filepath.Join(dir, "libfunet-onstack.so"))
	if with != without {
		t.Errorf("with the library:\n%s\nwithout it:\n%s", with, without)
	}
	if lacked == lacks || lacks != "0 handlers lack it\n" {
		t.Errorf("with the library %s, without it %s", lacks, lacked)
	}
}

// Rule: a program survives signals whose handlers it installs after the provider has started Go.
func TestOnStackSignals(t *testing.T) {
	long.Test(t)
	program := withFabric(t, "signals")
	s := directs(t)
	out := s.ofi("-n", "2", "--", program).ok()
	if strings.Count(out, "100000 signals were taken, and messages exchanged: yes\n") != 2 {
		t.Errorf("it printed %q", out)
	}
	s.free()
}
