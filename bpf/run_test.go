// This file is how the tests show a frame to the NIC program: frames with chosen faults, sockets,
// and one run in the kernel (BPF_PROG_TEST_RUN, kernel Documentation/bpf/bpf_prog_run.rst).

package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
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
	merged     = Counters{Merged: 1}
	foreign    = Counters{ForeignGroup: 1}
	noSocket   = Counters{NoSocket: 1}
	redirected = Counters{Redirected: 1}
)

// verdicts gives the return value that belongs to each outcome.
var verdicts = map[Counters]uint32{
	pass: xdpPass, short: xdpDrop, badVersion: xdpDrop, badLength: xdpDrop,
	badGID: xdpDrop, merged: xdpDrop, foreign: xdpDrop, noSocket: xdpDrop, redirected: xdpRedirect,
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

// behind sets the byte that follows a frame of a length, where what the kernel merged has the
// version of the next one.
func behind(length int, v uint8) func([]byte) {
	return func(f []byte) { f[offsetVersion+length] = v }
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
	return load(t, Load{Queues: queues}, sockets...)
}

// loadFrags is loadNIC for frames of several buffers.
func loadFrags(t testing.TB, queues int, sockets ...uint32) *NIC {
	t.Helper()
	return load(t, Load{Queues: queues, Frags: true}, sockets...)
}

func load(t testing.TB, l Load, sockets ...uint32) *NIC {
	t.Helper()
	n, err := LoadNIC(l)
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

// run shows one frame to the program, and compares all that the program can do: the verdict, the
// counters, and the frame, which it must not change. The frame comes on the queue of at. Without at
// it comes on queue 0 of the loopback interface (the kernel's default). The frame's first
// buffer has at.DataEnd bytes, if that is not zero.
func run(n *NIC, frame []byte, want Counters, at *xdpMD) error {
	return runTo(n, frame, want, verdicts[want], at)
}

// runUDP is run for the program for datagrams, which leaves to the kernel what is no frame of
// FUNet.
func runUDP(n *NIC, frame []byte, want Counters) error {
	verdict := verdicts[want]
	switch want {
	case short, badVersion, badLength, badGID:
		verdict = xdpPass
	}
	return runTo(n, frame, want, verdict, nil)
}

func runTo(n *NIC, frame []byte, want Counters, wanted uint32, at *xdpMD) error {
	options := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64)}
	if at != nil {
		if at.DataEnd == 0 {
			at.DataEnd = uint32(len(frame))
		}
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
	if verdict != wanted {
		return fmt.Errorf("verdict %d, want %d", verdict, wanted)
	}
	if !bytes.Equal(options.DataOut, frame) {
		return fmt.Errorf("the program changed the frame from\n%x to\n%x", frame, options.DataOut)
	}
	return nil
}
