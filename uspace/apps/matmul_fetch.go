package apps

// This file fetches the columns of other nodes for the matrix multiply: by Get, in panels, in a
// fixed order. As many panels are in flight as there are places for them. The next one is requested
// when one has been worked on. All nodes have the same byte order.

import (
	"errors"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

// Addresses of shared memory. With more than one node, own columns are at most 1 GiB each; the
// places together are 32 MiB.
const (
	addressInto = 0x00100000
	addressA    = 0x10000000
	addressC    = 0x80000000

	// ahead is how many panels are in flight: enough that the network is never idle while there is
	// work.
	ahead = 8
)

// allot makes the memory that other nodes fetch from, and the memory where the card puts the
// columns that this node fetches. A single node needs no card for that.
func (x *multiplier) allot(segment func(uint32, int, funi.Rights) ([]byte, error)) error {
	columns := func(all int) int {
		from, to := block(all, x.e.Node(), x.e.Nodes())
		return to - from
	}
	var errs []error
	for _, m := range []struct {
		to     *[]float64
		base   uint32
		count  int
		rights funi.Rights
	}{
		{&x.a, addressA, columns(x.o.R), funi.Source},
		{&x.c, addressC, columns(x.o.M), funi.Source},
		{&x.into, addressInto, ahead * panelColumns, funi.Destination},
	} {
		switch {
		case m.count == 0: // a node may have no columns
		case x.e.Nodes() == 1:
			*m.to = make([]float64, m.count*x.stride)
		default:
			b, err := x.e.ShareNew(segment, m.base, m.count*x.stride*8, m.rights)
			*m.to = funi.Doubles(b)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// fetches are all panels of a matrix that other nodes own.
type fetches struct {
	x       *multiplier
	base    uint32 // of each node's columns
	columns int    // of the matrix
	panels  []panel
	// How many panels were requested, taken, and both taken and worked on.
	asked, taken, done int

	arrived [ahead]am.Counter // by place
}

// panel is neighbouring columns of one node.
type panel struct {
	node, first, columns int
}

// fetch plans to fetch the columns of a matrix that other nodes own. It begins with the node after
// this one, so that the nodes do not all fetch from the same one.
func (x *multiplier) fetch(base uint32, columns int) *fetches {
	f := &fetches{x: x, base: base, columns: columns}
	for d := 1; d < x.e.Nodes(); d++ {
		node := (x.e.Node() + d) % x.e.Nodes()
		from, to := block(columns, node, x.e.Nodes())
		for j := from; j < to; j += panelColumns {
			f.panels = append(f.panels, panel{node: node, first: j, columns: min(panelColumns, to-j)})
		}
	}
	return f
}

// ask requests as many panels as there are free places.
func (f *fetches) ask() error {
	for ; f.asked < len(f.panels) && f.asked < f.done+ahead; f.asked++ {
		p := f.panels[f.asked]
		from, _ := block(f.columns, p.node, f.x.e.Nodes())
		at, local := f.base+uint32((p.first-from)*8*f.x.stride), uint32(addressInto+8*f.place(f.asked))
		if err := f.x.e.Get(p.node, at, local, p.columns*2*f.x.stride, &f.arrived[f.asked%ahead]); err != nil {
			return err
		}
	}
	return nil
}

// take waits for the next panel and returns it with its columns. They are valid until the next
// call, which requests another panel in their place. After the last panel take returns nil.
func (f *fetches) take() (panel, []float64, error) {
	f.done = f.taken
	if err := f.ask(); err != nil || f.taken == len(f.panels) {
		return panel{}, nil, err
	}
	if err := f.x.e.WaitCounter(&f.arrived[f.taken%ahead], 1); err != nil {
		return panel{}, nil, err
	}
	p, at := f.panels[f.taken], f.place(f.taken)
	f.taken++
	return p, f.x.into[at : at+p.columns*f.x.stride], nil
}

// place returns where in into a panel is put.
func (f *fetches) place(panel int) int { return panel % ahead * panelColumns * f.x.stride }
