package program

// This file is a program that only measurements run. It makes round trips between nodes 0 and 1 by
// the protocols of package rats.

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"

	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
)

// RatsProgram is the program's name.
const RatsProgram = "bench-rats"

// Values of RatsOptions.Do.
const (
	RatsTags  = "tags"  // tagged writes, each answered by one
	RatsCalls = "calls" // simple datagrams, each answered by one of as many bytes
	RatsBulk  = "bulk"  // simple datagrams, each answered by an empty one
)

const (
	tagsMemory = 4096
	tagsWindow = 64 // tags that may be unread at a time

	ratsBase   = 0x1000_0000
	ratsMemory = 4 << 20
	// ratsLast is the tag or word that ends the program.
	ratsLast = math.MaxUint32
)

// ratsSizes bounds the numbers that a process can open.
var ratsSizes = funi.RemoteSizes{KeySlots: 64, Areas: 64, Notifications: 256}

// RatsResult is the JSON document of one node. Node 0 has times of round trips in microseconds.
type RatsResult struct {
	trips
	Place
}

// RatsOptions are the program's flags.
type RatsOptions struct {
	Do     string
	Bytes  int // of a message
	Count  int // round trips
	WarmUp int // round trips before those, not measured
}

// Arguments are the flags that say the same.
func (o RatsOptions) Arguments() []string { return arguments(o) }

// Rats is the hidden command that a benchmark starts on a lab.
func Rats() *cobra.Command {
	return hidden(RatsProgram, func(o RatsOptions, ctx context.Context, f *Flags) (*RatsResult, error) {
		if err := o.check(); err != nil {
			return nil, err
		}
		return o.open(ctx, f)
	})
}

// check refuses counts that are out of range.
func (o RatsOptions) check() error {
	return cmp.Or(InRange("--count", o.Count, 1, math.MaxInt32-1), InRange("--warm-up", o.WarmUp, 0, math.MaxInt32))
}

// ratsNode is one node.
type ratsNode struct {
	RatsOptions
	drive func() error // lets the card run, or returns why it cannot any more
	now   func() int64 // in nanoseconds
	m     *rats.Manager
	peer  uint16
	first bool // this is node 0
	wait  time.Duration
}

// open opens the process's place and runs the program.
func (o RatsOptions) open(ctx context.Context, f *Flags) (r *RatsResult, err error) {
	do, err := measurement(map[string]func(*ratsNode, *hdrhistogram.Histogram) error{
		RatsTags: (*ratsNode).tags, RatsCalls: (*ratsNode).calls, RatsBulk: (*ratsNode).calls}, o.Do)
	if err != nil {
		return nil, err
	}
	r = new(RatsResult)
	r.Place, err = onCarrier(ctx, f, ratsSizes, func(c funet.Carrier, node int) error {
		e, err := rats.New(c.Interface(), node, rand.Reader)
		if err != nil {
			return err
		}
		if own, is := c.(*card.Card); is {
			e.Pace(own.CPU())
		}
		n := &ratsNode{RatsOptions: o, drive: driven(ctx, c), now: c.Now, peer: uint16(1 - node), first: node == 0,
			wait: f.Wait}
		h := NewTimes()
		if err = n.manage(e, c.Segment); err == nil {
			err = do(n, h)
		}
		if n.first {
			r.trips = tripsOf(h)
		}
		return err
	})
	return r, err
}

// manage makes the manager of an endpoint, with memory of the node's.
func (n *ratsNode) manage(e *rats.Endpoint, segment func(uint32, int, funi.Rights) ([]byte, error)) (err error) {
	s := funi.Segment{Base: ratsBase, Rights: funi.Keyed | funi.Source}
	if s.Memory, err = segment(s.Base, ratsMemory, s.Rights); err == nil {
		n.m, err = rats.Manage(e, s)
	}
	return err
}

// until drives the card until done returns true.
func (n *ratsNode) until(done func() bool) error {
	for !done() {
		if err := n.drive(); err != nil {
			return err
		}
		n.m.Poll()
	}
	return nil
}

