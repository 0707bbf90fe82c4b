// This file tests the switch: every branch of the guard and of the NIC program's way to ports, and
// random frames against a second statement of the rule in Go.

package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// Offsets of the fields that the switch reads besides.
const (
	offsetSource      = 24
	offsetDestination = 26
	offsetTag         = 68
)

// Verdicts of linux/pkt_cls.h.
const (
	tcShot     = 2
	tcRedirect = 7
)

const (
	jobTag   = 0x1122334455667788
	jobNodes = 5
	longest  = 300 // to the other host
)

// The nodes of the bed's job: two ports here, one host, one that is nowhere, and one whose port is
// another's now.
const (
	here, there, away, nowhere, stale = 0, 1, 2, 3, 4
)

var (
	hostMAC = [6]byte{2, 0, 0, 0, 7, 7}
	nicMAC  = [6]byte{2, 0, 0, 0, 8, 8}
)

// skBuff is struct __sk_buff of linux/bpf.h as far as it is used.
type skBuff struct {
	_       [10]uint32
	Ifindex uint32
	_       [37]uint32
}

// switchBed is a switch with a job, whose ports' outer ends are interfaces of the test's namespace.
type switchBed struct {
	*Switch
	nic       *NIC
	job       Job
	outer     [3]uint32 // of here, of there, and of another job's port
	wire      uint32    // the NIC
	elsewhere uint32    // another
	generic   bool      // which guard is tried
}

// both runs a test with each of the two guards.
func both(t *testing.T, test func(t *testing.T, b *switchBed)) {
	for _, generic := range []bool{false, true} {
		t.Run(fmt.Sprintf("generic=%t", generic), func(t *testing.T) {
			b := newSwitchBed(t)
			b.generic = generic
			test(t, b)
		})
	}
}

func newSwitchBed(t *testing.T) *switchBed { return newSwitchBedOf(t, false) }

