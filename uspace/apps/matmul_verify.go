package apps

// This file verifies a matrix multiply: node 0 fetches the product and compares it.

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// gather returns the whole product on node 0, its columns a stride apart, and nothing on the
// others. All have multiplied before.
func (x *multiplier) gather() ([]float64, error) {
	var product []float64
	if x.e.Node() == 0 {
		product = make([]float64, x.o.M*x.stride)
		copy(product, x.c) // the first columns are its own
		f := x.fetch(addressC, x.o.M)
		if err := f.ask(); err != nil {
			return nil, err
		}
		for at := len(x.c); at < len(product); { // in order
			_, columns, err := f.take()
			if err != nil {
				return nil, err
			}
			at += copy(product[at:], columns)
		}
	}
	return product, x.e.Barrier() // the others serve node 0 meanwhile
}

// verify compares the product with a local Dgemm of the same matrices, and returns how far
// it is off relative to the largest element.
func (x *multiplier) verify(product []float64) float64 {
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
	for j := range o.M {
		for i, got := range product[j*x.stride:][:o.N] {
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
