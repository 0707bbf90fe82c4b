package am

// This file implements reductions, along the tree.

import (
	"errors"
	"fmt"
	"math"
)

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

// ReduceInt64 combines the values of all nodes and returns the result to all of them. It is a
// barrier with a result: hops, messages, priority, contexts and errors are the same, and
// ErrOperation is added. Called again after an error, with the same value, it continues where it
// stopped.
func (e *Endpoint) ReduceInt64(op Operation, value int64) (int64, error) {
	if op > Max {
		return 0, fmt.Errorf("reducing by operation %d: %w", op, ErrOperation)
	}
	bits, err := e.reduce(int64Kind+kind(op), uint64(value), [...]func(a, b uint64) uint64{
		sumInt64, minInt64, maxInt64}[op])
	return int64(bits), err
}

// ReduceFloat64 is ReduceInt64 for doubles. The order of combination depends only on the number of
// nodes, so the sum is the same in every run.
func (e *Endpoint) ReduceFloat64(op Operation, value float64) (float64, error) {
	if op > Max {
		return 0, fmt.Errorf("reducing by operation %d: %w", op, ErrOperation)
	}
	bits, err := e.reduce(float64Kind+kind(op), math.Float64bits(value), [...]func(a, b uint64) uint64{
		sumFloat64, minFloat64, maxFloat64}[op])
	return math.Float64frombits(bits), err
}

// reduce carries out a reduction of 64 bits at root 0.
func (e *Endpoint) reduce(k kind, value uint64, combine func(a, b uint64) uint64) (uint64, error) {
	pair := &e.collective.pair
	if err := e.collect(0, k, value, combine, pair[:]); err != nil {
		return 0, err
	}
	return uint64(pair[0]) | uint64(pair[1])<<32, nil
}

func sumInt64(a, b uint64) uint64 { return a + b }
func minInt64(a, b uint64) uint64 { return uint64(min(int64(a), int64(b))) }
func maxInt64(a, b uint64) uint64 { return uint64(max(int64(a), int64(b))) }

func sumFloat64(a, b uint64) uint64 {
	return math.Float64bits(math.Float64frombits(a) + math.Float64frombits(b))
}

func minFloat64(a, b uint64) uint64 {
	return math.Float64bits(min(math.Float64frombits(a), math.Float64frombits(b)))
}

func maxFloat64(a, b uint64) uint64 {
	return math.Float64bits(max(math.Float64frombits(a), math.Float64frombits(b)))
}
