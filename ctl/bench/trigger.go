package bench

// This file is `funet bench trigger`: the operation with which processes issue work to a card that
// they share (Froening's thesis, sections 3.4.4 and 4.4.2), beside other ways to put an entry into
// a queue that many share. A card spins on CPU 0. Threads on CPU 1 issue, each through ports of its
// own. A port's trigger issues one message to itself, and what arrives is verified.

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/pin"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/wait"
)

// triggerTarget is the most that a trigger of one caller takes, in nanoseconds: that of the
// thesis's board (section 4.4.2, table 4.5).
const triggerTarget = 630

// triggerBench measures triggers and their rivals.
type triggerBench struct {
	*flags
	operations int
	ports      []int // how many ports the card has
	threads    []int // how many threads issue, at most one for each port
}

// issuing is what one run of issuing threads has measured.
type issuing struct {
	p50, p99 float64 // of an operation, in nanoseconds
	rate     float64 // operations of all threads in a second
}

// triggerRow is a row of the report: the medians of the rounds.
type triggerRow struct {
	Way     string  `json:"way"`
	Ports   int     `json:"ports,omitempty"` // contexts of the card; 0: there is no card
	Threads int     `json:"threads"`
	P50     float64 `json:"p50_ns"`
	P99     float64 `json:"p99_ns"`
	Rate    float64 `json:"operations_per_s"`
	// Rise is the rate of one thread, in the same round, by this rate: how much faster than the
	// number of callers the time of a call rises. At most 1: no faster.
	Rise float64 `json:"rise_by_threads"`

	p50s, p99s, rates, rises []float64
	run                      func(context.Context) (issuing, error)
}

func triggerCommand() *cobra.Command {
	f := new(flags)
	b := &triggerBench{flags: f, ports: []int{1, 8, 64, 512, 4096, 65536}, threads: []int{1, 2, 4, 8, 16, 32, 64}}
	c := &cobra.Command{Use: "trigger", Short: "issue work to a card that many share, beside rings and system calls",
		Long: `Measure triggers: a process stores a command in a line that it shares with a card, and the card
answers whether it has taken the work (Froening's thesis, section 3.4.4). A card spins on CPU 0.
On CPU 1 one thread issues on cards of 1 to 65,536 ports, then up to 64 threads on the largest.
Beside it: a ring with a mutex, a ring with compare-and-swap, eventfd's write, and an ioctl. These
only enqueue, or only call the kernel; nobody tells them whether the work was taken.`,
		Example: "  funet bench trigger\n  funet bench trigger --rounds 3 --operations 20000 --json"}
	f.number(c, &f.rounds, "rounds", limits{1, 1000, 5}, "interleaved rounds")
	f.number(c, &b.operations, "operations", limits{100, 10_000_000, 50_000}, "operations of a run, of all threads")
	c.Flags().BoolVar(&f.JSON, "json", false, "print one JSON document")
	return f.alone(c, b.measure)
}

