package apps_test

// This file tests the matrix multiply of Figures 6.2 to 6.5 on cards in memory.

import (
	"errors"
	"testing"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/uspace/apps"
)

// The product is right whichever way columns are fetched, every node learns of it, and what
// the loops took is the instructions of 2NMR operations (thesis 6.2.2, appendix C). Blocks
// of columns need not be of one length, nor columns of whole packets.
func TestMatMulColumns(t *testing.T) {
	for _, c := range []struct{ nodes, n, r, m int }{{4, 16, 16, 16}, {1, 16, 4, 4}, {3, 10, 7, 5}, {2, 2, 2, 2}} {
		for _, extensions := range []bool{false, true} {
			learnt := 0
			b := bed.New(t, bed.Options{Nodes: c.nodes})
			b.MustRun(func(n *bed.Node) error {
				r, err := apps.MatMulColumns(n.Endpoint, n.Segment, n.Now,
					apps.ColumnsOptions{N: c.n, R: c.r, M: c.m, Extensions: extensions, Seed: 3})
				if err != nil {
					return err
				}
				learnt++
				// 57 instructions and 6 cycles more for loads of doubles for each of N elements,
				// and 12 instructions around them.
				if want := int64(c.r * c.m * ((57+6)*c.n + 12)); !r.Verified || r.Cycles != want ||
					r.Nanoseconds <= 0 || r.Flops != float64(2*c.n*c.r*c.m) {
					t.Errorf("%+v, extensions %v: %+v, want %d cycles", c, extensions, r, want)
				}
				return nil
			})
			if learnt != c.nodes {
				t.Errorf("%d of %d nodes have a result", learnt, c.nodes)
			}
		}
	}
}

// What cannot be multiplied is refused before anything is sent.
func TestMatMulColumnsRefused(t *testing.T) {
	for _, o := range []apps.ColumnsOptions{
		{N: 0, R: 4, M: 4}, {N: 15, R: 4, M: 4}, {N: -2, R: 4, M: 4}, {N: 16, R: 1, M: 4}, {N: 16, R: 4, M: 1},
		{N: apps.MaxDimension + 2, R: 4, M: 4}, {N: 16, R: apps.MaxDimension + 1, M: 4},
		{N: 16, R: 4, M: apps.MaxDimension + 1},
	} {
		bed.New(t, bed.Options{Nodes: 2}).MustRun(func(n *bed.Node) error {
			if _, err := apps.MatMulColumns(n.Endpoint, n.Segment, n.Now, o); !errors.Is(err, apps.ErrShape) {
				t.Errorf("%+v: %v", o, err)
			}
			return nil
		})
	}
}

// A node that was given other dimensions ends the program with an error.
func TestMatMulColumnsDisagree(t *testing.T) {
	failed := 0
	errs := bed.New(t, bed.Options{Nodes: 2}).Run(func(n *bed.Node) error {
		_, err := apps.MatMulColumns(n.Endpoint, n.Segment, n.Now, apps.ColumnsOptions{N: 16 + 2*n.Node(), R: 4, M: 4})
		return err
	})
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Error("nobody noticed")
	}
}
