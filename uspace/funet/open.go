package funet

// This file opens an endpoint: it determines the job, this process's place in it, and the card.

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/lead"
	"github.com/funet/funet/uspace/timing"
)

// Options say what to open where the environment does not, and how. The zero value suits a program
// that funet run, mpirun or srun starts.
type Options struct {
	// Card configures a card in this process, on interfaces of its own. It takes root, or the
	// capabilities that ctl/manual/limits.md names. Context is not used. See Group for its peers. A
	// card without AnyThread belongs to the goroutine that calls Open, which also calls Close. Such
	// a card works for other goroutines only while that one polls.
	Card *card.Config
	// Attach is a place in a job on the card of a daemon; Context is not used. nil: the environment
	// gives the place.
	Attach *attach.Config
	// Peers is the path of a peers file; Interfaces and Node are those of this process. They
	// configure a card in this process, if neither Card nor Attach is given and the environment
	// names no job.
	Peers      string
	Interfaces []string
	Node       int
	// Nodes is how many nodes the program runs on; 0: all of the group, as given by the peers file
	// or the daemon.
	Nodes int
	// Memory is how many bytes are reserved for messages of more than am.ShortBytes bytes. One
	// message may use up to about two thirds of it at its receiver. Negative: no memory, so only
	// short messages.
	//
	// 0 means 64 MiB with a card in this process, which occupy memory only when used. With the card
	// of a daemon 0 means 4 MiB, or less if the administrator allows no more. With 0, a message too
	// long for that memory gets memory of its own while it arrives, up to am.MaxBytes. A daemon
	// charges that to the user's quota. If the quota has no room for some 15 s, the sender gets
	// ErrMemory.
	Memory int
	// Rejoin makes the process a member of a job whose nodes may die and be started again (funet
	// run --restart). Events then reports which nodes leave and join. All processes of the job set
	// it. Life is how many processes were this node before; it is used if neither Attach nor the
	// environment gives it.
	Rejoin bool
	Life   int
	// OnError takes errors that belong to no call. One is the error of a handler (*HandlerError).
	// Another is a message whose Send had returned, and that came back or found no handler
	// (*am.Undelivered). OnError is called as handlers are. If it is nil, the first error of a
	// handler makes the endpoint unusable (Err), and the next call that sends or waits returns the
	// *am.Undelivered.
	OnError func(error)
	// Remote is how much remote memory the process can open (Windows; package rats); zero: none.
	Remote funi.RemoteSizes
}

// Place identifies a job and the process's position in it.
type Place struct {
	Node, Nodes int
	Life        int // processes that were the node before
	GID         uint16
	Token       [32]byte // the job's secret; zero where it has none
}

// Open takes this process's place in a job and returns its endpoint. Options.Card or Attach gives
// the place if one of them is set. Otherwise the environment gives it, on the card of the daemon of
// this host: funet run sets the environment, mpirun and srun the number of the process. Without
// such an environment Options.Peers, Interfaces and Node give the place.
//
// The context bounds Open only. When it ends, Open returns the context's cause; opening an
// interface is one step that it does not interrupt. Errors are ErrPlace, and those of attach.Open,
// card.Open and cluster.Load.
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
	c, place, err := o.Carrier(until)
	if err != nil {
		return nil, err
	}
	node, nodes, life := place.Node, place.Nodes, place.Life
	if o.Nodes > nodes || o.Nodes < 0 {
		return nil, errors.Join(fmt.Errorf("a program of %d nodes in a group of %d: %w", o.Nodes, nodes, ErrNode),
			c.Close(0))
	}
	if o.Nodes > 0 {
		nodes = o.Nodes
	}
	e, err := newEndpoint(c, lead.New(c), node, nodes, end, o.OnError)
	if k, ok := c.(*card.Card); ok && err == nil && k.CPU() != nil {
		if !k.CPU().PricesMessages() {
			return nil, errors.Join(timing.ErrMessages, c.Close(0))
		}
		e.am.Pace(k.CPU()) // a modelled machine's
	}
	if err == nil && o.Rejoin {
		err = e.rejoin(life)
	}
	if err == nil {
		err = e.useMemory(o.Memory)
	}
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close(0))
	}
	return e, nil
}

// Carrier opens the card alone, for libraries that need no endpoint; its waits end with a context.
// Errors are those of Open.
func (o *Options) Carrier(until context.Context) (Carrier, Place, error) {
	switch {
	case o.Card != nil:
		return o.embedded(until, *o.Card)
	case o.Attach != nil:
		return o.attached(until, *o.Attach)
	case os.Getenv(attach.GIDVariable) != "":
		cfg, err := attach.Environment()
		if err != nil {
			return nil, Place{}, err
		}
		return o.attached(until, cfg)
	case o.Peers == "" || len(o.Interfaces) == 0:
		return nil, Place{}, ErrPlace
	}
	cfg, err := Group(o.Peers, o.Node, o.Interfaces)
	if err != nil {
		return nil, Place{}, err
	}
	return o.embedded(until, cfg)
}

func (o *Options) embedded(until context.Context, cfg card.Config) (Carrier, Place, error) {
	cfg.Context = until
	if o.Remote != (funi.RemoteSizes{}) {
		cfg.Remote = o.Remote
	}
	nodes := 0
	for _, p := range cfg.Peers {
		nodes = max(nodes, int(p.Node)+1)
	}
	k, err := card.Open(cfg)
	if err != nil {
		return nil, Place{}, err
	}
	return k, Place{Node: int(cfg.Node), Nodes: nodes, Life: o.Life, GID: cfg.GID, Token: cfg.Token}, nil
}

func (o *Options) attached(until context.Context, cfg attach.Config) (Carrier, Place, error) {
	cfg.Context = until
	if o.Remote != (funi.RemoteSizes{}) {
		cfg.Remote = o.Remote
	}
	c, err := attach.Open(cfg)
	if errors.Is(err, attach.ErrCarriage) {
		return o.direct(until, cfg)
	}
	if err != nil {
		return nil, Place{}, err
	}
	return c, Place{Node: int(cfg.Node), Nodes: c.Nodes(), Life: cfg.Life, GID: cfg.GID, Token: cfg.Token}, nil
}
