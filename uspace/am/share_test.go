package am_test

// This file tests the shared-memory calls: that they move what they say and nothing else,
// count once, refuse what is not shared, and end when the node is gone.

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// TestReadWrite: what one node writes, integer or double, any node reads, its owner
// included.
func TestReadWrite(t *testing.T) {
	for _, f := range []wire.Faults{{}, faults} {
		b := bed.New(t, bed.Options{Nodes: 3, Slots: 4, Net: wire.Config{Seed: 1, Faults: f}})
		b.MustRun(func(n *bed.Node) error {
			if _, err := shared(n, 1024); err != nil {
				return err
			}
			if err := n.Barrier(); err != nil {
				return err
			}
			at := func(k int) uint32 { return uint32(segment + 16*n.Node() + k) }
			for round := range 30 {
				to := (n.Node() + round) % 3
				i, d := int32(math.MinInt32+round*7919), math.Sqrt(float64(round))-2
				err := errors.Join(n.WriteInt32(to, at(0), i), n.WriteFloat64(to, at(4), d),
					n.WriteInt32(to, at(12), -1))
				gotI, err1 := n.ReadInt32(to, at(0))
				gotD, err2 := n.ReadFloat64(to, at(4))
				gotE, err3 := n.ReadInt32(to, at(12))
				if err := errors.Join(err, err1, err2, err3); err != nil || gotI != i || gotD != d || gotE != -1 {
					return fmt.Errorf("round %d: %d, %v, %d; want %d, %v, -1: %w", round, gotI, gotD, gotE, i, d, err)
				}
			}
			return n.Barrier()
		})
	}
}

// copying is a get or put of a property test; its parts of the two memories are its own.
type copying struct {
	get                  bool
	remote, local, words int
}

// TestGetPut: gets and puts of any length between any addresses, many at a time, over any
// network and card, move just their words, and each is counted once.
func TestGetPut(t *testing.T) {
	const size = 65536
	rapid.Check(t, func(r *rapid.T) {
		o := bed.Options{Nodes: 2, Slots: rapid.SampledFrom([]int{2, 64}).Draw(r, "slots"),
			Net: wire.Config{Seed: rapid.Uint64().Draw(r, "seed")}}
		if rapid.Bool().Draw(r, "faults") {
			o.Net.Faults = faults
		}
		if rapid.Bool().Draw(r, "small") {
			o.Tune = func(c *engine.Config) { c.Lines, c.ReplyLines, c.FIFO, c.Train, c.Blocks = 8, 2, 10, 1, false }
		}
		var copies []copying
		for remote, local := 0, 0; len(copies) < 12; {
			c := copying{get: rapid.Bool().Draw(r, "get"), remote: remote + 4*rapid.IntRange(0, 7).Draw(r, "remote"),
				local: local + 4*rapid.IntRange(0, 7).Draw(r, "local"),
				words: rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 1200)).Draw(r, "words")}
			copies = append(copies, c)
			remote, local = c.remote+4*c.words, c.local+4*c.words
		}
		to := rapid.IntRange(0, 1).Draw(r, "to") // itself, or the other
		var all [2][]byte
		b := bed.New(t, o)
		for i, err := range b.Run(func(n *bed.Node) error {
			memory, err := shared(n, 2*size)
			all[n.Node()] = memory
			if err = errors.Join(err, n.Barrier()); err != nil || n.Node() == 1 {
				return errors.Join(err, n.Barrier())
			}
			// The half that is remote, and the half that is local, of the model.
			want := [2][]byte{bytes.Clone(all[0]), bytes.Clone(all[1])}
			var c am.Counter
			for _, x := range copies {
				remote, local := want[to][x.remote:x.remote+4*x.words], want[0][size+x.local:size+x.local+4*x.words]
				call := n.Put
				if x.get {
					call = n.Get
					copy(local, remote)
				} else {
					copy(remote, local)
				}
				if err := call(to, uint32(segment+x.remote), uint32(segment+size+x.local), x.words, &c); err != nil {
					return err
				}
			}
			if c.Complete()+c.UnderWay() != len(copies) {
				return fmt.Errorf("%d complete and %d under way of %d", c.Complete(), c.UnderWay(), len(copies))
			}
			if err := n.WaitCounter(&c, len(copies)); err != nil {
				return err
			}
			for i := range want {
				if !bytes.Equal(want[i], all[i]) {
					return fmt.Errorf("memory of node %d differs", i)
				}
			}
			return errors.Join(n.Barrier(), check(c.Complete() == 0 && c.UnderWay() == 0 && n.Unknown() == 0,
				"%d more complete, %d under way, %d unknown", c.Complete(), c.UnderWay(), n.Unknown()))
		}) {
			if err != nil {
				r.Fatalf("node %d: %v", i, err)
			}
		}
	})
}

