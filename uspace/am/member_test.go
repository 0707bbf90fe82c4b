package am_test

// This file tests membership (package am, Rejoin): nodes die, are started again and join again, in
// virtual time, while all of them send to each other, over seeds. An oracle knows who lived when.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/sim"
)

// job is a job in virtual time, and its oracle.
type job struct {
	t        *testing.T
	world    *sim.World
	random   *rand.Rand
	nodes    []*jobNode
	messages []jobMessage
	starts   uint32            // of cards
	over     int64             // when nobody dies any more
	steps    int               // that all nodes have gone together
	first    map[jobStep]int64 // when the first node began a step
	failed   bool
}

// jobStep names a step by the Agree before it.
type jobStep struct {
	agreed uint32
	steps  int // since that
}

// jobNode is a node, through its lives.
type jobNode struct {
	number  int
	life    int
	process *sim.Process // nil: dead
	e       *am.Endpoint
	known   []jobView // of the others, by the events of this life
	calls   int       // of this life under way
	back    int       // messages that came back in this life
	done    bool
}

// jobView holds what a life has been told of another node.
type jobView struct {
	life  int
	there bool
	told  bool // life is known by an event
}

// jobMessage is a message whose send returned nil.
type jobMessage struct {
	from, fromLife, to, toLife int
	handled                    bool
	ended                      bool // a call's
}

const (
	stepOfJob    = 50_000 // ns between what a node does
	numberOfJobs = 4
)

func (j *job) errorf(format string, args ...any) {
	if !j.failed {
		j.t.Errorf("at %d us: "+format, append([]any{j.world.Now() / 1000}, args...)...)
	}
	j.failed = true
}

// startCard makes a card anew.
func (j *job) startCard(i int) {
	j.starts++
	cfg := engine.Native()
	cfg.Card, cfg.Incarnation, cfg.Seed = uint16(i), j.starts, uint64(j.starts)
	for k := range numberOfJobs {
		cfg.Routes = append(cfg.Routes, uint32(k))
		if k != i {
			cfg.Peers = append(cfg.Peers, engine.Peer{Card: uint16(k), Address: sim.Address(k), Local: sim.Address(i)})
		}
	}
	if err := j.world.Cards()[i].Start(cfg); err != nil {
		j.t.Fatal(err)
	}
}

// startProcess starts a life of a node.
func (j *job) startProcess(n *jobNode, life int) {
	n.life, n.back, n.calls, n.done = life, 0, 0, false
	n.known = make([]jobView, numberOfJobs)
	for i := range n.known {
		n.known[i].there = true
	}
	var err error
	if n.process, err = j.world.Cards()[n.number].Run(sim.Group, uint16(n.number), 64, func(p *sim.Process) error {
		err := j.program(n, p)
		if n.done = true; err != nil {
			j.errorf("life %d of node %d ended with %v", life, n.number, err)
		}
		return err
	}); err != nil {
		j.t.Fatal(err)
	}
}

// kill ends a node, with its card or without, and starts its next life some time later.
func (j *job) kill(n *jobNode, card bool, rest int64) {
	c := j.world.Cards()[n.number]
	if n.process == nil || n.done {
		return
	}
	if card {
		c.Crash()
	} else {
		c.Detach(n.process)
	}
	n.process = nil
	j.world.At(j.world.Now()+rest, func() {
		if card {
			j.startCard(n.number)
		}
		j.startProcess(n, n.life+1)
	})
}

// event checks an event against what is true.
func (j *job) event(n *jobNode, v am.Event) {
	k, was := j.nodes[v.Node], &n.known[v.Node]
	dead := k.life > v.Life || k.life == v.Life && k.process == nil
	switch {
	case v.Node == n.number:
		j.errorf("node %d is told of itself: %v", n.number, v)
	case v.Kind == am.Left && (!was.there || was.told && v.Life != was.life):
		j.errorf("life %d of node %d: %v, after %+v", n.life, n.number, v, *was)
	case v.Kind == am.Left && !dead && !k.done:
		j.errorf("life %d of node %d: %v, which lives", n.life, n.number, v)
	case v.Kind == am.Joined && (was.there || v.Life < was.life || v.Life > k.life):
		j.errorf("life %d of node %d: %v, after %+v, and it is in life %d", n.life, n.number, v, *was, k.life)
	}
	*was = jobView{life: v.Life, there: v.Kind == am.Joined, told: true}
	if err := n.e.Request4(v.Node, 0, 0, 0, 0, 0); !errors.Is(err, am.ErrHandler) {
		j.errorf("sending from an event: %v", err)
	}
}

