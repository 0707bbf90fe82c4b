package am_test

// This file tests calls: that each is answered once with what its handler found, how errors travel,
// and that nothing is left of a call that was cancelled (package am, remote.go).

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	typeCall   = 24
	typeAnswer = 25
)

// turned returns bytes backwards, in memory of its own.
func turned(b []byte) []byte {
	r := make([]byte, len(b))
	for i := range b {
		r[len(b)-1-i] = b[i]
	}
	return r
}

// numbers are n bytes that tell where they belong.
func numbers(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i + 1)
	}
	return b
}

// served runs a program on node 0 of some and lets the others answer its calls until it ends.
func served(t *testing.T, o bed.Options, register func(n *bed.Node) error, program func(n *bed.Node) error) *bed.Bed {
	t.Helper()
	b := bed.New(t, o)
	b.MustRun(func(n *bed.Node) error {
		if err := errors.Join(register(n), n.Barrier()); err != nil {
			return err
		}
		if n.Node() == 0 {
			if err := program(n); err != nil {
				return err
			}
		}
		return n.Barrier()
	})
	return b
}

// TestCall: requests and answers of each length arrive as they were, also an answer that is the
// request or a part of it; the answer is appended.
func TestCall(t *testing.T) {
	served(t, bed.Options{Nodes: 2}, func(n *bed.Node) error {
		return errors.Join(
			n.HandleCall(0, func(m *am.Message, b []byte) ([]byte, error) { return b, nil }),
			n.HandleCall(1, func(m *am.Message, b []byte) ([]byte, error) { return turned(b), nil }),
			n.HandleCall(am.Handlers-1, func(m *am.Message, b []byte) ([]byte, error) { return b[len(b)/2:], nil }))
	}, func(n *bed.Node) error {
		for size := range am.ShortCall + 1 {
			b := numbers(size)
			for handler, want := range map[uint32][]byte{0: b, 1: turned(b), am.Handlers - 1: b[size/2:]} {
				for _, node := range []int{1, 0} { // a node may call itself
					got, err := n.Call([]byte("answer "), node, handler, b)
					if err != nil || !bytes.Equal(got, append([]byte("answer "), want...)) {
						return fmt.Errorf("handler %d of node %d with %d bytes answered %x: %w", handler,
							node, size, got, err)
					}
				}
			}
		}
		if got, err := n.Call(nil, 1, 0, nil); got != nil || err != nil {
			t.Errorf("a call of nothing answered %x, %v", got, err)
		}
		return nil
	})
}

// TestCallRefuses: what cannot be called is refused before anything is sent.
func TestCallRefuses(t *testing.T) {
	e, card := bare(t)
	h := func(*am.Message, []byte) ([]byte, error) { return nil, nil }
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"node -1", second(e.Call(nil, -1, 0, nil)), am.ErrNode},
		{"node 3 of 3", second(e.Call(nil, 3, 0, nil)), am.ErrNode},
		{"starting node 3 of 3", second(e.StartCall(3, 0, nil, ignore)), am.ErrNode},
		{"handler 240", second(e.Call(nil, 1, am.Handlers, nil)), am.ErrNumber},
		{"one byte more than without memory", second(e.Call(nil, 1, 0, make([]byte, am.ShortCall+1))), am.ErrNoMemory},
		{"registering handler 240", e.HandleCall(am.Handlers, h), am.ErrNumber},
		{"registering no handler", e.HandleCall(1, nil), am.ErrNumber},
		{"registering handler 2 once", e.HandleCall(2, h), nil},
		{"and twice", e.HandleCall(2, h), am.ErrNumber},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.err, c.want)
		}
	}
	if n := card.Pending(funi.Request); n != 0 || e.CallsUnderWay() != 0 {
		t.Errorf("%d messages were sent, and %d calls are under way", n, e.CallsUnderWay())
	}
}

// second returns an error.
func second[T any](_ T, err error) error { return err }

// coded is an error with a code of the program's own.
type coded uint32

