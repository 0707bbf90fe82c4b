package main

// This file is `funet sim`: the engine on a simulated network in virtual time.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/command"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/uspace/sim/chaos"
)

// shrinkTries bounds the scenarios that are run to make a failing one smaller.
const shrinkTries = 1000

func simCommand() *cobra.Command {
	c := &cobra.Command{Use: "sim", Example: "  funet sim chaos --seeds 1..200\n  funet sim matmul --figure 6.2",
		Short: "Run the engine on simulated networks and machines, in virtual time"}
	c.AddCommand(chaosCommand(), scaleCommand(), gangCommand())
	for _, p := range command.Papers {
		c.AddCommand(p.Command())
	}
	return c
}

type chaosOptions struct {
	chaos.Scenario
	seeds, faults  string
	network, shape string
	trace, capture string
	json, verbose  bool
	given          func(flag string) bool
}

func chaosCommand() *cobra.Command { return chaosCommandOf(new(chaosOptions)) }

func chaosCommandOf(o *chaosOptions) *cobra.Command {
	c := &cobra.Command{
		Use:   "chaos",
		Short: "Run random programs while everything goes wrong, and check that every message is accounted for",
		Long: `Run random programs on a simulated cluster on which everything goes wrong, and
check after every event that each message is delivered exactly once, or reported
failed, and that of every transfer the bytes are exact and no others change. A seed
stands for a cluster, its programs and all that happens to them: the same arguments
give the same run. A run that fails is made smaller and printed
with the arguments that repeat it; the exit status is then 1.

Of a message that is both, the receiver had it, but its acknowledgment did not come
back in time. Of one that ended with a process, sender or receiver was crashed before
anybody could tell; nothing was promised of it.

Faults: loss, dup, reorder, corrupt, congestion (narrow links, short queues),
partition, cut (one direction), pause and slow (processes and cards), crash (of a
process, which is detached, or whose card leaves), restart (a card crashes and
returns), resize (of queues in use), switch (of contexts), xfer (transfers of memory,
also such as must be refused), jobs (a job ends, host after host, and another takes
its GID), narrow (ways come to carry shorter frames), forge (of greetings, by who sees
all frames), replay (of frames of any age), sizes (cards whose ports carry frames of
different lengths), defer (hosts answer for groups that come and go), bundles (small frames for
several hosts leave in one), rats (programs
use all protocols of package rats, too), rma (they operate on each other's windows,
too: put, get, atomics, locks), chains (they send messages along chains of members,
too), paths (lines on ULTRA paths, too), sends (messages into receive rings and posted
buffers, too), moves (of contexts to other cards, with their windows and keys; a seed
whose processes end, too, has moves if it is even and those ends if it is odd), ports
(of direct cards: they end and come back on other hosts, of which hosts hear late, and
funids stop for a time), notices (funids tell each other and processes which direct
cards have ended, or live though they are silent: late, twice, or not
at all); all or none. With forge or replay half of the seeds have a key, and so has
each job of direct cards.
On Arctic the network has no faults: loss, dup, reorder, corrupt, partition, cut,
narrow, forge, replay, sizes and defer are left out, congestion is slow routers
with few buffers.

With --shape swarm each seed draws nodes (2 to 32), messages (16 to 16,383), a random
half of the kinds of faults, network, profile and whether cards are direct, unless they
are given, and how many processes share a card, the sizes of queues and the MTU. --verbose prints what it drew.

With a profile such as sbus-arctic the cards are that machine's: their lines and FIFOs
are as few, and each packet takes its units and its bus as long. The network is the
seed's, and programs are not slowed down.`,
		Example: `  funet sim chaos --shape swarm --seeds 1..1000
  funet sim chaos --seeds 1..200 --nodes 16 --messages 20000 --faults all
  funet sim chaos --seed 17 --faults loss,restart --trace t.json --pcap t.pcap`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("seed") && c.Flags().Changed("seeds") {
				return usage.Explain(c, errors.New("--seed and --seeds do not go together"))
			}
			o.given = c.Flags().Changed
			first, last, err := o.check(o.given("seed"))
			if err != nil {
				return usage.Explain(c, err)
			}
			return o.run(c.Context(), first, last)
		},
	}
	f := c.Flags()
	f.StringVar(&o.seeds, "seeds", "1..20", "seeds to run, as FIRST..LAST")
	f.Uint64Var(&o.Seed, "seed", 0, "the one seed to run")
	f.IntVar(&o.Nodes, "nodes", 16, "processes of the cluster")
	f.IntVar(&o.Messages, "messages", 20_000, "messages of each run, replies included")
	f.StringVar(&o.faults, "faults", "all", "what goes wrong: all, none, or kinds with commas between them")
	f.StringVar(&o.network, "network", "ethernet", "what connects the cards: ethernet, or arctic, which loses nothing")
	f.StringVar(&o.Profile, "profile", chaos.Native,
		"hardware profile that the cards are timed as: a name, or a file with a / or .yaml in its name")
	f.BoolVar(&o.Direct, "direct", false,
		"each process has a card of its own, on a direct port of its host, with a switch between them")
	f.StringVar(&o.shape, "shape", "given",
		"who says how large a run is and what goes wrong: given (the options), or swarm (the seed)")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print the arguments of each run, and what its seed draws besides")
	f.BoolVar(&o.json, "json", false, "print one JSON document")
	f.StringVar(&o.trace, "trace", "", "write a trace in Chrome's JSON format to `FILE`; needs --seed")
	f.StringVar(&o.capture, "pcap", "", "write a capture of all frames sent to `FILE`; needs --seed")
	return c
}

