package am_test

// This file tests what an endpoint refuses, and where: the rules of package am that
// keep handlers from deadlock (thesis appendix A, CMAM), the limits of messages, and
// the numbers of nodes and handlers.

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

// attempt is one way of sending or receiving from the wrong place.
type attempt struct {
	name string
	try  func(e *am.Endpoint, m *am.Message) error
}

// requests are the calls that only a main program may make; doc.go: "a request handler may only
// reply, a reply handler sends nothing".
var requests = []attempt{
	{"Request4", func(e *am.Endpoint, _ *am.Message) error { return e.Request4(0, 9, 0, 0, 0, 0) }},
	{"Request", func(e *am.Endpoint, _ *am.Message) error { return e.Request(0, 9) }},
	{"Post4", func(e *am.Endpoint, _ *am.Message) error { return e.Post4(0, 9, 0, 0, 0, 0) }},
	{"Post", func(e *am.Endpoint, _ *am.Message) error { return e.Post(0, 9, 1) }},
	{"Poll", func(e *am.Endpoint, _ *am.Message) error { _, err := e.Poll(); return err }},
	{"Wait", func(e *am.Endpoint, _ *am.Message) error { return e.Wait(func() bool { return false }) }},
	{"WaitFor", func(e *am.Endpoint, _ *am.Message) error { return e.WaitFor(0, func() bool { return false }) }},
	{"WaitFlag", func(e *am.Endpoint, _ *am.Message) error { return e.WaitFlag(0, new(int), 1) }},
	{"RequestIndirect4", func(e *am.Endpoint, _ *am.Message) error { return e.RequestIndirect4(0, 0, 0, 0, 0, 0) }},
	{"RequestIndirect", func(e *am.Endpoint, _ *am.Message) error { return e.RequestIndirect(0, 0, 1, 2, 3, 4, 5) }},
	{"Transfer", func(e *am.Endpoint, _ *am.Message) error { return e.Transfer(0, 9, block) }},
	{"TransferCounted", func(e *am.Endpoint, _ *am.Message) error {
		return e.TransferCounted(0, 9, block, new(am.Counter))
	}},
	{"Xfer4", func(e *am.Endpoint, _ *am.Message) error { return e.Xfer4(0, 0, 0, 0, 0, 0) }},
	{"Xfer", func(e *am.Endpoint, _ *am.Message) error { return e.Xfer(0, 0, make([]byte, 40)) }},
	{"Mfer", func(e *am.Endpoint, _ *am.Message) error { return e.Mfer(0, 0, segment, segment, 16) }},
	{"Get", func(e *am.Endpoint, _ *am.Message) error { return e.Get(0, segment, segment, 3, new(am.Counter)) }},
	{"Get block", func(e *am.Endpoint, _ *am.Message) error { return e.Get(0, segment, segment, 99, new(am.Counter)) }},
	{"Put", func(e *am.Endpoint, _ *am.Message) error { return e.Put(0, segment, segment, 3, new(am.Counter)) }},
	{"PutInt32", func(e *am.Endpoint, _ *am.Message) error { return e.PutInt32(0, segment, 3, new(am.Counter)) }},
	{"PutFloat64", func(e *am.Endpoint, _ *am.Message) error { return e.PutFloat64(0, segment, 3, new(am.Counter)) }},
	{"ReadInt32", func(e *am.Endpoint, _ *am.Message) error { _, err := e.ReadInt32(0, segment); return err }},
	{"ReadFloat64", func(e *am.Endpoint, _ *am.Message) error { _, err := e.ReadFloat64(0, segment); return err }},
	{"WriteInt32", func(e *am.Endpoint, _ *am.Message) error { return e.WriteInt32(0, segment, 1) }},
	{"WriteFloat64", func(e *am.Endpoint, _ *am.Message) error { return e.WriteFloat64(0, segment, 1) }},
	{"SendBytes", func(e *am.Endpoint, _ *am.Message) error { return e.SendBytes(0, 9, nil) }},
	{"PostBytes", func(e *am.Endpoint, _ *am.Message) error { return e.PostBytes(0, 9, blank[:]) }},
	{"a long SendBytes", func(e *am.Endpoint, _ *am.Message) error { return e.SendBytes(0, 9, make([]byte, 100)) }},
	{"SendList", func(e *am.Endpoint, _ *am.Message) error { return e.SendList(0, 9, blank[:], blank[:]) }},
	{"StartBytes", func(e *am.Endpoint, _ *am.Message) error {
		_, err := e.StartBytes(0, 9, make([]byte, 100), nil)
		return err
	}},
	{"ProbeSends", func(e *am.Endpoint, _ *am.Message) error { return e.ProbeSends() }},
	{"Call", func(e *am.Endpoint, _ *am.Message) error { _, err := e.Call(nil, 0, 9, nil); return err }},
	{"StartCall", func(e *am.Endpoint, _ *am.Message) error { _, err := e.StartCall(0, 9, nil, ignore); return err }},
	{"SendTag", func(e *am.Endpoint, _ *am.Message) error { return e.SendTag(0, 9, nil) }},
	{"StartSendTag", func(e *am.Endpoint, _ *am.Message) error {
		_, err := e.StartSendTag(0, 9, nil, nil)
		return err
	}},
	{"Recv", func(e *am.Endpoint, _ *am.Message) error { _, err := e.Recv(0, 9, nil); return err }},
	{"StartRecv", func(e *am.Endpoint, _ *am.Message) error { _, err := e.StartRecv(0, 9, nil, nil); return err }},
	{"Barrier", func(e *am.Endpoint, _ *am.Message) error { return e.Barrier() }},
	{"Exchange", func(e *am.Endpoint, _ *am.Message) error { _, err := e.Exchange(9, []int{0}, nil, 0, nil); return err }},
}

