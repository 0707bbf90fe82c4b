package rats_test

// This file checks that whoever may have lost a return hears that he may have, also while slots
// wait behind that of a long message.

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
	"github.com/funet/funet/uspace/sim"
)

// Rule (Sent, send.go): a message that came back fails, also when the card had no room to tell of
// it and its slot was not retired yet. Here 64 messages more than the return ring holds come back
// beside a long write. What goes to another node is not suspect, and an endpoint hears of it
// without a manager, by Status alone.
func TestLostReturnsBesideALongWrite(t *testing.T) {
	const long = 48 << 10
	for _, polls := range []bool{true, false} {
		t.Run(fmt.Sprintf("polls %v", polls), func(t *testing.T) {
			var to rats.Ticket
			done := false
			lostReturns(t, 3, func(n *node, me int) error {
				switch me {
				case 1:
					return n.until("done", func() bool { return done })
				case 2:
					key, h, err := n.Expose(n.keyed)
					if err != nil {
						return err
					}
					if _, err := n.status(h, rats.Sent); err != nil {
						return err
					}
					to = n.Seed(key, 0, uint32(len(n.keyed)), 0).Ticket
					return n.until("done", func() bool { return done })
				}
				if err := n.until("a seed", func() bool { return to.Key != 0 }); err != nil {
					return err
				}
				slow, err := n.Write(to, 0, n.source[:long])
				if err != nil {
					return err
				}
				wrong := to
				wrong.Node, wrong.Key = 1, to.Key^1<<30
				var back []rats.Handle
				for range funi.ReturnSlots + 64 {
					h, err := n.Write(wrong, 0, []byte{1})
					if err != nil {
						return err
					}
					back = append(back, h)
				}
				for end := n.p.Now() + 1e9; n.p.Interface().ReturnsLost() == 0; n.p.Drive() {
					if n.p.Now() > end {
						return errors.New("the return ring had room for all")
					}
				}
				if n.Poll(); n.p.Interface().Unsent(funi.Request) < len(back) {
					return errors.New("the long write does not hold the slots behind it")
				}
				for end := n.p.Now() + 1e9; n.p.Interface().Unsent(funi.Request) > 0; n.p.Drive() {
					if polls {
						n.Poll()
					}
					if n.p.Now() > end {
						return errors.New("the slots are not retired")
					}
				}
				failed, told := 0, 0
				for i, h := range back {
					switch st, why, err := n.Status(h); {
					case err != nil || st != rats.Failed:
						return fmt.Errorf("write %d came back: status %d, %v", i, st, err)
					case why == rats.NoReason:
						failed++
					default:
						told++
					}
				}
				if failed == 0 || told < funi.ReturnSlots {
					return fmt.Errorf("%d writes failed without a reason, and %d with one", failed, told)
				}
				if st, why, err := n.Status(slow); err != nil || st != rats.Sent {
					return fmt.Errorf("the long write to another node: status %d, %v, %v", st, why, err)
				}
				done = true
				return nil
			})
		})
	}
}

// lostReturns runs a program on nodes whose send queues hold more than the return ring.
func lostReturns(t *testing.T, nodes int, program func(n *node, me int) error) {
	t.Helper()
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: remote}, Nodes: nodes, Slots: 256},
		func(p *sim.Process) error {
			n, err := newNode(p)
			if err != nil {
				return err
			}
			return program(n, int(p.Context().Node()))
		})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Finish(time.Minute); err != nil {
		t.Fatal(err)
	}
}

// Rule (Returned): blocks of operations on windows and of chains are others', whatever their
// cookie: with bit 31 it would name an instance.
func TestOthersBlocksThatCameBack(t *testing.T) {
	lostReturns(t, 1, func(n *node, _ int) error {
		var s funi.Slot
		for name, c := range map[string]struct {
			compose func()
			own     bool
		}{
			"message":   {func() { s.SetHeader(funi.NewHeader(1, 2, 3)) }, false},
			"write":     {func() { s.SetPut(1, &funi.Put{}) }, true},
			"key slot":  {func() { s.SetCloseKeySlot(0, 0) }, true},
			"area":      {func() { s.SetResetArea(0, 0) }, true},
			"window":    {func() { s.SetResumeWindow(0, 0) }, false},
			"operation": {func() { s.SetOperation(1, &funi.Operation{}) }, false},
			"chain":     {func() { s.SetLeaveChain(0, 0) }, false},
			"multicast": {func() { s.SetMulticast(1, &funi.MulticastRequest{}) }, false},
		} {
			c.compose()
			if n.Returned(funi.Returned{Reason: 1, Header: s.Header(), Word: 1 << 31}) != c.own {
				t.Errorf("%s: taken for what it is not", name)
			}
		}
		return nil
	})
}

// Rule (Simple.Send): an instance fails if a message of it may have come back, also one before the
// last, to another node.
func TestLostReturnsOfASimple(t *testing.T) {
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: remote}, Nodes: 3, Slots: 256},
		func(p *sim.Process) error {
			n, err := newManaged(p, 1<<16)
			if err != nil || p.Context().Node() != 0 {
				return err
			}
			s, err := n.NewSimple(must(n.Alloc(256)))
			if err != nil {
				return err
			}
			closed := s.Seed() // which nodes 1 and 2 do not know
			for node := uint16(1); node <= 2; node++ {
				closed.Node = node
				for range funi.ReturnSlots {
					if _, err := n.Write(closed.Ticket, 0, nil); err != nil {
						return err
					}
				}
				if ok, err := s.Send(closed, nil, rats.Metadata{}); !ok || err != nil {
					return fmt.Errorf("sending to node %d: %v, %w", node, ok, err)
				}
				for end := p.Now() + 1e9; node == 1 && p.Interface().ReturnsLost() == 0; p.Drive() {
					if p.Now() > end {
						return errors.New("the return ring had room for all")
					}
				}
				closed.Node = 2
			}
			n.Poll()
			var f *rats.Failure
			if !errors.As(s.Err(), &f) || *f != (rats.Failure{Node: 1}) {
				return fmt.Errorf("the instance whose first message was lost: %w", s.Err())
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Finish(time.Minute); err != nil {
		t.Fatal(err)
	}
}
