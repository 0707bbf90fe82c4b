package main

// This file is `funet capture`: it writes the frames of this host's card and direct ports to a
// pcapng file for Wireshark.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/capture"
	"github.com/funet/funet/ctl/output"
)

// errEnough ends a capture that has as many frames or bytes as asked for.
var errEnough = errors.New("enough")

// taking is a capture in progress.
type taking struct {
	file   *capture.File
	writer *capture.Writer
	counts []capture.Counts
	frames int64
	most   int64 // limit of frames; 0: none
	size   int64 // limit of the file, in bytes
}

func captureCommand() *cobra.Command {
	var s service
	var k taking
	var snap int
	var duration time.Duration
	var dissector bool
	c := &cobra.Command{
		Use:     "capture [FILE]",
		Example: "  funet capture | wireshark -X lua_script:funet.lua -k -i -\n  funet capture --count 10000 frames.pcapng",
		Short:   "Write the frames of this host's card and direct ports to a pcapng file or pipe (administrator)",
		Long: `Write the frames that this host's card and its direct ports send and receive, with their direction and with
what became of those that were dropped or rejected, to a pcapng file, or without FILE to standard output.
Ctrl-C ends it. Nodes of one host that share memory exchange frames that nobody sees.

  funet capture | wireshark -X lua_script:funet.lua -k -i -
  funet capture --dissector > funet.lua`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := "-"
			if len(args) == 1 {
				name = args[0]
			}
			switch {
			case dissector:
				_, err := c.OutOrStdout().Write([]byte(capture.Dissector))
				return err
			case name == "-" && output.Terminal(os.Stdout):
				return errors.New("a capture is not for a terminal: name a file, or pipe it, as in `funet capture | wireshark -k -i -`")
			case k.most < 0:
				return fmt.Errorf("--count %d: use 1 and more, or 0 for any number", k.most)
			case k.size < 1<<12:
				return fmt.Errorf("--size %d: use 4096 bytes and more", k.size)
			case snap < 0 || snap > capture.MaxSnap:
				return fmt.Errorf("--snap %d: use 1 to %d bytes, or 0 for all", snap, capture.MaxSnap)
			case duration < 0:
				return fmt.Errorf("--duration %v: use a time above 0", duration)
			}
			return k.run(c.Context(), s.socket, name, capture.Request{Snap: snap}, duration)
		},
	}
	s.registerSocket(c)
	f := c.Flags()
	f.Int64Var(&k.most, "count", 0, "end after this number of frames (0: never)")
	f.Int64Var(&k.size, "size", 1<<30, "end when the file has this number of bytes")
	f.DurationVar(&duration, "duration", 0, "end after a time (0: never)")
	f.IntVar(&snap, "snap", 0, "bytes to keep of each frame (0: all)")
	f.BoolVar(&dissector, "dissector", false, "print the dissector, a Lua script for Wireshark and tshark")
	return c
}

// run captures until a limit is reached or the context ends.
func (k *taking) run(ctx context.Context, socket, name string, ask capture.Request,
	duration time.Duration) (err error) {
	limited := ctx
	if duration > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, duration)
		defer cancel()
	}
	begin := func(b *capture.Begin) error {
		if k.file, err = capture.Create(name); err != nil {
			return err
		}
		if k.writer, err = capture.NewWriter(k.file, b, time.Now()); err != nil {
			return err
		}
		past := ""
		if b.Ports > 0 {
			past = fmt.Sprintf("; frames of %s are not captured: funid-ports is of the release before",
				output.Count(b.Ports, "direct port"))
		}
		fmt.Fprintf(os.Stderr, "capturing card %d of %s, %v%s\n", b.Card, b.Host, b.Interfaces, past)
		return k.file.Flush()
	}
	// What a batch brought is written before the next, so that a reader sees it live.
	batch := func(n []capture.Counts) {
		k.counts = n
		err = k.file.Flush()
	}
	see := func(r *capture.Record) error {
		if err != nil {
			return err
		}
		return k.take(r)
	}
	failed := capture.Follow(limited, socket, ask, begin, see, batch)
	if err == nil && !errors.Is(failed, errEnough) {
		err = failed
	}
	if k.writer != nil {
		err = errors.Join(err, k.end(err))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// take takes a frame.
func (k *taking) take(r *capture.Record) error {
	if k.most > 0 && k.frames >= k.most || k.writer.Written+int64(len(r.Data)) >= k.size {
		return errEnough
	}
	k.frames++
	return k.writer.Write(r)
}

// end ends the file, unless writing it failed, and prints the counts of frames.
func (k *taking) end(failed error) error {
	var err error
	if failed == nil {
		err = k.writer.Close(k.counts, time.Now())
	}
	err = errors.Join(err, k.file.Close())
	lost := uint64(0)
	for _, n := range k.counts {
		lost += n.Lost
	}
	fmt.Fprintf(os.Stderr, "%s, %s lost because they were not taken in time\n", output.Count(k.frames, "frame"),
		output.Count(int64(lost), "frame"))
	return err
}
