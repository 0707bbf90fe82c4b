package am_test

// This file tests long messages of bytes over cards in memory: that they arrive once and whole, in
// bounded memory, and that every one of them has an end.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/engine"
)

// messageMemory gives a node memory for messages; direct: messages are read where they are.
func messageMemory(n *bed.Node, limit int, direct bool) error {
	m := am.Memory{Segment: n.Segment, Now: n.Now, Limit: limit, Hold: time.Millisecond}
	if direct {
		m.Register, m.Unregister, m.Withdraw = n.Register, n.Unregister, n.Withdraw
	}
	return n.UseMemory(m)
}

// numbered is a message of a test: it says who sent it and which it is, as far as there is room.
func numbered(from, number, size int) []byte {
	b := pattern(from*1000+number, size)
	if size >= 8 {
		binary.LittleEndian.PutUint32(b, uint32(from))
		binary.LittleEndian.PutUint32(b[4:], uint32(number))
	}
	return b
}

// plannedSend is a message of a property test.
type plannedSend struct{ to, size, how int }

// TestLongBytes sends messages of any length from several nodes at once, over any network and card,
// with little memory or much. They are started, sent, gathered from pieces and sent back as
// replies, and read where they are or copied. The sender's memory is changed as soon as it may be.
// Messages arrive once and whole, and then all memory is free.
func TestLongBytes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		nodes := rapid.IntRange(1, 3).Draw(r, "nodes")
		o := bed.Options{Nodes: nodes, Slots: rapid.SampledFrom([]int{2, 16, 64}).Draw(r, "slots"),
			Net: wire.Config{Seed: rapid.Uint64().Draw(r, "seed")}}
		if rapid.Bool().Draw(r, "faults") {
			o.Net.Faults = faults
		}
		if rapid.Bool().Draw(r, "small") {
			o.Tune = func(c *engine.Config) { c.Lines, c.ReplyLines, c.FIFO, c.Train, c.Blocks = 8, 2, 10, 1, false }
		}
		direct, inShared := rapid.Bool().Draw(r, "direct"), rapid.Bool().Draw(r, "shared")
		limit := rapid.SampledFrom([]int{am.LeastMemory, 96<<10 + 13, 1 << 20}).Draw(r, "limit")
		plans := make([][]plannedSend, nodes)
		for i := range plans {
			for range rapid.IntRange(0, 12).Draw(r, "messages") {
				plans[i] = append(plans[i], plannedSend{rapid.IntRange(0, nodes-1).Draw(r, "to"),
					rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, 2100), rapid.IntRange(0, 40<<10)).Draw(r,
						"size"), rapid.IntRange(0, 3).Draw(r, "how")})
			}
		}
		type key struct{ from, number int }
		there, back := map[key]int{}, map[key]int{}
		b := bed.New(t, o)
		expected := 0
		for _, p := range plans {
			expected += len(p)
		}
		handled, replied := 0, 0
		for i, err := range b.Run(func(n *bed.Node) error {
			pending := 0
			check := func(m *am.Message, got map[key]int, b []byte, replying bool) error {
				k := key{m.Source, -1 - len(b)}
				if replying {
					k.from = n.Node()
				}
				if len(b) >= 8 {
					k = key{int(binary.LittleEndian.Uint32(b)), int(binary.LittleEndian.Uint32(b[4:]))}
					if !bytes.Equal(b, numbered(k.from, k.number, len(b))) {
						return fmt.Errorf("message %d of node %d, %d bytes, is damaged", k.number, k.from, len(b))
					}
				}
				got[k]++
				return nil
			}
			err := errors.Join(messageMemory(n, limit, direct),
				n.HandleBytes(0, func(m *am.Message, b []byte) error {
					handled++
					if err := check(m, there, b, false); err != nil {
						return err
					}
					err := m.ReplyBytes(1, b)
					// the replies that wait have as many bytes as the memory
					if errors.Is(err, am.ErrMemory) {
						replied++
						return nil
					}
					return err
				}),
				n.HandleBytes(1, func(m *am.Message, b []byte) error {
					replied++
					return check(m, back, b, true)
				}), n.Barrier())
			if err != nil {
				return err
			}
			own := make([]byte, 1<<20)
			if inShared {
				if own, err = shared(n, len(own)); err != nil {
					return err
				}
			}
			for number, s := range plans[n.Node()] {
				b := own[:s.size]
				own = own[s.size+rapid.IntRange(0, 16).Draw(r, "gap"):]
				copy(b, numbered(n.Node(), number, s.size))
				switch s.how {
				case 0:
					err = n.SendBytes(s.to, 0, b)
					clear(b)
				case 1:
					err = n.SendList(s.to, 0, b[:s.size/3], nil, b[s.size/3:s.size/2], b[s.size/2:])
					clear(b)
				default:
					pending++
					_, err = n.StartBytes(s.to, 0, b, func(err error) {
						if pending--; err != nil {
							panic(err)
						}
						clear(b)
					})
				}
				if err != nil {
					return err
				}
			}
			err = n.Wait(func() bool {
				return pending == 0 && handled == expected && replied == expected && n.SendsUnderWay() == 0
			})
			if err = errors.Join(err, n.Failed(), n.Barrier()); err != nil {
				return err
			}
			if used := am.MemoryInUse(n.Endpoint); used != 0 {
				return fmt.Errorf("%d bytes of memory are in use at the end", used)
			}
			return nil
		}) {
			if err != nil {
				r.Fatalf("node %d: %v", i, err)
			}
		}
		total := 0
		for k, n := range there {
			if total += n; k.number >= 0 && n != 1 {
				r.Fatalf("message %d of node %d arrived %d times", k.number, k.from, n)
			}
		}
		for k, n := range back {
			if k.number >= 0 && n != 1 {
				r.Fatalf("the reply to message %d of node %d arrived %d times", k.number, k.from, n)
			}
		}
		if total != expected {
			r.Fatalf("%d of %d messages arrived", total, expected)
		}
	})
}

