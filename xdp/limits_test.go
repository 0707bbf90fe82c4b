// What happens at the edges: rings that are full or empty, frames that are too
// large, interfaces that go away. Nothing hangs and everything is counted.

package xdp

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

// oneWay is a lab with a sender on host 0 and a receiver on host 1.
func oneWay(t *testing.T, o labOptions, src, dst portConfig, mode AttachMode) (*lab, *port, *port) {
	t.Helper()
	l := newLab(t, o)
	a, b := l.openPort(0, src), l.openPort(1, dst)
	l.redirect(1, mode, RedirectConfig{EtherType: testEtherType, Frags: dst.frags}, b.sock)
	return l, a, b
}

func batch(n int) (frames [][]byte) {
	for i := range n {
		frames = append(frames, testFrame(0, i, 64))
	}
	return frames
}

func (p *port) stats() Statistics {
	p.t.Helper()
	s, err := p.sock.Statistics()
	must(p.t, err)
	return s
}

// The kernel sends 32 frames a system call (TX_BATCH_SIZE) and answers EAGAIN when
// there are more; one Kick sends them all.
func TestKickDrainsTheRing(t *testing.T) {
	for _, mode := range []AttachMode{AttachGeneric, AttachNative} {
		t.Run(mode.String(), func(t *testing.T) {
			_, src, dst := oneWay(t, labOptions{}, portConfig{}, portConfig{}, mode)
			dst.fill(250)
			for _, n := range []int{1, 31, 32, 33, 64, 64, 65, 200} {
				must(t, src.send(batch(n)...))
				if left := src.sock.Tx().Len(); left != 0 {
					t.Fatalf("%d of %d frames left in the tx ring", left, n)
				}
				for i, f := range dst.receive(n) {
					if !bytes.Equal(f, testFrame(0, i, 64)) {
						t.Fatalf("frame %d of %d is wrong", i, n)
					}
				}
				eventually(t, "completions", func() bool { src.complete(); return src.free.Len() == 256 })
			}
		})
	}
}

// A full tx ring reserves nothing and loses nothing.
func TestTxRingFull(t *testing.T) {
	_, src, dst := oneWay(t, labOptions{}, portConfig{socket: SocketConfig{TxSize: 16}}, portConfig{}, AttachGeneric)
	dst.fill(64)
	tx := src.sock.Tx()
	if n := tx.Reserve(20); n != 16 {
		t.Fatalf("reserved %d of 16 slots", n)
	}
	for i := range uint32(16) {
		addr, _ := src.free.Get()
		tx.Set(i, Desc{Addr: addr, Len: uint32(copy(src.umem.Span(addr, 2048), testFrame(0, int(i), 64)))})
	}
	tx.Submit(16)
	if n := tx.Reserve(1); n != 0 || tx.Len() != 16 {
		t.Fatalf("full ring: reserved %d, Len %d", n, tx.Len())
	}
	must(t, src.sock.Kick())
	if n := tx.Reserve(20); n != 16 {
		t.Fatalf("drained ring: reserved %d of 16", n)
	}
	dst.receive(16)
}

// A full completion ring stops sending (xsk.c: "backpressure mechanism for the Tx
// path"); Kick says so, and the frames leave when there is room.
func TestCompletionRingFull(t *testing.T) {
	_, src, dst := oneWay(t, labOptions{}, portConfig{socket: SocketConfig{CompletionSize: 4}},
		portConfig{}, AttachGeneric)
	dst.fill(64)
	if err := src.send(batch(10)...); err != ErrTxPending {
		t.Fatalf("Kick with a full completion ring: %v", err)
	}
	dst.receive(4)
	var err error
	done := src.complete()
	for kicks := 0; done < 10 && kicks < 10; kicks++ {
		if err = src.sock.Kick(); err != nil && err != ErrTxPending {
			t.Fatal(err)
		}
		done += src.complete()
	}
	if done != 10 || err != nil {
		t.Fatalf("%d of 10 frames completed, last kick: %v", done, err)
	}
	dst.receive(6)
}

// A receiver that does not take frames loses them, counted (rx_ring_full).
func TestRxRingFull(t *testing.T) {
	_, src, dst := oneWay(t, labOptions{}, portConfig{}, portConfig{socket: SocketConfig{RxSize: 4}}, AttachGeneric)
	dst.fill(64)
	must(t, src.send(batch(10)...))
	eventually(t, "6 frames counted", func() bool { return dst.stats().RxRingFull == 6 })
	for i, f := range dst.receive(4) {
		if !bytes.Equal(f, testFrame(0, i, 64)) {
			t.Fatalf("frame %d is wrong", i)
		}
	}
	must(t, src.send(testFrame(0, 77, 64)))
	if f := dst.receive(1); !bytes.Equal(f[0], testFrame(0, 77, 64)) {
		t.Fatal("the frame after the loss is wrong")
	}
}

