package rma_test

// This file sends along chains of processes on four hosts, over AF_XDP, and kills one of them
// (Tokyo, sections 2.2.1 and 3.3.1.3).

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/tests/daemons"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// patience bounds every wait: far more than anything takes.
const patience = time.Minute

// Chains between nodes 1, 2 and 3; node 0 sends along them.
const (
	lineChain = 5 // 1, 2, 3
	starChain = 7 // 1, and behind it 2 and 3
	pairChain = 6 // 3, 1
)

var (
	alongLine = alongChain{lineChain, 1, 3}
	alongStar = alongChain{starChain, 1, 3}
	alongPair = alongChain{pairChain, 3, 2}
	// memberships is what each member says of the chains.
	memberships = [][]funi.Chain{
		nil,
		{{Number: lineChain, First: true, Next: []funi.Next{{Node: 2, Members: 2}}},
			{Number: starChain, First: true, Next: []funi.Next{{Node: 2, Members: 1}, {Node: 3, Members: 1}}},
			{Number: pairChain, Parent: 3}},
		{{Number: lineChain, Parent: 1, Next: []funi.Next{{Node: 3, Members: 1}}}, {Number: starChain, Parent: 1}},
		{{Number: lineChain, Parent: 2}, {Number: starChain, Parent: 1},
			{Number: pairChain, First: true, Next: []funi.Next{{Node: 1, Members: 1}}}},
	}
)

// chainProcess is a process that the test has started.
type chainProcess struct {
	t     *testing.T
	node  int
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string
	early []string // lines that were not waited for yet
}

// startMember starts a process at a place.
func startMember(t *testing.T, l *lab.Lab, host int, place memberPlace) *chainProcess {
	t.Helper()
	text, err := json.Marshal(place)
	if err != nil {
		t.Fatal(err)
	}
	p := &chainProcess{t: t, node: int(place.Node), cmd: exec.Command("/proc/self/exe"), lines: make(chan string, 1024)}
	p.cmd.Env = append(os.Environ(), memberVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	var out io.ReadCloser
	if p.stdin, err = p.cmd.StdinPipe(); err == nil {
		if out, err = p.cmd.StdoutPipe(); err == nil {
			err = l.Start(host, p.cmd)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = p.cmd.Process.Kill(), p.cmd.Wait() })
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	return p
}

// tell has the process carry out a command.
func (p *chainProcess) tell(word string, v any) {
	p.t.Helper()
	line := word
	if v != nil {
		b, err := json.Marshal(v)
		if err != nil {
			p.t.Fatal(err)
		}
		line += " " + string(b)
	}
	if _, err := fmt.Fprintln(p.stdin, line); err != nil {
		p.t.Fatalf("node %d has ended: %v", p.node, err)
	}
}

// hears waits for a line that begins with a word and is as it should be, and reads what follows.
func hears[T any](p *chainProcess, word string, is func(T) bool) (v T) {
	p.t.Helper()
	read := func(line string) bool {
		first, rest, _ := strings.Cut(line, " ")
		if first != word {
			return false
		}
		var got T
		if rest != "" {
			if err := json.Unmarshal([]byte(rest), &got); err != nil {
				p.t.Fatalf("node %d says %q: %v", p.node, line, err)
			}
		}
		if !is(got) {
			return false
		}
		v = got
		return true
	}
	for i, line := range p.early {
		if read(line) {
			p.early = slices.Delete(p.early, i, i+1)
			return v
		}
	}
	for end := time.After(patience); ; {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("node %d has ended; waited for %q", p.node, word)
			}
			if read(line) {
				return v
			}
			p.early = append(p.early, line)
		case <-end:
			p.t.Fatalf("node %d: waited in vain for %q; it has said %q", p.node, word, p.early)
		}
	}
}

func anything[T any](T) bool { return true }

// says waits for a line that is a word.
func (p *chainProcess) says(word string) {
	p.t.Helper()
	hears(p, word, anything[struct{}])
}

// counts asks for counts.
func (p *chainProcess) counts() memberCounts {
	p.t.Helper()
	p.tell("counts", nil)
	return hears(p, "counts", anything[memberCounts])
}

// sends has the origin send rounds, and waits until each is complete, which must have come to all
// members.
func (p *chainProcess) sends(rounds int, along ...alongChain) {
	p.t.Helper()
	p.tell("send", map[string]any{"Rounds": rounds, "Along": along})
	for _, a := range along {
		d := hears(p, "sent", func(d chainDone) bool { return d.Chain == a.Chain })
		if d.Rounds != rounds || d.Failed != 0 {
			p.t.Fatalf("%d rounds along chain %d came to %+v", rounds, a.Chain, d)
		}
	}
}

