// This file attaches the NIC program to an interface and sends it real frames: what the program
// redirects arrives in a bound AF_XDP socket, what it passes arrives in the kernel's stack, and
// what it drops arrives in neither. The socket is the least that the kernel accepts
// (Documentation/networking/af_xdp.rst).

package bpf

import (
	"bytes"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	patience   = 20 * time.Second // far more than any of the waits takes
	frameSize  = 2048
	frameCount = 16 // also the size of each ring, which must be a power of two
)

// receiveSocket is an AF_XDP socket in copy mode with all of its memory given to the kernel once.
// It takes at most frameCount frames in its life; further ones the kernel drops.
type receiveSocket struct {
	fd       int
	umem     []byte
	ring     []byte
	offsets  unix.XDPRingOffset
	consumed uint32
}

func openReceiveSocket(t *testing.T, interfaceIndex int) *receiveSocket {
	t.Helper()
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal("open an AF_XDP socket:", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	s := &receiveSocket{fd: fd, umem: mapMemory(t, -1, 0, frameSize*frameCount, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)}

	registration := unix.XDPUmemReg{
		Addr: uint64(uintptr(unsafe.Pointer(&s.umem[0]))), Len: uint64(len(s.umem)), Size: frameSize,
	}
	setOption(t, fd, unix.XDP_UMEM_REG, unsafe.Pointer(&registration), unsafe.Sizeof(registration))
	entries := uint32(frameCount)
	for _, ring := range []int{unix.XDP_UMEM_FILL_RING, unix.XDP_UMEM_COMPLETION_RING, unix.XDP_RX_RING} {
		setOption(t, fd, ring, unsafe.Pointer(&entries), unsafe.Sizeof(entries))
	}
	var offsets unix.XDPMmapOffsets
	size := uint32(unsafe.Sizeof(offsets))
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS,
		uintptr(unsafe.Pointer(&offsets)), uintptr(unsafe.Pointer(&size)), 0); errno != 0 {
		t.Fatal("read the ring offsets:", errno)
	}

	fill := mapMemory(t, fd, unix.XDP_UMEM_PGOFF_FILL_RING, int(offsets.Fr.Desc)+8*frameCount, unix.MAP_SHARED)
	for i := range frameCount {
		*(*uint64)(unsafe.Pointer(&fill[int(offsets.Fr.Desc)+8*i])) = uint64(i * frameSize)
	}
	// Release: the kernel reads the addresses only after it has seen this index.
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&fill[offsets.Fr.Producer])), frameCount)

	s.offsets = offsets.Rx
	s.ring = mapMemory(t, fd, unix.XDP_PGOFF_RX_RING,
		int(offsets.Rx.Desc)+frameCount*int(unsafe.Sizeof(unix.XDPDesc{})), unix.MAP_SHARED)
	address := &unix.SockaddrXDP{Flags: unix.XDP_COPY, Ifindex: uint32(interfaceIndex), QueueID: 0}
	if err := unix.Bind(fd, address); err != nil {
		t.Fatal("bind the AF_XDP socket:", err)
	}
	return s
}

func setOption(t *testing.T, fd, option int, value unsafe.Pointer, size uintptr) {
	t.Helper()
	if _, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option),
		uintptr(value), size, 0); errno != 0 {
		t.Fatalf("set AF_XDP option %d: %v", option, errno)
	}
}

func mapMemory(t *testing.T, fd int, offset int64, size, flags int) []byte {
	t.Helper()
	memory, err := unix.Mmap(fd, offset, size, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal("map memory:", err)
	}
	t.Cleanup(func() { unix.Munmap(memory) })
	return memory
}

// take returns the frames that have arrived since the last take.
func (s *receiveSocket) take() [][]byte {
	// Acquire: the descriptors up to this index and their frames are complete.
	produced := atomic.LoadUint32((*uint32)(unsafe.Pointer(&s.ring[s.offsets.Producer])))
	var frames [][]byte
	for ; s.consumed != produced; s.consumed++ {
		at := uintptr(s.offsets.Desc) + uintptr(s.consumed%frameCount)*unsafe.Sizeof(unix.XDPDesc{})
		d := (*unix.XDPDesc)(unsafe.Pointer(&s.ring[at]))
		frames = append(frames, bytes.Clone(s.umem[d.Addr:d.Addr+uint64(d.Len)]))
	}
	return frames
}