// TestManyCalls: far more calls than MaxCalls can be made before any is waited for, and
// values that are put are there when they are counted.
func TestManyCalls(t *testing.T) {
	const count = 5 * am.MaxCalls
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		memory, err := shared(n, 16*count)
		if err = errors.Join(err, n.Barrier()); err != nil {
			return err
		}
		if n.Node() == 0 {
			var c am.Counter
			for i := range count {
				err = errors.Join(err, n.PutInt32(1, uint32(segment+16*i), int32(i), &c),
					n.PutFloat64(1, uint32(segment+16*i+4), float64(i), &c))
			}
			if err = errors.Join(err, n.WaitCounter(&c, 2*count)); err != nil {
				return err
			}
			for i := range count {
				err = errors.Join(err, n.Get(1, uint32(segment+16*i), uint32(segment+16*i), 3, &c))
			}
			if err = errors.Join(err, n.WaitCounter(&c, count)); err != nil {
				return err
			}
			for i := range count {
				bits := math.Float64bits(float64(i))
				want := []byte{byte(i), byte(i >> 8), 0, 0}
				for k := range 8 {
					want = append(want, byte(bits>>(8*k)))
				}
				if !bytes.Equal(memory[16*i:16*i+12], want) {
					return fmt.Errorf("value %d is %x", i, memory[16*i:16*i+12])
				}
			}
		}
		return n.Barrier()
	})
}

// TestShareRefused checks that an address is ErrAddress if it is not shared, not shared for that
// use, or not a multiple of 4. The call reports at once what this node can tell. The other node's
// refusal comes by way of the counter or of the call that waits. Other calls of the counter are
// counted all the same.
func TestShareRefused(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		var errs []error
		refused := func(what string, err, want error) {
			if !errors.Is(err, want) {
				errs = append(errs, fmt.Errorf("%s: %v, want %v", what, err, want))
			}
		}
		const read, write = 0x10000, 0x20000
		_, err := shared(n, 1024)
		errs = append(errs, err,
			n.Share(n.Register, funi.Segment{Base: read, Memory: make([]byte, 1024), Rights: funi.Source}),
			n.Share(n.Register, funi.Segment{Base: write, Memory: make([]byte, 1024), Rights: funi.Destination}))
		refused("sharing twice", n.Share(n.Register,
			funi.Segment{Base: read, Memory: make([]byte, 16), Rights: funi.Source}), funi.ErrOverlap)
		refused("sharing what the card does not take", n.Share(func(funi.Segment) error {
			return funi.ErrTooManySegments
		}, funi.Segment{}), funi.ErrTooManySegments)
		errs = append(errs, n.Barrier())
		if n.Node() == 1 {
			return errors.Join(append(errs, n.Barrier())...)
		}
		var c am.Counter
		for what, err := range map[string]error{
			"getting to what only is read":  n.Get(1, segment, read, 4, &c),
			"putting from what is written":  n.Put(1, segment, write, 4, &c),
			"getting to nowhere":            n.Get(1, segment, 0x100, 4, &c),
			"getting to beyond the end":     n.Get(1, segment, segment+1020, 2, &c),
			"getting to half a word":        n.Get(1, segment, segment+2, 2, &c),
			"getting from half a word":      n.Get(1, segment+2, segment, 2, &c),
			"getting from address 0":        n.Get(1, 0, segment, 2, &c),
			"getting from beyond 32 bits":   n.Get(1, 1<<32-4, segment, 2, &c),
			"getting less than nothing":     n.Get(1, segment, segment, -1, &c),
			"putting more than there is":    n.Put(1, segment, segment, 1<<62, &c),
			"writing half a word":           n.WriteInt32(1, segment+3, 0),
			"putting a value at address 0":  n.PutInt32(1, 0, 0, &c),
			"writing what only is read":     n.WriteInt32(1, read, 0),
			"writing a double over the end": n.WriteFloat64(1, segment+1020, 0),
		} {
			refused(what, err, am.ErrAddress)
		}
		_, err = n.ReadInt32(1, write)
		refused("reading what only is written", err, am.ErrAddress)
		_, err = n.ReadFloat64(1, segment+1020)
		refused("reading a double over the end", err, am.ErrAddress)
		refused("node 2", n.Get(2, segment, segment, 1, &c), am.ErrNode)
		refused("node -1", n.PutInt32(-1, segment, 1, &c), am.ErrNode)
		refused("waiting for nothing", n.WaitCounter(&c, 1), am.ErrCounter)
		errs = append(errs, n.WaitCounter(&c, 0))
		for what, call := range map[string]func() error{
			"get 1":          func() error { return n.Get(1, 0x100, segment, 1, &c) },
			"get 16":         func() error { return n.Get(1, write, segment, 16, &c) },
			"get a block":    func() error { return n.Get(1, write, segment, 100, &c) },
			"get unaligned":  func() error { return n.Get(1, write, segment+4, 100, &c) },
			"get over":       func() error { return n.Get(1, segment+16, segment, 256, &c) },
			"put 1":          func() error { return n.Put(1, read, segment, 1, &c) },
			"put unaligned":  func() error { return n.Put(1, read, segment+4, 100, &c) },
			"put over":       func() error { return n.Put(1, segment+1020, segment, 2, &c) },
			"put an integer": func() error { return n.PutInt32(1, read, 7, &c) },
		} {
			errs = append(errs, call(), n.PutInt32(1, segment, 5, &c))
			refused(what, n.WaitCounter(&c, 2), am.ErrAddress)
			errs = append(errs, n.WaitCounter(&c, 1))
			refused(what+", once more", n.WaitCounter(&c, 1), am.ErrCounter)
		}
		// A block that the other card refuses comes back to the sender, as Undelivered.
		errs = append(errs, n.Put(1, read, segment, 100, &c))
		var u *am.Undelivered
		if err := n.WaitCounter(&c, 1); !errors.As(err, &u) || u.Reason != arctic.ReasonDestination || !u.Library {
			errs = append(errs, fmt.Errorf("putting a block to what only is read: %v", err))
		}
		refused("and then", n.WaitCounter(&c, 1), am.ErrCounter)
		return errors.Join(append(errs, n.Barrier())...)
	})
}

