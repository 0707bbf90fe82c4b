package hostile

// This file is floods of dials (package socket). A member of a job asks the job's server to make
// connections and packets' ways as fast as it can. Its requests have seeds that lead
// nowhere, words of no protocol, or keys that it guesses; or it dials properly and hangs up. The
// server keeps answering the other members, whose every byte is verified. The server keeps nothing
// that the flood made, and two other users' verified traffic goes on.

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
	"github.com/funet/funet/uspace/socket"
)

const (
	dialGID = 17 // of the members
	// echoPort has a listener that accepts, and deafPort one that never does.
	echoPort, deafPort = 80, 81
	// flood is how many dials of each form there are at least, many times what the server has room
	// for.
	flood = 1000
)

// newStack opens a member's sockets, with an endpoint for calls.
func (b *bed) newStack(t *testing.T, g *group, node uint16) *socket.Stack {
	t.Helper()
	s, err := socket.Open(t.Context(),
		socket.Options{Options: funet.Options{Attach: &attach.Config{Socket: b.sockets[g.cards[node]], GID: g.gid,
			Node: node, Token: g.token}}, Calls: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(0) })
	return s
}

// echo accepts connections and sends back what comes, until the listener is closed.
func echo(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, c) // the other end may be one of the flood's
		}()
	}
}

