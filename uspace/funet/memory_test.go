package funet_test

// This file tests memory that other nodes read and write.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
)

// Rule: memory of Alloc works on both kinds of card, and has the same addresses on nodes that
// allocate the same; what is freed can be given out again, and what is not Alloc's is refused.
func TestAlloc(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			small, err1 := e.Alloc(100)
			big, err2 := e.Alloc(1 << 20)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			at, err := e.Address(big)
			if err != nil || at != 0x4000_1000 {
				return fmt.Errorf("the second is at %#x, %v", at, err)
			}
			for i := range big {
				big[i] = byte(i) ^ byte(e.Node())
			}
			if err := e.Barrier(ctx); err != nil {
				return err
			}
			err = e.AM(func(a *am.Endpoint) error {
				a.Bind(ctx)
				v, err := a.ReadInt32(1-e.Node(), at+4)
				want :=
					int32(4^(1-e.Node())) | int32(5^(1-e.Node()))<<8 | int32(6^(1-e.Node()))<<16 | int32(7^(1-e.Node()))<<24
				if err == nil && v != want {
					err = fmt.Errorf("the other's memory has %#x, not %#x", v, want)
				}
				return errors.Join(err, a.Barrier())
			})
			if err != nil {
				return err
			}
			if err := e.Free(small); err != nil {
				return err
			}
			again, err := e.Alloc(4096)
			if err != nil {
				return err
			}
			if at, err = e.Address(again); err != nil || at != 0x4000_0000 {
				return fmt.Errorf("what was freed is not given out: %#x, %v", at, err)
			}
			for name, err := range map[string]error{
				"Free of other memory": e.Free(make([]byte, 10)), "Free of nothing": e.Free(nil),
				"Free of a part": e.Free(big[1:]), "no bytes": value(e.Alloc(0)), "too many": value(e.Alloc(1<<31 + 1)),
				"Address of other memory": value(e.Address(make([]byte, 10))),
				"Share where Alloc is": e.Share(funi.Segment{Base: 0x3fff_fff0, Memory: make([]byte, 32),
					Rights: funi.Source}),
			} {
				if !errors.Is(err, funet.ErrAddress) {
					return fmt.Errorf("%s: %v", name, err)
				}
			}
			return e.Barrier(ctx)
		})
	})
}

func value(_ any, err error) error { return err }

// Rule: memory that the program has can be shared where the card is in the process; a daemon's
// refuses it, and says what to do.
func TestShare(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		e := b.open(0)
		err := e.Share(funi.Segment{Base: 0x1000, Memory: slices.Repeat([]byte{1}, 4096), Rights: funi.Source})
		if daemons := b.options[0].Attach != nil; daemons && !errors.Is(err, attach.ErrOwnMemory) ||
			!daemons && err != nil {
			t.Errorf("it was answered by %v", err)
		}
	})
}

// Rule: with the options that nobody has set the longest message arrives, sent, called and
// answered, also while others of its length are under way, and short ones beside it (am.MaxBytes);
// afterwards the memory is the user's again.
func TestLongestMessage(t *testing.T) {
	size := am.MaxBytes
	if testing.Short() {
		// longer than the memory that a daemon makes at first; the whole test moves half a GiB
		size = 4 << 20
	}
	onBoth(t, func(t *testing.T, b *bed) {
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			long := make([]byte, size)
			for i := 0; i < len(long); i += 4096 {
				long[i] = byte(i>>12) ^ byte(e.Node())
			}
			took := 0
			whole := func(m *funet.Message) error {
				if len(m.Bytes) != len(long) {
					return fmt.Errorf("%d bytes came", len(m.Bytes))
				}
				for i := 0; i < len(long); i += 4096 {
					if m.Bytes[i] != byte(i>>12)^byte(m.Source) {
						return fmt.Errorf("another byte came at %d", i)
					}
				}
				took++
				return nil
			}
			err := errors.Join(e.Handle(1, whole), e.Serve(2, func(m *funet.Message) ([]byte, error) {
				return m.Bytes, whole(m)
			}), e.Barrier(ctx))
			if err != nil {
				return err
			}
			sent := make(chan error, 2)
			for range 2 {
				go func() { sent <- e.Send(ctx, 1-e.Node(), 1, long) }()
			}
			answer, err := e.Call(ctx, 1-e.Node(), 2, long)
			if err := errors.Join(err, <-sent, <-sent); err != nil {
				return err
			}
			if !slices.Equal(answer, long) {
				return errors.New("the answer is other bytes")
			}
			return errors.Join(e.Wait(ctx, func() bool { return took == 3 }), e.Barrier(ctx))
		})
	})
}
