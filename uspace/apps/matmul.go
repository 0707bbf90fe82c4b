package apps

// This file is the matrix multiply of thesis 6.2.2 and appendix C: C = A x B with
// all three in blocks of columns, one block a node. Each node updates its block of
// C with one column of A after another, its own first, and fetches the next column
// while it works on the last.

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funet/funet/uspace/am"
)

// Handler numbers of matrix multiply.
const (
	fetchHandler  = 0 // request: column, N, R, M -> columnHandler replies
	columnHandler = 1 // reply: column, first row, then doubles as pairs of words
	resultHandler = 2 // request: column, first row, then doubles; to node 0
)

const (
	// doublesPerReply is how many doubles fit a message with their place before
	// them: (20 - 2) / 2 words.
	doublesPerReply = (am.MaxWords - 2) / 2
	// Tolerance is how far the product may be from the one that node 0 computes
	// alone, relative to the largest element.
	Tolerance = 1e-9
)

// MatMulOptions are the same on all nodes.
type MatMulOptions struct {
	// N, R, M: A is N by R, B is R by M (thesis 6.2.2). All are at least 1; blocks
	// differ by one column where the nodes do not divide them.
	N, R, M int
	Seed    uint64
}

// MatMulResult is what node 0 learns.
type MatMulResult struct {
	Nanoseconds int64   // from the barrier before to the last node's end
	Flops       float64 // 2NRM floating point operations
	WorstError  float64 // relative to the largest element
	Verified    bool    // WorstError within Tolerance
}

// MaxDimension bounds N, R and M, so that places fit a word and matrices memory.
const MaxDimension = 1 << 14

// block returns the columns [from, to) of n that belong to a node.
func block(n, node, nodes int) (from, to int) {
	return n * node / nodes, n * (node + 1) / nodes
}

// owner returns the node whose block has column j of n.
func owner(j, n, nodes int) int {
	node := min(j*nodes/n, nodes-1)
	for {
		switch from, to := block(n, node, nodes); {
		case j < from:
			node--
		case j >= to:
			node++
		default:
			return node
		}
	}
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
	e       *am.Endpoint
	o       MatMulOptions
	a, b, c [][]float64 // own columns

	fetched  []float64 // column under way
	missing  int       // doubles of it that have not come
	gathered [][]float64
	toGather []int // doubles of the product that have not come, by node
	failed   error
}

// MatMul multiplies two random matrices and verifies the product on node 0 against
// a local Dgemm. On other nodes the result is empty. Clock returns nanoseconds.
func MatMul(e *am.Endpoint, clock func() int64, o MatMulOptions) (MatMulResult, error) {
	if min(o.N, o.R, o.M) < 1 || max(o.N, o.R, o.M) > MaxDimension {
		return MatMulResult{}, fmt.Errorf("multiplying %d x %d by %d x %d: dimensions are 1 to %d", o.N, o.R, o.R, o.M, MaxDimension)
	}
	x := &multiplier{e: e, o: o}
	if err := x.prepare(); err != nil {
		return MatMulResult{}, err
	}
	if err := e.Barrier(); err != nil {
		return MatMulResult{}, err
	}
	begin := clock()
	if err := x.multiply(); err != nil {
		return MatMulResult{}, err
	}
	if err := e.Barrier(); err != nil {
		return MatMulResult{}, err
	}
	result := MatMulResult{Nanoseconds: clock() - begin, Flops: 2 * float64(o.N) * float64(o.R) * float64(o.M)}
	if err := x.gather(); err != nil {
		return MatMulResult{}, err
	}
	if err := e.Barrier(); err != nil {
		return MatMulResult{}, err
	}
	if e.Node() != 0 {
		return MatMulResult{}, x.failed
	}
	result.WorstError = x.verify()
	result.Verified = result.WorstError <= Tolerance
	return result, x.failed
}

