package main

// This file is `funet trace`: it records the stages of single packets of this host's card, as a
// table and as a file for ui.perfetto.dev.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/live"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/trace"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
)

// mostTraced bounds the records that a command keeps, each some 100 bytes.
const mostTraced = 1_000_000

// errNothingTraced reports that no packet was recorded.
var errNothingTraced = errors.New("no packet was traced")

// following is a trace in progress.
type following struct {
	most     int
	duration time.Duration
	host     trace.Host
}

func traceCommand() *cobra.Command {
	var s service
	var k following
	var every, gid int
	var from []string
	c := s.register(&cobra.Command{
		Use:   "trace [FILE]",
		Short: "Follow single packets through this host's card, stage by stage; an ordinary user his own",
		Long: `Follow one in every N packets through this host's card: when its slot was seen, when it was retrieved, dispatched in a train, sent, rejected and
tried again, and acknowledged; and of packets from other hosts, when they arrived. Ctrl-C ends it and prints a table. FILE is for
https://ui.perfetto.dev (or chrome://tracing): a context's packets, stage by stage.

An ordinary user sees packets of his own contexts, an administrator all. Packets between processes of one host are not followed.
Times are those at which the card's thread looked, on this host's clock. --merge puts traces of several hosts together that were taken at the
same time with the same --every: packets are known by the frame in which they first travelled, and clocks are aligned with that of the first
file as NTP does, from the usual (median) way there and back, which are taken for equally long. Where packets went only one way clocks
are not aligned, which is said, and no times between the hosts are told.

A packet from another host that ends as "refused" was rejected by this host's card, for now or for good.`,
		Example: "  funet trace --every 1000 --duration 10s trace.json\n  funet trace --every 1 --gid 7 --count 10000\n  funet trace --merge here.json,there.json both.json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case every < 1 || every > trace.MaxEvery:
				return fmt.Errorf("--every %d: use 1 to %d", every, trace.MaxEvery)
			case gid < 0 || gid > arctic.MaxGID:
				return fmt.Errorf("--gid %d: use 1 to %d, or 0 for all", gid, arctic.MaxGID)
			case k.most < 1 || k.most > mostTraced:
				return fmt.Errorf("--count %d: use 1 to %d", k.most, mostTraced)
			case k.duration < 0:
				return fmt.Errorf("--duration %v: use a time above 0", k.duration)
			}
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			if len(from) > 0 {
				if name == "" {
					return errors.New("--merge: into which file? name it, as in `funet trace --merge here.json,there.json both.json`")
				}
				return s.merge(name, from)
			}
			return s.trace(c.Context(), &k, name, trace.Request{Every: every, GID: uint16(gid)})
		},
	})
	f := c.Flags()
	f.IntVar(&every, "every", 100, "follow one packet in this number")
	f.IntVar(&gid, "gid", 0, "only packets of this group (0: of all)")
	f.IntVar(&k.most, "count", 100_000, "end after this number of records")
	f.DurationVar(&k.duration, "duration", 0, "end after a time (0: never)")
	f.StringSliceVar(&from, "merge", nil,
		"write traces of several hosts into FILE instead, with commas between their files")
	return c
}

// trace follows packets until a limit is reached or the context ends, which is the ordinary end.
func (s *service) trace(ctx context.Context, k *following, name string, ask trace.Request) error {
	var files output.Files
	defer files.Discard()
	var file io.Writer
	var err error
	if name != "" {
		if file, err = files.Create(name); err != nil {
			return err
		}
	}
	limited := ctx
	if k.duration > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, k.duration)
		defer cancel()
	}
	begin := func(b *trace.Begin) error {
		k.host.Begin = *b
		others := ""
		if b.Others > 0 {
			others = fmt.Sprintf(", and not %d that another trace follows", b.Others)
		}
		if b.Ports > 0 {
			others += fmt.Sprintf("; %s, past the card, cannot be traced", output.Count(b.Ports, "direct port"))
		}
		fmt.Fprintf(os.Stderr, "tracing one packet of %d of card %d of %s, %s now%s\n", b.Every, b.Card, b.Host,
			output.Count(b.Contexts, "context"), others)
		return nil
	}
	see := func(r *engine.Trace) error {
		k.host.Records = append(k.host.Records, *r)
		if len(k.host.Records) == k.most {
			return trace.ErrEnough
		}
		return nil
	}
	lost, err := trace.Follow(limited, s.socket, ask, begin, see)
	switch {
	case err != nil && len(k.host.Records) == 0:
		return err
	case len(k.host.Records) == 0:
		return errors.Join(context.Cause(ctx),
			fmt.Errorf("%w in this time: is there traffic with another host, of contexts that are yours? use a smaller --every; no file is written", errNothingTraced))
	}
	t := trace.Stages(k.host.Records, lost)
	if file != nil {
		t.File = name
		failed := trace.WriteFile(file, []trace.Host{k.host})
		if failed == nil {
			failed = files.Commit()
		}
		if failed != nil {
			return errors.Join(err, fmt.Errorf("writing %s: %w", name, failed))
		}
	}
	// what a daemon that went away has sent is worth showing
	return errors.Join(output.Show(s.json, &tracedShown{t}), err)
}

// tracedShown is the JSON document of trace.
type tracedShown struct{ *trace.Table }

// WriteTable writes the stages.
func (r *tracedShown) WriteTable(w io.Writer) error {
	fmt.Fprintln(w, r.Summary())
	rows := [][]string{{"stage", "packets", "p50", "p99", "max", "from when to when"}}
	for _, s := range r.Stages {
		rows = append(rows, []string{s.Name, fmt.Sprint(s.Packets), live.Time(s.P50), live.Time(s.P99),
			live.Time(s.Max), s.What})
	}
	if err := output.Table(w, rows...); err != nil {
		return err
	}
	if r.File != "" {
		fmt.Fprintf(w, "%s is for https://ui.perfetto.dev\n", r.File)
	}
	return nil
}

// merge reads several traces and writes one.
func (s *service) merge(name string, from []string) error {
	var hosts []trace.Host
	for _, f := range from {
		in, err := os.Open(f)
		if err != nil {
			return fmt.Errorf("reading a trace: %w", err)
		}
		some, err := trace.Read(in)
		in.Close()
		if err != nil {
			return fmt.Errorf("reading %s: %w", f, err)
		}
		hosts = append(hosts, some...)
	}
	t, err := trace.Merge(hosts)
	if err != nil {
		return fmt.Errorf("merging: %w", err)
	}
	var files output.Files
	defer files.Discard()
	out, err := files.Create(name)
	if err != nil {
		return err
	}
	if err := trace.WriteFile(out, hosts); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	if err := files.Commit(); err != nil {
		return err
	}
	t.File = name
	return output.Show(s.json, &mergedShown{tracedShown{t}})
}

// mergedShown is the JSON document of trace --merge.
type mergedShown struct{ tracedShown }

// WriteTable writes the stages, and how well the clocks are known.
func (r *mergedShown) WriteTable(w io.Writer) error {
	if r.Aligned {
		fmt.Fprintf(w, "%d packets seen at both ends; clocks aligned to within %v\n", r.Both,
			time.Duration(r.ClocksWithin))
	} else {
		fmt.Fprintf(w, "%d packets seen at both ends; clocks are NOT aligned: that takes packets in both directions\n",
			r.Both)
	}
	return r.tracedShown.WriteTable(w)
}
