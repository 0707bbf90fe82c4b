// This file tests the hub program: every branch, against a description in Go, by BPF_PROG_TEST_RUN.

package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// loopback is lo, by which the test's frames come in, and by which they leave.
const loopback = 1

// theHub returns a router of 4 ports, to which both kinds of ends are wired: stations at ports 0
// and 3, a router at port 1. Frames come in by the given port.
func theHub(t testing.TB, in int) *Hub {
	t.Helper()
	h, err := LoadHub()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	set := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	set(h.SetRouter(HubRouter{Width: 2}))
	for _, port := range []int{0, 1, 3} {
		set(h.SetPort(port, HubPort{Interface: loopback, IsStation: port != 1, Station: station(port)}))
	}
	set(h.objects.FunetHubInputs.Put(uint32(loopback), uint32(in)))
	set(h.SetRoute(station(3), HubRoute{Bits: 3, Left: 1}))
	set(h.SetRoute(station(9), HubRoute{Bits: 2<<2 | 1, Left: 2}))
	return h
}

func station(n int) [6]byte { return [6]byte{2, 0x46, 0x55, 0, byte(n), 1} }

// to sets the destination address.
func to(a [6]byte) func([]byte) { return func(f []byte) { copy(f, a[:]) } }

// by sets the source address.
func by(a [6]byte) func([]byte) { return func(f []byte) { copy(f[6:], a[:]) } }

// run runs the program on a frame that comes in. It returns the verdict, the frame as it leaves,
// and the counters that have moved, one as often as it has.
func (h *Hub) run(t testing.TB, frame []byte) (verdict uint32, out []byte, moved []int) {
	t.Helper()
	counts := func() (n []uint64) {
		c, err := h.Counters()
		if err != nil {
			t.Fatal(err)
		}
		n = append(n, c.Passed, c.Stranger, c.Unrouted, c.Unknown, c.Exhausted, c.Long, c.Nowhere, c.Down, c.Forged,
			c.Unbundled, c.Bundles)
		return append(n, c.Forwarded[:]...)
	}
	before := counts()
	run := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Repeat: 1,
		Context: context{DataEnd: uint32(len(frame)), IngressIfindex: loopback}}
	verdict, err := h.Program().Run(&run)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range counts() {
		for range n - before[i] {
			moved = append(moved, i)
		}
	}
	return verdict, run.DataOut, moved
}

// forward runs the program on a frame that is no bundle, for which one counter moves.
func (h *Hub) forward(t testing.TB, frame []byte) (verdict uint32, out []byte, moved int) {
	t.Helper()
	verdict, out, all := h.run(t, frame)
	if len(all) != 1 {
		t.Fatalf("counters %v moved for one frame", all)
	}
	return verdict, out, all[0]
}

// The places of the counters, as in hub.c.
const (
	hubPass = iota
	hubStranger
	hubUnrouted
	hubUnknown
	hubExhausted
	hubLong
	hubNowhere
	hubDown
	hubForged
	hubUnbundled
	hubBundle
	hubForwarded
)

// Rule (thesis 5.4): a router consumes a digit and forwards; a frame whose route leads to no
// station is dropped and counted; every other protocol is left alone.
func TestHub(t *testing.T) {
	route := func(left int, bits uint32) [6]byte { return HubRoute{Left: left, Bits: bits}.Address() }
	for _, c := range []struct {
		what    string
		in      int
		change  func([]byte)
		verdict uint32
		counter int
		leaves  [6]byte // its destination address
	}{
		{"IPv4", 0, etherType(0x0800), xdpPass, hubPass, station(3)},
		{"for a station here", 0, to(station(3)), xdpRedirect, hubForwarded + 3, station(3)},
		{"for a station elsewhere", 0, to(station(9)), xdpRedirect, hubForwarded + 1, route(1, 2)},
		{"for an unknown station", 0, to(station(8)), xdpDrop, hubUnknown, station(8)},
		{"for all stations", 0, to([6]byte{255, 255, 255, 255, 255, 255}), xdpDrop, hubUnrouted,
			[6]byte{255, 255, 255, 255, 255, 255}},
		{"from a router, its route ends here", 1, to(route(1, 3)), xdpRedirect, hubForwarded + 3, station(3)},
		{"from a router, for a station by name", 1, to(station(3)), xdpDrop, hubUnrouted, station(3)},
		{"from a router, back to it", 1, to(route(2, 1|3<<2)), xdpRedirect, hubForwarded + 1, route(1, 3)},
		{"with a route of its own", 0, to(route(2, 1|2<<2)), xdpRedirect, hubForwarded + 1, route(1, 2)},
		{"exhausted", 1, to(route(0, 3)), xdpDrop, hubExhausted, route(0, 3)},
		{"on behind a station", 1, to(route(2, 3)), xdpDrop, hubLong, route(2, 3)},
		{"longer than routes are", 1, to(route(16, 1)), xdpDrop, hubLong, route(16, 1)},
		{"more digits than a byte can bear", 1, to(route(255, 1)), xdpDrop, hubLong, route(255, 1)},
		{"bits beyond 30", 1, to(route(2, 1<<30|1)), xdpDrop, hubLong, route(2, 1<<30|1)},
		{"nowhere", 1, to(route(1, 2)), xdpDrop, hubNowhere, route(1, 2)},
		{"in another's name", 0, func(f []byte) { to(station(3))(f); by(station(3))(f) }, xdpDrop, hubForged,
			station(3)},
		{"in another's name, with a route", 0, func(f []byte) { to(route(1, 3))(f); by(station(1))(f) }, xdpDrop,
			hubForged, route(1, 3)},
		{"in by what is no port", 2, to(route(1, 3)), xdpDrop, hubStranger, route(1, 3)},
	} {
		t.Run(c.what, func(t *testing.T) {
			frame := makeFrame(100, by(station(c.in)), c.change)
			if c.what == "IPv4" {
				to(station(3))(frame)
			}
			verdict, out, counter := theHub(t, c.in).forward(t, frame)
			want := bytes.Clone(frame)
			copy(want, c.leaves[:])
			if verdict != c.verdict || counter != c.counter || !bytes.Equal(out, want) {
				t.Errorf("verdict %d, counter %d, destination %x; want %d, %d, %x, and the rest as it came", verdict, counter,
					out[:6], c.verdict, c.counter, c.leaves)
			}
		})
	}
}

