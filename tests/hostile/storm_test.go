package hostile

// This file is the storm: processes and daemons are killed at any instant, by SIGKILL,
// during verified traffic, and started again.

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// storm is the traffic and who takes part in it.
type storm struct {
	t      *testing.T
	b      *bed
	l      *ledger
	r      *rand.Rand
	groups []*group
	actors map[string]*actor
	lives  uint32
	worst  map[string]time.Duration // until somebody noticed
}

// join starts a node of a group.
func (s *storm) join(g *group, node uint16) {
	s.t.Helper()
	s.lives++
	name := fmt.Sprintf("%s %d", g.name, node)
	a := &actor{said: make(chan string, 1<<16)}
	a.process = s.b.victim(g, node, s.lives<<16, true, options{hear: s.l.listener(name, func(line string) {
		if strings.HasPrefix(line, "attached") || strings.HasPrefix(line, "detached") {
			a.attached.Store(line[0] == 'a')
		}
		select {
		case a.said <- line:
		default: // nobody asks
		}
	})})
	a.say("go")
	s.actors[name] = a
}

// whole fails the test if something is wrong that no kill explains.
func (s *storm) whole() {
	s.t.Helper()
	s.l.check(s.t)
	for _, a := range s.actors {
		if !a.Running() {
			s.t.Fatalf("%s has ended: %v\n%s", a.Name, a.Err, a.Complaints())
		}
	}
	s.b.alive()
}

// deaf forgets what an actor has said.
func (a *actor) deaf() {
	for len(a.said) > 0 {
		<-a.said
	}
}

// notice waits until an actor says a word, and notes how long that took.
func (s *storm) notice(what string, a *actor, word string, since time.Time) {
	s.t.Helper()
	a.await(word)
	s.worst[what] = max(s.worst[what], time.Since(since))
}

// killClient kills a node and starts it again, sometimes after its peer has noticed: also of
// one that its daemon, new itself, has not seen, and expects for a while.
func (s *storm) killClient() {
	s.t.Helper()
	g, node := s.groups[s.r.IntN(len(s.groups))], uint16(s.r.IntN(2))
	peer := s.actors[fmt.Sprintf("%s %d", g.name, 1-node)]
	peer.deaf()
	since := time.Now()
	victim := s.actors[fmt.Sprintf("%s %d", g.name, node)]
	victim.kill()
	if s.r.IntN(2) == 0 {
		s.notice("a message to a process that was killed came back", peer, "returned", since)
	}
	s.join(g, node)
}

// killDaemon kills a daemon and starts it again, sometimes after its processes have
// noticed, and sometimes without one of them, which the new one expects in vain for a while.
func (s *storm) killDaemon() {
	s.t.Helper()
	host := s.r.IntN(len(s.b.sockets))
	var own []*actor
	for _, g := range s.groups {
		for node, card := range g.cards {
			// One that was started a moment ago may not be attached yet.
			if a := s.actors[fmt.Sprintf("%s %d", g.name, node)]; int(card) == host && a.attached.Load() {
				a.deaf()
				own = append(own, a)
			}
		}
	}
	slow := s.r.IntN(2) == 0
	since := time.Now()
	s.b.daemons[host].kill()
	for _, a := range own {
		a.attached.Store(false) // until it says so again
	}
	if slow {
		for _, a := range own {
			s.notice("a process knew that its daemon was killed", a, "detached", since)
		}
	}
	g, node := s.groups[s.r.IntN(len(s.groups))], s.r.IntN(2)
	dies := int(g.cards[node]) == host && s.r.IntN(2) == 0
	if dies {
		s.actors[fmt.Sprintf("%s %d", g.name, node)].kill()
	}
	s.b.serve(host)
	for _, g := range s.groups {
		g.jobs[host].Close()
		s.b.found(g, host)
	}
	if dies {
		peer := s.actors[fmt.Sprintf("%s %d", g.name, 1-node)]
		peer.deaf()
		s.notice("a message to a process that died with its daemon came back", peer, "returned", since)
		s.join(g, uint16(node))
	}
}

// flows waits until everybody's traffic flows again.
func (s *storm) flows() {
	s.t.Helper()
	for name := range s.actors {
		first := s.l.total(name)
		until(s.t, name+" exchanges messages after the storm", func() bool {
			return s.l.total(name) > first+1000
		}, func() string { s.whole(); return "" })
	}
}

// TestStorm: 200 times a process or a daemon is killed at any instant and started again (20 times
// in the short form, 5 times with -short). Whoever lives has all that he asked for answered in the
// end, nothing arrives twice or damaged, and when all have gone daemons know of nothing (issue
// "Done when").
func TestStorm(t *testing.T) {
	_, long := length(t, 0)
	kills := 20
	switch {
	case long:
		kills = 200
	case testing.Short():
		kills = 5
	}
	first := seed(t)
	b := newBed(t, nil, shortSilence)
	s := &storm{t: t, b: b, l: newLedger(), r: rand.New(rand.NewPCG(first, first)), actors: map[string]*actor{},
		worst: map[string]time.Duration{}}
	s.l.enter(attacked)
	s.groups = []*group{
		b.newGroup("across", acrossGID, firstVictim, s.r.Uint32(), 0, 1),
		b.newGroup("within", withinGID, firstVictim+1, s.r.Uint32(), 0, 0),
	}
	for _, g := range s.groups {
		for node := range uint16(2) {
			s.join(g, node)
		}
	}
	for _, a := range s.actors {
		a.await("attached")
	}
	daemons := 0
	for range kills {
		<-time.After(time.Duration(s.r.Int64N(int64(300 * time.Millisecond))))
		s.whole()
		if s.r.IntN(5) == 0 {
			daemons++
			s.killDaemon()
		} else {
			s.killClient()
		}
	}
	s.flows()
	for _, a := range s.actors {
		a.say("stop")
	}
	for _, a := range s.actors {
		a.await("quiet")
	}
	for _, a := range s.actors {
		a.say("end")
	}
	for name, a := range s.actors {
		t.Logf("%s at the end: requests answered, blocks answered, returned, late: %s", name, a.await("done"))
		if err := a.wait(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, a.Complaints())
		}
	}
	s.l.check(t)
	t.Logf("%d kills, %d of them daemons; requests/s (sum of medians): %.0f", kills, daemons, s.l.rate("", attacked))
	for what, d := range s.worst {
		t.Logf("%s: at most %v after the kill", what, d.Round(time.Millisecond))
	}
	for _, g := range s.groups {
		g.end()
	}
	b.empty()
	for host := range b.sockets {
		t.Logf("daemon %d: %v", host, b.figures(host))
	}
	b.alive()
}
