package tests

// This file tests that the helper can be replaced, as a service, under jobs of direct ports and
// while ports are made and ended. The test is the service manager.

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// manager is a service manager with one service: the helper of a host of a lab
// (sd_pid_notify_with_fds(3), sd_listen_fds_with_names(3)).
type manager struct {
	t            *testing.T
	l            *lab.Lab
	host         int
	path, socket string // of the helper, and of the manager
	conn         *net.UnixConn
	log          *os.File
	cmd          *exec.Cmd

	mu    sync.Mutex
	kept  []keptFile
	reads chan string // messages that are the test's own
}

// keptFile is what the service has stored.
type keptFile struct {
	name string
	file *os.File
}

// managed starts the helper of a host and has the host's daemon use it.
func managed(t *testing.T, l *lab.Lab, r *replaceable) *manager {
	t.Helper()
	dir := t.TempDir()
	m := &manager{t: t, l: l, host: r.host, path: filepath.Join(dir, "ports"), socket: filepath.Join(dir, "manager"),
		reads: make(chan string)}
	var err error
	if m.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.socket, Net: "unixgram"}); err == nil {
		m.log, err = os.Create(filepath.Join(dir, "log"))
	}
	if err != nil {
		t.Fatal(err)
	}
	go m.read()
	m.start()
	t.Cleanup(func() {
		m.stop(syscall.SIGKILL)
		m.conn.Close()
		for _, k := range m.kept {
			k.file.Close()
		}
		m.log.Close()
		if text, _ := os.ReadFile(m.log.Name()); t.Failed() {
			t.Logf("the log of the helper of host %d: %s", m.host, tail(string(text)))
		}
	})
	config, err := os.OpenFile(r.config, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintf(config, "helper: %s\n", m.path)
		err = errors.Join(err, config.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	r.replace(syscall.SIGTERM)
	eventually(t, "the daemon is there", func() bool { return funet(t, "status", "--socket", r.sock).wait() == 0 })
	return m
}

// read carries out what the service says, until the socket is closed.
func (m *manager) read() {
	text, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	for {
		n, control, _, _, err := m.conn.ReadMsgUnix(text, rights)
		if err != nil {
			return
		}
		var fds []int
		if all, err := unix.ParseSocketControlMessage(rights[:control]); err == nil && len(all) == 1 {
			fds, _ = unix.ParseUnixRights(&all[0]) // it has some, or the message asks for nothing
		}
		said := string(text[:n])
		name := said[strings.LastIndex(said, "=")+1:]
		m.mu.Lock()
		switch {
		case strings.HasPrefix(said, "FDSTORE=1\nFDPOLL=0\nFDNAME=") && len(fds) == 1:
			unix.CloseOnExec(fds[0])
			m.kept = append(m.kept, keptFile{name, os.NewFile(uintptr(fds[0]), name)})
		case strings.HasPrefix(said, "FDSTOREREMOVE=1\nFDNAME="):
			m.kept = slices.DeleteFunc(m.kept, func(k keptFile) bool { return k.name == name && k.file.Close() == nil })
		default:
			m.mu.Unlock()
			m.reads <- said
			continue
		}
		m.mu.Unlock()
	}
}

// start starts the helper with what is stored.
func (m *manager) start() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	m.cmd = exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, filepath.Join(filepath.Dir(command), "funid"),
		"make-ports", "--stay", m.path)
	for _, k := range m.kept {
		names, m.cmd.ExtraFiles = append(names, k.name), append(m.cmd.ExtraFiles, k.file)
	}
	m.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+m.socket, fmt.Sprintf("LISTEN_FDS=%d", len(names)),
		"LISTEN_FDNAMES="+strings.Join(names, ":"))
	m.cmd.Dir, m.cmd.Stdout, m.cmd.Stderr = "/", m.log, m.log
	if err := m.l.Do(m.host, m.cmd.Start); err != nil {
		m.t.Fatal(err)
	}
}

// stop ends the helper, and waits until all that it has said is carried out.
func (m *manager) stop(signal syscall.Signal) {
	m.t.Helper()
	if err := m.cmd.Process.Signal(signal); err != nil {
		m.t.Fatal(err)
	}
	_ = m.cmd.Wait() // by the signal
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err == nil {
		_, err = c.Write([]byte("the last"))
		c.Close()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	select {
	case <-m.reads:
	case <-time.After(deadline):
		m.t.Fatal("what the helper said is not carried out")
	}
}

// replace replaces the helper.
func (m *manager) replace(signal syscall.Signal) {
	m.t.Helper()
	m.stop(signal)
	m.start()
}

// keeps counts what is stored under names of a kind.
func (m *manager) keeps(kind string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.kept {
		if strings.HasPrefix(k.name, "funet1."+kind+".") {
			n++
		}
	}
	return n
}

// managers are the helpers of all hosts of a lab.
func managers(t *testing.T, s *service) (daemons []*replaceable, helpers []*manager) {
	t.Helper()
	l, err := lab.Open(s.name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	for host, socket := range s.sockets {
		r := &replaceable{t: t, l: l, host: host, config: strings.TrimSuffix(socket, ".sock") + ".yaml", sock: socket}
		r.pid = daemonOf(t, r.config)
		daemons, helpers = append(daemons, r), append(helpers, managed(t, l, r))
	}
	return daemons, helpers
}

// nothingKept waits until the service managers have nothing of jobs or ports.
func nothingKept(t *testing.T, helpers []*manager) {
	t.Helper()
	eventually(t, "the service managers have nothing of jobs and ports", func() bool {
		for _, m := range helpers {
			if m.keeps("port")+m.keeps("job")+m.keeps("pair") > 0 {
				return false
			}
		}
		return true
	})
}

// TestReplaceHelpers is TestReplaceDaemons with helpers that are services, which are stopped or
// killed in turn with the daemons.
func TestReplaceHelpers(t *testing.T) {
	long.Test(t)
	s := directs(t)
	daemons, helpers := managers(t, s)
	replacing(s, daemons, func(i int) {
		signal := syscall.SIGTERM
		if i%8 > 3 {
			signal = syscall.SIGKILL
		}
		if i%4 < 2 {
			helpers[i%2].replace(signal)
		} else {
			daemons[i%2].replace(signal)
		}
	})
	nothingKept(t, helpers)
}

// TestHelperEndsInTheMiddle: helpers are killed again and again while jobs of direct ports come and
// go: each job verifies its data, and nothing is left.
func TestHelperEndsInTheMiddle(t *testing.T) {
	long.Test(t)
	kills := *replacements * 3 / 4
	s := directs(t)
	_, helpers := managers(t, s)
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		jobs := 0
		defer func() { done <- jobs }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if t.Failed() {
				return
			}
			cmd := nobody(exec.Command(command, "run", "--lab="+s.name, "--card", s.card, "-n", "4", "--", "funet",
				"pingpong", "--exchanges", "50", "--warm-up", "10"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("job %d: %v: %s", jobs, err, tail(string(out)))
				return
			}
			jobs++
		}
	}()
	for i := range kills {
		// another one of a job each time
		m, moment := helpers[i%2], time.Now().Add(time.Duration(i%15)*37*time.Millisecond)
		eventually(t, "the helper has a job", func() bool {
			return time.Now().After(moment) && (m.keeps("job") > 0 || t.Failed())
		})
		m.replace(syscall.SIGKILL)
	}
	close(stop)
	t.Logf("%d helpers killed during %d jobs", kills, <-done)
	if t.Failed() {
		return
	}
	nothingKept(t, helpers)
	s.free()
	bare(t, s.name)
}
