package hostile

// This file is the attacks of package attack, each for a time beside verified traffic.

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/funet/funet/ctl/daemon"
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
func attackRules() []daemon.Rule {
	return []daemon.Rule{{Who: daemon.Who{Users: []uint32{0}}, Contexts: 2048, Jobs: 1024, Connections: 1024}, {}}
}

// siege is an attack that goes on, with what belongs to it.
type siege struct {
	groups    []*group
	processes []*actor
	did       atomic.Int64
}

// besiege starts an attack.
func (b *bed) besiege(a attack.Attack, nextGID *uint16) *siege {
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
			p.process = start(b.t, "attacker", attack.Config{Attack: name, Socket: socket, Host: host, Groups: groups}, options{
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
		play(attack.Sleepers, firstSleeper+n, []attack.Group{found(attack.SleepersCards())})
	}
	var groups []attack.Group
	for range a.Groups {
		groups = append(groups, found(a.Cards()))
	}
	play(a.Name, enemyUser, groups)
	for _, p := range s.processes {
		p.await("ready")
	}
	return s
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

// TestAttacks: beside each attack, by one user with a process on each host, two groups of
// others go on; nothing of theirs is lost, twice or damaged; and when it is over, nothing of it
// is left and they go on as before (design idea 10: what one does costs him and nobody else; how
// much it costs others is measured by `make share`).
func TestAttacks(t *testing.T) {
	d, _ := length(t, 10*time.Second)
	each := max(time.Second, d/60)
	r := rand.New(rand.NewPCG(seed(t), 0))
	b := newBed(t, attackRules(), longSilence)
	l := newLedger()
	across := b.newGroup("across", acrossGID, firstVictim, r.Uint32(), 0, 1)
	within := b.newGroup("within", withinGID, firstVictim+1, r.Uint32(), 0, 0)
	var victims []*actor
	for _, g := range []*group{across, within} {
		for node := range uint16(2) {
			a := &actor{said: make(chan string, 1024)}
			a.process = b.victim(g, node, 1, false, options{hear: l.listener(fmt.Sprintf("%s %d", g.name, node), func(s string) { a.said <- s })})
			victims = append(victims, a)
		}
	}
	for _, a := range victims {
		a.await("attached")
	}
	for _, a := range victims {
		a.say("go")
	}
	goOn := func(when string) {
		t.Helper()
		var before []int
		for _, a := range victims {
			before = append(before, l.total(a.name))
		}
		for i, a := range victims {
			until(t, fmt.Sprintf("%s goes on %s", a.name, when), func() bool {
				l.check(t)
				return l.total(a.name) >= before[i]+progress
			}, func() string { return fmt.Sprintf("%d requests were answered", l.total(a.name)-before[i]) })
		}
	}
	connections := func(host int) int { return b.status(host).Connections }
	goOn("before there is an attack")
	quiet := []int{connections(0), connections(1)}
	nextGID := uint16(firstAttackGID)
	for _, a := range attack.Attacks() {
		answered := func() (n int) {
			for _, a := range victims {
				n += l.total(a.name)
			}
			return n
		}
		s := b.besiege(a, &nextGID)
		before, begin := answered(), time.Now()
		stays(t, l, each)
		goOn("beside " + a.Name)
		did := s.did.Load()
		if a.Waits {
			did = 0
		}
		until(t, a.Name+" takes place, and goes on", func() bool { return s.did.Load() > did }, func() string { return fmt.Sprintf("%d done", did) })
		for _, p := range s.processes {
			if !p.running() {
				t.Fatalf("%s ended: %v\n%s", p.name, p.err, p.complaints())
			}
		}
		t.Logf("%s: %d done, and %.0f requests/s of others answered", a.Name, s.did.Load(), float64(answered()-before)/time.Since(begin).Seconds())
		s.end()
		for host, n := range quiet {
			until(t, fmt.Sprintf("nothing of %s is left on host %d", a.Name, host), func() bool {
				now := b.status(host)
				return now.Connections <= n && len(now.Contexts)+now.LeftOut <= len(victims)+2
			}, func() string { return fmt.Sprintf("%+v", b.status(host)) })
		}
		goOn("after " + a.Name)
		b.alive()
	}
	for _, a := range victims {
		a.say("stop")
	}
	for _, a := range victims {
		a.await("quiet")
	}
	for _, a := range victims {
		a.say("end")
		t.Logf("%s: requests answered, blocks answered, returned, late: %s", a.name, a.await("done"))
		if err := a.wait(); err != nil {
			t.Errorf("%s: %v\n%s", a.name, err, a.complaints())
		}
	}
	l.check(t)
	for host := range b.sockets {
		if c := strings.TrimSpace(b.daemons[host].complaints()); c != "" {
			t.Logf("daemon %d: %s", host, c)
		}
	}
	across.end()
	within.end()
	b.empty()
}
