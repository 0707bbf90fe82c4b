package apps

// This file is the inner loop of the matrix multiply.

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// addColumns adds one column for each factor to y, multiplied by that factor. The columns begin a
// stride apart and are as long as y. It takes four columns at a time, so that y is loaded and
// stored once for four.
func addColumns(y, columns []float64, stride int, factors []float64) {
	rows, n := addWide(y, columns, stride, factors)
	if rows > 0 && rows < len(y) {
		addGeneral(y[rows:], columns[rows:], stride, factors[:n])
	}
	if n < len(factors) {
		addGeneral(y, columns[n*stride:], stride, factors[n:])
	}
}

// addGeneral is addColumns for any processor. A matrix of blas64 consists of rows, which are the
// columns here, so it adds the product with the transpose.
func addGeneral(y, columns []float64, stride int, factors []float64) {
	blas64.Gemv(blas.Trans, 1,
		blas64.General{Rows: len(factors), Cols: len(y), Stride: stride, Data: columns},
		blas64.Vector{N: len(factors), Inc: 1, Data: factors}, 1,
		blas64.Vector{N: len(y), Inc: 1, Data: y})
}

// MatMulKernel names the inner loop that MatMul uses on this processor.
func MatMulKernel() string {
	if wide {
		return "assembly with AVX2 and FMA"
	}
	return "gonum's Dgemv"
}
