package attach_test

// This file holds the rules of the client while its daemon lives.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// timeout is for what takes milliseconds.
const timeout = time.Minute

func (d *daemon) config(node uint16) attach.Config {
	return attach.Config{Socket: d.path, GID: gid, Node: node, Token: token, Timeout: timeout}
}

// open attaches a node, until the end of the test.
func (d *daemon) open(node uint16) *attach.Client {
	d.t.Helper()
	c, err := attach.Open(d.config(node))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close(0) })
	return c
}

// send commits a message of one word.
func send(i *funi.Interface, l funi.Level, node uint16, word uint32) bool {
	s := i.Reserve(l)
	if s == nil {
		return false
	}
	s.SetHeader(funi.NewHeader(node, 9, 1))
	s[funi.PayloadWord] = word
	i.Commit(l)
	return true
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	return ctx
}

// Rule: the same program runs on a client as on an embedded card (package attach).
func TestProgramsRunOnClients(t *testing.T) {
	d := start(t, "")
	errs := make(chan error, 2)
	for node := range 2 {
		c := d.open(uint16(node))
		e, err := am.New(c.Interface(), node, 2, c.Drive, 0)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			h, err := apps.PingPong(e, c.Now, apps.PingPongOptions{Exchanges: 2000, WarmUp: 100})
			if err == nil && h != nil && h.TotalCount() != 2000 {
				err = fmt.Errorf("%d exchanges were measured", h.TotalCount())
			}
			errs <- errors.Join(err, c.Close(timeout))
		}()
	}
	if err := errors.Join(await(t, "a node ends", errs), await(t, "the other node ends", errs)); err != nil {
		t.Error(err)
	}
}

// Rule: shared memory that comes from the daemon is as good as a program's own (am.ShareNew).
func TestRegionsOfClients(t *testing.T) {
	d := start(t, "")
	const base, bytes = 0x10000, 64 << 10
	errs := make(chan error, 2)
	for node := range 2 {
		c := d.open(uint16(node))
		e, err := am.New(c.Interface(), node, 2, c.Drive, 0)
		if err != nil {
			t.Fatal(err)
		}
		memory, err := e.ShareNew(c.Segment, base, bytes, funi.Source|funi.Destination)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.ShareNew(c.Segment, base, bytes, funi.Source); !errors.Is(err, funi.ErrOverlap) {
			t.Errorf("sharing twice: %v", err)
		}
		go func() {
			var done am.Counter
			err := e.Barrier()
			if node == 0 && err == nil {
				for i := range memory {
					memory[i] = byte(i * 5 >> 2)
				}
				if err = e.Put(1, base, base, bytes/4, &done); err == nil {
					err = e.WaitCounter(&done, 1)
				}
			}
			err = errors.Join(err, e.Barrier())
			for i, v := range memory {
				if v != byte(i*5>>2) {
					err = errors.Join(err, fmt.Errorf("byte %d of node %d is %d", i, node, v))
					break
				}
			}
			errs <- errors.Join(err, c.Close(timeout))
		}()
	}
	if err := errors.Join(await(t, "a node ends", errs), await(t, "the other node ends", errs)); err != nil {
		t.Error(err)
	}
}

