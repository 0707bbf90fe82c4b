package am_test

// This file tests memory that is taken for one long message (grow.go).

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

// growing is memory of a node that grows, and a card that gives at most quota bytes of it.
type growing struct {
	quota int // bytes beyond the memory of UseMemory
	taken map[uint32]int
	most  int
}

func (g *growing) use(n *bed.Node, grow int) error {
	g.taken = map[uint32]int{}
	first := true
	return n.UseMemory(am.Memory{Now: n.Now, Limit: am.LeastMemory, Grow: grow, Hold: 100 * time.Millisecond,
		Segment: func(base uint32, size int, rights funi.Rights) ([]byte, error) {
			if first {
				first = false
				return n.Segment(base, size, rights)
			}
			if g.sum()+size > g.quota {
				return nil, errors.New("the quota is reached")
			}
			b, err := n.Segment(base, size, rights)
			if err == nil {
				g.taken[base] = size
				g.most = max(g.most, g.sum())
			}
			return b, err
		},
		Unregister: func(base uint32) error {
			err := n.Unregister(base)
			if err == nil {
				delete(g.taken, base)
			}
			return err
		}})
}

func (g *growing) sum() (bytes int) {
	for _, n := range g.taken {
		bytes += n
	}
	return bytes
}

// Rule: messages that are longer than the receiver's memory arrive once and whole, in segments of
// at most Grow bytes together, while short ones pass them; afterwards the card has its memory back
// (Memory.Grow).
func TestMemoryGrows(t *testing.T) {
	// what the card gives is more than Grow, or less
	for _, quota := range []int{8 << 20, 300 << 10} {
		const grow, each = 600 << 10, 6
		sizes := [each]int{200 << 10, 100 << 10, 299 << 10, 30 << 10, 200<<10 + 1, 70 << 10}
		b := bed.New(t, bed.Options{Nodes: 3, Net: wire.Config{Faults: faults, Seed: uint64(quota)},
			Limit: 10 * time.Minute})
		var of [3]growing
		got := map[[2]int]int{}
		b.MustRun(func(n *bed.Node) error {
			g := &of[n.Node()]
			g.quota = quota
			err := errors.Join(g.use(n, grow), n.HandleBytes(0, func(m *am.Message, b []byte) error {
				for i, size := range sizes {
					if len(b) == size {
						got[[2]int{m.Source*3 + n.Node(), i}]++
						if !bytes.Equal(b, numbered(m.Source, i, size)) {
							return fmt.Errorf("message %d of node %d is damaged", i, m.Source)
						}
					}
				}
				return nil
			}), n.Barrier())
			if err != nil {
				return err
			}
			under := 0
			for to := range 3 {
				for i, size := range sizes {
					under++
					if _, err := n.StartBytes(to, 0, numbered(n.Node(), i, size), func(err error) {
						if under--; err != nil {
							panic(err)
						}
					}); err != nil {
						return err
					}
				}
			}
			if err := n.Wait(func() bool { return under == 0 }); err != nil {
				return err
			}
			if err := errors.Join(n.Failed(), n.Barrier()); err != nil {
				return err
			}
			return n.Wait(func() bool { return len(g.taken) == 0 })
		})
		for pair := range 9 {
			for i := range sizes {
				if n := got[[2]int{pair, i}]; n != 1 {
					t.Errorf("message %d from node %d to %d arrived %d times", i, pair/3, pair%3, n)
				}
			}
		}
		for i, g := range of {
			if g.most > min(grow, quota) || g.most == 0 {
				t.Errorf("node %d had %d bytes more, at most %d may be", i, g.most, min(grow, quota))
			}
		}
	}
}

// Rule: where the card gives no memory, the sender of a message that is longer than the memory gets
// ErrMemory after a time. A message that fits does not wait for that. A message longer than Grow is
// refused at once. Memory that the card gives again is used.
func TestMemoryDoesNotGrow(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		g := growing{quota: 100 << 10}
		ran := 0
		err := errors.Join(g.use(n, 400<<10), n.HandleBytes(0, func(*am.Message, []byte) error { ran++; return nil }),
			n.Barrier())
		if err != nil {
			return err
		}
		if n.Node() == 1 {
			if err := n.WaitFor(0, func() bool { return ran == 1 }); err != nil {
				return err
			}
			g.quota = 300 << 10
			return errors.Join(n.Barrier(), n.WaitFor(0, func() bool { return ran == 2 }), n.Barrier())
		}
		var refused error
		ended := false
		if _, err := n.StartBytes(1, 0, make([]byte, 200<<10), func(err error) {
			refused, ended = err, true
		}); err != nil {
			return err
		}
		if err := n.SendBytes(1, 0, make([]byte, 20<<10)); err != nil || ended {
			return fmt.Errorf("a message that fits: %w, the other has ended: %v", err, ended)
		}
		if err := n.SendBytes(1, 0, make([]byte, 400<<10+1)); !errors.Is(err, am.ErrMemory) || ended {
			return fmt.Errorf("more than Grow: %w, the other has ended: %v", err, ended)
		}
		if err := n.Barrier(); err != nil {
			return err
		}
		if err := n.Wait(func() bool { return ended }); err != nil || refused != nil {
			return fmt.Errorf("the card gives memory again: %w, %w", err, refused)
		}
		err = errors.Join(n.Barrier())
		return err
	})
	b = bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		var g growing
		err := errors.Join(g.use(n, 400<<10), n.HandleBytes(0, func(*am.Message, []byte) error { return nil }),
			n.Barrier())
		if err == nil && n.Node() == 0 {
			for range 2 {
				if err := n.SendBytes(1, 0, make([]byte, 200<<10)); !errors.Is(err, am.ErrMemory) {
					return fmt.Errorf("without memory: %w", err)
				}
			}
		}
		return errors.Join(err, n.Barrier())
	})
}
