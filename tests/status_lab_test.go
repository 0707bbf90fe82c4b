package tests

// This file tests `funet status --lab`.

import (
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Rule: status --lab shows every daemon of a lab, with what each job has moved, to any user; a
// daemon that has died is named, and the others are shown.
func TestStatusOfLab(t *testing.T) {
	s := daemons(t)
	job := s.run("-n", "2", "--", "funet", "pingpong", "--exchanges", "1000000000")
	type document struct {
		Lab   string `json:"lab"`
		Hosts []struct {
			Host   int    `json:"host"`
			Error  string `json:"error"`
			Status struct {
				Card int `json:"card"`
				Jobs []struct {
					Traffic struct {
						Sent     uint64 `json:"packets_sent"`
						Received uint64 `json:"packets_received"`
					} `json:"traffic"`
				} `json:"jobs"`
			} `json:"status"`
		} `json:"hosts"`
	}
	look := func() (d document) {
		t.Helper()
		if err := json.Unmarshal([]byte(start(t, nobody(exec.Command(command, "status", "--lab="+s.name, "--json")),
			nil).ok()), &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	var d document
	eventually(t, "the job has moved a thousand packets on both hosts", func() bool {
		d = look()
		busy := len(d.Hosts) == 2
		for _, h := range d.Hosts {
			busy = busy && len(h.Status.Jobs) == 1 && h.Status.Jobs[0].Traffic.Sent > 1000 &&
				h.Status.Jobs[0].Traffic.Received > 1000
		}
		return busy
	})
	if d.Lab != s.name || d.Hosts[1].Host != 1 || d.Hosts[1].Status.Card != 1 {
		t.Errorf("%+v", d)
	}
	table := funet(t, "status", "--lab="+s.name).ok()
	for _, want := range []string{"host 0 of lab " + s.name, "host 1 of lab " + s.name, "card 1 of ",
		"packets out, in"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table does not say %q:\n%s", want, table)
		}
	}
	job.signal(syscall.SIGTERM)
	job.wait()
	s.free()
	funet(t, "status", "--lab="+s.name, "--socket", s.sockets[0]).fails("--lab or --socket")
	funet(t, "status", "--lab=no-such-lab").fails("no-such-lab", "funet lab up")

	if err := syscall.Kill(daemonPID(t, s.sockets[1]), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its death is told", func() bool {
		p := funet(t, "status", "--lab="+s.name)
		code, out := p.wait(), p.stdout.String()
		return code == 1 && strings.Contains(out, "card 0 of ") && strings.Contains(out, "host 1 of lab") &&
			strings.Contains(p.stderr.String(), "funet: host 1: asking funid at ")
	})
}
