// This file tests the guard on bundles: every branch, random ones against a second statement of the
// rule in Go, and what they cost.

package bpf

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// The nodes of the job for bundles, behind those of the bed: eight behind routers, of which the
// last has short frames, one behind another NIC, and one behind a host without routers.
const (
	routed, narrow, sideways, plain = jobNodes, jobNodes + 7, jobNodes + 8, jobNodes + 9
	bundleNodes                     = jobNodes + 10
	routedLongest                   = 2200
	narrowLongest                   = 400
)

func routedMAC(node uint16) [6]byte { return [6]byte{2, 0, 0, 0, 9, byte(node)} }

// routes gives the bed's job the nodes for bundles.
func (b *switchBed) routes(t *testing.T) {
	t.Helper()
	errs := []error{b.RemoveJob(b.job), b.AddJob(b.job, bundleNodes),
		b.SetPlace(b.job, here, &Place{Port: b.outer[0], Link: 0, Longest: 2000}),
		b.SetPlace(b.job, there, &Place{Port: b.outer[1], Link: 1, Longest: 2000}),
		b.SetPlace(b.job, stale, &Place{Port: b.outer[2], Link: 2, Longest: 2000})}
	for node := uint16(routed); node < bundleNodes; node++ {
		p := &Place{NIC: b.wire, Way: EthernetWay(routedMAC(node), nicMAC, 0), Longest: routedLongest, Host: node,
			Bundles: node != plain}
		switch node {
		case narrow:
			p.Longest = narrowLongest
		case sideways:
			p.NIC = b.elsewhere
		}
		errs = append(errs, b.SetPlace(b.job, node, p))
	}
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// bundleOf makes a bundle of frames of the given size for nodes, as a card does. Each change is of
// all of it.
func bundleOf(size int, to []uint16, changes ...func([]byte)) []byte {
	var frames [][]byte
	for _, node := range to {
		frames = append(frames, directFrame(size, here, node))
	}
	b := make([]byte, arctic.BundleHeaderSize+size*len(to))
	b = b[:arctic.PutBundle(b, frames)]
	for _, change := range changes {
		change(b)
	}
	return b
}

// of changes the frame of a bundle that is the given place in it, by its size.
func of(frame, size int, change func([]byte)) func([]byte) {
	return func(b []byte) { change(b[arctic.BundleHeaderSize+frame*size:][:size]) }
}

// judgeBundle is the rule of the guard for bundles once more: what counts, and the bytes that
// leave.
func judgeBundle(b []byte) (c PortCounters, out []byte) {
	le, out := binary.LittleEndian, bytes.Clone(b)
	n := int(b[18])
	if n < 2 || n > 8 || int(le.Uint16(b[16:])) != len(b)-14 {
		return PortCounters{BadLength: 1}, b
	}
	at, way := 44, uint16(0)
	for i := range n {
		end := int(le.Uint16(b[28+2*i:]))
		if end < at+80 || end > at+256 || end > len(b) {
			return PortCounters{BadLength: 1}, out
		}
		f := b[at:end]
		c, _ := judgeGuard(f)
		node := le.Uint16(f[offsetDestination:])
		switch {
		case c.BadVersion+c.Forged+c.BadLength > 0:
			return c, out
		case node < routed || node == plain || node >= bundleNodes:
			return PortCounters{NoNode: 1}, out
		case node == narrow && len(b) > narrowLongest || len(b) > routedLongest:
			return PortCounters{TooLong: 1}, out
		}
		mac := routedMAC(node)
		copy(out[at:], mac[:])
		copy(out[at+6:], nicMAC[:])
		if i > 0 && (node == sideways) != (way == sideways) {
			return PortCounters{NoNode: 1}, out
		}
		at, way = end, node
	}
	if at != len(b) {
		return PortCounters{BadLength: 1}, out
	}
	copy(out, []byte{0x0f, 0, 0, 0, 0, 0})
	copy(out[6:], nicMAC[:])
	return PortCounters{Sent: uint64(n)}, out
}

// Rule (guard.c): a bundle passes, with the addresses of each of its frames, if each of them would
// pass alone and is for a host behind routers; otherwise none of it does. Both sides of every edge.
func TestGuardOfBundles(t *testing.T) { both(t, testGuardOfBundles) }

func testGuardOfBundles(t *testing.T, b *switchBed) {
	b.routes(t)
	two := []uint16{routed, routed + 1}
	all := []uint16{routed, routed + 1, routed + 2, routed + 3, routed + 4, routed + 5, routed + 6, routed}
	put := func(at int, v uint16) func([]byte) {
		return func(f []byte) { binary.LittleEndian.PutUint16(f[at:], v) }
	}
	for name, c := range map[string]struct {
		bundle []byte
		want   PortCounters
	}{
		"of two":                {bundleOf(100, two), PortCounters{Sent: 2}},
		"of eight, the longest": {bundleOf(256, all), PortCounters{Sent: 8}},
		"of the shortest":       {bundleOf(FrameMin, two), PortCounters{Sent: 2}},
		"with addresses": {bundleOf(100, two, from(hostMAC), of(1, 100, from(hostMAC))),
			PortCounters{Sent: 2}},
		"for another address": {bundleOf(100, two, to([6]byte{255, 255, 255, 255, 255, 255})),
			PortCounters{Sent: 2}},
		"by the other NIC":            {bundleOf(100, []uint16{sideways, sideways}), PortCounters{Sent: 2}},
		"of one":                      {bundleOf(100, two[:1]), PortCounters{BadLength: 1}},
		"of nine":                     {bundleOf(100, two, func(b []byte) { b[18] = 9 }), PortCounters{BadLength: 1}},
		"another protocol's":          {bundleOf(100, two, etherType(unix.ETH_P_IP)), PortCounters{BadVersion: 1}},
		"a length of one less":        {bundleOf(100, two, put(16, 44+200-15)), PortCounters{BadLength: 1}},
		"a length of one more":        {bundleOf(100, two, put(16, 44+200-13)), PortCounters{BadLength: 1}},
		"bytes behind the last":       {append(bundleOf(100, two, put(16, 44+200-13)), 0), PortCounters{BadLength: 1}},
		"a frame of 79":               {bundleOf(100, two, put(28, 44+79)), PortCounters{BadLength: 1}},
		"a frame of 257":              {bundleOf(257, two), PortCounters{BadLength: 1}},
		"the second of 257":           {bundleOf(200, two, put(28, 44+143)), PortCounters{BadLength: 1}},
		"a frame beyond the end":      {bundleOf(100, two, put(30, 44+201)), PortCounters{BadLength: 1}},
		"ends that go back":           {bundleOf(100, two, put(30, 44)), PortCounters{BadLength: 1}},
		"more frames than ends":       {bundleOf(100, two, func(b []byte) { b[18] = 3 }), PortCounters{BadLength: 1}},
		"longer than its way":         {bundleOf(200, []uint16{routed, narrow}), PortCounters{TooLong: 1}},
		"as long as its way":          {bundleOf(178, []uint16{routed, narrow}), PortCounters{Sent: 2}},
		"the first of another group":  {bundleOf(100, two, of(0, 100, gid(lastGroup))), PortCounters{Forged: 1}},
		"the second of another group": {bundleOf(100, two, of(1, 100, gid(lastGroup))), PortCounters{Forged: 1}},
		"the last of another node": {bundleOf(100, all, of(7, 100, word(offsetSource, there))),
			PortCounters{Forged: 1}},
		"one of another tag": {bundleOf(100, two, of(1, 100, putTag(jobTag+1))), PortCounters{Forged: 1}},
		"one of version 6":   {bundleOf(100, two, of(1, 100, version(6))), PortCounters{BadVersion: 1}},
		"one is a hello":     {bundleOf(100, two, of(1, 100, version(VersionHello))), PortCounters{BadVersion: 1}},
		"one is a bundle":    {bundleOf(100, two, of(1, 100, version(8))), PortCounters{BadVersion: 1}},
		"one is IPv4": {bundleOf(100, two, of(0, 100, etherType(unix.ETH_P_IP))),
			PortCounters{BadVersion: 1}},
		"one with a length of 65": {bundleOf(100, two, of(1, 100, length(65))), PortCounters{BadLength: 1}},
		"one with a length of one more": {bundleOf(100, two, of(1, 100, length(87))),
			PortCounters{BadLength: 1}},
		"one to nowhere":            {bundleOf(100, []uint16{routed, nowhere}), PortCounters{NoNode: 1}},
		"one behind the last node":  {bundleOf(100, []uint16{routed, bundleNodes}), PortCounters{NoNode: 1}},
		"one to a port":             {bundleOf(100, []uint16{routed, there}), PortCounters{NoNode: 1}},
		"one to another job's port": {bundleOf(100, []uint16{routed, stale}), PortCounters{NoNode: 1}},
		"one to a host without routers": {bundleOf(100, []uint16{routed, plain}),
			PortCounters{NoNode: 1}},
		"all to a host without routers": {bundleOf(100, []uint16{plain, plain}), PortCounters{NoNode: 1}},
		"by two NICs":                   {bundleOf(100, []uint16{routed, sideways}), PortCounters{NoNode: 1}},
	} {
		if c.bundle[offsetEtherType] != 0x88 {
			if bad := b.show(b.outer[0], c.bundle, c.want, [12]byte{}); bad != "" {
				t.Errorf("%s (-want +got):\n%s", name, bad)
			}
			continue
		}
		want, out := judgeBundle(c.bundle)
		if want != c.want {
			t.Errorf("%s: the second statement says %+v", name, want)
		}
		if bad := b.shown(b.outer[0], c.bundle, c.want, out); bad != "" {
			t.Errorf("%s (-want +got):\n%s", name, bad)
		}
	}
	// lone frames for hosts behind routers go as others do
	for _, node := range []uint16{routed, narrow, sideways, plain} {
		mac := routedMAC(node)
		if bad := b.show(b.outer[0], directFrame(300, here, node), PortCounters{Sent: 1},
			[12]byte(append(mac[:], nicMAC[:]...))); bad != "" {
			t.Errorf("a lone frame for node %d (-want +got):\n%s", node, bad)
		}
	}
	if err := b.SetPlace(b.job, routed, &Place{NIC: b.wire, Way: EthernetWay(hostMAC, nicMAC, 5),
		Bundles: true}); err == nil {
		t.Error("a way of bundles has a tag")
	}
}

// TestGuardOfRandomBundles: random bundles, near to what passes.
func TestGuardOfRandomBundles(t *testing.T) { both(t, testGuardOfRandomBundles) }

func testGuardOfRandomBundles(t *testing.T, b *switchBed) {
	b.routes(t)
	passed, dropped := 0, 0
	check := func(t *rapid.T) {
		var frames [][]byte
		for range rapid.IntRange(2, 8).Draw(t, "frames") {
			node := uint16(routed)
			if rapid.IntRange(0, 15).Draw(t, "odd") == 0 {
				node = rapid.Uint16Range(0, bundleNodes).Draw(t, "to")
			} else {
				node = rapid.Uint16Range(routed, narrow-1).Draw(t, "to")
			}
			frames = append(frames, directFrame(rapid.IntRange(FrameMin, 256).Draw(t, "size"), here, node))
		}
		bundle := make([]byte, arctic.BundleHeaderSize+256*len(frames))
		bundle = bundle[:arctic.PutBundle(bundle, frames)]
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			at := rapid.IntRange(15, len(bundle)-1).Draw(t, "at")
			bundle[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		}
		want, out := judgeBundle(bundle)
		if want.Sent > 0 {
			passed++
		} else {
			dropped++
		}
		if bad := b.shown(b.outer[0], bundle, want, out); bad != "" {
			t.Fatalf("(-want +got):\n%s", bad)
		}
	}
	for range 100 { // of 20 bundles, as with -short, it may be that none passes
		if rapid.Check(t, check); passed > 0 && dropped > 0 || t.Failed() {
			return
		}
	}
	t.Errorf("%d bundles passed and %d were dropped", passed, dropped)
}

// Rule (guard.c): routers may copy all of a bundle for each of its frames. So of the credit with
// the host of each frame a bundle takes as many bytes as it has, and a bundle for a host that has
// no credit left is dropped.
func TestCreditOfBundles(t *testing.T) { both(t, testCreditOfBundles) }

func testCreditOfBundles(t *testing.T, b *switchBed) {
	b.routes(t)
	const all = 32 << 20
	to := []uint16{routed, routed + 1, routed + 2, routed + 3, routed + 4, routed + 5, routed + 6, routed + 1}
	send := func(frame []byte, times int) (c PortCounters, trickle uint64) {
		t.Helper()
		began := time.Now()
		before, err := b.PortCounters(b.outer[0])
		if err != nil {
			t.Fatal(err)
		}
		for range times {
			o := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256),
				Context: skBuff{Ifindex: b.outer[0]}}
			if b.generic {
				o.Context = xdpMD{IngressIfindex: b.outer[0], DataEnd: uint32(len(frame))}
			}
			if _, err := b.Guard(b.generic).Run(o); err != nil {
				t.Fatal(err)
			}
		}
		after, err := b.PortCounters(b.outer[0])
		if err != nil {
			t.Fatal(err)
		}
		return PortCounters{Sent: after.Sent - before.Sent, NoCredit: after.NoCredit - before.NoCredit},
			(uint64(time.Since(began))/1024+64<<10)/uint64(len(frame)) + 1
	}
	bundle := bundleOf(256, to)
	// two of its frames are for one host, which so gets what it has twice as soon
	tries := uint64(all/len(bundle)/2 + 1000)
	got, trickle := send(bundle, int(tries))
	least := uint64(all/len(bundle)/2) - 2*64<<10/uint64(len(bundle)) // parts that a port has taken
	if n := got.Sent / 8; got.Sent%8 != 0 || n < least || n > tries-1000+trickle || n+got.NoCredit != tries {
		t.Errorf("%+v of %d bundles, want %d to %d frames", got, tries, 8*least, 8*(tries-1000+trickle))
	}
	for i, node := range to[:7] {
		charged := got.Sent / 8
		switch i {
		case 0: // its frame is judged before the first that finds no credit
			charged += got.NoCredit
		case 1:
			charged *= 2
		}
		left := max(int64(all)-int64(charged)*int64(len(bundle)), 0)
		frame := directFrame(2000, here, node)
		passed, trickle := send(frame, int(left/2000)+500)
		// a port takes credit in parts of 64 KiB
		if n := int64(passed.Sent); n+64 < left/2000 || n > left/2000+int64(trickle)+64 {
			t.Errorf("host %d has %d frames' credit left, want about %d", i, n, left/2000)
		}
	}
}

// Rule (nic.c): frames from a host behind routers arrive one by one, as from any other host.
func TestFramesFromBehindRouters(t *testing.T) {
	b := newSwitchBed(t)
	b.routes(t)
	for source, want := range map[uint16]Counters{routed: {Direct: 1}, routed + 1: {Stranger: 1}} {
		frame := directFrame(100, source, here, from(routedMAC(routed)))
		o := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64),
			Context: xdpMD{IngressIfindex: b.wire, DataEnd: uint32(len(frame))}}
		before := counters(t, b.nic)
		if _, err := b.nic.Program().Run(o); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, moved(before, counters(t, b.nic))); diff != "" {
			t.Errorf("a frame of node %d: %s", source, diff)
		}
	}
}
