// This file runs the NIC program in the kernel (BPF_PROG_TEST_RUN, kernel Documentation/bpf/
// bpf_prog_run.rst) on frames around every edge of the rule that doc.go draws, and on random
// frames against a second statement of the rule in Go.

package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// Verdicts of enum xdp_action in linux/bpf.h.
const (
	xdpDrop     = 1
	xdpPass     = 2
	xdpRedirect = 4
)

// Offsets of the fields that the program reads; header_test.go compares them with funet.h.
const (
	offsetEtherType = 12
	offsetVersion   = 14
	offsetLength    = 16
	offsetGID       = 18
)

const (
	homeGroup    = 5    // active throughout the tests
	lastGroup    = 2047 // active as well: the greatest GID
	foreignGroup = 6    // never active
)

// Each outcome as the counters show it: exactly one counter, moved by one.
var (
	pass       = Counters{Pass: 1}
	short      = Counters{Short: 1}
	badVersion = Counters{BadVersion: 1}
	badLength  = Counters{BadLength: 1}
	badGID     = Counters{BadGID: 1}
	foreign    = Counters{ForeignGroup: 1}
	noSocket   = Counters{NoSocket: 1}
	redirected = Counters{Redirected: 1}
)

// verdicts gives the return value that belongs to each outcome.
var verdicts = map[Counters]uint32{
	pass: xdpPass, short: xdpDrop, badVersion: xdpDrop, badLength: xdpDrop,
	badGID: xdpDrop, foreign: xdpDrop, noSocket: xdpDrop, redirected: xdpRedirect,
}

// makeFrame returns a frame of size bytes that the program redirects if size is at least
// FrameMin, with the given changes made. Beyond the header it holds a pattern, not zeros.
func makeFrame(size int, changes ...func([]byte)) []byte {
	frame := make([]byte, max(size, FrameMin))
	copy(frame, []byte{0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1})
	for i := offsetGID + 2; i < len(frame); i++ {
		frame[i] = byte(i*7 + 1)
	}
	binary.BigEndian.PutUint16(frame[offsetEtherType:], EtherType)
	frame[offsetVersion] = Version
	binary.LittleEndian.PutUint16(frame[offsetLength:], uint16(len(frame)-14))
	binary.LittleEndian.PutUint16(frame[offsetGID:], homeGroup)
	for _, change := range changes {
		change(frame)
	}
	return frame[:size]
}

func etherType(v uint16) func([]byte) {
	return func(f []byte) { binary.BigEndian.PutUint16(f[offsetEtherType:], v) }
}
func version(v uint8) func([]byte) { return func(f []byte) { f[offsetVersion] = v } }
func length(v uint16) func([]byte) {
	return func(f []byte) { binary.LittleEndian.PutUint16(f[offsetLength:], v) }
}
func gid(v uint16) func([]byte) {
	return func(f []byte) { binary.LittleEndian.PutUint16(f[offsetGID:], v) }
}

// ones sets every byte that the program must not look at to 0xff.
func ones(f []byte) {
	for i := range f {
		if i < offsetEtherType || i == offsetVersion+1 || i > offsetGID+1 {
			f[i] = 0xff
		}
	}
}

// tagged inserts an IEEE 802.1Q tag behind the addresses.
func tagged(frame []byte) []byte {
	tag := []byte{0x81, 0x00, 0x00, 0x05}
	return append(append(append([]byte{}, frame[:offsetEtherType]...), tag...), frame[offsetEtherType:]...)
}

// loadNIC loads the program with the home groups active and, in the rest of the test, an AF_XDP
// socket on each of the given queues.
func loadNIC(t testing.TB, queues int, sockets ...uint32) *NIC {
	t.Helper()
	n, err := LoadNIC(queues)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, group := range []uint16{homeGroup, lastGroup} {
		if err := n.SetGroup(group, true); err != nil {
			t.Fatal(err)
		}
	}
	for _, queue := range sockets {
		addSocket(t, n, queue)
	}
	return n
}

