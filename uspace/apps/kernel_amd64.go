package apps

// This file is the inner loop on x86-64 processors with AVX2 and FMA. gonum's Dgemv has the
// same loop with SSE2, half as wide; for such a processor a C compiler makes a loop
// as wide as this one.

import "golang.org/x/sys/cpu"

var wide = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// addWide is addColumns for the first rows and columns, and returns how many it did: a multiple of
// 8 rows and of 4 columns, or none of either.
func addWide(y, columns []float64, stride int, factors []float64) (rows, n int) {
	rows, n = len(y)&^7, len(factors)&^3
	if !wide || rows == 0 || n == 0 {
		return 0, 0
	}
	_ = columns[(n-1)*stride+rows-1] // what addFour reads is there
	for j := 0; j < n; j += 4 {
		addFour(&y[0], &columns[j*stride], stride, &factors[j], rows)
	}
	return rows, n
}

// addFour adds to rows doubles at y four columns, which begin a stride of doubles apart, each
// times its factor. Rows is a positive multiple of 8.
//
//go:noescape
func addFour(y, columns *float64, stride int, factors *float64, rows int)