// Seeds of the two matrices.
func (o *MatMulOptions) seedA() uint64 { return o.Seed*2 + 1 }
func (o *MatMulOptions) seedB() uint64 { return o.Seed*2 + 2 }

// prepare makes the node's own columns and registers the handlers.
func (x *multiplier) prepare() error {
	own := func(n int, column func(j int) []float64) (m [][]float64) {
		from, to := block(n, x.e.Node(), x.e.Nodes())
		for j := from; j < to; j++ {
			m = append(m, column(j))
		}
		return m
	}
	x.a = own(x.o.R, func(j int) []float64 { return column(x.o.seedA(), j, x.o.N) })
	x.b = own(x.o.M, func(j int) []float64 { return column(x.o.seedB(), j, x.o.R) })
	x.c = own(x.o.M, func(int) []float64 { return make([]float64, x.o.N) })
	x.fetched = make([]float64, x.o.N)
	for number, h := range []am.Handler{fetchHandler: x.fetch, columnHandler: x.arrive, resultHandler: x.collect} {
		if err := x.e.Handle(uint32(number), h); err != nil {
			return err
		}
	}
	if x.e.Node() == 0 {
		x.gathered = make([][]float64, x.o.M)
		for j := range x.gathered {
			x.gathered[j] = make([]float64, x.o.N)
		}
		for node := range x.e.Nodes() {
			from, to := block(x.o.M, node, x.e.Nodes())
			x.toGather = append(x.toGather, (to-from)*x.o.N)
		}
	}
	return nil
}

// multiply is the loop of appendix C over all columns of A, from the node's own
// first one on, so that the nodes do not all fetch from the same one.
func (x *multiplier) multiply() error {
	first, _ := block(x.o.R, x.e.Node(), x.e.Nodes())
	first %= x.o.R
	work := make([]float64, x.o.N)
	if err := x.request(first); err != nil {
		return err
	}
	for d := range x.o.R {
		j := (first + d) % x.o.R
		from := owner(j, x.o.R, x.e.Nodes())
		if err := x.e.WaitFor(from, func() bool { return x.missing == 0 || x.failed != nil }); err != nil {
			return err
		}
		if x.failed != nil {
			return x.failed
		}
		work, x.fetched = x.fetched, work
		if d+1 < x.o.R {
			if err := x.request((j + 1) % x.o.R); err != nil {
				return err
			}
		}
		// The update of each own column of C, with a poll after each so that the next
		// column arrives and others are served meanwhile.
		v := blas64.Vector{N: x.o.N, Inc: 1, Data: work}
		for k, c := range x.c {
			blas64.Axpy(x.b[k][j], v, blas64.Vector{N: x.o.N, Inc: 1, Data: c})
			if _, err := x.e.Poll(); err != nil {
				return err
			}
		}
	}
	return x.failed
}

// request asks the owner of column j of A for it. The own columns come the same
// way, by a message to the node itself.
func (x *multiplier) request(j int) error {
	x.missing = x.o.N
	return x.e.Request4(owner(j, x.o.R, x.e.Nodes()), fetchHandler, uint32(j), uint32(x.o.N), uint32(x.o.R), uint32(x.o.M))
}

// fetch replies with a column of A. A node that was given other dimensions gets a part
// that does not fit, so that it does not wait for ever.
func (x *multiplier) fetch(m *am.Message) {
	from, to := block(x.o.R, x.e.Node(), x.e.Nodes())
	if len(m.Words) != 4 || m.Words[1] != uint32(x.o.N) || m.Words[2] != uint32(x.o.R) || m.Words[3] != uint32(x.o.M) ||
		int(m.Words[0]) < from || int(m.Words[0]) >= to {
		x.failed = fmt.Errorf("%w: node %d asked for a column with %x; give all nodes the same dimensions", ErrVerify, m.Source, m.Words)
		_ = m.Reply(columnHandler) // the program ends with x.failed
		return
	}
	col := x.a[int(m.Words[0])-from]
	var words [am.MaxWords]uint32
	for row := 0; row < len(col); row += doublesPerReply {
		n := pack(words[:], m.Words[0], row, col)
		if err := m.Reply(columnHandler, words[:n]...); err != nil {
			x.failed = err
			return
		}
	}
}

