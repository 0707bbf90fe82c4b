// Package bed runs programs of package am on cards in memory, in virtual time. So a test of a
// program with up to a few dozen nodes is deterministic: the same options give the same frames in
// the same order.
//
// The journey of a test: New makes a network (tests/wire) with a card and an endpoint for every
// node. Run starts the program once for each node, as a coroutine. A program runs until its
// endpoint lets the card run. This steps the card once and gives way to the next node. When every
// node has had its turn, time moves on. If a card made progress, it moves by PollTime. Otherwise it
// moves to the next event, but at most by IdleTime, because programs poll and look at clocks.
//
// A node ends as a process does. When its program succeeds, the card goes on until everything sent
// is delivered, at most Linger. Then the card says goodbye and is gone, as card.Card.Close does.
// When the program fails, the card says goodbye at once. Kill ends the node without a word.
//
// A bed and all its programs belong to the goroutine of the test: only one of them
// runs at a time. A test that has not ended after Options.Limit of virtual time fails.
package bed

import (
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// Group is the group that all nodes are in.
const Group = 7

// These are steps and limits of virtual time.
const (
	PollTime = 100 * time.Nanosecond
	IdleTime = 20 * time.Microsecond
	Linger   = 2 * time.Second
)

// ErrKilled is the error of a node that was killed.
var ErrKilled = errors.New("bed: node was killed")

// Options configures a bed.
type Options struct {
	Nodes int
	Slots int         // of each queue; 0: 64
	Net   wire.Config // a Delay of 0 is one microsecond
	Tune  func(*engine.Config)
	Limit time.Duration // of virtual time; 0: one minute
}

// Bed is a group of nodes on one network.
type Bed struct {
	Net   *wire.Network
	Nodes []*Node

	t      testing.TB
	now    int64
	limit  int64
	events []event // few, in no order
}

// event is an action of a test at a time.
type event struct {
	at int64
	do func()
}

// Node is one node: its card, context and endpoint, and the program that runs on it.
type Node struct {
	*am.Endpoint
	Card   *engine.Card
	Memory *funi.Memory

	bed   *Bed
	ctx   *engine.Context
	iface *funi.Interface
	state state
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool // to the scheduler; false: the node was killed
	err   error
	wake  int64 // when the card must run next
	until int64 // end of a pause, or of closing
}

// state is the state of a node's life.
type state int

const (
	running state = iota
	closing
	gone
)

// address is the Ethernet address of a node's card.
func address(node int) [6]byte { return [6]byte{2, 0, 0, 0, byte(node >> 8), byte(node)} }

// New makes a bed. Card i has one context, node i.
func New(t testing.TB, o Options) *Bed {
	t.Helper()
	if o.Slots == 0 {
		o.Slots = 64
	}
	if o.Net.Delay == 0 {
		o.Net.Delay = time.Microsecond
	}
	if o.Limit == 0 {
		o.Limit = time.Minute
	}
	b := &Bed{t: t, Net: wire.New(o.Net), now: 1, limit: int64(o.Limit)}
	for i := range o.Nodes {
		n, err := b.node(i, &o)
		if err != nil {
			t.Fatal(err)
		}
		b.Nodes = append(b.Nodes, n)
	}
	return b
}

func (b *Bed) node(i int, o *Options) (*Node, error) {
	cfg := engine.Native()
	cfg.Card, cfg.Incarnation, cfg.Seed = uint16(i), uint32(i+1), uint64(i)
	cfg.Ports = []port.Port{b.Net.Plug(address(i))}
	for j := range o.Nodes {
		cfg.Routes = append(cfg.Routes, uint32(j))
		if j != i {
			cfg.Peers = append(cfg.Peers, engine.Peer{Card: uint16(j), Address: address(j), Local: address(i)})
		}
	}
	if o.Tune != nil {
		o.Tune(&cfg)
	}
	n := &Node{bed: b}
	var err error
	if n.Card, err = engine.New(cfg); err != nil {
		return nil, err
	}
	memory, err := funi.NewMemory(o.Slots)
	if err != nil {
		return nil, err
	}
	iface, err := funi.Initialize(memory)
	if err != nil {
		return nil, err
	}
	if n.ctx, err = n.Card.Attach(memory, Group, uint16(i), 0); err != nil {
		return nil, err
	}
	n.iface, n.Memory = iface, memory
	n.Endpoint, err = am.New(iface, i, o.Nodes, n.drive, cfg.Seed)
	return n, err
}

// Now returns the virtual time in nanoseconds.
func (b *Bed) Now() int64 { return b.now }

// At registers an action on the bed for a time, such as Kill or Net.Cut. The action runs after a
// turn of every node, when that time has come.
func (b *Bed) At(at time.Duration, do func()) { b.events = append(b.events, event{int64(at), do}) }

// Run runs the program once for each node, and returns each node's error. A bed allows one call.
func (b *Bed) Run(program func(*Node) error) []error {
	b.t.Helper()
	for _, n := range b.Nodes {
		if n.state == running {
			n.start(program)
		}
	}
	defer func() {
		for _, n := range b.Nodes {
			n.Kill() // coroutines that a failed test leaves behind
		}
	}()
	for b.round() {
		if b.now > b.limit {
			b.t.Fatalf("not over after %v of virtual time:%s", time.Duration(b.limit), b.states())
		}
	}
	errs := make([]error, len(b.Nodes))
	for i, n := range b.Nodes {
		errs[i] = n.err
	}
	return errs
}

// MustRun does what Run does, and fails the test if a node has an error.
func (b *Bed) MustRun(program func(*Node) error) {
	b.t.Helper()
	for i, err := range b.Run(program) {
		if err != nil {
			b.t.Fatalf("node %d: %v", i, err)
		}
	}
}

// start makes a coroutine that runs the program.
func (n *Node) start(program func(*Node) error) {
	n.next, n.stop = iter.Pull(func(yield func(struct{}) bool) {
		n.yield = yield
		defer func() {
			if r := recover(); r != nil && r != ErrKilled {
				panic(r)
			}
		}()
		n.err = program(n)
	})
}

// round gives every node its turn and moves time on. It returns false when all nodes
// are gone.
func (b *Bed) round() bool {
	progress, left := false, false
	next := b.now + int64(IdleTime)
	for _, n := range b.Nodes {
		before := n.Card.Progress()
		n.turn()
		progress = progress || n.Card.Progress() != before
		if n.state == gone {
			continue
		}
		left = true
		if n.state == running && n.until > b.now {
			next = min(next, n.until)
		} else {
			next = min(next, n.wake)
		}
	}
	if at, ok := b.Net.Next(); ok {
		next = min(next, at)
	}
	for _, e := range b.events {
		next = min(next, e.at)
	}
	if progress {
		next = b.now
	}
	b.now = max(next, b.now+int64(PollTime))
	b.Net.Advance(b.now)
	for i := 0; i < len(b.events); {
		if e := b.events[i]; e.at <= b.now {
			b.events = append(b.events[:i], b.events[i+1:]...)
			e.do()
		} else {
			i++
		}
	}
	return left
}

// turn lets the node run until it gives way.
func (n *Node) turn() {
	now := n.bed.now
	switch n.state {
	case running:
		if n.until > now {
			return // paused: neither program nor card runs
		}
		if _, more := n.next(); more {
			return
		}
		n.state, n.until = closing, now+int64(Linger)
		if n.err != nil {
			n.until = now
		}
	case closing:
		for l := range arctic.Level(arctic.Levels) {
			for n.iface.Receive(l) != nil {
				n.iface.Release(l)
			}
		}
		n.wake = n.Card.Step(now)
		if n.ctx.Idle() || now >= n.until {
			n.Card.Leave()
			n.Card.Step(now)
			n.state = gone
		}
	}
}

// drive lets the card run; the endpoint calls it.
func (n *Node) drive() {
	n.wake = n.Card.Step(n.bed.now)
	n.giveWay()
}

func (n *Node) giveWay() {
	if n.state != running || !n.yield(struct{}{}) {
		panic(ErrKilled)
	}
}

// Register lets the node's card use memory for transfers.
func (n *Node) Register(g funi.Segment) error { return n.ctx.Register(g) }

// Unregister ends the card's use of memory.
func (n *Node) Unregister(base uint32) error { return n.ctx.Unregister(base) }

// Withdraw ends the card's use of memory, although transfers from there may be under way.
func (n *Node) Withdraw(base uint32) error { return n.ctx.Withdraw(base) }

// Segment returns new memory that the node's card may use for transfers.
func (n *Node) Segment(base uint32, bytes int, rights funi.Rights) ([]byte, error) {
	memory := make([]byte, bytes)
	return memory, n.ctx.Register(funi.Segment{Base: base, Memory: memory, Rights: rights})
}

// Now returns the virtual time in nanoseconds; it is the programs' clock.
func (n *Node) Now() int64 { return n.bed.now }

// Pause lets a time in nanoseconds pass, in which neither the program nor its card runs.
func (n *Node) Pause(ns int64) {
	n.until = n.bed.now + ns
	n.giveWay()
}

// Kill ends program and card at once, as SIGKILL does. A program must not kill its
// own node.
func (n *Node) Kill() {
	if n.state == running {
		n.err = ErrKilled
	}
	n.state = gone
	if n.stop != nil {
		n.stop()
	}
}

// states returns the state and the counters of each node.
func (b *Bed) states() (s string) {
	for i, n := range b.Nodes {
		s += fmt.Sprintf("\nnode %d is %s: %+v", i, [...]string{"running", "closing", "gone"}[n.state],
			n.Card.Counters())
	}
	return s
}