// TestCallsToANodeThatIsGone: calls to a node that dies fail, whether it had their
// questions or not, and however many; calls to others complete; the counter is left as
// if those that failed had never been.
func TestCallsToANodeThatIsGone(t *testing.T) {
	for name, calls := range map[string]func(n *bed.Node, c *am.Counter, i int) error{
		"get":       func(n *bed.Node, c *am.Counter, i int) error { return n.Get(1, segment, segment, 1, c) },
		"get block": func(n *bed.Node, c *am.Counter, i int) error { return n.Get(1, segment, segment, 200, c) },
		"put":       func(n *bed.Node, c *am.Counter, i int) error { return n.PutInt32(1, segment, 1, c) },
		"put block": func(n *bed.Node, c *am.Counter, i int) error { return n.Put(1, segment, segment, 200, c) },
		"read":      func(n *bed.Node, _ *am.Counter, _ int) error { _, err := n.ReadInt32(1, segment); return err },
		"write":     func(n *bed.Node, _ *am.Counter, _ int) error { return n.WriteFloat64(1, segment, 1) },
	} {
		for _, count := range []int{3 * am.MaxCalls, 1, 100} {
			if testing.Short() && count == 100 {
				continue
			}

			b := bed.New(t, bed.Options{Nodes: 3, Slots: 1024, Tune: impatient})
			end := false
			errs := b.Run(func(n *bed.Node) error {
				_, err := shared(n, 4096)
				if err = errors.Join(err, n.Barrier()); err != nil {
					return err
				}
				switch n.Node() {
				case 1:
					// Its card takes what comes; the program never answers.
					for until := n.Now() + int64(100*time.Millisecond); n.Now() <
						until; n.Pause(int64(20 * time.Microsecond)) {
						n.Card.Step(n.Now())
					}
					b.At(0, n.Kill)
					n.Pause(int64(time.Second))
					return nil
				case 2:
					return n.Wait(func() bool { return end })
				}
				defer func() { end = true }()
				var c, other am.Counter
				err = n.PutInt32(2, segment, 1, &other)
				for i := 0; i < count && err == nil; i++ {
					err = calls(n, &c, i)
				}
				if err == nil {
					err = n.WaitCounter(&c, count)
				}
				var u *am.Undelivered
				if !errors.As(err, &u) || u.Node != 1 || u.Reason != arctic.ReasonSilent {
					return fmt.Errorf("%d of %s: %v, want node 1 silent", count, name, err)
				}
				for c.UnderWay() > 0 { // of more than fit, some may be told later
					if err := n.WaitCounter(&c, c.UnderWay()); !errors.As(err, &u) {
						return fmt.Errorf("%d of %s: then %v", count, name, err)
					}
				}
				if err := n.WaitCounter(&c, 1); err != nil && !errors.As(err, &u) && !errors.Is(err, am.ErrCounter) ||
					c.Complete() != 0 {
					return fmt.Errorf("%d of %s: at last %v, %d complete", count, name, err, c.Complete())
				}
				if other.Complete() != 1 {
					return fmt.Errorf("%d of %s: the call to node 2 is not complete", count, name)
				}
				if err := n.PutInt32(2, segment, 3, &other); err != nil {
					return err
				}
				return n.WaitCounter(&other, 2)
			})
			if errs[0] != nil || errs[2] != nil {
				t.Errorf("node 0: %v; node 2: %v", errs[0], errs[2])
			}
		}
	}
}

