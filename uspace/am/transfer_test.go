package am_test

// This file tests transfers: both levels, to memory and to a handler, what comes back,
// and what is refused.

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const segment = 0x1000

// memories gives every node 4096 bytes that start with its number; node 0 is read and
// written by all.
func memories(n *bed.Node) ([]byte, error) {
	m := bytes.Repeat([]byte{byte(n.Node() + 1)}, 4096)
	return m, n.Register(funi.Segment{Base: segment, Memory: m, Rights: funi.Source | funi.Destination})
}

// TestTransferBothLevels: a request moves memory and runs its notice handler, which may
// reply with a transfer of its own; each handler sees source, address, argument, length.
func TestTransferBothLevels(t *testing.T) {
	for _, words := range []int{4, 16, 20, 512} {
		for _, f := range []wire.Faults{{}, faults} {
			b := bed.New(t, bed.Options{Nodes: 2, Net: wire.Config{Seed: 1, Faults: f}})
			b.MustRun(func(n *bed.Node) error {
				m, err := memories(n)
				if err != nil {
					return err
				}
				var errs []error
				back, there := false, false
				err = errors.Join(
					n.HandleNotice(7, func(m *am.Message, x funi.Notice) {
						if want := (funi.Notice{Address: segment + 2048, Argument: 99, Words: words}); x != want ||
							m.Source != 0 || len(m.Words) != 0 {
							errs = append(errs, fmt.Errorf("notice %+v from %d", x, m.Source))
						}
						there = true
						errs = append(errs, m.Transfer(8,
							funi.Transfer{Source: segment, Destination: segment + 2048, Argument: 5, Words: words}))
					}),
					n.HandleNotice(8, func(m *am.Message, x funi.Notice) {
						back = true
						if err := m.Transfer(8, funi.Transfer{Source: segment, Destination: segment,
							Words: 4}); !errors.Is(err, am.ErrHandler) {
							errs = append(errs, fmt.Errorf("a transfer from a reply handler: %v", err))
						}
					}),
					n.Barrier())
				if err != nil {
					return err
				}
				if n.Node() == 0 {
					err = n.Transfer(1, 7, funi.Transfer{Source: segment, Destination: segment + 2048,
						Argument: 99, Words: words})
					err = errors.Join(err, n.Wait(func() bool { return back && n.Retrieved(funi.Request) }))
				} else {
					err = n.Wait(func() bool { return there })
				}
				err = errors.Join(append(errs, err, n.Barrier())...)
				want := slices.Concat(bytes.Repeat([]byte{byte(n.Node() + 1)}, 2048),
					bytes.Repeat([]byte{byte(2 - n.Node())}, 4*words),
					bytes.Repeat([]byte{byte(n.Node() + 1)}, 2048-4*words))
				if err == nil && !bytes.Equal(m, want) {
					err = errors.New("memory differs")
				}
				return err
			})
		}
	}
}