// handle checks a message, or the request of a call.
func (j *job) handle(n *jobNode, m *am.Message, number uint32) {
	r := &j.messages[number]
	was := &n.known[m.Source]
	switch {
	case r.handled:
		j.errorf("message %d is handled twice", m.Words[0])
	case r.to != n.number || r.toLife != n.life:
		j.errorf("message %d for life %d of node %d is handled by life %d of node %d", m.Words[0], r.toLife, r.to,
			n.life, n.number)
	case r.from != m.Source || (was.told || n.life == 0 && m.Source != n.number) && was.life != r.fromLife:
		j.errorf("message %d of life %d of node %d is handled as from life %d of node %d", m.Words[0], r.fromLife,
			r.from, was.life, m.Source)
	case !was.there && m.Source != n.number:
		j.errorf("message %d of node %d is handled by life %d of node %d, which was told that it has left", m.Words[0],
			m.Source, n.life, n.number)
	}
	r.handled = true
}

// send sends a message to a random node.
func (j *job) send(n *jobNode) error {
	to := j.random.IntN(numberOfJobs)
	j.messages = append(j.messages, jobMessage{from: n.number, fromLife: n.life, to: to, toLife: -1, handled: true})
	number := len(j.messages) - 1
	var err error
	switch which := j.random.IntN(5); {
	case which == 0:
		err = n.e.Post4(to, 1, uint32(number), 0, 0, 0)
	case which == 1:
		err = n.e.Post(to, 1, uint32(number), 0, 0)
	case which == 2:
		err = n.e.PostBytes(to, 1, binary.LittleEndian.AppendUint32(nil, uint32(number)))
	case which == 3:
		return j.sendLong(n, to, number)
	default:
		return j.call(n, to, number)
	}
	if err == nil {
		j.messages[number].toLife, j.messages[number].handled = n.e.Life(to), false
	}
	return j.took(n, err)
}

// longMessage is the bytes of a long message.
func longMessage(number, size int) []byte {
	b := pattern(number, size)
	binary.LittleEndian.PutUint32(b, uint32(number))
	return b
}

// sendLong sends a message of many bytes. If that is done without an error it was handled once, by
// the life that it was for; one that fails has the node's end as its reason, and may have been
// handled.
func (j *job) sendLong(n *jobNode, to, number int) error {
	life, ended, started := n.life, false, false
	b := longMessage(number, 81+j.random.IntN(20_000)>>j.random.IntN(8))
	j.messages[number].toLife, j.messages[number].handled = n.e.Life(to), false
	id, err := n.e.StartBytes(to, 2, b, func(err error) {
		r := &j.messages[number]
		clear(b)
		if !started {
			return // it has left, that is all
		}
		switch {
		case ended || life != n.life:
			j.errorf("the long message %d ends twice, or for life %d and not %d", number, n.life, life)
		case err == nil && !r.handled:
			j.errorf("the long message %d was not handled", number)
		case err != nil && !errors.Is(err, am.ErrLeft) && j.took(n, err) != nil:
			j.errorf("the long message %d ended with %v", number, err)
		}
		n.calls--
		ended, r.handled = true, true // or never will be
	})
	switch {
	case err != nil:
		j.messages[number].handled = true
		return j.took(n, err)
	case id != 0:
		started = true
		j.messages[number].toLife = n.e.Life(to)
		n.calls++
	}
	return nil
}

