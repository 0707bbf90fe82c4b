package apps

// This file tests the inner loop of the matrix multiply.

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The loop adds each column times its factor to every row and to nothing else, whatever the
// numbers of rows and columns are and wherever the memory begins; so does the one for any
// processor.
func TestAddColumns(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rows := rapid.IntRange(1, 40).Draw(r, "rows")
		n := rapid.IntRange(1, 13).Draw(r, "columns")
		stride := rows + rapid.IntRange(0, 3).Draw(r, "gap")
		at := rapid.IntRange(0, 3).Draw(r, "at")
		double := rapid.Float64Range(-1, 1)
		columns := rapid.SliceOfN(double, at+(n-1)*stride+rows, -1).Draw(r, "doubles")[at:]
		factors := rapid.SliceOfN(double, n, n).Draw(r, "factors")
		before := rapid.SliceOfN(double, at+rows+8, at+rows+8).Draw(r, "y")
		for _, add := range []func(y, columns []float64, stride int, factors []float64){addColumns, addGeneral} {
			got := append([]float64(nil), before...)
			add(got[at:at+rows], columns, stride, factors)
			for i, v := range got {
				want := before[i]
				if i >= at && i < at+rows {
					for k, f := range factors {
						want += f * columns[k*stride+i-at]
					}
				}
				if math.Abs(v-want) > 1e-12 || v != want && (i < at || i >= at+rows) {
					r.Fatalf("element %d of %d from %d is %v, want %v", i, rows, at, v, want)
				}
			}
		}
	})
}

// A loop of its own takes all rows and columns but the last few, or none.
func TestAddWide(t *testing.T) {
	for _, c := range []struct{ rows, columns, wantRows, want int }{{7, 4, 0, 0}, {8, 3, 0, 0}, {8, 4, 8, 4},
		{23, 11, 16, 8}, {0, 0, 0, 0}} {
		rows, n := addWide(make([]float64, c.rows), make([]float64, c.rows*c.columns), c.rows,
			make([]float64, c.columns))
		if !wide {
			c.wantRows, c.want = 0, 0
		}
		if rows != c.wantRows || n != c.want {
			t.Errorf("%+v: %d rows of %d columns", c, rows, n)
		}
	}
}
