// Several queues, and one UMEM for several sockets.

package xdp

import (
	"bytes"
	"fmt"
	"testing"
)

// Each queue has its socket, and a socket gets what its queue receives. On a veth a frame leaves on
// the socket's queue and arrives on the same queue of a peer with a native program. With a generic
// program a frame of queue q > 0 arrives on queue q-1. For veth_xmit records the receive queue only
// for a peer with NAPI, and the sender's queue mapping reads as a recorded queue plus one
// (skb_get_rx_queue).
func TestQueues(t *testing.T) {
	for _, mode := range []AttachMode{AttachGeneric, AttachNative} {
		t.Run(mode.String(), func(t *testing.T) {
			const queues = 3
			l := newLab(t, labOptions{queues: queues})
			var ports [2][queues]*port
			for host := range ports {
				var sockets []*Socket
				for q := range ports[host] {
					p := l.openPort(host, portConfig{socket: SocketConfig{Queue: uint32(q)}})
					p.fill(128)
					ports[host][q], sockets = p, append(sockets, p.sock)
				}
				l.redirect(host, mode, RedirectConfig{EtherType: testEtherType, Queues: queues}, sockets...)
			}
			for from := range ports {
				for q := range queues {
					to := q
					if mode == AttachGeneric {
						to = max(0, q-1)
					}
					exchange(t, ports[from][q], ports[1-from][to], from, 60, 1000+q)
				}
				for q, p := range ports[1-from] {
					if n := p.sock.Rx().Peek(1); n != 0 {
						t.Fatalf("queue %d received a frame of another queue", q)
					}
				}
			}
		})
	}
}

// Sockets on one queue share the fill and completion rings (af_xdp.rst,
// "XDP_SHARED_UMEM bind flag"): each receives what the program gives it, both
// send, and the rings live until the last of them is closed.
func TestSharedUMEMSameQueue(t *testing.T) {
	l := newLab(t, labOptions{})
	peer := l.openPort(1, portConfig{})
	peer.fill(128)
	l.redirect(1, AttachGeneric, RedirectConfig{EtherType: testEtherType}, peer.sock)

	first := l.openPort(0, portConfig{socket: SocketConfig{NeedWakeup: true}})
	first.fill(128)
	second := &port{t: t, sock: l.openSocket(0, SocketConfig{Shared: first.sock}), umem: first.umem, free: first.free}
	if first.sock.Fill() != second.sock.Fill() || first.sock.Completion() != second.sock.Completion() {
		t.Fatal("the sockets have different fill or completion rings")
	}
	if info := second.sock.Info(); !info.Shared || !info.NeedWakeup || info.Mode != BindCopy || info.FillSize != 2048 {
		t.Fatalf("%+v", info)
	}
	r, err := NewRedirectProgram(RedirectConfig{EtherType: testEtherType, Queues: 1})
	must(t, err)
	defer r.Close()
	l.in(0, func() {
		a, err := Attach(r.Program, l.index[0], AttachGeneric)
		must(t, err)
		t.Cleanup(func() { must(t, a.Close()) })
	})
	for i, p := range []*port{second, first, second} {
		must(t, p.sock.Register(r.Sockets, 0))
		exchange(t, peer, p, 1, 64+i, 1500)
		exchange(t, p, peer, 0, 64+i, 1500)
	}
	must(t, first.sock.Close())
	must(t, second.sock.Register(r.Sockets, 0))
	exchange(t, peer, second, 1, 64, 1500)
	exchange(t, second, peer, 0, 64, 1500)
}

// Sockets on different queues, or different interfaces, have rings of their own
// over the same memory.
func TestSharedUMEMOtherQueue(t *testing.T) {
	l := newLab(t, labOptions{queues: 2})
	peers := [2]*port{}
	for q := range peers {
		peers[q] = l.openPort(1, portConfig{socket: SocketConfig{Queue: uint32(q)}})
		peers[q].fill(128)
	}
	l.redirect(1, AttachNative, RedirectConfig{EtherType: testEtherType}, peers[0].sock, peers[1].sock)

	first := l.openPort(0, portConfig{})
	second := &port{t: t, sock: l.openSocket(0, SocketConfig{Queue: 1, Shared: first.sock, FillSize: 128}),
		umem: first.umem}
	if first.sock.Fill() == second.sock.Fill() || second.sock.Info().FillSize != 128 {
		t.Fatalf("the second queue has no fill ring of its own: %+v", second.sock.Info())
	}
	// Each has half of the frames.
	first.free, second.free = NewAllocator(first.umem, 0, 128), NewAllocator(first.umem, 128, 128)
	first.fill(64)
	second.fill(64)
	l.redirect(0, AttachNative, RedirectConfig{EtherType: testEtherType}, first.sock, second.sock)
	for i, p := range []*port{first, second} {
		want := testFrame(0, i, 700)
		must(t, p.send(want))
		if got := peers[i].receive(1)[0]; !bytes.Equal(got, want) {
			t.Fatalf("queue %d sent %x, peer got %x", i, want, got)
		}
		want = testFrame(1, i, 800)
		must(t, peers[i].send(want))
		if got := p.receive(1)[0]; !bytes.Equal(got, want) {
			t.Fatalf("queue %d got %x, want %x", i, got, want)
		}
		eventually(t, "completion", func() bool { p.complete(); return p.free.Len() == 64 })
	}
}

// One UMEM serves two interfaces: a frame received on one is sent on the other
// without a copy of ours.
func TestSharedUMEMOtherInterface(t *testing.T) {
	l := newLab(t, labOptions{})
	a := l.openPort(0, portConfig{})
	b := &port{t: t, sock: l.openSocket(1, SocketConfig{Shared: a.sock}), umem: a.umem}
	a.free, b.free = NewAllocator(a.umem, 0, 128), NewAllocator(a.umem, 128, 128)
	a.fill(64)
	b.fill(64)
	l.redirect(0, AttachGeneric, RedirectConfig{EtherType: testEtherType}, a.sock)
	l.redirect(1, AttachGeneric, RedirectConfig{EtherType: testEtherType}, b.sock)
	for from, p := range []*port{a, b} {
		want := testFrame(from, 1, 900)
		must(t, p.send(want))
		if got := []*port{b, a}[from].receive(1)[0]; !bytes.Equal(got, want) {
			t.Fatalf("got %x, want %x", got, want)
		}
	}
}

// A shared socket that asks for something else than the first one has is refused,
// not given something else.
func TestSharedRefusals(t *testing.T) {
	l := newLab(t, labOptions{queues: 2})
	first := l.openPort(0, portConfig{})
	other, err := NewUMEM(UMEMConfig{FrameCount: 1})
	must(t, err)
	defer other.Close()
	for i, c := range []SocketConfig{
		{UMEM: other},
		{Bind: BindZeroCopy},
		{NeedWakeup: true},
		{MultiBuffer: true},
		{FillSize: 64},
		{CompletionSize: 64},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c.Index, c.Shared = l.index[0], first.sock
			_, err := openIn(l, 0, c)
			wantError(t, err, ErrConfig)
		})
	}
	must(t, first.sock.Close())
	_, err = openIn(l, 0, SocketConfig{Index: l.index[0], Shared: first.sock})
	wantError(t, err, ErrClosed)
}
