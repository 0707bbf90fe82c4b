package apps

// This file is the matrix multiply of thesis appendix C as it was measured for Figures 6.2 to 6.5.
// Each column of A is fetched split-phase into a segment while the node computes on the previous
// one. A node fetches its own columns by messages to itself. The program tells the endpoint the
// time of each computation, so that a modelled processor takes as long.

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/collective"

	"github.com/funet/funet/uspace/funi"
)

// Costs of the inner loops of appendix C: unoptimised C in which nothing is declared a register,
// with one cycle for an instruction and two for a load of a double (thesis 6.1.1).
const (
	// MultiplyAddCycles is one time round the loop over i: 57 instructions of GCC without
	// optimisation for SPARC version 7, and 6 more cycles for loads of doubles. It has three
	// multiplications of integers, for the indices, and that processor has no instruction for them.
	// The routine that is called instead belongs to a library of the system. The thesis's simulator
	// did not count that library's instructions: it augments the user's application (6.1.1). So the
	// calls, their empty slots and the moves of the results are in it, and the routine is not. From
	// 54 to 66 can be defended. With the routine's 20 cycles, three times, it is 123, and the
	// curves of Figure 6.2 pass 80 % at half the columns that the text names.
	MultiplyAddCycles = 63
	// updateCost is the rest of one time round the loop over k: the test of k and M/p, i = 0, k++
	// and the jump back. The poll charges itself.
	updateCost = 6 + 2 + 4
)

const (
	columnsFetch = 0 // request: place, column, address, bytes; answered into the segment

	columnsInto = 0x100000  // the two columns of A that are worked on and under way,
	columnsA    = 0x1000000 // and a node's own
)

// ErrShape reports matrices that the program does not multiply.
var ErrShape = errors.New("apps: columns are of 2 doubles to 16384, an even number, with at least one row of B and one column for each node")

// ColumnsOptions are the same on all nodes.
type ColumnsOptions struct {
	// N, R, M: A is N by R, B is R by M (thesis 6.2.2); N is even, R and M are at least the
	// number of nodes, and none is above MaxDimension (ErrShape).
	N, R, M int
	// Extensions lets the cards move columns (cmam_mfer_n, as many words a packet as the machine's
	// card moves at once), instead of messages of 16 bytes (cmam_xfer_4).
	Extensions bool
	// MultiplyAdd is the time of one multiplication and addition on a modelled processor, in
	// cycles; 0 stands for MultiplyAddCycles.
	MultiplyAdd int
	Seed        uint64
	Progress    Progress
}

// ColumnsResult is the result at every node.
type ColumnsResult struct {
	Nanoseconds int64   // from the barrier before to the one after, on this node
	Flops       float64 // 2NRM floating point operations
	// Cycles is how long the instructions of all inner loops take, without communication: on
	// one processor, the time of the algorithm at its peak (6.2.2).
	Cycles     int64
	WorstError float64 // of any node, relative to the node's largest element
	Verified   bool    // WorstError within Tolerance
}

// columns is a node's state.
type columns struct {
	e      *am.Endpoint
	o      ColumnsOptions
	a      []byte      // own columns as shared memory
	b, c   [][]float64 // own columns
	into   [2][]byte   // shared memory: the column worked on, and the one under way
	flag   int         // columns that have come
	cycles int64       // of the inner loops
	failed error       // of a handler
	first  int         // of the own columns of A,
	own    int         // and how many
}