// Rule: a process that sleeps in Wait is woken by a message, a return, and room in a send
// queue; a card that sleeps is woken by what the process stores.
func TestWaitEndsWithWhatHappens(t *testing.T) {
	d := start(t, "")
	a, b := d.open(0), d.open(1)
	ctx := within(t)
	answered := make(chan error)
	go func() { // node 1 answers everything at reply priority
		for range 100 {
			s := b.Interface().Receive(funi.Request)
			for ; s == nil; s = b.Interface().Receive(funi.Request) {
				if err := b.Wait(ctx); err != nil {
					answered <- err
					return
				}
			}
			send(b.Interface(), funi.Reply, s.Source(), s[funi.PayloadWord]+1)
			b.Interface().Release(funi.Request)
		}
		answered <- nil
	}()
	for n := range uint32(100) {
		if n%10 == 0 { // so that both are asleep
			eventually(t, "the card's thread sleeps", d.asleep.Load)
		}
		send(a.Interface(), funi.Request, 1, n)
		s := a.Interface().Receive(funi.Reply)
		for ; s == nil; s = a.Interface().Receive(funi.Reply) {
			if err := a.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if s[funi.PayloadWord] != n+1 || s.Source() != 1 {
			t.Fatalf("message %d was answered with %d by node %d", n, s[funi.PayloadWord], s.Source())
		}
		a.Interface().Release(funi.Reply)
	}
	if err := await(t, "node 1 has answered everything", answered); err != nil {
		t.Fatal(err)
	}
	send(a.Interface(), funi.Request, members, 0) // no such node
	for {
		if r, ok := a.Interface().NextReturn(); ok {
			if r.Header.Node() != members {
				t.Errorf("%v came back", r)
			}
			break
		}
		if err := a.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for n := uint32(0); n < 1000; { // many more than the queue holds
		if send(a.Interface(), funi.Request, members, 0) {
			n++
		} else if err := a.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		for _, ok := a.Interface().NextReturn(); ok; _, ok = a.Interface().NextReturn() {
		}
	}
}

// Rule: Wait ends when the card has halted, also if CNTL is then as it was at the last Wait.
func TestWaitEndsWhenTheCardHalts(t *testing.T) {
	d := start(t, "")
	c := d.open(0)
	ctx := within(t)
	for n := range 200 {
		if err := c.Interface().Resize(32<<(n%2), func() error { return c.Wait(ctx) }); err != nil {
			t.Fatal(err)
		}
	}
}

// Rule: Wait ends with its context, whether that has ended before or ends meanwhile.
func TestWaitEndsWithItsContext(t *testing.T) {
	c := start(t, "").open(0)
	for c.Wait(expired()) == nil { // what happened at the start
	}
	if err := c.Wait(expired()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a context that has ended: %v", err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.Wait(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a context with a deadline: %v", err)
	}
	why := errors.New("the user is gone")
	cancelled, stop := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { stop(why) })
	if err := c.Wait(cancelled); !errors.Is(err, why) {
		t.Errorf("a context that is cancelled: %v", err)
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

func expired() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), -1)
	cancel()
	return ctx
}

// Rule: transfers go between segments that the daemon made, and a segment that ended is no more.
func TestSegments(t *testing.T) {
	d := start(t, "")
	a, b := d.open(0), d.open(1)
	const bytes = 1 << 20
	from, err := a.Segment(0x10000, bytes, funi.Source)
	if err != nil {
		t.Fatal(err)
	}
	to, err := b.Segment(0x20000, bytes, funi.Destination)
	if err != nil {
		t.Fatal(err)
	}
	for i := range from {
		from[i] = byte(i * 7 >> 3)
	}
	a.Interface().Reserve(funi.Request).SetTransfer(1, 3,
		funi.Transfer{Source: 0x10000, Destination: 0x20000, Argument: 99, Words: bytes / 4})
	a.Interface().Commit(funi.Request)
	ctx := within(t)
	s := b.Interface().Receive(funi.Request)
	for ; s == nil; s = b.Interface().Receive(funi.Request) {
		if err := b.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Notice(); n != (funi.Notice{Address: 0x20000, Argument: 99, Words: bytes / 4}) {
		t.Errorf("notice %+v", n)
	}
	for i := range to {
		if to[i] != byte(i*7>>3) {
			t.Fatalf("byte %d is %d", i, to[i])
		}
	}
	if err := b.Unregister(0x20000); err != nil {
		t.Error(err)
	}
	if err := b.Unregister(0x20000); !errors.Is(err, attach.ErrNoSegment) || !errors.Is(err, funi.ErrNoSegment) {
		t.Errorf("unregistering twice: %v", err)
	}
	if _, err := b.Segment(0x20000, 4096, funi.Destination); err != nil {
		t.Errorf("registering again: %v", err)
	}
	for _, c := range []struct {
		base   uint32
		bytes  int
		rights funi.Rights
		want   error
	}{
		{0x10000, 16, funi.Source, funi.ErrOverlap},
		{0, 16, funi.Source, funi.ErrSegment},
		{0x8000, 0, funi.Source, funi.ErrSegment},
		{0x8000, 15, funi.Source, funi.ErrSegment},
		{0x8000, -16, funi.Source, attach.ErrQuota},
		{0x8000, 16, 0, funi.ErrSegment},
		{0x8000, 16, 8, attach.ErrMalformed},
		{0x1000000, quota, funi.Source, attach.ErrQuota},
	} {
		if _, err := a.Segment(c.base, c.bytes, c.rights); !errors.Is(err, c.want) {
			t.Errorf("a segment of %d bytes at %#x with rights %d: %v, want %v", c.bytes, c.base, c.rights, err, c.want)
		}
	}
	if a.Err() != nil {
		t.Error(a.Err())
	}
}

// Rule: Close waits until what was sent has arrived, and says when something has not.
func TestCloseDelivers(t *testing.T) {
	d := start(t, "")
	a, b := d.open(0), d.open(1)
	const messages = 50
	for n := range uint32(messages) {
		if !send(a.Interface(), funi.Request, 1, n) || !send(a.Interface(), funi.Reply, 0, n) {
			t.Fatal("the queue is full")
		}
	}
	if err := a.Close(timeout); err != nil {
		t.Fatal(err)
	}
	for n := range uint32(messages) {
		s := b.Interface().Receive(funi.Request)
		if s == nil || s[funi.PayloadWord] != n {
			t.Fatalf("message %d did not arrive", n)
		}
		b.Interface().Release(funi.Request)
	}
	c := d.open(2)
	for range 200 { // more than node 1 and the card have room for
		if !send(c.Interface(), funi.Request, 1, 0) {
			break
		}
	}
	for c.Interface().Unsent(funi.Request) > 0 {
		c.Drive()
	}
	for range 63 {
		send(c.Interface(), funi.Request, 1, 0)
	}
	if err := c.Close(10 * time.Millisecond); !errors.Is(err, attach.ErrBusy) ||
		!strings.Contains(err.Error(), "node 2 of group 5") {
		t.Errorf("closing before all has arrived: %v", err)
	}
	d.open(2) // the node is free again
}

// Rule: what a client had is given back when it is closed, and when Open fails.
func TestNothingIsLeftBehind(t *testing.T) {
	d := start(t, "")
	cycle := func(cfg attach.Config) {
		c, err := attach.Open(cfg)
		if err != nil {
			return
		}
		if _, err := c.Segment(16, 4096, funi.Source); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(timeout); err != nil {
			t.Fatal(err)
		}
	}
	wrong := d.config(1)
	wrong.Token[0]++
	cycle(d.config(0))
	cycle(wrong)
	// A connection that ended is closed at the other side a little later.
	fds, maps := open(t), mappings(t)
	eventually(t, "descriptors and mappings stay the same", func() bool {
		f, m := fds, maps
		fds, maps = open(t), mappings(t)
		return f == fds && m == maps
	})
	for range 100 {
		cycle(d.config(0))
		cycle(wrong)
	}
	eventually(t, "there are as many descriptors and mappings as before", func() bool {
		return open(t) <= fds && mappings(t) <= maps
	})
}

// eventually looks until a condition holds, and fails the test when it does not in time.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(timeout); !condition(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", timeout, what)
		}
	}
}

