package hwprofiles

// This file tests the arithmetic of time.

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Duration is the nearest nanosecond, upwards from a half, and Exact says when it is the
// quotient itself: cycles / kHz in rational numbers decides.
func TestDurationIsTheNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Clock(rapid.Int64Range(1, maxClock).Draw(t, "kHz"))
		n := Cycles(rapid.Int64Range(0, int64(maxCycles)*1000).Draw(t, "tenths"))
		exact := big.NewRat(int64(n)*tenth, int64(c))
		got := new(big.Rat).SetInt64(int64(c.Duration(n)))
		off := got.Sub(got, exact)
		half := big.NewRat(1, 2)
		if off.Cmp(half) > 0 || off.Cmp(new(big.Rat).Neg(half)) <= 0 {
			t.Fatalf("%d tenths at %d kHz: %v, which is off by %v", n, c, c.Duration(n), off)
		}
		if (off.Sign() == 0) != c.Exact(n) {
			t.Fatalf("%d tenths at %d kHz: Exact says %t", n, c, c.Exact(n))
		}
	})
	for _, x := range []struct {
		c    Clock
		n    Cycles
		want time.Duration
	}{{0, 1e9, 0}, {40_000, 272, 680}, {25_000, 170, 680}, {33_000, 10, 30}, {33_000, 330, 1000}, {1, 1, 100_000},
		{200_000_000, 10, 0}, {2_000_000, 10, 1}} {
		if got := x.c.Duration(x.n); got != x.want {
			t.Errorf("%v cycles at %v MHz take %d ns, want %d", x.n, x.c, got, x.want)
		}
	}
}

// Decimals are read as they are written, and nothing else is.
func TestDecimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places := rapid.IntRange(0, 3).Draw(t, "places")
		v := rapid.Int64Range(0, 1e12-1).Draw(t, "v")
		got, ok := parseDecimal(decimal(v, places), places)
		if !ok || got != v {
			t.Fatalf("%d with %d places is written %s and read %d, %t", v, places, decimal(v, places), got, ok)
		}
	})
	for _, s := range []string{"", ".", "1.", ".5", "-1", "+1", "1.25", "1e3", "1_0", " 1", "1 ", "0x1", "1.2.3", "١",
		"9999999999999"} {
		if v, ok := parseDecimal(s, 1); ok {
			t.Errorf("%q is read as %d", s, v)
		}
	}
	for s, n := range map[string]Cycles{"27.2": 272, "0.1": 1, "0": 0, "15": 150, "-1.5": -15,
		"-922337203685477580.8": -1 << 63} {
		if n.String() != s {
			t.Errorf("%d tenths are written %s, want %s", int64(n), n, s)
		}
	}
}
