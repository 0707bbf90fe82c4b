package rma_test

// This file shows what a program looks like.

import (
	"fmt"
	"time"

	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/sim"
)

// Two nodes of a job: node 1 exposes memory and does nothing else; node 0 counts there, and writes. The nodes are processes in virtual time here, and
// share a variable; real ones send each other the target. README.md ("Memory of other processes") has how a real one begins.
func Example() {
	var target rma.Target
	known, over := false, false
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: remote}, Nodes: 2}, func(p *sim.Process) error {
		n, err := newNode(p)
		if err != nil {
			return err
		}
		if n.number == 1 {
			w, err := n.Expose(n.memory[:4096], rma.Options{})
			if err != nil {
				return err
			}
			target, known = w.Target(1), true
			if err := n.until("the other is done", func() bool { return over }); err != nil {
				return err
			}
			fmt.Printf("%d, %s\n", w.Memory[0], w.Memory[64:69])
			return n.Revoke(w)
		}
		if err := n.until("the target", func() bool { return known }); err != nil {
			return err
		}
		for range 3 {
			id, err := n.Add(target, 5)
			if err != nil {
				return err
			}
			r, err := n.Wait(id)
			if err != nil {
				return err
			}
			fmt.Println("it was", r.Uint64())
		}
		if _, err := n.Put(target.At(64), []byte("hello"), rma.With{}); err != nil {
			return err
		}
		err = n.Quiet()
		over = true
		return err
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
	// it was 0
	// it was 5
	// it was 10
	// 15, hello
}
