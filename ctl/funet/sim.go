package main

// This file is `funet sim`: the engine on a simulated network in virtual time.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funet/funet/uspace/sim/chaos"
)

// shrinkTries is the most scenarios that are run to make a failing one smaller.
const shrinkTries = 1000

func simCommand() *cobra.Command {
	c := &cobra.Command{Use: "sim", Short: "Run the engine on simulated networks and machines, in virtual time"}
	c.AddCommand(chaosCommand(), cmamCommand(), simMatMulCommand())
	return c
}

type chaosOptions struct {
	chaos.Scenario
	seeds, faults  string
	network        string
	trace, capture string
	json           bool
}

func chaosCommand() *cobra.Command {
	var o chaosOptions
	c := &cobra.Command{
		Use:   "chaos",
		Short: "Run random programs while everything goes wrong, and check that every message is accounted for",
		Long: `Run random programs on a simulated cluster on which everything goes wrong, and
check after every event that each message is delivered exactly once, or reported
failed, and that of every transfer the bytes are exact and no others change. A seed stands for a cluster, its programs and all that happens to them:
the same arguments give the same run. A run that fails is made smaller and printed
with the arguments that repeat it; the exit status is then 1.

Faults: loss, dup, reorder, corrupt, congestion (narrow links, short queues),
partition, cut (one direction), pause and slow (processes and cards), crash (of a
process, which is detached, or whose card leaves), restart (a card crashes and
returns), resize (of queues in use), switch (of contexts), xfer (transfers of memory,
also such as must be refused), jobs (a job ends, host after host, and another takes
its GID); all or none. On Arctic the network has no faults:
loss, dup, reorder, corrupt, partition and cut are left out, congestion is slow
routers with few buffers.

With a profile such as sbus-arctic the cards are that machine's: their lines and FIFOs
are as few, and each packet takes its units and its bus as long. The network is the
seed's, and programs are not slowed down.`,
		Example: `  funet sim chaos --seeds 1..200 --nodes 16 --messages 20000 --faults all
  funet sim chaos --seed 17 --nodes 3 --messages 40 --faults loss,restart --trace t.json --pcap t.pcap`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("seed") && c.Flags().Changed("seeds") {
				return usage(c, errors.New("--seed and --seeds do not go together"))
			}
			first, last, err := o.check(c.Flags().Changed("seed"))
			if err != nil {
				return usage(c, err)
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
	f.StringVar(&o.Profile, "profile", chaos.Native, "hardware profile that the cards are timed as: a name, or a file with a / or .yaml in its name")
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

func (o *chaosOptions) run(ctx context.Context, first, last uint64) error {
	files := outputs{}
	s := o.Scenario
	if o.trace != "" {
		s.Trace = files.create(o.trace)
	}
	if o.capture != "" {
		s.Capture = files.create(o.capture)
	}
	if files.err != nil {
		return errors.Join(files.err, files.close())
	}
	done := progress("simulating")
	r := chaos.Many(ctx, s, first, last, runtime.NumCPU())
	done()
	if err := files.close(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for i := range r.Failed {
		f := &r.Failed[i]
		if i < 3 { // three examples are enough to begin with
			fmt.Fprintf(os.Stderr, "seed %d failed: %s\n", f.Scenario.Seed, strings.Join(f.Reasons, "; "))
			done := progress("making it smaller")
			small, result := chaos.Shrink(ctx, f.Scenario, shrinkTries)
			done()
			f.Smallest = small.String()
			fmt.Fprintf(os.Stderr, "  the smallest like it: funet sim chaos %s\n  %s\n", f.Smallest, strings.Join(result.Failures, "; "))
		}
	}
	if err := o.print(&r); err != nil {
		return err
	}
	if r.Failed != nil {
		return fmt.Errorf("%d of %d seeds broke a promise; the first again: funet sim chaos %s", len(r.Failed), r.Seeds, r.Failed[0].Command)
	}
	return nil
}

func (o *chaosOptions) print(r *chaos.Report) error {
	if o.json {
		return printJSON(r)
	}
	cards := ""
	if o.Profile != chaos.Native {
		cards = ", cards as " + o.Profile
	}
	fmt.Printf("chaos: %d seeds, %d nodes on %v%s, faults %v; %.1f million events a second and processor\n", r.Seeds, o.Nodes, o.Network, cards, o.Faults, r.EventsPerSecond/1e6)
	return table(os.Stdout,
		[]string{"  messages", "of them transfers", "delivered", "reported failed", "lost", "duplicated", "misdelivered", "damaged", "stuck"},
		[]string{"  " + fmt.Sprint(r.Messages), fmt.Sprint(r.Transfers), fmt.Sprint(r.Delivered), fmt.Sprint(r.ReportedFailed), fmt.Sprint(r.Lost),
			fmt.Sprint(r.Duplicated), fmt.Sprint(r.Misdelivered), fmt.Sprint(r.Damaged), fmt.Sprint(r.Stuck)})
}

// outputs are files that a command writes.
type outputs struct {
	files   []*os.File
	buffers []*bufio.Writer
	err     error // the first
}

// create makes a file, or notes why it could not.
func (o *outputs) create(name string) io.Writer {
	f, err := os.Create(name)
	if err != nil {
		o.err = errors.Join(o.err, fmt.Errorf("creating output: %w", err))
		return io.Discard
	}
	b := bufio.NewWriterSize(f, 1<<16)
	o.files, o.buffers = append(o.files, f), append(o.buffers, b)
	return b
}

// close writes out what is buffered.
func (o *outputs) close() (err error) {
	for i, f := range o.files {
		err = errors.Join(err, o.buffers[i].Flush(), f.Close())
	}
	return err
}
