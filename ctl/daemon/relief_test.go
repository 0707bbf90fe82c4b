package daemon_test

// This file tests direct ports whose process computes, without a call of the library.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

// windows is what processes of direct jobs may open here.
var windows = funi.RemoteSizes{KeySlots: 16, Notifications: 256, Areas: 16}

// The window of a process that computes: whoever changes the first word has it go on, the second is
// for additions, and data are behind them.
const (
	windowKey  = 0x1234_5678_0001
	addAt      = 8
	dataAt     = 64
	windowSize = 16384
)

// compute is the role of a process that computes on so many processors, all that it has, until
// somebody changes a word of its window. Then it handles what has come, and answers how many
// messages that were.
func (r *role) compute(token attach.Token) {
	runtime.GOMAXPROCS(int(r.To))
	ctx := context.Background()
	e, err := funet.Open(ctx, funet.Options{Remote: windows,
		Attach: &attach.Config{Socket: r.Socket, GID: r.GID, Node: r.Node, Token: token}})
	if err != nil {
		alone{}.Fatal(err)
	}
	handled, computes := 0, false // without a lock: handlers run in this goroutine
	err = errors.Join(e.Handle(1, func(*funet.Message) error {
		if handled++; computes {
			alone{}.Fatal("a handler runs while the program computes")
		}
		return nil
	}), e.Serve(2, func(*funet.Message) ([]byte, error) { return fmt.Append(nil, handled), nil }))
	w, err2 := e.Windows()
	if err = errors.Join(err, err2); err != nil {
		alone{}.Fatal(err)
	}
	memory, err := w.Alloc(windowSize)
	if err == nil {
		err = w.Do(ctx, func(r *rma.Endpoint) error {
			_, err := r.Expose(memory, rma.Options{Key: windowKey})
			return err
		})
	}
	if err != nil {
		alone{}.Fatal(err)
	}
	goOn := (*uint64)(unsafe.Pointer(&memory[0]))
	computes = true
	fmt.Println("ready")
	work := func() {
		for x := uint64(1); atomic.LoadUint64(goOn) == 0; {
			for range 100_000 {
				x ^= x << 13
				x ^= x >> 7
				x ^= x << 17
			}
		}
	}
	for range r.To - 1 {
		go work()
	}
	work()
	computes = false
	if err := e.Run(ctx); err != nil {
		alone{}.Fatal(err)
	}
}

// Rule (card, relief.go): a process that computes without a call, on all processors that Go gives
// it, takes messages into its queues and is not silent to its peers. It has their operations on its
// windows carried out, whether they are on its host or on another. Handlers run when it calls
// again.
func TestProcessComputes(t *testing.T) {
	long.Test(t)
	const timeout, messages = 2 * time.Second, 100
	b := newBed(t)
	m := b.mortal(timeout, time.Hour, 2, 0, 1, 0)
	k := m.first.Carrier().(*card.Card)
	w, err := m.first.Windows()
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.Alloc(windowSize)
	if err != nil {
		t.Fatal(err)
	}
	in, err := w.Alloc(windowSize)
	if err != nil {
		t.Fatal(err)
	}
	for node, processors := range map[uint16]uint16{1: 2, 2: 1} {
		m.run(int(m.cards[node]), role{Do: "compute", Socket: m.daemons[m.cards[node]].socket, GID: m.gid, Node: node,
			To: processors, Token: m.token.Text()})
		target := rma.Target{Node: node, Key: windowKey}
		operate := func(f func(r *rma.Endpoint) (rma.ID, error)) rma.Result {
			t.Helper()
			var id rma.ID
			err := w.Do(m.ctx, func(r *rma.Endpoint) (err error) { id, err = f(r); return err })
			if err != nil {
				t.Fatal(err)
			}
			result, err := w.Wait(m.ctx, id)
			if err != nil {
				t.Fatalf("an operation on node %d: %v", node, err)
			}
			return result
		}
		if err := w.Ready(m.ctx, target); err != nil {
			t.Fatal(err)
		}
		for range messages {
			if err := m.first.Send(m.ctx, int(node), 1, []byte("a message")); err != nil {
				t.Fatal(err)
			}
		}
		for begun, n := time.Now(), uint64(0); time.Since(begun) < 2*timeout || n < 20; n++ {
			size := 1 + int(n*997)%(windowSize-dataAt)
			for i := 0; i < size; i += 8 {
				binary.LittleEndian.PutUint64(out[i:], n+uint64(i))
			}
			operate(func(r *rma.Endpoint) (rma.ID, error) {
				return r.Put(target.At(dataAt), out[:size], rma.With{Ack: true})
			})
			operate(func(r *rma.Endpoint) (rma.ID, error) { return r.Get(target.At(dataAt), in[:size], rma.With{}) })
			if !bytes.Equal(in[:size], out[:size]) {
				t.Fatalf("other bytes come back from node %d than were put", node)
			}
			was := operate(func(r *rma.Endpoint) (rma.ID, error) { return r.Add(target.At(addAt), 1) })
			if was.Uint64() != n {
				t.Fatalf("addition %d to a word of node %d finds %d", n, node, was.Uint64())
			}
		}
		var c engine.Counters
		var s engine.PeerState
		for under := true; under; { // acknowledgments of the last messages
			if _, err := m.first.Poll(); err != nil || m.ctx.Err() != nil {
				t.Fatalf("messages to node %d are not accepted: %v", node, err)
			}
			k.Alone(func() { c = k.Engine().Counters(); s, _ = k.Engine().PeerState(node) })
			under = s.InFlight > 0
		}
		if c.RejectsReceived != 0 || c.PeersLost != 0 {
			t.Errorf("node %d: %d packets were rejected, %d peers were lost", node, c.RejectsReceived, c.PeersLost)
		}
		operate(func(r *rma.Endpoint) (rma.ID, error) { return r.Swap(target, 1) })
		if n := m.notices(0); n.Doubtful != 0 {
			t.Errorf("node %d was silent: %+v", node, n)
		}
		if got, err := m.first.Call(m.ctx, int(node), 2, nil); err != nil || string(got) != fmt.Sprint(messages) {
			t.Errorf("node %d has handled %q messages, want %d: %v", node, got, messages, err)
		}
	}
}
