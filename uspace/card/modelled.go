package card

// This file is a card of a modelled machine (Config.Profile). It runs the events of the model, each
// at its time by the clock of the host.
//
// The processor of the model has a time of its own, which a charge moves forward by exactly its
// cost. The program goes on when the host's clock has reached that time. Until then this goroutine
// is the card. It steps the engine at the times at which the model has something to do, one after
// the other, not when the goroutine comes round to it. So a burst of the card's that ends while the
// host sends a frame ends in time for the next. Only real frames leave and arrive in their own
// time.
//
// A host that is late, because a frame took it longer than the model, catches up: later charges
// spin less. When the host is late by more than mostLag it does not catch up. The model then stands
// still for that long (Lateness.Lost).

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/machine"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/uspace/port/paced"
	"github.com/funet/funet/uspace/timing"
	"github.com/funet/funet/uspace/wait"
)

const (
	// mostLag is the host's longest lag behind the model that it catches up: a few messages' worth.
	mostLag   = int64(20 * time.Microsecond)
	firstWire = time.Microsecond // the time of a frame on a wire that was not measured yet
	// vainDrives is the number of calls of Drive without passing time that show that a program
	// waits and charges nothing.
	vainDrives = 64
)

// modelled is the model in real time.
type modelled struct {
	wall    func() int64 // the host's clock
	step    func(now int64) int64
	arrived func() bool // a frame waits for a step
	vain    func()      // the program looks and finds nothing
	cpu     *timing.CPU
	ports   []*paced.Port
	page    *funi.Page

	heard   bool  // a frame has come: until then the program only waits for the others
	began   int64 // when the first came
	at      int64 // the processor's time
	stepped int64 // the engine's
	next    int64 // when the engine has something to do
	again   uint  // steps in a row that left work over
	told    [len(ofProgram)]uint32
	drives  int    // in a row during which no time passed
	polls   uint64 // calls of drive

	late Lateness
	hist *hdrhistogram.Histogram
}

// ofProgram holds the registers that the program writes and the card reads.
var ofProgram = [...]funi.Register{funi.RPSQHead, funi.RQSQHead, funi.RPRQTail, funi.RQRQTail, funi.Control}

// model makes the card's machine, before its ports and its engine.
func (k *Card) model(m *machine.Machine) {
	p := &modelled{wall: k.wall, arrived: k.receives, next: 0, hist: hdrhistogram.New(1, int64(time.Minute), 2)}
	p.cpu = timing.NewCPU(m.CPU(), m.Bus(), timing.Clock{Now: func() int64 { return p.at }, Until: p.until,
		Wait: p.idle})
	p.step = func(now int64) int64 { return k.engine.Step(now) }
	p.vain = func() {
		if k.asked.Load() {
			k.attend()
		}
		if pr := k.engine.Progress(); pr != k.progress || k.iface.Arrived(funi.Request)+
			k.iface.Arrived(funi.Reply) > 0 {
			k.progress = pr
			k.wait.Found()
			return
		}
		k.now, k.next = p.wall(), p.next
		k.waiting()
	}
	k.modelled, k.wait = p, wait.New(wait.Modelled)
}

// holdOff returns the time for which a rejected packet waits. The model's card would send it again
// at once (thesis 5.2.4), which costs both hosts a frame and most often brings the packet back. A
// full FIFO takes longer to empty than one transaction for each of its packets. So a packet that
// waits for that time still arrives as early as it can be used.
func holdOff(c *engine.Config, b *timing.Bus) time.Duration {
	return time.Duration(c.FIFO) * time.Duration(b.Transaction(1))
}

// port puts the model's link around a port.
func (p *modelled) port(inner port.Port, m *machine.Machine) port.Port {
	l := m.Link()
	w := paced.New(inner, paced.Config{Word: l.Word, Latency: l.Latency, Wire: firstWire, Back: m.Works()})
	p.ports = append(p.ports, w)
	return w
}

// until lets time pass until the processor's time has reached at.
func (p *modelled) until(at int64) {
	p.tell()
	p.drives = 0
	for {
		now := p.wall()
		p.run(min(now, at), now)
		if now >= at {
			p.passed(now, at)
			return
		}
	}
}

// idle lets time pass until the processor's time has reached at, or the host's time if that is
// later. A program that only waits need not make up for the time of its looks. A look that took
// long, because the host was elsewhere, counts as a late charge.
func (p *modelled) idle(at int64) {
	now := p.wall()
	if lag := now - at; p.heard && lag > int64(LateLimit) {
		p.late.note(p.hist, lag)
	}
	p.until(max(at, now))
}

