package funet

// This file measures a look in vain: what a goroutine that waits does over and over, and with it
// how soon it gives way to who shares its processor.

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/lead"
)

// still is a carrier to which nothing comes.
type still struct {
	Carrier
	iface *funi.Interface
}

func (s still) Interface() *funi.Interface { return s.iface }
func (still) Drive()                       {}
func (still) Interrupt()                   {}
func (still) Err() error                   { return nil }
func (still) Now() int64                   { return 0 }
func (still) Close(time.Duration) error    { return nil }

// newStill returns node 0 of two on such a carrier.
func newStill(t testing.TB) *Endpoint {
	t.Helper()
	memory, err := funi.NewMemory(1024)
	if err != nil {
		t.Fatal(err)
	}
	iface, err := funi.Initialize(memory)
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEndpoint(still{iface: iface}, lead.New(still{}), 0, 2, func(error) {}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func BenchmarkVain(b *testing.B) {
	e, n := newStill(b), 0
	if err := e.Wait(context.Background(), func() bool { n++; return n > b.N }); err != nil {
		b.Fatal(err)
	}
}

// asked is a context that tells when somebody begins to wait for its end.
type asked struct {
	context.Context
	tell func()
}

func (a asked) Done() <-chan struct{} {
	a.tell()
	return a.Context.Done()
}

// Rule: Cancel ends a call that there was no room for, while Wait waits for room, alone and beside
// a goroutine that leads. The call is never begun.
func TestCancelOfACallWithoutRoom(t *testing.T) {
	e := newStill(t)
	leader, end := context.WithCancel(t.Context())
	defer end()
	for _, led := range []bool{false, true} {
		p := e.Go(1, 1, nil)
		for !p.waits {
			p = e.Go(1, 1, nil)
		}
		begun := e.am.CallsUnderWay()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		waits, ended := make(chan struct{}), make(chan error, 1)
		if led {
			leads := make(chan struct{})
			go func() { ended <- e.Run(asked{leader, sync.OnceFunc(func() { close(leads) })}) }()
			<-leads
		}
		cancelled := make(chan error, 1)
		go func() {
			_, err := p.Wait(asked{ctx, sync.OnceFunc(func() { close(waits) })})
			cancelled <- err
		}()
		<-waits
		p.Cancel()
		if err := <-cancelled; !errors.Is(err, am.ErrCancelled) || ctx.Err() != nil {
			t.Errorf("led %v: Wait returned %v", led, err)
		}
		stop()
		if led {
			end()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if n := e.am.CallsUnderWay(); n != begun {
			t.Errorf("led %v: %d calls are under way, want %d", led, n, begun)
		}
	}
}
