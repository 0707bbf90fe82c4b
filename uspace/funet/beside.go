package funet

// This file makes an endpoint beside another library that drives the card, on the same context:
// package socket. The goroutines of both are one group (package lead), so one lock guards both, and
// the leader or the keeper polls for both.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/lead"
)

// ErrBeside reports something that an endpoint cannot do beside connections (socket.Stack).
var ErrBeside = errors.New("funet: not beside connections; use an endpoint of funet.Open")

// Library is the library beside which an endpoint is opened. It calls and is called with the lock
// of the group, which has a keeper.
type Library struct {
	Group *lead.Group
	// Sweep handles what has arrived for the library, each time the card has run.
	Sweep func()
	// Back takes returned requests for remote memory.
	Back func(funi.Returned)
}

// Beside is an endpoint as the library that drives its card sees it.
type Beside struct{ *Endpoint }

// OpenBeside opens an endpoint on a card that another library drives. Of the options it uses
// OnError. Errors are those of Open.
func OpenBeside(l Library, c Carrier, p Place, o Options) (Beside, error) {
	_, end := context.WithCancelCause(context.Background())
	e, err := newEndpoint(c, l.Group, p.Node, p.Nodes, end, o.OnError)
	if err == nil {
		err = e.useMemory(0)
	}
	if err != nil {
		return Beside{}, fmt.Errorf("opening an endpoint beside connections: %w", err)
	}
	e.carrier, e.sweep = driven{c, e}, l.Sweep
	e.am.PassOn(l.Back)
	return Beside{e}, nil
}

// Poll lets the card run, handles messages that have arrived, and rouses the goroutines that wait
// for them. It reports whether there were any. The caller leads, or no goroutine does.
func (b Beside) Poll() bool {
	e := b.Endpoint
	e.enterWait()
	n := e.poll()
	e.stir()
	e.leaveWait()
	if e.inside == 0 && e.cause.Load() != nil {
		e.part()
	}
	return n > 0
}

// Pass asks nodes that owe answers whether they are still there; the library calls it now and then.
// While package am waits by itself (exclusively), that asks.
func (b Beside) Pass() {
	if b.inside > 0 && b.cause.Load() == nil && b.abort == nil {
		b.probe(context.Background())
	}
}

// driven is a card that another library drives, sleeps on and closes.
type driven struct {
	Carrier
	endpoint *Endpoint
}

// Drive does not sleep, unless package am waits by itself (exclusively).
func (d driven) Drive() {
	if d.endpoint.abort == nil {
		d.Look()
		return
	}
	d.endpoint.group.Tend()
	d.Carrier.Drive()
}

func (driven) Fd() (int, error)               { return -1, ErrBeside }
func (driven) Arm() bool                      { return false }
func (driven) Disarm()                        {}
func (driven) Watch(*funi.Watch, func()) bool { return false }
func (driven) Close(time.Duration) error      { return nil }
