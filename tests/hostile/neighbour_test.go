package hostile

// This file is a hostile neighbour: a process of the same user and job, which shares memory with
// others of its host (package port/shared).

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/funet/funet/tests/attack"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/port/shared"
)

// TestHostileNeighbour: a process writes over the memory that it shares with its neighbours as fast
// as it can. Meanwhile the neighbours exchange verified messages with nodes of another host and,
// through other memory, of their own. Nothing of that is lost or wrong, and the neighbours count
// what they dropped. When the process ends they go on.
func TestHostileNeighbour(t *testing.T) {
	long.Test(t)
	d, _ := length(t, 10*time.Second)
	b, l := newDirectBed(t), newLedger()
	groups, counts, lure, goOn, end := b.trafficBeside(t, l, 0)
	goOn("before there is an attack")
	var enemies []*actor
	done := make(chan string, 1<<16)
	for _, g := range groups {
		a := &actor{said: make(chan string, 64)}
		a.process = start(t, "attacker", attack.Config{Attack: attack.Neighbour().Name, Socket: b.sockets[0],
			Groups: []attack.Group{{GID: g.gid, Token: g.token.Text()}}, First: 2}, options{
			name: "neighbour of " + g.name, user: g.user, by: func(c *exec.Cmd) error {
				return b.lab.Start(0, c)
			}, hear: func(line string) {
				if line == "ready" {
					a.said <- line
				} else if line != "did 0" {
					done <- g.name // it has memory to write over
				}
			}})
		a.await("ready")
		enemies = append(enemies, a)
	}
	lure()
	wrote := map[string]bool{}
	until(t, "they have memory", func() bool {
		for len(done) > 0 {
			wrote[<-done] = true
		}
		return len(wrote) == len(groups)
	}, func() string { return fmt.Sprint(wrote) })
	for range 4 {
		stays(t, l, d/20)
		goOn("beside a neighbour who writes over shared memory")
	}
	for _, a := range enemies {
		if !a.Running() {
			t.Fatalf("%s ended: %v\n%s", a.Name, a.Err, a.Complaints())
		}
		a.kill()
	}
	goOn("after it has ended")
	end()
	through, seen := uint64(0), uint64(0)
	for range 3 { // those on host 0
		var c shared.Counters
		if err := json.Unmarshal([]byte(<-counts), &c); err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", c)
		seen += c.BadVersion + c.BadLength + c.Forged + c.Misrouted + c.Broken + c.Ended
		through += min(c.Sent, c.Received)
	}
	if seen == 0 {
		t.Error("nothing that was written over came to be seen")
	}
	if through == 0 {
		t.Error("nobody exchanged frames through memory")
	}
	b.empty()
}
