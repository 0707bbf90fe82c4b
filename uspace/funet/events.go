package funet

// This file is who is in the job: nodes that die, and are started again (funet run --restart).

import (
	"context"
	"fmt"

	"github.com/funet/funet/uspace/am"
)

// Event is a node's leaving or joining: Kind (am.Left, am.Joined), Node and Life.
type Event = am.Event

// eventRoom is how many events wait in the channel. Of those that come when it is full the last of each node is kept.
const eventRoom = 256

// Events returns what happens to the nodes of the job, in the order in which this one learns of it; nothing without
// Options.Rejoin. A program that does not read it in time misses what a node was in between, and never what it has
// become. It is closed when the endpoint is.
func (e *Endpoint) Events() <-chan Event { return e.events }

// happened takes an event.
func (e *Endpoint) happened(v Event) {
	for i := range e.untold {
		if e.untold[i].Node == v.Node {
			e.untold[i] = v
			return
		}
	}
	e.untold = append(e.untold, v)
	e.tell()
}

// tell moves events to the channel, as far as it has room.
func (e *Endpoint) tell() {
	for len(e.untold) > 0 {
		select {
		case e.events <- e.untold[0]:
			e.untold = e.untold[1:]
		default:
			return
		}
	}
}

// Agree returns when all nodes of the job are there, know each other's lives, and have called it. From then on collective
// calls work again, which return ErrLeft since a node left or joined. A program calls it after an event, and when it
// begins a later life.
func (e *Endpoint) Agree(ctx context.Context) error {
	const doing = "agreeing on the nodes of the job"
	if err := e.lock(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer e.unlock()
	return e.exclusively(ctx, doing, e.am.Agree)
}

// Life returns how many processes were a node before the one that is it, as far as is known.
func (e *Endpoint) Life(node int) (int, error) {
	if err := e.lock(); err != nil {
		return 0, fmt.Errorf("looking at node %d: %w", node, err)
	}
	defer e.unlock()
	return e.am.Life(node), nil
}
