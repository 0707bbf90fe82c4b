package program

// This file makes the commands of programs that only benchmarks run on a lab. It has what these
// programs share.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
)

// hidden returns the command of such a program. Its options are those that Arguments wrote.
func hidden[O, R any](name string, run func(O, context.Context, *Flags) (R, error)) *cobra.Command {
	var f Flags
	var text string
	c := &cobra.Command{
		Use:    name,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var o O
			if err := json.Unmarshal([]byte(text), &o); err != nil {
				return fmt.Errorf("--options %.60q: %w; this command is for funet's own use", text, err)
			}
			if err := f.Check(); err != nil {
				return err
			}
			r, err := run(o, c.Context(), &f)
			if err != nil {
				return err
			}
			return output.JSON(r)
		},
	}
	f.Register(c)
	c.Flags().StringVar(&text, "options", "", "of the program, in JSON")
	return c
}

// measurement returns the one of a name.
func measurement[M any](all map[string]M, name string) (m M, err error) {
	m, ok := all[name]
	if !ok {
		err = fmt.Errorf("there is no measurement %q", name)
	}
	return m, err
}

// onCarrier opens the process's place in the job without an endpoint, with remote memory. It runs a
// program on nodes 0 and 1, and returns where this node is.
func onCarrier(ctx context.Context, f *Flags, remote funi.RemoteSizes,
	program func(c funet.Carrier, node int) error) (p Place, err error) {
	n := &Node{ctx: ctx}
	var o funet.Options
	if err = n.describe(f, &o); err != nil {
		return p, err
	}
	o.Remote = remote
	c, place, err := o.Carrier(ctx)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, c.Close(linger)) }()
	n.Own, _ = c.(*card.Card)
	if place.Node < 2 {
		err = program(c, place.Node)
	}
	p = n.placeOf(c, place.Node, f)
	p.Host = n.host()
	return p, err
}

// driven returns a function that drives a carrier, and now and then checks whether the context or
// the carrier has ended.
func driven(ctx context.Context, c funet.Carrier) func() error {
	i := 0
	return func() error {
		c.Drive()
		if i++; i&1023 == 0 {
			return cmp.Or(context.Cause(ctx), c.Err())
		}
		return nil
	}
}

// arguments returns the flags by which hidden gets options.
func arguments(o any) []string {
	text, _ := json.Marshal(o) // which numbers and words cannot fail
	return []string{"--options", string(text)}
}