// A receiver that gives no frames loses what comes, counted
// (rx_fill_ring_empty_descs and rx_dropped).
func TestFillRingEmpty(t *testing.T) {
	_, src, dst := oneWay(t, labOptions{}, portConfig{}, portConfig{}, AttachGeneric)
	dst.fill(2)
	if n := dst.sock.Fill().Len(); n != 2 {
		t.Fatalf("fill ring holds %d, want 2", n)
	}
	must(t, src.send(batch(5)...))
	eventually(t, "3 frames counted", func() bool {
		s := dst.stats()
		return s.RxFillRingEmpty >= 3 && s.RxDropped == 3
	})
	dst.receive(2)
	must(t, src.send(testFrame(0, 9, 64)))
	if f := dst.receive(1); !bytes.Equal(f[0], testFrame(0, 9, 64)) {
		t.Fatal("the frame after the loss is wrong")
	}
}

// A frame larger than RxRoom is dropped and counted (__xsk_rcv), one that just fits is received.
func TestOversizeForUMEM(t *testing.T) {
	_, src, dst := oneWay(t, labOptions{mtu: 9000}, portConfig{},
		portConfig{umem: UMEMConfig{FrameSize: 2048, FrameCount: 256, Headroom: 64}}, AttachGeneric)
	dst.fill(64)
	room := dst.umem.RxRoom()
	if room != 2048-256-64 {
		t.Fatalf("RxRoom %d", room)
	}
	must(t, src.send(testFrame(0, 1, room+1), testFrame(0, 2, room)))
	if f := dst.receive(1); !bytes.Equal(f[0], testFrame(0, 2, room)) {
		t.Fatalf("got %d bytes, want the frame of %d", len(f[0]), room)
	}
	if s := dst.stats(); s.RxDropped != 1 {
		t.Fatalf("%+v", s)
	}
}

// A frame above the MTU is completed but does not arrive (is_skb_forwardable); the next one does.
func TestOversizeForMTU(t *testing.T) {
	_, src, dst := oneWay(t, labOptions{}, portConfig{}, portConfig{}, AttachGeneric)
	dst.fill(64)
	err := src.send(testFrame(0, 1, 3000), testFrame(0, 2, 64))
	must(t, err)
	if f := dst.receive(1); !bytes.Equal(f[0], testFrame(0, 2, 64)) {
		t.Fatalf("got %d bytes", len(f[0]))
	}
	eventually(t, "both are completed", func() bool { src.complete(); return src.free.Len() == 256 })
}

// A descriptor that leaves its frame or the UMEM is skipped and counted
// (tx_invalid_descs); those around it are sent.
func TestInvalidDescriptors(t *testing.T) {
	_, src, dst := oneWay(t, labOptions{}, portConfig{}, portConfig{}, AttachGeneric)
	dst.fill(64)
	addr, _ := src.free.Get()
	size := uint32(copy(src.umem.Span(addr, 2048), testFrame(0, 3, 64)))
	tx := src.sock.Tx()
	if tx.Reserve(4) != 4 {
		t.Fatal("no room")
	}
	tx.Set(0, Desc{Addr: addr, Len: 4097})
	tx.Set(1, Desc{Addr: 1 << 40, Len: 64})
	tx.Set(2, Desc{Addr: addr, Len: size, Options: 0x8000})
	tx.Set(3, Desc{Addr: addr, Len: size})
	tx.Submit(4)
	must(t, src.sock.Kick())
	if f := dst.receive(1); !bytes.Equal(f[0], testFrame(0, 3, 64)) {
		t.Fatal("wrong frame")
	}
	if s := src.stats(); s.TxInvalid != 3 {
		t.Fatalf("%+v", s)
	}
	// Whether the kernel completes what it skipped depends on its version.
	c := src.sock.Completion()
	n := c.Peek(4)
	if last := c.At(n - 1); n == 0 || last != addr {
		t.Fatalf("%d completions, the last of %#x, want %#x", n, last, addr)
	}
	c.Release(n)
	src.free.Put(addr)

	// An unusable address in the fill ring is skipped, too.
	fill := dst.sock.Fill()
	fill.Reserve(1)
	fill.Set(0, 1<<40)
	fill.Submit(1)
	for i := range 100 {
		must(t, src.send(testFrame(0, i, 64)))
		if f := dst.receive(1); !bytes.Equal(f[0], testFrame(0, i, 64)) {
			t.Fatalf("frame %d is wrong", i)
		}
		eventually(t, "completion", func() bool { return src.complete() > 0 })
	}
	t.Logf("bad fill address: %+v", dst.stats())
}

