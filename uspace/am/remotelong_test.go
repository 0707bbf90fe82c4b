package am_test

// This file tests calls whose requests or answers take more than one packet (package am,
// remotelong.go).

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
)

// TestLongCalls makes calls of any length, with answers of any length and errors with long texts.
// All nodes make many at once, over any network, with little memory. Each call ends once, with its
// own answer or, where there is no memory, ErrMemory. Then all memory is free.
func TestLongCalls(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		o := bed.Options{Nodes: rapid.IntRange(1, 3).Draw(r, "nodes"),
			Slots: rapid.SampledFrom([]int{2, 16, 64}).Draw(r, "slots"),
			Net:   wire.Config{Seed: rapid.Uint64().Draw(r, "seed")}, Limit: 5 * time.Minute}
		if rapid.Bool().Draw(r, "faults") {
			o.Net.Faults = faults
		}
		direct := rapid.Bool().Draw(r, "direct")
		size := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, 2100), rapid.IntRange(0, 20<<10))
		type call struct{ to, size, answer int }
		plans := make([][]call, o.Nodes)
		for i := range plans {
			for range rapid.IntRange(1, 12).Draw(r, "calls") {
				plans[i] = append(plans[i], call{rapid.IntRange(0, o.Nodes-1).Draw(r, "to"), size.Draw(r, "size"),
					size.Draw(r, "answer")})
			}
		}
		b := bed.New(t, o)
		b.MustRun(func(n *bed.Node) error {
			err := errors.Join(messageMemory(n, 256<<10, direct),
				n.HandleCall(1, func(m *am.Message, b []byte) ([]byte, error) {
					if len(b) < 8 {
						return nil, errors.New(strings.Repeat("x", 1000))
					}
					size := int(b[4]) | int(b[5])<<8
					if !bytes.Equal(b[8:], numbered(m.Source, int(b[6]), len(b))[8:]) {
						return nil, errors.New("other bytes than were sent")
					}
					return numbered(n.Node(), int(b[6]), size), nil
				}), n.Barrier())
			if err != nil {
				return err
			}
			ended := 0
			for i, c := range plans[n.Node()] {
				request := numbered(n.Node(), i, c.size)
				if len(request) >= 8 {
					request[4], request[5], request[6], request[7] = byte(c.answer), byte(c.answer>>8), byte(i), 0
				}
				if _, err := n.StartCall(c.to, 1, request, func(answer []byte, err error) {
					ended++
					var remote *am.RemoteError
					switch {
					case c.size < 8:
						if !errors.As(err, &remote) || len(remote.Text) != 1000 && len(remote.Text) !=
							am.ShortErrorText {
							t.Errorf("a call without words ended with %v", err)
						}
					case errors.Is(err, am.ErrMemory):
					case err != nil || !bytes.Equal(answer, numbered(c.to, i, c.answer)):
						t.Errorf("a call of %d bytes for %d ended with %d bytes, %v", c.size, c.answer,
							len(answer), err)
					}
					clear(request) // the program's again
				}); err != nil {
					return err
				}
			}
			if err := n.Wait(func() bool { return ended >= len(plans[n.Node()]) }); err != nil {
				return err
			}
			if err := n.Barrier(); err != nil {
				return err
			}
			if err := n.Wait(func() bool { return n.SendsUnderWay() == 0 && am.MemoryInUse(n.Endpoint) == 0 }); err !=
				nil {
				return err
			}
			if ended != len(plans[n.Node()]) || n.CallsUnderWay() != 0 || n.Unknown() != 0 {
				return fmt.Errorf("%d of %d calls ended, %d under way, %d messages for nobody", ended,
					len(plans[n.Node()]), n.CallsUnderWay(), n.Unknown())
			}
			return n.Barrier()
		})
	})
}

