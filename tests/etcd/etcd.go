// Package etcd runs a real etcd for tests, on loopback, with a folder that ends with the test.
package etcd

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// patience bounds every wait, and is far longer than any wait takes.
const patience = time.Minute

// Server is an etcd, or a member of one. Only the goroutine of the test may change it.
type Server struct {
	t        testing.TB
	name     string
	dir      string
	Endpoint string // host:port
	peer     string
	members  string // all, as --initial-cluster has them
	more     []string
	process  *exec.Cmd
	ended    chan struct{} // closed when it has ended
	Client   *clientv3.Client
}

// Start starts an etcd, which ends with the test; more are further arguments.
func Start(t testing.TB, more ...string) *Server {
	t.Helper()
	s := prepare(t, "one", more)
	s.members = s.name + "=http://" + s.peer
	s.Restart()
	return s
}

// Members starts an etcd of several members, which end with the test.
func Members(t testing.TB, n int) (all []*Server) {
	t.Helper()
	var members []string
	for i := range n {
		// Under load a leader may be late; the others do not choose another one at once.
		s := prepare(t, fmt.Sprint("member-", i), []string{"--heartbeat-interval", "200", "--election-timeout", "2000"})
		members = append(members, s.name+"=http://"+s.peer)
		all = append(all, s)
	}
	for _, s := range all {
		s.members = strings.Join(members, ",")
		s.begin()
	}
	for _, s := range all {
		s.answers()
	}
	return all
}

func prepare(t testing.TB, name string, more []string) *Server {
	s := &Server{t: t, name: name, dir: inMemory(t), Endpoint: Free(t), peer: Free(t), more: more}
	t.Cleanup(s.Kill)
	return s
}

// Leads reports whether a member leads the others.
func (s *Server) Leads() bool {
	s.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	r, err := s.Client.Status(ctx, s.Endpoint)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Leader == r.Header.MemberId
}

// inMemory returns a folder, in memory where that is possible: etcd waits for the disk before it
// answers, and a busy machine's may take longer than a lease.
func inMemory(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "funet-etcd-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Free returns an address of loopback that was free a moment ago.
func Free(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Kill ends etcd as SIGKILL does.
func (s *Server) Kill() {
	if s.process != nil {
		_ = s.process.Process.Signal(syscall.SIGCONT) // if it was paused
		_ = s.process.Process.Kill()
		<-s.ended
		s.process = nil
	}
	if s.Client != nil {
		s.Client.Close()
		s.Client = nil
	}
}

// Forget removes everything that etcd has stored. It must have been killed.
func (s *Server) Forget() {
	if err := os.RemoveAll(filepath.Join(s.dir, "data")); err != nil {
		s.t.Fatal(err)
	}
}

// Copy keeps what etcd has stored, for Restore. It must have been killed.
func (s *Server) Copy() {
	s.t.Helper()
	if err := os.CopyFS(filepath.Join(s.dir, "copy"), os.DirFS(filepath.Join(s.dir, "data"))); err != nil {
		s.t.Fatal(err)
	}
}

// Restore makes etcd have what it had when it was copied. It must have been killed.
func (s *Server) Restore() {
	s.t.Helper()
	s.Forget()
	if err := os.Rename(filepath.Join(s.dir, "copy"), filepath.Join(s.dir, "data")); err != nil {
		s.t.Fatal(err)
	}
}

// Pause stops etcd for a while, or lets it go on.
func (s *Server) Pause(so bool) {
	s.t.Helper()
	signal := syscall.SIGCONT
	if so {
		signal = syscall.SIGSTOP
	}
	if err := s.process.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

// Restart starts etcd, and waits until it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.begin()
	s.answers()
}

// begin starts etcd.
func (s *Server) begin() {
	s.t.Helper()
	program, err := exec.LookPath("etcd")
	if err != nil {
		s.t.Fatalf("%v; `make tools` installs it", err)
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	data := filepath.Join(s.dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		s.t.Fatal(err)
	}
	scheme := s.scheme()
	c := exec.Command(program, append([]string{"--data-dir", data, "--name", s.name,
		"--listen-client-urls", scheme + s.Endpoint, "--advertise-client-urls", scheme + s.Endpoint,
		"--listen-peer-urls", "http://" + s.peer, "--initial-advertise-peer-urls", "http://" + s.peer,
		"--initial-cluster", s.members}, s.more...)...)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		// The kernel kills the child with the thread that started it (prctl(2), PR_SET_PDEATHSIG).
		runtime.LockOSThread()
		defer close(ended)
		err := c.Start()
		started <- err
		if err == nil {
			_ = c.Wait() // it was killed
		}
	}()
	if err := <-started; err != nil {
		s.t.Fatal(err)
	}
	s.process, s.ended = c, ended
}

func (s *Server) scheme() string {
	if slices.Contains(s.more, "--client-cert-auth") {
		return "https://"
	}
	return "http://"
}

// answers waits until etcd answers.
func (s *Server) answers() {
	s.t.Helper()
	if s.scheme() == "https://" {
		return // the test has the certificates
	}
	var err error
	s.Client, err = clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint}, Logger: zap.NewNop()})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	for {
		asking, done := context.WithTimeout(ctx, time.Second)
		_, err := s.Client.Get(asking, "x")
		if done(); err == nil {
			return
		}
		if ctx.Err() != nil {
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			s.t.Fatalf("etcd does not answer: %v\n%s", err, text)
		}
	}
}

// Compact makes etcd forget all revisions but the present one.
func (s *Server) Compact() {
	s.t.Helper()
	r, err := s.Client.Get(context.Background(), "x")
	if err == nil {
		_, err = s.Client.Compact(context.Background(), r.Header.Revision)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Put writes a key, without a lease.
func (s *Server) Put(key, value string) {
	s.t.Helper()
	if _, err := s.Client.Put(context.Background(), key, value); err != nil {
		s.t.Fatal(err)
	}
}

// Delete deletes a key.
func (s *Server) Delete(key string) {
	s.t.Helper()
	if _, err := s.Client.Delete(context.Background(), key); err != nil {
		s.t.Fatal(err)
	}
}

// Keys returns what is below a prefix.
func (s *Server) Keys(prefix string) map[string]string {
	s.t.Helper()
	r, err := s.Client.Get(context.Background(), prefix, clientv3.WithPrefix())
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]string{}
	for _, kv := range r.Kvs {
		all[string(kv.Key)] = string(kv.Value)
	}
	return all
}
