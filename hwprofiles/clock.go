package hwprofiles

// This file is the arithmetic of time: frequencies, cycles, and nanoseconds, in whole numbers.

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Clock is a frequency in kilohertz; 0 is a clock whose cycles take no time.
type Clock int64

// Cycles is a number of cycles in tenths of one.
type Cycles int64

// Cycle is one cycle.
const Cycle Cycles = 10

// tenth is the nanoseconds of a tenth of a cycle at 1 kHz.
const tenth = 100_000

// Duration returns how long n cycles take, n not negative, to the nearest nanosecond and
// from half of one upwards. Cycles that follow one another are added before they are
// converted, so that an error stays below one nanosecond.
func (c Clock) Duration(n Cycles) time.Duration {
	if c == 0 {
		return 0
	}
	whole, rest := int64(n)/int64(c), int64(n)%int64(c)
	return time.Duration(whole*tenth + (rest*tenth+int64(c)/2)/int64(c))
}

// Exact reports whether Duration has nothing to round for n cycles.
func (c Clock) Exact(n Cycles) bool { return c == 0 || int64(n)%int64(c)*tenth%int64(c) == 0 }

// String returns megahertz, as the file has them.
func (c Clock) String() string { return decimal(int64(c), 3) }

// String returns cycles, as the file has them.
func (n Cycles) String() string { return decimal(int64(n), 1) }

// decimal writes v, in units of the last of the given number of decimals, without zeros at the end.
func decimal(v int64, places int) string {
	sign, size := "", uint64(v)
	if v < 0 {
		sign, size = "-", -size // which also the lowest number has
	}
	s := fmt.Sprintf("%0*d", places+1, size)
	whole, part := s[:len(s)-places], strings.TrimRight(s[len(s)-places:], "0")
	if part != "" {
		part = "." + part
	}
	return sign + whole + part
}

// parseDecimal reads a number with at most the given number of decimals, and returns it in units of
// the last of them.
func parseDecimal(s string, places int) (int64, bool) {
	whole, part, dot := strings.Cut(s, ".")
	if whole == "" || dot && part == "" || len(part) > places || len(whole) > 12 {
		return 0, false
	}
	digits := whole + part + strings.Repeat("0", places-len(part))
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	v, err := strconv.ParseInt(digits, 10, 64)
	return v, err == nil
}