// pack puts a column number, a row and doubles from there on into words.
func pack(words []uint32, column uint32, row int, col []float64) int {
	words[0], words[1] = column, uint32(row)
	n := 2
	for _, d := range col[row:min(row+doublesPerReply, len(col))] {
		bits := math.Float64bits(d)
		words[n], words[n+1] = uint32(bits), uint32(bits>>32)
		n += 2
	}
	return n
}

// unpack puts the doubles of a message into col and returns how many, or -1 for a
// message that does not fit.
func unpack(words []uint32, col []float64) int {
	row, n := int(words[1]), (len(words)-2)/2
	if row+n > len(col) {
		return -1
	}
	for i := range n {
		col[row+i] = math.Float64frombits(uint64(words[2+2*i]) | uint64(words[3+2*i])<<32)
	}
	return n
}

// arrive takes a part of the column under way.
func (x *multiplier) arrive(m *am.Message) {
	n := -1
	if len(m.Words) >= 2 {
		n = unpack(m.Words, x.fetched)
	}
	if n < 0 || n > x.missing {
		x.failed = fmt.Errorf("%w: part of a column from node %d does not fit; give all nodes the same dimensions", ErrVerify, m.Source)
		return
	}
	x.missing -= n
}

// gather sends the node's columns of C to node 0.
func (x *multiplier) gather() error {
	from, _ := block(x.o.M, x.e.Node(), x.e.Nodes())
	var words [am.MaxWords]uint32
	for k, col := range x.c {
		for row := 0; row < len(col); row += doublesPerReply {
			n := pack(words[:], uint32(from+k), row, col)
			if err := x.e.Post(0, resultHandler, words[:n]...); err != nil {
				return err
			}
		}
	}
	for node, left := range x.toGather { // on node 0
		if left == 0 {
			continue
		}
		if err := x.e.WaitFor(node, func() bool { return x.toGather[node] == 0 || x.failed != nil }); err != nil {
			return err
		}
	}
	return nil
}

// collect takes a part of C on node 0.
func (x *multiplier) collect(m *am.Message) {
	n := -1
	if len(m.Words) >= 2 && int(m.Words[0]) < len(x.gathered) {
		n = unpack(m.Words, x.gathered[m.Words[0]])
	}
	if n < 0 || n > x.toGather[m.Source] {
		x.failed = fmt.Errorf("%w: part of the product from node %d does not fit", ErrVerify, m.Source)
		return
	}
	x.toGather[m.Source] -= n
}

// verify compares the gathered product with a local Dgemm of the same matrices.
func (x *multiplier) verify() float64 {
	o := &x.o
	general := func(rows, cols int, fill func(j int) []float64) blas64.General {
		g := blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: make([]float64, rows*cols)}
		for j := range cols {
			for i, v := range fill(j) {
				g.Data[i*cols+j] = v
			}
		}
		return g
	}
	a := general(o.N, o.R, func(j int) []float64 { return column(o.seedA(), j, o.N) })
	b := general(o.R, o.M, func(j int) []float64 { return column(o.seedB(), j, o.R) })
	c := general(o.N, o.M, func(int) []float64 { return nil })
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, a, b, 0, c)
	worst, largest := 0.0, 0.0
	for j, col := range x.gathered {
		for i, got := range col {
			want := c.Data[i*o.M+j]
			largest = max(largest, math.Abs(want))
			worst = max(worst, math.Abs(got-want))
			if math.IsNaN(got) {
				return math.Inf(1)
			}
		}
	}
	if largest == 0 {
		return worst
	}
	return worst / largest
}
