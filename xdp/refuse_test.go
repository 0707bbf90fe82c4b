// What Open, Register and Attach refuse, with which error, and that a refusal
// leaves nothing behind.

package xdp

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// openIn opens a socket in a host's namespace from any goroutine, whose thread it
// gives up when it belongs to no lab.
func openIn(l *lab, host int, c SocketConfig) (s *Socket, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err = netns.Set(l.ns[host]); err == nil {
			s, err = Open(c)
		}
	}()
	<-done
	return s, err
}

func TestOpenRefusals(t *testing.T) {
	l := newLab(t, labOptions{queues: 2})
	umem, err := NewUMEM(UMEMConfig{FrameCount: 64})
	must(t, err)
	for _, c := range []struct {
		name string
		want error
		c    SocketConfig
	}{
		{"wrong name", ErrNoInterface, SocketConfig{Interface: "nosuch0"}},
		{"wrong index", ErrNoInterface, SocketConfig{Index: 99999}},
		{"neither", ErrNoInterface, SocketConfig{}},
		{"name and other index", ErrConfig, SocketConfig{Interface: labInterface, Index: 99999}},
		{"queue 2 of 2", ErrQueueRange, SocketConfig{Interface: labInterface, Queue: 2}},
		{"queue 99", ErrQueueRange, SocketConfig{Interface: labInterface, Queue: 99}},
		{"zero-copy on veth", ErrNotSupported, SocketConfig{Interface: labInterface, Bind: BindZeroCopy}},
		{"unknown mode", ErrConfig, SocketConfig{Interface: labInterface, Bind: 7}},
		{"odd ring", ErrConfig, SocketConfig{Interface: labInterface, RxSize: 100}},
		{"huge ring", ErrConfig, SocketConfig{Interface: labInterface, TxSize: 1 << 31}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.c.UMEM = umem
			s, err := openIn(l, 0, c.c)
			if err == nil {
				s.Close()
			}
			wantError(t, err, c.want)
		})
	}
	l.in(0, func() { _, err = Open(SocketConfig{Interface: labInterface}) })
	wantError(t, err, ErrConfig) // no UMEM
	must(t, umem.Close())        // no refused socket holds it
}

func TestOpenOnInterfaceThatIsDown(t *testing.T) {
	l := newLab(t, labOptions{down: true})
	umem, err := NewUMEM(UMEMConfig{FrameCount: 64})
	must(t, err)
	l.in(0, func() { _, err = Open(SocketConfig{Interface: labInterface, UMEM: umem}) })
	wantError(t, err, ErrNetDown)
	must(t, umem.Close())
}

// A driver that does not tell its queues (a bridge has no ethtool channels) has the
// kernel refuse those that are not there (xsk_reg_pool_at_qid).
func TestQueueRangeOfSilentDriver(t *testing.T) {
	l := newLab(t, labOptions{})
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "br0"
	must(t, l.nl[0].LinkAdd(&netlink.Bridge{LinkAttrs: attrs}))
	bridge, err := l.nl[0].LinkByName("br0")
	must(t, err)
	must(t, l.nl[0].LinkSetUp(bridge))
	umem, err := NewUMEM(UMEMConfig{FrameCount: 64})
	must(t, err)
	l.in(0, func() {
		_, err = Open(SocketConfig{Interface: "br0", Queue: 99, UMEM: umem})
		wantError(t, err, ErrQueueRange)
		s, err := Open(SocketConfig{Interface: "br0", UMEM: umem})
		must(t, err)
		must(t, s.Close())
		if n, err := Queues("br0"); n != 1 || err != nil {
			t.Errorf("Queues: %d, %v", n, err)
		}
	})
	must(t, umem.Close())
}

// impatient makes a bind to a busy queue fail soon, until the test ends or goes on patiently.
func impatient(t *testing.T) (patiently func()) {
	before := busyWait
	busyWait = 100 * time.Millisecond
	patiently = func() { busyWait = before }
	t.Cleanup(patiently)
	return patiently
}

// A queue has one UMEM (xsk.c: EBUSY), and is free again when its socket is closed,
// although the kernel releases it late.
func TestQueueBusy(t *testing.T) {
	l := newLab(t, labOptions{})
	first := l.openPort(0, portConfig{})
	patiently := impatient(t)
	umem, err := NewUMEM(UMEMConfig{FrameCount: 64})
	must(t, err)
	defer umem.Close()
	for _, mode := range []BindMode{BindCopy, BindAuto} {
		l.in(0, func() { _, err = Open(SocketConfig{Interface: labInterface, UMEM: umem, Bind: mode}) })
		wantError(t, err, ErrBusy)
	}
	patiently()
	if err := first.umem.Close(); err == nil {
		t.Fatal("a UMEM was unmapped under an open socket")
	} else {
		wantError(t, err, ErrInUse)
	}
	must(t, first.sock.Close())
	for range 3 {
		l.in(0, func() {
			s, err := Open(SocketConfig{Interface: labInterface, UMEM: umem})
			must(t, err)
			must(t, s.Close())
		})
	}
}

