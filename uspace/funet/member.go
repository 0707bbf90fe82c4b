package funet

// This file serves jobs whose nodes may die and join again (Options.Rejoin): events, as a channel,
// and agreement among the nodes.

import (
	"context"
	"slices"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/collective"
)

// Event says that a node has left the job or joined it.
type Event = am.Event

// The kinds of events.
const (
	Left   = am.Left
	Joined = am.Joined
)

// eventsKept is how many unread events are kept before some are merged.
const eventsKept = 256

// events holds the events that the program has not read.
type events struct {
	to     chan Event // nil: not asked for
	agreed uint32     // number of the last agreement that the group was told of
	late   []Event    // events that did not fit the channel: at most two for each node
}

// put adds an event. In late, a Joined and the Left that ends it cancel out.
func (v *events) put(x Event) {
	v.pass()
	if i := slices.IndexFunc(v.late, func(y Event) bool { return y.Node == x.Node && y.Kind == Joined }); i >= 0 &&
		x.Kind == Left {
		v.late = slices.Delete(v.late, i, i+1)
		return
	}
	v.late = append(v.late, x)
	v.pass()
}

// pass moves late events into the channel as far as there is room.
func (v *events) pass() {
	for len(v.late) > 0 {
		select {
		case v.to <- v.late[0]:
			v.late = slices.Delete(v.late, 0, 1)
		default:
			return
		}
	}
}

// rejoin makes the endpoint a member, as a life of its node.
func (e *Endpoint) rejoin(life int) error {
	e.events.to = make(chan Event, eventsKept)
	return e.am.Rejoin(am.RejoinOptions{Life: life, Now: e.carrier.Now, Event: e.events.put})
}

// Events returns a channel of the nodes that leave and join, in the order in which this node learns
// it. A Joined comes before any message of that life is handled. The channel is closed with the
// endpoint, and is nil without Options.Rejoin. A program that does not read it loses only a Joined
// together with the Left that follows it. Events arrive only while some goroutine waits on the
// endpoint, for example in Run.
func (e *Endpoint) Events() <-chan Event { return e.events.to }

// Life returns how many processes were this node before its present one, as far as is known. It
// returns 0 without Options.Rejoin.
func (e *Endpoint) Life(node int) (life int) {
	if e.lock() != nil {
		return 0
	}
	defer e.unlock()
	return e.am.Life(node)
}

// Present reports whether messages can be sent to a node, as far as is known.
func (e *Endpoint) Present(node int) bool {
	if e.lock() != nil {
		return false
	}
	defer e.unlock()
	return e.am.Present(node)
}

// Agree returns when all nodes of the job are present, have called it, and know each other's lives.
// From then on Barrier and the other collective calls work again until the next event. Agree
// returns at once while they work, so a program may call it before each of them. It waits for nodes
// that have left until they have joined. If it ended with its context, or with a message that came
// back, it continues where it stopped when it is called again. Without Options.Rejoin it returns
// am.ErrRejoin.
func (e *Endpoint) Agree(ctx context.Context) error {
	const doing = "agreeing on who is there"
	return e.all(ctx, func(g *collective.Group) error {
		if err := e.lock(); err != nil {
			return err
		}
		defer e.unlock()
		return e.exclusively(ctx, doing, func() error {
			err := e.am.Agree()
			if n := e.am.Agreed(); err == nil && n != e.events.agreed {
				e.events.agreed = n
				g.Renumber(n & collective.MaxNumber)
			}
			return err
		})
	})
}

// sayLeave tells the other nodes that this node ends. A node that has failed does not; the others
// detect that by themselves.
func (e *Endpoint) sayLeave(ctx context.Context) {
	if e.events.to == nil || e.detach {
		return
	}
	e.enterWait()
	e.group.Lead() // others get their turn, and are told that the endpoint is closed
	e.am.Bind(ctx)
	_ = e.guard(e.am.Leave) // what fails here ends with the carrier
	e.am.Bind(context.Background())
	e.group.Leave()
	e.leaveWait()
}
