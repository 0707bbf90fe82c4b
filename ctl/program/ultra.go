package program

// This file is a program that only measurements run: round trips of a line on two ULTRA paths.

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/ultra"
)

// UltraProgram is the program's name.
const UltraProgram = "bench-ultra"

const (
	ultraBase   = 0x1000_0000
	ultraSlices = 64
)

// UltraResult is the JSON document of one node. Node 0 has the times of round trips in
// microseconds.
type UltraResult struct {
	trips
	Place
}

// UltraOptions are the program's flags.
type UltraOptions struct {
	Count  int // round trips
	WarmUp int // before those, not measured
}

// Arguments are the flags that say the same.
func (o UltraOptions) Arguments() []string { return arguments(o) }

// Ultra is the hidden command that a benchmark starts on a lab.
func Ultra() *cobra.Command { return hidden(UltraProgram, UltraOptions.open) }

// open opens the process's place and runs the program.
func (o UltraOptions) open(ctx context.Context, f *Flags) (r *UltraResult, err error) {
	r = new(UltraResult)
	sizes := funi.RemoteSizes{KeySlots: 2, Areas: 1, Notifications: 16}
	r.Place, err = onCarrier(ctx, f, sizes, func(c funet.Carrier, node int) (err error) {
		r.trips, err = o.run(ctx, c, node, time.Now().Add(f.Wait))
		return err
	})
	return r, err
}

// ultraNode is one node. Both paths are open.
type ultraNode struct {
	to   *ultra.Sender
	from *ultra.Receiver
}

// openPaths opens a path to the other node and one from it. The other may not be there yet: then
// the paths are opened again until the time has come.
func openPaths(p *ultra.Paths, peer uint16, memory []byte, end time.Time) (n ultraNode, err error) {
	for {
		if n.from, err = p.OpenReceiver(peer, memory[4096:], ultraSlices); err != nil {
			return n, err
		}
		if n.to, err = p.OpenSender(peer, memory); err != nil {
			return n, err
		}
		var early *ultra.Error
		if err = cmp.Or(n.to.Ready(), n.from.Ready()); !errors.As(err, &early) || early.Opened || time.Now().After(end) {
			return n, err
		}
		if err := errors.Join(n.from.Close(), n.to.Close()); err != nil {
			return n, err
		}
	}
}

// run exchanges lines of seven words with the other node, and checks each.
func (o UltraOptions) run(ctx context.Context, c funet.Carrier, node int, end time.Time) (t trips, err error) {
	size, err := ultra.Bytes(ultraSlices)
	if err != nil {
		return t, err
	}
	memory, err := c.Segment(ultraBase, 4096+(size+4095)&^4095, funi.Keyed)
	if err != nil {
		return t, err
	}
	drive := driven(ctx, c)
	e, err := rma.New(c.Interface(), rand.Reader, drive)
	if err != nil {
		return t, err
	}
	if err := e.Use(funi.Segment{Base: ultraBase, Memory: memory, Rights: funi.Keyed}); err != nil {
		return t, err
	}
	n, err := openPaths(ultra.New(e, c.Interface(), drive), uint16(1-node), memory, end)
	if err != nil {
		return t, err
	}
	t, err = times(o.WarmUp, o.Count, func(trip int) error {
		i := uint64(trip)
		line := [ultra.MaxWords]uint64{i, i + 1, i * 3, ^i, i << 7, 5, i ^ 0x5555}
		if node == 0 {
			if err := sendLine(n.to, line[:]); err != nil {
				return err
			}
		}
		var got [ultra.MaxWords]uint64
		if size, err := n.from.Receive(&got); err != nil || size != len(line) || got != line {
			return cmp.Or(err, fmt.Errorf("%w: line %d came with %d words, %x", apps.ErrVerify, i, size, got))
		}
		if node != 0 {
			return sendLine(n.to, line[:])
		}
		return nil
	})
	if err == nil {
		err = n.to.Flush()
	}
	return t, err
}

// sendLine sends a line, for which there is room: the one before has been answered.
func sendLine(to *ultra.Sender, line []uint64) error {
	for {
		if sent, err := to.Send(line...); sent || err != nil {
			return err
		}
	}
}
