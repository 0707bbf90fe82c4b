// The memory: its limits, its views, its pages, and the free list.

package xdp

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What xdp_umem_reg (net/xdp/xdp_umem.c) would refuse is refused before.
func TestUMEMRefusals(t *testing.T) {
	for _, c := range []UMEMConfig{
		{FrameSize: 1024, FrameCount: 1},
		{FrameSize: 3000, FrameCount: 1},
		{FrameSize: 8192, FrameCount: 1},
		{FrameSize: 4096, FrameCount: 0},
		{FrameSize: 4096, FrameCount: maxFrameCount + 1},
		{FrameSize: 2048, FrameCount: 1, Headroom: 2048 - 256},
		{FrameSize: 2048, FrameCount: 1, Headroom: 1 << 31},
	} {
		u, err := NewUMEM(c)
		if err == nil {
			u.Close()
		}
		wantError(t, err, ErrConfig)
	}
}

// A view never leaves its frame, and an address or descriptor that does is nil,
// because both come out of memory that others write.
func TestUMEMViewsStayInFrame(t *testing.T) {
	for _, size := range []uint32{2048, 4096} {
		u, err := NewUMEM(UMEMConfig{FrameSize: size, FrameCount: 5})
		must(t, err)
		defer u.Close()
		total := uint64(size) * 5
		rapid.Check(t, func(t *rapid.T) {
			addr := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, total+10)).Draw(t, "addr")
			length := rapid.OneOf(rapid.Uint32(), rapid.Uint32Range(0, size+10)).Draw(t, "len")
			room := int(size) - int(addr%uint64(size))
			d := u.Data(Desc{Addr: addr, Len: length})
			ok := addr < total && uint64(length) <= uint64(room)
			if ok != (d != nil) || ok && (len(d) != int(length) || cap(d) != int(length)) {
				t.Fatalf("Data(%d, %d): nil %v, %d bytes; room %d", addr, length, d == nil, len(d), room)
			}
			if ok && length > 0 && &d[0] != &u.Span(addr, 1)[0] {
				t.Fatal("Span and Data differ")
			}
		})
	}
}

// A UMEM that is Unaligned has frames that begin anywhere: an address of the rx ring says where the
// frame does and, in its upper 16 bits, where in it the data. No view leaves the UMEM or is longer
// than a frame, whatever the address.
func TestUMEMUnaligned(t *testing.T) {
	const size, total = 4096, 5 * 4096
	u, err := NewUMEM(UMEMConfig{FrameSize: size, FrameCount: 5, Unaligned: true})
	must(t, err)
	defer u.Close()
	whole := u.Span(0, total)
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.OneOf(rapid.Uint64Range(0, total+10), rapid.Uint64Range(0, 1<<48-1)).Draw(t, "base")
		offset := rapid.OneOf(rapid.Uint64Range(0, size), rapid.Uint64Range(0, 1<<16-1)).Draw(t, "offset")
		length := rapid.OneOf(rapid.Uint32Range(0, size+10), rapid.Uint32()).Draw(t, "len")
		addr := base | offset<<48
		start := base + offset
		if got := u.Start(addr); got != start {
			t.Fatalf("Start(%#x) = %#x", addr, got)
		}
		d := u.Data(Desc{Addr: addr, Len: length})
		ok := start < total && length <= size && start+uint64(length) <= total
		if ok != (d != nil) || ok && (len(d) != int(length) || cap(d) != int(length)) {
			t.Fatalf("Data(%#x, %d): nil %v, %d bytes", addr, length, d == nil, len(d))
		}
		if ok && length > 0 && &d[0] != &whole[start] {
			t.Fatal("Data begins elsewhere")
		}
	})
}

// A span runs over the ends of frames and never leaves the UMEM, whatever is asked.
func TestUMEMSpan(t *testing.T) {
	const size = 10 * 2048
	u, err := NewUMEM(UMEMConfig{FrameSize: 2048, FrameCount: 10})
	must(t, err)
	defer u.Close()
	rapid.Check(t, func(t *rapid.T) {
		addr := rapid.OneOf(rapid.Uint64Range(0, size+1), rapid.Uint64()).Draw(t, "addr")
		n := rapid.OneOf(rapid.IntRange(-1, size+1), rapid.Int()).Draw(t, "n")
		s := u.Span(addr, n)
		inside := addr < size && n >= 0 && n <= size && addr+uint64(n) <= size
		if (s != nil) != inside || len(s) != cap(s) || inside && len(s) != n {
			t.Fatalf("Span(%d, %d) has %d bytes of %d, inside: %v", addr, n, len(s), cap(s), inside)
		}
		if len(s) > 0 && &s[0] != &u.mem[addr] {
			t.Fatalf("Span(%d, %d) begins elsewhere", addr, n)
		}
	})
}

