package funet

// This file is the one way in: where in which job this process is, and on whose card.

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
)

// Options say what to open where the environment does not, and how. The zero value is that of a program which funet run,
// mpirun or srun starts.
type Options struct {
	// Card is a card in this process, on interfaces of its own, which takes root (or the capabilities that the README
	// names); Context is not used. See Group for its peers. A card without AnyThread belongs to the goroutine that calls
	// Open, which then calls Close as well, and works for others only while that one polls.
	Card *card.Config
	// Attach is a place in a job on the card of a daemon; Context is not used. nil: the environment says it.
	Attach *attach.Config
	// Peers is the path of a peers file, and Interfaces and Node are those of this process: they make a card in this
	// process where neither Card nor Attach is given and the environment names no job.
	Peers      string
	Interfaces []string
	Node       int
	// Nodes is how many nodes the program runs on; 0: all of the group, as the peers file or the daemon says.
	Nodes int
	// Rejoin makes the process a member of a job whose nodes may die and be started again (funet run --restart), and Events
	// tell who leaves and joins; all processes of the job ask for it. Life is how many processes were this node before,
	// where neither Attach nor the environment says so.
	Rejoin bool
	Life   int
	// OnError takes errors that belong to no call: what a handler returned (*HandlerError), and that a message came back
	// whose Send had returned (*am.Undelivered). It is called as handlers are. nil: the first error of a handler ends the
	// use of the endpoint (Err), and a message that came back is the error of the next call that sends or waits.
	OnError func(error)
}

// Open takes this process's place in a job and returns its endpoint. The place is that of Options.Card or Attach; else
// that which the environment says (funet run sets it, and mpirun and srun the number of the process), on the card of the
// daemon of this host; else that of Options.Peers, Interfaces and Node.
//
// Its context ends Open only, which then returns the context's cause; opening an interface is one step. Errors are
// ErrPlace, and those of attach.Open, card.Open and cluster.Load.
func Open(ctx context.Context, o Options) (*Endpoint, error) {
	e, err := open(ctx, &o)
	if err != nil {
		return nil, fmt.Errorf("opening an endpoint: %w", err)
	}
	return e, nil
}

func open(ctx context.Context, o *Options) (_ *Endpoint, err error) {
	until, end := context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	defer func() {
		if err != nil {
			stop()
			end(err)
		}
	}()
	c, place, err := o.carrier(until)
	if err != nil {
		return nil, err
	}
	node, nodes, life := place.node, place.nodes, place.life
	if o.Nodes > nodes || o.Nodes < 0 {
		return nil, errors.Join(fmt.Errorf("a program of %d nodes in a group of %d: %w", o.Nodes, nodes, ErrNode), c.Close(0))
	}
	if o.Nodes > 0 {
		nodes = o.Nodes
	}
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // it never fails
	e, err := newEndpoint(c, node, nodes, binary.LittleEndian.Uint64(seed[:]), end, o.OnError)
	if k, ok := c.(*card.Card); ok && err == nil && k.CPU() != nil {
		e.am.Pace(k.CPU()) // a modelled machine's
	}
	if err == nil && o.Rejoin {
		err = e.rejoin(life)
	}
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close(0))
	}
	return e, nil
}

// place is which node of how many a process is, and in which life.
type place struct{ node, nodes, life int }

// carrier opens the card, whose waits end with a context.
func (o *Options) carrier(until context.Context) (Carrier, place, error) {
	switch {
	case o.Card != nil:
		return o.embedded(until, *o.Card)
	case o.Attach != nil:
		return attached(until, *o.Attach)
	case os.Getenv(attach.GIDVariable) != "":
		cfg, err := attach.Environment()
		if err != nil {
			return nil, place{}, err
		}
		return attached(until, cfg)
	case o.Peers == "" || len(o.Interfaces) == 0:
		return nil, place{}, ErrPlace
	}
	cfg, err := Group(o.Peers, o.Node, o.Interfaces)
	if err != nil {
		return nil, place{}, err
	}
	return o.embedded(until, cfg)
}

func (o *Options) embedded(until context.Context, cfg card.Config) (Carrier, place, error) {
	cfg.Context = until
	nodes := 0
	for _, p := range cfg.Peers {
		nodes = max(nodes, int(p.Node)+1)
	}
	k, err := card.Open(cfg)
	if err != nil {
		return nil, place{}, err
	}
	return k, place{int(cfg.Node), nodes, o.Life}, nil
}

func attached(until context.Context, cfg attach.Config) (Carrier, place, error) {
	cfg.Context = until
	c, err := attach.Open(cfg)
	if err != nil {
		return nil, place{}, err
	}
	return c, place{int(cfg.Node), c.Nodes(), cfg.Life}, nil
}