// TestLateAnswer: the answer to a read that was given up, because some other message came
// back, is not taken for that to the next.
func TestLateAnswer(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2, Net: wire.Config{Seed: 1, Faults: faults}})
	b.MustRun(func(n *bed.Node) error {
		_, err := shared(n, 1024)
		for i := 0; i < 64 && err == nil; i++ {
			err = n.WriteInt32(n.Node(), uint32(segment+4*i), int32(i))
		}
		if err = errors.Join(err, n.Barrier()); err != nil {
			return err
		}
		given := 0
		for i := range 500 {
			// the own card knows no such source, the other no such destination
			if i%3 == 0 && n.Node() == 0 {
				x := funi.Transfer{Source: 0x100, Destination: 0x100, Words: 4}
				if i%2 == 0 {
					x.Source = segment
				}
				if err := n.Transfer(1, 1, x); err != nil {
					return err
				}
			}
			k := i * 31 % 64
			got, err := n.ReadInt32(1-n.Node(), uint32(segment+4*k))
			var u *am.Undelivered
			switch {
			case errors.As(err, &u):
				given++
			case err != nil || got != int32(k):
				return fmt.Errorf("read %d: %d, %v", k, got, err)
			}
		}
		if n.Node() == 0 && given < 100 {
			return fmt.Errorf("%d reads were given up: the test tests nothing", given)
		}
		return n.Barrier()
	})
}

// TestMoreReturnsThanTheRing: of more messages that came back than the return ring holds,
// some are only counted. The calls that they were of fail all the same.
func TestMoreReturnsThanTheRing(t *testing.T) {
	const count = 3 * funi.ReturnSlots
	b := bed.New(t, bed.Options{Nodes: 2, Slots: 1024})
	b.MustRun(func(n *bed.Node) error {
		_, err := shared(n, 1024)
		// The card of node 1 refuses the 16 words that it is to write, of 17.
		err = errors.Join(err,
			n.Share(n.Register, funi.Segment{Base: 0x10000, Memory: make([]byte, 64), Rights: funi.Source}),
			n.Share(n.Register, funi.Segment{Base: 0x10040, Memory: make([]byte, 64), Rights: funi.Destination}),
			n.Barrier())
		if err != nil || n.Node() == 1 {
			return errors.Join(err, n.Barrier())
		}
		var c am.Counter
		for range count {
			if err := n.Put(1, 0x10000, segment, 17, &c); err != nil {
				return err
			}
		}
		for n.Card.Counters().Returned < count {
			n.Card.Step(n.Now())
			n.Pause(int64(time.Microsecond))
		}
		came := 0
		for c.UnderWay() > 0 {
			var u *am.Undelivered
			if err := n.WaitCounter(&c, c.UnderWay()); !errors.As(err, &u) || u.Reason != arctic.ReasonDestination {
				return fmt.Errorf("%d under way: %v", c.UnderWay(), err)
			} else {
				came += u.Count
			}
		}
		return errors.Join(n.Barrier(), check(c.Complete() == 0 && came == count, "%d complete, %d came back",
			c.Complete(), came))
	})
}

// impatient is a card that gives a silent peer up soon.
func impatient(c *engine.Config) {
	c.PeerTimeout, c.ConnectTimeout = 100*time.Millisecond, 100*time.Millisecond
}
