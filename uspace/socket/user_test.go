package socket_test

// This file is the sockets of a user without privileges, through daemons: the tests run once more,
// in processes of users that nobody on the machine is.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/daemons"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/socket"
)

const (
	// userVariable has the test binary run the tests of TestAsUser: it says how nodes 0 and 1
	// attach.
	userVariable = "FUNET_TEST_USER"
	// Users that nobody else is: of nodes 0 and 1, and of node 2.
	testUser, otherUser = 52001, 52002
)

// Rule (doc.go): a user without any privilege has all that root has, through the daemons of the
// hosts: what Go's tests of connections ask for, packets, calls, and errors. Processes of different
// users with the job's token reach each other. Without the token no process attaches.
func TestAsUser(t *testing.T) {
	if at := os.Getenv(userVariable); at != "" {
		asUser(t, at)
		return
	}
	l, err := lab.Up(lab.Options{Hosts: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	nodes := daemons.Run(t, l, 9)
	program := copyForAll(t)
	start := func(user uint32, variable string, nodes []attach.Config, args ...string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		at := []any{nodes[0].GID, nodes[0].Node, nodes[0].Token.Text()}
		for _, n := range nodes {
			at = append(at, n.Socket)
		}
		cmd.Dir = filepath.Dir(program)
		cmd.Env = append(os.Environ(), variable+"="+strings.TrimSpace(fmt.Sprintln(at...)))
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
			Credential: &syscall.Credential{Uid: user, Gid: user}}
		return cmd
	}
	server := start(otherUser, victimVariable, nodes[2:])
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err == nil {
		err = l.Start(2, server)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = server.Process.Kill(), server.Wait() }()
	if _, err := io.ReadFull(out, make([]byte, len("listening"))); err != nil {
		t.Fatal("the server ended: ", err)
	}
	tests := start(testUser, userVariable, nodes[:2], "-test.run=^TestAsUser$", "-test.v", "-test.timeout=5m")
	var said bytes.Buffer
	tests.Stdout, tests.Stderr = &said, &said
	if err = l.Start(0, tests); err == nil {
		err = tests.Wait()
	}
	text := said.Bytes()
	if err != nil || !bytes.Contains(text, []byte("--- PASS: TestAsUser/")) {
		t.Fatalf("as user %d: %v\n%s", testUser, err, text)
	}
}

// copyForAll copies the test binary to where every user may execute it: `go test` puts it where
// only its user finds it.
func copyForAll(t *testing.T) (path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "funet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path = filepath.Join(dir, "socket.test")
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close(), os.Chmod(path, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// asUser is the life of the process of nodes 0 and 1.
func asUser(t *testing.T, at string) {
	var gid, first uint16
	var text string
	var paths [2]string
	if _, err := fmt.Sscan(at, &gid, &first, &text, &paths[0], &paths[1]); err != nil {
		t.Fatal(err)
	}
	token, err := attach.ParseToken(text)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("no privileges", func(t *testing.T) {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil || os.Geteuid() != testUser || !bytes.Contains(status, []byte("CapEff:\t0000000000000000\n")) {
			t.Errorf("user %d, %v: %s", os.Geteuid(), err, status)
		}
		c := card.Config{Interfaces: []string{"fu0"}, GID: gid, Token: token, Peers: []card.Peer{{MAC: [6]byte{2}}},
			CPU: -1, AnyThread: true}
		if s, err := socket.Open(t.Context(), socket.Options{Options: funet.Options{Card: &c}}); !errors.Is(err,
			os.ErrPermission) {
			t.Errorf("a card of its own: %v, %v", s, err)
		}
	})
	t.Run("no token", func(t *testing.T) {
		for _, token := range []attach.Token{{}, {1}, attach.NewToken()} {
			c := attach.Config{Socket: paths[0], GID: gid, Token: token}
			if s, err := socket.Open(t.Context(), socket.Options{Options: funet.Options{Attach: &c}}); !errors.Is(err,
				attach.ErrToken) {
				t.Errorf("with another token: %v, %v", s, err)
			}
		}
	})
	var stacks [2]*socket.Stack
	for i := range stacks {
		c := attach.Config{Socket: paths[i], GID: gid, Node: first + uint16(i), Token: token}
		o := socket.Options{Options: funet.Options{Attach: &c}, Calls: true}
		if stacks[i], err = socket.Open(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		// nettest leaves ends that nobody reads from
		defer func() { _ = stacks[i].Close(time.Second) }()
	}
	t.Run("connection", func(t *testing.T) { connection(t, stacks) })
	t.Run("refused", func(t *testing.T) { userRefused(t, stacks[0]) })
	t.Run("packets", func(t *testing.T) { userPackets(t, stacks) })
	t.Run("calls", func(t *testing.T) {
		serve(t, stacks)
		calls(t, stacks[0].Endpoint())
	})
	t.Run("another user", func(t *testing.T) { userEcho(t, stacks[0], "2:7") })
	t.Run("nettest", func(t *testing.T) { conformity(t, stacks) })
}

// userRefused dials where nobody listens.
func userRefused(t *testing.T, s *socket.Stack) {
	for _, address := range []string{"0:9", "1:9", "2:9"} {
		if _, err := s.Dial(socket.Network, address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dialing %s: %v", address, err)
		}
	}
	if _, err := s.Dial(socket.Network, "3:7"); err == nil {
		t.Error("a node beyond the job was dialed")
	}
}

// userPackets sends packets of all lengths, each of which comes once and whole.
func userPackets(t *testing.T, stacks [2]*socket.Stack) {
	from, err := stacks[0].ListenPacket(socket.Network, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := stacks[1].ListenPacket(socket.Network, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	want := map[string]bool{}
	var writer sync.WaitGroup
	defer writer.Wait()
	var all [][]byte
	r := rand.New(rand.NewPCG(1, 2))
	for size := 4; size <= socket.MaxPacket; size += 97 {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		all, want[string(b)] = append(all, b), true
	}
	writer.Go(func() {
		for _, b := range all {
			if _, err := from.WriteTo(b, to.LocalAddr()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	b := make([]byte, socket.MaxPacket)
	_ = to.SetReadDeadline(time.Now().Add(patience))
	for len(want) > 0 {
		n, source, err := to.ReadFrom(b)
		if err != nil || source.String() != from.LocalAddr().String() || !want[string(b[:n])] {
			t.Fatalf("%d bytes from %v, %v; they were not sent, or came twice", n, source, err)
		}
		delete(want, string(b[:n]))
	}
	if _, err := from.WriteTo(make([]byte, socket.MaxPacket+1), to.LocalAddr()); !errors.Is(err, syscall.EMSGSIZE) {
		t.Errorf("a packet that is too long: %v", err)
	}
}

// userEcho has many connections at once to a process that sends back what comes.
func userEcho(t *testing.T, s *socket.Stack, address string) {
	const conns, size = 32, 200_000
	var all sync.WaitGroup
	for i := range conns {
		all.Go(func() {
			c, err := s.Dial(socket.Network, address)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			b := bytes.Repeat([]byte{byte(i), byte(i + 1), byte(i * 3)}, size/3)
			all.Go(func() {
				if _, err := c.Write(b); err != nil {
					t.Error(err)
				}
			})
			got := make([]byte, len(b))
			if n, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, b) {
				t.Errorf("connection %d: %d bytes came back, %v, or others", i, n, err)
			}
			if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
