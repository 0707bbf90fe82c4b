package program

// This file is a program that only measurements run. It sends calls and messages of bytes between
// nodes 0 and 1, by package funet.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/funet"
)

// RemoteProgram is the program's name.
const RemoteProgram = "bench-remote"

// Values of RemoteOptions.Do.
const (
	RemoteCalls    = "calls"    // node 0 calls node 1; with one goroutine each call is timed
	RemoteSends    = "sends"    // node 0 sends messages of bytes to node 1
	RemoteRequests = "requests" // node 0 sends requests of four words to node 1
)

// remoteHandler is the handler of the calls and of both kinds of messages.
const remoteHandler = 0

// RemoteResult is the JSON document of one node. Node 0 has the times of calls in microseconds, and
// the node where messages arrive has their rate. An answer counts as a message.
type RemoteResult struct {
	trips
	Rate float64 `json:"msgs_per_s"`
	Place
}

// RemoteOptions are the program's flags.
type RemoteOptions struct {
	Do         string
	Bytes      int // of a call and of its answer, or of a message; requests have 16
	Count      int // calls or messages
	WarmUp     int // calls or messages before those, not measured
	Goroutines int // number of goroutines that call
}

// Arguments are the flags that say the same.
func (o RemoteOptions) Arguments() []string { return arguments(o) }

// Remote is the hidden command that a benchmark starts on a lab.
func Remote() *cobra.Command {
	return hidden(RemoteProgram, func(o RemoteOptions, ctx context.Context, f *Flags) (*RemoteResult, error) {
		memory := noMemory
		if o.Bytes > am.ShortCall {
			memory = 0 // as much as is usual
		}
		return runPlace(ctx, f, memory, o.run)
	})
}

// run runs the program on one node.
func (o RemoteOptions) run(n *Node) (*RemoteResult, error) {
	r := &RemoteResult{Place: n.Where()}
	do, err := measurement(map[string]func(*Node, *RemoteResult) error{
		RemoteCalls: o.calls, RemoteSends: o.sends, RemoteRequests: o.requests}, o.Do)
	if err != nil {
		return nil, err
	}
	return r, do(n, r)
}

// calls makes and answers calls, and checks each answer.
func (o RemoteOptions) calls(n *Node, r *RemoteResult) error {
	e := n.place
	err := e.Serve(remoteHandler, func(m *funet.Message) ([]byte, error) { return m.Bytes, nil })
	if err == nil {
		err = e.Barrier(n.ctx)
	}
	if err != nil || e.Node() != 0 {
		return errors.Join(err, e.Barrier(n.ctx)) // in which it answers
	}
	trip := o.caller(n)
	for i := range o.WarmUp {
		if err := trip(i); err != nil {
			return err
		}
	}
	begin := n.Now()
	if o.Goroutines == 1 {
		r.trips, err = times(0, o.Count, trip)
	} else {
		errs := make([]error, o.Goroutines)
		var all sync.WaitGroup
		for g := range errs {
			all.Go(func() {
				trip := o.caller(n)
				for i := 0; i < o.Count/o.Goroutines && errs[g] == nil; i++ {
					errs[g] = trip(i)
				}
			})
		}
		all.Wait()
		err = errors.Join(errs...)
	}
	r.Rate = 2 * float64(o.Count/o.Goroutines*o.Goroutines) * 1e9 / float64(n.Now()-begin)
	return errors.Join(err, e.Barrier(n.ctx))
}

// caller returns a function that makes a call, for one goroutine.
func (o RemoteOptions) caller(n *Node) func(i int) error {
	request, answer := make([]byte, o.Bytes), make([]byte, 0, o.Bytes)
	return func(i int) (err error) {
		binary.LittleEndian.PutUint32(request, uint32(i))
		if answer, err = n.place.AppendCall(n.ctx, answer[:0], 1, remoteHandler, request); err != nil {
			return err
		}
		if !bytes.Equal(answer, request) {
			return fmt.Errorf("%w: call %d brought back %x", apps.ErrVerify, i, answer)
		}
		return nil
	}
}

// sends sends messages of bytes.
func (o RemoteOptions) sends(n *Node, r *RemoteResult) error {
	c := o.counter(n)
	if err := n.place.Handle(remoteHandler, func(m *funet.Message) error {
		c.take(len(m.Bytes) == o.Bytes && binary.LittleEndian.Uint32(m.Bytes) == uint32(c.got))
		return nil
	}); err != nil {
		return err
	}
	b := make([]byte, o.Bytes)
	return c.run(n, r, func(ctx context.Context) error {
		for i := range o.WarmUp + o.Count {
			binary.LittleEndian.PutUint32(b, uint32(i))
			if err := n.place.Send(ctx, 1, remoteHandler, b); err != nil {
				return err
			}
		}
		return nil
	})
}

// requests sends as many requests of four words.
func (o RemoteOptions) requests(n *Node, r *RemoteResult) error {
	c := o.counter(n)
	came := make([]bool, c.all) // each once, in any order: packets that were rejected come later
	if err := n.place.AM(func(e *am.Endpoint) error {
		return e.Handle(remoteHandler, func(m *am.Message) {
			right := len(m.Words) == 4 && int(m.Words[0]) < c.all && !came[m.Words[0]]
			if right {
				came[m.Words[0]] = true
			}
			c.take(right)
		})
	}); err != nil {
		return err
	}
	return c.run(n, r, func(context.Context) error {
		return n.place.AM(func(e *am.Endpoint) error {
			for i := range o.WarmUp + o.Count {
				if err := e.Request4(1, remoteHandler, uint32(i), 0, 0, 0); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// counter counts messages where they arrive.
type counter struct {
	n               *Node
	warm, all       int
	got, wrong      int
	began, complete int64
}

func (o RemoteOptions) counter(n *Node) *counter {
	return &counter{n: n, warm: o.WarmUp, all: o.WarmUp + o.Count}
}

// take counts a message; right says whether it was the expected one.
func (c *counter) take(right bool) {
	if !right {
		c.wrong++
	}
	if c.got == c.warm {
		c.began = c.n.Now()
	}
	if c.got++; c.got == c.all {
		c.complete = c.n.Now()
	}
}

// run has node 0 send and node 1 count.
func (c *counter) run(n *Node, r *RemoteResult, send func(context.Context) error) error {
	e := n.place
	err := e.Barrier(n.ctx)
	if err == nil && e.Node() == 0 {
		err = send(n.ctx)
	}
	if err == nil && e.Node() == 1 {
		err = e.Wait(n.ctx, func() bool { return c.got >= c.all })
		if r.Rate = float64(c.all-c.warm-1) * 1e9 / float64(c.complete-c.began); c.wrong > 0 {
			err = fmt.Errorf("%w: %d of %d messages were not those that were to come", apps.ErrVerify, c.wrong, c.got)
		}
	}
	if err != nil {
		return err
	}
	return e.Barrier(n.ctx)
}
