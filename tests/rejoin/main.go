// Rejoin is a program of a job whose nodes are killed and started again (funet run --restart), and
// which verifies every message. tests/rejoin_test.go runs it.
//
// The journey: each node calls all others in turn and sends them messages, whose numbers and bytes
// the receiver verifies, and prints what happens to the others as it learns of it. A life that has
// exchanged calls with all others prints "up". When there is a file with the name of the argument,
// all agree on who is there, ask each other how many messages have arrived, say how long the
// longest call took, and end. What a node finds wrong ends it with exit code 3, and it prints a
// line that begins with "wrong".
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funet"
)

// Handlers.
const (
	echo = 1 // call: a block; answered by its bytes in reverse order
	take = 2 // message: a block
	// call: the caller's life; answered by the own one, and how many messages of that life have
	// come
	count = 3
)

// longest is the most bytes of a block's contents.
const longest = 48

// program is the state of this node.
type program struct {
	*funet.Endpoint
	ctx     context.Context
	life    uint32
	longest time.Duration // of a call

	mu      sync.Mutex
	called  map[int]series             // by others, by node
	taken   map[lifeOf]map[uint32]bool // numbers of their messages
	answers map[int]bool               // nodes that have answered this life
	callers map[int]bool               // and that have called it
}

// series is the last number that a life of a node has called with.
type series struct{ life, number uint32 }

// lifeOf is a life of a node.
type lifeOf struct {
	node int
	life uint32
}

// tally is how many messages this life has sent to a life of a node, and how many perhaps to
// another life.
type tally struct{ sent, perhaps int }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Println("wrong:", err)
		os.Exit(3)
	}
}

func run(ctx context.Context, end string) error {
	cfg, err := attach.Environment()
	if err != nil {
		return err
	}
	p := &program{ctx: ctx, life: uint32(cfg.Life), called: map[int]series{}, taken: map[lifeOf]map[uint32]bool{},
		answers: map[int]bool{}, callers: map[int]bool{}}
	wrong := make(chan error, 100)
	say := func(err error) {
		if err != nil {
			select {
			case wrong <- err:
			default:
			}
		}
	}
	p.Endpoint, err = funet.Open(ctx, funet.Options{Rejoin: true, OnError: func(err error) {
		if !expected(err) {
			say(err)
		}
	}})
	if err != nil {
		return err
	}
	if err := errors.Join(p.Serve(echo, p.echo), p.Handle(take, p.take), p.Serve(count, p.count)); err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { say(p.Run(running)) }()
	var told sync.WaitGroup
	told.Go(func() {
		for v := range p.Events() {
			fmt.Printf("event %v %d life %d\n", v.Kind, v.Node, v.Life)
		}
	})
	sent, err := p.talk(end, wrong)
	if err == nil {
		err = p.compare(sent)
	}
	if err == nil {
		select {
		case err = <-wrong:
		default:
		}
	}
	if err != nil {
		return err
	}
	closing, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	if err := p.Close(closing); err != nil {
		return err
	}
	told.Wait()
	fmt.Println("longest call:", p.longest)
	fmt.Println("verified")
	return nil
}

// expected reports whether a call or a message may fail for this in a job whose nodes die.
func expected(err error) bool {
	var u *am.Undelivered
	return errors.Is(err, funet.ErrLeft) || errors.As(err, &u)
}

// block makes the bytes of a message: life, number, and contents that depend on all.
func (p *program) block(number uint32) []byte { return contents(p.Node(), p.life, number) }

func contents(node int, life, number uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, life)
	b = binary.LittleEndian.AppendUint32(b, number)
	r := rand.New(rand.NewPCG(uint64(node)<<32|uint64(life), uint64(number)))
	for range r.IntN(longest) {
		b = append(b, byte(r.Uint32()))
	}
	return b
}

// check verifies a block and returns its life and number.
func check(m *funet.Message) (life, number uint32, err error) {
	if len(m.Bytes) < 8 {
		return 0, 0, fmt.Errorf("%d bytes from node %d", len(m.Bytes), m.Source)
	}
	life, number = binary.LittleEndian.Uint32(m.Bytes), binary.LittleEndian.Uint32(m.Bytes[4:])
	if !bytes.Equal(m.Bytes, contents(m.Source, life, number)) {
		return 0, 0, fmt.Errorf("the bytes of message %d of life %d of node %d are others", number, life, m.Source)
	}
	return life, number, nil
}