// killMember sends along all chains, kills node 2, and checks what the origin hears of that within
// a time; the members before and beside it have all that it has not. Along a chain without it at
// least meanwhile rounds are complete before that is told, and more after that. Then the chain is
// made anew without it.
func killMember(t *testing.T, all []*chainProcess, within time.Duration, meanwhile int, reasons ...arctic.Reason) {
	t.Helper()
	origin := all[0]
	origin.early = nil // what it has said so far was of rounds before
	origin.tell("send", map[string]any{"Rounds": 1 << 30, "Along": []alongChain{alongLine, alongStar, alongPair}})
	for _, a := range []alongChain{alongLine, alongStar, alongPair} {
		hears(origin, "progress", func(d chainDone) bool { return d.Chain == a.Chain })
	}
	killed := time.Now()
	if err := all[2].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		chain uint16
		told  funi.Delivery
	}{
		// of who is behind it the same is known
		{lineChain, funi.Delivery{Delivered: 1, Failed: 2, Named: 1}},
		{starChain, funi.Delivery{Delivered: 2, Failed: 1, Named: 1}},
	} {
		d := hears(origin, "failed", func(d chainDone) bool { return d.Chain == c.chain })
		took := time.Since(killed)
		c.told.Broken[0] = funi.Broken{Node: 2, Reason: d.Reason}
		if d.Reason.Doubtful() { // it may have had its copy when it was killed
			c.told.Failed, c.told.Doubtful = 0, c.told.Failed
		}
		if d.Told != c.told || !slices.Contains(reasons, d.Reason) {
			t.Errorf("along chain %d: %v, %+v; want %+v and one of %v", c.chain, d.Reason, d.Told, c.told, reasons)
		}
		if took > within {
			t.Errorf("along chain %d: the origin has heard of the killed member after %v, which is more than %v",
				c.chain, took, within)
		}
		t.Logf("along chain %d: told after %v that node 2 has failed: %v, with %d rounds delivered before", c.chain,
			took, d.Reason, d.Rounds)
	}
	said := len(origin.early)
	origin.early = slices.DeleteFunc(origin.early, func(line string) bool {
		return strings.HasPrefix(line, "progress")
	})
	if n := (said - len(origin.early)) * progressRounds; n < meanwhile {
		t.Errorf("%d rounds were delivered beside the chains that waited, at least %d should have been", n, meanwhile)
	}
	for range 4 {
		hears(origin, "progress", func(d chainDone) bool { return d.Chain == pairChain })
	}
	origin.tell("stop", nil)
	for _, a := range []alongChain{alongLine, alongStar, alongPair} {
		d := hears(origin, "sent", func(d chainDone) bool { return d.Chain == a.Chain })
		if a == alongPair && d.Failed != 0 || d.Unnamed > underWay {
			t.Errorf("along chain %d: %+v", a.Chain, d)
		}
	}
	all[1].tell("chain", funi.Chain{Number: lineChain, First: true, Next: []funi.Next{{Node: 3, Members: 1}}})
	all[1].says("joined")
	all[3].tell("chain", funi.Chain{Number: lineChain, Parent: 1})
	all[3].says("joined")
	before := []int{all[1].counts().Messages, all[3].counts().Messages}
	origin.sends(100, alongChain{lineChain, 1, 2})
	if now := []int{all[1].counts().Messages, all[3].counts().Messages}; now[0] != before[0]+100 ||
		now[1] != before[1]+100 {
		t.Errorf("along the chain made anew: they had %v messages, and have %v", before, now)
	}
}

// ends ends processes, each of which must have nothing to complain of.
func ends(t *testing.T, all []*chainProcess) {
	t.Helper()
	for _, p := range all {
		p.stdin.Close()
	}
	for _, p := range all {
		for range p.lines {
		}
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("node %d: %v", p.node, err)
		}
	}
}