// makeBundle returns a bundle of a station's frames for destination addresses, as it comes in by
// the given port of a router that it left by port 2 of the last.
func makeBundle(from int, addresses ...[6]byte) (bundle []byte, frames [][]byte) {
	for i, a := range addresses {
		frames = append(frames, makeFrame(100+4*i, by(station(from)), to(a)))
	}
	bundle = make([]byte, 1500)
	bundle = bundle[:arctic.PutBundle(bundle, frames)]
	for i := range frames {
		bundle[20+i] = 2
	}
	return bundle, frames
}

// Rule: a bundle goes where its frames go; each frame consumes a digit; frames that the last router
// sent elsewhere, and those that lead nowhere, are no longer the bundle's; of one frame that is
// left the bundle is gone.
func TestHubBundle(t *testing.T) {
	route := func(left int, bits uint32) [6]byte { return HubRoute{Left: left, Bits: bits}.Address() }
	for _, c := range []struct {
		what    string
		in      int
		to      [][6]byte
		change  func(bundle []byte)
		verdict uint32
		moved   []int  // counters, besides that of bundles
		ports   []byte // by which the frames leave; nil: it is a frame again
		leaves  [6]byte
	}{
		{"for two ports", 0, [][6]byte{station(3), station(9)}, nil, xdpRedirect,
			[]int{hubForwarded + 1, hubForwarded + 3}, []byte{3, 1}, [6]byte{}},
		{"for one port", 0, [][6]byte{station(9), route(2, 1)}, nil, xdpRedirect, []int{hubForwarded + 1}, []byte{1, 1},
			[6]byte{}},
		{"one leads nowhere", 0, [][6]byte{station(8), station(9)}, nil, xdpRedirect,
			[]int{hubUnknown, hubForwarded + 1}, nil, route(1, 2)},
		{"both lead nowhere", 0, [][6]byte{station(8), station(7)}, nil, xdpDrop, []int{hubUnknown, hubUnknown}, nil,
			[6]byte{}},
		{"back", 1, [][6]byte{route(1, 3), route(2, 1)}, nil, xdpRedirect, []int{hubNowhere, hubForwarded + 3}, nil,
			station(3)},
		{"one went elsewhere", 1, [][6]byte{route(1, 3), route(1, 0)}, func(b []byte) { b[20] = 1 }, xdpRedirect,
			[]int{hubForwarded}, nil, station(0)},
		{"in another's name", 0, [][6]byte{station(3), station(9)}, func(b []byte) { b[11]++ }, xdpDrop,
			[]int{hubForged}, nil, [6]byte{}},
		{"one in another's name", 0, [][6]byte{station(3), station(9)}, func(b []byte) { b[44+11]++ }, xdpRedirect,
			[]int{hubForged, hubForwarded + 1}, nil, route(1, 2)},
		{"one is another protocol's", 0, [][6]byte{station(3), station(9)}, func(b []byte) { b[44+12] = 8 },
			xdpRedirect, []int{hubUnbundled, hubForwarded + 1}, nil, route(1, 2)},
		{"one is a bundle", 0, [][6]byte{{0x0f}, station(9)}, nil, xdpRedirect, []int{hubUnrouted, hubForwarded + 1}, nil,
			route(1, 2)},
		{"another version", 0, [][6]byte{station(3), station(9)}, func(b []byte) { b[14] = 6 }, xdpDrop,
			[]int{hubUnbundled}, nil, [6]byte{}},
		{"of one frame", 0, [][6]byte{station(3), station(9)}, func(b []byte) { b[18] = 1 }, xdpDrop,
			[]int{hubUnbundled}, nil, [6]byte{}},
		{"of nine", 0, [][6]byte{station(3), station(9)}, func(b []byte) { b[18] = 9 }, xdpDrop,
			[]int{hubUnbundled}, nil, [6]byte{}},
		{"a frame shorter than a header", 0, [][6]byte{station(3), station(9)}, func(b []byte) { b[28] = 44 + 79 },
			xdpDrop, []int{hubUnbundled}, nil, [6]byte{}},
		{"a frame beyond the end", 0, [][6]byte{station(3), station(9)}, func(b []byte) { b[31]++ }, xdpDrop,
			[]int{hubUnbundled}, nil, [6]byte{}},
	} {
		t.Run(c.what, func(t *testing.T) {
			h := theHub(t, c.in)
			if c.in == 1 {
				if err := h.SetPort(1, HubPort{Interface: loopback, Far: 2}); err != nil {
					t.Fatal(err)
				}
				if err := h.objects.FunetHubInputs.Put(uint32(loopback), uint32(1)); err != nil {
					t.Fatal(err)
				}
			}
			bundle, frames := makeBundle(c.in, c.to...)
			if c.change != nil {
				c.change(bundle)
			}
			verdict, out, moved := h.run(t, bundle)
			moved = slices.DeleteFunc(moved, func(n int) bool { return n == hubBundle })
			slices.Sort(c.moved)
			if verdict != c.verdict || !slices.Equal(moved, c.moved) {
				t.Fatalf("verdict %d, counters %v; want %d, %v", verdict, moved, c.verdict, c.moved)
			}
			switch {
			case c.ports != nil:
				if !bytes.Equal(out[20:20+len(c.ports)], c.ports) || len(out) != len(bundle) {
					t.Errorf("%d bytes, frames by ports %v; want %d, %v", len(out), out[20:20+len(c.ports)], len(bundle),
						c.ports)
				}
			case verdict == xdpRedirect:
				if i := slices.IndexFunc(frames, func(f []byte) bool { return bytes.Equal(f[6:], out[6:]) }); i < 0 ||
					[6]byte(out) != c.leaves {
					t.Errorf("it left as % x, want the frame for %x", out, c.leaves)
				}
			}
		})
	}
}