// A closed socket refuses, and its rings are full and empty at once; nothing faults.
func TestUseAfterClose(t *testing.T) {
	l := newLab(t, labOptions{})
	p := l.openPort(0, portConfig{})
	r, err := NewRedirectProgram(RedirectConfig{Queues: 1})
	must(t, err)
	defer r.Close()
	s := p.sock
	rx, tx, fill, completion := s.Rx(), s.Tx(), s.Fill(), s.Completion()
	must(t, s.Close())
	must(t, s.Close())
	for _, n := range []uint32{rx.Peek(1), tx.Reserve(1), s.Fill().Reserve(1), s.Completion().Peek(1), tx.Cap(),
		s.Fill().Cap()} {
		if n != 0 {
			t.Fatal("a closed ring has room or entries")
		}
	}
	rx.At(5)
	tx.Set(5, Desc{})
	s.Fill().Set(5, 0)
	s.Completion().At(5)
	rx.Release(1)
	tx.Submit(1)
	// Also through the pointers from before.
	if fill.Reserve(1) != 0 || completion.Peek(1) != 0 {
		t.Fatal("a closed ring has room or entries")
	}
	fill.Set(1, 1)
	completion.At(1)
	must(t, s.Kick())
	must(t, s.WakeRx())
	_, err = s.Wait(0)
	wantError(t, err, ErrClosed)
	_, err = s.Statistics()
	wantError(t, err, ErrClosed)
	wantError(t, s.Register(r.Sockets, 0), ErrClosed)
	if s.FD() != -1 {
		t.Fatalf("FD %d", s.FD())
	}
}

func TestRegisterRefusals(t *testing.T) {
	l := newLab(t, labOptions{})
	p := l.openPort(0, portConfig{})
	array, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	must(t, err)
	defer array.Close()
	wantError(t, p.sock.Register(array, 0), ErrConfig)
	wantError(t, p.sock.Register(nil, 0), ErrConfig)
	r, err := NewRedirectProgram(RedirectConfig{Queues: 2})
	must(t, err)
	defer r.Close()
	wantError(t, p.sock.Register(r.Sockets, 2), ErrQueueRange)
	for _, queues := range []int{0, -1, maxQueues + 1} {
		_, err := NewRedirectProgram(RedirectConfig{Queues: queues})
		wantError(t, err, ErrConfig)
	}
}

// withoutCapabilities runs f on a thread of its own that has given up some capabilities for good.
func withoutCapabilities(t *testing.T, drop uint64, f func()) {
	t.Helper()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var sets [2]unix.CapUserData
		if err = unix.Capget(&header, &sets[0]); err != nil {
			return
		}
		for i := range sets {
			keep := ^uint32(drop >> (32 * i))
			sets[i].Effective &= keep
			sets[i].Permitted &= keep
		}
		if err = unix.Capset(&header, &sets[0]); err == nil {
			f()
		}
	}()
	<-done
	must(t, err)
}

// Without capabilities nothing is opened or loaded, and the error says which are
// missing. (Attaching needs none: the kernel asks only who loads a program.)
func TestPermission(t *testing.T) {
	l := newLab(t, labOptions{})
	umem, err := NewUMEM(UMEMConfig{FrameCount: 64})
	must(t, err)
	var open, load error
	withoutCapabilities(t, ^uint64(1<<unix.CAP_SYS_ADMIN), func() {
		if open = netns.Set(l.ns[0]); open != nil {
			return
		}
		// Entering the namespace needed CAP_SYS_ADMIN, which also stands for
		// CAP_BPF and CAP_NET_ADMIN in places: give it up, too.
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if open = unix.Capset(&header, &none[0]); open != nil {
			return
		}
		_, open = Open(SocketConfig{Interface: labInterface, UMEM: umem})
		_, load = NewRedirectProgram(RedirectConfig{Queues: 1})
	})
	wantError(t, open, ErrPermission)
	wantError(t, load, ErrPermission)
	must(t, umem.Close())
}

// A UMEM beyond RLIMIT_MEMLOCK is refused with the two cures (xdp_umem_account_pages).
func TestMemlock(t *testing.T) {
	impatient(t)
	l := newLab(t, labOptions{})
	umem, err := NewUMEM(UMEMConfig{FrameCount: 64})
	must(t, err)
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old))
	must(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: uint64(os.Getpagesize()), Max: old.Max}))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old)) }()
	withoutCapabilities(t, 1<<unix.CAP_IPC_LOCK, func() {
		if err = netns.Set(l.ns[0]); err == nil {
			_, err = Open(SocketConfig{Interface: labInterface, UMEM: umem})
		}
	})
	wantError(t, err, ErrMemlock)
	must(t, umem.Close())
}
