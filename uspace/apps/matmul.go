package apps

// This file implements the matrix multiply of thesis 6.2.2 and appendix C in a form for modern
// processors: C = A x B with all three in blocks of columns, one block a node. A node updates its
// block of C with panels of A, its own columns first, then those of the nodes after it. The cards
// move the columns of other nodes, several panels ahead, while the node works (matmul_fetch.go).
// The program as the thesis measured it is in columns.go.

import (
	"fmt"
	"math/rand/v2"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/collective"
	"github.com/funet/funet/uspace/funi"
)

const (
	// Tolerance is the largest accepted difference from the product that node 0 computes alone,
	// relative to the largest element.
	Tolerance = 1e-9
	// MaxDimension bounds N, R and M, so that places fit a word and matrices memory.
	MaxDimension = 1 << 14

	// panelColumns and tileRows are the most columns and rows of A that C is updated with at a
	// time: 128 KB, which stay in a processor's second-level cache for all of C.
	panelColumns = 32
	tileRows     = 512
	// pollFlops is the number of floating point operations between polls, some tens of microseconds
	// of work. Polls serve other nodes and advance transfers.
	pollFlops = 1 << 20
	// runs is how many times the product is computed; the last one counts. In the first,
	// memory and code are new to the processor, and the network to the cards.
	runs = 2
)

// MatMulOptions are the same on all nodes.
type MatMulOptions struct {
	// N, R, M: A is N by R, B is R by M (thesis 6.2.2). All are at least 1; blocks
	// differ by one column where the nodes do not divide them.
	N, R, M  int
	Seed     uint64
	Progress Progress
}

// MatMulResult is the result at node 0.
type MatMulResult struct {
	Nanoseconds int64   // from a barrier to the last node's end, the second time
	Flops       float64 // 2NRM floating point operations
	WorstError  float64 // relative to the largest element
	Verified    bool    // WorstError within Tolerance
}

// block returns the columns [from, to) of n that belong to a node.
func block(n, node, nodes int) (from, to int) {
	return n * node / nodes, n * (node + 1) / nodes
}

// column makes column j of the matrix with the seed, so that any node can make any
// column without having seen the others.
func column(seed uint64, j, rows int) []float64 {
	r := rand.New(rand.NewPCG(seed, uint64(j)))
	c := make([]float64, rows)
	for i := range c {
		c[i] = 2*r.Float64() - 1
	}
	return c
}

// multiplier is one node's part of the product.
type multiplier struct {
	e *am.Endpoint
	o MatMulOptions
	// Columns of A and C begin a stride of doubles apart, N or one more, so that a card can
	// move them: from multiples of 16 bytes.
	stride  int
	a, b, c []float64 // own columns; those of B without gaps
	into    []float64 // where the card puts fetched columns
	undone  int       // operations since the last poll
	done    int       // operations before it
}

// MatMul multiplies two random matrices, twice, and verifies the second product on node 0
// against a local Dgemm. On other nodes the result is empty. Segment returns memory that the card
// of this process may use, as Segment of a card and of a daemon's client does; clock returns
// nanoseconds.
func MatMul(e *am.Endpoint, segment func(uint32, int, funi.Rights) ([]byte, error), clock func() int64,
	o MatMulOptions) (MatMulResult, error) {
	if min(o.N, o.R, o.M) < 1 || max(o.N, o.R, o.M) > MaxDimension {
		return MatMulResult{}, fmt.Errorf("multiplying %d x %d by %d x %d: dimensions are 1 to %d", o.N, o.R, o.R,
			o.M, MaxDimension)
	}
	x := &multiplier{e: e, o: o, stride: o.N + o.N%2}
	if err := x.allot(segment); err != nil {
		return MatMulResult{}, err
	}
	x.prepare()
	if err := x.agree(); err != nil {
		return MatMulResult{}, err
	}
	var begin, end int64
	for range runs {
		clear(x.c)
		if err := e.Barrier(); err != nil {
			return MatMulResult{}, err
		}
		begin = clock()
		if err := x.multiply(); err != nil {
			return MatMulResult{}, err
		}
		if err := e.Barrier(); err != nil {
			return MatMulResult{}, err
		}
		end = clock()
	}
	result := MatMulResult{Nanoseconds: end - begin, Flops: 2 * float64(o.N) * float64(o.R) * float64(o.M)}
	product, err := x.gather()
	if err != nil || e.Node() != 0 {
		return MatMulResult{}, err
	}
	result.WorstError = x.verify(product)
	result.Verified = result.WorstError <= Tolerance
	return result, nil
}

// Seeds of the two matrices.
func (o *MatMulOptions) seedA() uint64 { return o.Seed*2 + 1 }
func (o *MatMulOptions) seedB() uint64 { return o.Seed*2 + 2 }

// prepare fills in the node's own columns.
func (x *multiplier) prepare() {
	from, to := block(x.o.R, x.e.Node(), x.e.Nodes())
	for j := from; j < to; j++ {
		copy(x.a[(j-from)*x.stride:], column(x.o.seedA(), j, x.o.N))
	}
	from, to = block(x.o.M, x.e.Node(), x.e.Nodes())
	for j := from; j < to; j++ {
		x.b = append(x.b, column(x.o.seedB(), j, x.o.R)...)
	}
}

// agree checks that all nodes have the same dimensions. If they differ, no node continues, and all
// return an error.
func (x *multiplier) agree() error {
	shape := int64(x.o.N)<<32 | int64(x.o.R)<<16 | int64(x.o.M)
	most := []int64{shape, -shape}
	if err := collective.AllReduce(collective.New(x.e), am.Max, most); err != nil {
		return err
	}
	if most[0] != -most[1] {
		return fmt.Errorf("%w: other nodes do not multiply %d x %d by %d x %d; give all nodes the same dimensions",
			ErrVerify, x.o.N, x.o.R, x.o.R, x.o.M)
	}
	return nil
}

// multiply updates C with all of A.
func (x *multiplier) multiply() error {
	f := x.fetch(addressA, x.o.R)
	if err := f.ask(); err != nil {
		return err
	}
	from, to := block(x.o.R, x.e.Node(), x.e.Nodes())
	for j := from; j < to; j += panelColumns {
		if err := x.update(x.a[(j-from)*x.stride:], j, min(panelColumns, to-j)); err != nil {
			return err
		}
	}
	for {
		p, columns, err := f.take()
		if err != nil || columns == nil {
			return err
		}
		if err := x.update(columns, p.first, p.columns); err != nil {
			return err
		}
	}
}

// update adds to C the part of some columns of A, from column j on. It multiplies each tile of
// these columns by the doubles of every own column of B, and polls now and then.
func (x *multiplier) update(panel []float64, j, columns int) error {
	for i := 0; i < x.o.N; i += tileRows {
		rows := min(tileRows, x.o.N-i)
		for k := 0; k*x.stride < len(x.c); k++ {
			addColumns(x.c[k*x.stride+i:][:rows], panel[i:], x.stride, x.b[k*x.o.R+j:][:columns])
			if x.undone += 2 * rows * columns; x.undone < pollFlops {
				continue
			}
			x.done, x.undone = x.done+x.undone, 0
			// with what verifies it
			x.o.Progress.tell(x.done, 2*x.o.N*x.o.R*(x.o.M+runs*x.o.M/x.e.Nodes()))
			if _, err := x.e.Poll(); err != nil {
				return err
			}
		}
	}
	return nil
}