// await takes a value from a channel, and fails the test when none comes in time.
func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(timeout):
		t.Fatalf("not within %v: %s", timeout, what)
	}
	return v
}

// mappings counts the mappings of shared memory of this process.
func mappings(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "/memfd:")
}

// Rule: a program's place in its job comes from the environment; what is missing or wrong
// is named, a token is not.
func TestEnvironment(t *testing.T) {
	good := map[string]string{
		attach.SocketVariable: "/tmp/s", attach.GIDVariable: "5", attach.NodeVariable: "65535",
		attach.TokenVariable: token.Text(),
	}
	set := func(but, value string) {
		for k, v := range good {
			if k == but {
				v = value
			}
			t.Setenv(k, v)
		}
	}
	set("", "")
	if c, err := attach.Environment(); err != nil || c !=
		(attach.Config{Socket: "/tmp/s", GID: 5, Node: 65535, Token: token}) {
		t.Errorf("%+v, %v", c, err)
	}
	for node, want := range []string{"/a", "/b", "/c", "/a"} {
		good[attach.NodeVariable] = strconv.Itoa(node)
		set(attach.SocketVariable, "/a:/b:/c")
		if c, err := attach.Environment(); err != nil || c.Socket != want {
			t.Errorf("node %d of three hosts attaches at %s, not %s: %v", node, c.Socket, want, err)
		}
	}
	t.Setenv(attach.LifeVariable, "2")
	t.Setenv(attach.RestartsVariable, "10")
	if c, err := attach.Environment(); err != nil || c.Life != 2 || c.Restarts != 10 {
		t.Errorf("of a third life: %+v, %v", c, err)
	}
	good[attach.LifeVariable], good[attach.RestartsVariable] = "1", "3"
	for name, values := range map[string][]string{
		attach.LifeVariable: {"-1", "x", "65536"}, attach.RestartsVariable: {"many"},
		attach.GIDVariable: {"", "x", "-1", "65536"}, attach.NodeVariable: {"", "1.5"},
		attach.TokenVariable: {"", token.Text()[2:]},
	} {
		for _, v := range values {
			set(name, v)
			if _, err := attach.Environment(); !errors.Is(err, attach.ErrEnvironment) ||
				!strings.Contains(err.Error(), name) ||
				name == attach.TokenVariable && v != "" && strings.Contains(err.Error(), v) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("%s=%q: %v", name, v, err)
			}
		}
	}
}
