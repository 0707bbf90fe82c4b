package hostile

// This file is the daemons: root's processes, one in each host of a lab.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/xdp"
)

// daemonConfig configures the role.
type daemonConfig struct{ Daemon daemon.Config }

// serve is the role: it says "ready", and its figures when it is asked for them.
func serve(c daemonConfig) error {
	// What command funid does, but for dropping capabilities, which a test built with cgo cannot.
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 2))
	debug.SetGCPercent(400)
	d, err := daemon.Open(c.Daemon)
	if err != nil {
		return err
	}
	d.GiveWay()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	go func() {
		s := bufio.NewScanner(os.Stdin)
		for s.Scan() {
			debug.FreeOSMemory()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			fmt.Println("figures", runtime.NumGoroutine(), m.HeapAlloc)
		}
	}()
	return d.Run(ctx, func() { fmt.Println("ready") })
}

// bed is a lab of hosts, mostly two, with a daemon on each.
type bed struct {
	t       testing.TB
	lab     *lab.Lab
	sockets []string
	rules   []config.Rule
	daemons []*process
	silence time.Duration // after which a peer is given up
	direct  bool          // jobs are direct ones; daemons is empty then
	first   int           // host and card of the first socket
}

func newBed(t testing.TB, rules []config.Rule, silence time.Duration) *bed {
	t.Helper()
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bed{t: t, lab: l, rules: rules, daemons: make([]*process, 2), silence: silence}
	dir, err := os.MkdirTemp(folder, "bed")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for host := range b.daemons {
		b.sockets = append(b.sockets, filepath.Join(dir, fmt.Sprintf("host-%d.sock", host)))
		b.serve(host)
	}
	return b
}

// How long a peer may be silent: where daemons are killed not long, as a test has no day to
// wait; where none is, longer than a busy machine keeps one from running.
const (
	shortSilence = time.Second
	longSilence  = patience / 2
)

// config is the configuration of a daemon.
func (b *bed) config(host int) daemon.Config {
	return daemon.Config{File: config.File{Socket: b.sockets[host], Card: uint16(host), Peers: b.lab.Peers(host),
		Attach: xdp.AttachGeneric, CPU: -1,
		PeerTimeout: b.silence, ConnectTimeout: b.silence, Rules: b.rules}}
}

// serve starts the daemon of a host and waits until it serves.
func (b *bed) serve(host int) {
	b.t.Helper()
	b.daemons[host] = start(b.t, "daemon", daemonConfig{b.config(host)}, options{
		name: fmt.Sprintf("daemon %d", host),
		by:   func(c *exec.Cmd) error { return b.lab.Start(host, c) },
	})
	b.daemons[host].next("ready")
}

// figures are what must not grow.
type figures struct {
	resident    int // KiB, VmRSS of proc_pid_status(5)
	shared      int // KiB of it that is memory of contexts and segments, RssShmem
	descriptors int
	goroutines  int
	heap        int // KiB
}

// String prints them.
func (f figures) String() string {
	return fmt.Sprintf("%d KiB resident (%d KiB shared), heap %d KiB, %d descriptors, %d goroutines", f.resident,
		f.shared, f.heap, f.descriptors, f.goroutines)
}

// figures asks a daemon, after it has given back what it does not use.
func (b *bed) figures(host int) (f figures) {
	b.t.Helper()
	p := b.daemons[host]
	p.say("figures")
	var heap int
	if _, err := fmt.Sscan(p.next("figures"), &f.goroutines, &heap); err != nil {
		b.t.Fatal(err)
	}
	f.heap = heap >> 10
	pid := p.Cmd.Process.Pid
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	text, err2 := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err := errors.Join(err, err2); err != nil {
		b.t.Fatal(err)
	}
	f.descriptors = len(entries)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch name {
		case "VmRSS":
			f.resident = n
		case "RssShmem":
			f.shared = n
		}
	}
	return f
}

// alive fails the test if a daemon has ended.
func (b *bed) alive() {
	b.t.Helper()
	for _, p := range b.daemons {
		if !p.Running() {
			b.t.Fatalf("%s has ended: %v\n%s", p.Name, p.Err, p.Complaints())
		}
	}
}

// status asks a daemon for its status, as administrator.
func (b *bed) status(host int) (s report.Status) {
	b.t.Helper()
	k, err := client.Dial(b.sockets[host])
	if err != nil {
		b.t.Fatal(err)
	}
	defer k.Close()
	if err := k.Status(&s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// empty waits until daemons know nobody but the asker.
func (b *bed) empty() {
	b.t.Helper()
	for host := range b.sockets {
		var s report.Status
		until(b.t, "a daemon without contexts, jobs, bytes and connections", func() bool {
			s = b.status(host)
			return len(s.Contexts) == 0 && len(s.Ports) == 0 && len(s.Jobs) == 0 && s.Bytes == 0 && s.Connections == 1
		}, func() string { return fmt.Sprintf("%+v", s) })
		b.t.Logf("daemon %d at the end: %d contexts, %d jobs, %d bytes, %d connection (the one that asks)", host,
			len(s.Contexts), len(s.Jobs), s.Bytes, s.Connections)
	}
}

// until waits for something, and fails the test, saying how things are, if it takes too
// long.
func until(t testing.TB, what string, done func() bool, how func() string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s: %s", what, how())
		}
	}
}
