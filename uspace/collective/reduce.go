package collective

// This file has the operations that compute.

import (
	"cmp"
	"fmt"
	"unsafe"

	"github.com/funet/funet/uspace/am"
)

// Number is a type that reductions compute with.
type Number interface{ int64 | float64 }

// Reduce combines the nodes' v, which are equally long, element by element, and puts the result
// into the root's v (MPI_Reduce). The v of other nodes is of no use afterwards.
func Reduce[T Number](g *Group, root int, op am.Operation, v []T) error {
	return g.run("reduce", cmp.Or(g.root(root), check(op)), func(tag uint32) error { return reduce(g, tag, root, op, v) })
}

// reduce goes up the binomial tree. A node combines its values with those of its subtrees, the
// smallest first, and sends the result to its parent. So the left operand is always of nodes before
// those of the right one, counted from the root on.
func reduce[T Number](g *Group, tag uint32, root int, op am.Operation, v []T) error {
	me := g.after(-root)
	top := span(me, g.nodes)
	theirs := numbers[T](g.memory(8 * len(v)))
	for bit := 1; bit < top && me+bit < g.nodes; bit *= 2 {
		if err := g.receive(tag, (me+bit+root)%g.nodes, bytesOf(theirs)); err != nil {
			return err
		}
		combine(op, v, v, theirs)
	}
	if me != 0 {
		return g.send(tag, (me-top+root)%g.nodes, bytesOf(v))
	}
	return nil
}

// AllReduce combines the nodes' v, which are equally long, element by element, and puts the result
// into all nodes' v (MPI_Allreduce).
func AllReduce[T Number](g *Group, op am.Operation, v []T) error {
	return g.run("all-reduce", check(op), func(tag uint32) error {
		if err := reduce(g, tag, 0, op, v); err != nil {
			return err
		}
		return g.broadcast(tag, 0, bytesOf(v))
	})
}

// Scan combines, element by element, the v of the nodes up to this one, itself included, and puts
// the result into v (MPI_Scan).
func Scan[T Number](g *Group, op am.Operation, v []T) error {
	return g.run("scan", check(op), func(tag uint32) error { return scan(g, tag, op, v) })
}

func scan[T Number](g *Group, tag uint32, op am.Operation, v []T) error {
	room := numbers[T](g.memory(16 * len(v)))
	theirs, mine := room[:len(v)], room[len(v):] // mine: of the nodes from me-d+1 to me
	copy(mine, v)
	for d := 1; d < g.nodes; d *= 2 {
		to, from := Nobody, Nobody
		if g.node+d < g.nodes {
			to = g.node + d
		}
		if g.node >= d {
			from = g.node - d
		}
		if err := g.exchange(tag, to, bytesOf(mine), from, bytesOf(theirs)); err != nil {
			return err
		}
		if from != Nobody {
			combine(op, v, theirs, v)
			combine(op, mine, theirs, mine)
		}
	}
	return nil
}

// check refuses unknown operations.
func check(op am.Operation) error {
	if op > am.Max {
		return fmt.Errorf("operation %d: %w", op, am.ErrOperation)
	}
	return nil
}

// combine applies an operation to each element of left and right and puts the results into to,
// which may be one of the two.
func combine[T Number](op am.Operation, to, left, right []T) {
	switch op {
	case am.Sum:
		for i := range to {
			to[i] = left[i] + right[i]
		}
	case am.Min:
		for i := range to {
			to[i] = min(left[i], right[i])
		}
	case am.Max:
		for i := range to {
			to[i] = max(left[i], right[i])
		}
	}
}

// bytesOf returns the bytes of numbers. They travel as they lie in memory, because every machine
// that FUNet runs on is little-endian (package arctic).
func bytesOf[T Number](v []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 8*len(v))
}

// numbers returns bytes as numbers. The bytes begin at a multiple of 8.
func numbers[T Number](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}
