package hostile

// This file is the attacks of package attack, each for a time beside verified traffic.

import (
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/tests/attack"
)

const (
	// firstAttackGID is the first GID of the attacks' groups, which take GIDs in turn.
	firstAttackGID = 100
	// firstSleeper is the first of the users whose contexts sleep.
	firstSleeper = 52700
	// progress is how many requests of each node are answered within patience whatever goes on.
	progress = 100
)

// attackRules are daemon.DefaultRule for everybody but the administrator, who makes the groups.
func attackRules() []config.Rule {
	return []config.Rule{{Who: config.Who{Users: []uint32{0}}, Contexts: 2048, Jobs: 1024, Connections: 1024}, {}}
}

// siege is an attack that goes on, with what belongs to it.
type siege struct {
	groups    []*group
	starts    []func()
	processes []*actor
	did       atomic.Int64
}

// besiege starts an attack of a user.
func (b *bed) besiege(a attack.Attack, user uint32, nextGID *uint16) *siege {
	b.t.Helper()
	s := b.surround(a, user, nextGID)
	s.begin()
	return s
}

// surround makes what belongs to it.
func (b *bed) surround(a attack.Attack, user uint32, nextGID *uint16) *siege {
	b.t.Helper()
	s := &siege{}
	found := func(cards []uint16) attack.Group {
		g := b.newGroup(a.Name, *nextGID, 0, 0, cards...)
		*nextGID++
		s.groups = append(s.groups, g)
		return attack.Group{GID: g.gid, Token: g.token.Text()}
	}
	play := func(name string, user uint32, groups []attack.Group) {
		for host, socket := range b.sockets {
			p := &actor{said: make(chan string, 64)}
			last := int64(0)
			p.process = start(b.t, "attacker", attack.Config{Attack: name, Socket: socket, Host: host, Groups: groups},
				options{
					name: fmt.Sprintf("%s on host %d", name, host), user: user,
					by: func(c *exec.Cmd) error { return b.lab.Start(host, c) },
					hear: func(line string) {
						var n int64
						if _, err := fmt.Sscanf(line, "did %d", &n); err == nil {
							s.did.Add(n - last)
							last = n
							return
						}
						p.said <- line
					},
				})
			s.processes = append(s.processes, p)
		}
	}
	for n := range uint32(a.Sleepers) {
		of := []attack.Group{found(attack.SleepersCards())}
		s.starts = append(s.starts, func() { play(attack.Sleepers, firstSleeper+n, of) })
	}
	var groups []attack.Group
	for range a.Groups {
		groups = append(groups, found(a.Cards()))
	}
	s.starts = append(s.starts, func() { play(a.Name, user, groups) })
	return s
}

// begin starts its processes.
func (s *siege) begin() {
	for _, start := range s.starts {
		start()
	}
	for _, p := range s.processes {
		p.await("ready")
	}
}

// end ends it.
func (s *siege) end() {
	for _, p := range s.processes {
		p.kill()
	}
	for _, g := range s.groups {
		g.end()
	}
}

// TestAttacks: one user attacks, with a process on each host, and two groups of others go on beside
// each attack. Nothing of theirs is lost, twice or damaged. When the attack is over, nothing of it
// is left and the others go on as before. A user's actions cost that user and no other (design idea
// 10); `make share` measures how much they cost others.
func TestAttacks(t *testing.T) {
	d, _ := length(t, 10*time.Second)
	b := newBed(t, attackRules(), longSilence)
	attacks := attack.Attacks()
	if testing.Short() {
		attacks = attacks[:3]
	}
	b.withstand(t, attacks, max(time.Second, d/60), nil)
	for host := range b.sockets {
		if c := strings.TrimSpace(b.daemons[host].Complaints()); c != "" {
			t.Logf("daemon %d: %s", host, c)
		}
	}
}

// withstand lets each attack go on for a time beside the traffic of others, and then more, if that
// is not nil.
func (b *bed) withstand(t *testing.T, attacks []attack.Attack, each time.Duration,
	more func(goOn func(when string), nextGID *uint16)) {
	t.Helper()
	l := newLedger()
	goOn, end := b.traffic(t, l)
	goOn("before there is an attack")
	var quiet []remains
	for host := range b.sockets {
		quiet = append(quiet, b.remains(host))
	}
	nextGID := uint16(firstAttackGID)
	for _, a := range attacks {
		s := b.besiege(a, enemyUser, &nextGID)
		before, begin := l.answered(), time.Now()
		stays(t, l, each)
		goOn("beside " + a.Name)
		did := s.did.Load()
		if a.Waits {
			did = 0
		}
		until(t, a.Name+" takes place, and goes on", func() bool { return s.did.Load() > did }, func() string {
			return fmt.Sprintf("%d done", did)
		})
		s.goesOn()
		t.Logf("%s: %d done, and %.0f requests/s of others answered", a.Name, s.did.Load(),
			float64(l.answered()-before)/time.Since(begin).Seconds())
		s.end()
		b.forgets(a.Name, quiet)
		goOn("after " + a.Name)
		b.alive()
	}
	if more != nil {
		more(goOn, &nextGID)
		b.forgets("all that", quiet)
	}
	end()
	b.empty()
}

// goesOn fails the test if a process of the attack has ended.
func (s *siege) goesOn() {
	for _, p := range s.processes {
		if !p.Running() {
			p.t.Fatalf("%s ended: %v\n%s", p.Name, p.Err, p.Complaints())
		}
	}
}

// remains are what a daemon has of others: connections, contexts, ports and jobs.
type remains struct{ connections, contexts, ports, jobs int }

func (b *bed) remains(host int) remains {
	b.t.Helper()
	s := b.status(host)
	return remains{s.Connections, len(s.Contexts) + s.LeftOut, len(s.Ports), len(s.Jobs)}
}

// forgets waits until daemons have no more than when it was quiet.
func (b *bed) forgets(name string, quiet []remains) {
	b.t.Helper()
	for host, before := range quiet {
		var now remains
		until(b.t, fmt.Sprintf("nothing of %s is left on host %d", name, host), func() bool {
			now = b.remains(host)
			return now.connections <= before.connections && now.contexts <= before.contexts && now.ports <=
				before.ports && now.jobs <= before.jobs
		}, func() string { return fmt.Sprintf("%+v, before %+v", now, before) })
	}
}