// Rule: any bytes behind the address of a bundle are dropped, or forwarded to ports of the router;
// the program stays within them.
func TestHubAnyBundle(t *testing.T) {
	h := theHub(t, 0)
	rapid.Check(t, func(t *rapid.T) {
		addresses := []([6]byte){station(3), station(9), station(8), HubRoute{Left: 2, Bits: 1}.Address()}
		n := rapid.IntRange(2, arctic.MaxBundled).Draw(t, "frames")
		bundle, _ := makeBundle(0, rapid.SliceOfN(rapid.SampledFrom(addresses), n, n).Draw(t, "to")...)
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			at := rapid.IntRange(14, 60).Draw(t, "at")
			bundle[at] = rapid.Byte().Draw(t, "byte")
		}
		bundle = bundle[:rapid.IntRange(14, len(bundle)).Draw(t, "length")]
		run := ebpf.RunOptions{Data: bundle, DataOut: make([]byte, len(bundle)+256), Repeat: 1,
			Context: context{DataEnd: uint32(len(bundle)), IngressIfindex: loopback}}
		verdict, err := h.Program().Run(&run)
		if err != nil {
			t.Fatal(err)
		}
		if verdict != xdpDrop && verdict != xdpRedirect || len(run.DataOut) > len(bundle) {
			t.Fatalf("verdict %d, %d bytes of %d", verdict, len(run.DataOut), len(bundle))
		}
	})
}

// Rule: a frame that comes before the router is set is not forwarded.
func TestHubUnset(t *testing.T) {
	h, err := LoadHub()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if verdict, _, counter := h.forward(t, makeFrame(100)); verdict != xdpDrop || counter != hubStranger {
		t.Errorf("verdict %d, counter %d of a hub without ports", verdict, counter)
	}
}

