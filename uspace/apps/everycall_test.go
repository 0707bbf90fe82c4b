package apps_test

// This file is a program that uses every call of package am that others build on, one after
// another, and checks each result: indirect messages, segments, gets and puts, values, and the
// operations of package collective. Node i works with node i+1, so all are busy both ways.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/collective"
	"github.com/funet/funet/uspace/funi"
)

const (
	callsHandler = 0 // request: fill the segment at this place with the own block
	callsBase    = 0x1000
	// callsValues is the address of single values, before the blocks.
	callsValues = 64
	// mostCallsWords bounds the blocks of calls.
	mostCallsWords = 1 << 22
)

// callsOptions are the same on all nodes.
type callsOptions struct {
	Rounds int // of every call
	Words  int // of each block that is moved, 1 to mostCallsWords
	Seed   uint64
}

// callsResult is the result at node 0.
type callsResult struct {
	Rounds      int
	Nanoseconds int64 // for all of them
}

// calls runs the program. register makes a segment known to the card of this process; clock returns
// nanoseconds. On nodes other than 0 the result is empty. apps.ErrVerify reports a wrong result.
func calls(e *am.Endpoint, register func(funi.Segment) error, clock func() int64, o callsOptions) (callsResult, error) {
	if o.Rounds < 1 || o.Words < 1 || o.Words > mostCallsWords {
		return callsResult{}, fmt.Errorf("running calls %d times on %d words: use at least 1 round and 1 to %d words",
			o.Rounds, o.Words, mostCallsWords)
	}
	c := caller{e: e, all: collective.New(e), o: o, size: (4*o.Words + 15) &^ 15}
	c.memory = make([]byte, callsValues+4*c.size)
	err := errors.Join(
		e.Share(register, funi.Segment{Base: callsBase, Memory: c.memory, Rights: funi.Source | funi.Destination}),
		e.Handle(callsHandler, c.fill))
	if err != nil {
		return callsResult{}, err
	}
	if c.object, err = e.AddObject(&c); err != nil {
		return callsResult{}, err
	}
	if err := errors.Join(e.WriteInt32(e.Node(), callsBase, int32(c.object)), e.Barrier()); err != nil {
		return callsResult{}, err
	}
	begin := clock()
	for round := range o.Rounds {
		if err := c.round(round); err != nil {
			return callsResult{}, fmt.Errorf("round %d: %w", round, err)
		}
	}
	if err := errors.Join(c.failed, e.Barrier()); err != nil || e.Node() != 0 {
		return callsResult{}, err
	}
	return callsResult{Rounds: o.Rounds, Nanoseconds: clock() - begin}, nil
}

// caller is one node of the program. It is also the object of its indirect messages.
type caller struct {
	e      *am.Endpoint
	all    *collective.Group
	o      callsOptions
	memory []byte
	size   int // of a block and what makes it a multiple of 16
	object uint32

	full    int // segments that have been filled
	echoes  int // answers to indirect messages
	seed    uint64
	counter am.Counter
	failed  error // in a handler
}

// The blocks in memory: what the node offers, and what it gets in each way.
const (
	ownBlock = iota
	segmentBlock
	getBlock
	putBlock
)

func (c *caller) address(block int) uint32 { return uint32(callsBase + callsValues + block*c.size) }

func (c *caller) block(n int) []byte {
	at := callsValues + n*c.size
	return c.memory[at : at+4*c.o.Words]
}