// MatMulColumns multiplies two random matrices; each node compares its part with one that it
// computes by itself. Segment returns memory that the card of this process may use, as Segment of a
// card and of a daemon's client does; clock returns nanoseconds.
func MatMulColumns(e *am.Endpoint, segment func(uint32, int, funi.Rights) ([]byte, error), clock func() int64,
	o ColumnsOptions) (ColumnsResult, error) {
	if o.N < 2 || o.N%2 != 0 || min(o.R, o.M) < e.Nodes() || max(o.N, o.R, o.M) > MaxDimension {
		return ColumnsResult{}, fmt.Errorf("multiplying %d x %d by %d x %d on %d nodes: %w", o.N, o.R, o.R, o.M,
			e.Nodes(), ErrShape)
	}
	x := &columns{e: e, o: o}
	if err := x.prepare(segment); err != nil {
		return ColumnsResult{}, err
	}
	if err := e.Barrier(); err != nil {
		return ColumnsResult{}, err
	}
	begin := clock()
	if err := x.multiply(); err != nil {
		return ColumnsResult{}, err
	}
	if err := e.Barrier(); err != nil {
		return ColumnsResult{}, err
	}
	r := ColumnsResult{Nanoseconds: clock() - begin, Flops: 2 * float64(o.N) * float64(o.R) * float64(o.M)}
	all, cycles, worst := collective.New(e), []int64{x.cycles}, []float64{x.verify()}
	if err := collective.AllReduce(all, am.Sum, cycles); err != nil {
		return ColumnsResult{}, err
	}
	if err := collective.AllReduce(all, am.Max, worst); err != nil {
		return ColumnsResult{}, err
	}
	r.Cycles, r.WorstError = cycles[0], worst[0]
	r.Verified = r.WorstError <= Tolerance
	return r, nil
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

// prepare makes the node's own columns, and shares what is fetched from and into.
func (x *columns) prepare(segment func(uint32, int, funi.Rights) ([]byte, error)) (err error) {
	e, o := x.e, &x.o
	seeds := MatMulOptions{Seed: o.Seed}
	from, to := block(o.R, e.Node(), e.Nodes())
	x.first, x.own = from, to-from
	if x.a, err = e.ShareNew(segment, columnsA, 8*o.N*x.own, funi.Source); err != nil {
		return err
	}
	both, err := e.ShareNew(segment, columnsInto, 2*8*o.N, funi.Destination)
	if err != nil {
		return err
	}
	x.into = [2][]byte{both[:8*o.N], both[8*o.N:]}
	a := x.a
	for j := from; j < to; j++ {
		for _, v := range column(seeds.seedA(), j, o.N) {
			binary.LittleEndian.PutUint64(a, math.Float64bits(v))
			a = a[8:]
		}
	}
	from, to = block(o.M, e.Node(), e.Nodes())
	for j := from; j < to; j++ {
		x.b = append(x.b, column(seeds.seedB(), j, o.R))
		x.c = append(x.c, make([]float64, o.N))
	}
	return e.Handle(columnsFetch, x.answer)
}

// multiply is the loop of appendix C over all columns of A, own ones first.
func (x *columns) multiply() error {
	work := make([]float64, x.o.N)
	if err := x.request(0); err != nil {
		return err
	}
	for d := range x.o.R {
		x.o.Progress.tell(d, x.o.R)
		j := (x.first + d) % x.o.R
		if err := x.e.WaitFor(owner(j, x.o.R, x.e.Nodes()), func() bool {
			return x.flag > 0 || x.failed != nil
		}); err != nil {
			return err
		}
		if x.failed != nil {
			return x.failed
		}
		x.flag--
		for i := range work {
			work[i] = math.Float64frombits(binary.LittleEndian.Uint64(x.into[d%2][8*i:]))
		}
		if d+1 < x.o.R {
			if err := x.request(d + 1); err != nil {
				return err
			}
		}
		if err := x.update(j, work); err != nil {
			return err
		}
	}
	return x.failed
}

// request opens a segment for the column that is d after the first own one, and asks for
// it.
func (x *columns) request(d int) error {
	j, bytes := (x.first+d)%x.o.R, 8*x.o.N
	address := uint32(columnsInto + d%2*bytes)
	place, err := x.e.OpenSegment(address, bytes, func(*am.Message, any) { x.flag++ }, nil)
	if err != nil {
		return err
	}
	return x.e.Request4(owner(j, x.o.R, x.e.Nodes()), columnsFetch, uint32(place), uint32(j), address, uint32(bytes))
}

// answer is the request handler that sends a column of A (get_handler).
func (x *columns) answer(m *am.Message) {
	bytes := 8 * x.o.N
	if len(m.Words) != 4 || m.Words[3] != uint32(bytes) || uint64(m.Words[1])-uint64(x.first) >= uint64(x.own) {
		x.failed = fmt.Errorf("%w: node %d asked for a column with %x; give all nodes the same dimensions", ErrVerify,
			m.Source, m.Words)
		return
	}
	place, at := am.Place(m.Words[0]), (int(m.Words[1])-x.first)*bytes
	var err error
	if x.o.Extensions {
		err = m.ReplyMfer(place, uint32(columnsA+at), m.Words[2], bytes/4)
	} else {
		err = m.ReplyXfer(place, x.a[at:at+bytes])
	}
	if err != nil {
		x.failed = err
	}
}

// update adds the column's part to each own column of C. It polls after each, so that the next
// column arrives and other nodes are served meanwhile.
func (x *columns) update(j int, work []float64) error {
	v := blas64.Vector{N: x.o.N, Inc: 1, Data: work}
	for k, c := range x.c {
		blas64.Axpy(x.b[k][j], v, blas64.Vector{N: x.o.N, Inc: 1, Data: c})
		cycles := updateCost + x.o.N*cmp.Or(x.o.MultiplyAdd, MultiplyAddCycles)
		x.cycles += int64(cycles)
		x.e.Work(cycles)
		if _, err := x.e.Poll(); err != nil {
			return err
		}
	}
	return nil
}

// verify compares the node's columns of C with ones from columns of A that it makes
// itself.
func (x *columns) verify() float64 {
	seeds := MatMulOptions{Seed: x.o.Seed}
	want := make([][]float64, len(x.c))
	for k := range want {
		want[k] = make([]float64, x.o.N)
	}
	for j := range x.o.R {
		a := column(seeds.seedA(), j, x.o.N)
		for k := range want {
			for i := range a {
				want[k][i] += a[i] * x.b[k][j]
			}
		}
	}
	worst, largest := 0.0, 0.0
	for k, c := range x.c {
		for i, got := range c {
			if math.IsNaN(got) {
				return math.Inf(1)
			}
			worst = max(worst, math.Abs(got-want[k][i]))
			largest = max(largest, math.Abs(want[k][i]))
		}
	}
	if largest == 0 {
		return worst
	}
	return worst / largest
}
