package bench

// This file measures FUNet through daemons, for `funet bench peers`.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/launch"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/pin"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/attach"
)

// throughDaemons measures a ping-pong of two processes through the daemons of two hosts. All four
// share the processors.
func throughDaemons(ctx context.Context, m *match) (sample, error) {
	d := lab.DaemonOptions{XDP: m.f.Mode, Bind: m.f.Bind, Jumbo: m.f.Jumbo}
	r, err := program.OnDaemons[sample](ctx, m.lab, d, launch.Options{Nodes: 2, Program: "funet",
		Args: append([]string{"pingpong", "--json"}, pingPong(m.exchanges).Arguments()...)})
	return append(r, sample{})[0], err
}

// directly measures a ping-pong of two processes of an ordinary user with direct ports, on two
// hosts, or on one through shared memory. If other processes want the processors, the two sleep in
// turn, and some frames travel by the links to wake them.
func directly(hosts int) func(ctx context.Context, m *match) (sample, error) {
	return func(ctx context.Context, m *match) (sample, error) {
		r, err := program.RunDirect[program.PingPongResult](ctx, &m.f.Flags, m.lab, 2, hosts, "pingpong",
			pingPong(m.exchanges).Arguments())
		if err != nil {
			return sample{}, err
		}
		if hosts == 1 && (r[0].Shared == nil || r[0].Shared.Sent == 0) {
			return sample{},
				errors.New("two processes on one host had no shared memory; `funet status` beside `funet run` shows whether they get some")
		}
		return sample{P50: r[0].P50, P99: r[0].P99}, nil
	}
}

// twoContexts measures a ping-pong of one process with itself on processor 0, whose daemon spins on
// another.
func twoContexts(ctx context.Context, m *match) (sample, error) {
	d := lab.DaemonOptions{XDP: m.f.Mode, Bind: m.f.Bind, Jumbo: m.f.Jumbo, Polling: "spin", Hosts: 1,
		More: "cpu: 1\n"}
	r, err := program.OnDaemons[sample](ctx, m.lab, d, launch.Options{Nodes: 2, Once: true, Program: "funet",
		Args: []string{selfName, "--exchanges", fmt.Sprint(m.exchanges)}})
	return append(r, sample{})[0], err
}

// selfName is the name of the command that twoContexts runs.
const selfName = "bench-self"

// selfCommand is the hidden command that twoContexts runs as its process.
func selfCommand() *cobra.Command {
	var exchanges int
	c := &cobra.Command{
		Use:    selfName,
		Short:  "Both nodes of a ping-pong in one process, for `funet bench peers`",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := selfPingPong(c.Context(), exchanges)
			if err != nil {
				return err
			}
			return output.JSON(r)
		},
	}
	c.Flags().IntVar(&exchanges, "exchanges", exchangeLimits.usual, "round trips to measure")
	return c
}

// selfPingPong measures round trips of a 4-word request and a 4-word reply between two contexts
// of this process.
func selfPingPong(ctx context.Context, exchanges int) (*program.PingPongResult, error) {
	if err := os.Setenv(attach.NodeVariable, "0"); err != nil {
		return nil, err
	}
	if err := pin.Thread(0); err != nil {
		return nil, err
	}
	cfg, err := attach.Environment()
	if err != nil {
		return nil, err
	}
	cfg.Context = ctx
	cfg.Spin = true // a context that slept would keep the other waiting
	var ends [2]*am.Endpoint
	for i := range ends {
		cfg.Node = uint16(i)
		c, err := attach.Open(cfg)
		if err != nil {
			return nil, err
		}
		defer c.Close(0)
		if ends[i], err = am.New(c.Interface(), i, len(ends), c.Drive, rand.Uint64()); err != nil {
			return nil, err
		}
		ends[i].Bind(ctx)
	}
	h := hdrhistogram.New(1, int64(time.Second), 3)
	back := 0
	var failed error // of a handler
	err = errors.Join(
		ends[1].Handle(0, func(m *am.Message) { failed = m.Reply4(0, m.Words[0], 0, 0, 0) }),
		ends[0].Handle(0, func(*am.Message) { back++ }))
	for n := -warmUp; n < exchanges && err == nil; n++ {
		begin, was := time.Now(), back
		err = ends[0].Request4(1, 0, uint32(n), 0, 0, 0)
		for i := 1; back == was && err == nil; i = 1 - i {
			_, err = ends[i].Poll()
			err = cmp.Or(err, failed)
		}
		if n >= 0 {
			// longer than the histogram reaches is as good as its end
			_ = h.RecordValue(int64(time.Since(begin)))
		}
	}
	if err != nil {
		return nil, err
	}
	return program.RoundTrips(h), nil
}
