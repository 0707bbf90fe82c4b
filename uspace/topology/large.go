package topology

// This file has networks whose ways need more route bits than a packet has. They exist in
// simulations only: a packet carries its destination, and each router finds the port by itself.

import (
	"fmt"
	"math/bits"
)

// MostTerminals is how many cards the largest network has places for: their numbers have 16 bits.
const MostTerminals = 1 << 16

// largeEach is how many cards a router of a large hypercube or butterfly has.
const largeEach = 4

// LargeKinds returns the names of the networks that Large makes.
func LargeKinds() []string { return []string{"fat-tree", "hypercube", "butterfly"} }

// Large returns the smallest network of a kind with at least the given number of terminals, 2 to
// MostTerminals. A fat tree has routers of 8 ports. A hypercube has 4 cards at each router, whose
// ports are as many as its dimensions need. A butterfly has 4 cards at each router of the first
// column, and at least 2 columns.
func Large(kind string, terminals int) (*Network, error) {
	if terminals < 2 || terminals > MostTerminals {
		return nil, fmt.Errorf("%w: %d cards; use 2 to %d", Err, terminals, MostTerminals)
	}
	dimensions := bits.Len(uint((terminals - 1) / largeEach))
	switch kind {
	case "fat-tree":
		return largeFatTree((bits.Len(uint(terminals-1)) + 1) / 2), nil
	case "hypercube":
		return largeHypercube(dimensions), nil
	case "butterfly":
		return largeButterfly(max(dimensions, 2)), nil
	}
	return nil, fmt.Errorf("%w: no network is called %q; use fat-tree, hypercube or butterfly", Err, kind)
}

func largeFatTree(levels int) *Network {
	const k, digit = 4, 2 // bits of a digit
	t := fatTree(2*k, levels)
	t.next = func(router, to int) int {
		level, w := router/t.rows, router%t.rows
		down := to >> (digit * level)
		if w>>(digit*level) != down>>digit {
			return k + down&(k-1) // as the way of a fat tree goes up
		}
		return down & (k - 1)
	}
	return t
}

func largeHypercube(dimensions int) *Network {
	t := hypercube(dimensions+largeEach, dimensions, largeEach)
	t.next = func(router, to int) int {
		if diff := uint(router ^ to/largeEach); diff != 0 {
			return bits.TrailingZeros(diff)
		}
		return dimensions + to%largeEach
	}
	return t
}

func largeButterfly(dimensions int) *Network {
	t := butterfly(dimensions, largeEach)
	t.next = func(router, to int) int {
		column, w := router/t.rows, router%t.rows
		if column == 0 && w == to/largeEach {
			return butterflyTerminal + to%largeEach
		}
		return to / largeEach >> column & 1
	}
	return t
}