// block is a transfer that a node that has called shared may make.
var block = funi.Transfer{Source: segment, Destination: segment, Words: 4}

// replies are the calls that only a request handler may make, with its own message.
var replies = []attempt{
	{"Reply4", func(_ *am.Endpoint, m *am.Message) error { return m.Reply4(9, 0, 0, 0, 0) }},
	{"Reply", func(_ *am.Endpoint, m *am.Message) error { return m.Reply(9, 1, 2) }},
	{"ReplyBytes", func(_ *am.Endpoint, m *am.Message) error { return m.ReplyBytes(9, nil) }},
	{"a long ReplyBytes", func(_ *am.Endpoint, m *am.Message) error { return m.ReplyBytes(9, make([]byte, 100)) }},
	{"ReplyIndirect4", func(_ *am.Endpoint, m *am.Message) error { return m.ReplyIndirect4(0, 0, 0, 0, 0) }},
	{"ReplyIndirect", func(_ *am.Endpoint, m *am.Message) error { return m.ReplyIndirect(0, 1, 2) }},
	{"Transfer", func(_ *am.Endpoint, m *am.Message) error { return m.Transfer(9, block) }},
	{"ReplyXfer4", func(_ *am.Endpoint, m *am.Message) error { return m.ReplyXfer4(0, 0, 0, 0, 0) }},
	{"ReplyXfer", func(_ *am.Endpoint, m *am.Message) error { return m.ReplyXfer(0, make([]byte, 40)) }},
	{"ReplyMfer", func(_ *am.Endpoint, m *am.Message) error { return m.ReplyMfer(0, segment, segment, 16) }},
}

