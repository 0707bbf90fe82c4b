package bench

// This file is `funet bench contexts`: what quiet contexts cost a card. Two cards have as many busy
// ports; one of them has tens of thousands of quiet ones, too. They are measured in turn, step by
// step, and what arrives at the ports is verified, at the end at every one of them.

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/pin"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// contextsBench measures the steps of a card with many contexts.
type contextsBench struct {
	*flags
	contexts, active, steps int
	daemon                  bool
}

func contextsCommand() *cobra.Command {
	f := new(flags)
	b := &contextsBench{flags: f}
	c := &cobra.Command{Use: "contexts", Short: "what thousands of quiet contexts cost a card",
		Long: `Measure the steps of a card with many contexts, few of them active, beside those of a card with
the active ones alone. In each step one active port issues a message to itself. At the end every
port does, and what arrives is verified. Also measured: the memory of a quiet context, and how long
it takes to attach and to end all.

With --daemon a process attaches the contexts to the daemon of a lab, 1,024 behind each connection.
Every one issues --rounds messages to the next one by triggers, and what arrives is verified.`,
		Example: "  funet bench contexts\n  funet bench contexts --contexts 65536 --active 64 --json\n" +
			"  funet bench contexts --daemon --contexts 4096 --json"}
	f.number(c, &f.rounds, "rounds", limits{1, 1000, 5}, "interleaved rounds")
	f.number(c, &b.contexts, "contexts", limits{1, funi.MaxContexts, funi.MaxContexts}, "contexts of the card")
	f.number(c, &b.active, "active", limits{1, funi.MaxContexts, 64}, "those of them that are active")
	f.number(c, &b.steps, "steps", limits{100, 10_000_000, 100_000}, "steps of a run")
	c.Flags().BoolVar(&f.JSON, "json", false, "print one JSON document")
	c.Flags().BoolVar(&b.daemon, "daemon", false, "attach them to a daemon: 4096, unless --contexts says how many")
	return f.alone(c, func(ctx context.Context) (output.Report, error) {
		if !b.daemon {
			return b.measure(ctx)
		}
		if !c.Flags().Changed("contexts") {
			b.contexts = 4 * attach.MaxRow
		}
		return b.throughDaemon(ctx)
	})
}

// crowd is a card, and its active ports.
type crowd struct {
	*virtualPorts
	active []*virtualPort
}

// newCrowd makes a card with n ports of which some are active. Evenly spaced ones would compete for
// a few places of the processor's caches.
func newCrowd(ctx context.Context, n, active int) (*crowd, error) {
	v, err := newVirtualPorts(ctx, n)
	if err != nil {
		return nil, err
	}
	return &crowd{virtualPorts: v, active: v.scattered[:active]}, nil
}

// run measures steps, in each of which the next active port has issued a message.
func (c *crowd) run(ctx context.Context, steps int) (m issuing, err error) {
	ns := make([]int64, steps)
	for i := range ns {
		if i%ctrlCEvery == 0 && ctx.Err() != nil {
			return m, ctx.Err()
		}
		p := c.active[i%len(c.active)]
		if err := p.take(); err != nil {
			return m, err
		}
		if _, s, ok := p.process.TriggerAnswer(); !ok || s != funi.TriggerDone {
			return m, fmt.Errorf("port %d: its last trigger was answered: %v; %v", p.node, ok, s)
		}
		if !p.compose() {
			return m, fmt.Errorf("port %d: its queue is full, although all was issued", p.node)
		}
		p.process.Trigger(funi.TriggerIssue, 1)
		c.now += int64(time.Microsecond)
		start := time.Now()
		c.card.Step(c.now)
		ns[i] = int64(time.Since(start))
	}
	m.p50, m.p99 = quantiles(ns)
	return m, c.settle()
}

// settle verifies that all that the active ports have issued has arrived.
func (c *crowd) settle() error {
	for range 64 {
		c.step()
	}
	for _, p := range c.active {
		if err := p.take(); err != nil {
			return err
		}
		if p.received != p.sent {
			return fmt.Errorf("port %d has issued %d messages and received %d", p.node, p.sent, p.received)
		}
	}
	return nil
}

