package usage

// This file has flags whose values are numbers of bytes.

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Bytes is the value of a flag that takes a number of bytes with or without a unit, such as 4096 or
// 256MiB, as configuration files do.
type Bytes struct{ To *int }

// errBytes replaces the text of the library's error.
var errBytes = errors.New("use bytes, such as 4096 or 256MiB")

// Set reads the text of the flag.
func (b Bytes) Set(text string) error {
	digits, shift := text, 0
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if d, ok := strings.CutSuffix(text, unit); ok {
			digits, shift = strings.TrimSpace(d), 10*(i+1)
		}
	}
	v, err := strconv.Atoi(digits)
	if err != nil || v < 0 || v > math.MaxInt>>shift {
		return errBytes
	}
	*b.To = v << shift
	return nil
}

// String returns the number of bytes.
func (b Bytes) String() string {
	if b.To == nil {
		return "0"
	}
	return strconv.Itoa(*b.To)
}

// Type returns the kind of value, for help.
func (Bytes) Type() string { return "bytes" }
