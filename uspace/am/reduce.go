package am

// This file names the operations of reductions (package collective).

import "errors"

// Operation says how a reduction combines two values.
type Operation uint8

// The operations. Sums of int64 wrap around. Min and Max of float64 are as Go's min and max: NaN if
// any value is NaN, and -0 is less than 0.
const (
	Sum Operation = iota
	Min
	Max
)

// ErrOperation reports an operation other than Sum, Min and Max.
var ErrOperation = errors.New("am: a reduction is Sum, Min or Max")