// newSwitchBedOf makes it with the one or the other NIC program: the kernel lets only one of the
// two have a switch's links (bpf_prog_map_compatible, kernel/bpf/core.c).
func newSwitchBedOf(t *testing.T, frags bool) *switchBed {
	t.Helper()
	enterNamespace(t)
	s, err := LoadSwitch(16)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &switchBed{Switch: s, job: Job{jobTag, homeGroup},
		nic: load(t, Load{Queues: 1, Frags: frags, Switch: s.Shared()})}
	index := func(name string) uint32 {
		pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "i"}
		if err := netlink.LinkAdd(pair); err != nil {
			t.Fatal("add a veth pair:", err)
		}
		linkUp(t, name+"i")
		return uint32(linkUp(t, name).Attrs().Index)
	}
	b.outer, b.wire, b.elsewhere = [3]uint32{index("p0"), index("p1"), index("p2")}, index("nic"), index("nic2")
	other := Job{jobTag + 1, homeGroup}
	for _, err := range []error{
		s.AddJob(b.job, jobNodes), s.AddJob(other, 1),
		s.AddPort(b.outer[0], 0, Port{b.job, here, 7}), s.AddPort(b.outer[1], 1, Port{b.job, there, 7}),
		s.AddPort(b.outer[2], 2, Port{other, 0, 7}),
		s.SetPlace(b.job, here, &Place{Port: b.outer[0], Link: 0, Longest: 2000}),
		s.SetPlace(b.job, there, &Place{Port: b.outer[1], Link: 1, Longest: 2000}),
		s.SetPlace(b.job, away, &Place{NIC: b.wire, Way: EthernetWay(hostMAC, nicMAC, 0), Longest: longest}),
		s.SetPlace(b.job, stale, &Place{Port: b.outer[2], Link: 2, Longest: 2000}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// directFrame is a frame of a node for another as a card composes it: from its version on, with
// addresses that are zero.
func directFrame(size int, from, to uint16, changes ...func([]byte)) []byte {
	return makeFrame(size, append([]func([]byte){func(f []byte) {
		clear(f[:offsetEtherType])
		f[offsetVersion] = VersionDirect
		binary.LittleEndian.PutUint16(f[offsetSource:], from)
		binary.LittleEndian.PutUint16(f[offsetDestination:], to)
		binary.LittleEndian.PutUint64(f[offsetTag:], jobTag)
	}}, changes...)...)
}

func word(at int, v uint16) func([]byte) {
	return func(f []byte) { binary.LittleEndian.PutUint16(f[at:], v) }
}
func putTag(v uint64) func([]byte) {
	return func(f []byte) { binary.LittleEndian.PutUint64(f[offsetTag:], v) }
}
func from(mac [6]byte) func([]byte) { return func(f []byte) { copy(f[6:], mac[:]) } }

// judgeGuard is the rule of the guard once more, for a frame of the port of node here: what counts,
// and the addresses that it leaves with.
func judgeGuard(f []byte) (c PortCounters, addresses [12]byte) {
	le := binary.LittleEndian
	switch {
	case len(f) < FrameMin:
		c.Short++
	case binary.BigEndian.Uint16(f[offsetEtherType:]) != EtherType || f[offsetVersion] != VersionDirect:
		c.BadVersion++
	case le.Uint16(f[offsetGID:]) != homeGroup || le.Uint16(f[offsetSource:]) != here ||
		le.Uint64(f[offsetTag:]) != jobTag:
		c.Forged++
	case le.Uint16(f[offsetLength:]) < 66 || int(le.Uint16(f[offsetLength:]))+14 > len(f):
		c.BadLength++
	default:
		switch to := le.Uint16(f[offsetDestination:]); {
		case to == away && len(f) > longest:
			c.TooLong++
		case to == away:
			c.Sent++
			copy(addresses[:], hostMAC[:])
			copy(addresses[6:], nicMAC[:])
		case to == here || to == there:
			if len(f) > 2000 {
				c.TooLong++
			} else {
				c.Local++
			}
		case to == stale && len(f) > 2000:
			c.TooLong++
		default:
			c.NoNode++
		}
	}
	return c, addresses
}

// show shows a frame to the guard, at the outer end with that index, and compares verdict, counters
// and frame: with the addresses if it passes.
func (b *switchBed) show(outer uint32, frame []byte, want PortCounters, addresses [12]byte) string {
	whole := bytes.Clone(frame)
	if want.Sent+want.Local > 0 {
		copy(whole, addresses[:])
	}
	return b.shown(outer, frame, want, whole)
}

// shown is show with all of the frame that is wanted.
func (b *switchBed) shown(outer uint32, frame []byte, want PortCounters, whole []byte) string {
	before, err := b.PortCounters(outer)
	if err != nil {
		return err.Error()
	}
	o := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Context: skBuff{Ifindex: outer}}
	if b.generic {
		o.Context = xdpMD{IngressIfindex: outer, DataEnd: uint32(len(frame))}
	}
	verdict, err := b.Guard(b.generic).Run(o)
	if err != nil {
		return err.Error()
	}
	after, err := b.PortCounters(outer)
	if err != nil {
		return err.Error()
	}
	passes := want.Sent+want.Local > 0
	wantVerdict := uint32(tcShot)
	switch {
	case passes && b.generic:
		wantVerdict = xdpRedirect
	case passes:
		wantVerdict = tcRedirect
	case b.generic:
		wantVerdict = xdpDrop
	}
	after.Short, after.BadVersion, after.Forged, after.BadLength = after.Short-before.Short,
		after.BadVersion-before.BadVersion, after.Forged-before.Forged, after.BadLength-before.BadLength
	after.NoNode, after.TooLong, after.Sent, after.Local = after.NoNode-before.NoNode, after.TooLong-before.TooLong,
		after.Sent-before.Sent, after.Local-before.Local
	after.NoCredit -= before.NoCredit
	if verdict != wantVerdict || after != want || !bytes.Equal(o.DataOut, whole) {
		return cmp.Diff(want, after) + cmp.Diff(wantVerdict, verdict) + cmp.Diff(whole, o.DataOut)
	}
	return ""
}

// Rule (guard.c): the guard lets pass what the process of its port may send, with the addresses
// that lead there, and counts everything else by its reason. Both sides of every edge.
func TestGuard(t *testing.T) { both(t, testGuard) }

func testGuard(t *testing.T, b *switchBed) {
	for name, c := range map[string]struct {
		frame []byte
		want  PortCounters
	}{
		"to a port":              {directFrame(100, here, there), PortCounters{Local: 1}},
		"to itself":              {directFrame(100, here, here), PortCounters{Local: 1}},
		"to a host":              {directFrame(100, here, away), PortCounters{Sent: 1}},
		"with another's address": {directFrame(100, here, away, from(hostMAC)), PortCounters{Sent: 1}},
		"the shortest":           {directFrame(FrameMin, here, there), PortCounters{Local: 1}},
		"too short":              {directFrame(FrameMin-1, here, there), PortCounters{Short: 1}},
		"of 14 bytes":            {directFrame(14, here, there), PortCounters{Short: 1}},
		"version 6":              {directFrame(100, here, there, version(6)), PortCounters{BadVersion: 1}},
		"a probe":                {directFrame(100, here, there, version(VersionProbe)), PortCounters{BadVersion: 1}},
		"a hello":                {directFrame(100, here, there, version(VersionHello)), PortCounters{BadVersion: 1}},
		"IPv4": {directFrame(100, here, there, etherType(unix.ETH_P_IP)),
			PortCounters{BadVersion: 1}},
		"tagged":                 {tagged(directFrame(100, here, there)), PortCounters{BadVersion: 1}},
		"another group":          {directFrame(100, here, there, gid(lastGroup)), PortCounters{Forged: 1}},
		"a GID with a 12th bit":  {directFrame(100, here, there, gid(homeGroup|0x800)), PortCounters{Forged: 1}},
		"another node":           {directFrame(100, there, here), PortCounters{Forged: 1}},
		"another tag":            {directFrame(100, here, there, putTag(jobTag+1)), PortCounters{Forged: 1}},
		"a tag's upper half":     {directFrame(100, here, there, putTag(jobTag^1<<63)), PortCounters{Forged: 1}},
		"filled up":              {directFrame(100, here, there, length(85)), PortCounters{Local: 1}},
		"a length of the header": {directFrame(100, here, there, length(66)), PortCounters{Local: 1}},
		"a length of less":       {directFrame(100, here, there, length(65)), PortCounters{BadLength: 1}},
		"a length of one more":   {directFrame(100, here, there, length(87)), PortCounters{BadLength: 1}},
		"to nowhere":             {directFrame(100, here, nowhere), PortCounters{NoNode: 1}},
		"behind the last node":   {directFrame(100, here, jobNodes), PortCounters{NoNode: 1}},
		"to node 65535":          {directFrame(100, here, 65535), PortCounters{NoNode: 1}},
		"to another job's port":  {directFrame(100, here, stale), PortCounters{NoNode: 1}},
		"the longest to a host":  {directFrame(longest, here, away), PortCounters{Sent: 1}},
		"too long for a host":    {directFrame(longest+1, here, away), PortCounters{TooLong: 1}},
		"long to a port":         {directFrame(1400, here, there), PortCounters{Local: 1}},
	} {
		want, addresses := judgeGuard(c.frame)
		if want != c.want {
			t.Errorf("%s: the second statement says %+v", name, want)
		}
		if bad := b.show(b.outer[0], c.frame, c.want, addresses); bad != "" {
			t.Errorf("%s (-want +got):\n%s", name, bad)
		}
	}
}

// TestGuardRandom: random frames, near to what passes.
func TestGuardRandom(t *testing.T) { both(t, testGuardRandom) }

func testGuardRandom(t *testing.T, b *switchBed) {
	passed := 0
	check := func(t *rapid.T) {
		frame := directFrame(rapid.IntRange(14, 320).Draw(t, "size"), here,
			rapid.Uint16Range(0, jobNodes).Draw(t, "to"))
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			at := rapid.IntRange(0, min(len(frame), 76)-1).Draw(t, "at")
			frame[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		}
		want, addresses := judgeGuard(frame)
		passed += int(want.Sent + want.Local)
		if bad := b.show(b.outer[0], frame, want, addresses); bad != "" {
			t.Fatalf("(-want +got):\n%s", bad)
		}
	}
	for range 100 { // of 20 frames, as with -short, it may be that none passes
		if rapid.Check(t, check); passed > 0 || t.Failed() {
			return
		}
	}
	t.Error("no frame passed")
}

// TestPortsComeAndGo: what no longer is a port sends nothing and gets nothing, nor does a job that
// is gone; one that takes its place does.
func TestPortsComeAndGo(t *testing.T) {
	b := newSwitchBed(t)
	check := func(what string, to uint16, want PortCounters) {
		t.Helper()
		frame := directFrame(100, here, to)
		var addresses [12]byte
		if want.Sent > 0 {
			copy(addresses[:], hostMAC[:])
			copy(addresses[6:], nicMAC[:])
		}
		if bad := b.show(b.outer[0], frame, want, addresses); bad != "" {
			t.Errorf("%s (-want +got):\n%s", what, bad)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := b.AddPort(b.outer[1], 3, Port{b.job, there, 7}); !errors.Is(err, ebpf.ErrKeyExist) {
		t.Errorf("a port twice: %v", err)
	}
	check("a port that was refused a second time", there, PortCounters{Local: 1})
	if err := b.AddPort(b.wire, 99, Port{b.job, nowhere, 7}); err == nil {
		t.Error("a port has a place behind the last link")
	}
	if _, err := b.PortCounters(b.wire); !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Errorf("a port that was refused is there: %v", err)
	}
	must(b.RemovePort(b.outer[1], 1))
	check("a port that is gone", there, PortCounters{NoNode: 1})
	must(b.RemovePort(b.outer[1], 1)) // once more
	must(b.AddPort(b.outer[1], 1, Port{b.job, there, 7}))
	check("a port that is back", there, PortCounters{Local: 1})
	must(b.SetPlace(b.job, there, nil))
	check("a node that left", there, PortCounters{NoNode: 1})
	must(b.SetPlace(b.job, there, &Place{NIC: b.wire, Way: EthernetWay(hostMAC, nicMAC, 0), Longest: 200}))
	check("a node that is elsewhere now", there, PortCounters{Sent: 1})
	must(b.RemoveJob(b.job))
	check("a job that is gone", there, PortCounters{NoNode: 1})
	must(b.RemoveJob(b.job))
	if err := b.SetPlace(b.job, here, nil); !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Errorf("a place in a job that is gone: %v", err)
	}
	must(b.AddJob(b.job, 2))
	if err := b.AddJob(b.job, 2); !errors.Is(err, ebpf.ErrKeyExist) {
		t.Errorf("the job twice: %v", err)
	}
	if err := b.SetPlace(b.job, 2, nil); err == nil {
		t.Error("a place behind the last node was set")
	}
	must(b.RemovePort(b.outer[0], 0))
	for generic, c := range map[bool]struct {
		context any
		dropped uint32
	}{false: {skBuff{Ifindex: b.outer[0]}, tcShot}, true: {xdpMD{IngressIfindex: b.outer[0], DataEnd: 100}, xdpDrop}} {
		o := &ebpf.RunOptions{Data: directFrame(100, here, here), DataOut: make([]byte, 164), Context: c.context}
		if verdict, err := b.Guard(generic).Run(o); err != nil || verdict != c.dropped {
			t.Errorf("a frame of no port: verdict %d, %v", verdict, err)
		}
	}
	for _, ports := range []int{-1, 0, MostPorts + 1} {
		if _, err := LoadSwitch(ports); !errors.Is(err, ErrRange) {
			t.Errorf("%d ports: %v", ports, err)
		}
	}
	for _, nodes := range []int{0, 1<<16 + 1} {
		if err := b.AddJob(Job{9, 9}, nodes); !errors.Is(err, ErrRange) {
			t.Errorf("%d nodes: %v", nodes, err)
		}
	}
	if err := b.SetPlace(b.job, 0, &Place{Way: Way{Head: make([]byte, 73)}}); !errors.Is(err, ErrRange) {
		t.Errorf("headers of 73 bytes: %v", err)
	}
}

// Rule (nic.c, direct): a direct frame goes to the port of its node, without addresses, if it came
// in where its sender's host is, from that host. None gets to the kernel or to a socket of the NIC.
// Other frames are judged as without a switch.
func TestDirectFramesAtTheNIC(t *testing.T) {
	b := newSwitchBed(t)
	addSocket(t, b.nic, 0)
	arrived := func(changes ...func([]byte)) []byte {
		return directFrame(100, away, here, append([]func([]byte){from(hostMAC)}, changes...)...)
	}
	for name, c := range map[string]struct {
		frame []byte
		at    uint32
		want  Counters
	}{
		"for a port":          {arrived(), b.wire, Counters{Direct: 1}},
		"with padding":        {append(arrived(), 0, 0), b.wire, Counters{Direct: 1}},
		"for the other port":  {arrived(word(offsetDestination, there)), b.wire, Counters{Direct: 1}},
		"at another NIC":      {arrived(), b.elsewhere, Counters{Stranger: 1}},
		"of another host":     {arrived(from(nicMAC)), b.wire, Counters{Stranger: 1}},
		"of one bit":          {arrived(from([6]byte{2, 0, 0, 0, 7, 6})), b.wire, Counters{Stranger: 1}},
		"of a node here":      {arrived(word(offsetSource, there)), b.wire, Counters{Stranger: 1}},
		"of no node":          {arrived(word(offsetSource, jobNodes)), b.wire, Counters{Stranger: 1}},
		"of another tag":      {arrived(putTag(jobTag + 2)), b.wire, Counters{Stranger: 1}},
		"of another group":    {arrived(gid(lastGroup)), b.wire, Counters{Stranger: 1}},
		"for a host":          {arrived(word(offsetDestination, away)), b.wire, Counters{NoPort: 1}},
		"for nowhere":         {arrived(word(offsetDestination, nowhere)), b.wire, Counters{NoPort: 1}},
		"for another's port":  {arrived(word(offsetDestination, stale)), b.wire, Counters{NoPort: 1}},
		"with a bad length":   {arrived(length(87)), b.wire, Counters{BadLength: 1}},
		"too short":           {arrived()[:79], b.wire, Counters{Short: 1}},
		"version 6":           {arrived(version(6)), b.wire, Counters{Redirected: 1}},
		"version 8":           {arrived(version(8)), b.wire, Counters{BadVersion: 1}},
		"no frame of FUNet's": {arrived(etherType(unix.ETH_P_IP)), b.wire, Counters{Pass: 1}},
	} {
		o := &ebpf.RunOptions{Data: c.frame, DataOut: make([]byte, len(c.frame)+64),
			Context: xdpMD{IngressIfindex: c.at, DataEnd: uint32(len(c.frame))}}
		before := counters(t, b.nic)
		verdict, err := b.nic.Program().Run(o)
		if err != nil {
			t.Fatal(err)
		}
		want := uint32(xdpDrop)
		whole := bytes.Clone(c.frame)
		switch {
		case c.want.Direct == 1:
			clear(whole[:offsetEtherType])
			want = xdpRedirect
		case c.want.Redirected == 1:
			want = xdpRedirect
		case c.want.Pass == 1:
			want = xdpPass
		}
		if diff := cmp.Diff(c.want, moved(before, counters(t, b.nic))); diff != "" || verdict != want ||
			!bytes.Equal(o.DataOut, whole) {
			t.Errorf("%s: verdict %d, want %d; %s%s", name, verdict, want, diff, cmp.Diff(whole, o.DataOut))
		}
	}
	// Without a switch nothing is direct.
	if err := run(loadNIC(t, 1, 0), arrived(), badVersion, nil); err != nil {
		t.Error(err)
	}
}

// TestSwitchHeader: the numbers of switch.h are those of the package.
func TestSwitchHeader(t *testing.T) {
	text, err := os.ReadFile("switch.h")
	if err != nil {
		t.Fatal(err)
	}
	if n := unsafe.Sizeof(guardFunetPlace{}); n != PlaceSize {
		t.Errorf("struct funet_place has %d bytes, want %d", n, PlaceSize)
	}
	kinds := regexp.MustCompile(`FUNET_KIND_(\w+),`).FindAllStringSubmatch(string(text), -1)
	if len(kinds) != 4 || kinds[kindPort][1] != "PORT" || kinds[kindHost][1] != "HOST" ||
		kinds[kindRouted][1] != "ROUTED" {
		t.Errorf("kinds %q", kinds)
	}
	names := regexp.MustCompile(`FUNET_PORT_(\w+),\s+/\*`).FindAllStringSubmatch(string(text), -1)
	want := []string{"SHORT", "BAD_VERSION", "FORGED", "BAD_LENGTH", "NO_NODE", "TOO_LONG", "NO_CREDIT",
		"SENT", "LOCAL"}
	for i, name := range want {
		if len(names) != len(want) || names[i][1] != name {
			t.Fatalf("counters %q, want %q", names, want)
		}
	}
	spec, err := loadGuard()
	if err != nil {
		t.Fatal(err)
	}
	if inner := spec.Maps["funet_jobs"].InnerMap; inner.ValueSize != PlaceSize || inner.Flags != innerMap ||
		inner.Type != ebpf.Array {
		t.Errorf("inner map %+v", inner)
	}
}

// Rule (designs: rates; switch.h): an account's ports may send 32 MiB to a host that sends them
// nothing, and after that a byte in 1024 ns. A frame that comes from there for a port that sends
// there opens all of it; one that does not get to a port, of another host or for another port opens
// nothing.
func TestCredit(t *testing.T) { both(t, testCredit) }

func testCredit(t *testing.T, b *switchBed) {
	const size, all = 2000, 32 << 20
	third := Job{jobTag + 2, homeGroup}
	elsewhere := func(host uint16) *Place {
		return &Place{NIC: b.wire, Way: EthernetWay(hostMAC, nicMAC, 0), Longest: size, Host: host}
	}
	for _, err := range []error{
		b.SetPlace(b.job, away, elsewhere(1)), b.SetPlace(b.job, nowhere, elsewhere(2)), b.AddJob(third, 2),
		b.RemovePort(b.outer[2], 2), b.AddPort(b.outer[2], 2, Port{third, 0, 8}),
		b.SetPlace(third, 0, &Place{Port: b.outer[2], Link: 2, Longest: size}), b.SetPlace(third, 1, elsewhere(1)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// send also says how many frames may have trickled at the most.
	send := func(outer uint32, frame []byte, times uint32) (PortCounters, uint64) {
		t.Helper()
		began := time.Now()
		before, err := b.PortCounters(outer)
		if err != nil {
			t.Fatal(err)
		}
		for range times { // a repetition would see the frame that the one before left
			o := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Context: skBuff{Ifindex: outer}}
			if b.generic {
				o.Context = xdpMD{IngressIfindex: outer, DataEnd: uint32(len(frame))}
			}
			if _, err := b.Guard(b.generic).Run(o); err != nil {
				t.Fatal(err)
			}
		}
		after, err := b.PortCounters(outer)
		if err != nil {
			t.Fatal(err)
		}
		return PortCounters{Sent: after.Sent - before.Sent, NoCredit: after.NoCredit - before.NoCredit},
			(uint64(time.Since(began))/1024+64<<10)/size + 1
	}
	arrive := func(frame []byte, want Counters) {
		t.Helper()
		before := counters(t, b.nic)
		o := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64),
			Context: xdpMD{IngressIfindex: b.wire, DataEnd: uint32(len(frame))}}
		if _, err := b.nic.Program().Run(o); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, moved(before, counters(t, b.nic))); diff != "" {
			t.Fatal("a frame that arrives:", diff)
		}
	}
	toHost := func(job uint64, from, to uint16) []byte { return directFrame(size, from, to, putTag(job)) }
	const tries = all/size + 1000
	spent := func(what string) {
		t.Helper()
		got, trickle := send(b.outer[0], toHost(jobTag, here, away), tries)
		if got.Sent < all/size || got.Sent > all/size+trickle || got.Sent+got.NoCredit != tries {
			t.Errorf("%s: %+v of %d frames", what, got, tries)
		}
	}
	spent("the first account")
	if got, _ := send(b.outer[0], toHost(jobTag, here, nowhere), 100); got.Sent != 100 {
		t.Errorf("to the other host: %+v", got)
	}
	if got, _ := send(b.outer[2], toHost(jobTag+2, 0, 1), 100); got.Sent != 100 {
		t.Errorf("of the other account: %+v", got)
	}
	closed := func(what string) {
		t.Helper()
		if got, trickle := send(b.outer[0], toHost(jobTag, here, away), 1000); got.Sent > trickle {
			t.Errorf("%s opens the credit: %+v", what, got)
		}
	}
	closed("time")
	arrive(directFrame(100, nowhere, here, from(hostMAC)), Counters{Direct: 1})
	closed("a frame of the other host")
	arrive(directFrame(100, 1, 0, from(hostMAC), putTag(jobTag+2)), Counters{Direct: 1})
	closed("a frame for the other account")
	arrive(directFrame(100, away, jobNodes, from(hostMAC)), Counters{NoPort: 1})
	closed("a frame for nobody")
	arrive(directFrame(100, away, there, from(hostMAC)), Counters{Direct: 1})
	closed("a frame for the other port, which sends nothing")
	// which finds no credit, as a rule, and is answered
	send(b.outer[1], toHost(jobTag, there, away), 1)
	arrive(directFrame(100, away, there, from(hostMAC)), Counters{Direct: 1})
	spent("the first account, answered")
}