// openPacketSocket opens an AF_PACKET socket bound to the interface that hears the given
// protocol; 0 hears nothing (packet(7)).
func openPacketSocket(t *testing.T, interfaceIndex int, protocol uint16) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal("open a packet socket:", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	address := &unix.SockaddrLinklayer{Ifindex: interfaceIndex, Protocol: protocol<<8 | protocol>>8}
	if err := unix.Bind(fd, address); err != nil {
		t.Fatal("bind the packet socket:", err)
	}
	return fd
}

func send(t *testing.T, fd int, frame []byte) {
	t.Helper()
	if _, err := unix.Write(fd, frame); err != nil {
		t.Fatalf("send a frame of %d bytes: %v", len(frame), err)
	}
}

// drain returns what a packet socket has heard.
func drain(fd int) (frames [][]byte) {
	buffer := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, buffer)
		if err != nil {
			return frames
		}
		frames = append(frames, bytes.Clone(buffer[:n]))
	}
}

// await repeats the check until it holds or patience ends; it returns whether it held.
func await(check func() bool) bool {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); runtime.Gosched() {
		if check() {
			return true
		}
	}
	return false
}

// TestOnTheWire: in both attach modes, with real frames, only good frames of an active group
// reach the socket, byte for byte, only foreign EtherTypes reach the kernel, and every frame is
// in one counter.
func TestOnTheWire(t *testing.T) {
	for mode, flags := range map[string]link.XDPAttachFlags{
		"generic": link.XDPGenericMode, "native": link.XDPDriverMode,
	} {
		t.Run(mode, func(t *testing.T) {
			enterNamespace(t)
			receiver, sender := addVeth(t, 1)
			n := loadNIC(t, 1)
			attach(t, n, receiver, flags)
			socket := openReceiveSocket(t, receiver.Attrs().Index)
			if err := n.Sockets().Put(uint32(0), uint32(socket.fd)); err != nil {
				t.Fatal(err)
			}
			kernel := openPacketSocket(t, receiver.Attrs().Index, unix.ETH_P_ALL)
			wire := openPacketSocket(t, sender.Attrs().Index, 0)

			good := [][]byte{
				makeFrame(80), makeFrame(100, length(66)), makeFrame(1514), makeFrame(200, gid(lastGroup)),
			}
			passed := [][]byte{
				makeFrame(60, etherType(0x88B6)), tagged(makeFrame(100)), makeFrame(1514, etherType(0x88B6)),
			}
			dropped := [][]byte{
				makeFrame(79), makeFrame(100, version(1)), makeFrame(100, length(87)), makeFrame(100, length(65)),
				makeFrame(100, gid(2048)), makeFrame(100, gid(foreignGroup)),
			}
			for i := range dropped {
				send(t, wire, dropped[i])
				if i < len(good) {
					send(t, wire, good[i])
				}
				if i < len(passed) {
					send(t, wire, passed[i])
				}
			}

			want := Counters{
				Pass: 3, Short: 1, BadVersion: 1, BadLength: 2, BadGID: 1, ForeignGroup: 1, Redirected: 4,
			}
			if !await(func() bool { return counters(t, n) == want }) {
				t.Fatalf("counters (-want +got):\n%s", cmp.Diff(want, counters(t, n)))
			}
			var arrived, heard [][]byte
			if !await(func() bool { arrived = append(arrived, socket.take()...); return len(arrived) >= len(good) }) {
				t.Fatalf("%d frames arrived in the AF_XDP socket, want %d", len(arrived), len(good))
			}
			if !await(func() bool { heard = append(heard, drain(kernel)...); return len(heard) >= len(passed) }) {
				t.Fatalf("%d frames arrived in the kernel, want %d", len(heard), len(passed))
			}
			if diff := cmp.Diff(good, arrived); diff != "" {
				t.Errorf("AF_XDP socket (-sent +arrived):\n%s", diff)
			}
			// The kernel takes the tag of a VLAN frame out of the bytes that a packet
			// socket sees (packet(7), PACKET_AUXDATA).
			passed[1] = makeFrame(100)
			if diff := cmp.Diff(passed, heard); diff != "" {
				t.Errorf("kernel (-sent +arrived):\n%s", diff)
			}
		})
	}
}

func attach(t *testing.T, n *NIC, to netlink.Link, flags link.XDPAttachFlags) {
	t.Helper()
	attached, err := link.AttachXDP(link.XDPOptions{
		Program: n.Program(), Interface: to.Attrs().Index, Flags: flags,
	})
	if err != nil {
		t.Fatal("attach the NIC program:", err)
	}
	t.Cleanup(func() {
		if err := attached.Close(); err != nil {
			t.Error("detach the NIC program:", err)
		}
	})
}
