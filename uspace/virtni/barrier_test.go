package virtni_test

// This file has the rules of barriers (barrier.go, engine/barrier.go).

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
	"github.com/funet/funet/uspace/virtni"
)

// reach reaches a barrier, and waits until the card has taken that.
func (n *node) reach(number uint8, members int) error {
	s, err := n.Barrier(number, members)
	if err == nil && s != funi.TriggerDone {
		err = fmt.Errorf("node %d: reaching barrier %d: %v", n.number, number, s)
	}
	return err
}

// passed waits for the notification of a barrier.
func (n *node) passed(number uint8) error {
	x, err := n.next(virtni.NotifyBarrier)
	if err == nil && x.Barrier != number {
		err = fmt.Errorf("node %d: barrier %d is complete, want %d", n.number, x.Barrier, number)
	}
	if err == nil {
		err = x.Err
	}
	return err
}

// Rule: nobody passes a barrier before all members have reached it, each passes once, and a second
// barrier does not overtake the first (design of virtni: command 4). The network may lose frames.
func TestBarrier(t *testing.T) {
	for _, net := range networks {
		for _, nodes := range []int{1, 2, 5, 17} {
			var reached [32]int
			run(t, nodes, net, func(n *node) error {
				for round := range 20 {
					n.p.Sleep(int64((int(n.number)*7+round*13)%5) * int64(20*time.Microsecond))
					reached[n.number]++
					if err := n.reach(3, nodes); err != nil {
						return err
					}
					if err := n.passed(3); err != nil {
						return err
					}
					for other, r := range reached[:nodes] {
						if r < round+1 {
							return fmt.Errorf("node %d has passed round %d, and node %d reached it %d times", n.number,
								round, other, r)
						}
					}
				}
				var x virtni.Notification
				if n.Notification(&x) {
					return fmt.Errorf("node %d: one more: %+v", n.number, x)
				}
				return nil
			})
		}
	}
}

// Rule: barriers are apart from each other, and instructions go on while a process waits.
func TestBarriersApart(t *testing.T) {
	stage := 0
	run(t, 2, networks[1], func(n *node) error {
		if n.number == 1 {
			if err := n.reach(1, 2); err != nil {
				return err
			}
			if err := n.until("the first stage", func() bool { return stage == 1 }); err != nil {
				return err
			}
			if err := n.passed(1); err != nil {
				return err
			}
			if err := n.reach(0, 2); err != nil {
				return err
			}
			return n.passed(0)
		}
		for number := range uint8(2) {
			if err := n.reach(number, 2); err != nil {
				return err
			}
		}
		if err := n.passed(1); err != nil {
			return err
		}
		v := virtni.VCI{Target: virtni.Target{VPID: 1}, Count: 1}
		if _, err := n.did(n.FastGet(&v)); !errors.Is(err, virtni.CodeCapability) {
			return fmt.Errorf("an instruction while it waits: %w", err)
		}
		stage = 1
		return n.passed(0)
	})
}

// Rule: a process that reaches a barrier twice counts once, and a wrong barrier is refused.
func TestBarrierCountsOnce(t *testing.T) {
	late := false
	run(t, 3, networks[0], func(n *node) error {
		for _, c := range []struct {
			number  uint8
			members int
		}{{32, 3}, {0, 0}, {0, funi.MaxMembers + 1}} {
			if s, err := n.Barrier(c.number, c.members); s != funi.TriggerInvalid || err != nil {
				return fmt.Errorf("barrier %v: %v, %w", c, s, err)
			}
		}
		if n.number == 2 {
			n.p.Sleep(int64(time.Second))
			late = true
		}
		if err := n.reach(0, 3); err != nil {
			return err
		}
		if n.number < 2 {
			for range 3 {
				if s, err := n.Barrier(0, 3); s != funi.TriggerForbidden || err != nil {
					return fmt.Errorf("the barrier again: %v, %w", s, err)
				}
			}
		}
		if err := n.passed(0); err != nil || !late {
			return fmt.Errorf("passed before all were there: %v, %w", !late, err)
		}
		return nil
	})
}

// Rule: members that name another number of members get an error, and do not pass.
func TestBarrierMembersDiffer(t *testing.T) {
	over := false
	run(t, 2, networks[0], func(n *node) error {
		if n.number == 0 {
			if err := n.reach(0, 2); err != nil {
				return err
			}
			if err := n.until("the other's try", func() bool { return over }); err != nil {
				return err
			}
			return n.passed(0)
		}
		n.p.Sleep(int64(time.Millisecond))
		if err := n.reach(0, 3); err != nil {
			return err
		}
		if err := n.passed(0); !errors.Is(err, virtni.ErrBarrier) || !errors.Is(err, virtni.CodeTargetBounds) {
			return fmt.Errorf("another number of members: %w", err)
		}
		over = true
		if err := n.reach(0, 2); err != nil {
			return err
		}
		return n.passed(0)
	})
}