func (c coded) Error() string { return fmt.Sprint("number ", uint32(c)) }
func (c coded) Code() uint32  { return uint32(c) }

// TestCallErrors: an error of the handler arrives with code and text, and errors.Is tells the
// library's own.
func TestCallErrors(t *testing.T) {
	long := strings.Repeat("é", am.ShortErrorText) // of two bytes
	answers := []struct {
		answer []byte
		err    error
		code   uint32
		text   string
		is     error
	}{
		{nil, errors.New("no such word"), am.CodeError, "no such word", nil},
		{nil, errors.New(""), am.CodeError, "", nil},
		{[]byte("answer"), errors.New("counts more than an answer"), am.CodeError, "counts more than an answer", nil},
		{nil, coded(am.FirstCode), am.FirstCode, "number 256", nil},
		{nil, fmt.Errorf("looking: %w", coded(1<<32-1)), 1<<32 - 1, "looking: number 4294967295", nil},
		{nil, coded(am.FirstCode - 1), am.CodeError, "number 255", nil},
		{nil, fmt.Errorf("at: %w", am.ErrMemory), 4, "at: " + am.ErrMemory.Error(), am.ErrMemory},
		{nil, am.ErrLeaving, 5, "am: the node is leaving", am.ErrLeaving},
		{nil, errors.New(long), am.CodeError, long[:am.ShortErrorText&^1], nil},
		{nil, errors.New("x" + long), am.CodeError, ("x" + long)[:(am.ShortErrorText-1)&^1+1], nil},
		{nil, errors.New("\xff\xfe"), am.CodeError, `"\xff\xfe"`, nil},
		{make([]byte, am.MaxCall+1), nil, 7, fmt.Sprintf("an answer of %d bytes is too long", am.MaxCall+1),
			am.ErrLong},
	}
	served(t, bed.Options{Nodes: 2}, func(n *bed.Node) error {
		return n.HandleCall(3, func(m *am.Message, b []byte) ([]byte, error) {
			return answers[b[0]].answer, answers[b[0]].err
		})
	}, func(n *bed.Node) error {
		for i, c := range answers {
			got, err := n.Call([]byte("as it was"), 1, 3, []byte{byte(i)})
			var r *am.RemoteError
			if !errors.As(err, &r) || *r != (am.RemoteError{Node: 1, Handler: 3, Code: c.code, Text: c.text}) ||
				!utf8.ValidString(r.Text) {
				t.Errorf("%v arrived as %#v", c.err, err)
				continue
			}
			if c.is != nil && !errors.Is(err, c.is) || errors.Is(err, am.ErrNoHandler) ||
				strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "handler 3 on node 1") {
				t.Errorf("%v arrived as %v", c.err, err)
			}
			if string(got) != "as it was" {
				t.Errorf("with the error %v the answer %q was returned", err, got)
			}
		}
		_, err := n.Call(nil, 1, 9, nil)
		var r *am.RemoteError
		if !errors.As(err, &r) || !errors.Is(err, am.ErrNoHandler) || r.Handler != 9 ||
			!strings.Contains(err.Error(), "no such handler") {
			t.Errorf("a call without a handler ended with %v", err)
		}
		return nil
	})
}

// TestCallPanics: a handler that panics ends its caller's call with an error; the panic is the
// program's that has the handler.
func TestCallPanics(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	var caught any
	b.MustRun(func(n *bed.Node) (err error) {
		if err := errors.Join(n.HandleCall(0, func(*am.Message, []byte) ([]byte, error) { panic("at the disco") }),
			n.Barrier()); err != nil {
			return err
		}
		if n.Node() == 1 {
			defer func() {
				if r := recover(); r == bed.ErrKilled {
					panic(r)
				} else {
					caught = r
				}
			}()
			return n.Wait(func() bool { return false })
		}
		if _, err := n.Call(nil, 1, 0, nil); !errors.Is(err, am.ErrPanicked) {
			t.Errorf("the call ended with %v", err)
		}
		return nil
	})
	if caught != "at the disco" {
		t.Errorf("the program caught %v", caught)
	}
}

