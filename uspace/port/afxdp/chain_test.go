package afxdp

// This file tests how chains become frames, also those that no kernel should make: the test
// plays the kernel's part in the rx ring of a real socket. Nothing else is sent meanwhile.

import (
	"bytes"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/xdp"
)

// kernel writes what the kernel would into an rx ring (struct xdp_ring of net/xdp/xsk_queue.h).
type kernel struct {
	producer *atomic.Uint32
	slots    []xdp.Desc
	next     uint32
}

func newKernel(t *testing.T, q *queue) *kernel {
	t.Helper()
	var off unix.XDPMmapOffsets
	size := uint32(unsafe.Sizeof(off))
	_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(q.sock.FD()), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS,
		uintptr(unsafe.Pointer(&off)), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		t.Fatal(e)
	}
	n := q.rx.Cap()
	m, err := unix.Mmap(q.sock.FD(), unix.XDP_PGOFF_RX_RING, int(off.Rx.Desc)+int(n)*int(unsafe.Sizeof(xdp.Desc{})),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(m) })
	k := &kernel{producer: (*atomic.Uint32)(unsafe.Pointer(&m[off.Rx.Producer])),
		slots: unsafe.Slice((*xdp.Desc)(unsafe.Pointer(&m[off.Rx.Desc])), n)}
	k.next = k.producer.Load()
	return k
}

func (k *kernel) put(d xdp.Desc) {
	k.slots[k.next%uint32(len(k.slots))] = d
	k.next++
	k.producer.Store(k.next)
}

// chain is a chain of descriptors that the test puts into the ring.
type chain struct {
	descs []xdp.Desc
	frame []byte // nil: to be dropped
	count bool   // as an assembled chain
	apart bool   // it does not lie in one piece
}

// drawChain fills UMEM frames of its own with a chain that is whole, or one that cannot be a frame.
func drawChain(t *rapid.T, p *Port, used *uint32) chain {
	var c chain
	kind := rapid.SampledFrom([]string{"one", "one", "chain", "chain", "straight", "straight", "too long", "too many",
		"outside", "outside alone"}).Draw(t, "kind")
	seed := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	part := func(size int) {
		// Where the frame begins, and where in it the data does.
		at := uint64(*used%p.sizes.rxFrames)*uint64(p.umem.RxRoom()) | 256<<48
		*used++
		if n := len(c.descs); n > 0 && p.umem.Start(c.descs[n-1].Addr)+uint64(c.descs[n-1].Len) != p.umem.Start(at) {
			c.apart = true
		}
		b := p.umem.Data(xdp.Desc{Addr: at, Len: uint32(size)})
		for i := range b {
			b[i] = byte(seed.Uint32())
		}
		c.frame = append(c.frame, b...)
		c.descs = append(c.descs, xdp.Desc{Addr: at, Len: uint32(size), Options: xdp.PacketContinued})
	}
	bad := false
	switch kind {
	case "one":
		part(rapid.IntRange(0, 3840).Draw(t, "size"))
	case "chain":
		for range rapid.IntRange(2, maxParts).Draw(t, "parts") {
			part(rapid.IntRange(0, p.FrameSize()/maxParts).Draw(t, "size"))
		}
	case "straight": // as the kernel makes them
		for size := rapid.IntRange(3841, p.FrameSize()).Draw(t, "size"); size > 0; size -= 3840 {
			part(min(size, 3840))
		}
	case "too long":
		for range p.FrameSize()/3840 + 2 {
			part(3840)
		}
		bad = true
	case "too many":
		for range rapid.IntRange(maxParts+1, 3*maxParts).Draw(t, "parts") {
			part(10)
		}
		bad = true
	case "outside":
		for range rapid.IntRange(2, maxParts).Draw(t, "parts") {
			part(10)
		}
		c.descs[rapid.IntRange(0, len(c.descs)-1).Draw(t, "which")].Len = 4097
		bad = true
	case "outside alone":
		part(10)
		c.descs[0].Len = 4097
		bad = true
	}
	c.descs[len(c.descs)-1].Options = 0
	c.count = len(c.descs) > 1 && !bad
	if bad {
		c.frame = nil
	} else if c.frame == nil {
		c.frame = []byte{}
	}
	return c
}

