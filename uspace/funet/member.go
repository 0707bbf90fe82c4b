package funet

// This file is jobs whose nodes may die and join again (Options.Rejoin): the events, as a channel,
// and what nodes agree on.

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

// eventsKept is how many events a program may leave untaken before some are merged.
const eventsKept = 256

// events are those that the program has not taken.
type events struct {
	to     chan Event // nil: not asked for
	agreed uint32     // number of the last agreement that the group was told
	late   []Event    // for which it had no room: at most two of a node
}

// put adds an event. Of late ones a Joined and the Left that ends it tell nothing together.
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

// pass passes on late events as far as there is room.
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

// rejoin makes the endpoint a member, in a life of its node.
func (e *Endpoint) rejoin(life int) error {
	e.events.to = make(chan Event, eventsKept)
	return e.am.Rejoin(am.RejoinOptions{Life: life, Now: e.carrier.Now, Event: e.events.put})
}

// Events tells which nodes leave and join, in the order in which this node learns it, and each
// before a message of the life that has joined is handled. It is closed with the endpoint; nil
// without Options.Rejoin. A program that does not take them loses only a Joined together with the
// Left that follows it. Nothing is told while nobody calls the endpoint: a goroutine waits on it,
// in Run for example.
func (e *Endpoint) Events() <-chan Event { return e.events.to }

// Life returns how many processes were a node before the one that is it now, as far as is known; 0
// without Options.Rejoin.
func (e *Endpoint) Life(node int) (life int) {
	if e.lock() != nil {
		return 0
	}
	defer e.unlock()
	return e.am.Life(node)
}

// Present reports whether a node can be sent to, as far as is known.
func (e *Endpoint) Present(node int) bool {
	if e.lock() != nil {
		return false
	}
	defer e.unlock()
	return e.am.Present(node)
}

// Agree returns when all nodes of the job are there and have called it, and know each other's
// lives; from then on Barrier and the other collective calls work again until the next event. It
// returns at once where they work, so a program may call it before each of them. It waits for nodes
// that have left until they have joined. One that ended with its context, or with a message that
// came back, goes on where it stopped when it is called again. Errors: am.ErrRejoin without
// Options.Rejoin.
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

// sayLeave tells the others that this node ends, unless it has failed: then they find out.
func (e *Endpoint) sayLeave(ctx context.Context) {
	if e.events.to == nil || e.detach {
		return
	}
	e.enterWait()
	e.leading = true // others get their turn, and are told that the endpoint is closed
	e.am.Bind(ctx)
	_ = e.guard(e.am.Leave) // what fails here ends with the carrier
	e.am.Bind(context.Background())
	e.leading = false
	e.leaveWait()
}
