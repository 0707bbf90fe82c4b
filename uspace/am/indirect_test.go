package am_test

// This file tests indirect messages: which object a message reaches, and that one that
// is for none reaches none.

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
)

// mailbox is an object that keeps what it gets and, where it is to, answers with it.
type mailbox struct {
	got    [][]uint32
	errs   []error
	answer func(m *am.Message) error
}

func (b *mailbox) Receive(m *am.Message) {
	b.got = append(b.got, slices.Clone(m.Words))
	if b.answer != nil {
		b.errs = append(b.errs, b.answer(m))
	}
}

// TestIndirect: a message of 4 or any number of words reaches the object that its
// reference is of, and no other; so does a reply, at reply priority, from where nothing
// may be sent.
func TestIndirect(t *testing.T) {
	for _, f := range []wire.Faults{{}, faults} {
		b := bed.New(t, bed.Options{Nodes: 2, Slots: 4, Net: wire.Config{Seed: 1, Faults: f}})
		b.MustRun(func(n *bed.Node) error {
			var boxes [3]mailbox
			var references [3]uint32
			for i := range boxes {
				r, err := n.AddObject(&boxes[i])
				if err != nil {
					return err
				}
				references[i] = r
			}
			if references[0] == references[1] || references[1] == references[2] {
				return fmt.Errorf("references %x", references)
			}
			// Boxes 0 and 1 answer to the reference in the first word, in both forms.
			boxes[0].answer = func(m *am.Message) error {
				return m.ReplyIndirect4(m.Words[0], m.Words[1], m.Words[2], m.Words[3], 7)
			}
			boxes[1].answer = func(m *am.Message) error { return m.ReplyIndirect(m.Words[0], m.Words[1:]...) }
			boxes[2].answer = func(m *am.Message) error {
				if err := m.ReplyIndirect4(references[2], 0, 0, 0, 0); !errors.Is(err, am.ErrHandler) {
					return fmt.Errorf("replying to a reply: %v", err)
				}
				return nil
			}
			// The tables of both nodes are alike, but that is nothing to rely on: ask.
			var theirs [3]uint32
			known := false
			err := errors.Join(
				n.Handle(0, func(m *am.Message) {
					boxes[0].errs = append(boxes[0].errs, m.Reply(1, references[:]...))
				}),
				n.Handle(1, func(m *am.Message) { copy(theirs[:], m.Words); known = true }),
				n.Barrier(), n.Request(1-n.Node(), 0), n.Wait(func() bool { return known }))
			if err != nil {
				return err
			}
			long := make([]uint32, am.MaxWords)
			for i := range long {
				long[i] = uint32(i)
			}
			long[0] = references[2]
			err = errors.Join(
				n.RequestIndirect4(1-n.Node(), theirs[0], references[2], 1, 2, 3),
				n.RequestIndirect(1-n.Node(), theirs[1], long...),
				n.RequestIndirect(1-n.Node(), theirs[1], references[2]),
				n.Wait(func() bool { return len(boxes[2].got) == 3 }), n.Barrier())
			slices.SortFunc(boxes[1].got, func(a, b []uint32) int { return len(a) - len(b) })
			slices.SortFunc(boxes[2].got, func(a, b []uint32) int { return len(a) - len(b) })
			for i, want := range [][][]uint32{{{theirs[2], 1, 2, 3}}, {{theirs[2]}, long},
				{{}, {1, 2, 3, 7}, long[1:]}} {
				if !slices.EqualFunc(boxes[i].got, want, slices.Equal) {
					err = errors.Join(err, fmt.Errorf("box %d got %x, want %x", i, boxes[i].got, want))
				}
				err = errors.Join(append(boxes[i].errs, err)...)
			}
			return err
		})
	}
}

// TestObjectsComeAndGo: a reference finds its object from AddObject to RemoveObject, and
// nothing before or after, whatever took its place.
func TestObjectsComeAndGo(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := bed.New(t, bed.Options{Nodes: 1})
		n := b.Nodes[0]
		live, all := map[uint32]*mailbox{}, []uint32{0, 1, 1<<32 - 1<<16}
		for i, err := range b.Run(func(*bed.Node) error {
			for range rapid.IntRange(1, 60).Draw(r, "steps") {
				switch rapid.IntRange(0, 2).Draw(r, "step") {
				case 0:
					box := &mailbox{}
					reference, err := n.AddObject(box)
					if err != nil || slices.Contains(all, reference) {
						return fmt.Errorf("adding gave %#x, %v", reference, err)
					}
					live[reference] = box
					all = append(all, reference)
				case 1:
					reference := rapid.SampledFrom(all).Draw(r, "remove")
					if err := n.RemoveObject(reference); (live[reference] != nil) != (err == nil) ||
						err != nil && !errors.Is(err, am.ErrObject) {
						return fmt.Errorf("removing %#x: %v", reference, err)
					}
					delete(live, reference)
				case 2:
					reference := rapid.SampledFrom(all).Draw(r, "send")
					before, box := n.Unknown(), live[reference]
					if err := n.RequestIndirect4(0, reference, 1, 2, 3, 4); err != nil {
						return err
					}
					arrived := func() bool { return n.Unknown() > before || box != nil && len(box.got) > 0 }
					if err := n.Wait(arrived); err != nil || (n.Unknown() > before) == (box != nil) {
						return fmt.Errorf("a message for %#x: %v; unknown %v", reference, err, n.Unknown() > before)
					}
					if box != nil {
						box.got = nil
					}
				}
			}
			return nil
		}) {
			if err != nil {
				r.Fatalf("node %d: %v", i, err)
			}
		}
	})
}

// TestObjectsRefused: nil is no object, and 65536 are the most.
func TestObjectsRefused(t *testing.T) {
	n := bed.New(t, bed.Options{Nodes: 1}).Nodes[0]
	if _, err := n.AddObject(nil); !errors.Is(err, am.ErrObject) {
		t.Errorf("a nil object: %v", err)
	}
	box, last := &mailbox{}, uint32(0)
	for i := range am.MaxObjects {
		var err error
		if last, err = n.AddObject(box); err != nil {
			t.Fatalf("object %d: %v", i, err)
		}
	}
	if _, err := n.AddObject(box); !errors.Is(err, am.ErrObject) {
		t.Errorf("one too many: %v", err)
	}
	if err := n.RemoveObject(last); err != nil {
		t.Error(err)
	}
	if _, err := n.AddObject(box); err != nil {
		t.Errorf("in the place of one that was removed: %v", err)
	}
}
