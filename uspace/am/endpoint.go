package am

// This file defines the endpoint and its handlers.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	// MaxWords is the largest number of words of a message besides the handler number.
	MaxWords = funi.MaxPayloadWords - 1
	// Handlers is how many handler numbers a program has: 0 to Handlers-1.
	Handlers = 240
)

// Errors that callers decide on.
var (
	// ErrHandler reports that a request handler did more than reply, or that a reply handler sent.
	ErrHandler = errors.New("am: a request handler may only reply and a reply handler may not send")
	// ErrWords reports a message of more than MaxWords words.
	ErrWords = errors.New("am: a message has at most 20 words")
	// ErrNumber reports a handler number outside 0 to Handlers-1, or one registered twice.
	ErrNumber = errors.New("am: handler numbers are 0 to 239, each registered once")
	// ErrNode reports a node outside 0 to N-1.
	ErrNode = errors.New("am: no such node in the group")
)

// Handler runs at the receiver of a message. The message is valid until it returns.
type Handler func(m *Message)

// Message is a message as its handler sees it.
type Message struct {
	// Source is the node that sent the message; the cards guarantee it.
	Source int
	// Words are the message's words, in the receive queue itself.
	Words []uint32

	endpoint *Endpoint
	level    funi.Level
}

// Endpoint is a process's end of active messages: a core, and the units that send by it.
type Endpoint struct {
	core
	handlers [Handlers]Handler
	notices  [Handlers]NoticeHandler
	lost     uint32              // returns that the card could not store, as reported so far
	last     funi.Returned       // the last returned message; lost returns are described like it
	windows  func(funi.Returned) // PassOn

	objects  objects      // indirect.go
	regions  regions      // share.go
	segments segments     // segment.go
	calls    calls        // calls.go, getput.go, answer.go
	remote   remote       // remote.go, remotelong.go
	tags     tags         // tags.go, wide.go, and the files that they name
	rounds   rounds       // barrier.go, missing.go
	bytes    byteMessages // bytes.go, long.go, grant.go, pump.go, lease.go
}

// core is what the units of an endpoint share: the queues, what may be sent at the moment, and the
// waits (send.go, receive.go, cancel.go).
type core struct {
	iface   *funi.Interface
	drive   func()
	bound   *binding
	e       *Endpoint // for its Poll, and for its other units
	pace    *pace     // nil: the library takes the time that it takes
	member  *member   // nil: not asked for (Rejoin)
	node    int
	nodes   int
	message [arctic.Levels]Message
	depth   [arctic.Levels]bool // a handler of the level is running
	unknown uint64
	failed  error // of the first handler of bytes that failed, or of the node
}

// New makes the endpoint of a node, in a group of the given number of nodes, on an initialised
// interface. drive lets the card run: it is an embedded card's step, or a pause if the card runs
// elsewhere. The numbers of the endpoint's calls start from the seed. A program passes a random
// seed. Then no call takes a late answer to an earlier process of this node for its own. Virtual
// time passes a seed that is the same in each run, and different for each life of a node. New
// returns ErrNode unless 0 <= node < nodes <= 65536.
func New(iface *funi.Interface, node, nodes int, drive func(), seed uint64) (*Endpoint, error) {
	if node < 0 || node >= nodes || nodes > 1<<16 {
		return nil, fmt.Errorf("making endpoint of node %d of %d: %w", node, nodes, ErrNode)
	}
	e := &Endpoint{core: core{iface: iface, drive: drive, bound: new(binding), node: node, nodes: nodes}}
	c := &e.core
	c.e = e
	e.segments.core, e.calls.core, e.remote.core, e.tags.core, e.rounds.core, e.bytes.core = c, c, c, c, c, c
	for l := range arctic.Levels {
		e.message[l] = Message{endpoint: e, level: funi.Level(l)}
	}
	e.calls.make(MaxCalls, seed, 0)
	e.remote.make(MaxRemoteCalls, seed, 1)
	e.bytes.sends.make(MaxSends, seed, 2)
	e.bytes.grants.make(mostGrants, seed, 3)
	e.tags.sends.make(MaxTagged, seed, 4)
	e.tags.receives.make(MaxTagged, seed, 5)
	e.tags.claims.make(MaxClaims, seed, 6)
	e.tags.classes.make(seed)
	return e, nil
}

// Node returns the endpoint's own node. Any context.
func (e *Endpoint) Node() int { return e.node }

// Nodes returns how many nodes the group has. Any context.
func (e *Endpoint) Nodes() int { return e.nodes }

// Handle registers a handler; every node registers the same numbers. It must come before the first
// message for the number can arrive. Any context; it sends nothing. ErrNumber reports a number
// above Handlers-1 or taken, or a nil handler.
func (e *Endpoint) Handle(number uint32, h Handler) error {
	if number >= Handlers || e.handlers[number] != nil || h == nil {
		return fmt.Errorf("registering handler %d: %w", number, ErrNumber)
	}
	e.handlers[number] = h
	return nil
}

// Unknown returns how many messages were dropped because nothing here takes them. They were for
// numbers without a handler, for objects and segments that do not exist or are too small, or of an
// unknown type. Any context.
func (e *Endpoint) Unknown() uint64 { return e.unknown }
