// This file tests the answers to frames of absent groups.

package bpf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
)

const xdpTX = 3 // of enum xdp_action in linux/bpf.h

var (
	deferred   = Counters{Deferred: 1}
	undeferred = Counters{Undeferred: 1}
)

// deferrable makes a frame one with packets that the switch may answer.
func deferrable(f []byte) {
	f[15], f[28], f[29] = 0x40, 3, 0
}

func source(mac byte) func([]byte) { return func(f []byte) { f[11] = mac } }

// answer is the deferral of a frame whose header stands behind a tag of some bytes.
func answer(frame []byte, tag int) []byte {
	out := bytes.Clone(frame[:FrameMin+tag])
	copy(out, frame[6:12])
	copy(out[6:], frame[:6])
	h := out[tag:]
	le := binary.LittleEndian
	le.PutUint16(h[16:], FrameMin-14)
	le.PutUint32(h[20:], uint32(le.Uint16(h[24:])))
	copy(h[24:26], frame[tag+26:])
	copy(h[26:28], frame[tag+24:])
	h[15] &^= 8
	h[28], h[30], h[31] = 0, 0, 0
	clear(h[44:])
	le.PutUint32(h[76:], crc32.Checksum(h[14:76], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// loadDefers loads a program that defers, with the group foreignGroup absent.
func loadDefers(t testing.TB, l Load) *NIC {
	t.Helper()
	l.Queues, l.Defers = 1, true
	n := load(t, l, 0)
	if err := n.SetGroup(foreignGroup, true); err != nil {
		t.Fatal(err)
	}
	if err := n.SetAbsent(foreignGroup, true); err != nil {
		t.Fatal(err)
	}
	return n
}

// runAbsent shows a frame to the program, and compares verdict, counters and what becomes of the
// frame.
func runAbsent(n *NIC, frame []byte, want Counters, wanted uint32, out []byte) error {
	options := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64)}
	before, err := n.Counters()
	if err != nil {
		return err
	}
	verdict, err := n.Program().Run(options)
	if err != nil {
		return err
	}
	after, err := n.Counters()
	if err != nil {
		return err
	}
	if got := moved(before, after); got != want || verdict != wanted {
		return fmt.Errorf("verdict %d, counted %+v; want %d, %+v", verdict, got, wanted, want)
	}
	if !bytes.Equal(options.DataOut, out) {
		return fmt.Errorf("the frame became\n%x, want\n%x", options.DataOut, out)
	}
	return nil
}

// TestAbsent: of an absent group the frames that allow it are answered with their headers, and
// nothing else is.
func TestAbsent(t *testing.T) {
	absent := func(size int, changes ...func([]byte)) []byte {
		return makeFrame(size, append([]func([]byte){gid(foreignGroup), deferrable}, changes...)...)
	}
	flags := func(v byte) func([]byte) { return func(f []byte) { f[15] = v } }
	for name, frags := range map[string]bool{"one buffer": false, "several buffers": true} {
		t.Run(name, func(t *testing.T) {
			n := loadDefers(t, Load{Frags: frags})
			answered := map[string][]byte{
				"a frame": absent(200), "with a block": absent(200, flags(0x48)), "a reply": absent(200, flags(0x41)),
				"the longest": absent(1514),
				"a short one": absent(92), "padded": absent(200, length(100)),
			}
			if frags {
				answered["a long one"] = absent(9014)
			}
			for what, f := range answered {
				if err := runAbsent(n, f, deferred, xdpTX, answer(f, 0)); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if err := runAbsent(n, answer(f, 0), redirected, xdpRedirect, answer(f, 0)); err != nil {
					t.Errorf("the answer to %s: %v", what, err)
				}
			}
			for what, f := range map[string][]byte{
				"an older card's":    absent(200, flags(0)),
				"a greeting":         absent(200, flags(0x42)),
				"a goodbye":          absent(200, flags(0x44)),
				"sealed":             absent(200, flags(0x50)),
				"unknown flags":      absent(200, flags(0xc0)),
				"with rejects":       absent(200, func(f []byte) { f[29] = 1 }),
				"without packets":    absent(200, func(f []byte) { f[28] = 0 }),
				"a hello":            absent(200, version(VersionHello)),
				"of a present group": makeFrame(200, deferrable),
			} {
				if err := runAbsent(n, f, redirected, xdpRedirect, f); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			for what, f := range map[string][]byte{
				"from many stations": absent(200, func(f []byte) { f[6] |= 1 }),
				"for many stations":  absent(200, func(f []byte) { f[0] |= 1 }),
			} {
				if err := runAbsent(n, f, undeferred, xdpDrop, f); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			f := absent(200)
			if err := n.SetAbsent(foreignGroup, false); err != nil {
				t.Fatal(err)
			}
			if err := runAbsent(n, f, redirected, xdpRedirect, f); err != nil {
				t.Errorf("when somebody has the group: %v", err)
			}
		})
	}
}

// TestAbsentTagged: behind a tag of the VLAN frames are answered as without one; those in datagrams
// are the card's.
func TestAbsentTagged(t *testing.T) {
	n := loadDefers(t, Load{VLAN: 5})
	f := tagged(makeFrame(200, gid(foreignGroup), deferrable))
	if err := runAbsent(n, f, deferred, xdpTX, answer(f, 4)); err != nil {
		t.Error(err)
	}
	n = loadDefers(t, Load{UDPPort: udpPort})
	if err := n.SetAddresses([]netip.Addr{own4}); err != nil {
		t.Fatal(err)
	}
	f = makeDatagram(makeFrame(200, gid(foreignGroup), deferrable), own4).bytes
	if err := runAbsent(n, f, redirected, xdpRedirect, f); err != nil {
		t.Errorf("in a datagram: %v", err)
	}
}

// TestAbsentRate: each source has its answers at once, and then no more than one in a gap; another
// source has its own.
func TestAbsentRate(t *testing.T) {
	n := loadDefers(t, Load{})
	many := func(mac byte, times uint32) Counters {
		t.Helper()
		before := counters(t, n)
		f := makeFrame(200, gid(foreignGroup), deferrable, source(mac))
		if _, err := n.Program().Run(&ebpf.RunOptions{Data: f, Repeat: times}); err != nil {
			t.Fatal(err)
		}
		return moved(before, counters(t, n))
	}
	// Test runs repeat on what the first left of the frame: an answer is not answered. So each is a
	// run of its own.
	const times = 20000
	var got Counters
	for range times {
		c := many(1, 1)
		got.Deferred += c.Deferred
		got.Undeferred += c.Undeferred
	}
	if got.Deferred < 2048 || got.Deferred+got.Undeferred != times {
		t.Errorf("of %d frames %d were answered, %d dropped; want 2048 answers at least", times,
			got.Deferred, got.Undeferred)
	}
	t.Logf("%d of %d answered", got.Deferred, times)
	if c := many(2, 1); c.Deferred != 1 {
		t.Errorf("another source: %+v", c)
	}
}

// TestHelloRate: each source has its hellos at once, and then no more than one in a gap, whether
// frames are tagged or not, or travel in datagrams; another source has its own.
func TestHelloRate(t *testing.T) {
	plain := func(mac byte) []byte { return makeFrame(128, version(VersionHello), source(mac)) }
	tagged := func(mac byte) []byte {
		f := plain(mac)
		return append(append(bytes.Clone(f[:12]), 0x81, 0, 0, 7), f[12:]...)
	}
	datagrams := func(to netip.Addr, last int) func(byte) []byte { // where the source ends
		return func(source byte) []byte {
			return makeDatagram(plain(0), to).change(func(d *datagram) { d.bytes[d.ip+last] = source })
		}
	}
	for name, c := range map[string]struct {
		load  func() *NIC
		hello func(source byte) []byte
	}{
		"Ethernet": {func() *NIC { return load(t, Load{Queues: 1}, 0) }, plain},
		"tagged":   {func() *NIC { return load(t, Load{Queues: 1, VLAN: 7}, 0) }, tagged},
		"IPv4":     {func() *NIC { return loadUDP(t, 0, false) }, datagrams(own4, 15)},
		"IPv6":     {func() *NIC { return loadUDP(t, 0, true) }, datagrams(own6, 23)},
	} {
		t.Run(name, func(t *testing.T) {
			n := c.load()
			run := func(mac byte, times uint32) Counters {
				t.Helper()
				before := counters(t, n)
				if _, err := n.Program().Run(&ebpf.RunOptions{Data: c.hello(mac), Repeat: times}); err != nil {
					t.Fatal(err)
				}
				return moved(before, counters(t, n))
			}
			const times = 100_000
			got := run(1, times)
			if got.Redirected < 256 || got.Redirected > times/2 || got.Redirected+got.Hellos != times {
				t.Errorf("of %d hellos %d arrived, %d were dropped; want 256 at least", times, got.Redirected,
					got.Hellos)
			}
			if c := run(2, 1); c.Redirected != 1 {
				t.Errorf("another source: %+v", c)
			}
		})
	}
}