// round uses every call once. It leaves no node before all have checked what they got.
func (c *caller) round(round int) error {
	e := c.e
	next, before := (e.Node()+1)%e.Nodes(), (e.Node()+e.Nodes()-1)%e.Nodes()
	for _, step := range []func() error{
		func() error { return c.agree(round) },
		func() error {
			c.pattern(c.block(ownBlock), e.Node())
			return e.Barrier()
		},
		func() error { return c.segment(next) },
		func() error { return c.copies(next) },
		e.Barrier,
		func() error { return c.verify("put", putBlock, before) },
		func() error { return c.values(next, round) },
		func() error { return c.indirect(next) },
		c.reduce,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// agree brings the seed of a round from its root to all.
func (c *caller) agree(round int) error {
	seed := c.o.Seed*2654435761 + uint64(round)
	b, root := make([]byte, 8), round%c.e.Nodes()
	if c.e.Node() == root {
		binary.LittleEndian.PutUint64(b, seed)
	}
	if err := c.all.Broadcast(root, b); err != nil {
		return err
	}
	if c.seed = binary.LittleEndian.Uint64(b); c.seed != seed {
		return fmt.Errorf("%w: node %d broadcast seed %d, want %d", apps.ErrVerify, root, c.seed, seed)
	}
	return nil
}

// segment has a node fill a segment.
func (c *caller) segment(node int) error {
	place, err := c.e.OpenSegment(c.address(segmentBlock), 4*c.o.Words, func(_ *am.Message, info any) {
		*info.(*int)++
	}, &c.full)
	if err != nil {
		return err
	}
	if err := c.e.Request4(node, callsHandler, uint32(place), c.address(segmentBlock), 0, 0); err != nil {
		return err
	}
	if err := c.e.WaitFlag(node, &c.full, 1); err != nil {
		return err
	}
	return c.verify("segment", segmentBlock, node)
}

// fill puts the node's own block into the segment of the node that asked. The card moves the first
// half, and messages carry the rest.
func (c *caller) fill(m *am.Message) {
	place, to := am.Place(m.Words[0]), m.Words[1]
	words := c.o.Words / 2 &^ 3
	if words > 0 {
		c.note(m.ReplyMfer(place, c.address(ownBlock), to, words))
	}
	c.note(m.ReplyXfer(place.At(4*words), c.block(ownBlock)[4*words:]))
}

// note keeps the first error of a handler.
func (c *caller) note(err error) {
	if c.failed == nil {
		c.failed = err
	}
}

// copies gets the block of a node, and puts the own one to it.
func (c *caller) copies(node int) error {
	if err := c.e.Get(node, c.address(ownBlock), c.address(getBlock), c.o.Words, &c.counter); err != nil {
		return err
	}
	if err := c.e.Put(node, c.address(putBlock), c.address(ownBlock), c.o.Words, &c.counter); err != nil {
		return err
	}
	if err := c.e.WaitCounter(&c.counter, 2); err != nil {
		return err
	}
	return c.verify("get", getBlock, node)
}

// values writes single values to a node, and reads them again.
func (c *caller) values(node, round int) error {
	integer, double := int32(-round), 1/float64(round+1)
	if err := c.e.WriteInt32(node, callsBase+16, integer); err != nil {
		return err
	}
	if err := c.e.WriteFloat64(node, callsBase+24, double); err != nil {
		return err
	}
	i, err := c.e.ReadInt32(node, callsBase+16)
	if err != nil {
		return err
	}
	d, err := c.e.ReadFloat64(node, callsBase+24)
	if err == nil && (i != integer || d != double) {
		err = fmt.Errorf("%w: node %d has %d and %v, want %d and %v", apps.ErrVerify, node, i, d, integer, double)
	}
	return err
}

// indirect sends a message to a node's object, which sends one to this node's.
func (c *caller) indirect(node int) error {
	theirs, err := c.e.ReadInt32(node, callsBase)
	if err != nil {
		return err
	}
	want := c.echoes + 2
	if err := c.e.RequestIndirect4(node, uint32(theirs), 1, c.object, 0, 0); err != nil {
		return err
	}
	if err := c.e.RequestIndirect(node, uint32(theirs), 1, c.object); err != nil {
		return err
	}
	return c.e.WaitFor(node, func() bool { return c.echoes >= want })
}

// Receive answers an indirect request, by which the other side counts.
func (c *caller) Receive(m *am.Message) {
	switch {
	case m.Words[0] == 0:
		c.echoes++
	case len(m.Words) == 4:
		c.note(m.ReplyIndirect4(m.Words[1], 0, 0, 0, 0))
	default:
		c.note(m.ReplyIndirect(m.Words[1], 0))
	}
}

// reduce combines values of all nodes whose result every node can compute.
func (c *caller) reduce() error {
	n, sum, most := c.e.Nodes(), []int64{int64(c.e.Node())}, []float64{float64(c.e.Node()) / 2}
	if err := collective.AllReduce(c.all, am.Sum, sum); err != nil {
		return err
	}
	err := collective.AllReduce(c.all, am.Max, most)
	if err == nil && (sum[0] != int64(n)*int64(n-1)/2 || most[0] != float64(n-1)/2) {
		err = fmt.Errorf("%w: sum %d and maximum %v of the numbers of %d nodes", apps.ErrVerify, sum[0], most[0], n)
	}
	return err
}

// verify checks that a block is that of a node.
func (c *caller) verify(what string, block, node int) error {
	want := make([]byte, 4*c.o.Words)
	c.pattern(want, node)
	if !bytes.Equal(want, c.block(block)) {
		return fmt.Errorf("%w: %s brought other data than node %d's", apps.ErrVerify, what, node)
	}
	return nil
}

// pattern is the content of a node's block in a round.
func (c *caller) pattern(b []byte, node int) {
	x := c.seed*31 + uint64(node) + 1
	for i := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
}
