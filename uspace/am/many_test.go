package am_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
)

// TestManyInOneBuffer sends messages of all lengths over a network that loses, duplicates and
// reorders, to buffers that take many. Messages of a node lie behind one another in the order of
// sending, in the buffers in the order of posting. The last call of a buffer says so.
func TestManyInOneBuffer(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		messages := rapid.IntRange(1, 60).Draw(r, "messages")
		longest := rapid.SampledFrom([]int{16, 1100, 6000}).Draw(r, "longest")
		least := rapid.IntRange(1, longest+1).Draw(r, "least")
		room := max(least, longest) + rapid.IntRange(0, 3*longest).Draw(r, "room")
		memory := rapid.Bool().Draw(r, "memory")
		late := rapid.Bool().Draw(r, "late")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 1))
		lengths := make([]int, messages)
		for i := range lengths {
			lengths[i] = random.IntN(longest + 1)
		}
		b := bed.New(t, bed.Options{Nodes: 2, Net: wire.Config{Seed: random.Uint64(), Faults: faults},
			Limit: 10 * time.Minute})
		b.MustRun(func(n *bed.Node) error {
			if memory {
				if err := messageMemory(n, am.LeastMemory, false); err != nil {
					return err
				}
			}
			if n.Node() == 0 {
				left := messages
				for i, length := range lengths {
					if _, err := n.StartSendWide(1, am.Wide{Flags: am.WideData, Data: uint64(i)}, content(length, i),
						func(error) { left-- }); err != nil {
						return err
					}
				}
				if late {
					if err := n.Barrier(); err != nil {
						return err
					}
				}
				return first(n.Wait(func() bool { return left == 0 }), n.Barrier())
			}
			if late {
				if err := n.Barrier(); err != nil {
					return err
				}
			}
			// where the model puts each message: buffer and offset
			type place struct{ buffer, at int }
			var want, got []place
			at, buffer := 0, 0
			for _, length := range lengths {
				got, want = append(got, place{-1, -1}), append(want, place{buffer, at})
				if at += min(length, room-at); room-at < least {
					at, buffer = 0, buffer+1
				}
			}
			var bad error
			came, over := 0, make([]bool, buffer+1)
			post := func(number int) error {
				memory := make([]byte, room)
				_, err := n.StartRecvWide(many(0, least, always), memory, func(what am.Received, err error) {
					i := int(what.Wide.Data)
					fits := min(lengths[i], room-what.At)
					if over[number] || (err != nil) != (fits < lengths[i]) ||
						!bytes.Equal(memory[what.At:what.At+fits], content(lengths[i], i)[:fits]) {
						bad = first(bad, fmt.Errorf("message %d of %d bytes: %+v, %w", i, lengths[i], what, err))
					}
					over[number] = !what.More
					got[i] = place{number, what.At}
					came++
				})
				return err
			}
			for number := range over {
				if err := post(number); err != nil {
					return err
				}
			}
			if err := n.Wait(func() bool { return came == messages || bad != nil }); err != nil {
				return err
			}
			for i := range want {
				if got[i] != want[i] {
					bad = first(bad, fmt.Errorf("message %d is at %+v, want %+v", i, got[i], want[i]))
				}
			}
			for number, is := range over {
				if is != (number < buffer) {
					bad = first(bad, fmt.Errorf("buffer %d of %d is given back: %v", number, buffer+1, is))
				}
			}
			return first(bad, n.Barrier())
		})
	})
}

// TestManyCancelled: cancelling a buffer ends the receives of messages that are on their way into
// it, with one call each, and nothing is stored there afterwards.
func TestManyCancelled(t *testing.T) {
	for _, room := range []int{3000, 10_000} { // which the first message fills or not
		b := bed.New(t, bed.Options{Nodes: 2})
		b.MustRun(func(n *bed.Node) error {
			const length = 3000
			if n.Node() == 0 {
				sent := 0
				for i := range uint8(3) {
					if _, err := n.StartSendWide(1, am.Wide{Channel: i / 2}, content(length, 1), func(error) { sent++ }); err != nil {
						return err
					}
				}
				return first(n.Wait(func() bool { return sent >= 2 }), n.Barrier())
			}
			if err := n.Wait(func() bool { _, ok := n.PeekWide(wide(0, 0, 0, 0)); return ok }); err != nil {
				return err
			}
			var more []bool
			memory := make([]byte, room)
			id, err := n.StartRecvWide(many(am.AnySource, 1, always), memory, func(what am.Received, err error) {
				if more = append(more, what.More); !errors.Is(err, am.ErrCancelled) {
					t.Errorf("it ended with %v", err)
				}
			})
			if err != nil || !n.Cancel(id) || n.Cancel(id) {
				return fmt.Errorf("it is not cancelled once: %w", err)
			}
			for i, is := range more {
				if is != (i < len(more)-1) {
					return fmt.Errorf("its calls say that others follow: %v", more)
				}
			}
			if len(more) == 0 {
				return errors.New("it was not told")
			}
			got, last := false, make([]byte, length)
			_, err = n.StartRecvWide(wide(0, 1, 0, 0), last, func(_ am.Received, err error) { got = err == nil })
			if err := first(err, n.Wait(func() bool { return got }), n.Barrier()); err != nil {
				return err
			}
			if !bytes.Equal(memory, make([]byte, room)) || !bytes.Equal(last, content(length, 1)) {
				return errors.New("the buffer was written to, or another receive got something else")
			}
			return nil
		})
	}
}

// many describes messages from a node to a buffer of many.
func many(source, least int, more func() bool) am.Want {
	return am.Want{Source: source, Many: &am.Many{Least: least, More: more}}
}

// always lets a buffer take another message.
func always() bool { return true }

// TestManyEndsEarly: a buffer takes its last message when it may not take more.
func TestManyEndsEarly(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 1})
	b.MustRun(func(n *bed.Node) error {
		asked, more := 0, []bool(nil)
		_, err := n.StartRecvWide(many(0, 1, func() bool { asked++; return asked < 3 }), make([]byte, 100),
			func(what am.Received, err error) {
				if more = append(more, what.More); err != nil || what.At != 8*(len(more)-1) {
					t.Errorf("%+v, %v", what, err)
				}
			})
		for range 4 {
			_, failed := n.StartSendWide(0, am.Wide{}, make([]byte, 8), func(error) {})
			err = first(err, failed)
		}
		err = first(err, n.Wait(func() bool { _, ok := n.PeekWide(wide(0, 0, 0, 0)); return ok }))
		if !slices.Equal(more, []bool{true, true, false}) {
			t.Errorf("it went on: %v", more)
		}
		return err
	})
}