// TestManyRemoteCalls: all nodes have as many calls under way to all others as there may be, over a
// network that loses, duplicates and reorders; each is answered once with its own answer, and one
// more waits.
func TestManyRemoteCalls(t *testing.T) {
	const calls = 3 * am.MaxRemoteCalls / 2
	b := bed.New(t, bed.Options{Nodes: 3, Slots: 64, Net: wire.Config{Seed: 3, Faults: faults}, Limit: 5 * time.Minute})
	b.MustRun(func(n *bed.Node) error {
		err := errors.Join(n.HandleCall(0, func(m *am.Message, b []byte) ([]byte, error) {
			if b[0]%7 == 0 {
				return nil, coded(am.FirstCode + uint32(b[0]))
			}
			return fmt.Append(nil, m.Source, " ", string(b[1:])), nil
		}), n.Barrier())
		if err != nil {
			return err
		}
		ended, most := 0, 0
		seen := make([]int, calls)
		for i := range calls {
			text := fmt.Append([]byte{byte(i)}, i)
			_, err := n.StartCall((n.Node()+1+i%2)%3, 0, text, func(answer []byte, err error) {
				ended++
				seen[i]++
				var r *am.RemoteError
				if byte(i)%7 == 0 {
					if !errors.As(err, &r) || r.Code != am.FirstCode+uint32(byte(i)) {
						t.Errorf("call %d ended with %q, %v", i, answer, err)
					}
				} else if want := fmt.Sprint(n.Node(), " ", i); err != nil || string(answer) != want {
					t.Errorf("call %d ended with %q, %v", i, answer, err)
				}
			})
			if err != nil {
				return err
			}
			if most = max(most, n.CallsUnderWay()); i+1-ended != n.CallsUnderWay() {
				return fmt.Errorf("%d calls are under way, and %d of %d have ended", n.CallsUnderWay(), ended, i+1)
			}
			clear(text) // it is the program's again
		}
		if err := n.Wait(func() bool { return ended >= calls }); err != nil {
			return err
		}
		for i, times := range seen {
			if times != 1 {
				t.Errorf("call %d ended %d times", i, times)
			}
		}
		if most > am.MaxRemoteCalls {
			t.Errorf("%d calls were under way", most)
		}
		return n.Barrier()
	})
}

// TestCallsToTheDead: calls to a node that dies end with Undelivered, the one that waits and those
// that were started; others go on.
func TestCallsToTheDead(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 3})
	b.At(time.Millisecond, func() { b.Nodes[1].Kill() })
	errs := b.Run(func(n *bed.Node) error {
		stop := false
		err := errors.Join(
			n.HandleCall(0, func(m *am.Message, b []byte) ([]byte, error) { return b, nil }),
			n.Handle(1, func(*am.Message) { stop = true }),
			n.Barrier())
		if err != nil || n.Node() > 0 {
			return errors.Join(err, n.Wait(func() bool { return stop }))
		}
		until := n.Now() + int64(2*time.Millisecond)
		if err := n.Wait(func() bool { return n.Now() > until }); err != nil {
			return err
		}
		var started []error
		var u *am.Undelivered
		for range 5 {
			if _, err := n.StartCall(1, 0, nil, func(_ []byte, err error) {
				started = append(started, err)
			}); err != nil {
				return err
			}
		}
		if _, err := n.Call(nil, 1, 0, nil); !errors.As(err, &u) || u.Node != 1 {
			t.Errorf("the call ended with %v", err)
		}
		for len(started) < 5 {
			if _, err := n.Poll(); err != nil && !errors.As(err, &u) {
				return err
			}
		}
		for _, err := range started {
			if !errors.As(err, &u) || u.Node != 1 {
				t.Errorf("a call that was started ended with %v", err)
			}
		}
		for {
			answer, err := n.Call(nil, 2, 0, []byte("still here"))
			if errors.As(err, &u) {
				continue // of messages before
			}
			if err != nil || string(answer) != "still here" {
				t.Errorf("node 2 answered %q, %v", answer, err)
			}
			return n.Request4(2, 1, 0, 0, 0, 0)
		}
	})
	if errs[0] != nil || errs[2] != nil {
		t.Error(errs)
	}
}