func (b *triggerBench) measure(ctx context.Context) (output.Report, error) {
	if runtime.NumCPU() < 2 {
		return nil, fmt.Errorf("measuring triggers: this needs two processors, one for the card; there is %d", runtime.NumCPU())
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	rows, end, err := b.rows(ctx)
	if err != nil {
		return nil, fmt.Errorf("measuring triggers: %w", err)
	}
	told := output.Begin("measure triggers", int64(b.rounds*len(rows)))
	defer told.End()
	for round := range b.rounds {
		one := map[string]float64{} // the rate of one thread, by way
		for i := range rows {
			r := &rows[i]
			m, err := r.run(ctx)
			if err != nil {
				return nil, fmt.Errorf("measuring triggers: round %d, %s, %d threads: %w", round+1, r.Way, r.Threads, err)
			}
			if r.Threads == 1 {
				one[r.Way] = m.rate // of triggers, on the largest card, which comes last
			}
			r.p50s, r.p99s, r.rates = append(r.p50s, m.p50), append(r.p99s, m.p99), append(r.rates, m.rate)
			r.rises = append(r.rises, one[r.Way]/m.rate)
			told.Add(1)
		}
	}
	if err := end(); err != nil {
		return nil, fmt.Errorf("measuring triggers: %w", err)
	}
	return b.report(rows), nil
}

// rows returns what is measured: triggers of one thread on cards of all sizes, of all numbers of
// threads on the largest, and the rivals. end verifies the ports' books.
func (b *triggerBench) rows(ctx context.Context) (rows []triggerRow, end func() error, err error) {
	var cards []*spinning
	for _, n := range b.ports {
		v, err := newVirtualPorts(ctx, n)
		if err != nil {
			return nil, nil, err
		}
		c := &spinning{virtualPorts: v}
		cards = append(cards, c)
		rows = append(rows, triggerRow{Way: "trigger", Ports: n, Threads: 1,
			run: func(ctx context.Context) (issuing, error) { return c.triggers(ctx, 1, b.operations) }})
	}
	largest := cards[len(cards)-1]
	for _, t := range b.threads[1:] {
		rows = append(rows, triggerRow{Way: "trigger", Ports: b.ports[len(b.ports)-1], Threads: t,
			run: func(ctx context.Context) (issuing, error) { return largest.triggers(ctx, t, b.operations) }})
	}
	for _, r := range triggerRivals {
		for _, t := range []int{1, b.threads[len(b.threads)-1]} {
			rows = append(rows, triggerRow{Way: r.name, Threads: t,
				run: func(ctx context.Context) (issuing, error) { return r.run(ctx, t, b.operations) }})
		}
	}
	return rows, func() error {
		for _, c := range cards {
			if err := c.verify(); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// spinning is a card that a thread steps without a pause while triggers are measured.
type spinning struct {
	*virtualPorts
	stop atomic.Bool
}

// triggers measures the triggers of that many threads. The ports are divided among the threads, and
// each thread takes its own in turn. Ports that follow each other do not lie side by side in
// memory: a processor would fetch those of one thread in advance, and not those of many.
func (c *spinning) triggers(ctx context.Context, threads, operations int) (issuing, error) {
	c.stop.Store(false)
	return measureThreads(ctx, threads, operations, func() {
		start := time.Now()
		base := c.now
		for n := 0; !c.stop.Load(); n++ {
			if n%16 == 0 {
				c.now = base + int64(time.Since(start))
			}
			c.card.Step(c.now)
		}
	}, func() { c.stop.Store(true) }, func(thread int) func() error {
		mine := c.scattered[thread*len(c.all)/threads : (thread+1)*len(c.all)/threads]
		next := 0
		return func() error {
			p := mine[next]
			if next++; next == len(mine) {
				next = 0
			}
			return p.issue()
		}
	})
}

// issue sends one message of the port, and waits until the card has answered.
func (p *virtualPort) issue() error {
	for {
		if err := p.take(); err != nil {
			return err
		}
		if p.process.Unissued() == 0 && !p.compose() {
			continue // the card has not given a slot back
		}
		p.process.Trigger(funi.TriggerIssue, 1)
		count, status := p.answer()
		if status > funi.TriggerFull {
			return fmt.Errorf("port %d: %w", p.node, status.Err())
		}
		if count == 1 {
			return nil
		}
	}
}

// answer waits for the card's answer. After some microseconds, longer than a card takes that runs,
// it lets other threads of its processor run.
func (p *virtualPort) answer() (int, funi.TriggerStatus) {
	for n := 1; ; n++ {
		if count, s, ok := p.process.TriggerAnswer(); ok {
			return count, s
		}
		if n%20_000 == 0 {
			wait.YieldProcessor()
		}
	}
}

// verify steps the card until all that was issued has arrived.
func (c *spinning) verify() error {
	for range 1000 {
		c.step()
	}
	for i := range c.all {
		p := &c.all[i]
		if err := p.take(); err != nil {
			return err
		}
		if issued := p.sent - uint32(p.process.Unissued()); p.received != issued {
			return fmt.Errorf("port %d has issued %d messages and received %d", i, issued, p.received)
		}
	}
	return nil
}

// measureThreads runs operations on threads of CPU 1, beside serve on CPU 0, and returns how long
// they took. stop has serve return. begin returns a thread's operation.
func measureThreads(ctx context.Context, threads, operations int, serve, stop func(),
	begin func(thread int) func() error) (issuing, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads + 2))
	onThread := func(cpu int, f func()) {
		runtime.LockOSThread() // until the goroutine ends, and the thread with it
		_ = pin.Thread(cpu)    // where this is not allowed, the kernel places them
		f()
	}
	served := make(chan struct{})
	go onThread(0, func() { defer close(served); serve() })
	each := max(operations/threads, 10)
	took := make([][]int64, threads)
	errs := make([]error, threads)
	var ready, done sync.WaitGroup
	ready.Add(threads)
	start := make(chan struct{})
	for t := range threads {
		done.Go(func() {
			onThread(1, func() {
				do := begin(t)
				ns := make([]int64, each)
				errs[t] = do() // once, to warm up
				ready.Done()
				<-start
				last := time.Now()
				for i := range ns {
					if i%ctrlCEvery == 0 && errs[t] == nil {
						errs[t] = ctx.Err()
					}
					if errs[t] != nil {
						return
					}
					errs[t] = do()
					now := time.Now()
					ns[i], last = int64(now.Sub(last)), now
				}
				took[t] = ns
			})
		})
	}
	ready.Wait()
	began := time.Now()
	close(start)
	done.Wait()
	elapsed := time.Since(began)
	stop()
	<-served
	var all []int64
	for t := range threads {
		if errs[t] != nil {
			return issuing{}, errs[t]
		}
		all = append(all, took[t]...)
	}
	m := issuing{rate: float64(len(all)) / elapsed.Seconds()}
	m.p50, m.p99 = quantiles(all)
	return m, nil
}

func (b *triggerBench) report(rows []triggerRow) output.Report {
	worst := 0.0
	for i := range rows {
		r := &rows[i]
		r.P50, r.P99, r.Rate, r.Rise = *median(r.p50s), *median(r.p99s), *median(r.rates), *median(r.rises)
		if r.Way == "trigger" && r.Threads > 1 {
			worst = max(worst, r.Rise)
		}
	}
	r := report{figures: []figure{{"rounds", b.rounds}, {"operations", b.operations},
		{"one_caller_p50_ns", rows[0].P50}, {"target_ns", triggerTarget}, {"worst_rise_by_threads", worst},
		{"rows", rows}}}
	r.print("The card spins on CPU 0, the threads share CPU 1.\n\n")
	lines := [][]string{output.Row("way", "ports", "threads", "p50 ns", "p99 ns", "thousands/s", "rise by threads")}
	for _, row := range rows {
		ports := "-"
		if row.Ports > 0 {
			ports = fmt.Sprint(row.Ports)
		}
		lines = append(lines, output.Row(row.Way, ports, row.Threads, fmt.Sprintf("%.0f", row.P50),
			fmt.Sprintf("%.0f", row.P99), fmt.Sprintf("%.0f", row.Rate/1000), fmt.Sprintf("%.3f", row.Rise)))
	}
	var table strings.Builder
	if err := output.Table(&table, lines...); err == nil {
		r.print("%s", table.String())
	}
	r.print("\nOne caller: %.0f ns; the thesis's board took %d (section 4.4.2).\n", rows[0].P50, triggerTarget)
	return r
}