// addSocket puts an AF_XDP socket into the map, which takes it unbound; the program's redirect
// depends on the entry alone, and whether the socket is bound is tested when a real frame is
// delivered (wire_test.go). The function that it returns closes the socket.
func addSocket(t testing.TB, n *NIC, queue uint32) (closeSocket func()) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		t.Skip("the kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS)")
	}
	if err != nil {
		t.Fatal("open an AF_XDP socket:", err)
	}
	closed := false
	closeSocket = func() {
		if !closed {
			closed = true
			unix.Close(fd)
		}
	}
	t.Cleanup(closeSocket)
	if err := n.Sockets().Put(queue, uint32(fd)); err != nil {
		t.Fatalf("put a socket on queue %d: %v", queue, err)
	}
	return closeSocket
}

func counters(t testing.TB, n *NIC) Counters {
	t.Helper()
	c, err := n.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// moved returns by how much each counter is greater in after than in before.
func moved(before, after Counters) Counters {
	for i, field := range after.fields() {
		*field -= *before.fields()[i]
	}
	return after
}

// xdpMD is struct xdp_md of linux/bpf.h, the context that BPF_PROG_TEST_RUN takes.
type xdpMD struct {
	Data, DataEnd, DataMeta, IngressIfindex, RxQueueIndex, EgressIfindex uint32
}

// run shows one frame to the program, on the queue of at if that is given and else on queue 0 of
// the loopback interface (the kernel's default), and compares all that the program can do: the
// verdict, the counters, and the frame, which it must not change.
func run(n *NIC, frame []byte, want Counters, at *xdpMD) error {
	options := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64)}
	if at != nil {
		at.DataEnd = uint32(len(frame))
		options.Context = *at
	}
	before, err := n.Counters()
	if err != nil {
		return err
	}
	verdict, err := n.Program().Run(options)
	if err != nil {
		return fmt.Errorf("run the program on %d bytes: %w", len(frame), err)
	}
	after, err := n.Counters()
	if err != nil {
		return err
	}
	if diff := cmp.Diff(want, moved(before, after)); diff != "" {
		return fmt.Errorf("counters moved otherwise (-want +got):\n%s", diff)
	}
	if verdict != verdicts[want] {
		return fmt.Errorf("verdict %d, want %d", verdict, verdicts[want])
	}
	if !bytes.Equal(options.DataOut, frame) {
		return fmt.Errorf("the program changed the frame from\n%x to\n%x", frame, options.DataOut)
	}
	return nil
}