// exchange gives the other node a seed and returns the other's, by initial requests.
func (n *ratsNode) exchange(s *rats.Server, key rats.Key, mine rats.Seed) (theirs rats.Seed, err error) {
	if err := n.until(n.m.Settled); err != nil {
		return theirs, err
	}
	b := mine.Encode()
	words := make([]uint32, rats.SeedSize/arctic.WordSize)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(b[i*arctic.WordSize:])
	}
	var q *rats.Inquiry
	var pending []rats.Request
	told, heard := false, false
	end := n.now() + int64(n.wait)
	err = errors.Join(n.until(func() bool {
		if r, ok := s.Recv(); ok {
			pending = append(pending, r)
		}
		if len(pending) > 0 && s.SendReply(&pending[0], words...) {
			pending, told = pending[1:], true
		}
		if heard {
			return told
		}
		if q == nil {
			if q, err = n.m.Ask(n.peer, key); err != nil {
				return true
			}
		}
		answer, ok, _, failed := q.RecvReply(n.now())
		switch {
		case failed != nil: // the other node is not there yet
			q.Close()
			q = nil
			if n.now() > end {
				err = failed
				return true
			}
		case ok:
			q.Close()
			heard = true
			var c [rats.SeedSize]byte
			for i, w := range answer {
				if i < len(words) {
					binary.LittleEndian.PutUint32(c[i*arctic.WordSize:], w)
				}
			}
			if theirs, err = rats.DecodeSeed(c[:]); err != nil {
				return true
			}
		}
		return heard && told
	}), err)
	return theirs, err
}

// ratsKey is the key under which each node asks the other for its seed. It is no secret, because
// both nodes are alone on a lab.
func ratsKey() rats.Key { return rats.KeyOf([]byte("bench-rats, a lab of its own")) }

// rounds makes round trips: node 0 begins each, and node 1 answers until the last.
func (n *ratsNode) rounds(h *hdrhistogram.Histogram, say, hear func(i uint32) error) error {
	if !n.first {
		for i := uint32(0); ; i++ {
			if err := hear(i); err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
			if err := say(i); err != nil {
				return err
			}
		}
	}
	if err := timed(h, n.now, n.WarmUp, n.Count, func(i int) error {
		return errors.Join(say(uint32(i)), hear(uint32(i)))
	}); err != nil {
		return err
	}
	if err := say(ratsLast); err != nil {
		return err
	}
	return n.until(n.m.Settled)
}

// check compares the word that came with the expected one.
func check(got, want uint32) error {
	switch got {
	case want:
		return nil
	case ratsLast:
		return io.EOF
	}
	return fmt.Errorf("%w: message %d came instead of %d", apps.ErrVerify, got, want)
}

// tags makes round trips of tagged writes.
func (n *ratsNode) tags(h *hdrhistogram.Histogram) error {
	s, err := n.m.Serve(ratsKey())
	if err != nil {
		return err
	}
	memory, err := n.m.Alloc(tagsMemory)
	if err != nil {
		return err
	}
	target, err := n.m.NewTarget(memory, tagsWindow)
	if err != nil {
		return err
	}
	mine, err := target.TaggedSeed()
	if err != nil {
		return err
	}
	theirs, err := n.exchange(s, ratsKey(), mine)
	if err != nil {
		return err
	}
	w, err := n.m.WriteTo(theirs)
	if err != nil {
		return err
	}
	data := make([]byte, n.Bytes)
	var failed error
	return n.rounds(h, func(i uint32) error {
		err := n.until(func() bool { failed = w.WriteTag(0, data, i); return !errors.Is(failed, rats.ErrFull) })
		return errors.Join(err, failed)
	}, func(i uint32) error {
		var g rats.Tag
		if err := n.until(func() (ok bool) { g, ok = target.GetTag(); return ok || w.Err() != nil }); err != nil ||
			w.Err() != nil {
			return errors.Join(err, w.Err())
		}
		return check(g.Tag, i)
	})
}

// calls makes round trips of simple datagrams, each with the ticket for its answer.
func (n *ratsNode) calls(h *hdrhistogram.Histogram) error {
	s, err := n.m.Serve(ratsKey())
	if err != nil {
		return err
	}
	in, err := n.m.Alloc(n.Bytes)
	if err != nil {
		return err
	}
	out, err := n.m.Alloc(n.Bytes)
	if err != nil {
		return err
	}
	simple, err := n.m.NewSimple(in)
	if err != nil {
		return err
	}
	to, err := n.exchange(s, ratsKey(), simple.Seed())
	if err != nil {
		return err
	}
	if !n.first && n.Do == RatsBulk {
		out = nil
	}
	var g rats.Message
	var failed error
	return n.rounds(h, func(i uint32) error {
		err := n.until(func() bool {
			_, failed = to.Send(n.m, out, simple.MetadataForSelf(i))
			return !errors.Is(failed, rats.ErrFull)
		})
		return errors.Join(err, failed)
	}, func(i uint32) error {
		err := n.until(func() (ok bool) { ok, failed = simple.Recv(&g); return ok || failed != nil })
		if err != nil || failed != nil {
			return errors.Join(err, failed)
		}
		to = g.Reply
		return check(g.Own[0], i)
	})
}
