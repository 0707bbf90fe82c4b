package afxdp

// This file is the bench of the tests, two ports in a lab of two namespaces, and the
// rules of a port that hold with and without jumbo frames.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/xdp"
)

const (
	group    = 9
	patience = 20 * time.Second // far more than anything takes
)

var modes = []xdp.AttachMode{xdp.AttachGeneric, xdp.AttachNative}

var _ port.Port = (*Port)(nil)

func newLab(t *testing.T, o lab.Options) *lab.Lab {
	t.Helper()
	o.Hosts = 2
	l, err := lab.Up(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// open opens a port on a host. The test's goroutine, which it locks to its thread, has it.
func open(t *testing.T, l *lab.Lab, host int, c Config) *Port {
	t.Helper()
	runtime.LockOSThread()
	p, err := tryOpen(l, host, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return p
}

func tryOpen(l *lab.Lab, host int, c Config) (p *Port, err error) {
	if c.Interface == "" {
		c.Interface = "fu0"
	}
	c.Groups = []uint16{group}
	return p, l.Do(host, func() error {
		var err error
		p, err = Open(c)
		return err
	})
}

// pair is a port on each host, the same configuration on both.
func pair(t *testing.T, o lab.Options, c Config) (a, b *Port) {
	t.Helper()
	l := newLab(t, o)
	return open(t, l, 0, c), open(t, l, 1, c)
}

// compose writes frame n of size bytes, at least bpf.FrameMin, that the NIC program lets
// through; only its number and size decide its bytes.
func compose(f []byte, to, from *Port, n uint32) {
	for i := range f {
		f[i] = byte(n + uint32(i)*7 + uint32(i)>>8)
	}
	copy(f, to.info.MAC[:])
	copy(f[6:], from.info.MAC[:])
	if len(f) >= bpf.FrameMin { // all of one level and two cards, and so of one flow
		f[15] = 0
		binary.LittleEndian.PutUint32(f[24:], 1)
	}
	// the address stands for the card, which the frame says, too
	if to.udp != nil && len(f) >= bpf.FrameMin {
		a, b := encap.Address(cardOf(to)), encap.Address(cardOf(from))
		copy(f, a[:])
		copy(f[6:], b[:])
		binary.LittleEndian.PutUint16(f[24:], cardOf(from))
		binary.LittleEndian.PutUint16(f[26:], cardOf(to))
	}
	binary.BigEndian.PutUint16(f[12:], bpf.EtherType)
	f[14] = bpf.Version
	binary.LittleEndian.PutUint16(f[16:], uint16(len(f)-14))
	binary.LittleEndian.PutUint16(f[18:], group)
	binary.LittleEndian.PutUint32(f[20:], n)
}

// send commits frame n.
func send(t *testing.T, from, to *Port, n uint32, size int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	b := from.Reserve()
	for ; b == nil; b = from.Reserve() {
		if time.Now().After(deadline) {
			t.Fatalf("frame %d: no room to send for %v", n, patience)
		}
		from.Flush()
	}
	if len(b) != from.FrameSize() {
		t.Fatalf("Reserve returned %d bytes, FrameSize is %d", len(b), from.FrameSize())
	}
	if again := from.Reserve(); &again[0] != &b[0] {
		t.Fatal("Reserve without Commit returned another buffer")
	}
	compose(b[:size], to, from, n)
	from.Commit(size)
}

// receive waits for want frames and gives copies of them, at most batch at a time.
func receive(t *testing.T, p *Port, want, batch int) (all [][]byte) {
	t.Helper()
	lent := make([][]byte, batch)
	for deadline := time.Now().Add(patience); len(all) < want; {
		n := p.Receive(lent)
		for _, f := range lent[:n] {
			all = append(all, bytes.Clone(f))
		}
		p.Release()
		if n == 0 && time.Now().After(deadline) {
			s, _ := p.Statistics()
			t.Fatalf("%d of %d frames arrived; %+v, %+v", len(all), want, s, p.Chains())
		}
	}
	return all
}

// exchange sends frames of the sizes, some at once, and checks that they arrive unchanged,
// in order, and that nothing else does.
func exchange(t *testing.T, from, to *Port, sizes []int, atOnce int) {
	t.Helper()
	want := make([]byte, max(from.FrameSize(), to.FrameSize()))
	for first := 0; first < len(sizes); first += atOnce {
		part := sizes[first:min(first+atOnce, len(sizes))]
		for i, size := range part {
			send(t, from, to, uint32(first+i), size)
		}
		from.Flush()
		for i, f := range receive(t, to, len(part), 1+first%maxLent) {
			w := want[:part[i]]
			compose(w, to, from, uint32(first+i))
			if !bytes.Equal(f, w) {
				t.Fatalf("frame %d: sent %d bytes, received %d, or not the same", first+i, len(w), len(f))
			}
		}
	}
	settled(t, from)
	if to.Ready() {
		t.Fatal("something else arrived")
	}
}

// settled waits until everything sent has been completed.
func settled(t *testing.T, p *Port) {
	t.Helper()
	all := int(p.sizes.txFrames / p.sizes.txParts)
	for deadline := time.Now().Add(patience); ; {
		p.Flush()
		p.reap()
		free := len(p.slabs.free)
		if free == all {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d frames to send are free", free, all)
		}
	}
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
}

// mixture is sizes around every edge and between, the same at every run.
func mixture(p *Port, n int) (sizes []int) {
	max := p.FrameSize()
	for _, edge := range []int{bpf.FrameMin, 1514, 2048, 3836, 3840, 4096, 2 * 3840, 2 * 4096, 3 * 3840, max} {
		for _, size := range []int{edge - 1, edge, edge + 1} {
			if size >= bpf.FrameMin && size <= max {
				sizes = append(sizes, size)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, uint64(max)))
	for len(sizes) < n {
		sizes = append(sizes, bpf.FrameMin+r.IntN(max-bpf.FrameMin+1))
	}
	r.Shuffle(len(sizes), func(i, j int) { sizes[i], sizes[j] = sizes[j], sizes[i] })
	return sizes
}

// Rule (port.Port): frames of every size up to FrameSize arrive unchanged and in order,
// in both directions and attach modes, often enough that every ring wraps; the kernel
// drops nothing and everything sent is completed.
func TestFramesBothWays(t *testing.T) {
	for _, mode := range modes {
		for _, c := range []struct {
			lab   lab.Options
			jumbo bool
			size  int // the longest frame
			n     int
		}{
			{lab.Options{MTU: 1500}, false, 1514, 6000},
			{lab.Options{MTU: 1500}, true, 1514, 6000},
			{lab.Options{MTU: 9000}, false, 3836, 6000},
			{lab.Options{MTU: 9000}, true, 9014, 6000},
			{lab.Options{MTU: 9000, Queues: 2}, true, 9014, 2000},
			{lab.Options{MTU: 65535}, true, 65549, 1000},
		} {
			if mode == xdp.AttachNative && !c.jumbo && c.lab.MTU > 1500 {
				continue // refused, see TestOpenRefuses
			}
			t.Run(fmt.Sprintf("%s/MTU %d/queues %d/jumbo %v", mode, c.lab.MTU, c.lab.Queues, c.jumbo),
				func(t *testing.T) {
					a, b := pair(t, c.lab, Config{Attach: mode, Bind: xdp.BindCopy, Jumbo: c.jumbo})
					i := a.Info()
					if i.FrameSize != c.size || a.FrameSize() != c.size || i.Jumbo != c.jumbo || i.XDPMode != mode ||
						i.MTU != c.lab.MTU {
						t.Fatalf("%+v, want frames of %d bytes", i, c.size)
					}
					exchange(t, a, b, mixture(a, c.n), 20)
					exchange(t, b, a, mixture(b, c.n), 20)
					for _, p := range []*Port{a, b} {
						s, err := p.Statistics()
						if err != nil {
							t.Fatal(err)
						}
						if s.RxDropped+s.RxInvalid+s.TxInvalid+s.RxRingFull != 0 {
							t.Errorf("the kernel counted %+v", s)
						}
						got := p.Chains()
						if got.Dropped != 0 || (got.Assembled > 0) != (c.size > 3840) && c.jumbo {
							t.Errorf("%+v with frames of up to %d bytes", got, c.size)
						}
						// But for those that go on at the beginning of the memory.
						if got.Copied > got.Assembled/8 {
							t.Errorf("%+v: too many do not lie in one piece", got)
						}
					}
				})
		}
	}
}

// Rule: what a jumbo port sends that fits one UMEM frame any port receives; longer frames
// a port without Jumbo never sees, the kernel counts them, and the next arrive
// (xsk_rcv_check of net/xdp/xsk.c).
func TestPeerWithoutJumbo(t *testing.T) {
	l := newLab(t, lab.Options{MTU: 9000})
	a := open(t, l, 0, Config{Attach: xdp.AttachGeneric, Jumbo: true})
	b := open(t, l, 1, Config{Attach: xdp.AttachGeneric})
	exchange(t, a, b, []int{bpf.FrameMin, 1514, 3836}, 3)
	for i, size := range []int{3841, 4096, 4097, 9014} {
		send(t, a, b, uint32(i), size)
		a.Flush()
		for deadline := time.Now().Add(patience); ; runtime.Gosched() {
			s, err := b.Statistics()
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("frame of %d bytes: %+v, %v", size, s, err)
			}
			if s.RxDropped == uint64(i+1) {
				break
			}
		}
		exchange(t, a, b, []int{3836}, 1)
	}
	exchange(t, b, a, mixture(b, 300), 20)
}

// Rule: when the fill ring runs empty or the rx ring full, whole frames are lost, never
// parts, and afterwards frames arrive as before (port doc).
func TestExhaustion(t *testing.T) {
	for _, mode := range modes {
		for name, c := range map[string]Config{
			"fill": {FillFrames: 7}, "rx ring": {RxRing: 8}, "smallest": {FillFrames: 3, RxRing: 4},
		} {
			t.Run(mode.String()+"/"+name, func(t *testing.T) {
				l := newLab(t, lab.Options{MTU: 9000})
				c.Attach, c.Jumbo = mode, true
				a, b := open(t, l, 0, Config{Attach: mode, Jumbo: true}), open(t, l, 1, c)
				sizes := mixture(a, 40)
				for range 20 {
					for i, size := range sizes {
						send(t, a, b, uint32(i), size)
					}
					a.Flush()
					settled(t, a)
					arrived := 0
					lent := make([][]byte, maxLent)
					for last := -1; b.Ready(); b.Release() {
						for _, f := range lent[:b.Receive(lent)] {
							n := int(binary.LittleEndian.Uint32(f[20:]))
							if n <= last || n >= len(sizes) || len(f) != sizes[n] {
								t.Fatalf("frame %d of %d bytes after frame %d", n, len(f), last)
							}
							want := make([]byte, len(f))
							compose(want, b, a, uint32(n))
							if !bytes.Equal(f, want) {
								t.Fatalf("frame %d of %d bytes is damaged", n, len(f))
							}
							last = n
							arrived++
						}
					}
					if arrived == 0 || arrived == len(sizes) {
						t.Fatalf("%d of %d frames arrived", arrived, len(sizes))
					}
					exchange(t, a, b, []int{9014, arctic.HeaderSize, 9014, 5000}, 1)
				}
			})
		}
	}
}

// halves is how long frame i is of as many as a port sends at once: the longest, and with jumbo
// each second one short, because the peer's memory holds no more.
func halves(p *Port, i int) int {
	if p.asm != nil && i%2 == 1 {
		return 1000
	}
	return p.FrameSize()
}

// Rule (port.Port): Reserve is nil when all transmit memory is under way, loses nothing
// and gives it again after Flush.
func TestTransmitMemoryFull(t *testing.T) {
	for _, jumbo := range []bool{false, true} {
		t.Run(fmt.Sprintf("jumbo %v", jumbo), func(t *testing.T) {
			a, b := pair(t, lab.Options{MTU: 9000}, Config{Attach: xdp.AttachGeneric, Jumbo: jumbo})
			for range 3 {
				n := 0
				for buffer := a.Reserve(); buffer != nil; buffer = a.Reserve() {
					compose(buffer[:halves(a, n)], b, a, uint32(n))
					a.Commit(halves(a, n))
					n++
				}
				if n != txFrames {
					t.Fatalf("%d frames were reserved, want %d", n, txFrames)
				}
				a.Flush()
				for i, f := range receive(t, b, n, maxLent) {
					if len(f) != halves(a, i) || binary.LittleEndian.Uint32(f[20:]) != uint32(i) {
						t.Fatalf("frame %d of %d bytes", i, len(f))
					}
				}
				settled(t, a)
			}
		})
	}
}

// Rule: what cannot be opened is an error that says why and what to do, never another
// mode, and leaves the interface as it was.
func TestOpenRefuses(t *testing.T) {
	l := newLab(t, lab.Options{MTU: 9000})
	small := newLab(t, lab.Options{MTU: 300})
	for name, c := range map[string]struct {
		lab    *lab.Lab
		config Config
		want   error
		says   string
	}{
		"no interface":  {l, Config{Interface: "eth7", Jumbo: true}, xdp.ErrNoInterface, "eth7"},
		"MTU too small": {small, Config{Jumbo: true}, ErrMTU, "mtu 1500"},
		"zero-copy on veth, jumbo": {l, Config{Bind: xdp.BindZeroCopy, Attach: xdp.AttachNative, Jumbo: true},
			xdp.ErrNotSupported, "do without on every node"},
		"native without jumbo": {l, Config{Attach: xdp.AttachNative}, xdp.ErrNotSupported,
			"use jumbo frames on every node"},
		"rx ring for no frame":   {l, Config{RxRing: 2, Jumbo: true}, ErrRing, "fills 3 slots"},
		"fill ring for no frame": {l, Config{FillFrames: 2, Jumbo: true}, ErrRing, "9014 bytes"},
	} {
		p, err := tryOpen(c.lab, 0, c.config)
		if err == nil {
			t.Errorf("%s: it was opened: %v", name, p.Close())
			continue
		}
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %v in one line with %q", name, err, c.want, c.says)
		}
	}
	open(t, l, 0, Config{Jumbo: true})
}

// Rule: nothing allocates after Open.
func TestNoAllocation(t *testing.T) {
	for _, jumbo := range []bool{false, true} {
		a, b := pair(t, lab.Options{MTU: 9000}, Config{Attach: xdp.AttachGeneric, Jumbo: jumbo})
		lent := make([][]byte, maxLent)
		n := testing.AllocsPerRun(100, func() {
			for i := range 8 {
				buffer := a.Reserve()
				compose(buffer, b, a, uint32(i))
				a.Commit(len(buffer))
			}
			a.Flush()
			for got := 0; got < 8; b.Release() {
				got += b.Receive(lent)
			}
		})
		if n != 0 {
			t.Errorf("jumbo %v: %v allocations in an exchange of 8 frames", jumbo, n)
		}
	}
}

// Rule: where no mode is asked for, veth of one queue gets generic mode, which is faster there, as
// labs that measure find. Without a mode asked for, veth of several queues gets native mode,
// without which its queues do not work. A mode that was asked for is used.
func TestModeOnVeth(t *testing.T) {
	for _, c := range []struct {
		queues    int
		ask, want xdp.AttachMode
	}{
		{1, xdp.AttachAuto, xdp.AttachGeneric},
		{3, xdp.AttachAuto, xdp.AttachNative},
		{1, xdp.AttachNative, xdp.AttachNative},
		{1, xdp.AttachGeneric, xdp.AttachGeneric},
	} {
		p := open(t, newLab(t, lab.Options{Queues: c.queues}), 0, Config{Attach: c.ask})
		if got := p.Info().XDPMode; got != c.want {
			t.Errorf("%d queues, asked for %v: %v, want %v", c.queues, c.ask, got, c.want)
		}
	}
}

// Rule: the driver is woken wherever it asks, also by a look that finds nothing: it may ask just
// after frames were given back. A port with busy polling always wakes; that it does shows by the
// answer of an interface that is down, which is gone when that is up again.
func TestWakesWithoutFrames(t *testing.T) {
	for _, jumbo := range []bool{false, true} {
		l := newLab(t, lab.Options{})
		p := open(t, l, 0, Config{Jumbo: jumbo, BusyPoll: xdp.BusyPoll{Micros: 20}})
		look := func() error { p.Receive(make([][]byte, maxLent)); return p.Err() }
		if err := look(); err != nil {
			t.Fatal(err)
		}
		setLink(t, l, 0, false)
		if err := look(); !errors.Is(err, xdp.ErrNetDown) {
			t.Errorf("jumbo %v: a look at an interface that is down: %v, want %v", jumbo, err, xdp.ErrNetDown)
		}
		setLink(t, l, 0, true)
		if err := look(); err != nil {
			t.Errorf("jumbo %v: a look at an interface that is up again: %v", jumbo, err)
		}
	}
}

// setLink sets the interface of a host up or down.
func setLink(t *testing.T, l *lab.Lab, host int, up bool) {
	t.Helper()
	if err := l.Do(host, func() error {
		i, err := netlink.LinkByName("fu0")
		switch {
		case err != nil:
			return err
		case up:
			return netlink.LinkSetUp(i)
		}
		return netlink.LinkSetDown(i)
	}); err != nil {
		t.Fatal(err)
	}
}