// TestLongFlood: three nodes that all send each other long messages as fast as they are taken, with
// memory for one at a time and handlers that reply with as many bytes, over networks with faults,
// come to an end.
func TestLongFlood(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		for _, slots := range []int{2, 64} {
			o := bed.Options{Nodes: 3, Slots: slots, Net: wire.Config{Seed: seed}, Limit: 10 * time.Minute}
			if seed%2 == 1 {
				o.Net.Faults = faults
			}
			const each, size = 12, 30 << 10
			handled, replied, refused := 0, 0, 0
			b := bed.New(t, o)
			b.MustRun(func(n *bed.Node) error {
				pending := 0
				took := func(from int, b []byte) error {
					if len(b) != size || !bytes.Equal(b, numbered(from, int(binary.LittleEndian.Uint32(b[4:])), size)) {
						return fmt.Errorf("%d bytes of node %d are damaged", len(b), from)
					}
					return nil
				}
				err := errors.Join(messageMemory(n, am.LeastMemory, seed%4 < 2),
					n.HandleBytes(0, func(m *am.Message, b []byte) error {
						handled++
						if err := m.ReplyBytes(1, b); !errors.Is(err, am.ErrMemory) {
							return errors.Join(err, took(m.Source, b))
						}
						refused++
						return nil
					}),
					n.HandleBytes(1, func(m *am.Message, b []byte) error {
						replied++
						return took(n.Node(), b)
					}), n.Barrier())
				if err != nil {
					return err
				}
				for number := range each {
					for to := range 3 {
						pending++
						if _, err := n.StartBytes(to, 0, numbered(n.Node(), number, size), func(err error) {
							if pending--; err != nil {
								panic(err)
							}
						}); err != nil {
							return err
						}
					}
				}
				if err := n.Wait(func() bool {
					return pending == 0 && handled == 9*each && replied+refused == handled
				}); err != nil {
					return err
				}
				return errors.Join(n.Failed(), n.Barrier())
			})
			if replied == 0 {
				t.Errorf("seed %d: %d replies of %d", seed, replied, handled)
			}
		}
	}
}
