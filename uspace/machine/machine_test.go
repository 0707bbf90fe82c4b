package machine

// This file tests what profiles mean against thesis chapters 5 and 6.

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/timing"
)

// load returns an embedded profile.
func load(t *testing.T, name string) *hwprofiles.Profile {
	t.Helper()
	p, err := hwprofiles.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Rule: a card of the thesis's machine has its limits (5.2.4, 5.5), its bus (6.1.5), and
// dispatches a rejected packet again at once (5.2.4).
func TestTune(t *testing.T) {
	m, err := New(load(t, "sbus-arctic"))
	if err != nil {
		t.Fatal(err)
	}
	c := engine.Native()
	m.Tune(&c)
	if c.Lines != 8 || c.ReplyLines != 2 || c.FIFO != 10 || c.Train != 1 || c.AckEvery != 1 || c.Blocks ||
		c.Sets != 32 || c.MaxHold != 40 {
		t.Errorf("the card has %+v", c)
	}
	if c.Timing.Bus != m.Bus() || !slices.Equal(c.Timing.Bursts, []int{1, 4, 8}) || m.Bus().Transaction(4) != 920 {
		t.Errorf("its timing is %+v", c.Timing)
	}
}

// Rule: an instruction takes 25 ns, a buffered store two cycles (6.1.1), and a load over
// the bus no longer than its transaction.
func TestCPU(t *testing.T) {
	m, err := New(load(t, "sbus-arctic"))
	if err != nil {
		t.Fatal(err)
	}
	want := timing.CPUConfig{Cycle: 25, Store: 50,
		Library: timing.Library{LoopCycles: 3, BlockCycles: 9, CounterCycles: 4, SegmentCycles: 112, TransferWords: 20}}
	if got := m.CPU(); got != want {
		t.Errorf("the processor is %+v, want %+v", got, want)
	}
}

// Rule: the hypotheses about the thesis's simulator are options of a profile, and nothing of the
// text's.
func TestOptions(t *testing.T) {
	for name, on := range map[string]bool{"sbus-arctic": false, "sbus-arctic-paper": false, "sbus-arctic-1994": true} {
		m, err := New(load(t, name))
		if err != nil {
			t.Fatal(err)
		}
		var c engine.Config
		m.Tune(&c)
		if c.Timing.QueueBurst != 4 || c.TransferWords != 20 {
			t.Errorf("%s: words of slots go in bursts of %d, XFER packets carry %d", name, c.Timing.QueueBurst,
				c.TransferWords)
		}
		if m.CPU().Library.LookMisses != on || c.Timing.HeadUnwritten != on || (c.Timing.GroupWords == 4) != on {
			t.Errorf("%s: its options are %+v and %+v", name, m.CPU().Library, c.Timing)
		}
	}
}

// Rule: a link carries two halfwords each 40 ns, and a head passes two routers in five
// cycles each and three wires in one each (6.1.4).
func TestLink(t *testing.T) {
	m, err := New(load(t, "sbus-arctic"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := m.Link(), (Link{Word: 40, Latency: 520 * time.Nanosecond}); got != want {
		t.Errorf("the links are %+v, want %+v", got, want)
	}
}

// Rule: a profile that costs nothing leaves the engine as it is; one with only whole
// calls were measured, or which lacks a part, is refused.
func TestModelled(t *testing.T) {
	native := load(t, "native")
	c, want := engine.Native(), engine.Native()
	Limit(&c, native)
	if c.Lines != want.Lines || c.Train != want.Train || !c.Blocks || c.Timing != nil {
		t.Errorf("native makes %+v of %+v", c, want)
	}
	noBus := *load(t, "sbus-arctic")
	noBus.Bus.Clock = 0
	slowLink := *load(t, "tokyo") // and another part's step
	slowLink.Steps = append(slices.Clone(slowLink.Steps),
		hwprofiles.Step{Name: "x", Of: "card", Side: "sender", Path: "on", Unit: "ns"})
	for _, x := range []struct {
		p    *hwprofiles.Profile
		ok   bool
		want error
	}{{native, false, nil}, {load(t, "sbus-arctic"), true, nil}, {load(t, "sbus-arctic-paper"), true, nil},
		{load(t, "cm5"), false, ErrParts}, {load(t, "tokyo"), true, nil}, {&slowLink, false, ErrParts},
		{&noBus, false, ErrParts}, {load(t, "virt-ni"), false, ErrParts}, {load(t, "ultra"), false, ErrParts},
		{&hwprofiles.Profile{Name: "io", IO: hwprofiles.IO{Access: 1}}, false, ErrParts}} {
		ok, err := Modelled(x.p)
		if ok != x.ok || !errors.Is(err, x.want) {
			t.Errorf("%s is modelled: %v, %v", x.p.Name, ok, err)
		}
		if _, err := New(x.p); (err == nil) != x.ok || err != nil && !errors.Is(err, ErrParts) {
			t.Errorf("making %s: %v", x.p.Name, err)
		}
	}
}

// Rule (Tokyo, sections 4.2, 4.3): a link is 50 ns and 6 cycles of 53.125 MHz long. In the text's
// profile its decoder adds another 6 cycles. A byte takes one such cycle in the sending card. A DMA
// access takes 700 ns and 40 ns for each further word, and so does the fetch of an entry that the
// card does not hold (3.3). The machine has no prices for messages of words.
func TestTokyo(t *testing.T) {
	for name, latency := range map[string]time.Duration{"tokyo": 163, "tokyo-text": 276} {
		m, err := New(load(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := m.Link(), (Link{Latency: latency}); got != want {
			t.Errorf("%s: the links are %+v, want %+v", name, got, want)
		}
		c := engine.Native()
		m.Tune(&c)
		n := c.Timing
		if n.Card.DMA.Send.Duration(32, 0) != 602 || n.Card.DMA.Send.Duration(0, 0) != 0 || n.Card.Arrives(64, 0) != 0 {
			t.Errorf("%s: its card is %+v", name, n.Card)
		}
		if m.Bus().Transaction(1) != 700 || m.Bus().Transaction(8) != 980 || n.WindowEntries == 0 ||
			n.EntryWords != 1 || c.RemotePage != 4096 {
			t.Errorf("%s: its bus takes %d and %d ns; timing %+v", name, m.Bus().Transaction(1),
				m.Bus().Transaction(8), n)
		}
		if cpu := timing.NewCPU(m.CPU(), m.Bus(), timing.Clock{}); cpu.PricesMessages() || cpu.PricesRats() {
			t.Errorf("%s has prices for messages", name)
		}
	}
}

// Rule (Froening's thesis, 4.4.3): a packet takes the two bursts, 13 and 21 cycles, and the path.
// At 100 MHz the cycles are 340 ns, and at 500 MHz 68 ns. A machine without ULTRA has no times.
func TestUltra(t *testing.T) {
	for name, want := range map[string][2]time.Duration{"ultra": {340, 1198}, "ultra-asic": {68, 926},
		"ultra-htx": {340, 750}} {
		u, err := Ultra(load(t, name))
		if err != nil || u.Requester+u.Completer != want[0] || u.Total() != want[1] {
			t.Errorf("%s: %+v, %v; want units of %v and a total of %v", name, u, err, want[0], want[1])
		}
	}
	bus := *load(t, "sbus-arctic")
	bus.Ultra = load(t, "ultra").Ultra
	// 15 cycles of the bus, and 2 for each of 16 words (thesis 6.1.5)
	want := timing.Ultra{Inject: 47 * 40, Requester: 130, Path: 127, Completer: 210, Store: 47 * 40}
	if u, err := Ultra(&bus); err != nil || u != want || bus.Check() != nil {
		t.Errorf("over SBus: %+v, %v, %v; want %+v", u, err, bus.Check(), want)
	}
	for _, name := range []string{"virt-ni", "native", "sbus-arctic"} {
		if u, err := Ultra(load(t, name)); !errors.Is(err, ErrUltra) || u != (timing.Ultra{}) {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
	}
}
