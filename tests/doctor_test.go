package tests

// This file tests `funet doctor` as a person uses it, with funid's that have the interfaces.

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/funet/funet/ctl/doctor"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// diagnosis is the JSON document of doctor.
type diagnosis struct {
	Verdict  doctor.Verdict   `json:"verdict"`
	Findings []doctor.Finding `json:"findings"`
}

// TestDoctorBesideDaemons: probes pass between hosts whose interfaces are funid's, in either XDP
// mode (package ctl/doctor/probe: the NIC program leaves them to the kernel), and the doctor knows
// both cards.
func TestDoctorBesideDaemons(t *testing.T) {
	long.Test(t)
	for _, mode := range []string{"generic", "native"} {
		t.Run(mode, func(t *testing.T) {
			l, err := lab.Up(lab.Options{Hosts: 2})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			})
			if err := l.StartDaemons(lab.DaemonOptions{Program: strings.TrimSuffix(command, "funet") + "funid",
				XDP: mode}); err != nil {
				t.Fatal(err)
			}
			sockets, err := l.Sockets()
			if err != nil {
				t.Fatal(err)
			}
			answerer := on(t, l, 1, "doctor", "--answer", "--iface", "fu0", "--socket", sockets[1])
			eventually(t, "it answers", func() bool { return strings.Contains(answerer.stderr.String(), "answering") })

			p := on(t, l, 0, "doctor", "--socket", sockets[0], "--json",
				l.Hosts()[1].Interfaces[0].Addr.Addr().String())
			p.wait()
			d := decode[diagnosis](t, p.stdout.String())
			passes, cards := 0, false
			for _, f := range d.Findings {
				if f.Verdict == doctor.Fail {
					t.Errorf("%+v", f)
				}
				if f.Found == "passes" {
					passes++
				}
				cards = cards || f.Check == "card number" && f.Verdict == doctor.OK &&
					strings.Contains(f.Found, "2 cards")
			}
			if passes != 4 || !cards {
				t.Errorf("%d ways pass, cards known: %v: %s", passes, cards, p.stdout.String())
			}
			begin := time.Now()
			if err := answerer.cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			if code := answerer.wait(); code != 130 {
				t.Errorf("Ctrl-C ended the answerer with %d after %v", code, time.Since(begin))
			}
		})
	}
}

// TestSilentPeer: a program whose peer is silent says why, as the doctor finds out.
func TestSilentPeer(t *testing.T) {
	long.Test(t)
	t.Parallel()
	name, l := namedLab(t)
	good := funet(t, "lab", "peers", name).ok()
	play := func(peers string) *process {
		return on(t, l, 0, "pingpong", "--iface", "fu0", "--node", "0", "--peers", peers, "--wait", "1s")
	}
	play(file(t, good)).fails("peer silent", "see that the program runs there")

	answerer := on(t, l, 1, "doctor", "--answer", "--iface", "fu0")
	eventually(t, "it answers", func() bool { return strings.Contains(answerer.stderr.String(), "answering") })
	play(file(t, strings.Replace(good, "02:46:55:00:01:01", "02:46:55:00:01:99", 1))).
		fails("peer silent", "nobody answers at 02:46:55:00:01:99, others do", "mac of node 1", "02:46:55:00:01:01")

	err := l.Do(1, func() error {
		link, err := netlink.LinkByName("fu0")
		if err != nil {
			return err
		}
		return netlink.LinkSetDown(link)
	})
	if err != nil {
		t.Fatal(err)
	}
	play(file(t, good)).fails("peer silent", "no carrier", "cable")
}

// TestDoctorTable: people get aligned lines with cures and an exit code that tells of a failure.
func TestDoctorTable(t *testing.T) {
	p := funet(t, "doctor", "--iface", "eth-none", "--socket", "/none")
	if code := p.wait(); code != 1 || p.stderr.Len() != 0 {
		t.Errorf("exit code %d, stderr %q", code, p.stderr.String())
	}
	lines := strings.Split(strings.TrimSuffix(p.stdout.String(), "\n"), "\n")
	at := strings.Index(lines[0], "found")
	for _, line := range lines[1:] {
		if len(line) < at || line[at-1] != ' ' || line[at] == ' ' {
			t.Errorf("not aligned with %q: %q", lines[0], line)
		}
	}
	if !strings.Contains(p.stdout.String(), "fail   eth-none   interface") ||
		!strings.Contains(p.stdout.String(), " -> name one of ") {
		t.Error(p.stdout.String())
	}
}

// TestDoctorRefusals: mistakes on the command line.
func TestDoctorRefusals(t *testing.T) {
	funet(t, "doctor", "--answer").fails("--answer", "--iface")
	funet(t, "doctor", "--answer", "--iface", "eth-none").fails("eth-none", "ip link")
	funet(t, "doctor", "--answer", "--iface", "lo").fails("lo", "no Ethernet address")
	funet(t, "doctor", "--patience", "0s").fails("--patience 0s", "above 0")
	funet(t, "doctor", "a", "b").fails("funet doctor --help")
}
