// The order in which a socket comes to its queue: frames before bind, a program before
// zero-copy; and when the driver is woken.

package xdp

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func addresses(u *UMEM, n uint32) (addrs []uint64) {
	for i := range n {
		addrs = append(addrs, u.Addr(i))
	}
	return addrs
}

// Rule: SocketConfig.Frames are on the fill ring before the kernel knows for which queue. A driver
// takes the receive buffers of a zero-copy queue from there at bind, and one that finds none (igb)
// receives nothing more, for the kernel neither.
func TestFramesBeforeBind(t *testing.T) {
	l := newLab(t, labOptions{})
	umem, err := NewUMEM(UMEMConfig{FrameCount: 64})
	must(t, err)
	defer func() { must(t, umem.Close()) }()
	l.in(0, func() {
		dev, err := net.InterfaceByName(labInterface)
		must(t, err)
		fd, err := newSocket()
		must(t, err)
		c := SocketConfig{Interface: labInterface, UMEM: umem, Frames: addresses(umem, 50), FillSize: 64}
		must(t, c.complete("test", dev, fd))
		s := &Socket{fd: fd, umem: umem}
		umem.users.Add(1)
		defer s.Close()
		must(t, s.assemble(&c, dev, time.Now(), false))
		if err := s.recvfrom(); err != ErrNoInterface { // ENXIO of xsk_recvmsg: not bound
			t.Errorf("the socket is bound: %v", err)
		}
		if n := s.Fill().Len(); n != 50 {
			t.Errorf("%d frames are on the fill ring before bind, want 50", n)
		}
	})
}

// Rule: what Open put on the fill ring is received into, also when zero-copy was tried and refused
// before; each socket of its own queue has its own.
func TestFramesAreReceivedInto(t *testing.T) {
	for _, bind := range []BindMode{BindCopy, BindAuto} {
		l := newLab(t, labOptions{queues: 2})
		src := l.openPort(0, portConfig{})
		umem, err := NewUMEM(UMEMConfig{FrameCount: 40})
		must(t, err)
		t.Cleanup(func() { must(t, umem.Close()) })
		first := l.openSocket(1, SocketConfig{UMEM: umem, Bind: bind, Frames: addresses(umem, 20)})
		second := l.openSocket(1, SocketConfig{Queue: 1, Shared: first, Frames: addresses(umem, 40)[20:]})
		l.redirect(1, AttachNative, RedirectConfig{EtherType: testEtherType}, first, second)
		if a, b := first.Fill().Len(), second.Fill().Len(); a != 20 || b != 20 {
			t.Fatalf("%d and %d frames on the fill rings, want 20 each", a, b)
		}
		dst := &port{t: t, sock: first, umem: umem, free: NewAllocator(umem, 0, 20)}
		for range 20 {
			dst.free.Get()
		}
		exchange1 := func(seq int) {
			must(t, src.send(testFrame(0, seq, 200)))
			if got := dst.receive(1)[0]; string(got) != string(testFrame(0, seq, 200)) {
				t.Fatalf("frame %d is wrong", seq)
			}
			src.complete()
		}
		for seq := range 60 {
			exchange1(seq)
		}
		if s := dst.stats(); s.RxFillRingEmpty != 0 {
			t.Fatalf("%+v", s)
		}
	}
}

// Rule: frames that cannot be on the fill ring are refused.
func TestFramesRefused(t *testing.T) {
	l := newLab(t, labOptions{})
	first := l.openPort(0, portConfig{})
	umem, err := NewUMEM(UMEMConfig{FrameCount: 64})
	must(t, err)
	defer func() { must(t, umem.Close()) }()
	for name, c := range map[string]SocketConfig{
		"more than slots":    {UMEM: umem, FillSize: 32, Frames: addresses(umem, 33)},
		"outside the UMEM":   {UMEM: umem, Frames: []uint64{0, 64 * 4096}},
		"no ring of its own": {Shared: first.sock, Frames: []uint64{0}},
	} {
		c.Interface = labInterface
		s, err := openIn(l, 0, c)
		if err == nil {
			s.Close()
		}
		t.Log(name)
		wantError(t, err, ErrConfig)
	}
}

// Rule: zero-copy is never bound beside a program in generic mode, whose frames the kernel has
// copied: BindAuto binds copy and says why, BindZeroCopy is refused with what to do. The driver is
// not asked.
func TestNoZeroCopyWithGeneric(t *testing.T) {
	l := newLab(t, labOptions{})
	l.redirect(0, AttachGeneric, RedirectConfig{})
	umem, err := NewUMEM(UMEMConfig{FrameCount: 64})
	must(t, err)
	defer func() { must(t, umem.Close()) }()
	_, err = openIn(l, 0, SocketConfig{Interface: labInterface, UMEM: umem, Bind: BindZeroCopy})
	wantError(t, err, ErrNotSupported)
	if !errors.Is(err, errGeneric) || errors.Is(err, unix.EOPNOTSUPP) ||
		!strings.Contains(err.Error(), "attach native before, or use copy mode") {
		t.Errorf("%v", err)
	}
	s, err := openIn(l, 0, SocketConfig{Interface: labInterface, UMEM: umem})
	must(t, err)
	defer s.Close()
	if i := s.Info(); i.Mode != BindCopy || !errors.Is(i.ZeroCopyErr, errGeneric) {
		t.Errorf("%+v", i)
	}
}

// Rule: the driver is woken when it asks and there is something for it in the fill ring, and not
// otherwise. In copy mode none looks there, and the word that it would ask with, which lies beside
// an index that the sender's processor writes, is not looked at. That the kernel was called shows
// by its answer on an interface that is down. No driver of a lab has zero-copy, so the socket is
// told that it is.
func TestWakeRx(t *testing.T) {
	l := newLab(t, labOptions{})
	p := l.openPort(0, portConfig{socket: SocketConfig{NeedWakeup: true}})
	l.setDown(0)
	flags := p.sock.Fill().flags
	p.sock.zeroCopy = true
	must(t, p.sock.WakeRx())
	flags.Or(unix.XDP_RING_NEED_WAKEUP)
	must(t, p.sock.WakeRx()) // nothing to see there
	p.fill(1)
	if err := p.sock.WakeRx(); err != ErrNetDown {
		t.Errorf("asked, with a frame in the ring: %v, want %v", err, ErrNetDown)
	}
	p.sock.zeroCopy = false
	if err := p.sock.WakeRx(); err != nil {
		t.Errorf("in copy mode: %v", err)
	}
	p.sock.zeroCopy = true
	flags.And(^uint32(unix.XDP_RING_NEED_WAKEUP))
	must(t, p.sock.WakeRx())
	p.sock.zeroCopy = false
}
