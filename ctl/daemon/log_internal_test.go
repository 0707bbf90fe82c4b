package daemon

// This file tests the bound of the lines that users have written.

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Rule: whatever users do, in any time there are at most userLines lines about them and one more
// each userLineEvery, and each that is left out is counted once (lineLimit).
func TestUserLinesAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := lineLimit{lines: userLines, every: userLineEvery}
		begin := time.Unix(1e9, 0)
		now := begin
		written, left, tries := 0, 0, rapid.IntRange(1, 1000).Draw(t, "tries")
		for range tries {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*userLineEvery)).Draw(t, "gap")))
			if ok, before := u.may(now); ok {
				written++
				left += before
			}
		}
		if most := userLines + int(now.Sub(begin)/userLineEvery); written > most || written+left+u.left != tries ||
			written < min(tries, userLines) {
			t.Fatalf("%d lines of %d in %v, %d were left out", written, tries, now.Sub(begin), left+u.left)
		}
	})
}