// TestHandlersMayNotSend: every call that could make a handler wait for requests, or
// a reply handler for anything, gives ErrHandler and sends nothing.
func TestHandlersMayNotSend(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		var errs []error
		refused := func(where string, list []attempt, m *am.Message) {
			for _, a := range list {
				if err := a.try(n.Endpoint, m); !errors.Is(err, am.ErrHandler) {
					errs = append(errs, fmt.Errorf("%s in %s: %v, want ErrHandler", a.name, where, err))
				}
			}
		}
		stray, done := 0, false
		_, err := shared(n, 1024)
		err = errors.Join(err,
			n.Handle(0, func(m *am.Message) {
				refused("a request handler", requests, m)
				errs = append(errs, m.Reply4(1, 0, 0, 0, 0))
				refused("a request handler that has replied", requests, m)
			}),
			n.Handle(1, func(m *am.Message) {
				refused("a reply handler", slices.Concat(requests, replies), m)
				done = true
			}),
			n.Handle(9, func(*am.Message) { stray++ }),
			n.HandleNotice(9, func(*am.Message, funi.Notice) { stray++ }),
			n.HandleBytes(9, func(*am.Message, []byte) error { stray++; return nil }),
			n.Barrier())
		if err != nil {
			return err
		}
		if n.Node() == 0 {
			if err := n.Request4(1, 0, 0, 0, 0, 0); err != nil {
				return err
			}
			if err := n.Wait(func() bool { return done }); err != nil {
				return err
			}
		}
		if err := n.Barrier(); err != nil {
			return err
		}
		if stray += int(n.Unknown()); stray != 0 {
			errs = append(errs, fmt.Errorf("%d messages were sent by calls that were refused", stray))
		}
		return errors.Join(errs...)
	})
}

// TestReplyOutsideItsHandler: a message is valid until its handler returns; a reply
// by the main program, or by a reply handler that runs while a request handler waits
// for room, is refused.
func TestReplyOutsideItsHandler(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2, Slots: 2})
	b.MustRun(func(n *bed.Node) error {
		if _, err := shared(n, 1024); err != nil {
			return err
		}
		var errs []error
		var kept *am.Message
		inside, nested, got := false, false, 0
		refuse := func(where string) {
			for _, a := range slices.Concat(replies, requests) {
				if err := a.try(n.Endpoint, kept); !errors.Is(err, am.ErrHandler) {
					errs = append(errs, fmt.Errorf("%s %s: %v, want ErrHandler", a.name, where, err))
				}
			}
		}
		err := errors.Join(
			n.Handle(0, func(m *am.Message) {
				kept, inside = m, true
				for range 50 { // far more than a queue of 2 slots holds
					errs = append(errs, m.Reply4(1, 0, 0, 0, 0))
				}
				inside = false
			}),
			n.Handle(1, func(*am.Message) {
				if got++; inside && !nested {
					nested = true
					refuse("in a reply handler inside a request handler")
				}
			}))
		if err != nil {
			return err
		}
		if err := n.Request4(1-n.Node(), 0, 0, 0, 0, 0); err != nil {
			return err
		}
		if err := n.Wait(func() bool { return got == 50 && kept != nil }); err != nil {
			return err
		}
		for _, a := range replies {
			if err := a.try(n.Endpoint, kept); !errors.Is(err, am.ErrHandler) {
				errs = append(errs, fmt.Errorf("%s by the main program: %v, want ErrHandler", a.name, err))
			}
		}
		if !nested {
			errs = append(errs,
				errors.New("no reply was handled while a request handler waited: the test tests nothing"))
		}
		return errors.Join(append(errs, n.Barrier())...)
	})
}

// TestLimits: 0 to 20 words travel, 21 are ErrWords; nodes outside 0..N-1 are
// ErrNode; what is refused is not sent.
func TestLimits(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		var errs []error
		var requested, replied [][]uint32
		err := errors.Join(
			n.Handle(0, func(m *am.Message) {
				requested = append(requested, slices.Clone(m.Words))
				errs = append(errs, m.Reply(1, m.Words...))
				if err := m.Reply(1, make([]uint32, am.MaxWords+1)...); !errors.Is(err, am.ErrWords) {
					errs = append(errs, fmt.Errorf("replying with 21 words: %v, want ErrWords", err))
				}
			}),
			n.Handle(1, func(m *am.Message) { replied = append(replied, slices.Clone(m.Words)) }))
		if err != nil {
			return err
		}
		if n.Node() == 1 {
			err := n.Wait(func() bool { return len(requested) == 2*(am.MaxWords+1) })
			return errors.Join(append(errs, err, n.Barrier())...)
		}
		words := make([]uint32, am.MaxWords+1)
		for i := range words {
			words[i] = 0xdead0000 + uint32(i)
		}
		for k := range am.MaxWords + 1 {
			errs = append(errs, n.Request(1, 0, words[:k]...), n.Post(1, 0, words[:k]...))
		}
		for name, err := range map[string]error{"Request": n.Request(1, 0, words...), "Post": n.Post(1, 0, words...)} {
			if !errors.Is(err, am.ErrWords) {
				errs = append(errs, fmt.Errorf("%s of 21 words: %v, want ErrWords", name, err))
			}
		}
		for _, node := range []int{-1, 2, 3, 1 << 16, 1<<32 + 1, -1 << 63} {
			for name, err := range map[string]error{
				"Request4": n.Request4(node, 0, 0, 0, 0, 0), "Request": n.Request(node, 0),
				"Post4": n.Post4(node, 0, 0, 0, 0, 0), "Post": n.Post(node, 0),
			} {
				if !errors.Is(err, am.ErrNode) {
					errs = append(errs, fmt.Errorf("%s to node %d: %v, want ErrNode", name, node, err))
				}
			}
		}
		if err := n.Wait(func() bool { return len(replied) == 2*(am.MaxWords+1) }); err != nil {
			return err
		}
		// Unordered on the wire, in order on this one: it loses nothing.
		for i, got := range replied {
			if want := words[:i/2]; !slices.Equal(got, want) {
				errs = append(errs, fmt.Errorf("message %d came back as %x, want %x", i, got, want))
			}
		}
		return errors.Join(append(errs, n.Barrier())...)
	})
}

