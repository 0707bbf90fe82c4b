package hostile

// This file is a host that lies about the time by which groups take turns, beside two groups whose
// cards have room for one. Package turns tests in virtual time what such groups keep of their rate,
// and `make share` measures it.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/tests/attack"
	"github.com/funet/funet/tests/long"
)

// newTurnsBed makes a lab of four hosts behind a router, whose groups take turns together. Host 0
// is the liar's, and the bed has the others.
func newTurnsBed(t *testing.T) *bed {
	t.Helper()
	l, err := lab.Up(lab.Options{Hosts: 4, Topology: lab.Star})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	p, err := hwprofiles.Load("native")
	if err != nil {
		t.Fatal(err)
	}
	p.Name, p.Card.Contexts = "one-group", 1
	text, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	profile := filepath.Join(t.TempDir(), "one-group.yaml")
	if err := os.WriteFile(profile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, lab: l, first: 1}
	var sockets []string
	if err = l.StartDaemons(lab.DaemonOptions{Program: funid(t),
		More: fmt.Sprintf("turns: together\nprofile: %s\n", profile)}); err == nil {
		sockets, err = l.Sockets()
	}
	if err != nil {
		t.Fatal(err)
	}
	b.sockets = sockets[1:]
	return b
}

// TestTimeLiar: two groups that take turns together lose nothing and go on, and their hosts keep to
// one time, while the host with the lowest number tells each of them another one.
func TestTimeLiar(t *testing.T) {
	long.Test(t)
	d, _ := length(t, 10*time.Second)
	b := newTurnsBed(t)
	l := newLedger()
	goOn, end := b.traffic(t, l)
	goOn("before a host lies")
	coordinated := func(when string) {
		t.Helper()
		for host := range b.sockets {
			until(t, fmt.Sprintf("host %d takes its turns with others %s", b.first+host, when), func() bool {
				s := b.status(host)
				return s.Turns != nil && s.Turns.Coordinated
			}, func() string { return fmt.Sprintf("%+v", b.status(host).Turns) })
		}
	}
	coordinated("before a host lies")
	c := attack.Config{Attack: "hub_time"}
	for _, h := range b.lab.Hosts() {
		c.Places = append(c.Places, attack.Place{MAC: h.Interfaces[0].MAC.String()})
	}
	liar := &actor{said: make(chan string, 64)}
	var did atomic.Int64
	liar.process = start(t, "attacker", c, options{name: "the liar",
		by: func(c *exec.Cmd) error { return b.lab.Start(0, c) },
		hear: func(line string) {
			var n int64
			if _, err := fmt.Sscanf(line, "did %d", &n); err == nil {
				did.Store(n)
				return
			}
			liar.said <- line
		}})
	liar.await("ready")
	stays(t, l, d/2)
	goOn("while a host lies")
	coordinated("while a host lies")
	told := did.Load()
	until(t, "the host goes on to lie", func() bool { return did.Load() > told }, func() string {
		return fmt.Sprintf("%d times told", told)
	})
	if !liar.Running() {
		t.Errorf("the liar ended: %v\n%s", liar.Err, liar.Complaints())
	}
	t.Logf("%d times told; requests answered: %d", did.Load(), l.answered())
	liar.kill()
	goOn("after that")
	end()
	b.empty()
}
