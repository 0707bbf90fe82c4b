package tests

// This file tests that funid can be replaced under a job of direct ports, which verifies every
// message meanwhile.

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// replaceable is the daemon of a host of a lab, which the test ends and starts.
type replaceable struct {
	t            *testing.T
	l            *lab.Lab
	host         int
	config, sock string
	pid          int
}

// daemonOf finds the daemon that was started with the configuration.
func daemonOf(t *testing.T, config string) (pid int) {
	t.Helper()
	eventually(t, "the daemon of "+config+" runs", func() bool {
		paths, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is good
		for _, path := range paths {
			line, _ := os.ReadFile(path) // it may have ended
			if args := strings.Split(string(line), "\x00"); len(args) == 4 && args[1] == "--config" &&
				args[2] == config {
				_, err := fmt.Sscanf(path, "/proc/%d/cmdline", &pid)
				return err == nil
			}
		}
		return false
	})
	return pid
}

// replace ends the daemon, waits for its end, and starts another.
func (r *replaceable) replace(signal syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(r.pid, signal); err != nil {
		r.t.Fatal(err)
	}
	eventually(r.t, "the daemon ends", func() bool {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.pid))
		return err != nil || len(line) == 0 // a zombie has none
	})
	log, err := os.OpenFile(strings.TrimSuffix(r.config, ".yaml")+".log", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(filepath.Dir(command), "funid"), "--config", r.config)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := r.l.Do(r.host, cmd.Start); err != nil {
		r.t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }() // the test sees whether it serves
	r.pid = cmd.Process.Pid
}

var replacements = flag.Int("replacements", 20, "of daemons in TestReplaceDaemons")

// TestReplaceDaemons: the daemons of two hosts are stopped or killed, in turn, and started again,
// twenty times. Meanwhile the four processes of a job verify every message, two and two through
// shared memory. Nothing is lost or comes twice, no process is taken for gone, and nothing is left.
func TestReplaceDaemons(t *testing.T) {
	long.Test(t)
	s := directs(t)
	l, err := lab.Open(s.name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var daemons []*replaceable
	for host, socket := range s.sockets {
		r := &replaceable{t: t, l: l, host: host, config: strings.TrimSuffix(socket, ".sock") + ".yaml", sock: socket}
		r.pid = daemonOf(t, r.config)
		daemons = append(daemons, r)
	}
	replacing(s, daemons, func(i int) {
		signal := syscall.SIGTERM
		if i%4 > 1 {
			signal = syscall.SIGKILL
		}
		daemons[i%2].replace(signal)
	})
}

// replacing calls replace, with the numbers from 0 on, under a job that verifies every message.
func replacing(s *service, daemons []*replaceable, replace func(i int)) {
	t := s.t
	t.Helper()
	path := file(t, "")
	end, program := path+".end", filepath.Join(filepath.Dir(path), "rejoin")
	build := exec.Command("go", "build", "-o", program, "./rejoin")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := nobody(exec.Command(command, "run", "--lab="+s.name, "--card", s.card, "-n", "4", "--restart=1",
		"--", program, end))
	var out growing
	cmd.Stdout = &out
	p := start(t, cmd, nil)
	t.Cleanup(func() {
		if t.Failed() {
			out.mu.Lock()
			defer out.mu.Unlock()
			t.Logf("it printed %s", out.text.String())
			for _, r := range daemons {
				// it may be gone
				log, _ := os.ReadFile(strings.TrimSuffix(r.config, ".yaml") + ".log")
				t.Logf("the log of host %d: %s", r.host, tail(string(log)))
			}
		}
	})
	for node := range 4 {
		eventually(t, "all nodes are up", func() bool { return out.count(fmt.Sprintf("[%d] up life 0\n", node)) == 1 })
	}
	for _, r := range daemons {
		r.shared(2)
	}
	begin := time.Now()
	for i := range *replacements {
		replace(i)
		daemons[i%2].shared(2)
		if n := out.count("wrong") + out.count("event left"); n > 0 {
			t.Fatalf("after replacement %d: %d lines of what is wrong", i, n)
		}
		select {
		case <-p.ended:
			t.Fatalf("after replacement %d the job ended: %s", i, p.stderr.String())
		default:
		}
	}
	took := time.Since(begin)
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != 0 || out.count("verified\n") != 4 || out.count("wrong") != 0 {
		t.Fatalf("exit code %d; it said %s", code, tail(p.stderr.String()))
	}
	var longest time.Duration
	for _, said := range regexp.MustCompile(`longest call: (\S+)`).FindAllStringSubmatch(out.String(), -1) {
		d, err := time.ParseDuration(said[1])
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, d)
	}
	t.Logf("%d replacements in %v; the longest call took %v", *replacements, took, longest)
	s.free()
	bare(t, s.name)
}
