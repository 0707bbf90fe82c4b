package socket_test

// This file holds calls to what their comments promise, between cards in two network namespaces.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/uspace/socket"
)

// Rule (call.go): every call is answered with what the handler returns for it, or with its error,
// from whatever goroutine, of any length.
func TestCalls(t *testing.T) {
	stacks := pair(t, socket.Options{})
	for _, s := range stacks {
		v, err := s.Serve("funet", ":7", func(from socket.Addr, b []byte) ([]byte, error) {
			if len(b) == 0 {
				return nil, fmt.Errorf("nothing from node %d", from.Node)
			}
			return bytes.ToUpper(b), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { v.Close() })
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 100 {
				request := strings.Repeat(string(rune('a'+(g+i)%26)), 1+(g*1000+i*317)%socket.MaxCall)
				to := "1:7"
				if i%4 == 3 {
					to = "0:7" // this node's own
				}
				answer, err := stacks[0].Call(ctx, to, []byte(request))
				if err != nil || string(answer) != strings.ToUpper(request) {
					t.Errorf("call %d of %d bytes: %d bytes, %v", i, len(request), len(answer), err)
					return
				}
			}
		})
	}
	all.Wait()
	_, err := stacks[0].Call(ctx, "1:7", nil)
	var e *socket.CallError
	if !errors.As(err, &e) || e.Text != "nothing from node 0" {
		t.Errorf("an error of the handler: %v", err)
	}
}

// Rule (call.go): who cannot call hears why; a call that waits ends with its context, and its link
// is not used again.
func TestCallsRefused(t *testing.T) {
	stacks := pair(t, socket.Options{})
	release := make(chan struct{})
	v, err := stacks[1].Serve("funet", ":0", func(_ socket.Addr, b []byte) ([]byte, error) {
		switch string(b) {
		case "wait":
			<-release
		case "long":
			return make([]byte, socket.MaxCall+1), nil
		}
		return b, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	to := v.Addr().String()
	check := func(what string, err, want error) {
		t.Helper()
		var o *net.OpError
		if !errors.Is(err, want) || !errors.As(err, &o) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, err = stacks[0].Call(t.Context(), "1:9", nil)
	check("nobody's port", err, syscall.ECONNREFUSED)
	_, err = stacks[0].Call(t.Context(), to, make([]byte, socket.MaxCall+1))
	check("a byte too long", err, syscall.EMSGSIZE)
	_, err = stacks[1].Serve("funet", to, nil)
	check("a port that is used", err, syscall.EADDRINUSE)
	var e *socket.CallError
	if _, err = stacks[0].Call(t.Context(), to, []byte("long")); !errors.As(err, &e) {
		t.Errorf("an answer that is too long: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = stacks[0].Call(ctx, to, []byte("wait"))
	check("a handler that waits", err, context.DeadlineExceeded)
	close(release)
	// more than a node may have links: those that were given up do not count for ever
	for i := range 100 {
		if b, err := stacks[0].Call(t.Context(), to, []byte{byte(i)}); err != nil || len(b) != 1 || b[0] != byte(i) {
			t.Fatalf("call %d: %v, %v", i, b, err)
		}
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	_, err = stacks[0].Call(t.Context(), to, []byte("x"))
	check("a service that was closed", err, syscall.ECONNREFUSED)
	check("closed again", v.Close(), net.ErrClosed)
}
