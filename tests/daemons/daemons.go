// Package daemons runs a daemon on each host of a lab, and a job on all of them. The daemons run in
// the process of a test, or as processes of their own as users have them. Processes of the test, or
// the test itself, attach to them as to any other daemon.
package daemons

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/xdp"
)

// patience bounds every wait, and is far longer than any wait takes.
const patience = time.Minute

// Run starts the daemons in this process and has them admit the nodes of a job, one on each host,
// until the test ends. It returns the configuration with which each node attaches. Only the
// goroutine of the test may call it. The daemons share the processors of the Go runtime with the
// test. The runtime takes a processor from a goroutine that polls a ring only after 10 ms, so
// measurements need Start.
func Run(t testing.TB, l *lab.Lab, gid uint16) (nodes []attach.Config) {
	t.Helper()
	dir, err := os.MkdirTemp("", "funet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // processes of any user may attach
		t.Fatal(err)
	}
	var sockets []string
	for host := range l.Hosts() {
		path := filepath.Join(dir, fmt.Sprint(host))
		start(t, l, host, daemon.Config{File: config.File{Socket: path, Card: uint16(host), Peers: l.Peers(host),
			Attach: xdp.AttachGeneric, CPU: -1}})
		sockets = append(sockets, path)
	}
	return job(t, sockets, gid)
}

// Build builds the program funid, which exists until the test ends, and returns its path. dir is
// the folder of the project. If FUNET_BINARY names a command, Build returns the funid beside it
// instead.
func Build(t testing.TB, dir string) string {
	t.Helper()
	if command := os.Getenv("FUNET_BINARY"); command != "" {
		return filepath.Join(filepath.Dir(command), "funid")
	}
	path := filepath.Join(t.TempDir(), "funid")
	build := exec.Command("go", "build", "-o", path, "./ctl/funid")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0") // as make builds it
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building funid: %v\n%s", err, out)
	}
	return path
}

// Start does what Run does, with a process of the program funid on each host. more is added to the
// daemons' configuration.
func Start(t testing.TB, l *lab.Lab, program string, gid uint16, more ...string) []attach.Config {
	t.Helper()
	if err := l.StartDaemons(lab.DaemonOptions{Program: program, XDP: xdp.AttachGeneric.String(),
		More: strings.Join(more, "")}); err != nil {
		t.Fatal(err)
	}
	sockets, err := l.Sockets()
	if err != nil {
		t.Fatal(err)
	}
	return job(t, sockets, gid)
}

// job has each daemon admit the nodes of a job, one on each host.
func job(t testing.TB, sockets []string, gid uint16) (nodes []attach.Config) {
	t.Helper()
	token := attach.NewToken()
	var cards []uint16
	for host, path := range sockets {
		nodes = append(nodes, attach.Config{Socket: path, GID: gid, Node: uint16(host), Token: token})
		cards = append(cards, uint16(host))
	}
	for _, n := range nodes {
		admit(t, n.Socket, attach.JobRequest{GID: gid, Token: token, Cards: cards})
	}
	return nodes
}

// start runs a daemon on a host until the test ends.
func start(t testing.TB, l *lab.Lab, host int, c daemon.Config) {
	t.Helper()
	var d *daemon.Daemon
	if err := l.Do(host, func() (err error) { d, err = daemon.Open(c); return err }); err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- d.Run(context.Background(), func() { close(ready) }) }()
	t.Cleanup(func() {
		d.Stop()
		if err := await(t, "the daemon ends", ended); err != nil {
			t.Error(err)
		}
	})
	await(t, "the daemon is ready", ready)
}

// admit makes the job known to a daemon.
func admit(t testing.TB, path string, job attach.JobRequest) {
	t.Helper()
	k, err := client.Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	if _, err := k.Job(job); err != nil {
		t.Fatal(err)
	}
}

func await[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("in vain: %s", what)
	}
	return v
}