// Rule: between processes with cards of their own, on four hosts, each member of a chain has each
// message and each put once, and the origin hears so. One copy of each multicast is on the origin's
// link, whatever the number of members; k members take k copies in all and as many answers as the
// chain has ends. A member that is killed is named within
// PeerTimeout and a second, and the others go on.
func TestChainsOfProcesses(t *testing.T) {
	long.Test(t)
	const rounds, silence = 400, 2 * time.Second
	l, err := lab.Up(lab.Options{Hosts: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	place := memberPlace{GID: 9, Silence: silence}
	for _, h := range l.Hosts() {
		place.MACs = append(place.MACs, [6]byte(h.Interfaces[0].MAC))
	}
	var all []*chainProcess
	for node := range 4 {
		place.Node, place.Membership = uint16(node), memberships[node]
		all = append(all, startMember(t, l, node, place))
	}
	for _, p := range all {
		p.says("ready")
	}
	all[0].sends(1, alongLine, alongPair) // until the cards know each other
	before := make([]memberCounts, 4)
	for i, p := range all {
		before[i] = p.counts()
	}
	for _, c := range []struct {
		along   alongChain
		copies  []map[string]int // by node: those that it sends to whom
		reports [4]int
		has     [4]int
	}{
		{alongLine, []map[string]int{{"1": 1}, {"2": 1}, {"3": 1}, {}}, [4]int{0, 0, 0, 1}, [4]int{0, 1, 1, 1}},
		{alongStar, []map[string]int{{"1": 1}, {"2": 1, "3": 1}, {}, {}}, [4]int{0, 0, 1, 1}, [4]int{0, 1, 1, 1}},
		{alongPair, []map[string]int{{"3": 1}, {}, {}, {"1": 1}}, [4]int{0, 1, 0, 0}, [4]int{0, 1, 0, 1}},
	} {
		all[0].sends(rounds, c.along)
		for i, p := range all {
			now, was := p.counts(), before[i]
			before[i] = now
			if got := now.Messages - was.Messages; got != c.has[i]*rounds {
				t.Errorf("chain %d: node %d has %d messages, of %d", c.along.Chain, i, got, rounds)
			}
			for _, to := range []string{"0", "1", "2", "3"} {
				if got := now.Copies[to] - was.Copies[to]; got != c.copies[i][to]*2*rounds {
					t.Errorf("chain %d: node %d has sent %d copies of %d multicasts to node %s", c.along.Chain, i,
						got, 2*rounds, to)
				}
			}
			if got := now.Reports - was.Reports; got != c.reports[i]*2*rounds {
				t.Errorf("chain %d: node %d has sent %d reports on %d multicasts", c.along.Chain, i, got, 2*rounds)
			}
		}
	}
	again := 0
	for _, n := range before {
		again += n.Again
	}
	t.Logf("%d multicasts along each chain; %d copies and reports of all were sent again", 2*rounds, again)
	for _, p := range all[1:] {
		p.tell("clean", nil)
		p.says("clean")
	}
	killMember(t, all, silence+time.Second, 4*progressRounds, arctic.ReasonSilent)
	ends(t, []*chainProcess{all[0], all[1], all[3]})
}

// Rule: the same through daemons, whose cards know at once that a process has ended.
func TestChainsThroughDaemons(t *testing.T) {
	const gid, rounds = 9, 200
	l, err := lab.Up(lab.Options{Hosts: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	nodes := daemons.Run(t, l, gid)
	var all []*chainProcess
	for node, n := range nodes {
		all = append(all, startMember(t, l, node, memberPlace{GID: gid, Node: n.Node, Socket: n.Socket,
			Token: n.Token.Text(), Membership: memberships[node]}))
	}
	for _, p := range all {
		p.says("ready")
	}
	all[0].sends(rounds, alongLine, alongStar, alongPair)
	for i, want := range []struct{ delivered, sentOn uint64 }{{0, 0}, {3, 3}, {2, 1}, {3, 1}} {
		var s struct {
			Counters *engine.Counters `json:"counters"`
		}
		k, err := client.Dial(nodes[i].Socket)
		if err == nil {
			err = k.Status(&s)
			k.Close()
		}
		if err != nil || s.Counters == nil {
			t.Fatalf("the status of daemon %d: %v", i, err)
		}
		if n := s.Counters; n.Multicasts != want.delivered*2*rounds || n.SentOn != want.sentOn*2*rounds {
			t.Errorf("card %d has delivered %d and sent on %d, of %d multicasts along each chain", i, n.Multicasts,
				n.SentOn, 2*rounds)
		}
		if i > 0 {
			if n := all[i].counts().Messages; n != int(want.delivered)*rounds {
				t.Errorf("node %d has %d messages", i, n)
			}
			all[i].tell("clean", nil)
			all[i].says("clean")
		}
	}
	killMember(t, all, engine.Native().PeerTimeout+time.Second, 0, arctic.ReasonNoContext)
	ends(t, []*chainProcess{all[0], all[1], all[3]})
}