// Rule: a port that is down drops, but where ports lead up another is taken; and with hashing the
// two ends choose, always the same way, and all ways are used.
func TestHubUpPorts(t *testing.T) {
	h := theHub(t, 0)
	for port := range 4 { // all lead to routers, 2 and 3 upwards
		if err := h.SetPort(port, HubPort{Interface: loopback}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.objects.FunetHubInputs.Put(uint32(loopback), uint32(0)); err != nil {
		t.Fatal(err)
	}
	send := func(port uint32, sender int) (counter int, next uint32) {
		frame := makeFrame(100, to(HubRoute{Left: 2, Bits: 1<<2 | port}.Address()))
		a := station(sender)
		copy(frame[6:], a[:])
		_, out, counter := h.forward(t, frame)
		return counter, binary.BigEndian.Uint32(out[2:])
	}
	for _, c := range []struct {
		router HubRouter
		port   uint32
		want   map[int]bool
	}{
		{HubRouter{Width: 2, Up: 0b1100}, 2, map[int]bool{hubForwarded + 2: true}},
		{HubRouter{Width: 2, Up: 0b1100, Down: 0b0100}, 2, map[int]bool{hubForwarded + 3: true}},
		{HubRouter{Width: 2, Up: 0b1100, Down: 0b1100}, 2, map[int]bool{hubDown: true}},
		{HubRouter{Width: 2, Up: 0b1100, Down: 0b0010}, 1, map[int]bool{hubDown: true}},
		{HubRouter{Width: 2, Up: 0b1100, Hashed: true}, 3, map[int]bool{hubForwarded + 2: true, hubForwarded + 3: true}},
		{HubRouter{Width: 2, Up: 0b1100, Hashed: true}, 1, map[int]bool{hubForwarded + 1: true}},
	} {
		if err := h.SetRouter(c.router); err != nil {
			t.Fatal(err)
		}
		got := map[int]bool{}
		for sender := range 32 {
			counter, next := send(c.port, sender)
			got[counter] = true
			if counter >= hubForwarded && next != 1 {
				t.Fatalf("%+v: the rest of the route is %#x", c.router, next)
			}
			if again, _ := send(c.port, sender); again != counter {
				t.Fatalf("%+v: frames of one way leave by two", c.router)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%+v, port %d: counters %v moved, want %v", c.router, c.port, got, c.want)
		}
		for counter := range c.want {
			if !got[counter] {
				t.Errorf("%+v, port %d: counters %v moved, want %v", c.router, c.port, got, c.want)
			}
		}
	}
}

// Rule (thesis 5.4): every router consumes a digit, so a forged route leads through 15 routers at
// most. Here every port leads to a router, the same, so nothing else ends it.
func TestForgedRoutesEnd(t *testing.T) {
	h := theHub(t, 0)
	for port := range 4 {
		if err := h.SetPort(port, HubPort{Interface: loopback}); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		frame := makeFrame(100, to([6]byte{hubRoute, rapid.Byte().Draw(r, "left"), rapid.Byte().Draw(r, "0"),
			rapid.Byte().Draw(r, "1"), rapid.Byte().Draw(r, "2"), rapid.Byte().Draw(r, "3")}))
		for hops := 0; ; hops++ {
			verdict, out, _ := h.forward(t, frame)
			if verdict != xdpRedirect {
				break
			}
			if hops == MaxHubBits/2 {
				r.Fatalf("it goes on after %d routers: %x", hops, out[:6])
			}
			frame = out
		}
	})
}

// Rule: a hub's handle can be had anew by its number, and a program that is another is refused.
func TestTakeHub(t *testing.T) {
	h := theHub(t, 0)
	info, err := h.Program().Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	again, err := TakeHub(uint32(id))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, _, counter := h.forward(t, makeFrame(100, by(station(0)), to(station(3)))); counter != hubForwarded+3 {
		t.Errorf("counter %d before the way is forgotten", counter)
	}
	if err := again.RemoveRoute(station(3)); err != nil {
		t.Fatal(err)
	}
	if _, _, counter := h.forward(t, makeFrame(100, by(station(0)), to(station(3)))); counter != hubUnknown {
		t.Errorf("counter %d after the way was forgotten through the other handle", counter)
	}
	n := loadNIC(t, 1)
	info, err = n.Program().Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ = info.ID()
	if _, err := TakeHub(uint32(id)); !errors.Is(err, ErrHub) {
		t.Errorf("the NIC program is taken for a hub: %v", err)
	}
}

func TestHubRanges(t *testing.T) {
	h := theHub(t, 0)
	for what, err := range map[string]error{
		"width":         h.SetRouter(HubRouter{Width: 4}),
		"port":          h.SetPort(8, HubPort{}),
		"negative port": h.SetPort(-1, HubPort{}),
		"no digit":      h.SetRoute(station(1), HubRoute{}),
		"31 bits":       h.SetRoute(station(1), HubRoute{Left: 3, Bits: 1 << 30}),
	} {
		if !errors.Is(err, ErrRange) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
