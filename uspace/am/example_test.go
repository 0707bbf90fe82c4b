package am_test

// This file is how package am is used, in virtual time, where every run is the same. On a network a
// program gets its endpoint from am.New, with the interface of a card (packages card and attach);
// the rest is as it is here.

import (
	"errors"
	"fmt"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/collective"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
)

// group runs a program as each of some nodes, until all have ended.
func group(nodes int, program func(e *am.Endpoint, p *sim.Process) error) {
	k, err := sim.NewCluster(sim.ClusterOptions{Nodes: nodes}, func(p *sim.Process) error {
		e, err := p.Endpoint(nodes)
		if err != nil {
			return err
		}
		return program(e, p)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()
	if err := k.Finish(time.Second); err != nil {
		fmt.Println(err)
	}
}

// A request runs a handler on another node, which replies.
func Example() {
	group(2, func(e *am.Endpoint, _ *sim.Process) error {
		const square, answer = 0, 1 // numbers of handlers, the same on all nodes
		var got uint32
		var failed error // of a handler, which cannot return it
		err := errors.Join(
			e.Handle(square, func(m *am.Message) { failed = m.Reply4(answer, m.Words[0]*m.Words[0], 0, 0, 0) }),
			e.Handle(answer, func(m *am.Message) { got = m.Words[0] }),
			e.Barrier()) // all have their handlers
		if err != nil {
			return err
		}
		if e.Node() == 0 {
			if err := e.Request4(1, square, 12, 0, 0, 0); err != nil {
				return err
			}
			if err := e.WaitFor(1, func() bool { return got != 0 }); err != nil {
				return err
			}
			fmt.Println("12 squared is", got)
		}
		return errors.Join(e.Barrier(), failed) // nobody leaves before
	})
	// Output: 12 squared is 144
}

// Post leaves messages in the send queue for the next call that polls, so the program goes on at
// once and the card has many to put into a frame. Who sends many posts them.
func ExampleEndpoint_Post4() {
	const messages = 1000
	group(2, func(e *am.Endpoint, _ *sim.Process) error {
		count := 0
		if err := errors.Join(e.Handle(0, func(*am.Message) { count++ }), e.Barrier()); err != nil {
			return err
		}
		if e.Node() == 1 {
			err := e.WaitFor(0, func() bool { return count == messages })
			fmt.Println(count, "messages")
			return errors.Join(err, e.Barrier())
		}
		for i := range uint32(messages) {
			if err := e.Post4(1, 0, i, 0, 0, 0); err != nil { // while the queue is full it polls
				return err
			}
		}
		return e.Barrier() // which sends the last of them
	})
	// Output: 1000 messages
}

// A transfer moves memory of one process into memory of another, without either touching it, and
// runs a handler there.
func ExampleEndpoint_Transfer() {
	const from, to = 0x1000, 0x2000 // addresses of segments
	group(2, func(e *am.Endpoint, p *sim.Process) error {
		source, err := p.Segment(from, 64, funi.Source)
		if err != nil {
			return err
		}
		destination, err := p.Segment(to, 64, funi.Destination)
		if err != nil {
			return err
		}
		arrived := false
		if err := errors.Join(e.HandleNotice(0, func(*am.Message, funi.Notice) { arrived = true }),
			e.Barrier()); err != nil {
			return err
		}
		if e.Node() == 0 {
			copy(source, "moved by the card")
			if err := e.Transfer(1, 0, funi.Transfer{Source: from, Destination: to, Words: 16}); err != nil {
				return err
			}
			// Only now may the source change.
			if err := e.Wait(func() bool { return e.Retrieved(funi.Request) }); err != nil {
				return err
			}
		} else {
			if err := e.WaitFor(0, func() bool { return arrived }); err != nil {
				return err
			}
			fmt.Printf("%s\n", destination[:17])
		}
		return e.Barrier()
	})
	// Output: moved by the card
}

// Package collective has the operations of all nodes. Each returns the same to all.
func ExampleEndpoint_Exchange() {
	group(5, func(e *am.Endpoint, _ *sim.Process) error {
		sum := []int64{int64(e.Node())}
		err := collective.AllReduce(collective.New(e), am.Sum, sum)
		if err == nil && e.Node() == 3 {
			fmt.Println("0+1+2+3+4 =", sum[0])
		}
		return errors.Join(err, e.Barrier())
	})
	// Output: 0+1+2+3+4 = 10
}
