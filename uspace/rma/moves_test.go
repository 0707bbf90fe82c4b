package rma_test

// This file moves a process from card to card, over daemons and AF_XDP, while others change its
// memory and it changes theirs.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/daemons"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

// adder adds 1 to a counter of another node, as often and as fast as the card takes it, and notes
// what was there: of all who add, each must find another number.
type adder struct {
	e      *rma.Endpoint
	target rma.Target
	open   int
	found  []uint64
}

// deep is how many additions are under way.
const deep = 64

// turn has additions under way, and takes the answers that are there.
func (a *adder) turn(more bool) error {
	for more && a.open < deep {
		if _, err := a.e.Add(a.target, 1); err != nil {
			return err
		}
		a.open++
	}
	a.e.Poll()
	for r := (rma.Result{}); a.e.Next(&r); a.open-- {
		if r.Err != nil {
			return r.Err
		}
		a.found = append(a.found, r.Uint64())
	}
	return nil
}

// whole checks that the numbers that were found are those from 0 on, each once, and are as many as
// the counter says.
func whole(t *testing.T, what string, counter uint64, found ...[]uint64) {
	t.Helper()
	seen := make([]bool, counter)
	n := uint64(0)
	for _, list := range found {
		for _, v := range list {
			if v >= counter || seen[v] {
				t.Fatalf("%s: %d was found twice, or is more than the counter, %d", what, v, counter)
			}
			seen[v] = true
			n++
		}
	}
	if n != counter {
		t.Fatalf("%s: the counter is %d, and %d additions were answered", what, counter, n)
	}
}

// Rule: a context moves between the cards of three hosts, and comes back, with its windows and
// keys. Meanwhile two others add to a counter in its memory, and it adds to one of theirs. Each
// addition is carried out once and answered, and the process notices nothing but the pause.
func TestMoveBetweenHosts(t *testing.T) {
	l, err := lab.Up(lab.Options{Hosts: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nodes := daemons.Run(t, l, 9)
	hops := []int{2, 0, 1, 2, 1}
	sizes := funi.RemoteSizes{KeySlots: 8, Areas: 1, Notifications: 1024}
	targets, adders := make([]rma.Target, 3), make([]*adder, 3)
	counters := make([]*uint64, 3)
	var exposed, quiet, done sync.WaitGroup
	exposed.Add(3)
	quiet.Add(3)
	var stop atomic.Bool
	errs := make([]error, 3)
	member := func(node int) (err error) {
		cfg := nodes[node]
		cfg.Remote = sizes
		k, err := attach.Open(cfg)
		if err != nil {
			exposed.Done()
			quiet.Done()
			return err
		}
		defer func() { err = errors.Join(err, k.Close(5*time.Second)) }()
		drive := func() error { k.Drive(); return k.Err() }
		e, err := rma.New(k.Interface(), rand.Reader, drive)
		var memory []byte
		if err == nil {
			memory, err = k.Segment(0x10000, 1<<20, funi.Keyed)
		}
		if err == nil {
			err = e.Use(funi.Segment{Base: 0x10000, Memory: memory, Rights: funi.Keyed})
		}
		var w *rma.Window
		if err == nil {
			w, err = e.Expose(memory[4096:8192], rma.Options{Rights: funi.RightAtomic})
		}
		if err != nil {
			exposed.Done()
			quiet.Done()
			return err
		}
		targets[node], counters[node] = w.Target(uint16(node)), (*uint64)(unsafe.Pointer(&memory[4096]))
		exposed.Done()
		exposed.Wait()
		a := &adder{e: e, target: targets[[]int{1, 0, 1}[node]]}
		adders[node] = a
		begin, at := time.Now(), 0
		for !stop.Load() && err == nil {
			if err = a.turn(true); err == nil {
				err = drive()
			}
			if node != 1 || err != nil || time.Since(begin) < 200*time.Millisecond {
				continue
			}
			if at == len(hops) {
				stop.Store(true)
				break
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			m, wrong := k.Move(ctx, nodes[hops[at]].Socket)
			cancel()
			if wrong == nil && (int(m.Card) != hops[at] || m.Untold != 0) {
				wrong = fmt.Errorf("moved to %+v", m)
			}
			t.Logf("to host %d: a pause of %v, %d bytes copied", m.Card, m.Pause, m.Bytes)
			err = wrong
			begin = time.Now()
			at++
		}
		stop.Store(true)
		for end := time.Now().Add(30 * time.Second); a.open > 0 && err == nil; {
			if err = a.turn(false); err == nil {
				err = drive()
			}
			if time.Now().After(end) {
				err = fmt.Errorf("%d additions are not answered", a.open)
			}
		}
		quiet.Done()
		waiting := make(chan struct{})
		go func() { quiet.Wait(); close(waiting) }()
		// what others send is answered by the card; drive notices the end of the daemon
		for err == nil {
			select {
			case <-waiting:
				if node == 1 {
					whole(t, "node 1", *counters[1], adders[0].found, adders[2].found)
				}
				if node == 0 {
					whole(t, "node 0", *counters[0], adders[1].found)
				}
				return nil
			default:
				err = drive()
			}
		}
		return err
	}
	begin := time.Now()
	for node := range 3 {
		done.Go(func() {
			errs[node] = member(node)
			if errs[node] != nil {
				stop.Store(true)
			}
		})
	}
	done.Wait()
	for node, err := range errs {
		if err != nil {
			t.Errorf("node %d: %v", node, err)
		}
	}
	sum := 0
	for _, a := range adders {
		if a != nil {
			sum += len(a.found)
		}
	}
	t.Logf("%.0f thousand verified additions a second", float64(sum)/1000/time.Since(begin).Seconds())
}
