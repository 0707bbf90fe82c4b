// This file tests the hub program: every branch, against a description in Go, by BPF_PROG_TEST_RUN.

package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"pgregory.net/rapid"
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

// forward runs the program on a frame that comes in. It returns the verdict, the frame as it
// leaves, and the counter that has moved.
func (h *Hub) forward(t testing.TB, frame []byte) (verdict uint32, out []byte, moved int) {
	t.Helper()
	counts := func() (n []uint64) {
		c, err := h.Counters()
		if err != nil {
			t.Fatal(err)
		}
		n = append(n, c.Passed, c.Stranger, c.Unrouted, c.Unknown, c.Exhausted, c.Long, c.Nowhere, c.Down, c.Forged, c.Unbundled)
		return append(n, c.Forwarded[:]...)
	}
	before := counts()
	run := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Repeat: 1,
		Context: context{DataEnd: uint32(len(frame)), IngressIfindex: loopback}}
	verdict, err := h.Program().Run(&run)
	if err != nil {
		t.Fatal(err)
	}
	out = run.DataOut
	moved = -1
	for i, n := range counts() {
		if n == before[i] {
			continue
		}
		if n != before[i]+1 || moved >= 0 {
			t.Fatalf("counters went from %v to %v for one frame", before, counts())
		}
		moved = i
	}
	return verdict, out, moved
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
