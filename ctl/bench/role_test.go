// The children: what they refuse, and the protocol without a network.

package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/rawxdp"
)

// A role that is unknown or a configuration that makes no sense ends at once.
func TestRunRoleRefuses(t *testing.T) {
	for _, c := range []struct{ role, config string }{
		{"", "{}"},
		{"nobody", "{}"},
		{"udp_spin", ""},
		{"udp_spin", "{"},
		{"udp_spin", `{"exchanges":0}`},
		{"udp_spin", `{"exchanges":1,"warmup":-1}`},
		{"udp_spin", `{"exchanges":1,"cpu":-1}`},
		{roleSendmmsg, ""},
		{roleSendmmsg, `{"exchanges":0}`},
	} {
		if err := runRole(c.role, []byte(c.config)); !errors.Is(err, errRole) {
			t.Errorf("%s %s: %v", c.role, c.config, err)
		}
	}
}

// Addresses, MACs and frame sizes are checked before a system call sees them.
func TestOpenRefuses(t *testing.T) {
	at := func(size int) rawxdp.Config {
		return rawxdp.Config{LocalMAC: make([]byte, 6), RemoteMAC: make([]byte, 6), FrameSize: size}
	}
	for role, open := range roles {
		for _, c := range []roleConfig{
			{},
			{Local: "198.18.0.1:1", Remote: "[::1]:1", Config: rawxdp.Config{LocalMAC: make([]byte, 6),
				RemoteMAC: make([]byte, 5), FrameSize: 104}},
			{Local: "host:1", Config: at(5000)},
			{Config: at(5000), Exchanges: 1, streamConfig: streamConfig{Block: 100, Memory: 100}},
			{Config: at(70_000), Exchanges: 1, streamConfig: streamConfig{Block: 100, Memory: 150, Jumbo: true}},
		} {
			if _, err := open(c); !errors.Is(err, errRole) && !errors.Is(err, rawxdp.ErrConfig) {
				t.Errorf("%s: %v", role, err)
			}
		}
	}
}

// fakeLink counts what it is told.
type fakeLink struct {
	asked, answered []uint64
	closed          int
	err             error
}

func (f *fakeLink) Ask(number uint64) error { f.asked = append(f.asked, number); return f.err }
func (f *fakeLink) Answer() error           { f.answered = append(f.answered, 0); return f.err }
func (f *fakeLink) Got() rawxdp.Modes       { return rawxdp.Modes{Attach: 2, Bind: 1} }
func (f *fakeLink) Close() error            { f.closed++; return nil }

// playOnThread plays on a goroutine of its own, whose pinned thread ends with it.
func playOnThread(f *fakeLink, c roleConfig, in string) (out string, err error) {
	var b bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = play(func(roleConfig) (end, error) { return exchange{f, c}, nil }, c, strings.NewReader(in), &b)
	}()
	<-done
	return b.String(), err
}

// Every turn opens, exchanges warm-up and measured messages and closes; the end of the input ends
// the role.
func TestPlay(t *testing.T) {
	for _, server := range []bool{false, true} {
		f := &fakeLink{}
		out, err := playOnThread(f, roleConfig{Server: server, Warmup: 3, Exchanges: 4}, "open\nrun\nopen\nrun\n")
		if err != nil || f.closed != 2 || len(f.asked)+len(f.answered) != 14 || (len(f.answered) == 14) != server {
			t.Errorf("%v, %+v", err, f)
		}
		lines := strings.Split(out, "\n")
		if len(lines) != 5 || lines[0] != wordReady || lines[2] != wordReady {
			t.Fatalf("said %q", lines)
		}
		var o outcome
		if err := json.Unmarshal([]byte(lines[3]), &o); err != nil || o.Got != (rawxdp.Modes{Attach: 2, Bind: 1}) || (o.P50 == 0) != server {
			t.Errorf("%s: %v", lines[3], err)
		}
	}
}

// What breaks a turn closes the link and ends the role.
func TestPlayFails(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		in     string
		f      fakeLink
		want   error
		closed int
	}{
		{"", fakeLink{}, nil, 0},
		{"run\n", fakeLink{}, errRole, 0},
		{"open\n", fakeLink{}, io.EOF, 1},
		{"open\nopen\n", fakeLink{}, errRole, 1},
		{"open\nrun\n", fakeLink{err: boom}, boom, 1},
	} {
		_, err := playOnThread(&c.f, roleConfig{Exchanges: 1}, c.in)
		if !errors.Is(err, c.want) || c.f.closed != c.closed {
			t.Errorf("%q: %v, closed %d times", c.in, err, c.f.closed)
		}
	}
}

// ends is a connected pair of sockets: the link's and the test's.
func ends(t *testing.T, kind int) (*socketLink, int) {
	t.Helper()
	fd, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd[0]); unix.Close(fd[1]) })
	return &socketLink{fd: fd[0], listener: -1, tcp: kind == unix.SOCK_STREAM}, fd[1]
}

// A message in pieces is put together (TCP is a stream); another number than the one asked for,
// a short datagram and a closed connection are errors.
func TestSocketLink(t *testing.T) {
	var message [payload]byte
	message[0] = 7
	l, other := ends(t, unix.SOCK_STREAM)
	for _, piece := range [][]byte{message[:1], message[1:60], message[60:], message[:]} {
		if _, err := unix.Write(other, piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Ask(7); err != nil {
		t.Error(err)
	}
	if err := l.Ask(8); err == nil || !strings.Contains(err.Error(), "message 7 came back") {
		t.Errorf("another's answer: %v", err)
	}
	if err := unix.Shutdown(other, unix.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	if err := l.Answer(); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("closed connection: %v", err)
	}

	l, other = ends(t, unix.SOCK_DGRAM)
	if _, err := unix.Write(other, message[:10]); err != nil {
		t.Fatal(err)
	}
	if err := l.Answer(); err == nil || !strings.Contains(err.Error(), "received 10 bytes") {
		t.Errorf("short datagram: %v", err)
	}
	if err := l.receive(); err != rawxdp.ErrNoMessage {
		t.Errorf("silence: %v", err)
	}
}