// echo answers a call. A life calls with one number after the other, and each call is executed
// once.
func (p *program) echo(m *funet.Message) ([]byte, error) {
	life, number, err := check(m)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	last, known := p.called[m.Source]
	switch {
	case known && life < last.life:
		return nil, fmt.Errorf("life %d of node %d calls after life %d", life, m.Source, last.life)
	case known && life == last.life && number != last.number+1:
		return nil, fmt.Errorf("call %d of life %d of node %d comes after call %d", number, life, m.Source, last.number)
	}
	p.called[m.Source] = series{life, number}
	p.callers[m.Source] = true
	return reverse(m.Bytes), nil
}

func reverse(b []byte) []byte {
	r := make([]byte, len(b))
	for i := range b {
		r[len(b)-1-i] = b[i]
	}
	return r
}

// take takes a message, each once.
func (p *program) take(m *funet.Message) error {
	life, number, err := check(m)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	of := lifeOf{m.Source, life}
	if p.taken[of] == nil {
		p.taken[of] = map[uint32]bool{}
	}
	if p.taken[of][number] {
		return fmt.Errorf("message %d of life %d of node %d came twice", number, life, m.Source)
	}
	p.taken[of][number] = true
	return nil
}

// count tells how many messages of a life have come.
func (p *program) count(m *funet.Message) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.taken[lifeOf{m.Source, binary.LittleEndian.Uint32(m.Bytes)}])
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, p.life), uint32(n)), nil
}

// talk calls and sends until there is the file, and returns what it has sent.
func (p *program) talk(end string, wrong <-chan error) (map[lifeOf]tally, error) {
	sent := map[lifeOf]tally{}
	up := false
	for number := uint32(1); ; number++ {
		select {
		case err := <-wrong:
			return nil, err
		default:
		}
		if _, err := os.Stat(end); err == nil && up {
			return sent, nil
		}
		for node := range p.Nodes() {
			if node == p.Node() {
				continue
			}
			if err := p.exchange(node, number, sent); err != nil {
				return nil, err
			}
		}
		if p.mu.Lock(); !up && len(p.answers) == p.Nodes()-1 && len(p.callers) == p.Nodes()-1 {
			up = true
			fmt.Println("up life", p.life)
		}
		p.mu.Unlock()
		// else four nodes and two daemons leave nobody else a processor
		time.Sleep(time.Millisecond)
	}
}

// exchange sends a message to a node, and calls it.
func (p *program) exchange(node int, number uint32, sent map[lifeOf]tally) error {
	before := lifeOf{node, uint32(p.Life(node))}
	err := p.Send(p.ctx, node, take, p.block(number))
	after := lifeOf{node, uint32(p.Life(node))}
	t := sent[after]
	switch {
	case err != nil && !expected(err):
		return err
	case err == nil && before == after:
		t.sent++
		sent[after] = t
	case err == nil:
		t.perhaps++
		sent[after] = t
	}
	b, begin := p.block(number), time.Now()
	answer, err := p.Call(p.ctx, node, echo, b)
	p.longest = max(p.longest, time.Since(begin))
	switch {
	case err != nil && !expected(err):
		return err
	case err == nil && !bytes.Equal(answer, reverse(b)):
		return fmt.Errorf("node %d answered call %d wrongly", node, number)
	case err == nil:
		p.mu.Lock()
		p.answers[node] = true
		p.mu.Unlock()
	}
	return nil
}

// compare ends: when nobody sends any more, all that was sent to the lives that are there now has
// come.
func (p *program) compare(sent map[lifeOf]tally) error {
	if err := p.together(); err != nil {
		return err
	}
	for node := range p.Nodes() {
		if node == p.Node() {
			continue
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			answer, err := p.Call(p.ctx, node, count, binary.LittleEndian.AppendUint32(nil, p.life))
			if err != nil {
				return err
			}
			life, came := binary.LittleEndian.Uint32(answer), int(binary.LittleEndian.Uint32(answer[4:]))
			t := sent[lifeOf{node, life}]
			if came >= t.sent && came <= t.sent+t.perhaps {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("of %d (perhaps %d more) messages to life %d of node %d came %d", t.sent, t.perhaps,
					life, node, came)
			}
		}
	}
	return p.together()
}

// together returns when all nodes have called it.
func (p *program) together() error {
	for {
		err := p.Agree(p.ctx)
		if err == nil {
			err = p.Barrier(p.ctx)
		}
		switch {
		case err == nil:
			return nil
		case !expected(err):
			return err
		}
	}
}
