package hostile

// This file is misses (engine, fault.go): a member of a job wants windows that their owner has
// taken away, as much of them as it can, and again when it has been refused. It waits, and loses
// only its own lines; the owner is told of each window once, other members use another window of
// his, and two other users' verified traffic goes on.

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/rma"
)

const (
	missGID = 14 // of the members
	// absentWindows is how many windows are away, and misses how many operations on them are under
	// way at once.
	absentWindows = 4
	misses        = 200
	// missPatience is the daemons' connect_timeout, after which windows are withheld, and
	// peer_timeout: longer than a busy machine keeps one from running.
	missPatience = 8 * time.Second
)

// TestMissesEnMasse: see above.
func TestMissesEnMasse(t *testing.T) {
	long.Test(t)
	b, l := newBed(t, rules(), missPatience), newLedger()
	goOn, end := b.traffic(t, l)
	g := b.newGroup("members", missGID, 0, 0, 1, 0, 0)
	owner := b.newWindowMember(t, g, "the owner", 0)
	honest := b.newWindowMember(t, g, "the honest one", 1)
	enemy := b.newWindowMember(t, g, "the one who misses", 2)
	clear(owner.memory)
	_, forHonest := owner.exposes(0x8000, 64, rma.Options{})
	var windows []*rma.Window
	var targets []rma.Target
	for i := range absentWindows {
		w, to := owner.exposes(0x1000*i, 64, rma.Options{Notifications: 2, Absent: true})
		windows, targets = append(windows, w), append(targets, to)
	}
	sum := func() (n uint64) {
		for _, w := range windows {
			n += binary.LittleEndian.Uint64(w.Memory)
		}
		return n
	}
	told := map[uint16]int{} // by key slot
	floods := func() (ids []rma.ID) {
		t.Helper()
		for i := range misses {
			id, err := enemy.Add(targets[i%absentWindows], 1)
			if err != nil {
				t.Fatalf("%s: %v", enemy.name, err)
			}
			ids = append(ids, id)
		}
		until(t, "the owner is told of each window", func() bool {
			enemy.client.Drive()
			owner.client.Drive()
			owner.Poll()
			for n := (rma.Notification{}); owner.Notification(&n); {
				if !n.Absent || n.Node != enemy.node {
					t.Fatalf("the owner is told %+v", n)
				}
				told[n.Window]++
			}
			return len(told) == absentWindows
		}, func() string { return "" })
		return ids
	}
	missed := func() (n uint64) {
		for _, j := range b.status(1).Jobs {
			if j.GID == missGID {
				n = j.Faults.Missed
			}
		}
		return n
	}

	was := bytes.Clone(owner.memory[:0x8000])
	ids := floods()
	honest.adds(forHonest, 2000)
	goOn("beside misses")
	if n := missed(); n != absentWindows || !bytes.Equal(was, owner.memory[:0x8000]) {
		t.Errorf("%d misses are counted, want one for each of %d windows; or their memory has changed",
			n, absentWindows)
	}
	for _, w := range windows {
		if err := owner.Resume(w); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		if why := enemy.reason(id, nil); why != arctic.ReasonNone {
			t.Fatalf("when the windows are back: %v", why)
		}
	}
	if n := sum(); n != misses {
		t.Errorf("%d of %d additions were carried out", n, misses)
	}

	// The owner does not answer: what waits is refused when its time is over, and what comes then
	// at once.
	for _, w := range windows {
		if err := owner.Suspend(w); err != nil {
			t.Fatal(err)
		}
	}
	clear(told)
	ids = floods()
	goOn("beside misses that nobody answers")
	honest.adds(forHonest, 2000)
	for range 3 {
		for _, id := range ids {
			if why := enemy.reason(id, nil); why != arctic.ReasonWithheld {
				t.Fatalf("an owner who does not answer: %v", why)
			}
		}
		for i := range ids {
			var err error
			if ids[i], err = enemy.Add(targets[i%absentWindows], 1); err != nil {
				t.Fatal(err)
			}
		}
		goOn("beside what is refused")
	}
	honest.adds(forHonest, 200)
	if n := sum(); n != misses {
		t.Errorf("%d additions were carried out, %d of them on windows that are away", n, n-misses)
	}
	end()
}
