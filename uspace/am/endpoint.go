package am

// This file is the endpoint: handlers, polling, and messages that came back.

import (
	"errors"
	"fmt"
	"math"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	// MaxWords is the most words of a message besides the handler number.
	MaxWords = funi.MaxPayloadWords - 1
	// Handlers is how many handler numbers a program has: 0 to Handlers-1.
	Handlers = 240
	// handlerTable includes the numbers that the library keeps to itself.
	handlerTable = 256

	// Packet types (thesis appendix A: cmam_tag, cmam_n_tag).
	typeFour = 0
	typeN    = 3

	// burst is how many requests are handled between two looks for replies.
	burst = 256
	// most is about how many messages one Poll handles each time that the card has run:
	// as many as a queue of the default size holds, so that what the card brings is
	// handled before it brings more, and nothing is rejected by a receiver that is fast
	// enough; and no more, so that a program that polls gets back to its work under any
	// load.
	most = 1024

	// probe is a barrier message without a round. WaitFor sends the first after so
	// many polls, some tens of milliseconds on a card in the same process, and each
	// further one after twice as many, up to the most: few wait for a node that is gone.
	probe          = math.MaxUint32
	firstProbe     = 1 << 16
	mostProbePolls = 1 << 20
)

// Errors that callers decide on.
var (
	// ErrHandler: a request handler may only reply, a reply handler send nothing.
	ErrHandler = errors.New("am: a request handler may only reply and a reply handler may not send")
	// ErrWords: a message has at most MaxWords words.
	ErrWords = errors.New("am: a message has at most 20 words")
	// ErrNumber: handler numbers are 0 to Handlers-1.
	ErrNumber = errors.New("am: handler numbers are 0 to 239, each registered once")
	// ErrNode: nodes are 0 to N-1.
	ErrNode = errors.New("am: no such node in the group")
)

// Undelivered is the error for messages that came back. It unwraps to nothing;
// compare Reason.
type Undelivered struct {
	Reason  arctic.Reason
	Level   funi.Level
	Node    uint16 // for which the first was meant
	Handler uint32 // and its handler
	// Transfer says that it was a transfer, for a notice handler.
	Transfer bool
	Count    int // messages that came back with it
}

// Error says what came back, and why.
func (u *Undelivered) Error() string {
	what := ""
	if u.Transfer {
		what = "transfer, "
	}
	s := fmt.Sprintf("%s%s to node %d (handler %d) was not delivered: %v", what, u.Level, u.Node, u.Handler, u.Reason)
	if u.Count > 1 {
		s += fmt.Sprintf(", and %d more", u.Count-1)
	}
	return s
}

// Handler runs at the receiver of a message. The message is valid until it returns.
type Handler func(m *Message)

// Message is a message as its handler sees it.
type Message struct {
	// Source is the node that sent it; the cards vouch for it.
	Source int
	// Words are the message's words, in the receive queue itself.
	Words []uint32

	endpoint *Endpoint
	level    funi.Level
}

// Endpoint is a process's active messages.
type Endpoint struct {
	iface    *funi.Interface
	drive    func()
	node     int
	nodes    int
	handlers [handlerTable]Handler
	notices  [Handlers]NoticeHandler
	message  [arctic.Levels]Message
	depth    [arctic.Levels]bool // a handler of the level is running
	barrier  barrier
	lost     uint32
	unknown  uint64
}

// New makes the endpoint of a node of a group of so many nodes on an initialised
// interface. Drive lets the card run: an embedded card's step, or a pause where
// the card runs elsewhere. New fails with ErrNode unless 0 <= node < nodes <= 65536.
func New(iface *funi.Interface, node, nodes int, drive func()) (*Endpoint, error) {
	if node < 0 || node >= nodes || nodes > 1<<16 {
		return nil, fmt.Errorf("making endpoint of node %d of %d: %w", node, nodes, ErrNode)
	}
	e := &Endpoint{iface: iface, drive: drive, node: node, nodes: nodes}
	for l := range arctic.Levels {
		e.message[l] = Message{endpoint: e, level: funi.Level(l)}
	}
	e.handlers[barrierHandler] = e.barrierArrived
	return e, nil
}

