package tests

// This file tests direct ports of several nodes on one host, whose frames go through shared memory.

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/tests/long"
)

// oneHost makes a lab of which only host 0 has a daemon, which gives direct ports: all nodes of
// jobs are there.
func oneHost(t *testing.T) *service {
	t.Helper()
	name, l := namedLab(t)
	if err := l.StartDaemons(lab.DaemonOptions{Program: filepath.Join(filepath.Dir(command), "funid"), XDP: "native",
		Hosts: 1, More: "carriage: direct\n"}); err != nil {
		t.Fatal(err)
	}
	sockets, err := l.Sockets()
	if err != nil {
		t.Fatal(err)
	}
	return &service{t, name, sockets, "direct"}
}

// TestSharedPrograms: programs of an ordinary user verify their data on one host. The counters of
// node 0 say that its frames went through memory, and nothing is left of it.
func TestSharedPrograms(t *testing.T) {
	long.Test(t)
	const exchanges = 5000
	s := oneHost(t)
	out := s.run("-n", "2", "--", "funet", "pingpong", "--exchanges", "5000", "--warm-up", "1000", "--json").ok()
	var r program.PingPongResult
	var first strings.Builder
	for line := range strings.Lines(out) {
		if text, ok := strings.CutPrefix(line, "[0] "); ok {
			first.WriteString(text)
		}
	}
	if err := json.Unmarshal([]byte(first.String()), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := r.Shared
	if r.Exchanges != exchanges || c == nil || c.With != 1 || c.Joined != 1 || c.Sent == 0 || c.Received == 0 {
		t.Fatalf("%d exchanges, and through memory %+v: %s", r.Exchanges, c, out)
	}
	// A neighbour that had to sleep, beside others that compute, was woken by its socket.
	if c.Sent+c.Asleep+c.Full < exchanges || c.Broken+c.Ended+c.Forged+c.BadLength+c.BadVersion+c.Misrouted != 0 {
		t.Errorf("%+v", c)
	}
	out = s.run("-n", "3", "--", "funet", "pingpong", "--exchanges", "500", "--warm-up", "100").ok()
	if want := "own card on a direct port, shared memory with 1 of its host's nodes"; !strings.Contains(out, want) {
		t.Errorf("it did not print %q: %s", want, out)
	}
	runPrograms(s, "native")
	s.free()
	bare(t, s.name)
}

// TestSharedRejoin is TestRejoin of nodes on one host: who is killed leaves memory behind, and the
// node's next process gets other memory.
func TestSharedRejoin(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := oneHost(t)
	rejoin(s, 8)
	bare(t, s.name)
}

// shared waits until the daemon has so many ports of processes, each of which shares memory with
// another.
func (r *replaceable) shared(n int) {
	r.t.Helper()
	eventually(r.t, "all processes of a host share memory", func() bool {
		p := funet(r.t, "status", "--socket", r.sock, "--json")
		if p.wait() != 0 {
			return false // it has yet to start
		}
		var s report.Status
		if err := json.Unmarshal(p.stdout.Bytes(), &s); err != nil {
			r.t.Fatal(err)
		}
		for _, p := range s.Ports {
			if p.Shared != 1 || p.Frames == nil {
				return false
			}
		}
		return len(s.Ports) == n
	})
}
