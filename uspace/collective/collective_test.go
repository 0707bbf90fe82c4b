package collective_test

// This file tests the operations of a group on cards in memory, for 1 to 17 nodes, against what one
// computes who knows what all nodes gave.

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/collective"
)

// gave returns the bytes that a node gives to an operation: any bytes that the others can know.
func gave(node, n int, what string) []byte {
	random := rand.New(rand.NewPCG(uint64(node), uint64(n)+uint64(len(what))<<32))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// TestOperations: each operation, with blocks of several lengths and each root, has the result that
// it has in MPI; also over a network that loses, duplicates and reorders, and with nodes that come
// late.
func TestOperations(t *testing.T) {
	for nodes := 1; nodes <= 17; nodes++ {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			o := bed.Options{Nodes: nodes, Slots: 32, Limit: 10 * time.Minute, Net: wire.Config{Seed: uint64(nodes)}}
			if nodes%3 == 0 {
				o.Net.Faults = wire.Faults{Loss: 0.02, Duplicate: 0.02, Reorder: 0.1}
			}
			b := bed.New(t, o)
			b.MustRun(func(n *bed.Node) error {
				g := collective.New(n.Endpoint)
				for i, size := range []int{0, 1, 100, collective.Short + 8} {
					if size > 100 && nodes > 9 && nodes != 13 {
						continue // much of the same
					}
					for _, root := range []int{0, nodes / 2, nodes - 1} {
						if n.Node() == (root+i)%nodes {
							n.Pause(int64(50 * time.Microsecond))
						}
						if err := bytewise(n, g, root, size); err != nil {
							return fmt.Errorf("blocks of %d bytes, root %d: %w", size, root, err)
						}
					}
				}
				if err := computed(n, g); err != nil {
					return err
				}
				return n.Barrier()
			})
		})
	}
}

// bytewise does the operations that move bytes.
func bytewise(n *bed.Node, g *collective.Group, root, size int) error {
	me, nodes := n.Node(), n.Nodes()
	all := func(what string) (b []byte) {
		for node := range nodes {
			b = append(b, gave(node, size, what)...)
		}
		return b
	}
	check := func(what string, got, want []byte) error {
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%s gave node %d other bytes", what, me)
		}
		return nil
	}
	var errs []error
	step := func(what string, err error, got, want []byte) {
		if err == nil {
			err = check(what, got, want)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}

	b := gave(me, size, "b")
	step("broadcast", g.Broadcast(root, b), b, gave(root, size, "b"))

	var recv []byte
	if me == root {
		recv = make([]byte, nodes*size)
	}
	err := g.Gather(root, gave(me, size, "ga"), recv)
	if me == root {
		step("gather", err, recv, all("ga"))
	} else {
		step("gather", err, nil, nil)
	}

	var send []byte
	if me == root {
		send = gave(root, nodes*size, "sca")
	}
	block := make([]byte, size)
	step("scatter", g.Scatter(root, send, block), block, gave(root, nodes*size, "sca")[me*size:][:size])

	recv = make([]byte, nodes*size)
	step("all-gather", g.AllGather(gave(me, size, "allg"), recv), recv, all("allg"))

	recv = make([]byte, nodes*size)
	var want []byte
	for node := range nodes {
		want = append(want, gave(node, nodes*size, "allta")[me*size:][:size]...)
	}
	step("all-to-all", g.AllToAll(gave(me, nodes*size, "allta"), recv), recv, want)
	return errors.Join(append(errs, g.Barrier())...)
}

// computed does the operations that compute.
func computed(n *bed.Node, g *collective.Group) error {
	me, nodes := n.Node(), n.Nodes()
	of := func(node int) (ints []int64, floats []float64) {
		random := rand.New(rand.NewPCG(uint64(node), 7))
		for range 21 {
			ints = append(ints, int64(random.Uint64()))
			floats = append(floats, math.Ldexp(random.Float64()-0.5, random.IntN(40)))
		}
		return ints, floats
	}
	for _, op := range []am.Operation{am.Sum, am.Min, am.Max} {
		// What is expected: in the order of the nodes. Sums of doubles depend on the order, so they
		// are compared with an error that is bounded by the largest terms.
		var upTo [][]int64
		var upToF [][]float64
		for node := range nodes {
			ints, floats := of(node)
			if node > 0 {
				for i := range ints {
					ints[i] = one(op, upTo[node-1][i], ints[i])
					floats[i] = one(op, upToF[node-1][i], floats[i])
				}
			}
			upTo, upToF = append(upTo, ints), append(upToF, floats)
		}
		near := func(a, b []float64) bool {
			return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) < math.Ldexp(1, 40-45) })
		}
		root := nodes / 3
		ints, floats := of(me)
		if err := errors.Join(collective.Reduce(g, root, op, ints),
			collective.Reduce(g, root, op, floats)); err != nil {
			return err
		}
		if me == root && (!slices.Equal(ints, upTo[nodes-1]) || !near(floats, upToF[nodes-1])) {
			return fmt.Errorf("reduce by %d gave %v, %v", op, ints, floats)
		}
		ints, floats = of(me)
		if err := errors.Join(collective.AllReduce(g, op, ints), collective.AllReduce(g, op, floats)); err != nil {
			return err
		}
		if !slices.Equal(ints, upTo[nodes-1]) || !near(floats, upToF[nodes-1]) {
			return fmt.Errorf("all-reduce by %d gave node %d %v, %v", op, me, ints, floats)
		}
		same := make([]byte, 0, 8*len(floats))
		for _, f := range floats {
			same = fmt.Append(same, math.Float64bits(f))
		}
		first := slices.Clone(same)
		if err := g.Broadcast(0, first[:min(len(first), 100)]); err != nil {
			return err
		}
		if !bytes.Equal(first[:min(len(first), 100)], same[:min(len(same), 100)]) {
			return fmt.Errorf("all-reduce by %d of doubles is not the same on node %d as on node 0", op, me)
		}
		ints, floats = of(me)
		if err := errors.Join(collective.Scan(g, op, ints), collective.Scan(g, op, floats)); err != nil {
			return err
		}
		if !slices.Equal(ints, upTo[me]) || !near(floats, upToF[me]) {
			return fmt.Errorf("scan by %d gave node %d %v, %v", op, me, ints, floats)
		}
	}
	return nil
}

