package apps_test

// This file tests the program of remote calls on cards in memory.

import (
	"errors"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/apps"
)

// TestRemote: node 0 gets a histogram of exactly the measured calls, each of which takes at least two trips of the wire.
func TestRemote(t *testing.T) {
	for _, c := range []struct {
		nodes  int
		faults wire.Faults
		o      apps.RemoteOptions
	}{
		{2, wire.Faults{}, apps.RemoteOptions{Bytes: 64, Calls: 1000, WarmUp: 100}},
		{2, faults, apps.RemoteOptions{Bytes: am.MaxCall, Calls: 300, WarmUp: 10}},
		{4, wire.Faults{}, apps.RemoteOptions{Bytes: 4, Calls: 1}},
	} {
		b := bed.New(t, bed.Options{Nodes: c.nodes, Net: wire.Config{Seed: 1, Delay: 2 * time.Microsecond, Faults: c.faults}})
		b.MustRun(func(n *bed.Node) error {
			h, err := apps.Remote(n.Endpoint, n.Now, c.o)
			if err != nil || (h != nil) != (n.Node() == 0) {
				t.Errorf("%+v: node %d got %v, %v", c, n.Node(), h, err)
			}
			if h != nil && (h.TotalCount() != int64(c.o.Calls) || time.Duration(h.Min()) < 4*time.Microsecond*999/1000) {
				t.Errorf("%+v: %d calls, the shortest took %d ns", c, h.TotalCount(), h.Min())
			}
			return err
		})
	}
}

// TestRemoteVerifies: an answer that is not the request is noticed.
func TestRemoteVerifies(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	errs := b.Run(func(n *bed.Node) error {
		var h *hdrhistogram.Histogram
		var err error
		if n.Node() == 0 {
			h, err = apps.Remote(n.Endpoint, n.Now, apps.RemoteOptions{Bytes: 8, Calls: 10})
		} else if err = n.HandleCall(0, func(_ *am.Message, b []byte) ([]byte, error) { return b[:7], nil }); err == nil {
			err = errors.Join(n.Barrier(), n.Barrier()) // node 0 is gone before the second
		}
		if h != nil {
			t.Error("node 0 got a histogram")
		}
		return err
	})
	if !errors.Is(errs[0], apps.ErrVerify) {
		t.Errorf("it ended with %v", errs[0])
	}
}

// TestRemoteRefuses: options that cannot be run.
func TestRemoteRefuses(t *testing.T) {
	n := bed.New(t, bed.Options{Nodes: 2}).Nodes[0]
	for _, o := range []apps.RemoteOptions{{Bytes: 3, Calls: 1}, {Bytes: am.MaxCall + 1, Calls: 1}, {Bytes: 4}} {
		if _, err := apps.Remote(n.Endpoint, n.Now, o); err == nil {
			t.Errorf("%+v was run", o)
		}
	}
}