// TestAnsweredByADeadNode: a node that has the request and dies before it answers is found by the
// caller's probes.
func TestAnsweredByADeadNode(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2, Limit: 40 * time.Second})
	errs := b.Run(func(n *bed.Node) error {
		err := errors.Join(n.HandleCall(0, func(*am.Message, []byte) ([]byte, error) {
			b.At(0, b.Nodes[1].Kill)
			for {
				n.Pause(int64(time.Hour))
			}
		}), n.Barrier())
		if err != nil || n.Node() == 1 {
			return errors.Join(err, n.Wait(func() bool { return false }))
		}
		return second(n.Call(nil, 1, 0, nil))
	})
	var u *am.Undelivered
	if !errors.As(errs[0], &u) || u.Node != 1 {
		t.Errorf("the call ended with %v", errs[0])
	}
}

// sent returns the last message of a level that was sent.
func sent(card *funi.Card, l funi.Level) *funi.Slot { return card.Slot(l, card.Pending(l)-1) }

// TestCancelledCall: a call that is cancelled ends at once, and its answer, when it comes, finds
// nothing: not the call that has its place then, either.
func TestCancelledCall(t *testing.T) {
	e, card := bare(t)
	var ends []string
	start := func(name string) (am.ID, uint32) {
		id, err := e.StartCall(1, 0, []byte(name), func(answer []byte, err error) {
			ends = append(ends, fmt.Sprint(name, " ", string(answer), " ", err))
		})
		if err != nil {
			t.Fatal(err)
		}
		return id, sent(card, funi.Request)[funi.PayloadWord]
	}
	answer := func(ticket uint32, b string) {
		arrive(t, e, card, funi.Reply, 1, funi.NewHeader(0, typeAnswer, 3),
			[]uint32{ticket, 0, uint32(b[0]) * 0x01010101})
	}
	first, ticket := start("first")
	if !e.Cancel(first) || len(ends) != 1 || ends[0] != "first  "+am.ErrCancelled.Error() || e.CallsUnderWay() != 0 {
		t.Fatalf("after Cancel %q", ends)
	}
	if e.Cancel(first) || e.Cancel(0) || e.Cancel(^am.ID(0)) {
		t.Error("what is not under way was cancelled")
	}
	_, again := start("second")
	if again&0xfff != ticket&0xfff || again == ticket {
		t.Fatalf("tickets %#x and %#x: the test tests nothing", ticket, again)
	}
	answer(ticket, "xxxx")
	if len(ends) != 1 || e.CallsUnderWay() != 1 {
		t.Fatalf("after a late answer %q", ends)
	}
	answer(again, "yyyy")
	answer(again, "zzzz")
	if len(ends) != 2 || ends[1] != "second yyyy <nil>" || e.CallsUnderWay() != 0 || e.Unknown() != 0 {
		t.Errorf("after the answer %q; %d messages for nobody", ends, e.Unknown())
	}
}

