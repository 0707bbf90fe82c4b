package rma_test

// This file shows what a program looks like.

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/sim"
)

// Two nodes of a job: node 1 exposes memory and does nothing else; node 0 counts there, and writes.
// The nodes are processes in virtual time here, and share a variable; real ones send each other the
// target. ctl/manual/windows.md has how a real one begins.
func Example() {
	var target rma.Target
	known, over := false, false
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: remote}, Nodes: 2},
		func(p *sim.Process) error {
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

// Two nodes that pass a number on: each sleeps until the other has written the next one into its
// memory, and writes the one after that.
func ExampleEndpoint_Until() {
	targets := make([]rma.Target, 2) // real nodes send them to each other
	exposed := 0
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: remote}, Nodes: 2},
		func(p *sim.Process) error {
			n, err := newNode(p)
			if err != nil {
				return err
			}
			w, err := n.Expose(n.memory[:8], rma.Options{})
			if err != nil {
				return err
			}
			targets[n.number] = w.Target(n.number)
			exposed++
			if err := n.until("the other's window", func() bool { return exposed == 2 }); err != nil {
				return err
			}
			word := (*atomic.Uint64)(unsafe.Pointer(&w.Memory[0]))
			for number := uint64(n.number); number <= 6; number += 2 {
				if err := n.Until(func() bool { return word.Load() == number }); err != nil {
					return err
				}
				fmt.Println("node", n.number, "has", number)
				if _, err := n.Swap(targets[1-n.number], number+1); err != nil {
					return err
				}
			}
			return n.Quiet()
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
	// node 0 has 0
	// node 1 has 1
	// node 0 has 2
	// node 1 has 3
	// node 0 has 4
	// node 1 has 5
	// node 0 has 6
}