// TestTransferCounted: each transfer is counted when the card has given its slot back, in order,
// and not before; one that comes back is counted, too. The test is the card.
func TestTransferCounted(t *testing.T) {
	e, card := bare(t)
	var first, second am.Counter
	long := funi.Transfer{Source: segment, Destination: segment, Words: 1024}
	poll := func() {
		if _, err := e.Poll(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 * benchSlots { // the indices of the queue wrap around
		err := errors.Join(e.TransferCounted(1, 0, long, &first), e.Post(1, 0), e.TransferCounted(2, 0, long, &second),
			e.TransferCounted(2, 0, long, &second))
		if err != nil {
			t.Fatal(err)
		}
		for retired, want := range [][2]int{{0, 0}, {1, 0}, {1, 0}, {1, 1}, {1, 2}} {
			poll()
			if first.Complete() != want[0] || second.Complete() != want[1] || first.UnderWay() != 1-want[0] ||
				second.UnderWay() != 2-want[1] {
				t.Fatalf("%d and %d are counted, %d and %d under way, when %d slots have been given back",
					first.Complete(), second.Complete(), first.UnderWay(), second.UnderWay(), retired)
			}
			if retired < 4 {
				card.Retire(funi.Request, 1)
				card.Publish()
			}
		}
		if err := errors.Join(e.WaitCounter(&first, 1), e.WaitCounter(&second, 2)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.TransferCounted(3, 0, long, &first); !errors.Is(err, am.ErrNode) || first.UnderWay() != 0 {
		t.Errorf("a transfer to no node: %v; %d under way", err, first.UnderWay())
	}
}

// TestTransferToHandler: with destination 0 the words come as a message to the handler.
func TestTransferToHandler(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		if _, err := memories(n); err != nil {
			return err
		}
		var got []uint32
		if err := errors.Join(n.Handle(3, func(m *am.Message) { got = slices.Clone(m.Words) }),
			n.Barrier()); err != nil {
			return err
		}
		if n.Node() == 0 {
			return errors.Join(n.Transfer(1, 3, funi.Transfer{Source: segment, Words: 16}), n.Barrier())
		}
		if err := errors.Join(n.Wait(func() bool { return got != nil }), n.Barrier()); err != nil {
			return err
		}
		if !slices.Equal(got, slices.Repeat([]uint32{0x01010101}, 16)) {
			return fmt.Errorf("got %#x", got)
		}
		return nil
	})
}

// TestTransferComesBack: one that fails is one Undelivered error with its handler, of
// one packet or many; the next goes on.
func TestTransferComesBack(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		_, err := memories(n)
		if err = errors.Join(err, n.Barrier()); err != nil || n.Node() == 1 {
			return errors.Join(err, n.Barrier())
		}
		for _, words := range []int{8, 800} {
			for reason, x := range map[arctic.Reason]funi.Transfer{
				arctic.ReasonSource:      {Source: 0x100, Destination: segment, Words: words},
				arctic.ReasonDestination: {Source: segment, Destination: 0x100, Words: words},
			} {
				err := n.Transfer(1, 9, x)
				if err == nil {
					err = n.Wait(func() bool { return false })
				}
				var u *am.Undelivered
				if !errors.As(err, &u) || *u !=
					(am.Undelivered{Reason: reason, Level: funi.Request, Node: 1, Handler: 9,
						Transfer: true, Count: 1}) {
					return fmt.Errorf("%d words: %+v, want %v", words, err, reason)
				}
			}
		}
		return n.Barrier()
	})
}

// TestTransferRefused: what the card would refuse, and what the rules forbid, is an
// error at once.
func TestTransferRefused(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		ok := funi.Transfer{Source: segment, Destination: segment, Words: 4}
		var errs []error
		refused := func(err, want error) {
			if !errors.Is(err, want) {
				errs = append(errs, fmt.Errorf("%v, want %v", err, want))
			}
		}
		for _, x := range []funi.Transfer{{Source: 0, Destination: 1 << 12, Words: 4},
			{Source: 1 << 12, Destination: 1 << 12, Words: 5}, {Source: 1 << 12, Destination: 1 << 12, Words: -4},
			{Source: 1 << 12, Words: 20}, {Source: 1 << 12, Destination: 1 << 12, Words: 1<<24 + 4}} {
			refused(n.Transfer(0, 0, x), am.ErrTransfer)
		}
		refused(n.Transfer(0, am.Handlers, ok), am.ErrNumber)
		refused(n.Transfer(2, 0, ok), am.ErrNode)
		refused(n.HandleNotice(am.Handlers, func(*am.Message, funi.Notice) {}), am.ErrNumber)
		refused(n.HandleNotice(0, nil), am.ErrNumber)
		done := false
		errs = append(errs, n.Handle(0, func(m *am.Message) {
			refused(n.Transfer(0, 0, ok), am.ErrHandler)
			refused(m.Transfer(0, funi.Transfer{Words: 4}), am.ErrTransfer)
			done = true
		}), n.Barrier(), n.Request4(1-n.Node(), 0, 0, 0, 0, 0), n.Wait(func() bool { return done }), n.Barrier())
		return errors.Join(errs...)
	})
}
