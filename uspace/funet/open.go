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
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/timing"
)

// Options say what to open where the environment does not, and how. The zero value is that of a
// program which funet run, mpirun or srun starts.
type Options struct {
	// Card is a card in this process, on interfaces of its own, which takes root (or the
	// capabilities that ctl/manual/limits.md names); Context is not used. See Group for its peers.
	// A card without AnyThread belongs to the goroutine that calls Open, which then calls Close as
	// well, and works for others only while that one polls.
	Card *card.Config
	// Attach is a place in a job on the card of a daemon; Context is not used. nil: the environment
	// says it.
	Attach *attach.Config
	// Peers is the path of a peers file, and Interfaces and Node are those of this process: they
	// make a card in this process where neither Card nor Attach is given and the environment names
	// no job.
	Peers      string
	Interfaces []string
	Node       int
	// Nodes is how many nodes the program runs on; 0: all of the group, as the peers file or the
	// daemon says.
	Nodes int
	// Memory is how many bytes are for messages of more than am.ShortBytes bytes; about two thirds
	// of it can receive one message. 0 means 64 MiB with a card in this process, which become
	// memory when they are used. With the card of a daemon 0 means 4 MiB, or less where the
	// administrator allows no more. With 0, a message that is longer than that has room for gets
	// memory of its own while it arrives, up to am.MaxBytes. A daemon counts that for the user:
	// where his quota leaves none for some 15 s the sender gets ErrMemory. Negative: none, and only
	// short messages.
	Memory int
	// Rejoin makes the process a member of a job whose nodes may die and be started again (funet
	// run --restart), and Events tell who leaves and joins; all processes of the job ask for it.
	// Life is how many processes were this node before, where neither Attach nor the environment
	// says so.
	Rejoin bool
	Life   int
	// OnError takes errors that belong to no call: what a handler returned (*HandlerError), and
	// that a message came back, or that its node has no handler for it, whose Send had returned
	// (*am.Undelivered). It is called as handlers are. nil: the first error of a handler ends the
	// use of the endpoint (Err), and such a message is the error of the next call that sends or
	// waits.
	OnError func(error)
	// Remote is how much remote memory the process can open (Windows; package rats); zero: none.
	Remote funi.RemoteSizes
}

// Place is where in which job a process is.
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
// Its context ends Open only, which then returns the context's cause; opening an interface is one
// step. Errors are ErrPlace, and those of attach.Open, card.Open and cluster.Load.
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
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // it never fails
	e, err := newEndpoint(c, node, nodes, binary.LittleEndian.Uint64(seed[:]), end, o.OnError)
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
