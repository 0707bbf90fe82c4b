// Rejoin is a program of a job whose nodes are killed and started again (funet run --restart). It
// verifies every message. tests/rejoin_test.go runs it.
//
// The journey: each node calls all others in turn and sends them messages. The receiver verifies
// their numbers and bytes. A node prints events of the other nodes as it learns of them. A life
// that has exchanged calls with all others prints "up". The end begins when the file exists that
// the argument names. All nodes then agree on the nodes that are there, and ask each other how many
// messages have arrived. Each prints how long its longest call took, and ends. A node that finds an
// error prints a line that begins with "wrong", and ends with exit code 3.
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

// These are the handlers.
const (
	echo = 1 // call: a block; answered by its bytes in reverse order
	take = 2 // message: a block
	// call: the caller's life; answered by the own life, and the number of messages that arrived
	// from the caller's
	count = 3
)

// longest is the largest number of random bytes in a block.
const longest = 48

// program is the state of this node.
type program struct {
	*funet.Endpoint
	ctx     context.Context
	life    uint32
	longest time.Duration // of all calls

	mu      sync.Mutex
	called  map[int]series             // the last call of each node
	taken   map[lifeOf]map[uint32]bool // numbers of the messages of each life
	answers map[int]bool               // nodes that have answered this life
	callers map[int]bool               // nodes that have called this life
}

// series is a life of a node, with the number of its last call.
type series struct{ life, number uint32 }

// lifeOf is a life of a node.
type lifeOf struct {
	node int
	life uint32
}

// tally counts messages to a life of a node: those sent to it, and those that perhaps went to
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

// expected reports whether a call or a message may fail with err in a job whose nodes die.
func expected(err error) bool {
	var u *am.Undelivered
	return errors.Is(err, funet.ErrLeft) || errors.As(err, &u)
}

// block returns the bytes of a message: life, number, and contents that depend on node, life and
// number.
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

// echo answers a call. It verifies that a life's calls arrive with consecutive numbers, and each
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

// take receives a message, and verifies that it arrives once.
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

// count answers how many messages of a life have arrived.
func (p *program) count(m *funet.Message) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.taken[lifeOf{m.Source, binary.LittleEndian.Uint32(m.Bytes)}])
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, p.life), uint32(n)), nil
}

// talk calls and sends until the file named end exists, and returns what it has sent.
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

// exchange sends a message to a node, then calls it.
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

// compare verifies, once all nodes have stopped sending, that all messages to the present lives
// have arrived.
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

// together returns when all nodes have called together.
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