// The allocator gives each frame of its part once, and takes back no more.
func TestAllocator(t *testing.T) {
	u, err := NewUMEM(UMEMConfig{FrameSize: 2048, FrameCount: 10})
	must(t, err)
	defer u.Close()
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Uint32Range(0, 12).Draw(t, "first")
		n := rapid.OneOf(rapid.Uint32Range(0, 12), rapid.Uint32()).Draw(t, "n")
		a := NewAllocator(u, first, n)
		count := a.Len()
		if want := min(int64(n), max(0, 10-int64(first))); int64(count) != want {
			t.Fatalf("%d frames, want %d", count, want)
		}
		out := map[uint64]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				addr, ok := a.Get()
				if ok != (len(out) < count) {
					t.Fatalf("Get with %d of %d out: %v", len(out), count, ok)
				}
				if ok && (out[addr] || addr%2048 != 0 || addr < uint64(first)*2048 ||
					addr >= uint64(first)*2048+uint64(count)*2048) {
					t.Fatalf("Get gave %d, out already: %v", addr, out[addr])
				}
				if ok {
					out[addr] = true
				}
			},
			"put": func(t *rapid.T) {
				for addr := range out {
					if !a.Put(addr + rapid.Uint64Range(0, 2047).Draw(t, "offset")) {
						t.Fatalf("Put(%d) refused", addr)
					}
					delete(out, addr)
					return
				}
				if a.Put(0) {
					t.Fatal("Put of a frame too many")
				}
			},
			"put outside": func(t *rapid.T) {
				if a.Put(rapid.Uint64Range(10*2048, 1<<63).Draw(t, "addr")) {
					t.Fatal("Put outside the UMEM")
				}
			},
			"": func(t *rapid.T) {
				if a.Len() != count-len(out) {
					t.Fatalf("Len %d with %d of %d out", a.Len(), len(out), count)
				}
			},
		})
	})
}

// A UMEM is closed once, and its views are nil from then on.
func TestUMEMClose(t *testing.T) {
	u, err := NewUMEM(UMEMConfig{FrameCount: 1})
	must(t, err)
	must(t, u.Close())
	must(t, u.Close())
	if u.Span(0, 2048) != nil || u.Data(Desc{}) != nil || u.Span(0, 0) != nil {
		t.Fatal("a closed UMEM gives views")
	}
	_, err = Open(SocketConfig{Interface: "lo", UMEM: u})
	wantError(t, err, ErrClosed)
}

const hugePagesFile = "/proc/sys/vm/nr_hugepages"

// reserveHugePages sets the number of 2 MiB pages, says how many there are, and
// puts the old number back at the end of the test.
func reserveHugePages(t *testing.T, n int) int {
	t.Helper()
	read := func() int {
		b, err := os.ReadFile(hugePagesFile)
		must(t, err)
		n, err := strconv.Atoi(strings.TrimSpace(string(b)))
		must(t, err)
		return n
	}
	old := read()
	t.Cleanup(func() { must(t, os.WriteFile(hugePagesFile, fmt.Append(nil, old), 0)) })
	must(t, os.WriteFile(hugePagesFile, fmt.Append(nil, n), 0))
	return read()
}

// A UMEM on 2 MiB pages carries traffic like any other.
func TestHugePages(t *testing.T) {
	if n := reserveHugePages(t, 4); n < 2 {
		t.Skipf("the kernel cannot reserve 2 huge pages of 2 MiB now (%s gives %d)", hugePagesFile, n)
	}
	l := newLab(t, labOptions{})
	var ports [2]*port
	for host := range ports {
		ports[host] = l.openPort(host, portConfig{umem: UMEMConfig{FrameSize: 2048, FrameCount: 256, HugePages: true}})
		ports[host].fill(128)
		l.redirect(host, AttachGeneric, RedirectConfig{EtherType: testEtherType}, ports[host].sock)
	}
	exchange(t, ports[0], ports[1], 0, 60, 1514)
	exchange(t, ports[1], ports[0], 1, 60, 1514)
}

// Without huge pages the error names the file that makes some.
func TestNoHugePages(t *testing.T) {
	reserveHugePages(t, 0)
	// More than any machine has, should other programs hold reserved pages.
	u, err := NewUMEM(UMEMConfig{FrameCount: maxFrameCount, HugePages: true})
	if err == nil {
		u.Close()
	}
	wantError(t, err, ErrNoHugePages)
	if !strings.Contains(err.Error(), hugePagesFile) {
		t.Fatalf("%v does not name %s", err, hugePagesFile)
	}
}
