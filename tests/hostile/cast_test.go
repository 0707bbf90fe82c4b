package hostile

// This file is who takes part in a test besides daemons and enemies: groups, the victims
// in them, and the ledger of what these say.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/attach"
)

// phase is one kind of trouble beside the traffic.
type phase int

const (
	between phase = iota // one phase and the next: not counted
	fresh                // before there was an enemy
	calm
	computed
	attacked
	phases
)

var phaseNames = [phases]string{"between", "before there was an enemy", "alone", "beside a process that computes",
	"beside the enemy"}

// ledger collects what the victims of a test say.
type ledger struct {
	mu      sync.Mutex
	phase   phase
	windows map[string]*[phases][]int // requests answered in a window, by victim
	blocks  map[string]int
	wrong   []string
}

func newLedger() *ledger {
	return &ledger{windows: map[string]*[phases][]int{}, blocks: map[string]int{}}
}

// enter begins a phase.
func (l *ledger) enter(p phase) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase = p
}

// listener returns what hears a victim; other lines go to rest.
func (l *ledger) listener(name string, rest func(string)) func(string) {
	return func(line string) {
		word, text, _ := strings.Cut(line, " ")
		switch word {
		case "w":
			var requests, blocks int
			if _, err := fmt.Sscan(text, &requests, &blocks); err != nil {
				return
			}
			l.mu.Lock()
			w := l.windows[name]
			if w == nil {
				w = &[phases][]int{}
				l.windows[name] = w
			}
			w[l.phase] = append(w[l.phase], requests)
			l.blocks[name] += blocks
			l.mu.Unlock()
		case "bad":
			l.mu.Lock()
			l.wrong = append(l.wrong, name+": "+text)
			l.mu.Unlock()
		default:
			rest(line)
		}
	}
}

// check fails the test if anybody has said that something is wrong.
func (l *ledger) check(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.wrong[:min(len(l.wrong), 20)] {
		t.Error(w)
	}
	if len(l.wrong) > 0 {
		t.FailNow()
	}
}

// total returns how many requests of a victim have been answered.
func (l *ledger) total(name string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.windows[name]; w != nil {
		for _, windows := range w {
			for _, requests := range windows {
				n += requests
			}
		}
	}
	return n
}

// answered returns how many requests of all victims have been answered.
func (l *ledger) answered() (n int) {
	l.mu.Lock()
	names := slices.Collect(maps.Keys(l.windows))
	l.mu.Unlock()
	for _, name := range names {
		n += l.total(name)
	}
	return n
}

// rate returns the requests a second that victims whose names start with a prefix had
// answered in a phase: for each of them the median of its windows.
func (l *ledger) rate(prefix string, p phase) (perSecond float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, w := range l.windows {
		if strings.HasPrefix(name, prefix) && len(w[p]) > 0 {
			sorted := slices.Sorted(slices.Values(w[p]))
			perSecond += float64(sorted[len(sorted)/2]) / reportEvery.Seconds()
		}
	}
	return perSecond
}

// group is a job of two nodes, and perhaps others behind them.
type group struct {
	gid   uint16
	token attach.Token
	key   uint32
	cards []uint16 // counted from the bed's first
	user  uint32
	name  string
	jobs  []*client.Connection // by host
}

// found makes a group's job on the card of a host.
func (b *bed) found(g *group, host int) {
	b.t.Helper()
	var cards []uint16
	for _, card := range g.cards {
		cards = append(cards, uint16(b.first)+card)
	}
	k, err := client.Dial(b.sockets[host])
	if err == nil {
		_, err = k.Job(attach.JobRequest{GID: g.gid, Direct: b.direct, Token: g.token, Cards: cards})
	}
	if err != nil {
		b.t.Fatal(err)
	}
	for len(g.jobs) <= host {
		g.jobs = append(g.jobs, nil)
	}
	g.jobs[host] = k
}

// newGroup makes a job on all cards, as the administrator.
func (b *bed) newGroup(name string, gid uint16, user uint32, key uint32, cards ...uint16) *group {
	b.t.Helper()
	g := &group{gid: gid, token: attach.NewToken(), key: key, cards: cards, user: user, name: name}
	for host := range b.sockets {
		b.found(g, host)
	}
	b.t.Cleanup(func() { g.end() })
	return g
}

// end ends the jobs.
func (g *group) end() {
	for _, k := range g.jobs {
		k.Close()
	}
}

// victim starts a node of the group.
func (b *bed) victim(g *group, node uint16, life uint32, storm bool, o options) *process {
	b.t.Helper()
	o.name, o.user = fmt.Sprintf("%s %d", g.name, node), g.user
	var lure uint16
	if g.cards[node] == 0 && len(g.cards) > 2 {
		lure = 2
	}
	return start(b.t, "victim", victimConfig{Lure: lure, Socket: b.sockets[g.cards[node]], GID: g.gid, Node: node,
		Token: g.token.Text(), Key: g.key, Life: life, Storm: storm}, o)
}

// actor is a victim and what it says that is no figure.
type actor struct {
	*process
	said     chan string
	attached atomic.Bool // what it last said about that
}

// await waits until the actor says a word, and returns what follows it.
func (a *actor) await(word string) string {
	a.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case line := <-a.said:
			if rest, ok := strings.CutPrefix(line, word); ok {
				return strings.TrimSpace(rest)
			}
		case <-timeout:
			a.t.Fatalf("%s does not say %q\n%s", a.Name, word, a.Complaints())
		case <-a.Ended:
			if len(a.said) == 0 {
				a.t.Fatalf("%s ended (%v) instead of saying %q\n%s", a.Name, a.Err, word, a.Complaints())
			}
		}
	}
}