// Node returns the endpoint's own node.
func (e *Endpoint) Node() int { return e.node }

// Nodes returns how many nodes the group has.
func (e *Endpoint) Nodes() int { return e.nodes }

// Handle registers a handler; every node registers the same numbers. It must come
// before the first message for the number can arrive.
func (e *Endpoint) Handle(number uint32, h Handler) error {
	if number >= Handlers || e.handlers[number] != nil || h == nil {
		return fmt.Errorf("registering handler %d: %w", number, ErrNumber)
	}
	e.handlers[number] = h
	return nil
}

// Unknown returns how many messages arrived for numbers without a handler; they
// were dropped.
func (e *Endpoint) Unknown() uint64 { return e.unknown }

// Poll lets the card run and handles what has arrived, replies first. It returns
// how many messages were handled, and an Undelivered error if messages came back.
// It must not be called from a handler (ErrHandler).
func (e *Endpoint) Poll() (int, error) {
	if e.depth[funi.Request] || e.depth[funi.Reply] {
		return 0, fmt.Errorf("polling: %w", ErrHandler)
	}
	n := e.handleAll() // what the last drive brought; else two would fill the queue
	e.drive()
	n += e.handleAll()
	if n > 0 && e.iface.Unsent(funi.Reply) > 0 {
		e.drive() // what the handlers replied leaves now
	}
	return n, e.returned()
}

// handleAll handles what has arrived, replies first, and returns how many that were.
func (e *Endpoint) handleAll() int {
	n := 0
	for n < most {
		n += e.service(funi.Reply, most)
		some := e.service(funi.Request, burst)
		if n += some; some < burst {
			break
		}
	}
	return n
}

// Wait polls until done. It returns the first Undelivered error. It does not notice
// that a node is gone to which nothing is under way; see WaitFor.
func (e *Endpoint) Wait(done func() bool) error {
	for !done() {
		if _, err := e.Poll(); err != nil {
			return err
		}
	}
	return nil
}

// WaitFor is Wait for something that a node has yet to send. Now and then it sends that
// node a message that means nothing, which comes back if the node is gone: when
// everything sent before has been acknowledged, nothing else would tell.
func (e *Endpoint) WaitFor(node int, done func() bool) error {
	gap := firstProbe
	for left := gap; !done(); left-- {
		if _, err := e.Poll(); err != nil {
			return err
		}
		if left == 0 && !done() {
			gap = min(2*gap, mostProbePolls)
			left = gap
			if err := e.Request4(node, barrierHandler, probe, 0, 0, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// service handles the messages of one level, at most so many.
func (e *Endpoint) service(l funi.Level, most int) int {
	n := 0
	for n < most {
		s := e.iface.Receive(l)
		if s == nil {
			break
		}
		e.handle(l, s)
		e.iface.Release(l)
		n++
	}
	return n
}

// handle calls the handler of one message.
func (e *Endpoint) handle(l funi.Level, s *funi.Slot) {
	if s.Header().Transfer() {
		e.notice(l, s)
		return
	}
	words := s.Payload()
	if len(words) == 0 || words[0] >= handlerTable || e.handlers[words[0]] == nil {
		e.unknown++
		return
	}
	m := &e.message[l]
	m.Source, m.Words = int(s.Source()), words[1:]
	e.depth[l] = true
	e.handlers[words[0]](m)
	e.depth[l] = false
}

// returned reports messages that came back since the last call.
func (e *Endpoint) returned() error {
	r, ok := e.iface.NextReturn()
	if !ok {
		return nil
	}
	u := &Undelivered{Reason: r.Reason, Level: r.Level, Node: r.Header.Node(), Count: 1}
	u.Handler, u.Transfer = handlerOf(&r)
	for _, ok = e.iface.NextReturn(); ok; _, ok = e.iface.NextReturn() {
		u.Count++
	}
	lost := e.iface.ReturnsLost()
	u.Count += int(lost - e.lost)
	e.lost = lost
	return u
}