// echoes dials the server some times at once, and verifies what comes back over each connection.
func echoes(t *testing.T, s *socket.Stack, when string, conns int) {
	t.Helper()
	const size = 100_000
	ctx, end := context.WithTimeout(t.Context(), patience)
	defer end()
	var all sync.WaitGroup
	for i := range conns {
		all.Go(func() {
			b := make([]byte, size)
			_, _ = rand.Read(b)
			c, err := s.DialContext(ctx, socket.Network, "0:80")
			if err != nil {
				t.Errorf("%s: %v", when, err)
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			all.Go(func() {
				if _, err := c.Write(b); err != nil {
					t.Errorf("%s: %v", when, err)
				}
			})
			got := make([]byte, size)
			if n, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, b) {
				t.Errorf("%s: connection %d: %d bytes came back, %v, or others", when, i, n, err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// flooder is a member with initial requests of its own making.
type flooder struct {
	t       *testing.T
	client  *attach.Client
	manager *rats.Manager
}

func (b *bed) newFlooder(t *testing.T, g *group, node uint16) *flooder {
	t.Helper()
	c, err := attach.Open(attach.Config{Socket: b.sockets[g.cards[node]], GID: g.gid, Node: node,
		Token: g.token, Slots: 256,
		Remote: funi.RemoteSizes{KeySlots: 128, Areas: 128, Notifications: 256}, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(0) })
	f := &flooder{t: t, client: c}
	memory, err := c.Segment(0x100000, 1<<20, funi.Source|funi.Keyed)
	if err != nil {
		t.Fatal(err)
	}
	e, err := rats.New(c.Interface(), int(node), rand.Reader)
	if err == nil {
		f.manager, err = rats.Manage(e, funi.Segment{Base: 0x100000, Memory: memory, Rights: funi.Source | funi.Keyed})
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// ask asks the server with a key, many requests open at once, until enough have been answered or
// refused; and then as long as the other members have not done theirs.
func (f *flooder) ask(key rats.Key, enough int, others func() bool, words func() []uint32) (answered, refused int) {
	var open []*rats.Inquiry
	for end := time.Now().Add(patience); answered+refused < enough || !others(); {
		if f.client.Drive(); f.client.Err() != nil || time.Now().After(end) {
			f.t.Errorf("the flooder: %d answers, %d refusals; %v", answered, refused, f.client.Err())
			return
		}
		f.manager.Poll()
		for _, ok := f.manager.NextReady(); ok; _, ok = f.manager.NextReady() {
		}
		left := open[:0]
		for _, q := range open {
			_, ok, _, err := q.RecvReply(f.client.Now())
			switch {
			case ok:
				answered++
			case err != nil:
				refused++
			default:
				left = append(left, q)
				continue
			}
			q.Close()
		}
		for open = left; len(open) < 32; {
			q, err := f.manager.Ask(0, key, words()...)
			if err != nil {
				break
			}
			open = append(open, q)
		}
	}
	for _, q := range open {
		q.Close()
	}
	return
}

// spray sends messages as fast as the card takes them, until done, and reads nothing of what comes
// back.
func (f *flooder) spray(done func() bool, message func() (rats.Ticket, []uint32)) (sent int) {
	for end := time.Now().Add(patience); !done() || sent < flood; {
		if f.client.Drive(); f.client.Err() != nil || time.Now().After(end) {
			f.t.Errorf("the flooder: %d sent; %v", sent, f.client.Err())
			return
		}
		f.manager.Endpoint.Poll()
		to, words := message()
		if _, err := f.manager.SendMsg(to, nil, words...); err == nil {
			sent++
		}
	}
	return
}

// TestFloodsOfDials: see above, row by row.
func TestFloodsOfDials(t *testing.T) {
	long.Test(t)
	b, l := newBed(t, rules(), longSilence), newLedger()
	goOn, end := b.traffic(t, l)
	g := b.newGroup("members", dialGID, 0, 0, 1, 0, 0, 1)
	server := b.newStack(t, g, 0)
	honest := b.newStack(t, g, 1)
	mac := hmac.New(sha256.New, g.token[:]) // as hamlyn.md says
	mac.Write(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16([]byte("funet sockets"), g.gid), 0))
	key := rats.KeyOf(mac.Sum(nil))
	listener, err := server.Listen(socket.Network, ":80")
	if err != nil {
		t.Fatal(err)
	}
	go echo(listener)
	deaf, err := server.Listen(socket.Network, ":81")
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Endpoint().Serve(7, func(m *funet.Message) ([]byte, error) { return m.Bytes, nil }); err != nil {
		t.Fatal(err)
	}
	packets, err := server.ListenPacket(socket.Network, ":9")
	if err != nil {
		t.Fatal(err)
	}
	echoes(t, honest, "before the flood", 8)

	r := mathrand.New(mathrand.NewPCG(seed(t), 1))
	lies := func(port uint32, n int) func() []uint32 {
		return func() []uint32 {
			w := []uint32{port<<16 | r.Uint32()>>16, r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32()}
			return w[:n]
		}
	}
	f := b.newFlooder(t, g, 2)
	for _, row := range []struct {
		name    string
		key     rats.Key
		words   func() []uint32
		refused bool // all of it
	}{
		{"dials with seeds that lead nowhere", key, lies(echoPort, 6), false},
		{"dials of who never accepts", key, lies(deafPort, 6), false},
		{"dials of where nobody listens", key, lies(1000, 6), false},
		{"whether a port is open", key, lies(echoPort, 3), false},
		{"packets' ways that are never used", key, lies(9, 1), false},
		{"anything", key, func() []uint32 {
			return lies([]uint32{echoPort, deafPort, 7, 9}[r.IntN(4)], []int{1, 3, 6}[r.IntN(3)])()
		}, false},
		{"a key that is guessed", key ^ 1<<30, lies(echoPort, 6), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			var done atomic.Bool
			flooded := make(chan [2]int, 1)
			go func() {
				answered, refused := f.ask(row.key, flood, done.Load, row.words)
				flooded <- [2]int{answered, refused}
			}()
			for range 4 {
				echoes(t, honest, "beside the flood", 8)
			}
			goOn("beside the flood")
			done.Store(true)
			n := <-flooded
			if row.refused && n[0] > 0 || !row.refused && n[1] > 0 {
				t.Errorf("%d requests were answered, %d refused", n[0], n[1])
			}
			t.Logf("%d requests answered, %d refused", n[0], n[1])
			if t.Failed() {
				t.FailNow()
			}
		})
	}
	// Without package rats, which holds itself back: to the entries of all nodes, with answers that
	// nobody wants.
	t.Run("requests of no protocol", func(t *testing.T) {
		var done atomic.Bool
		sprayed := make(chan int, 1)
		go func() {
			sprayed <- f.spray(done.Load, func() (rats.Ticket, []uint32) {
				to := rats.Ticket{Node: 0, Key: uint64(key), Area: uint16(r.IntN(rats.Entries))}
				words := append([]uint32{(7+r.Uint32N(4))<<28 | r.Uint32()>>4, r.Uint32(), r.Uint32(),
					r.Uint32() >> (16 * r.IntN(2))},
					lies([]uint32{echoPort, deafPort, 7, 9}[r.IntN(4)], r.IntN(7))()...)
				return to, words[:r.IntN(len(words)+1)]
			})
		}()
		for range 4 {
			echoes(t, honest, "beside the flood", 8)
		}
		goOn("beside the flood")
		done.Store(true)
		if n := <-sprayed; n < flood {
			t.Errorf("%d requests were sent", n)
		} else {
			t.Logf("%d requests sent", n)
		}
	})
	_ = f.client.Close(0)

	// Dials that are proper, and hang up at once: of more than a listener keeps none is made.
	rude := b.newStack(t, g, 3)
	t.Run("who hangs up", func(t *testing.T) {
		var dialers sync.WaitGroup
		var dialed, full atomic.Int64
		for range 8 {
			dialers.Go(func() {
				for i := range flood / 8 {
					address := []string{"0:80", "0:81"}[i%2]
					ctx, end := context.WithTimeout(t.Context(), patience)
					if i%2 == 1 {
						ctx, end = context.WithTimeout(t.Context(), 5*time.Millisecond)
					}
					c, err := rude.DialContext(ctx, socket.Network, address)
					end()
					switch {
					case err == nil:
						dialed.Add(1)
						c.Close()
					case i%2 == 1 && (errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, context.DeadlineExceeded)):
						full.Add(1)
					default:
						t.Errorf("dialing %s: %v", address, err)
						return
					}
				}
			})
		}
		for range 4 {
			echoes(t, honest, "beside who hangs up", 8)
		}
		goOn("beside who hangs up")
		dialers.Wait()
		t.Logf("%d dialed, %d found the queue full", dialed.Load(), full.Load())
	})

	// Nothing of all that is left: there is room for as many connections as ever, and for calls and
	// packets.
	if err := deaf.Close(); err != nil {
		t.Error(err)
	}
	echoes(t, honest, "after the flood", 100)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if answer, err := honest.Endpoint().Call(ctx, 0, 7, []byte("abc")); err != nil || string(answer) != "abc" {
		t.Errorf("a call after the flood: %q, %v", answer, err)
	}
	from, err := honest.ListenPacket(socket.Network, ":0")
	if err != nil {
		t.Fatal(err)
	}
	_ = from.SetDeadline(time.Now().Add(patience))
	_ = packets.SetDeadline(time.Now().Add(patience))
	got := make([]byte, 10)
	_, err = from.WriteTo([]byte("abc"), packets.LocalAddr())
	if n, _, e := packets.ReadFrom(got); errors.Join(err, e) != nil || string(got[:n]) != "abc" {
		t.Errorf("a packet after the flood: %q, %v, %v", got[:n], err, e)
	}
	goOn("after the flood")
	for _, s := range []*socket.Stack{honest, rude, server} {
		if err := s.Close(time.Second); err != nil && !errors.Is(err, funi.ErrUndelivered) {
			t.Error(err)
		}
	}
	end()
	g.end()
	b.empty()
	b.alive()
}
