package am_test

// This file tests cancellation: every call that waits ends when the context ends that the
// endpoint is bound to (Endpoint.Bind). The card of these tests does nothing at all, so
// whatever waits would wait for ever.

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

// stuckAfter is how long after the end of its context a call may wait before it counts as
// stuck; a machine that is busy with other things is given time.
const stuckAfter = 30 * time.Second

// cancelledAfter is how often the card is let run before the context ends: long enough for a
// call to be in its wait, and for one that waits for a node to have sent a probe.
const cancelledAfter = 70_000

// errAsked is why the contexts of these tests end.
var errAsked = errors.New("the user asked for it")

// deaf is node 0 of three on a card that is let run and does nothing, but ends the context
// after a while. Queues have four slots.
type deaf struct {
	*am.Endpoint
	card    *funi.Card
	drives  int
	cancel  context.CancelCauseFunc
	since   time.Time
	counter am.Counter
	place   am.Place
	paced   bool
}

// newDeaf makes one with shared memory and an open segment, bound to a context.
func newDeaf(t *testing.T) *deaf {
	t.Helper()
	memory, err := funi.NewMemory(4)
	if err != nil {
		t.Fatal(err)
	}
	iface, err := funi.Initialize(memory)
	if err != nil {
		t.Fatal(err)
	}
	d := &deaf{}
	if d.card, err = funi.Attach(memory); err != nil {
		t.Fatal(err)
	}
	if d.Endpoint, err = am.New(iface, 0, 3, d.drive, 0); err != nil {
		t.Fatal(err)
	}
	know := func(funi.Segment) error { return nil }
	if err := d.Share(know, funi.Segment{Base: segment, Memory: make([]byte, 1<<16),
		Rights: funi.Source | funi.Destination}); err != nil {
		t.Fatal(err)
	}
	if d.place, err = d.OpenSegment(segment, 1<<16, nil, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	d.cancel = cancel
	d.Bind(ctx)
	return d
}

// drive is the card.
func (d *deaf) drive() {
	switch d.drives++; {
	case d.drives < cancelledAfter:
	case d.drives == cancelledAfter:
		d.since = time.Now()
		d.cancel(errAsked)
	case d.drives%1024 == 0 && time.Since(d.since) > stuckAfter:
		panic(fmt.Sprintf("still waiting %v after the end of the context", stuckAfter))
	default:
		runtime.Gosched() // to the goroutine that sets the flag
	}
}

// until calls until an error comes: a call that fits into the queue does not wait.
func until(call func() error) error {
	for {
		if err := call(); err != nil {
			return err
		}
	}
}

// in runs a request handler that calls until an error comes, and returns it.
func (d *deaf) in(call func(m *am.Message) error) (err error) {
	if e := d.Handle(7, func(m *am.Message) { err = until(func() error { return call(m) }) }); e != nil {
		return e
	}
	s := d.card.Vacant(funi.Request)
	s.SetHeader(funi.NewHeader(0, 0, 5))
	s[funi.PayloadWord], s[funi.SourceWord] = 7, 1
	d.card.Deliver(funi.Request)
	d.card.Publish()
	if _, e := d.Poll(); !errors.Is(e, am.ErrCancelled) {
		return fmt.Errorf("the poll that ran the handler: %w", e)
	}
	return err
}

// waits are all calls that wait, by name: those of an endpoint, and those of a message with
// "Message." before it.
func waits() map[string]func(*deaf) error {
	none := func() bool { return false }
	words := make([]uint32, am.MaxWords)
	block := funi.Transfer{Source: segment, Destination: segment, Words: 32}
	value := func(_ any, err error) error { return err }
	return map[string]func(*deaf) error{
		"Poll":     func(d *deaf) error { return until(func() error { return value(d.Poll()) }) },
		"Wait":     func(d *deaf) error { return d.Wait(none) },
		"WaitFor":  func(d *deaf) error { return d.WaitFor(1, none) },
		"WaitFlag": func(d *deaf) error { return d.WaitFlag(1, new(int), 1) },
		"Barrier":  func(d *deaf) error { return d.Barrier() },
		"Agree": func(d *deaf) error {
			if d.paced { // modelled machines have no lives
				return d.Barrier()
			}
			return errors.Join(d.Rejoin(am.RejoinOptions{Life: 1, Now: func() int64 { return 0 }}), d.Agree())
		},
		"Leave": func(d *deaf) error {
			if d.paced {
				return d.Barrier()
			}
			if err := d.Rejoin(am.RejoinOptions{Now: func() int64 { return 0 }}); err != nil {
				return err
			}
			return until(d.Leave)
		},
		"Exchange":     func(d *deaf) error { return value(d.Exchange(1, []int{1, 2}, nil, 1, nil)) },
		"ReadInt32":    func(d *deaf) error { return value(d.ReadInt32(1, segment)) },
		"ReadFloat64":  func(d *deaf) error { return value(d.ReadFloat64(1, segment)) },
		"WriteInt32":   func(d *deaf) error { return d.WriteInt32(1, segment, 1) },
		"WriteFloat64": func(d *deaf) error { return d.WriteFloat64(1, segment, 1) },
		"WaitCounter": func(d *deaf) error {
			if err := d.Get(1, segment, segment, 1, &d.counter); err != nil {
				return err
			}
			return d.WaitCounter(&d.counter, 1)
		},
		"Get": func(d *deaf) error {
			return until(func() error { return d.Get(1, segment, segment, 100, &d.counter) })
		},
		"Put": func(d *deaf) error {
			return until(func() error { return d.Put(1, segment, segment, 100, &d.counter) })
		},
		"one more call than there may be": func(d *deaf) error {
			return until(func() error {
				err := d.PutInt32(1, segment, 1, &d.counter)
				// there is room, and no answer
				d.card.Retire(funi.Request, d.card.Pending(funi.Request))
				d.card.Publish()
				return err
			})
		},
		"SendBytes": func(d *deaf) error { return until(func() error { return d.SendBytes(1, 0, blank[:]) }) },
		"a long SendBytes": func(d *deaf) error {
			return errors.Join(anyMemory(d.Endpoint), d.SendBytes(1, 0, make([]byte, 1000)))
		},
		"SendList": func(d *deaf) error {
			return errors.Join(anyMemory(d.Endpoint), d.SendList(1, 0, blank[:], make([]byte, 1000)))
		},
		"StartBytes": func(d *deaf) error {
			if err := anyMemory(d.Endpoint); err != nil {
				return err
			}
			return until(func() error { return value(d.StartBytes(1, 0, make([]byte, 1000), nil)) })
		},
		"StartList": func(d *deaf) error {
			if err := anyMemory(d.Endpoint); err != nil {
				return err
			}
			return until(func() error { return value(d.StartList(1, 0, [][]byte{make([]byte, 1000), blank[:]}, nil)) })
		},
		"ProbeSends": func(d *deaf) error {
			err := errors.Join(anyMemory(d.Endpoint), value(d.StartBytes(1, 0, make([]byte, 1000), nil)))
			return errors.Join(err, until(func() error { return d.ProbeSends() }))
		},
		"PostBytes": func(d *deaf) error { return until(func() error { return d.PostBytes(1, 0, blank[:16]) }) },
		"Message.ReplyBytes": func(d *deaf) error {
			return d.in(func(m *am.Message) error { return m.ReplyBytes(0, blank[:]) })
		},
		"Call": func(d *deaf) error { return value(d.Call(nil, 1, 0, blank[:])) },
		"StartCall": func(d *deaf) error {
			return until(func() error { return value(d.StartCall(1, 0, blank[:], ignore)) })
		},
		"ProbeCalled": func(d *deaf) error {
			return until(func() error { return errors.Join(value(d.StartCall(1, 0, nil, ignore)), d.ProbeCalled()) })
		},
		"SendTag":  func(d *deaf) error { return d.SendTag(1, 0, make([]byte, 1000)) },
		"Recv":     func(d *deaf) error { return value(d.Recv(1, 0, nil)) },
		"Recv any": func(d *deaf) error { return value(d.Recv(am.AnySource, am.AnyTag, nil)) },
		"StartSendTag": func(d *deaf) error {
			return until(func() error { return value(d.StartSendTag(1, 0, nil, func(error) {})) })
		},
		"StartRecv": func(d *deaf) error {
			return until(func() error { return value(d.StartRecv(1, 0, nil, func(am.Received, error) {})) })
		},
		"StartSendWide": func(d *deaf) error {
			return until(func() error { return value(d.StartSendWide(1, am.Wide{}, nil, func(error) {})) })
		},
		"StartRecvWide": func(d *deaf) error {
			return until(func() error {
				return value(d.StartRecvWide(wide(1, 0, 0, 0), nil, func(am.Received, error) {}))
			})
		},
		"Claim.StartRecv": func(d *deaf) error {
			s := d.card.Vacant(funi.Request)
			s.SetHeader(funi.NewHeader(0, 26, 4))
			s[1], s[2], s[3], s[4], s[funi.SourceWord] = 2, 0, 1<<18, 0, 1
			d.card.Deliver(funi.Request)
			d.card.Publish()
			if _, err := d.Poll(); err != nil {
				return err
			}
			_, claim, ok := d.ClaimWide(wide(1, 1, 0, 0))
			if !ok {
				return errors.New("no message to claim")
			}
			for range am.MaxTagged {
				if _, err := d.StartRecvWide(wide(1, 0, 0, 0), nil, func(am.Received, error) {}); err != nil {
					return err
				}
			}
			return value(claim.StartRecv(nil, func(am.Received, error) {}))
		},
		"one more remote call than there may be": func(d *deaf) error {
			return until(func() error {
				_, err := d.StartCall(1, 0, nil, ignore)
				d.card.Retire(funi.Request, d.card.Pending(funi.Request))
				d.card.Publish()
				return err
			})
		},
		"PutInt32": func(d *deaf) error {
			return until(func() error { return d.PutInt32(1, segment, 1, &d.counter) })
		},
		"PutFloat64": func(d *deaf) error {
			return until(func() error { return d.PutFloat64(1, segment, 1, &d.counter) })
		},
		"Request4": func(d *deaf) error { return until(func() error { return d.Request4(1, 0, 1, 2, 3, 4) }) },
		"Request":  func(d *deaf) error { return until(func() error { return d.Request(1, 0, words...) }) },
		"Post4":    func(d *deaf) error { return until(func() error { return d.Post4(1, 0, 1, 2, 3, 4) }) },
		"Post":     func(d *deaf) error { return until(func() error { return d.Post(1, 0, words...) }) },
		"RequestIndirect4": func(d *deaf) error {
			return until(func() error { return d.RequestIndirect4(1, 1, 1, 2, 3, 4) })
		},
		"RequestIndirect": func(d *deaf) error {
			return until(func() error { return d.RequestIndirect(1, 1, words...) })
		},
		"Xfer4": func(d *deaf) error { return until(func() error { return d.Xfer4(1, 0, 1, 2, 3, 4) }) },
		"Xfer":  func(d *deaf) error { return until(func() error { return d.Xfer(1, 0, blank[:]) }) },
		"Mfer": func(d *deaf) error {
			return until(func() error { return d.Mfer(1, 0, segment, segment, 16) })
		},
		"TransferCounted": func(d *deaf) error {
			return until(func() error { return d.TransferCounted(1, 0, block, &d.counter) })
		},
		"Transfer": func(d *deaf) error { return until(func() error { return d.Transfer(1, 0, block) }) },

		"Message.Reply4": func(d *deaf) error {
			return d.in(func(m *am.Message) error { return m.Reply4(0, 1, 2, 3, 4) })
		},
		"Message.Reply": func(d *deaf) error {
			return d.in(func(m *am.Message) error { return m.Reply(0, words...) })
		},
		"Message.ReplyIndirect4": func(d *deaf) error {
			return d.in(func(m *am.Message) error { return m.ReplyIndirect4(1, 1, 2, 3, 4) })
		},
		"Message.ReplyIndirect": func(d *deaf) error {
			return d.in(func(m *am.Message) error { return m.ReplyIndirect(1, words...) })
		},
		"Message.ReplyXfer4": func(d *deaf) error {
			return d.in(func(m *am.Message) error { return m.ReplyXfer4(0, 1, 2, 3, 4) })
		},
		"Message.ReplyXfer": func(d *deaf) error {
			return d.in(func(m *am.Message) error { return m.ReplyXfer(0, blank[:]) })
		},
		"Message.ReplyMfer": func(d *deaf) error {
			return d.in(func(m *am.Message) error { return m.ReplyMfer(0, segment, segment, 16) })
		},
		"Message.Transfer": func(d *deaf) error {
			return d.in(func(m *am.Message) error { return m.Transfer(0, block) })
		},
	}
}

// anyMemory gives an endpoint memory for messages that no card knows.
func anyMemory(e *am.Endpoint) error {
	return e.UseMemory(am.Memory{Segment: func(_ uint32, bytes int, _ funi.Rights) ([]byte, error) {
		return make([]byte, bytes), nil
	},
		Now: func() int64 { return 0 }, Limit: am.LeastMemory})
}

// ignore is the end of calls that nobody waits for.
func ignore([]byte, error) {}

// immediate are the calls that never wait.
var immediate = []string{
	"AddObject",
	"Agreed",
	"Bind",
	"BlockWords",
	"CallsUnderWay",
	"Cancel",
	"Claim.Discard",
	"ClaimWide",
	"CloseSegment",
	"Failed",
	"Handle",
	"HandleBytes",
	"HandleCall",
	"HandleNotice",
	"Heard",
	"InHandler",
	"Life",
	"Node",
	"Nodes",
	"OpenSegment",
	"PassOn",
	"Pace",
	"PaceMeasured",
	"PeekWide",
	"Present",
	"Rejoin",
	"Remaining",
	"RemoveObject",
	"Retrieved",
	"SendsUnderWay",
	"Share",
	"ShareNew",
	"TaggedUnderWay",
	"Unknown",
	"Unshare",
	"UseMemory",
	"Waiting",
	"Wakes",
	"Work",
}

// notModelled are the calls that no modelled machine has.
var notModelled = []string{"a long SendBytes", "SendList", "StartBytes", "StartList", "ProbeSends"}

// TestEveryWaitIsCancelled: each call that waits ends when the context ends, with an error
// that is ErrCancelled and the context's cause; natively and on a modelled processor.
func TestEveryWaitIsCancelled(t *testing.T) {
	for name, call := range waits() {
		for _, paced := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s paced %v", name, paced), func(t *testing.T) {
				d := newDeaf(t)
				if paced && !slices.Contains(notModelled, name) {
					d.Pace(processor(new(int64)))
					d.paced = true
				}
				if err := call(d); !errors.Is(err, am.ErrCancelled) || !errors.Is(err, errAsked) ||
					strings.Contains(err.Error(), "\n") {
					t.Errorf("it ended with %v", err)
				}
				if d.drives < cancelledAfter {
					t.Errorf("it ended after %d looks, before the context", d.drives)
				}
			})
		}
	}
}

