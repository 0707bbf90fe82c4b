package chaos

// This file makes a scenario that fails smaller.

import "context"

// otherSeeds is how many other seeds are tried with fewer nodes or messages when the
// scenario's own does not fail with them: fewer nodes are placed otherwise, and most
// faults of a program show with many seeds.
const otherSeeds = 20

// Shrink looks for the smallest scenario that still fails, and returns it and its result. It tries
// fewer kinds of faults, fewer nodes and fewer messages, perhaps with another seed. It runs at most
// the given number of scenarios, and stops when the context ends, in the middle of a run. It
// returns a scenario that does not fail as it is.
func Shrink(ctx context.Context, s Scenario, tries int) (Scenario, Result) {
	s.Trace, s.Capture = nil, nil
	over, release := overWith(ctx)
	defer release()
	return shrink(ctx, s, tries, func(s Scenario) Result { return runOf(s, over).result })
}

func shrink(ctx context.Context, s Scenario, tries int, run func(Scenario) Result) (Scenario, Result) {
	best := run(s)
	if !best.Failed() {
		return s, best
	}
	// try runs the scenario with its own seed, then with the given number of others.
	try := func(smaller Scenario, others uint64) bool {
		if smaller == s || smaller.Check() != nil {
			return false
		}
		first := smaller.Seed
		for k := uint64(0); k <= others && tries > 0 && ctx.Err() == nil; k++ {
			tries--
			smaller.Seed = first + k
			if r := run(smaller); r.Failed() && ctx.Err() == nil {
				s, best = smaller, r
				return true
			}
		}
		return false
	}
	for again := true; again && tries > 0 && ctx.Err() == nil; {
		again = false
		for k := range faultNames {
			smaller := s
			smaller.Faults &^= 1 << k
			again = try(smaller, 0) || again
		}
		for _, nodes := range []int{2, 3, 4, s.Nodes / 2, s.Nodes - 1} { // the bold step first
			if nodes < s.Nodes {
				smaller := s
				smaller.Nodes = max(2, nodes)
				if try(smaller, otherSeeds) {
					again = true
					break
				}
			}
		}
		for _, share := range []int{16, 4, 2} {
			smaller := s
			smaller.Messages = s.Messages / share
			if try(smaller, otherSeeds) {
				again = true
				break
			}
		}
		smaller := s
		smaller.Messages -= max(1, s.Messages/8)
		again = try(smaller, 2) || again
	}
	return s, best
}
