package daemon

// This file tests when the card's thread rests.

import (
	"fmt"
	"os"
	"testing"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/port"
)

// Rule: the thread harms nobody where one user has the card, unless processes have direct ports,
// whose work needs a processor and no card.
func TestWorkThatHarmsNobody(t *testing.T) {
	cfg := engine.Native()
	cfg.AnyGroup, cfg.Incarnation = true, 1
	cfg.Ports = []port.Port{wire.New(wire.Config{}).Plug([6]byte{2})}
	card, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := &loop{card: card}
	l.moderation.schedstat, l.moderation.until = -1, 1000
	for _, k := range []struct {
		now   int64
		ports int32
		want  bool
	}{{999, 0, false}, {1000, 1, false}, {999, 1, true}} { // which the card believes for a while
		l.ports.Store(k.ports)
		card.Step(k.now)
		if got := l.harms(k.now); got != k.want {
			t.Errorf("at %d with %d ports: %v", k.now, k.ports, got)
		}
	}
}

// Rule: others want the thread's processor if the thread was runnable and did not run for more than
// a sixteenth of the time between two looks. They count as wanting it for a tenth of a second after
// that. Where the kernel does not say how long the thread waited, they never do.
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