// TestHandlerNumbers: 0 to 239, each once, and not nil.
func TestHandlerNumbers(t *testing.T) {
	n := bed.New(t, bed.Options{Nodes: 2}).Nodes[0]
	h := func(*am.Message) {}
	for _, number := range []uint32{0, 1, am.Handlers - 1} {
		if err := n.Handle(number, h); err != nil {
			t.Errorf("handler %d: %v", number, err)
		}
		if err := n.Handle(number, h); !errors.Is(err, am.ErrNumber) {
			t.Errorf("handler %d again: %v, want ErrNumber", number, err)
		}
	}
	for _, number := range []uint32{am.Handlers, 255, 256, 1 << 31, 1<<32 - 1} {
		if err := n.Handle(number, h); !errors.Is(err, am.ErrNumber) {
			t.Errorf("handler %d: %v, want ErrNumber", number, err)
		}
	}
	if err := n.Handle(5, nil); !errors.Is(err, am.ErrNumber) {
		t.Errorf("nil handler: %v, want ErrNumber", err)
	}
}

// TestNewRefuses: an endpoint is one of the nodes of its group, which has at most
// 65536 (a node is 16 bits, thesis 3.2.2).
func TestNewRefuses(t *testing.T) {
	for _, c := range [][2]int{{-1, 2}, {2, 2}, {0, 0}, {0, -1}, {0, 1<<16 + 1}} {
		if _, err := am.New(nil, c[0], c[1], func() {}, 0); !errors.Is(err, am.ErrNode) {
			t.Errorf("node %d of %d: %v, want ErrNode", c[0], c[1], err)
		}
	}
	for _, c := range [][2]int{{0, 1}, {1<<16 - 1, 1 << 16}} {
		if e, err := am.New(nil, c[0], c[1], func() {}, 0); err != nil || e.Node() != c[0] || e.Nodes() != c[1] {
			t.Errorf("node %d of %d: %v", c[0], c[1], err)
		}
	}
}

// TestUnknownHandlers: a message for a number without a handler is dropped and
// counted, whatever the number, and its sender hears which it was.
func TestUnknownHandlers(t *testing.T) {
	numbers := []uint32{3, am.Handlers - 1, am.Handlers, 254, 256, 1 << 20, 1<<32 - 1}
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		if n.Node() == 0 {
			for _, number := range numbers {
				if err := errors.Join(n.Request(1, number, 1, 2), n.Request4(1, number, 0, 0, 0, 0)); err != nil {
					return err
				}
			}
			list, err := lost(n, 2*len(numbers))
			if u := list[0]; err == nil && (u.Handler != numbers[0] || !errors.Is(u, am.ErrNoHandler)) {
				err = u
			}
			return errors.Join(err, n.Barrier())
		}
		if err := n.Wait(func() bool { return n.Unknown() == 2*uint64(len(numbers)) }); err != nil {
			return err
		}
		return n.Barrier()
	})
}
