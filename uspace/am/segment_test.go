package am_test

// This file tests segments: that they fill, count, complete once and close, by messages
// and by transfers of both levels, and refuse what does not fit.

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// shared gives a node memory at segment, for all purposes, full of noise of its own.
func shared(n *bed.Node, size int) ([]byte, error) {
	m := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(n.Node())})
	_, _ = r.Read(m) // never fails
	return m, n.Share(n.Register, funi.Segment{Base: segment, Memory: m, Rights: funi.Source | funi.Destination})
}

// TestSegment fills a segment in pieces of any kind, at either level, in any order, over any
// network and card. The last message calls the segment's function, once, with the segment's info.
// The segment then holds what was sent, and nothing beside it was written.
func TestSegment(t *testing.T) {
	const size = 16384
	rapid.Check(t, func(r *rapid.T) {
		o := bed.Options{Nodes: 2, Slots: rapid.SampledFrom([]int{2, 64}).Draw(r, "slots"),
			Net: wire.Config{Seed: rapid.Uint64().Draw(r, "seed")}}
		if rapid.Bool().Draw(r, "faults") {
			o.Net.Faults = faults
		}
		if rapid.Bool().Draw(r, "small") {
			o.Tune = func(c *engine.Config) { c.Lines, c.ReplyLines, c.FIFO, c.Train, c.Blocks = 8, 2, 10, 1, false }
		}
		// The segment is cut into pieces of multiples of 16 bytes, but for the end.
		length := rapid.IntRange(1, 1500).Draw(r, "length") * 4
		base := rapid.IntRange(0, (size-length)/16).Draw(r, "base") * 16
		var pieces [][2]int
		for at := 0; at < length; {
			n := min(rapid.SampledFrom([]int{16, 32, 64, 80, 400, 6000}).Draw(r, "piece"), length-at)
			pieces = append(pieces, [2]int{at, n})
			at += n
		}
		pieces = rapid.Permutation(pieces).Draw(r, "pieces")
		kinds := rapid.SliceOfN(rapid.IntRange(0, 4), len(pieces), len(pieces)).Draw(r, "kinds")
		var sent []byte
		b := bed.New(t, o)
		for i, err := range b.Run(func(n *bed.Node) error {
			memory, err := shared(n, size)
			if err != nil {
				return err
			}
			if n.Node() == 1 {
				sent = bytes.Clone(memory)
			}
			var place am.Place
			known, full, flag := false, 0, 0
			var errs []error
			address := func(at int) uint32 { return uint32(segment + base + at) }
			// sends one, from the place where it goes to
			piece := func(m *am.Message, k int) error {
				at, bytes := pieces[k][0], pieces[k][1]
				from, to := memory[base+at:base+at+bytes], place.At(at)
				word := func(i int) uint32 {
					return uint32(from[4*i]) | uint32(from[4*i+1])<<8 | uint32(from[4*i+2])<<16 | uint32(from[4*i+3])<<24
				}
				switch {
				case kinds[k] < 2 && bytes%16 == 0 && m == nil:
					return n.Mfer(0, to, address(at), address(at), bytes/4)
				case kinds[k] < 2 && bytes%16 == 0:
					return m.ReplyMfer(to, address(at), address(at), bytes/4)
				case bytes == 16 && m == nil:
					return n.Xfer4(0, to, word(0), word(1), word(2), word(3))
				case bytes == 16:
					return m.ReplyXfer4(to, word(0), word(1), word(2), word(3))
				case m == nil:
					return n.Xfer(0, to, from)
				default:
					return m.ReplyXfer(to, from)
				}
			}
			err = errors.Join(
				n.Handle(0, func(m *am.Message) { place, known = am.Place(m.Words[0]), true }),
				n.Handle(1, func(m *am.Message) { errs = append(errs, piece(m, int(m.Words[0]))) }),
				n.Barrier())
			if err != nil {
				return err
			}
			if n.Node() == 1 { // sends its own messages, and answers requests for the others
				err := n.Wait(func() bool { return known })
				for k, kind := range kinds {
					if kind%2 == 0 {
						err = errors.Join(err, piece(nil, k))
					}
				}
				return errors.Join(append(errs, err, n.Barrier())...)
			}
			before := bytes.Clone(memory)
			place, err = n.OpenSegment(address(0), length, func(m *am.Message, info any) {
				full++
				*info.(*int)++
				if m.Source != 1 || n.Remaining(place) != 0 {
					errs = append(errs, fmt.Errorf("the last came from node %d and left %d", m.Source,
						n.Remaining(place)))
				}
			}, &flag)
			err = errors.Join(err, check(n.Remaining(place) == length, "%d remain of %d", n.Remaining(place), length))
			if err != nil {
				return err
			}
			err = n.Request4(1, 0, uint32(place), 0, 0, 0)
			for k, kind := range kinds {
				if kind%2 != 0 {
					err = errors.Join(err, n.Post4(1, 1, uint32(k), 0, 0, 0))
				}
			}
			err = errors.Join(append(errs, err, n.WaitFlag(1, &flag, 1), n.Barrier())...)
			copy(before[base:base+length], sent[base:base+length])
			if err == nil && (full != 1 || flag != 0 || n.Unknown() != 0 || !bytes.Equal(memory, before)) {
				err = fmt.Errorf("completed %d times, unknown %d, memory right: %v", full, n.Unknown(),
					bytes.Equal(memory, before))
			}
			return err
		}) {
			if err != nil {
				r.Fatalf("node %d: %v", i, err)
			}
		}
	})
}

