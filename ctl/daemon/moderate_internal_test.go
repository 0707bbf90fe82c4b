package daemon

// This file tests when the card's thread rests.

import (
	"fmt"
	"os"
	"testing"
)

// Rule: the thread counts as one whose processor others want if it was runnable and did not run for
// more than a sixteenth of the time between two looks, and for a tenth of a second after that; and
// never where the kernel does not say.
func TestWhenOthersWantTheProcessor(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/schedstat")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := &moderation{schedstat: int(f.Fd())}
	look := func(now, waited int64) bool {
		t.Helper()
		if err := f.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(fmt.Appendf(nil, "%d %d 17\n", now, waited), 0); err != nil {
			t.Fatal(err)
		}
		return m.crowded(now)
	}
	now := int64(1e9)
	for _, k := range []struct {
		later, waits int64
		want         bool
	}{
		{0, 5e6, false}, // before the first look
		{sampled, sampled / crowdedPart, false},
		{sampled, sampled/crowdedPart + 1, true},
		{sampled / 2, 0, true}, // no look yet
		{crowdedFor - sampled, 0, true},
		{sampled / 2, 0, false},
		{10 * sampled, sampled, true},
	} {
		now += k.later
		m.buffer = [64]byte{}
		waited := m.waited + k.waits
		if got := look(now, waited); got != k.want {
			t.Errorf("at %d, having waited %d more: %v, want %v", now, k.waits, got, k.want)
		}
	}
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if m.crowded(now + 2*crowdedFor) {
		t.Error("an empty file says that others want the processor")
	}
	if (&moderation{schedstat: -1}).crowded(now) {
		t.Error("no file says that others want the processor")
	}
}