// passed ends a charge that was to end at the time at.
func (p *modelled) passed(now, at int64) {
	lag := now - at
	if p.heard {
		p.late.note(p.hist, lag)
	}
	p.at = at
	if lag > mostLag {
		p.run(now, now) // what the card did in that time comes before what the program does next
		p.at = now
	}
}

// tell lets the card look at the program's stores, at the processor's time.
func (p *modelled) tell() {
	changed := false
	for i, r := range ofProgram {
		if v := p.page.Load(r); v != p.told[i] {
			p.told[i], changed = v, true
		}
	}
	if changed {
		p.next = min(p.next, p.at)
	}
}

// run steps the card at each time up to the limit when it has to do something. host is the host's.
func (p *modelled) run(limit, host int64) {
	if p.arrived() {
		if !p.heard {
			p.heard, p.began = true, host
		}
		for _, w := range p.ports {
			w.Pull(limit, host)
		}
	}
	for {
		next := p.next
		for _, w := range p.ports {
			next = min(next, w.Next())
		}
		if next = max(next, p.stepped); next > limit {
			break
		}
		p.stepAt(next, host)
	}
	// A host that is late sends what waits all at once, which takes it less.
	for _, w := range p.ports {
		w.Send()
	}
}

// stepAt steps the card. A step that left work over is followed by one a nanosecond later. When
// that does not help, because it waits for something outside the model, the next steps follow after
// longer and longer times.
func (p *modelled) stepAt(at, host int64) {
	for _, w := range p.ports {
		w.Advance(at, host)
	}
	p.stepped = at
	p.next = p.step(at)
	if p.next > at {
		p.again = 0
		return
	}
	p.next = at + 1<<min(p.again, 10)
	p.again++
}

// drive is a call of Drive. Time passes only if the program waits without charging anything.
func (p *modelled) drive() {
	if p.drives++; p.drives >= vainDrives {
		p.catchUp()
	}
	if p.polls++; p.polls%glance == 0 {
		p.vain()
	}
}

// catchUp lets time pass until the processor's time is the host's.
func (p *modelled) catchUp() { p.until(max(p.at, p.wall())) }

// leave sends the engine's last frames.
func (p *modelled) leave() {
	now := p.wall()
	p.stepAt(max(now, p.stepped), now)
	for _, w := range p.ports {
		w.Drain()
	}
}

// CPU returns the processor of the modelled machine, which the program's library charges
// (am.Endpoint.Pace). It returns nil if the card is not that of a modelled machine.
func (k *Card) CPU() *timing.CPU {
	if k.modelled == nil {
		return nil
	}
	return k.modelled.cpu
}

// Lateness says how well the host kept the times of a model since the first frame came.
type Lateness struct {
	Charges int64         // times that the processor's time passed, and the program went on
	Late    int64         // charges that ended more than LateLimit after their time
	P99     time.Duration // 99th percentile of the charges' lateness
	Largest time.Duration
	Lost    time.Duration // during which the model stood still, as the host was too late
	Time    time.Duration // in all, from the first frame on
	// Wire is the time of frames one way on the slowest wire, as measured. Excess is the part of it
	// that the model's own latency cannot hide.
	Wire, Excess time.Duration
}

// LateLimit is the lateness above which a charge counts as late. It is more than the time of
// sending a frame on a host that has nothing else to do; later charges make that up.
const LateLimit = 5 * time.Microsecond

// note counts a charge that ended late by lag.
func (l *Lateness) note(h *hdrhistogram.Histogram, lag int64) {
	l.Charges++
	if lag > int64(LateLimit) {
		l.Late++
	}
	if lag > mostLag {
		l.Lost += time.Duration(lag)
	}
	l.Largest = max(l.Largest, time.Duration(lag))
	_ = h.RecordValue(min(lag, int64(time.Minute))) // so none is out of range
}

// Lateness returns how well the host has kept the times of the model so far. It returns false if
// the card is not of a modelled machine.
func (k *Card) Lateness() (Lateness, bool) {
	p := k.modelled
	if p == nil {
		return Lateness{}, false
	}
	l := p.late
	if p.heard {
		l.Time = time.Duration(p.wall() - p.began)
	}
	if l.Charges > 0 {
		l.P99 = time.Duration(p.hist.ValueAtPercentile(99))
	}
	for _, w := range p.ports {
		if way, excess := w.Wire(); way > l.Wire {
			l.Wire, l.Excess = way, excess
		}
	}
	return l, true
}
