package conformance

// This file runs gRPC's benchmark as the programs that its authors ship, a server and a client,
// neither of which knows of FUNet: the client dials only localhost. `funet forward` takes it from
// there to the other host, unprivileged through the daemons.

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	hostdaemons "github.com/funet/funet/tests/daemons"
	"github.com/funet/funet/uspace/attach"
)

const (
	// forwardUser is a user that nobody on the machine is.
	forwardUser = 52001
	forwardPort = "50051"
	// forwardTime is how long each client runs, in seconds.
	forwardTime = 2
	// interrupted is the exit status of a command of funet that Ctrl-C has ended.
	interrupted = 130
)

// Rule: gRPC's client binary, which dials only localhost, runs
// over FUNet by funet forward, and so does its server; no call fails, in any of its forms; Ctrl-C
// ends all.
func TestForwardedGRPC(t *testing.T) {
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	// The programs write their profiles to "/tmp/" + -test_name + ".cpu", wherever temporary files
	// go.
	dir, err := os.MkdirTemp("/tmp", "funet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "profiles"), 0o755),
		os.Chown(filepath.Join(dir, "profiles"), forwardUser, forwardUser)); err != nil {
		t.Fatal(err)
	}
	for path, module := range map[string]string{"github.com/funet/funet/ctl/funet": "../..",
		"google.golang.org/grpc/benchmark/client": ".", "google.golang.org/grpc/benchmark/server": "."} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, filepath.Base(path)), path)
		build.Dir = module
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", path, err, out)
		}
	}
	f := &forwarded{t, l, dir, hostdaemons.Start(t, l, hostdaemons.Build(t, "../.."), gid)}
	profile := func(name string) string { return filepath.Base(dir) + "/profiles/" + name }

	server := f.start(1, "server", "-port="+forwardPort, "-test_name="+profile("server"))
	here := f.start(0, "funet", "forward", "tcp:127.0.0.1:"+forwardPort+"=funet:1:80")
	there := f.start(1, "funet", "forward", "funet::80=tcp:127.0.0.1:"+forwardPort)
	for _, p := range []*program{here, there} {
		p.says("forwarding")
	}
	for _, form := range []struct {
		name string
		args []string
	}{
		{"unary", nil},
		{"unary_64", []string{"-c=4", "-r=16"}},
		{"streaming", []string{"-rpc_type=streaming", "-c=2", "-r=8"}},
		{"long", []string{"-req=200000", "-resp=300000", "-r=4"}},
	} {
		client := f.start(0, "client", append([]string{"-port=" + forwardPort, "-w=0", "-d=" + fmt.Sprint(forwardTime),
			"-test_name=" + profile(form.name)}, form.args...)...)
		if err := client.wait(); err != nil {
			t.Fatalf("%s: the client: %v\n%s", form.name, err, client.text())
		}
		found := regexp.MustCompile(`(?m)^qps: ([0-9.]+)$`).FindStringSubmatch(client.text())
		if found == nil {
			t.Fatalf("%s: the client said\n%s", form.name, client.text())
		}
		rate, err := strconv.ParseFloat(found[1], 64)
		if err != nil || rate <= 0 {
			t.Errorf("%s: %s calls a second", form.name, found[1])
		}
		report(t, "grpc_forwarded_"+form.name, map[string]float64{"calls_per_s": rate})
	}
	// Nothing was said of a connection that failed.
	for _, p := range []*program{here, there} {
		if said := p.text(); strings.Count(said, "\n") != 1 {
			t.Errorf("forward said\n%s", said)
		}
	}
	for p, status := range map[*program]int{here: interrupted, there: interrupted, server: 0} {
		if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := p.wait(); p.cmd.ProcessState.ExitCode() != status {
			t.Errorf("%s: after Ctrl-C: %v\n%s", p.cmd.Path, err, p.text())
		}
	}
}

// forwarded starts programs on the hosts.
type forwarded struct {
	t     *testing.T
	lab   *lab.Lab
	dir   string
	nodes []attach.Config
}

// program is one that runs.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan error

	mu   sync.Mutex
	said bytes.Buffer
}

// Write takes what the program says.
func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *program) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// start starts a program on a host, as an ordinary user and with the host's place in the job.
func (f *forwarded) start(host int, name string, args ...string) *program {
	f.t.Helper()
	n := f.nodes[host]
	p := &program{t: f.t, cmd: exec.Command(filepath.Join(f.dir, name), args...), ended: make(chan error, 1)}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = f.dir, p, p
	p.cmd.Env = append(os.Environ(), attach.SocketVariable+"="+n.Socket, attach.GIDVariable+"="+fmt.Sprint(n.GID),
		attach.NodeVariable+"="+fmt.Sprint(n.Node),
		attach.TokenVariable+"="+n.Token.Text())
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL,
		Credential: &syscall.Credential{Uid: forwardUser, Gid: forwardUser}}
	if err := f.lab.Start(host, p.cmd); err != nil {
		f.t.Fatalf("starting %s: %v", name, err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	f.t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it has ended if the test went well
	return p
}

// says waits until the program has said something.
func (p *program) says(word string) {
	p.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !strings.Contains(p.text(), word); <-tick.C {
		select {
		case err := <-p.ended:
			p.t.Fatalf("%s has ended: %v\n%s", p.cmd.Path, err, p.text())
		default:
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s does not say %q but\n%s", p.cmd.Path, word, p.text())
		}
	}
}

// wait waits for its end.
func (p *program) wait() error { return await(p.t, p.cmd.Path+" ends", p.ended) }