// check reads the options and returns the first and the last seed.
func (o *chaosOptions) check(one bool) (first, last uint64, err error) {
	if o.Faults, err = chaos.ParseFaults(o.faults); err != nil {
		return 0, 0, err
	}
	if o.Network, err = chaos.ParseNetwork(o.network); err != nil {
		return 0, 0, err
	}
	if o.Shape, err = chaos.ParseShape(o.shape); err != nil {
		return 0, 0, err
	}
	if err := o.Scenario.Check(); err != nil {
		return 0, 0, err
	}
	if one {
		return o.Seed, o.Seed, nil
	}
	if o.trace != "" || o.capture != "" {
		return 0, 0, errors.New("--trace and --pcap write one run; choose it with --seed")
	}
	a, b, ok := strings.Cut(o.seeds, "..")
	if !ok {
		b = a
	}
	first, err1 := strconv.ParseUint(a, 10, 64)
	last, err2 := strconv.ParseUint(b, 10, 64)
	if err1 != nil || err2 != nil || last < first || last-first >= 10_000_000 {
		return 0, 0, fmt.Errorf("--seeds %q: use FIRST..LAST, such as 1..200, at most 10 million", o.seeds)
	}
	return first, last, nil
}

// of returns the scenario of a seed: the options, and for a swarm the seed's draws for the options
// that were not given.
func (o *chaosOptions) of(seed uint64) chaos.Scenario {
	s := o.Scenario
	s.Seed = seed
	if s.Shape != chaos.Swarm {
		return s
	}
	d := s.Drawn()
	for flag, take := range map[string]func(){
		"nodes":    func() { d.Nodes = s.Nodes },
		"messages": func() { d.Messages = s.Messages },
		"faults":   func() { d.Faults = s.Faults },
		"network":  func() { d.Network = s.Network },
		"profile":  func() { d.Profile = s.Profile },
		"direct":   func() { d.Direct = s.Direct },
	} {
		if o.given(flag) {
			take()
		}
	}
	return d
}

func (o *chaosOptions) run(ctx context.Context, first, last uint64) error {
	var files output.Files
	defer files.Discard()
	for _, f := range []struct {
		name string
		to   *io.Writer
	}{{o.trace, &o.Trace}, {o.capture, &o.Capture}} {
		if f.name == "" {
			continue
		}
		w, err := files.Create(f.name)
		if err != nil {
			return err
		}
		*f.to = w
	}
	if o.verbose {
		for seed := first; ; seed++ {
			fmt.Fprintln(os.Stderr, described(o.of(seed)))
			if seed == last || ctx.Err() != nil {
				break
			}
		}
	}
	told := output.Begin("simulating", int64(last-first+1))
	r := chaos.Many(ctx, o.of, first, last, runtime.NumCPU(), func() { told.Add(1) })
	told.End()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := files.Commit(); err != nil {
		return err
	}
	for i := range r.Failed {
		f := &r.Failed[i]
		if i < 3 { // three examples are enough to begin with
			fmt.Fprintf(os.Stderr, "seed %d failed: %s\n", f.Scenario.Seed, strings.Join(f.Reasons, "; "))
			fmt.Fprintf(os.Stderr, "  it is: %s\n", described(f.Scenario))
			told := output.Begin("making it smaller", 0)
			small, result := chaos.Shrink(ctx, f.Scenario, shrinkTries)
			told.End()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			f.Smallest = small.String()
			fmt.Fprintf(os.Stderr, "  the smallest like it: funet sim chaos %s\n  %s\n", f.Smallest,
				strings.Join(result.Failures, "; "))
		}
	}
	if err := o.print(&r); err != nil {
		return err
	}
	if r.Failed != nil {
		return fmt.Errorf("%d of %d seeds broke a promise; the first again: funet sim chaos %s", len(r.Failed), r.Seeds,
			r.Failed[0].Command)
	}
	return nil
}

// described returns the arguments of a scenario's command, and the seed's draws.
func described(s chaos.Scenario) string {
	drawn, err := s.Plan()
	if err != nil {
		drawn = err.Error()
	}
	return fmt.Sprintf("%v (%s)", s, drawn)
}

func (o *chaosOptions) print(r *chaos.Report) error {
	if o.json {
		return output.JSON(r)
	}
	what := "each its own shape"
	if o.Shape != chaos.Swarm {
		cards := ""
		if o.Profile != chaos.Native {
			cards = ", cards as " + o.Profile
		}
		if o.Direct {
			cards += ", direct"
		}
		what = fmt.Sprintf("%s on %v%s, faults %v", output.Count(o.Nodes, "node"), o.Network, cards, o.Faults)
	}
	fmt.Printf("chaos: %s, %s; %.1f million events a second and processor\n", output.Count(r.Seeds, "seed"), what,
		r.EventsPerSecond/1e6)
	// The columns of the first table add up to the messages.
	err := output.Table(os.Stdout,
		[]string{"  messages", "= delivered", "+ reported failed", "+ both", "+ ended with a process", "+ lost"},
		output.Row(fmt.Sprint("  ", r.Messages), r.Delivered-r.Both, r.ReportedFailed-r.Both, r.Both, r.Ended, r.Lost))
	if err != nil {
		return err
	}
	return output.Table(os.Stdout,
		[]string{"  transfers among them", "duplicated", "misdelivered", "damaged", "stuck", "undecided"},
		output.Row(fmt.Sprint("  ", r.Transfers), r.Duplicated, r.Misdelivered, r.Damaged, r.Stuck, r.Undecided))
}