// A packet of several buffers crosses as several descriptors, all but the last
// with PacketContinued (af_xdp.rst, "Multi-Buffer Support").
func TestMultiBuffer(t *testing.T) {
	for _, mode := range []AttachMode{AttachGeneric, AttachNative} {
		t.Run(mode.String(), func(t *testing.T) {
			c := portConfig{socket: SocketConfig{MultiBuffer: true}, frags: true}
			_, src, dst := oneWay(t, labOptions{mtu: 9000}, c, c, mode)
			if !dst.sock.Info().MultiBuffer {
				t.Fatal("not multi-buffer")
			}
			dst.fill(64)
			packet := testFrame(0, 5, 9000)
			tx := src.sock.Tx()
			var n uint32
			tx.Reserve(3)
			for rest := packet; len(rest) > 0; n++ {
				addr, _ := src.free.Get()
				d := Desc{Addr: addr, Len: uint32(copy(src.umem.Span(addr, 2048), rest))}
				if rest = rest[d.Len:]; len(rest) > 0 {
					d.Options = PacketContinued
				}
				tx.Set(n, d)
			}
			tx.Submit(n)
			must(t, src.sock.Kick())
			var got []byte
			for more, parts := true, 0; more; parts++ {
				eventually(t, "a part of the packet arrives", func() bool { return dst.sock.Rx().Peek(1) == 1 })
				d := dst.sock.Rx().At(0)
				got = append(got, dst.umem.Data(d)...)
				more = d.Options&PacketContinued != 0
				dst.sock.Rx().Release(1)
				if !more && parts < 2 {
					t.Fatalf("%d bytes in %d parts", len(got), parts+1)
				}
			}
			if !bytes.Equal(got, packet) {
				t.Fatalf("%d bytes sent, %d received, or not the same", len(packet), len(got))
			}
		})
	}
}

// Wait wakes for a frame, ends at its timeout, and sends in copy mode (xsk_poll).
func TestWait(t *testing.T) {
	_, src, dst := oneWay(t, labOptions{}, portConfig{}, portConfig{}, AttachGeneric)
	dst.fill(64)
	for _, timeout := range []time.Duration{0, time.Millisecond} {
		if readable, err := dst.sock.Wait(timeout); readable || err != nil {
			t.Fatalf("Wait(%v) with nothing there: %v, %v", timeout, readable, err)
		}
	}
	woken := make(chan error)
	go func() {
		readable, err := dst.sock.Wait(-1)
		if err == nil && !readable {
			err = errors.New("an endless Wait ended without a frame")
		}
		woken <- err
	}()
	must(t, src.send(testFrame(0, 1, 64)))
	select {
	case err := <-woken:
		must(t, err)
	case <-time.After(patience):
		t.Fatal("Wait does not wake")
	}
	dst.receive(1)
}

// Kick, WakeRx and Wait report an interface that goes down or away, and the
// socket works again when the interface comes up.
func TestInterfaceGoes(t *testing.T) {
	l, src, dst := oneWay(t, labOptions{}, portConfig{socket: SocketConfig{BusyPoll: BusyPoll{Micros: 1}}},
		portConfig{}, AttachGeneric)
	dst.fill(64)
	l.setDown(0)
	if err := src.send(testFrame(0, 1, 64)); err != ErrNetDown {
		t.Fatalf("Kick on an interface that is down: %v", err)
	}
	if err := src.sock.WakeRx(); err != ErrNetDown {
		t.Fatalf("WakeRx on an interface that is down: %v", err)
	}
	if _, err := src.sock.Wait(time.Millisecond); !errors.Is(err, ErrNetDown) {
		t.Fatalf("Wait on an interface that is down: %v", err)
	}
	l.setUp(0)
	eventually(t, "the frame leaves", func() bool {
		err := src.sock.Kick()
		if err != nil && err != ErrNetDown {
			t.Fatal(err)
		}
		return err == nil
	})
	eventually(t, "frames pass again", func() bool {
		must(t, src.send(testFrame(0, 2, 64)))
		src.complete()
		return dst.sock.Rx().Peek(1) > 0
	})
	l.remove(0)
	if err := src.send(testFrame(0, 3, 64)); err != ErrNoInterface {
		t.Fatalf("Kick on an interface that is gone: %v", err)
	}
	if _, err := src.sock.Wait(time.Millisecond); !errors.Is(err, ErrNoInterface) {
		t.Fatalf("Wait on an interface that is gone: %v", err)
	}
}