// call calls a node. A call that returns no error was executed once, by the life that it was for;
// one that fails has the node's end as its reason.
func (j *job) call(n *jobNode, to, number int) error {
	life := n.life
	_, err := n.e.StartCall(to, 1, binary.LittleEndian.AppendUint32(nil, uint32(number)),
		func(answer []byte, err error) {
			r := &j.messages[number]
			switch {
			case r.ended || life != n.life:
				j.errorf("the call %d ends twice, or for life %d and not %d", number, n.life, life)
			case err == nil && (!r.handled || string(answer) != fmt.Sprint(number, r.toLife)):
				j.errorf("the call %d was answered with %q, executed %v", number, answer, r.handled)
			case err != nil && !errors.Is(err, am.ErrLeft) && j.took(n, err) != nil:
				j.errorf("the call %d ended with %v", number, err)
			}
			n.calls--
			r.ended, r.handled = true, true // or never will be
		})
	if err == nil {
		n.calls++
		j.messages[number].toLife, j.messages[number].handled = n.e.Life(to), false
	}
	return j.took(n, err)
}

// took counts what came back, and lets pass what may happen in a job whose nodes die.
func (j *job) took(n *jobNode, err error) error {
	var u *am.Undelivered
	if errors.As(err, &u) {
		switch u.Reason {
		case arctic.ReasonNoContext, arctic.ReasonRestarted, arctic.ReasonReplaced:
		default:
			j.errorf("life %d of node %d: %v", n.life, n.number, err)
		}
		n.back += u.Count
		return nil
	}
	if errors.Is(err, am.ErrLeft) {
		return nil
	}
	return err
}

// program runs in each life of each node: it sends, and goes steps together with all others, until
// nobody dies any more.
func (j *job) program(n *jobNode, p *sim.Process) error {
	e, err := p.Endpoint(numberOfJobs)
	if err != nil {
		return err
	}
	n.e = e
	if err := errors.Join(
		e.Handle(1, func(m *am.Message) { j.handle(n, m, m.Words[0]) }),
		e.HandleBytes(1, func(m *am.Message, b []byte) error {
			j.handle(n, m, binary.LittleEndian.Uint32(b))
			return nil
		}),
		e.HandleCall(1, func(m *am.Message, b []byte) ([]byte, error) {
			number := binary.LittleEndian.Uint32(b)
			j.handle(n, m, number)
			return fmt.Append(nil, number, " ", n.life), nil
		}),
		e.HandleBytes(2, func(m *am.Message, b []byte) error {
			number := binary.LittleEndian.Uint32(b)
			if !bytes.Equal(b, longMessage(int(number), len(b))) {
				j.errorf("message %d, %d bytes, is damaged", number, len(b))
			}
			j.handle(n, m, number)
			return nil
		}),
		e.Rejoin(am.RejoinOptions{Life: n.life, Now: p.Now, Event: func(v am.Event) { j.event(n, v) }})); err != nil {
		return err
	}
	memory := am.Memory{Segment: p.Segment, Now: p.Now, Limit: am.LeastMemory << j.random.IntN(3),
		Hold: 2 * time.Millisecond}
	if j.random.IntN(2) == 0 {
		memory.Register, memory.Unregister, memory.Withdraw = p.Context().Register, p.Context().Unregister,
			p.Context().Withdraw
	}
	if err := e.UseMemory(memory); err != nil {
		return err
	}
	agreed, steps := n.life == 0, 0
	for {
		if !agreed {
			steps = 0
			err := e.Agree()
			if err != nil {
				if err := j.took(n, err); err != nil {
					return err
				}
				continue
			}
			agreed = true
		}
		for range 1 + j.random.IntN(8) {
			if err := j.send(n); err != nil {
				return err
			}
		}
		for until := p.Now() + stepOfJob; p.Now() < until; {
			if _, err := e.Poll(); j.took(n, err) != nil {
				return err
			}
		}
		first := jobStep{e.Agreed(), steps}
		if _, ok := j.first[first]; !ok {
			j.first[first] = p.Now()
		}
		steps++
		for {
			err = e.Barrier()
			if err == nil || errors.Is(err, am.ErrLeft) || j.took(n, err) != nil {
				break
			}
		}
		switch {
		case err == nil && j.first[first] > j.over:
			return j.drain(n, p)
		case err == nil:
			j.steps++
		case errors.Is(err, am.ErrLeft):
			agreed = false
		default:
			return err
		}
	}
}

