package sim

// This file holds the faults of an Ethernet: faults by chance, and cuts that heal.

import (
	"math"
	"slices"
	"time"
)

// Faults are the probabilities of faults that happen by chance, from 0 to 1 per frame.
type Faults struct {
	Loss      float64
	Duplicate float64 // every 16th copy arrives up to HoldBack late
	Reorder   float64 // delayed by up to ten times Delay
	Corrupt   float64 // one to three bits flipped behind the Ethernet header, or cut short
	// HoldBack is how long a network may hold back a copy of a frame: long enough to
	// outlive the card that sent it.
	HoldBack time.Duration
}

// thresholds has the Faults as numbers: a fault happens if a random number is below its threshold.
type thresholds struct {
	loss, duplicate, reorder, corrupt uint32
	holdBack                          int64
	any                               bool
}

// SetFaults changes the faults for frames that reach the switch from now on.
func (e *Ethernet) SetFaults(f Faults) {
	t := func(p float64) uint32 { return uint32(min(max(p, 0), 1) * math.MaxUint32) }
	e.faults = thresholds{loss: t(f.Loss), duplicate: t(f.Duplicate), reorder: t(f.Reorder), corrupt: t(f.Corrupt),
		holdBack: int64(f.HoldBack)}
	e.faults.any = e.faults.loss|e.faults.duplicate|e.faults.reorder|e.faults.corrupt != 0
}

// chance reports whether an event with the threshold happens.
func (e *Ethernet) chance(threshold uint32) bool {
	return threshold != 0 && uint32(e.random.Uint64()>>32) <= threshold
}

// below draws a number below n.
func (e *Ethernet) below(n int64) int64 {
	return int64(e.random.Uint64() % uint64(max(n, 1)))
}

// misfortune applies the faults of chance to frame i and sends its copies on. It reports whether
// the frame itself is still to be sent on, in time.
func (e *Ethernet) misfortune(to *EthernetPort, i uint32) bool {
	t := &e.faults
	if e.chance(t.loss) {
		e.lose(i, &e.Lost.Fault)
		return false
	}
	if e.chance(t.duplicate) {
		late := e.below(10 * int64(e.cfg.Delay))
		if t.holdBack > 0 && e.below(16) == 0 {
			late = e.below(t.holdBack)
		}
		e.toReceiver(to, e.pool.clone(i), late)
	}
	if e.chance(t.corrupt) {
		e.damage(&e.pool.frames[i])
	}
	if e.chance(t.reorder) {
		e.toReceiver(to, i, 1+e.below(10*int64(e.cfg.Delay)))
		return false
	}
	return true
}

// damage flips one to three different bits behind the Ethernet header, or cuts the frame short. The
// CRC-32C of a frame of any size certainly detects so few flipped bits.
func (e *Ethernet) damage(f *frame) {
	const header = 14
	if e.below(4) == 0 {
		f.n = header + int(e.below(int64(f.n-header)))
		return
	}
	bits := int64(f.n-header) * 8
	first := e.below(bits)
	step := 1 + e.below(bits/4)
	for k := range 1 + e.below(3) {
		b := (first + k*step) % bits
		f.data[header+b/8] ^= 1 << (b % 8)
	}
}

// Cut loses every frame from a port of From to a port of To. A partition is two cuts, one in each
// direction; a single cut is an asymmetric failure.
type Cut struct {
	From, To Set
	id       uint64
	longer   int // lose only frames of more bytes
	forGood  bool
}

// Set is a set of ports.
type Set []uint64

// SetOf makes a set.
func SetOf(ports ...int) Set {
	var s Set
	for _, p := range ports {
		for p/64 >= len(s) {
			s = append(s, 0)
		}
		s[p/64] |= 1 << (p % 64)
	}
	return s
}

// Has reports whether the port is in the set.
func (s Set) Has(port uint16) bool {
	return int(port/64) < len(s) && s[port/64]>>(port%64)&1 != 0
}

// Sever adds a cut, which heals at the given time. With Never it lasts until Heal.
func (e *Ethernet) Sever(c Cut, until int64) {
	e.cut++
	c.id, c.forGood = e.cut, until == Never
	e.cuts = append(e.cuts, c)
	if until == Never {
		return
	}
	e.world.At(until, func() {
		e.cuts = slices.DeleteFunc(e.cuts, func(o Cut) bool { return o.id == c.id })
	})
}

// Narrow silently loses those frames between the ports of the cut that are longer than bytes, until
// the given time. With Never it lasts for good, beyond Heal.
func (e *Ethernet) Narrow(c Cut, bytes int, until int64) {
	c.longer = bytes
	e.Sever(c, until)
}

// Heal ends all cuts, except those of Narrow until Never.
func (e *Ethernet) Heal() {
	e.cuts = slices.DeleteFunc(e.cuts, func(c Cut) bool { return c.longer == 0 || !c.forGood })
}

// isCut reports whether a frame of the given size in bytes is lost on the way.
func (e *Ethernet) isCut(from, to uint16, bytes int) bool {
	for i := range e.cuts {
		if c := &e.cuts[i]; bytes > c.longer && c.From.Has(from) && c.To.Has(to) {
			return true
		}
	}
	return false
}
