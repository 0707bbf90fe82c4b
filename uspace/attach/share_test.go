package attach

// This file tests requests for lists and memory of neighbours, on connections whose other end is
// the test.

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const asking = time.Minute // far more than anything takes

// far is a daemon's end of a connection.
type far struct {
	t    *testing.T
	conn *net.UnixConn
}

// accept accepts a connection.
func accept(t *testing.T, l *net.UnixListener) far {
	t.Helper()
	conn, err := l.AcceptUnix()
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(asking))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return far{t, conn}
}

// hears waits for a request of a kind.
func (f far) hears(k Kind) {
	f.t.Helper()
	message, _, err := Receive(f.conn, make([]byte, MaxMessage), 0)
	var h Header
	if err == nil {
		h, err = DecodeHeader(message)
	}
	if err != nil || h.Kind != k {
		f.t.Fatalf("a request of kind %#x came, want %#x: %v", h.Kind, k, err)
	}
}

func (f far) sends(message []byte, err error) {
	f.t.Helper()
	if err == nil {
		err = Send(f.conn, message)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// place returns a port that has a connection to the listener, and the other end.
func place(t *testing.T) (*Port, far, *net.UnixListener) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &Port{cfg: Config{Socket: path}, Answer: PortAnswer{Nodes: 3}}
	if p.conn, err = Dial(t.Context(), path, asking); err != nil {
		t.Fatal(err)
	}
	p.done, p.end = context.WithCancel(context.Background())
	t.Cleanup(func() { p.Close() })
	return p, accept(t, l), l
}

// Rule: what was asked by a connection that the process has given up since is asked again by the
// next one.
func TestAskedAgainByTheNextConnection(t *testing.T) {
	p, first, l := place(t)
	lost := make(chan error, 1)
	go p.Watch(func(why error) { lost <- why }, func(Fate) {})
	first.sends(Fate{Order: 1}.Encode(), nil) // no news: the process shows its ticket again
	next := accept(t, l)
	next.hears(KindResume)
	listed := make(chan []uint16, 1)
	go func() {
		nodes, _ := p.Neighbours() // nil after an error
		listed <- nodes
	}()
	first.hears(KindNeighbours)
	next.sends(EncodeBody(KindResume|AnswerBit, nil))
	next.hears(KindNeighbours)
	next.sends(EncodeList(KindNeighbours, []uint16{1, 2}))
	if nodes := <-listed; !slices.Equal(nodes, []uint16{1, 2}) {
		t.Errorf("neighbours %v", nodes)
	}
	if len(lost) > 0 {
		t.Error(<-lost)
	}
}

// Rule: descriptors of an answer that comes while the place is given back are closed.
func TestAnswerToNobody(t *testing.T) {
	p, first, _ := place(t)
	gone := make(chan error, 1)
	go func() {
		_, err := p.Share(1, 4096)
		gone <- err
	}()
	first.hears(KindShare)
	p.end()
	if err := <-gone; err == nil {
		t.Error("memory came after the end")
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	if !p.answered(ShareAnswer{Node: 1, Bytes: 4096}.Encode(), []int{fd}) {
		t.Error("an answer was none")
	}
	if err := unix.Close(fd); err == nil {
		t.Error("a descriptor was left open")
	}
}
