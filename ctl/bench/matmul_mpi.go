// This file runs the matrix product over OpenMPI: a program of our own with FUNet's algorithm.

package bench

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
)

//go:embed mpi/matmul.c
var matmulSource []byte

// matmulTolerance is the largest error of the product, relative to the largest element of the
// product that rank 0 computes alone. FUNet's program has the same tolerance.
const matmulTolerance = 1e-9

// polls are the numbers of columns to try that the MPI program updates by a panel before it calls
// MPI. MPI moves data only in such calls. Over TCP each is a system call, so the best number
// depends on size and machine.
var polls = []int{1, 4, 16, 64, 256}

// fastestPoll compiles the program and finds the fastest of the polls on that number of hosts.
// These runs do not count.
func fastestPoll(ctx context.Context, c *comparison, s *session, hosts, size int) (best int, err error) {
	compile := func(ctx context.Context) error { return mpicc(ctx, s, "matmul", matmulSource) }
	if err := c.within(ctx, compile); err != nil {
		return 0, err
	}
	least := 0.0
	for _, poll := range polls {
		for range 2 {
			us, err := c.run(ctx, &contender{name: "openmpi", run: func(ctx context.Context) (float64, error) {
				return runMatmulMPI(ctx, s, hosts, size, poll)
			}})
			if err != nil {
				return 0, err
			}
			if best == 0 || us < least {
				best, least = poll, us
			}
		}
	}
	return best, nil
}

// runMatmulMPI multiplies on the lab's first hosts and returns the time in microseconds.
func runMatmulMPI(ctx context.Context, s *session, hosts, size, poll int) (float64, error) {
	text, err := mpirun(ctx, s, hosts, "matmul", strconv.Itoa(size), strconv.Itoa(poll))
	if err != nil {
		return 0, err
	}
	return parseMatmulMPI(text)
}

var matmulLine = regexp.MustCompile(`(?m)^seconds ([0-9.]+) worst relative error ([0-9.e+-]+|inf)$`)

// parseMatmulMPI reads the line of matmul.c: the microseconds of a correct product.
func parseMatmulMPI(text string) (float64, error) {
	m := matmulLine.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("the MPI program printed no result: %.80q", text)
	}
	seconds, err1 := strconv.ParseFloat(m[1], 64)
	worst, err2 := strconv.ParseFloat(m[2], 64)
	if err1 != nil || err2 != nil || !(seconds > 0) {
		return 0, fmt.Errorf("the MPI program printed %q, which is no result", m[0])
	}
	if !(worst <= matmulTolerance) {
		return 0, fmt.Errorf("the MPI program's product is wrong: off by %g relative to the largest element", worst)
	}
	return seconds * 1e6, nil
}
