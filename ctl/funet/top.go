package main

// This file is `funet top`: it shows the activity of this host's card, live.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/live"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/uspace/attach"
)

// leastInterval is the least time between two looks of top.
const leastInterval = 100 * time.Millisecond

func topCommand() *cobra.Command {
	var s service
	var every time.Duration
	var most int
	c := s.register(&cobra.Command{
		Use:   "top",
		Short: "Show live what this host's card does: traffic, jobs, peers; an ordinary user his own jobs",
		Long: `Show live what this host's card does: messages, bytes and frames a second, retries and rejections, how long peers take to
answer, and which jobs and contexts it is for. An ordinary user sees the card's sums and his own jobs.

Keys: j, c, p and x choose jobs, contexts, peers or rejections; < and > the column that sorts; r turns the order round;
up and down move; q and Ctrl-C end it. Without a terminal one table is printed.

A message is a packet; a long transfer is many. The round trip is the time from a frame to its acknowledgment, smoothed: that
may wait for a packet to ride on. Bytes above are those of frames, in the tables those of payloads. In the JSON document
packets_refused_per_second counts packets for a context that the card rejected, for now or for good; their senders get the reason.`,
		Example: "  funet top\n  funet top --json --count 60 > minute.json\n  funet top | cat",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case every < leastInterval:
				return fmt.Errorf("--interval %v: use %v and more", every, leastInterval)
			case most < 0:
				return fmt.Errorf("--count %d: use 1 and more, or 0 for any number", most)
			case most > 0 && !s.json:
				return errors.New("--count is for --json: add it")
			}
			return s.top(c.Context(), every, most)
		},
	})
	c.Flags().DurationVar(&every, "interval", time.Second, "time between two looks")
	c.Flags().IntVar(&most, "count", 0, "with --json, end after this number of documents (0: never)")
	c.Flags().Lookup("json").Usage = "print a JSON document each interval"
	return c
}

// sample asks the daemon for its status and traffic.
func (s *service) sample(ctx context.Context) (*live.Sample, error) {
	return within(ctx, func() (*live.Sample, error) {
		v := new(live.Sample)
		err := s.ask(attach.KindTraffic, nil, &v.Traffic)
		if err == nil {
			err = s.ask(attach.KindStatus, nil, &v.Status)
		}
		return v, err
	})
}

// top shows the activity on a terminal, or prints reports.
func (s *service) top(ctx context.Context, every time.Duration, most int) error {
	first, err := s.sample(ctx)
	if err != nil {
		return err
	}
	if !s.json && output.Terminal(os.Stdout) && output.Terminal(os.Stdin) {
		return live.Run(ctx, s.sample, first, every, output.UserName)
	}
	return s.documents(ctx, os.Stdout, first, every, most)
}

// documents prints a report each interval, as JSON; for people it prints one table.
func (s *service) documents(ctx context.Context, w io.Writer, last *live.Sample, every time.Duration, most int) error {
	t := time.NewTicker(every)
	defer t.Stop()
	for n := 1; ; n++ {
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		next, err := s.sample(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !s.json && err != nil:
			return err
		case !s.json:
			return live.Between(last, next).WriteTable(w, output.UserName)
		}
		r := &live.Report{Time: time.Now()}
		if err != nil {
			r.Error = output.OneLine(err)
		} else {
			r = live.Between(last, next)
			last = next
		}
		if err := json.NewEncoder(w).Encode(r); err != nil {
			return err
		}
		if n == most {
			return nil
		}
	}
}
