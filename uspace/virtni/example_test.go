package virtni_test

// This file shows what a program looks like.

import (
	"fmt"
	"time"

	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/sim"
	"github.com/funet/funet/uspace/virtni"
)

// Two ports: one sends its window's capability, the other adds to a word there. The ports are nodes
// of a cluster in virtual time here; example is a program for real ones.
func Example() {
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: remote}, Nodes: 2},
		func(p *sim.Process) error {
			n, err := newNode(p) // which calls virtni.Open
			if err != nil {
				return err
			}
			if err := n.OpenReceive(nil, 4); err != nil {
				return err
			}
			if _, err := n.Barrier(0, 2); err != nil { // the other receives, too
				return err
			}
			var x virtni.Notification
			if err := n.Wait(&x); err != nil || x.Err != nil {
				return fmt.Errorf("%w, %w", err, x.Err)
			}
			if n.number == 1 {
				w, err := n.OpenWindow(n.memory[:64], rma.Options{})
				if err != nil {
					return err
				}
				v := virtni.VCI{Target: virtni.Target{VPID: 0}, Words: []uint64{w.Capability(), uint64(w.Number())}}
				if err := n.FastSend(&v); err != nil {
					return err
				}
				return n.until("the sum", func() bool { return w.Memory[0] == 15 })
			}
			if err := n.Wait(&x); err != nil { // the message
				return err
			}
			target := virtni.Target{VPID: x.VPID, Capability: x.Words[0], Window: uint16(x.Words[1])}
			for i := range uint64(3) {
				if err := n.FetchAndAdd(&virtni.VCI{Target: target, Addend: 5, UserTag: i}); err != nil {
					return err
				}
			}
			accepted, status, err := n.Issue(3)
			if err != nil {
				return err
			}
			fmt.Println("the card has taken", accepted, status)
			for range 3 {
				if err := n.Wait(&x); err != nil || x.Err != nil {
					return fmt.Errorf("%w, %w", err, x.Err)
				}
				fmt.Println(x.Of, x.UserTag, "made it", x.Words[0])
			}
			return nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()
	if err := k.Finish(time.Minute); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the card has taken 3 done
	// fetch-and-add 0 made it 5
	// fetch-and-add 1 made it 10
	// fetch-and-add 2 made it 15
}