// Rule (Config.Jumbo, chain.go): whatever chains the kernel puts into the ring, and however it
// deals them out, the port lends exactly the whole ones, in order, with their bytes; the others
// are counted; every UMEM frame comes back.
func TestChains(t *testing.T) {
	l := newLab(t, lab.Options{MTU: 9000})
	p := open(t, l, 0, Config{Attach: xdp.AttachGeneric, Jumbo: true})
	q := p.queues[0]
	k := newKernel(t, q)
	k.put(xdp.Desc{Options: xdp.PacketContinued}) // as a check leaves it that ends in the middle
	// The fill ring is full, and the kernel that would take from it is not in the game: what
	// Release gives back has no room, and is not missed.
	rapid.Check(t, func(t *rapid.T) {
		// The check before may have failed, or rapid may have given it up: a fail file of an older
		// test has too little to draw from.
		p.Release()
		q.rx.Release(q.rx.PeekMore(q.rx.Cap()))
		q.cutting = false
		// also across the end
		before, used := p.Chains(), rapid.Uint32Range(0, p.sizes.rxFrames-1).Draw(t, "first")
		var descs []xdp.Desc
		var want [][]byte
		var counted Chains
		for range rapid.IntRange(1, 20).Draw(t, "chains") {
			c := drawChain(t, p, &used)
			descs = append(descs, c.descs...)
			switch {
			case c.frame == nil:
				counted.Dropped++
			default:
				want = append(want, c.frame)
				if c.count {
					counted.Assembled++
					if c.apart {
						counted.Copied++
					}
				}
			}
		}
		var got [][]byte
		lent := make([][]byte, rapid.IntRange(1, maxLent).Draw(t, "lent"))
		take := func() {
			for n := p.Receive(lent); n > 0; n = p.Receive(lent) {
				for _, f := range lent[:n] {
					got = append(got, bytes.Clone(f))
				}
				p.Release()
			}
		}
		for len(descs) > 0 {
			n := rapid.IntRange(1, min(len(descs), 40)).Draw(t, "dealt")
			for _, d := range descs[:n] {
				k.put(d)
			}
			descs = descs[n:]
			if rapid.Bool().Draw(t, "look") {
				take()
			}
		}
		take()
		if len(got) != len(want) {
			t.Fatalf("%d frames, want %d", len(got), len(want))
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("frame %d has %d bytes, want %d, or not the same", i, len(got[i]), len(want[i]))
			}
		}
		after := p.Chains()
		if d := (Chains{after.Assembled - before.Assembled, after.Copied - before.Copied,
			after.Dropped - before.Dropped}); d != counted {
			t.Fatalf("counted %+v, want %+v", d, counted)
		}
		if q.rx.Len() != 0 || q.cutting {
			t.Fatalf("%d descriptors are left, cutting %v", q.rx.Len(), q.cutting)
		}
	})
}

// Rule (port.Port): frames are lent until Release; received again before it, they are the same.
func TestLentUntilRelease(t *testing.T) {
	a, b := pair(t, lab.Options{MTU: 9000}, Config{Attach: xdp.AttachGeneric, Jumbo: true})
	for n, size := range []int{9014, arctic.HeaderSize, 5000} {
		send(t, a, b, uint32(n), size)
	}
	a.Flush()
	lent := make([][]byte, 3)
	for range 3 {
		if n := b.Receive(lent); n != 3 || len(lent[0]) != 9014 || len(lent[1]) != arctic.HeaderSize ||
			len(lent[2]) != 5000 {
			t.Fatalf("%d frames of %d, %d and %d bytes", n, len(lent[0]), len(lent[1]), len(lent[2]))
		}
	}
	b.Release()
	b.Release()
	if b.Ready() || b.Receive(lent) != 0 {
		t.Fatal("a released frame is there again")
	}
	if got := b.queues[0].fill.Len(); got != b.sizes.rxFrames {
		t.Fatalf("%d UMEM frames are in the fill ring, want %d", got, b.sizes.rxFrames)
	}
}