// watched makes a cluster whose nodes run the program, and runs it until done.
func watched(t *testing.T, nodes int, program func(n *node) error) (k *sim.Cluster, run func(done func() bool)) {
	t.Helper()
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: remote}, Nodes: nodes},
		func(p *sim.Process) error {
			n, err := newNode(p)
			if err == nil {
				err = program(n)
			}
			if err != nil {
				t.Errorf("node %d: %v", p.Context().Node(), err)
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k, func(done func() bool) {
		t.Helper()
		if !k.Run(k.Now()+int64(10*time.Minute), done) || t.Failed() {
			t.Fatal("not in time")
		}
	}
}

// Rule: a process whose root is gone hears of it, and passes nothing: at once if the root is gone
// before, and when its card asks again if that is later.
func TestBarrierWithoutRoot(t *testing.T) {
	waiting, ended := 0, 0
	k, run := watched(t, 3, func(n *node) error {
		n.limit = 10 * time.Minute
		if n.number == 2 {
			return n.until("the end", func() bool { return ended == 2 })
		}
		for range 2 {
			if err := n.reach(0, 3); err != nil {
				return err
			}
			waiting++
			if err := n.passed(0); !errors.Is(err, virtni.ErrBarrier) || !errors.Is(err, virtni.CodeBroken) {
				return fmt.Errorf("a barrier without a root: %w", err)
			}
			ended++
		}
		return nil
	})
	run(func() bool { return waiting == 2 })
	now := k.Now()
	k.Run(now+int64(time.Second), func() bool { return false })
	k.Cards()[0].Crash()
	run(func() bool { return ended == 2 })
}

// Rule: a process that takes the place of a dead one and did not pass the barriers before gets an
// error, and releases nobody.
func TestBarrierOfANewProcess(t *testing.T) {
	passed, waiting := 0, 0
	var replaced error
	k, run := watched(t, 3, func(n *node) error {
		n.limit = 10 * time.Minute
		if err := n.reach(0, 3); err != nil {
			return err
		}
		if err := n.passed(0); err != nil {
			return err
		}
		if passed++; n.number == 2 {
			return n.until("its death", func() bool { return false })
		}
		if err := n.reach(0, 3); err != nil {
			return err
		}
		waiting++
		if err := n.passed(0); err == nil {
			passed++
		}
		return nil
	})
	run(func() bool { return passed == 3 && waiting == 2 })
	c := k.Cards()[2]
	c.Detach(k.Processes[2])
	k.Run(k.Now()+int64(time.Second), func() bool { return false })
	over := false
	if _, err := c.Run(sim.Group, 2, 64, func(p *sim.Process) error {
		n, err := newNode(p)
		if err == nil {
			err = n.reach(0, 3)
		}
		if err == nil {
			replaced, over = n.passed(0), true
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	run(func() bool { return over })
	k.Run(k.Now()+int64(time.Second), func() bool { return false })
	if !errors.Is(replaced, virtni.ErrBarrier) || passed != 3 {
		t.Errorf("the new process: %v; %d have passed, want 3", replaced, passed)
	}
}

// Rule: arrivals that a process makes itself, past the trigger, count as one (a barrier is an
// addition to key 0).
func TestForgedArrivals(t *testing.T) {
	late := false
	run(t, 3, networks[0], func(n *node) error {
		i := n.p.Interface()
		switch n.number {
		case 1:
			operand := []byte{0: 1, 4: 3, 7: 0}
			for id := range uint32(5) {
				o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteAdd,
					Element: arctic.Uint64, Fetch: true, Bytes: 8, Operands: operand}, Cookie: 1<<31 | id, Silent: true}
				i.Reserve(funi.Request).SetOperation(0, &o)
				i.Commit(funi.Request)
			}
			if got, s, err := n.Issue(5); got != 5 || err != nil {
				return fmt.Errorf("issue: %d, %v, %w", got, s, err)
			}
			n.p.Sleep(int64(time.Millisecond))
		case 2:
			n.p.Sleep(int64(time.Second))
			late = true
		}
		if err := n.reach(0, 3); err != nil {
			return err
		}
		if err := n.passed(0); err != nil || !late {
			return fmt.Errorf("passed before all were there: %v, %w", !late, err)
		}
		return nil
	})
}
