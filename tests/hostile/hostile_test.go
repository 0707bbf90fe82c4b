package hostile

// This file is the test with the enemy: victims' traffic in calm, beside a process that
// only computes, and beside the enemy, in turn.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/funet/funet/ctl/config"
)

// The groups.
const (
	acrossGID = 10 // a node on each host
	withinGID = 11 // both nodes on host 0
	enemyGID  = 30
)

// rules: the enemy has GIDs of his own, everybody else the rest.
func rules() []config.Rule {
	return []config.Rule{
		{Who: config.Who{Users: []uint32{enemyUser}}, GIDs: []config.Range{{First: enemyGID, Last: enemyGID + 9}},
			Contexts: 8, Jobs: 6, Connections: 48, Bytes: 32 << 20},
		{Who: config.Who{Users: []uint32{0}}}, // makes the groups
		{GIDs: []config.Range{{First: 1, Last: enemyGID - 1}}},
	}
}

// enemies is the hostile user: one process after the other, each with the next seed.
type enemies struct {
	b      *bed
	config enemyConfig
	ledger *ledger
	lives  int
	now    *process

	mu  sync.Mutex
	did map[string]int
}

// count takes what an enemy says that it has done.
func (e *enemies) count(line string) {
	words := strings.Fields(line)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := 1; i+1 < len(words) && words[0] == "did"; i += 2 {
		n, _ := strconv.Atoi(words[i+1])
		e.did[words[i]] += n
	}
}

// String says what they have done.
func (e *enemies) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for name, n := range e.did {
		all = append(all, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(all)
	return fmt.Sprintf("%d lives: %s", e.lives, strings.Join(all, ", "))
}

// attack goes on for a time.
func (e *enemies) attack(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		e.b.alive()
		c := e.config
		c.Seed += uint64(e.lives)
		e.lives++
		e.now = start(e.b.t, "enemy", c, options{name: "enemy", user: enemyUser,
			hear: e.ledger.listener(fmt.Sprintf("enemy with seed %d", c.Seed), e.count)})
		select {
		case <-e.now.Ended:
		case <-time.After(time.Until(end)):
		}
		if strings.Contains(e.now.Complaints(), "panic:") {
			e.b.t.Errorf("the enemy's program has a fault of its own:\n%s", e.now.Complaints())
		}
	}
	e.now.kill() // its offspring, too
}

// TestHostile: while an enemy does all it can, nothing of the traffic of two groups of
// others is lost, damaged or delivered to somebody else, and the daemons do not grow.
func TestHostile(t *testing.T) {
	d, long := length(t, 10*time.Second)
	first := seed(t)
	r := rand.New(rand.NewPCG(first, first))
	b := newBed(t, rules(), longSilence)
	l := newLedger()
	across := b.newGroup("across", acrossGID, firstVictim, r.Uint32(), 0, 1)
	within := b.newGroup("within", withinGID, firstVictim+1, r.Uint32(), 0, 0)
	enemyGroup := b.newGroup("enemy", enemyGID, enemyUser, 0, 0, 1)
	var victims []*actor
	for _, g := range []*group{across, within} {
		for node := range uint16(2) {
			a := &actor{said: make(chan string, 1024)}
			a.process = b.victim(g, node, 1, false,
				options{hear: l.listener(fmt.Sprintf("%s %d", g.name, node), func(s string) { a.said <- s })})
			victims = append(victims, a)
		}
	}
	for _, a := range victims {
		if caps := a.await("attached"); strings.Trim(caps, "0 ") != "" {
			t.Errorf("%s has capabilities: %s", a.Name, caps)
		}
	}
	for _, a := range victims {
		a.say("go")
	}
	enemy := &enemies{b: b, ledger: l, did: map[string]int{},
		config: enemyConfig{Sockets: b.sockets, GID: enemyGID, Token: enemyGroup.token.Text(),
			Others: []uint16{acrossGID, withinGID},
			Bytes:  32 << 20, Seed: first, Life: 2 * time.Second}}

	l.enter(fresh)
	stays(t, l, d/10)
	l.enter(between)
	calmly := newGrowth(b)
	// Memory that is allocated once, and what caches need, is there after this.
	enemy.attack(d / 6)

	rounds := max(leastSamples, int(d/(20*time.Second)))
	round := (d - d/6) / time.Duration(rounds)
	for range rounds {
		l.enter(calm)
		stays(t, l, round/4)
		l.enter(between)
		computer := start(t, "computer", nil, options{name: "computer", user: enemyUser})
		l.enter(computed)
		stays(t, l, round/8)
		computer.kill()
		l.enter(attacked)
		enemy.attack(round * 5 / 8)
		l.enter(between)
		l.check(t)
		calmly.sample()
	}
	calmly.judge()
	for host := range b.sockets {
		c := b.status(host).Counters
		t.Logf("card %d: %+v", host, *c)
	}
	for _, a := range victims {
		a.say("stop")
	}
	for _, a := range victims {
		a.await("quiet")
	}
	for _, a := range victims {
		a.say("end")
		t.Logf("%s: requests answered, blocks answered, returned, late: %s", a.Name, a.await("done"))
		if err := a.wait(); err != nil {
			t.Errorf("%s: %v\n%s", a.Name, err, a.Complaints())
		}
	}
	l.check(t)
	t.Logf("the enemy: %v", enemy)
	for _, name := range []string{across.name, within.name} {
		alone, beside, hostile := l.rate(name, calm), l.rate(name, computed), l.rate(name, attacked)
		t.Logf("group %s, requests/s (median): %.0f %s, %.0f %s, %.0f %s, %.0f %s: %.2f of alone, %.2f of computed",
			name,
			l.rate(name, fresh), phaseNames[fresh], alone, phaseNames[calm], beside, phaseNames[computed], hostile,
			phaseNames[attacked], hostile/alone, hostile/beside)
		if long && hostile < alone/2 {
			t.Errorf("group %s was slowed below half", name)
		}
	}
	across.end()
	within.end()
	enemyGroup.end()
	b.empty()
	b.alive()
}

// stays lets traffic go on for a time.
func stays(t *testing.T, l *ledger, d time.Duration) {
	t.Helper()
	<-time.After(d)
	l.check(t)
}
