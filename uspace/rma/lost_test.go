package rma_test

// This file checks that operations which come back are told also when the return ring has no room
// for them.

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/sim"
)

// manySlots runs a program on the first of two nodes, whose send queues hold more than the return
// ring, while the other has a window.
func manySlots(t *testing.T, program func(n *node, w rma.Target) error) {
	t.Helper()
	var w *rma.Window
	over := false
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: funi.RemoteSizes{KeySlots: 8, Areas: 1,
		Notifications: 1024}}, Nodes: 2, Slots: 512}, func(p *sim.Process) error {
		n, err := newNode(p)
		switch {
		case err != nil:
			return err
		case n.number == 1:
			if w, err = n.Expose(n.memory[:4096], rma.Options{Address: at}); err != nil {
				return err
			}
			return n.until("the other is done", func() bool { return over })
		}
		if err := n.until("the window", func() bool { return w != nil }); err != nil {
			return err
		}
		defer func() { over = true }()
		return program(n, w.Target(1))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Finish(time.Hour); err != nil {
		t.Fatal(err)
	}
}

// Rule (doc.go): an operation is complete once, and says why it was not carried out. Of 200
// multicasts to 900 members the card takes 4 and gives the others back, which is 132 more than the
// return ring holds: each is told once, naming its node, and what follows goes on.
func TestLostReturnsOfMulticasts(t *testing.T) {
	const casts, taken = 200, 4 // engine.longLedgers
	manySlots(t, func(n *node, w rma.Target) error {
		get, err := n.Get(w, n.memory[8192:8192+4096], rma.With{})
		if err != nil {
			return err
		}
		told := map[rma.ID]int{}
		for range casts {
			id, err := n.StartMulticast(1, funi.MulticastRequest{Chain: 3, Members: 900, Data: []byte{1, 2, 3, 4}})
			if err != nil {
				return err
			}
			told[id] = 0
		}
		if err := n.Fence(1); err != nil {
			return err
		}
		var reasons = map[arctic.Reason]int{}
		for r := (rma.Result{}); n.Next(&r); {
			if r.ID == get {
				if r.Err != nil || r.Bytes != 4096 {
					return fmt.Errorf("the get beside them: %d bytes, %w", r.Bytes, r.Err)
				}
				continue
			}
			var why *rma.Error
			if !errors.As(r.Err, &why) || why.Node != 1 || why.Operation != arctic.RemoteMulticast ||
				why.Reason == arctic.ReasonNone && why.Doubtful() {
				return fmt.Errorf("multicast %d: %w", r.ID, r.Err)
			}
			told[r.ID]++
			reasons[why.Reason]++
		}
		for id, times := range told {
			if times != 1 {
				return fmt.Errorf("multicast %d of %d was told %d times", id, len(told), times)
			}
		}
		if reasons[arctic.ReasonNoBuffer] != funi.ReturnSlots ||
			reasons[arctic.ReasonNone] != casts-taken-funi.ReturnSlots {
			return fmt.Errorf("multicasts have come to %v", reasons)
		}
		if err := n.Quiet(); err != nil {
			return err
		}
		id, err := n.Add(w, 1)
		if err == nil {
			_, err = n.Wait(id)
		}
		return err
	})
}

// Rule (Quiet): it returns the failure of silent puts of which the card had no room to tell, and
// waits for no other; Wait returns that of one with an ID.
func TestLostReturnsOfPuts(t *testing.T) {
	manySlots(t, func(n *node, w rma.Target) error {
		unknown := make([]byte, 4096) // to the card
		if err := n.Use(funi.Segment{Base: 2 * base, Memory: unknown, Rights: funi.Source}); err != nil {
			return err
		}
		var last rma.ID
		for i := range 2 * funi.ReturnSlots {
			id, err := n.Put(w, unknown, rma.With{Ack: i <= funi.ReturnSlots})
			if err != nil {
				return err
			}
			if id != 0 {
				last = id
			}
		}
		var why *rma.Error
		if r, err := n.Wait(last); r.ID != last || !errors.As(err, &why) ||
			*why != (rma.Error{Operation: arctic.RemotePut, Node: 1}) {
			return fmt.Errorf("the put after those that the ring has room for: %w", err)
		}
		if err := n.Quiet(); !errors.As(err, &why) || *why != (rma.Error{Operation: arctic.RemotePut, Node: 1}) {
			return fmt.Errorf("silent puts that came back: %w", err)
		}
		return n.Quiet()
	})
}