// everyPort has every port issue a message, and verifies what arrives.
func (c *crowd) everyPort(ctx context.Context) error {
	for i := range c.all {
		if i%ctrlCEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		p := &c.all[i]
		if err := p.take(); err != nil {
			return err
		}
		p.compose()
		p.process.Trigger(funi.TriggerIssue, 1)
		for n := 0; p.received != p.sent; n++ {
			if n == 1000 {
				return fmt.Errorf("port %d: its message has not arrived after %d steps", i, n)
			}
			c.step()
			if err := p.take(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *contextsBench) measure(ctx context.Context) (output.Report, error) {
	r, err := b.play(ctx)
	if err != nil {
		return nil, fmt.Errorf("measuring %d contexts: %w", b.contexts, err)
	}
	return r, nil
}

// play measures the two cards in turn, and then ends the larger one.
func (b *contextsBench) play(ctx context.Context) (output.Report, error) {
	if b.active > b.contexts {
		return nil, fmt.Errorf("--active %d: use at most --contexts", b.active)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = pin.Thread(0) // where this is not allowed, the kernel places it
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	alone, err := newCrowd(ctx, b.active, b.active)
	if err != nil {
		return nil, err
	}
	before, start := heap(), time.Now()
	many, err := newCrowd(ctx, b.contexts, b.active)
	if err != nil {
		return nil, err
	}
	attach := time.Since(start)
	bytes := float64(heap()-before) / float64(b.contexts)
	quiet := many.marks()
	told := output.Begin("measure steps", int64(2*b.rounds))
	defer told.End()
	var ratios, p50s, alones, p99s []float64
	for round := range b.rounds {
		var found [2]issuing
		for i := range 2 {
			which := (i + round) % 2
			if found[which], err = []*crowd{alone, many}[which].run(ctx, b.steps); err != nil {
				return nil, err
			}
			told.Add(1)
		}
		alones, p50s, p99s = append(alones, found[0].p50), append(p50s, found[1].p50), append(p99s, found[1].p99)
		ratios = append(ratios, found[1].p50/found[0].p50)
	}
	touched := many.changed(quiet)
	if err := many.everyPort(ctx); err != nil {
		return nil, err
	}
	start = time.Now()
	if err := many.end(); err != nil {
		return nil, err
	}
	ended := time.Since(start)
	r := report{figures: []figure{{"rounds", b.rounds}, {"contexts", b.contexts}, {"active", b.active},
		{"steps", b.steps}, {"step_p50_ns", *median(p50s)}, {"step_p99_ns", *median(p99s)},
		{"step_alone_p50_ns", *median(alones)}, {"step_ratio_by_round", *median(ratios)},
		{"bytes_per_quiet_context", bytes}, {"attach_s", attach.Seconds()}, {"end_s", ended.Seconds()},
		{"quiet_contexts_touched", touched}, {"ports_verified", b.contexts}}}
	r.print("A step with a trigger and a message: %.0f ns (p99 %.0f) with %d contexts,\n", *median(p50s), *median(p99s),
		b.contexts)
	r.print("%d of them active; %.0f ns with these alone. Ratio by round: %.3f.\n", b.active, *median(alones),
		*median(ratios))
	r.print("A quiet context takes %.0f bytes. Attaching all took %.2f s, ending all %.2f s.\n", bytes, attach.Seconds(),
		ended.Seconds())
	r.print("The card wrote to the pages of %d quiet contexts meanwhile. Every port was verified.\n", touched)
	return r, nil
}

// heap returns the bytes of the heap in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// marks returns what the pages of the ports say.
func (c *crowd) marks() []funi.Published {
	marks := make([]funi.Published, len(c.all))
	for i := range c.all {
		marks[i] = c.all[i].page.Published()
	}
	return marks
}

// changed returns the number of ports without traffic whose pages say something else than before.
func (c *crowd) changed(before []funi.Published) (n int) {
	for i := range c.all {
		if p := &c.all[i]; p.sent == 0 && p.page.Published() != before[i] {
			n++
		}
	}
	return n
}