// TestLongCallsCancelled: a long call that is cancelled at any step ends at once, its request is
// the program's again, and the next call is answered as it should be; in the end all memory is
// free.
func TestLongCallsCancelled(t *testing.T) {
	for _, size := range []int{1000, 40_000} {
		for wait := range 30 {
			b := bed.New(t, bed.Options{Nodes: 2, Slots: 16})
			b.MustRun(func(n *bed.Node) error {
				err := errors.Join(messageMemory(n, 256<<10, wait%2 == 0),
					n.HandleCall(0, func(_ *am.Message, b []byte) ([]byte, error) { return b, nil }), n.Barrier())
				if err != nil {
					return err
				}
				if n.Node() == 0 {
					request := numbered(0, 1, size)
					var end error
					ended := 0
					id, err := n.StartCall(1, 0, request, func(answer []byte, err error) {
						if ended, end = ended+1, err; err == nil && !bytes.Equal(answer, numbered(0, 1, size)) {
							t.Error("another answer")
						}
					})
					if err != nil {
						return err
					}
					until := n.Now() + int64(time.Duration(wait*wait)*time.Microsecond/4)
					if err := n.Wait(func() bool { return n.Now() >= until }); err != nil {
						return err
					}
					under := ended == 0
					if n.Cancel(id) != under || under && !errors.Is(end, am.ErrCancelled) || ended != 1 {
						return fmt.Errorf("cancelling a call that was under way %v: ended %d times, %w",
							under, ended, end)
					}
					clear(request)
					answer, err := n.Call(nil, 1, 0, numbered(0, 2, size))
					if err != nil || !bytes.Equal(answer, numbered(0, 2, size)) {
						return fmt.Errorf("the next call: %w, or another answer", err)
					}
				}
				if err := n.Barrier(); err != nil {
					return err
				}
				if err := n.Wait(func() bool {
					return n.SendsUnderWay() == 0 && am.MemoryInUse(n.Endpoint) == 0
				}); err != nil {
					return err
				}
				return n.Barrier()
			})
		}
	}
}

// TestLongCallPanics: a handler of a long call that panics ends it with ErrPanicked, as that of a
// short one.
func TestLongCallPanics(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	var caught any
	b.MustRun(func(n *bed.Node) error {
		if err := errors.Join(messageMemory(n, 256<<10, true),
			n.HandleCall(0, func(*am.Message, []byte) ([]byte, error) { panic("at once") }), n.Barrier()); err != nil {
			return err
		}
		if n.Node() == 1 {
			defer func() {
				if r := recover(); r == bed.ErrKilled {
					panic(r)
				} else {
					caught = r
				}
			}()
			return n.Wait(func() bool { return false })
		}
		if _, err := n.Call(nil, 1, 0, make([]byte, 5000)); !errors.Is(err, am.ErrPanicked) {
			t.Errorf("the call ended with %v", err)
		}
		return nil
	})
	if caught != "at once" {
		t.Errorf("the program caught %v", caught)
	}
}

// TestLongCallsWithoutMemory: a node without memory for long messages refuses those, and says so to
// the caller; short ones are answered.
func TestLongCallsWithoutMemory(t *testing.T) {
	served(t, bed.Options{Nodes: 2}, func(n *bed.Node) error {
		err := n.HandleCall(0, func(_ *am.Message, b []byte) ([]byte, error) { return make([]byte, 100), nil })
		if n.Node() == 0 {
			err = errors.Join(err, messageMemory(n, 256<<10, true))
		}
		return err
	}, func(n *bed.Node) error {
		for _, size := range []int{0, 3000} {
			if _, err := n.Call(nil, 1, 0, make([]byte, size)); !errors.Is(err, am.ErrMemory) {
				t.Errorf("a call of %d bytes for 100: %v", size, err)
			}
		}
		if _, err := n.StartCall(1, 0, make([]byte, am.MaxCall+1), ignore); !errors.Is(err, am.ErrLong) {
			t.Errorf("a call that is too long: %v", err)
		}
		if n.CallsUnderWay() != 0 {
			t.Errorf("%d calls are under way", n.CallsUnderWay())
		}
		return nil
	})
}

// TestLongCallsToTheDead: a long call to a node that dies ends with Undelivered, and its request is
// the program's again.
func TestLongCallsToTheDead(t *testing.T) {
	for _, at := range []time.Duration{0, 3 * time.Microsecond, 20 * time.Microsecond, 100 * time.Microsecond} {
		b := bed.New(t, bed.Options{Nodes: 2, Limit: 2 * time.Minute})
		errs := b.Run(func(n *bed.Node) error {
			if err := errors.Join(messageMemory(n, 256<<10, true),
				n.HandleCall(0, func(_ *am.Message, b []byte) ([]byte, error) { return b, nil }),
				n.Barrier()); err != nil {
				return err
			}
			if n.Node() == 1 {
				b.At(time.Duration(n.Now())+at, n.Kill)
				return n.Wait(func() bool { return false })
			}
			for {
				if _, err := n.Call(nil, 1, 0, make([]byte, 50_000)); err != nil {
					return err
				}
			}
		})
		var u *am.Undelivered
		if !errors.As(errs[0], &u) || u.Node != 1 {
			t.Errorf("killed after %v: ended with %v", at, errs[0])
		}
	}
}
