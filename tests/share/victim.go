package main

// This file is the victim: two ordinary processes. Node 0 sends requests, and node 1 answers them.
// In a measurement window node 0 alternates between two kinds of turns. With one request under way
// it measures round trips and their rate. With outstanding requests under way it measures the
// pipelined rate. It compares every answer with its request.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
)

const (
	// outstanding is the number of requests under way in the turns that measure the pipelined rate.
	outstanding = 16
	// turnsEach is the number of turns of each kind in a measurement window.
	turnsEach = 5
	// slowest is the longest round trip that is recorded. Longer ones count as this long.
	slowest = 2 * patience
	// lostAfter is how long no answer may arrive before the requests under way count as lost.
	lostAfter = patience
	// exchangeWords is the number of words of a request and of its answer: the request's number,
	// its complement, and two words without a use.
	exchangeWords = 4
	exchangeType  = 9
)

// victimConfig configures the victim's role, and the asker's.
type victimConfig struct {
	Socket string
	GID    uint16
	Node   uint16
	Token  string
	Ranks  string // folder of the files of ranks, if the victim is two of them
	Always bool   // node 0 exchanges without end, and is told nothing
}

// window is node 0's report of one measurement window.
type window struct {
	Rate      float64 `json:"rate"`      // exchanges a second, one after the other
	P50       float64 `json:"p50"`       // us, of these exchanges
	P99       float64 `json:"p99"`       // us
	Longest   float64 `json:"longest"`   // us
	Pipelined float64 `json:"pipelined"` // exchanges a second with outstanding under way
	Returned  int     `json:"returned"`  // requests that came back and were sent again
	// Quiet is how many seconds of a processor a daemon used in a second that serves nobody. The
	// launcher measures it.
	Quiet float64 `json:"-"`
}

// victim is one of the victim's processes.
type victim struct {
	c     victimConfig
	k     funet.Carrier
	iface *funi.Interface

	number   uint32 // of the next request
	open     map[uint32]time.Time
	returned int
}

func newVictim(c victimConfig) *victim { return &victim{c: c, open: map[uint32]time.Time{}} }

// live runs the role until standard input ends.
func (v *victim) live() error {
	runtime.GOMAXPROCS(2) // a thread for what it is told
	token, err := attach.ParseToken(v.c.Token)
	if err != nil {
		return err
	}
	o := funet.Options{Attach: &attach.Config{Socket: v.c.Socket, GID: v.c.GID, Node: v.c.Node, Token: token,
		Slots: 256, Timeout: patience}}
	// of the daemon, or on a direct port
	if v.k, _, err = o.Carrier(context.Background()); err != nil {
		return err
	}
	v.iface = v.k.Interface()
	fmt.Println("ready")
	if v.c.Node == 1 {
		return v.answer()
	}
	for v.c.Always {
		if _, err := v.window(time.Second); err != nil {
			return err
		}
	}
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		var d time.Duration
		if _, err := fmt.Sscanf(s.Text(), "window %d", &d); err != nil {
			return fmt.Errorf("told %.40q: %w", s.Text(), err)
		}
		w, err := v.window(d)
		if err != nil {
			return err
		}
		text, err := json.Marshal(w)
		if err != nil {
			return err
		}
		fmt.Printf("window %s\n", text)
	}
	return nil
}

// answer sends the words of each request back as a reply, without end.
func (v *victim) answer() error {
	for {
		for s := v.iface.Receive(funi.Request); s != nil; s = v.iface.Receive(funi.Request) {
			a := v.iface.Reserve(funi.Reply)
			if a == nil {
				break
			}
			copy(a[funi.PayloadWord:], s.Payload())
			a.SetHeader(funi.NewHeader(s.Source(), exchangeType, s.Header().Length()))
			v.iface.Commit(funi.Reply)
			v.iface.Release(funi.Request)
		}
		if _, more := v.iface.NextReturn(); more {
			continue // node 0 asks again
		}
		if v.k.Drive(); v.k.Err() != nil {
			return v.k.Err()
		}
	}
}

// window measures for a time d, then waits until all requests are answered.
func (v *victim) window(d time.Duration) (w window, err error) {
	times := hdrhistogram.New(1, slowest.Nanoseconds(), 3)
	v.returned = 0
	slice := d / (2 * turnsEach)
	var took [2]time.Duration
	var count [2]int
	for range turnsEach {
		for kind, depth := range []int{1, outstanding} {
			start := time.Now()
			n, err := v.exchange(depth, start.Add(slice), func(d time.Duration) {
				if kind == 0 {
					// within what the histogram has
					_ = times.RecordValue(min(d, slowest).Nanoseconds())
				}
			})
			if err != nil {
				return w, err
			}
			count[kind] += n
			took[kind] += time.Since(start)
		}
	}
	micros := func(ns int64) float64 { return float64(ns) / 1000 }
	return window{
		Rate: float64(count[0]) / took[0].Seconds(), Pipelined: float64(count[1]) / took[1].Seconds(),
		P50: micros(times.ValueAtQuantile(50)), P99: micros(times.ValueAtQuantile(99)), Longest: micros(times.Max()),
		Returned: v.returned,
	}, nil
}

// errLost reports a request that was neither answered nor returned.
var errLost = errors.New("no answer")

// exchange keeps depth requests under way until the time end. Then it waits for the answers that
// are missing.
func (v *victim) exchange(depth int, end time.Time, each func(time.Duration)) (n int, err error) {
	now := time.Now()
	last := now // when something was answered
	for {
		for len(v.open) < depth && now.Before(end) && v.ask(v.number) {
			v.open[v.number] = time.Now()
			v.number++
		}
		if len(v.open) == 0 {
			return n, nil
		}
		before := n
		for s := v.iface.Receive(funi.Reply); s != nil; s = v.iface.Receive(funi.Reply) {
			number := s.Payload()[0]
			asked, ok := v.open[number]
			if !ok || s.Header().Length() != exchangeWords || s.Payload()[1] != ^number {
				return n, fmt.Errorf("an answer %#x that nobody waits for", s.Payload())
			}
			delete(v.open, number)
			v.iface.Release(funi.Reply)
			now = time.Now()
			each(now.Sub(asked))
			n++
		}
		if r, more := v.iface.NextReturn(); more {
			v.returned++
			for !v.ask(r.Word) {
				v.k.Drive()
			}
		}
		if n != before {
			last = now
			continue
		}
		v.k.Drive()
		if v.k.Err() != nil {
			return n, v.k.Err()
		}
		if now = time.Now(); now.Sub(last) > lostAfter {
			return n, fmt.Errorf("%d requests under way for %v: %w", len(v.open), lostAfter, errLost)
		}
	}
}

// ask sends a request, or returns false if there is no room.
func (v *victim) ask(number uint32) bool {
	s := v.iface.Reserve(funi.Request)
	if s == nil {
		return false
	}
	s[funi.PayloadWord], s[funi.PayloadWord+1] = number, ^number
	s.SetHeader(funi.NewHeader(1-v.c.Node, exchangeType, exchangeWords))
	v.iface.Commit(funi.Request)
	return true
}

// burn computes and does nothing else.
func burn() {
	runtime.GOMAXPROCS(1)
	fmt.Println("ready")
	for n := uint32(1); n != 0; n = n*5 | 1 {
	}
}