// TestNoWaitIsForgotten: every call of an endpoint and a message is known to wait, and is in
// the table, or known not to.
func TestNoWaitIsForgotten(t *testing.T) {
	known := waits()
	for prefix, of := range map[string]reflect.Type{"": reflect.TypeFor[*am.Endpoint](),
		"Message.": reflect.TypeFor[*am.Message](), "Claim.": reflect.TypeFor[am.Claim]()} {
		for i := range of.NumMethod() {
			name := prefix + of.Method(i).Name
			if (known[name] == nil) == !slices.Contains(immediate, name) {
				t.Errorf("%s is not in exactly one of the two lists", name)
			}
		}
	}
}

// TestCancelledAtOnce: a call that comes to wait when the context has ended ends too, and
// one that need not wait does what it does.
func TestCancelledAtOnce(t *testing.T) {
	d := newDeaf(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errAsked)
	d.Bind(ctx)
	if err := d.Post4(1, 0, 1, 2, 3, 4); err != nil {
		t.Errorf("sending with room in the queue: %v", err)
	}
	if err := d.Wait(func() bool { return true }); err != nil {
		t.Errorf("waiting for what is there: %v", err)
	}
	if err := d.Barrier(); !errors.Is(err, errAsked) || d.drives > 10 {
		t.Errorf("a barrier ended after %d looks with %v", d.drives, err)
	}
}

// TestLaterBindTakesThePlace: of several contexts that were bound the last one counts, also
// one without an end, and a barrier that was interrupted goes on.
func TestLaterBindTakesThePlace(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	called := false // node 1 may call the barrier
	b.MustRun(func(n *bed.Node) error {
		if n.Node() == 1 {
			return errors.Join(n.Wait(func() bool { return called }), n.Barrier())
		}
		ended, cancel := context.WithCancelCause(t.Context())
		n.Bind(ended)
		cancel(errAsked)
		if err := n.Barrier(); !errors.Is(err, errAsked) {
			return fmt.Errorf("a barrier with an ended context: %w", err)
		}
		late, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		n.Bind(late)
		if err := n.Barrier(); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, am.ErrCancelled) {
			return fmt.Errorf("a barrier with a deadline: %w", err)
		}
		n.Bind(context.Background())
		called = true
		return n.Barrier()
	})
}