// TestSegmentsComeAndGo: 256 are open at a time; one that was closed takes nothing, tells
// what was missing, and its number is given out again last.
func TestSegmentsComeAndGo(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 1})
	b.MustRun(func(n *bed.Node) error {
		memory, err := shared(n, 1024)
		if err != nil {
			return err
		}
		never := func(*am.Message, any) { t.Error("a segment that was closed completed") }
		places := map[am.Place]bool{}
		var first am.Place
		for i := range am.OpenSegments {
			p, err := n.OpenSegment(segment, 32, never, nil)
			if err != nil || places[p] {
				return fmt.Errorf("segment %d is at %#x: %v", i, p, err)
			}
			places[p] = true
			if i == 0 {
				first = p
			}
		}
		if _, err := n.OpenSegment(segment, 32, nil, nil); !errors.Is(err, am.ErrSegment) {
			return fmt.Errorf("one more: %v, want ErrSegment", err)
		}
		before := bytes.Clone(memory)
		if err := errors.Join(n.Xfer4(0, first, 1, 2, 3, 4),
			n.Wait(func() bool { return n.Remaining(first) == 16 })); err != nil {
			return err
		}
		if missing, err := n.CloseSegment(first.At(20)); missing != 16 || err != nil {
			return fmt.Errorf("closing: %d missing, %v", missing, err)
		}
		if _, err := n.CloseSegment(first); !errors.Is(err, am.ErrSegment) {
			return fmt.Errorf("closing twice: %v, want ErrSegment", err)
		}
		copy(before, []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0})
		err = errors.Join(n.Xfer4(0, first.At(16), 1, 2, 3, 4), n.Mfer(0, first, segment+512, segment+512, 4),
			n.Wait(func() bool { return n.Unknown() == 2 }))
		if err != nil || !bytes.Equal(memory, before) {
			return fmt.Errorf("a closed segment was written: %v", err)
		}
		for p := range places {
			if p != first {
				if _, err := n.CloseSegment(p); err != nil {
					return err
				}
			}
		}
		// All are free; the number of the first is the next now that the others had their turn.
		for range 3 {
			p, err := n.OpenSegment(segment, 4, nil, nil)
			if err != nil {
				return err
			}
			if err := errors.Join(n.Xfer(0, p, []byte{9, 9, 9, 9}),
				n.Wait(func() bool { return n.Remaining(p) == 0 })); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestSegmentRefused: sizes, addresses and lengths that cannot be are errors at once; what
// does not lie in the segment that it names is dropped there and counted.
func TestSegmentRefused(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		if _, err := shared(n, 1024); err != nil {
			return err
		}
		var errs []error
		refused := func(what string, err, want error) {
			if !errors.Is(err, want) {
				errs = append(errs, fmt.Errorf("%s: %v, want %v", what, err, want))
			}
		}
		open := func(base uint32, size int) error { _, err := n.OpenSegment(base, size, nil, nil); return err }
		for _, size := range []int{-4, 0, 2, 6, am.MaxSegmentSize + 4, 1 << 40} {
			refused(fmt.Sprint("size ", size), open(segment, size), am.ErrSegment)
		}
		for _, base := range []uint32{0, segment - 16, segment + 2, segment + 1012, segment + 1024, 1<<32 - 4} {
			refused(fmt.Sprint("base ", base), open(base, 16), am.ErrAddress)
		}
		end := am.Place(0).At(am.MaxSegmentSize - 8)
		refused("beyond the end", n.Xfer4(1, end, 0, 0, 0, 0), am.ErrSegment)
		refused("beyond the end", n.Xfer(1, end, make([]byte, 12)), am.ErrSegment)
		refused("3 bytes", n.Xfer(1, 0, make([]byte, 3)), am.ErrSegment)
		refused("no node", n.Xfer4(2, 0, 0, 0, 0, 0), am.ErrNode)
		refused("no node", n.Mfer(-1, 0, segment, segment, 4), am.ErrNode)
		for _, x := range [][3]uint32{{0, segment, 4}, {segment, 0, 4}, {segment + 4, segment, 4},
			{segment, segment + 8, 4}, {segment, segment, 3}, {segment, segment, 1<<24 + 4}} {
			refused(fmt.Sprint("transfer ", x), n.Mfer(1, 0, x[0], x[1], int(x[2])), am.ErrTransfer)
		}
		if n.Node() == 1 {
			if _, err := n.OpenSegment(segment+256, 64, func(*am.Message, any) {
				errs = append(errs, errors.New("full"))
			}, nil); err != nil {
				return err
			}
		}
		errs = append(errs, n.Barrier())
		if n.Node() == 0 { // the first segment of an endpoint is number 0
			errs = append(errs, n.Xfer4(1, am.Place(0).At(52), 0, 0, 0, 0), n.Xfer4(1, 1<<24, 0, 0, 0, 0),
				n.Mfer(1, 0, segment, segment+240, 4), n.Mfer(1, 0, segment, segment+256, 20),
				n.Mfer(1, 9<<24, segment, segment+512, 4))
		} else {
			errs = append(errs, n.Wait(func() bool { return n.Unknown() == 5 }),
				check(n.Remaining(0) == 64, "%d remain", n.Remaining(0)))
		}
		return errors.Join(append(errs, n.Barrier())...)
	})
}
