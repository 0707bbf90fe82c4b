package apps_test

// This file tests transfer: what it moves, measures and refuses.

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// TestTransfer: every block of any size arrives undamaged, on any card and network, and
// node 0 alone learns how long it took.
func TestTransfer(t *testing.T) {
	for _, c := range []struct {
		nodes  int
		faults wire.Faults
		o      apps.TransferOptions
		tune   func(*engine.Config)
	}{
		{2, wire.Faults{}, apps.TransferOptions{Bytes: 1 << 22, Block: 1 << 18, Depth: 4}, nil},
		{2, wire.Faults{}, apps.TransferOptions{Bytes: 16, Block: 16, Depth: 1}, nil},
		{2, wire.Faults{}, apps.TransferOptions{Bytes: 64 * 100, Block: 64, Depth: 3}, nil},
		{3, wire.Faults{}, apps.TransferOptions{Bytes: 80 * 100, Block: 80, Depth: 100}, nil},
		{2, faults, apps.TransferOptions{Bytes: 1 << 20, Block: 1 << 14, Depth: 7}, nil},
		{2, faults, apps.TransferOptions{Bytes: 1600 * 50, Block: 1600, Depth: 50}, func(c *engine.Config) {
			c.Lines, c.ReplyLines, c.FIFO, c.Train = 8, 2, 10, 1
		}},
	} {
		t.Run(fmt.Sprintf("%+v faults %v", c.o, c.faults != wire.Faults{}), func(t *testing.T) {
			b := bed.New(t, bed.Options{Nodes: c.nodes, Net: wire.Config{Seed: 1, Faults: c.faults}, Tune: c.tune})
			results := make([]apps.TransferResult, c.nodes)
			b.MustRun(func(n *bed.Node) (err error) {
				results[n.Node()], err = apps.Transfer(n.Endpoint, n.Segment, n.Now, c.o)
				return err
			})
			if r := results[0]; r.Bytes != c.o.Bytes || time.Duration(r.Nanoseconds) < 2*time.Microsecond {
				t.Errorf("result %+v", r)
			}
			for _, r := range results[1:] {
				if r != (apps.TransferResult{}) {
					t.Errorf("a node other than 0 got %+v", r)
				}
			}
		})
	}
}

// TestTransferNotices: what node 1 finds damaged, it says (ErrVerify).
func TestTransferNotices(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	var memory []byte
	errs := b.Run(func(n *bed.Node) error {
		segment := func(base uint32, bytes int, rights funi.Rights) ([]byte, error) {
			b, err := n.Segment(base, bytes, rights)
			if n.Node() == 0 {
				memory = b
			}
			return b, err
		}
		spoil := func() int64 { // node 0 looks at its clock before it sends
			memory[1000] ^= 1
			return n.Now()
		}
		_, err := apps.Transfer(n.Endpoint, segment, spoil,
			apps.TransferOptions{Bytes: 1 << 16, Block: 1 << 14, Depth: 4})
		return err
	})
	if errs[0] != nil || !errors.Is(errs[1], apps.ErrVerify) {
		t.Errorf("errors %v, want ErrVerify of node 1", errs)
	}
}

// TestTransferRefusals: options out of range are errors before anything is sent.
func TestTransferRefusals(t *testing.T) {
	for _, o := range []apps.TransferOptions{
		{}, {Bytes: 16, Block: 16}, {Bytes: 24, Block: 24, Depth: 1}, {Bytes: 48, Block: 32, Depth: 1},
		{Bytes: 16, Block: 32, Depth: 1},
		{Bytes: 1 << 27, Block: 1 << 27, Depth: 1}, {Bytes: 1 << 26, Block: 1 << 26, Depth: 17},
		{Bytes: 16, Block: 16, Depth: 257}, {Bytes: -16, Block: -16, Depth: 1},
	} {
		b := bed.New(t, bed.Options{Nodes: 2})
		for i, err := range b.Run(func(n *bed.Node) error {
			_, err := apps.Transfer(n.Endpoint, n.Segment, n.Now, o)
			return err
		}) {
			if err == nil || b.Nodes[i].Card.Counters().FramesSent != 0 {
				t.Errorf("%+v: error %v and %d frames sent on node %d", o, err,
					b.Nodes[i].Card.Counters().FramesSent, i)
			}
		}
	}
}
