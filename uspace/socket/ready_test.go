package socket_test

// This file tests waiting for a port that nobody has yet.

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/socket"
	"github.com/funet/funet/xdp"
)

// Rule: Ready waits for a node whose process has yet to open its sockets, then for its listener,
// and then a dial is accepted; likewise for packets. Its context ends it, and the
// error says that nobody listens. A dial before that is refused.
func TestReady(t *testing.T) {
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	open := func(node int) *socket.Stack {
		c, err := funet.Members(l.Peers(node), node, []string{"fu0"}, "")
		if err != nil {
			t.Fatal(err)
		}
		c.GID, c.Token, c.Attach, c.AnyThread = 9, [32]byte{1}, xdp.AttachGeneric, true
		var s *socket.Stack
		if err := l.Do(node, func() (err error) {
			s, err = socket.Open(ctx, socket.Options{Options: funet.Options{Card: &c}})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(0) })
		return s
	}
	s := open(0)
	begun, ready := make(chan struct{}), make(chan error, 1)
	go func() {
		close(begun)
		ready <- s.Ready(ctx, "1:80")
	}()
	<-begun
	other := open(1)
	if _, err := s.Dial("funet", "1:80"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a dial before anybody listens: %v", err)
	}
	// the first answer takes as long as the machine likes
	for patience, told := 30*time.Millisecond, false; !told; patience *= 2 {
		short, end := context.WithTimeout(ctx, patience)
		err := s.Ready(short, "1:81")
		end()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Fatalf("nobody comes: %v", err)
		}
		told = errors.Is(err, syscall.ECONNREFUSED)
	}
	select {
	case err := <-ready:
		t.Fatalf("ready before anybody listens: %v", err)
	default:
	}
	if _, err := other.Listen("funet", ":80"); err != nil {
		t.Fatal(err)
	}
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	if _, err := s.Dial("funet", "1:80"); err != nil {
		t.Errorf("a dial to who is ready: %v", err)
	}
	go func() { ready <- s.Ready(ctx, "1:83") }()
	_, err = other.ListenPacket("funet", ":83")
	if err := errors.Join(err, <-ready); err != nil {
		t.Error(err)
	}
}