// TestCancelInsideAnEnd: what a call does when it ends may cancel another; it may not send.
func TestCancelInsideAnEnd(t *testing.T) {
	e, card := bare(t)
	var ends []error
	other, err := e.StartCall(1, 0, nil, func(_ []byte, err error) { ends = append(ends, err) })
	if err != nil {
		t.Fatal(err)
	}
	one, err := e.StartCall(1, 0, nil, func(_ []byte, err error) {
		ends = append(ends, err)
		if !e.Cancel(other) {
			t.Error("the other call was not under way")
		}
		for name, err := range map[string]error{"StartCall": second(e.StartCall(1, 0, nil, ignore)),
			"Poll": second(e.Poll()), "Request": e.Request(1, 0)} {
			if !errors.Is(err, am.ErrHandler) {
				t.Errorf("%s at the end of a call: %v", name, err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	n := card.Pending(funi.Request)
	if e.Cancel(one); len(ends) != 2 || !errors.Is(ends[0], am.ErrCancelled) || !errors.Is(ends[1], am.ErrCancelled) ||
		card.Pending(funi.Request) != n {
		t.Errorf("they ended with %v", ends)
	}
	if _, err := e.StartCall(1, 0, nil, ignore); err != nil {
		t.Errorf("after an end: %v", err)
	}
}

// TestLostAnswer: a node whose answer comes back tells the caller so, once there is room; not a
// caller that is gone, and not again when that comes back, too. The caller's call ends with
// ErrLost.
func TestLostAnswer(t *testing.T) {
	e, card := bare(t)
	came := func(l funi.Level, reason arctic.Reason, node uint16, ticket uint32) {
		card.Return(funi.Returned{Reason: reason, Level: l, Header: funi.NewHeader(node, typeAnswer, 2), Word: ticket})
	}
	for e.Post(1, 0) == nil && card.Pending(funi.Request) < benchSlots-1 { // no room
	}
	came(funi.Reply, arctic.ReasonUnknownKind, 1, 71)
	came(funi.Reply, arctic.ReasonSilent, 2, 72)
	came(funi.Request, arctic.ReasonUnknownKind, 1, 73)
	if _, err := e.Poll(); err == nil {
		t.Error("what came back is not told")
	}
	for range 2 {
		if _, err := e.Poll(); err != nil {
			t.Fatal(err)
		}
	}
	card.Retire(funi.Request, card.Pending(funi.Request))
	card.Publish()
	for range 2 {
		if _, err := e.Poll(); err != nil {
			t.Fatal(err)
		}
	}
	if n := card.Pending(funi.Request); n != 1 {
		t.Fatalf("%d callers are told, want 1", n)
	}
	s := sent(card, funi.Request)
	if s.Header() != funi.NewHeader(1, typeAnswer, 2) || s[1] != 71 {
		t.Fatalf("told is %x", s[:4])
	}

	caller, its := bare(t)
	var end error
	if _, err := caller.StartCall(1, 4, nil, func(_ []byte, err error) { end = err }); err != nil {
		t.Fatal(err)
	}
	arrive(t, caller, its, funi.Request, 1, funi.NewHeader(0, typeAnswer, 2),
		[]uint32{sent(its, funi.Request)[1], s[2]})
	if !errors.Is(end, am.ErrLost) {
		t.Errorf("the call ended with %v", end)
	}
}

// TestCallIsAnsweredOncePerRequest: the answer has the ticket of its request and goes to who sent
// that; what has the form of no call is dropped.
func TestCallIsAnsweredOncePerRequest(t *testing.T) {
	e, card := bare(t)
	runs := 0
	if err := e.HandleCall(5, func(m *am.Message, b []byte) ([]byte, error) {
		runs++
		return fmt.Append(nil, m.Source, len(b)), nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		level funi.Level
		words []uint32
		runs  int
	}{
		{funi.Request, []uint32{9, 5}, 1},
		{funi.Request, []uint32{9, 5, 0}, 1},
		{funi.Request, []uint32{9, 5 | 3<<8, 0}, 1},
		{funi.Request, []uint32{9, 5 | 1<<8}, 0}, // less than no bytes
		{funi.Request, []uint32{9}, 0},
		{funi.Request, nil, 0},
		{funi.Reply, []uint32{9, 5}, 0}, // which nothing could answer
		{funi.Request, []uint32{9, 250}, 0},
	} {
		before := runs
		arrive(t, e, card, c.level, 2, funi.NewHeader(0, typeCall, len(c.words)), c.words)
		if runs-before != c.runs {
			t.Errorf("%x at level %v ran %d handlers", c.words, c.level, runs-before)
		}
	}
}
