package socket_test

// This file holds what net.PacketConn promises, and what a reliable one adds, between cards in two
// network namespaces.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/uspace/socket"
)

// packets opens a packet connection on each node.
func packets(t *testing.T, stacks [2]*socket.Stack) (conns [2]net.PacketConn) {
	t.Helper()
	for node, s := range stacks {
		p, err := s.ListenPacket("funet", ":0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		conns[node] = p
	}
	return conns
}

// Rule (packet.go): every packet comes once, whole, with its sender's address, whatever its length;
// more than a client has buffers wait.
func TestPackets(t *testing.T) {
	p := packets(t, pair(t, socket.Options{}))
	const all = 2000
	length := func(i int) int { return 4 + i*37%(socket.MaxPacket-3) }
	var writer sync.WaitGroup
	writer.Go(func() {
		b := make([]byte, socket.MaxPacket)
		for i := range all {
			n := length(i)
			for j := range n {
				b[j] = byte(i + j)
			}
			binary.LittleEndian.PutUint32(b, uint32(i))
			if k, err := p[0].WriteTo(b[:n], p[1].LocalAddr()); k != n || err != nil {
				t.Errorf("packet %d: %d bytes, %v", i, k, err)
				return
			}
		}
	})
	seen := make([]bool, all)
	b := make([]byte, 2*socket.MaxPacket)
	for range all {
		if err := p[1].SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, from, err := p[1].ReadFrom(b)
		if err != nil {
			t.Fatal(err)
		}
		i := int(binary.LittleEndian.Uint32(b))
		if i >= all || seen[i] || n != length(i) || from != p[0].LocalAddr() {
			t.Fatalf("packet %d of %d bytes from %v", i, n, from)
		}
		for j := 4; j < n; j++ {
			if b[j] != byte(i+j) {
				t.Fatalf("byte %d of packet %d is %d", j, i, b[j])
			}
		}
		seen[i] = true
	}
	writer.Wait()
}

// Rule (packet.go): an answer goes to where the packet came from, by the address or its text, and a
// node's own port is reached likewise.
func TestPacketsAnswered(t *testing.T) {
	stacks := pair(t, socket.Options{})
	p := packets(t, stacks)
	own, err := stacks[0].ListenPacket("funet", ":7")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	for _, to := range []net.PacketConn{p[1], own} {
		if _, err := p[0].WriteTo([]byte("ask"), to.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 10)
		n, from, err := to.ReadFrom(b)
		if err != nil || string(b[:n]) != "ask" {
			t.Fatalf("%q, %v", b[:n], err)
		}
		if _, err := to.WriteTo([]byte("answer"), text{from.String()}); err != nil {
			t.Fatal(err)
		}
		// the rest is lost, as with UDP
		if n, from, err = p[0].ReadFrom(b[:3]); err != nil || string(b[:n]) != "ans" || from != to.LocalAddr() {
			t.Fatalf("%q from %v, %v", b[:n], from, err)
		}
	}
}

// text is an address of which only the text is known.
type text struct{ string }

func (t text) Network() string { return "funet" }
func (t text) String() string  { return t.string }

// Rule (packet.go): who cannot send hears why, in a *net.OpError.
func TestPacketsRefused(t *testing.T) {
	stacks := pair(t, socket.Options{})
	p := packets(t, stacks)
	check := func(what string, err, want error) {
		t.Helper()
		var o *net.OpError
		if !errors.Is(err, want) || !errors.As(err, &o) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, err := p[0].WriteTo(make([]byte, socket.MaxPacket+1), p[1].LocalAddr())
	check("a byte too long", err, syscall.EMSGSIZE)
	if _, err := p[0].WriteTo(make([]byte, socket.MaxPacket), p[1].LocalAddr()); err != nil {
		t.Errorf("as long as can be: %v", err)
	}
	_, err = p[0].WriteTo([]byte("x"), socket.Addr{Node: 1, Port: 9})
	check("nobody's port", err, syscall.ECONNREFUSED)
	_, err = stacks[1].ListenPacket("funet", p[1].LocalAddr().String())
	check("a port that is used", err, syscall.EADDRINUSE)
	_, err = stacks[1].ListenPacket("funet", "0:9")
	check("another node's", err, syscall.EADDRNOTAVAIL)
	if err := p[0].SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Error(err)
	}
	_, _, err = p[0].ReadFrom(make([]byte, 10))
	check("reading past the deadline", err, os.ErrDeadlineExceeded)

	// A reader that reads nothing holds up who writes to it, and nobody else.
	if err := p[0].SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Error(err)
	}
	for err = nil; err == nil; {
		_, err = p[0].WriteTo([]byte("x"), p[1].LocalAddr())
	}
	check("a reader that stalls", err, os.ErrDeadlineExceeded)
	if err := p[0].SetWriteDeadline(time.Time{}); err != nil {
		t.Error(err)
	}
	other, err := stacks[1].ListenPacket("funet", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := p[0].WriteTo([]byte("y"), other.LocalAddr()); err != nil {
		t.Errorf("beside it: %v", err)
	}
	b := make([]byte, 10)
	if n, _, err := other.ReadFrom(b); err != nil || !bytes.Equal(b[:n], []byte("y")) {
		t.Errorf("%q, %v", b[:n], err)
	}

	if err := p[0].SetReadDeadline(time.Time{}); err != nil {
		t.Error(err)
	}
	// The end ends who waits, and who has a seed of a port that was closed hears that it is
	// refused.
	ended := make(chan error, 2)
	go func() { _, _, err := p[0].ReadFrom(make([]byte, 10)); ended <- err }()
	go func() { _, err := p[0].WriteTo([]byte("x"), p[1].LocalAddr()); ended <- err }()
	if err := p[0].Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		select {
		case err := <-ended:
			check("closed while it waits", err, net.ErrClosed)
		case <-time.After(time.Minute):
			t.Fatal("it waits on")
		}
	}
	_, err = p[0].WriteTo([]byte("x"), p[1].LocalAddr())
	check("closed", err, net.ErrClosed)
	check("closed again", p[0].Close(), net.ErrClosed)
	q, err := stacks[0].ListenPacket("funet", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	to := other.LocalAddr()
	if _, err := q.WriteTo([]byte("z"), to); err != nil {
		t.Error(err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	for err = nil; err == nil; { // until the news is here
		_, err = q.WriteTo([]byte("z"), to)
	}
	check("a port that was closed", err, syscall.ECONNREFUSED)
}

// Rule (packet.go): a node whose ports come and go uses up nobody's memory: of more than a number
// of them the oldest asks again.
func TestPacketsOfManyPorts(t *testing.T) {
	stacks := pair(t, socket.Options{})
	p := packets(t, stacks)
	for i := range 100 {
		q, err := stacks[0].ListenPacket("funet", ":0")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.WriteTo([]byte{byte(i)}, p[1].LocalAddr()); err != nil {
			t.Fatalf("port %d: %v", i, err)
		}
		b := make([]byte, 2)
		if n, from, err := p[1].ReadFrom(b); n != 1 || b[0] != byte(i) || from != q.LocalAddr() || err != nil {
			t.Fatalf("port %d: %d bytes from %v, %v", i, n, from, err)
		}
		if i%2 == 0 {
			q.Close()
		} else {
			defer q.Close()
		}
	}
}
