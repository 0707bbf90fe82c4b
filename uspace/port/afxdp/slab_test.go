package afxdp

// This file tests the arithmetic of memory: how much there is, and the slabs to send.

import (
	"math"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/xdp"
)

// Rule (af_xdp.rst, "Multi-Buffer Support"): for every MTU the longest frame has a descriptor for
// each of its parts and no more than the kernel allows, rings are powers of two that hold all
// their frames, and memory is bounded.
func TestSizes(t *testing.T) {
	for mtu := arctic.MinMTU; mtu <= 1<<17; mtu++ {
		for _, c := range []struct{ jumbo, zeroCopy bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
			jumbo := c.jumbo
			z := (&Config{Jumbo: jumbo}).sizes(mtu, c.zeroCopy)
			rx, tx := int(z.rxParts)*int(z.umemFrame-256), int(z.txParts)*int(z.umemFrame)
			switch {
			case z.frameMax > rx || z.frameMax > tx || z.rxParts > maxParts || z.txParts > maxParts,
				c.zeroCopy && z.umemFrame != 4096,
				z.frameMax > mtu+arctic.EthernetSize || z.frameMax > arctic.EthernetSize+math.MaxUint16,
				jumbo && mtu <= math.MaxUint16 && z.frameMax != mtu+arctic.EthernetSize,
				!jumbo && (z.rxParts != 1 || z.txParts != 1),
				bits.OnesCount32(z.rxFrames) != 1 || bits.OnesCount32(z.rxSlots) != 1 ||
					bits.OnesCount32(z.doneSlots) != 1,
				z.txFrames > z.doneSlots || z.txSlots != 2*z.doneSlots || z.txFrames%z.txParts != 0 ||
					z.txFrames < 128*z.txParts,
				z.rxFrames > jumboReceived || z.rxFrames < min(128*z.rxParts, jumboReceived) ||
					z.rxFrames < 32*z.rxParts || z.rxSlots < z.rxFrames || z.doneSlots > jumboSent:
				t.Fatalf("MTU %d, jumbo %v: %+v", mtu, jumbo, z)
			}
		}
	}
}

// Rule: a slab is handed out once until all of its descriptors have come back, in any order, and
// addresses that the kernel was not given change nothing.
func TestSlabs(t *testing.T) {
	z := sizes{umemFrame: 4096, txParts: 3, txFrames: 12}
	u, err := xdp.NewUMEM(xdp.UMEMConfig{FrameSize: z.umemFrame, FrameCount: 5 + z.txFrames})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	rapid.Check(t, func(t *rapid.T) {
		s := newSlabs(u, 5, z)
		const all = 4
		out := map[uint64]int{} // slab to the descriptors under way
		var under []uint64
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				i, ok := s.get()
				addr := s.first + uint64(i)*uint64(s.size)
				if ok != (len(out) < all) {
					t.Fatalf("get: %v with %d of %d out", ok, len(out), all)
				}
				if !ok {
					return
				}
				if _, twice := out[addr]; twice || addr < 5*4096 || addr > (5+9)*4096 || (addr-5*4096)%(3*4096) != 0 {
					t.Fatalf("get gave %#x, out: %v", addr, out)
				}
				out[addr] = rapid.IntRange(1, 3).Draw(t, "parts")
				s.under[i] = uint8(out[addr])
				for i := range out[addr] {
					under = append(under, addr+uint64(i)*4096)
				}
			},
			"complete": func(t *rapid.T) {
				if len(under) == 0 {
					return
				}
				i := rapid.IntRange(0, len(under)-1).Draw(t, "which")
				addr := under[i]
				under = append(under[:i], under[i+1:]...)
				s.put(addr)
				slab := addr - (addr-5*4096)%(3*4096)
				if out[slab]--; out[slab] == 0 {
					delete(out, slab)
				}
			},
			"complete what was not sent": func(t *rapid.T) {
				s.put(rapid.OneOf(rapid.Uint64Range(0, 5*4096-1), rapid.Uint64Min(17*4096)).Draw(t, "addr"))
				for i := range uint64(all) {
					if slab := (5 + i*3) * 4096; out[slab] == 0 {
						s.put(slab + rapid.Uint64Range(0, 3*4096-1).Draw(t, "offset"))
					}
				}
			},
			"": func(t *rapid.T) {
				if len(s.free) != all-len(out) {
					t.Fatalf("%d free with %d of %d out", len(s.free), len(out), all)
				}
			},
		})
	})
}