// one combines two numbers.
func one[T collective.Number](op am.Operation, a, b T) T {
	switch op {
	case am.Sum:
		return a + b
	case am.Min:
		return min(a, b)
	}
	return max(a, b)
}

// TestRefusals: roots and lengths that cannot be are refused before anything is sent, and lengths
// that differ between the nodes where it is seen.
func TestRefusals(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		g := collective.New(n.Endpoint)
		for name, c := range map[string]struct{ err, want error }{
			"broadcast from node 2":  {g.Broadcast(2, nil), collective.ErrRoot},
			"broadcast from node -1": {g.Broadcast(-1, nil), collective.ErrRoot},
			"gather at node 2":       {g.Gather(2, nil, nil), collective.ErrRoot},
			"scatter from node 2":    {g.Scatter(2, nil, nil), collective.ErrRoot},
			"reduce at node 2":       {collective.Reduce(g, 2, am.Sum, []int64{1}), collective.ErrRoot},
			"gather into too little": {g.Gather(n.Node(), make([]byte, 4), make([]byte, 7)), collective.ErrLengths},
			"scatter of too little":  {g.Scatter(n.Node(), make([]byte, 7), make([]byte, 4)), collective.ErrLengths},
			"all-gather":             {g.AllGather(make([]byte, 4), make([]byte, 7)), collective.ErrLengths},
			"all-to-all":             {g.AllToAll(make([]byte, 4), make([]byte, 6)), collective.ErrLengths},
			"all-to-all of 7 bytes":  {g.AllToAll(make([]byte, 7), make([]byte, 7)), collective.ErrLengths},
			"reduce by 3":            {collective.Reduce(g, 0, am.Max+1, []float64{1}), am.ErrOperation},
			"all-reduce by 3":        {collective.AllReduce(g, am.Max+1, []float64{1}), am.ErrOperation},
			"scan by 3":              {collective.Scan(g, am.Max+1, []float64{1}), am.ErrOperation},
		} {
			if !errors.Is(c.err, c.want) {
				t.Errorf("%s: %v, want %v", name, c.err, c.want)
			}
		}
		if err := g.Barrier(); err != nil { // they are still together
			return err
		}
		err := g.Broadcast(0, make([]byte, 10+n.Node()))
		if n.Node() == 1 && !errors.Is(err, collective.ErrLengths) || n.Node() == 0 && err != nil {
			t.Errorf("broadcast of 10 bytes into 11 on node %d: %v", n.Node(), err)
		}
		err = g.Broadcast(1, make([]byte, 10+n.Node()))
		if n.Node() == 0 && !errors.Is(err, collective.ErrLengths) || n.Node() == 1 && err != nil {
			t.Errorf("broadcast of 11 bytes into 10 on node %d: %v", n.Node(), err)
		}
		return n.Barrier()
	})
}

// TestRenumber: after all have agreed on a number, messages of operations before that are in
// nobody's way.
func TestRenumber(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 3})
	b.MustRun(func(n *bed.Node) error {
		g := collective.New(n.Endpoint)
		if n.Node() == 1 { // is in an operation that the others never call
			if _, err := n.StartSendTag(2, am.GroupTag|1, []byte("old"), func(error) {}); err != nil {
				return err
			}
		}
		if err := n.Barrier(); err != nil {
			return err
		}
		g.Renumber(5)
		v := []int64{int64(n.Node())}
		if err := collective.AllReduce(g, am.Sum, v); err != nil || v[0] != 3 {
			return fmt.Errorf("all-reduce gave %v, %w", v, err)
		}
		return n.Barrier()
	})
}

// TestEdges: NaN wins over every number, and sums of int64 wrap around.
func TestEdges(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 3})
	b.MustRun(func(n *bed.Node) error {
		g, value := collective.New(n.Endpoint), []float64{1, math.NaN(), -1}[n.Node()]
		least, most, wrapped := []float64{value}, []float64{value}, []int64{math.MaxInt64}
		if err := errors.Join(collective.AllReduce(g, am.Min, least), collective.AllReduce(g, am.Max, most),
			collective.AllReduce(g, am.Sum, wrapped), n.Barrier()); err != nil {
			return err
		}
		if !math.IsNaN(least[0]) || !math.IsNaN(most[0]) || wrapped[0] != math.MaxInt64-2 {
			return fmt.Errorf("min %v and max %v of NaN and others, sum %d", least, most, wrapped)
		}
		return nil
	})
}