// drain ends a life: it handles what still comes, until all have had time enough to send it again.
func (j *job) drain(n *jobNode, p *sim.Process) error {
	if err := n.e.Barrier(); err != nil {
		return err
	}
	n.done = true
	for until := p.Now() + int64(time.Second); p.Now() < until; {
		if _, err := n.e.Poll(); err != nil {
			return err
		}
	}
	return nil
}

// runJob runs a job with faults and deaths that a seed tells.
func runJob(t *testing.T, seed uint64) (steps, deaths int) {
	j := &job{t: t, world: sim.NewWorld(sim.Options{}), random: rand.New(rand.NewPCG(seed, 0)),
		over: int64(300 * time.Millisecond), first: map[jobStep]int64{}}
	r := j.random
	chance := func() float64 { return []float64{0, .001, .01, .05}[r.IntN(4)] }
	net := j.world.NewEthernet(sim.EthernetConfig{Seed: seed,
		Faults: sim.Faults{Loss: chance(), Duplicate: chance(), Reorder: chance(), HoldBack: 20 * time.Millisecond}})
	t.Cleanup(j.world.Close)
	for i := range numberOfJobs {
		j.world.NewCard(net.Plug())
		j.startCard(i)
		j.nodes = append(j.nodes, &jobNode{number: i})
	}
	for _, n := range j.nodes {
		j.startProcess(n, 0)
	}
	for range 1 + r.IntN(12) {
		n, card, at := j.nodes[r.IntN(numberOfJobs)], r.IntN(4) == 0, r.Int64N(j.over-int64(100*time.Millisecond))
		rest := []int64{1_000, 100_000, 10_000_000, 60_000_000}[r.IntN(4)]
		j.world.At(at, func() { deaths++; j.kill(n, card, rest) })
	}
	all := func() bool {
		for _, n := range j.nodes {
			if n.process == nil {
				return false
			}
			if ended, _ := n.process.Ended(); !ended {
				return false
			}
		}
		return true
	}
	if j.world.Run(int64(20*time.Second), all); !all() {
		for _, n := range j.nodes {
			j.failed = false
			j.errorf("life %d of node %d has not ended: it knows %+v", n.life, n.number, n.known)
		}
	}
	last := map[int]int{}
	for _, n := range j.nodes {
		if last[n.number] = n.life; n.calls != 0 {
			j.errorf("life %d of node %d has %d calls that never ended", n.life, n.number, n.calls)
		}
		for k, v := range n.known {
			if k != n.number && (!v.there || n.e.Life(k) != j.nodes[k].life) {
				j.errorf("life %d of node %d ends with node %d as %+v, in life %d", n.life, n.number, k, v, n.e.Life(k))
			}
		}
	}
	for number, m := range j.messages {
		if !m.handled && m.fromLife == last[m.from] && m.toLife == last[m.to] {
			j.errorf("message %d from node %d to node %d, which both live, is lost", number, m.from, m.to)
		}
	}
	return j.steps, deaths
}

// TestMembersOverSeeds has nodes die at random times, with their cards or without. No message
// between two lives that go on is lost. None is handled twice, by another life, or after its sender
// has left. Events are true and alternate, and the nodes form one group again.
func TestMembersOverSeeds(t *testing.T) {
	seeds, steps, deaths := uint64(30), 0, 0
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s, d := runJob(t, seed)
			steps, deaths = steps+s, deaths+d
		})
	}
	if t.Logf("%d steps together, %d deaths", steps, deaths); steps < 30*int(seeds) || deaths < 3*int(seeds) {
		t.Errorf("only %d steps were gone together, and only %d nodes died", steps, deaths)
	}
}
