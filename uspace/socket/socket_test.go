package socket_test

// This file holds what Go's network interface promises (package net; golang.org/x/net/nettest),
// between cards in two network namespaces.

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/socket"
	"github.com/funet/funet/xdp"
	"golang.org/x/net/nettest"
)

// pair opens the stacks of two nodes of a lab.
func pair(t testing.TB, o socket.Options) [2]*socket.Stack {
	stacks, _ := openPair(t, o)
	return stacks
}

func openPair(t testing.TB, o socket.Options) ([2]*socket.Stack, *lab.Lab) {
	t.Helper()
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	var peers []card.Peer
	for node, h := range l.Hosts() {
		peers = append(peers, card.Peer{Node: uint16(node), MAC: [6]byte(h.Interfaces[0].MAC)})
	}
	var stacks [2]*socket.Stack
	for node := range stacks {
		o := o
		o.Options = funet.Options{Card: &card.Config{Interfaces: []string{"fu0"}, GID: 9, Token: [32]byte{1},
			Node: uint16(node), Peers: peers,
			Attach: xdp.AttachGeneric, CPU: -1, AnyThread: true}, Memory: o.Memory}
		err := l.Do(node, func() (err error) {
			stacks[node], err = socket.Open(context.Background(), o)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			// nettest leaves ends that nobody reads from
			if err := stacks[node].Close(2 * time.Second); err != nil && !errors.Is(err, funi.ErrUndelivered) {
				t.Errorf("closing node %d: %v", node, err)
			}
		})
	}
	return stacks, l
}

// Rule (Open): a job without a token has no sockets, since its key would be everybody's; the card
// is given back.
func TestNoToken(t *testing.T) {
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg, err := funet.Members(l.Peers(0), 0, []string{"fu0"}, "")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Attach = xdp.AttachGeneric
	for _, token := range [][32]byte{{}, {31: 1}} {
		var s *socket.Stack
		cfg.Token = token
		err := l.Do(0, func() (err error) {
			s, err = socket.Open(t.Context(), socket.Options{Options: funet.Options{Card: &cfg}})
			return err
		})
		if token == [32]byte{} {
			if !errors.Is(err, socket.ErrNoToken) || s != nil {
				t.Fatalf("without a token: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(0); err != nil {
			t.Error(err)
		}
	}
}

// connect makes a connection between two nodes.
func connect(t testing.TB, stacks [2]*socket.Stack) (c, accepted net.Conn) {
	t.Helper()
	l, err := stacks[1].Listen("funet", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if c, err = stacks[0].Dial("funet", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if accepted, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return c, accepted
}

// Rule (doc.go): what is written is read, both ways, and behind CloseWrite comes io.EOF; addresses
// say who is who.
func TestConnection(t *testing.T) { connection(t, pair(t, socket.Options{})) }

func connection(t *testing.T, stacks [2]*socket.Stack) {
	c, a := connect(t, stacks)
	if c.RemoteAddr().String() != a.LocalAddr().String() || c.LocalAddr().String() != a.RemoteAddr().String() ||
		c.LocalAddr().Network() != "funet" {
		t.Errorf("a connection from %v to %v, and from %v to %v", c.LocalAddr(), c.RemoteAddr(),
			a.RemoteAddr(), a.LocalAddr())
	}
	var all sync.WaitGroup
	for _, one := range []struct{ from, to net.Conn }{{c, a}, {a, c}} {
		all.Go(func() {
			b := make([]byte, 10<<20)
			for i := range b {
				b[i] = byte(i * 7 >> 4)
			}
			var writer sync.WaitGroup
			writer.Go(func() {
				if n, err := one.from.Write(b); n != len(b) || err != nil {
					t.Errorf("%d bytes written, %v", n, err)
				}
				if err := one.from.(*socket.Conn).CloseWrite(); err != nil {
					t.Error(err)
				}
			})
			got, err := io.ReadAll(one.to)
			if err != nil || !bytes.Equal(got, b) {
				t.Errorf("%d bytes read, %v", len(got), err)
			}
			writer.Wait()
		})
	}
	all.Wait()
	for _, x := range []net.Conn{c, a} {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
		if _, err := x.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("reading from a closed connection: %v", err)
		}
	}
}

// Rule: a connection keeps what Go's tests of net.Conn ask of all.
func TestConn(t *testing.T) { conformity(t, pair(t, socket.Options{})) }

func conformity(t *testing.T, stacks [2]*socket.Stack) {
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		c, a := connect(t, stacks)
		return c, a, func() { c.Close(); a.Close() }, nil
	})
}

// Rule (doc.go): who dials where nobody listens hears so at once, and so on as TCP says it.
func TestDialRefused(t *testing.T) {
	stacks := pair(t, socket.Options{})
	for address, want := range map[string]error{"1:9": syscall.ECONNREFUSED, "0:9": syscall.ECONNREFUSED} {
		_, err := stacks[0].Dial("funet", address)
		var o *net.OpError
		if !errors.Is(err, want) || !errors.As(err, &o) || o.Op != "dial" {
			t.Errorf("dialing %s: %v", address, err)
		}
	}
	for _, address := range []string{"2:9", "1:99999", "x:1", "1"} {
		if _, err := stacks[0].Dial("funet", address); err == nil {
			t.Errorf("dialing %s: no error", address)
		}
	}
	if _, err := stacks[0].Dial("tcp", "1:9"); !errors.As(err, new(net.UnknownNetworkError)) {
		t.Errorf("dialing over tcp: %v", err)
	}
	l, err := stacks[1].Listen("funet", ":7")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stacks[1].Listen("funet", "1:7"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port that is used: %v", err)
	}
	if _, err := stacks[1].Listen("funet", "0:8"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("another node's port: %v", err)
	}
	ctx, end := context.WithCancel(context.Background())
	end()
	if _, err := stacks[0].DialContext(ctx, "funet", "1:7"); !errors.Is(err, context.Canceled) {
		t.Errorf("dialing with a context that has ended: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepting on a closed listener: %v", err)
	}
	if _, err := stacks[0].Dial("funet", "1:7"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialing a closed listener: %v", err)
	}
}

// Rule (Listen): when all ports that can be picked are taken, who asks for one is told so, and does
// not hang; one that is closed can be picked again.
func TestPortsAreUsedUp(t *testing.T) {
	stacks := pair(t, socket.Options{})
	var all []net.Listener
	for {
		l, err := stacks[0].Listen("funet", ":0")
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			break
		}
		if err != nil || len(all) > 1<<16 {
			t.Fatalf("after %d listeners: %v", len(all), err)
		}
		all = append(all, l)
	}
	if _, err := stacks[0].Dial("funet", "1:7"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("dialing without a port: %v", err)
	}
	free := all[1000]
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err := stacks[0].Listen("funet", ":0"); err != nil || l.Addr() != free.Addr() {
		t.Errorf("a port that was closed: %v, %v", l, err)
	}
}