// TestOutcomes: every outcome and both sides of every edge of the rule in doc.go.
func TestOutcomes(t *testing.T) {
	n := loadNIC(t, 1, 0)
	largest := 3500 // bytes: BPF_PROG_TEST_RUN takes one page less its headroom and tailroom
	for _, test := range []struct {
		name  string
		frame []byte
		want  Counters
	}{
		{"ours", makeFrame(200), redirected},
		{"ours without packets", makeFrame(72), redirected},
		{"ours, largest", makeFrame(largest), redirected},
		{"greatest GID", makeFrame(200, gid(2047)), redirected},
		{"fields that are not the program's business", makeFrame(200, ones), redirected},

		{"IPv4", makeFrame(200, etherType(0x0800)), pass},
		{"ARP of 42 bytes", makeFrame(42, etherType(0x0806)), pass},
		{"VLAN tag", tagged(makeFrame(200)), pass},
		{"priority tag 802.1ad", makeFrame(200, etherType(0x88a8)), pass},
		{"EtherType one less", makeFrame(200, etherType(EtherType-1)), pass},
		{"EtherType one more", makeFrame(200, etherType(EtherType+1)), pass},
		{"EtherType in the wrong byte order", makeFrame(200, etherType(0xb588)), pass},
		{"802.3 length in place of an EtherType", makeFrame(200, etherType(100)), pass},
		{"foreign runt of 14 bytes", makeFrame(14, etherType(0x0800)), pass},
		{"foreign frame of 71 bytes", makeFrame(71, etherType(0x0800)), pass},
		{"foreign, all else wrong", makeFrame(200, etherType(0x0800), version(0), length(0), gid(0xffff)), pass},

		{"ours of 14 bytes", makeFrame(14), short},
		{"ours of 15 bytes", makeFrame(15), short},
		{"ours of 20 bytes, all fields that are read", makeFrame(20), short},
		{"ours of 60 bytes, the Ethernet minimum", makeFrame(60), short},
		{"ours of 71 bytes", makeFrame(71), short},
		{"short before version", makeFrame(71, version(2)), short},

		{"version 0", makeFrame(200, version(0)), badVersion},
		{"version 2", makeFrame(200, version(2)), badVersion},
		{"version 255", makeFrame(200, version(255)), badVersion},
		{"version before length", makeFrame(200, version(2), length(0)), badVersion},

		{"length 0", makeFrame(200, length(0)), badLength},
		{"length 57", makeFrame(200, length(57)), badLength},
		{"length 57 in the smallest frame", makeFrame(72, length(57)), badLength},
		{"length 58, the rest is padding", makeFrame(200, length(58)), redirected},
		{"length 58 in the smallest frame", makeFrame(72, length(58)), redirected},
		{"length 59 in the smallest frame", makeFrame(72, length(59)), badLength},
		{"length one short of the frame", makeFrame(200, length(185)), redirected},
		{"length exactly the frame", makeFrame(200, length(186)), redirected},
		{"length one beyond the frame", makeFrame(200, length(187)), badLength},
		{"length one beyond the largest", makeFrame(largest, length(uint16(largest-13))), badLength},
		{"length 0xffff", makeFrame(200, length(0xffff)), badLength},
		{"length in the wrong byte order", makeFrame(200, length(0xba00)), badLength},
		{"length before GID", makeFrame(200, length(57), gid(0xffff)), badLength},

		{"GID 2048", makeFrame(200, gid(2048)), badGID},
		{"GID 0xffff", makeFrame(200, gid(0xffff)), badGID},
		{"home group with an upper bit", makeFrame(200, gid(homeGroup|0x8000)), badGID},
		{"home group in the wrong byte order", makeFrame(200, gid(homeGroup<<8)), foreign},

		{"foreign group", makeFrame(200, gid(foreignGroup)), foreign},
		{"group 0, never activated", makeFrame(200, gid(0)), foreign},
		{"group before the greatest", makeFrame(200, gid(2046)), foreign},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := run(n, test.frame, test.want, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// judge states the rule of doc.go a second time, without looking at how the C does it.
func judge(frame []byte, active map[uint16]bool) Counters {
	switch {
	case binary.BigEndian.Uint16(frame[12:]) != 0x88B5:
		return pass
	case len(frame) < 72:
		return short
	case frame[14] != 1:
		return badVersion
	}
	length, gid := int(frame[17])<<8|int(frame[16]), uint16(frame[19])<<8|uint16(frame[18])
	switch {
	case length < 58, 14+length > len(frame):
		return badLength
	case gid>>11 != 0:
		return badGID
	case !active[gid]:
		return foreign
	}
	return redirected
}

// TestRandomFrames: on any bytes the program and the oracle agree. Fields are drawn near their
// edges as often as from everything, or few frames would get past the version.
func TestRandomFrames(t *testing.T) {
	n := loadNIC(t, 1, 0)
	active := map[uint16]bool{homeGroup: true, lastGroup: true}
	seen := map[Counters]int{}
	rapid.Check(t, func(t *rapid.T) {
		for range 100 {
			frame := drawFrame(t)
			want := judge(frame, active)
			seen[want]++
			if err := run(n, frame, want, nil); err != nil {
				t.Fatalf("%v\nframe %x", err, frame)
			}
		}
	})
	for _, outcome := range []Counters{pass, short, badVersion, badLength, badGID, foreign, redirected} {
		if seen[outcome] == 0 {
			t.Errorf("no random frame had the outcome %+v: the generator is too narrow", outcome)
		}
	}
}

func drawFrame(t *rapid.T) []byte {
	size := rapid.OneOf(rapid.IntRange(14, 100), rapid.IntRange(72, 300)).Draw(t, "size")
	frame := make([]byte, max(size, FrameMin))
	seed := rapid.Uint64().Draw(t, "seed") // the bytes of the body: one draw for all keeps the search fast
	for i := range frame {
		seed = seed*6364136223846793005 + 1442695040888963407 // Knuth, MMIX
		frame[i] = byte(seed >> 56)
	}
	sometimes := func(name string, edge *rapid.Generator[uint16], put func(uint16)) {
		if rapid.IntRange(0, 7).Draw(t, name+" from its edges") != 0 {
			put(edge.Draw(t, name))
		}
	}
	sometimes("ethertype", rapid.Just(uint16(EtherType)), func(v uint16) { etherType(v)(frame) })
	sometimes("version", rapid.Just(uint16(Version)), func(v uint16) { version(uint8(v))(frame) })
	sometimes("length", rapid.OneOf(rapid.Uint16Range(56, 60), rapid.Uint16Range(uint16(max(size, 16))-16, uint16(size)-12)),
		func(v uint16) { length(v)(frame) })
	sometimes("gid", rapid.SampledFrom([]uint16{homeGroup, homeGroup, lastGroup, foreignGroup, 0, 2048, 0xffff}),
		func(v uint16) { gid(v)(frame) })
	return frame[:size]
}

// TestGroupSwitch: a group's frames are redirected exactly while the group is active, and no
// other group's frames are moved by the switch.
func TestGroupSwitch(t *testing.T) {
	n := loadNIC(t, 1, 0)
	for _, group := range []uint16{0, 6, 2046} {
		frame, next := makeFrame(100, gid(group)), makeFrame(100, gid(group+1))
		nextWant := judge(next, map[uint16]bool{homeGroup: true, lastGroup: true})
		for _, step := range []struct {
			set, active bool
			want        Counters
		}{
			{false, false, foreign},
			{true, true, redirected},
			{true, true, redirected}, // switching on twice is no count of users
			{true, false, foreign},
			{true, false, foreign},
			{true, true, redirected},
			{true, false, foreign},
		} {
			if step.set {
				if err := n.SetGroup(group, step.active); err != nil {
					t.Fatal(err)
				}
			}
			if err := run(n, frame, step.want, nil); err != nil {
				t.Fatalf("group %d, active %t: %v", group, step.active, err)
			}
			if err := run(n, next, nextWant, nil); err != nil {
				t.Fatalf("group %d beside %d: %v", group+1, group, err)
			}
		}
	}
}

// TestEveryGroup: all 2048 GIDs can be active, each by itself.
func TestEveryGroup(t *testing.T) {
	n := loadNIC(t, 1, 0)
	for group := uint16(0); group < Groups; group++ {
		home := group == homeGroup || group == lastGroup
		if !home {
			if err := run(n, makeFrame(72, gid(group)), foreign, nil); err != nil {
				t.Fatalf("group %d: %v", group, err)
			}
		}
		if err := n.SetGroup(group, true); err != nil {
			t.Fatal(err)
		}
		if err := run(n, makeFrame(72, gid(group)), redirected, nil); err != nil {
			t.Fatalf("group %d: %v", group, err)
		}
	}
}

// TestSocketComesAndGoes: without a socket on the queue a good frame is dropped and counted, never
// passed to the kernel; closing the socket is enough to remove it from the map.
func TestSocketComesAndGoes(t *testing.T) {
	n := loadNIC(t, 1)
	frame := makeFrame(100)
	if err := run(n, frame, noSocket, nil); err != nil {
		t.Error("before there is a socket:", err)
	}
	closeSocket := addSocket(t, n, 0)
	if err := run(n, frame, redirected, nil); err != nil {
		t.Error("with a socket:", err)
	}
	if err := run(n, makeFrame(100, gid(foreignGroup)), foreign, nil); err != nil {
		t.Error("foreign group with a socket:", err)
	}
	closeSocket()
	if err := run(n, frame, noSocket, nil); err != nil {
		t.Error("after the socket is closed:", err)
	}
}

// TestQueues: a frame goes to the socket of its own queue, and a queue without a socket, or
// beyond the map, has no_socket.
func TestQueues(t *testing.T) {
	enterNamespace(t)
	receiver, _ := addVeth(t, 4)
	n := loadNIC(t, 3, 0, 2)
	for queue, want := range []Counters{redirected, noSocket, redirected, noSocket} {
		at := &xdpMD{IngressIfindex: uint32(receiver.Attrs().Index), RxQueueIndex: uint32(queue)}
		if err := run(n, makeFrame(100), want, at); err != nil {
			t.Errorf("queue %d: %v", queue, err)
		}
	}
}

// TestLoadRefusals: a queue count outside of 1..MaxQueues is refused, the edges are taken, and
// the map has the size that was asked for.
func TestLoadRefusals(t *testing.T) {
	for _, queues := range []int{-1, 0, MaxQueues + 1, 1 << 32} {
		n, err := LoadNIC(queues)
		if !errors.Is(err, ErrRange) || n != nil {
			t.Errorf("%d queues: %v, want ErrRange", queues, err)
		}
	}
	for _, queues := range []int{1, 64, MaxQueues} {
		n := loadNIC(t, queues)
		if got := n.Sockets().MaxEntries(); got != uint32(queues) {
			t.Errorf("%d queues: the map has %d", queues, got)
		}
		if err := n.Sockets().Put(uint32(queues), uint32(0)); err == nil {
			t.Errorf("%d queues: the map took an entry for queue %d", queues, queues)
		}
	}
}

// TestSetGroupRefusals: a GID of more than 11 bits is refused and changes nothing.
func TestSetGroupRefusals(t *testing.T) {
	n := loadNIC(t, 1, 0)
	for _, group := range []uint16{Groups, Groups + foreignGroup, 0xffff} {
		for _, active := range []bool{true, false} {
			if err := n.SetGroup(group, active); !errors.Is(err, ErrRange) {
				t.Errorf("group %d: %v, want ErrRange", group, err)
			}
		}
	}
	if err := run(n, makeFrame(100, gid(foreignGroup)), foreign, nil); err != nil {
		t.Error(err)
	}
}

// TestClosed: Close can be repeated, and what comes after it fails with an error, not a panic.
func TestClosed(t *testing.T) {
	n := loadNIC(t, 1)
	for range 2 {
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.SetGroup(1, true); err == nil {
		t.Error("a group was set after Close")
	}
	if _, err := n.Counters(); err == nil {
		t.Error("counters were read after Close")
	}
}

// TestTwoNICs: each load has maps of its own, so that a card never sees another's groups.
func TestTwoNICs(t *testing.T) {
	first, second := loadNIC(t, 1, 0), loadNIC(t, 1, 0)
	if err := first.SetGroup(foreignGroup, true); err != nil {
		t.Fatal(err)
	}
	frame := makeFrame(100, gid(foreignGroup))
	if err := run(first, frame, redirected, nil); err != nil {
		t.Error(err)
	}
	if err := run(second, frame, foreign, nil); err != nil {
		t.Error(err)
	}
	if got := counters(t, second); got != foreign {
		t.Errorf("the second NIC counted %+v", got)
	}
}

// TestWithoutCapabilities: without the right to load programs (capabilities(7), CAP_BPF) the
// error says in one line what to do. A child process gives its capabilities up.
func TestWithoutCapabilities(t *testing.T) {
	const childVariable = "FUNET_BPF_TEST_WITHOUT_CAPABILITIES"
	if os.Getenv(childVariable) == "" {
		child := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), childVariable+"=1")
		output, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(output), "--- PASS: "+t.Name()) {
			t.Fatalf("child: %v\n%s", err, output)
		}
		return
	}
	dropCapabilities(t)
	n, err := LoadNIC(1)
	if n != nil || !errors.Is(err, os.ErrPermission) {
		t.Fatalf("got %v, %v, want os.ErrPermission", n, err)
	}
	for _, part := range []string{"load the NIC program", "root", "CAP_BPF and CAP_NET_ADMIN"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than one line", err)
	}
	t.Log(err)
}

// BenchmarkNIC runs the program in the kernel as often as asked: the time per frame of each way
// through it, without driver and delivery.
func BenchmarkNIC(b *testing.B) {
	for _, way := range []struct {
		name  string
		frame []byte
	}{
		{"pass", makeFrame(100, etherType(0x0800))},
		{"foreign_group", makeFrame(100, gid(foreignGroup))},
		{"redirected", makeFrame(100)},
	} {
		b.Run(way.name, func(b *testing.B) {
			n := loadNIC(b, 1, 0)
			_, perRun, err := n.Program().Benchmark(way.frame, b.N, b.ResetTimer)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(perRun.Nanoseconds()), "ns/frame")
		})
	}
}
