package socket_test

// This file tests the endpoint beside the connections (Options.Calls), between cards in two network
// namespaces.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/socket"
)

// upper is the handler number of a call that returns its request in upper case.
const upper = 7

// serve registers upper on all stacks.
func serve(t *testing.T, stacks [2]*socket.Stack) {
	t.Helper()
	for _, s := range stacks {
		if err := s.Endpoint().Serve(upper, func(m *funet.Message) ([]byte, error) {
			if len(m.Bytes) == 0 {
				return nil, fmt.Errorf("nothing from node %d", m.Source)
			}
			return bytes.ToUpper(m.Bytes), nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// calls makes calls of upper on node 1, many at once.
func calls(t *testing.T, e *funet.Endpoint) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 100 {
				request := strings.Repeat(string(rune('a'+(g+i)%26)), 1+(g*1000+i*317)%20_000)
				answer, err := e.Call(ctx, 1, upper, []byte(request))
				if err != nil || string(answer) != strings.ToUpper(request) {
					t.Errorf("call %d of %d bytes: %d bytes, %v", i, len(request), len(answer), err)
					return
				}
			}
		})
	}
	all.Wait()
	_, err := e.Call(ctx, 1, upper, nil)
	var r *am.RemoteError
	if !errors.As(err, &r) || r.Text != "nothing from node 0" {
		t.Errorf("an error of the handler: %v", err)
	}
}

// Rule (Stack.Endpoint): one process has connections and calls, by any number of goroutines at the
// same time. Calls are answered although nobody waits at the other node, connections work while a
// goroutine waits at a barrier, and both end with the stack.
func TestCallsBesideConnections(t *testing.T) {
	stacks := pair(t, socket.Options{Calls: true})
	serve(t, stacks)
	e := stacks[0].Endpoint()
	c, a := connect(t, stacks)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { calls(t, e) })
	l, err := stacks[1].Listen("funet", ":80")
	if err != nil {
		t.Fatal(err)
	}
	all.Go(func() { // connections that come and go
		for range 100 {
			c, err := stacks[0].DialContext(ctx, "funet", "1:80")
			if err != nil {
				t.Error(err)
				return
			}
			if a, err := l.Accept(); errors.Join(err, c.Close()) == nil {
				_, err = io.ReadAll(a)
				if err := errors.Join(err, a.Close()); err != nil {
					t.Error(err)
				}
			}
		}
	})
	waits := make(chan error, 1)
	go func() { waits <- e.Barrier(ctx) }()
	text := bytes.Repeat([]byte("beside calls "), 100_000)
	all.Go(func() {
		if _, err := c.Write(text); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if got, err := io.ReadAll(a); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes read of %d, %v", len(got), len(text), err)
	}
	if err := stacks[1].Endpoint().Barrier(ctx); err != nil {
		t.Error(err)
	}
	if err := <-waits; err != nil {
		t.Error(err)
	}
	all.Wait()
	go func() { waits <- e.Run(ctx) }()
	if err := stacks[0].Close(0); err != nil {
		t.Error(err)
	}
	if err := <-waits; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a wait of an endpoint whose stack was closed: %v", err)
	}
}

// Rule (Stack.Endpoint): there is no endpoint that was not asked for, none has windows or an event
// loop, and one that is closed leaves the connections as they are.
func TestEndpointOfAStack(t *testing.T) {
	if pair(t, socket.Options{})[0].Endpoint() != nil {
		t.Error("an endpoint without Options.Calls")
	}
	stacks := pair(t, socket.Options{Calls: true})
	e := stacks[0].Endpoint()
	_, windows := e.Windows()
	_, fd := e.Fd()
	if !errors.Is(windows, funet.ErrBeside) || !errors.Is(fd, funet.ErrBeside) || e.Arm() {
		t.Errorf("windows: %v, a descriptor: %v", windows, fd)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	c, a := connect(t, stacks)
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Error(err)
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(a, b); err != nil || string(b) != "hello" {
		t.Errorf("read %q, %v", b, err)
	}
	if _, err := e.Call(t.Context(), 1, upper, []byte("x")); !errors.Is(err, funet.ErrClosed) {
		t.Errorf("a call of a closed endpoint: %v", err)
	}
}
