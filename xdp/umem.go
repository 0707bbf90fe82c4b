// This file has the UMEM: one anonymous mapping cut into frames of equal size. The kernel pins it,
// and every ring refers to it by byte offset ("address").

package xdp

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// kernelHeadroom is how much the kernel keeps free in front of every received
	// frame for XDP programs (XDP_PACKET_HEADROOM, include/uapi/linux/bpf.h).
	kernelHeadroom = unix.XDP_PACKET_HEADROOM
	hugePageSize   = 2 << 20
	hugePage2MB    = 21 << 26 // MAP_HUGE_2MB: log2(2 MiB) << MAP_HUGE_SHIFT
	maxFrameCount  = 1 << 24  // bounds a UMEM to 64 GiB of 4096-byte frames
)

// UMEMConfig says how a UMEM is cut.
type UMEMConfig struct {
	// FrameSize in bytes: 2048 or 4096, 0 means 4096. A received frame has
	// FrameSize - 256 - Headroom bytes of room, a sent one FrameSize.
	FrameSize  uint32
	FrameCount uint32 // the number of frames, 1 to 2^24
	// Headroom in bytes is left free in front of a received frame, in addition
	// to the kernel's 256. Less than FrameSize - 256.
	Headroom uint32
	// Unaligned lets received frames begin at any address that is given to the fill ring
	// (XDP_UMEM_UNALIGNED_CHUNK_FLAG, Linux 5.4), and lets sent frames cross the ends of UMEM
	// frames. A received frame still has the room of a UMEM frame, from 256 + Headroom bytes behind
	// that address on. The kernel's copy mode writes nothing else. So if addresses are given RxRoom
	// apart, the rooms follow without a gap, and a packet of several descriptors lies in one piece.
	// A UMEM for zero-copy has no use for that: NICs write into whole UMEM frames.
	Unaligned bool
	HugePages bool // takes 2 MiB pages, which must be free (nr_hugepages)
	// File, if not nil, is the memory, from its start, such as a memfd of another process
	// (Handover). It stays the caller's, and may be closed after NewUMEM. It must be as long as the
	// UMEM and remain so: its maker seals it (F_SEAL_SHRINK). HugePages must not be set: a file has
	// its own pages.
	File *os.File
}

// UMEM is the memory that sockets and kernel share. Any goroutine may call its methods. The rings
// decide which side may touch a frame's bytes.
type UMEM struct {
	mem     []byte // exactly FrameSize*FrameCount bytes of mapping
	mapping []byte // what mmap returned
	config  UMEMConfig
	mask    uint64 // FrameSize - 1
	users   atomic.Int32
}

// NewUMEM maps and touches the memory (MAP_POPULATE), so that no page fault happens later. Open
// registers it with the kernel. Errors: ErrConfig, ErrNoHugePages.
func NewUMEM(c UMEMConfig) (*UMEM, error) {
	if c.FrameSize == 0 {
		c.FrameSize = 4096
	}
	const doing = "map UMEM"
	if c.FrameSize != 2048 && c.FrameSize != 4096 {
		return nil, refuse(doing, "frame size %d; use 2048 or 4096", c.FrameSize)
	}
	if int(c.FrameSize) > os.Getpagesize() {
		return nil, refuse(doing, "frame size %d is above the page size; use %d", c.FrameSize, os.Getpagesize())
	}
	if c.FrameCount == 0 || c.FrameCount > maxFrameCount {
		return nil, refuse(doing, "frame count %d; use 1 to %d", c.FrameCount, maxFrameCount)
	}
	if c.Headroom >= c.FrameSize-kernelHeadroom {
		return nil, refuse(doing, "headroom %d; use less than frame size - %d = %d", c.Headroom, kernelHeadroom,
			c.FrameSize-kernelHeadroom)
	}

	size := int(c.FrameSize) * int(c.FrameCount)
	length, flags := size, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE
	if c.HugePages {
		length = (size + hugePageSize - 1) &^ (hugePageSize - 1)
		flags |= unix.MAP_HUGETLB | hugePage2MB
	}
	fd := -1
	if c.File != nil {
		if c.HugePages {
			return nil, refuse(doing, "a file and huge pages; leave HugePages out")
		}
		raw, err := c.File.SyscallConn()
		if err == nil {
			err = raw.Control(func(n uintptr) { fd, err = unix.FcntlInt(n, unix.F_DUPFD_CLOEXEC, 0) })
		}
		if err != nil {
			return nil, fmt.Errorf("%s: of %s: %w", doing, c.File.Name(), err)
		}
		defer unix.Close(fd)
		var of unix.Stat_t
		if err := unix.Fstat(fd, &of); err != nil || of.Size < int64(length) {
			return nil, refuse(doing, "a file of %d bytes for %d (%v); make it longer", of.Size, length, err)
		}
		flags = unix.MAP_SHARED | unix.MAP_POPULATE
		c.File = nil // the mapping holds it
	}
	mapping, err := unix.Mmap(fd, 0, length, unix.PROT_READ|unix.PROT_WRITE, flags)
	switch {
	case err != nil && c.HugePages && (errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EINVAL)):
		return nil, fault(doing, ErrNoHugePages, err,
			fmt.Sprintf("write at least %d to /proc/sys/vm/nr_hugepages, or do without huge pages",
				length/hugePageSize))
	case err != nil:
		return nil, fmt.Errorf("%s: %d bytes: %w; use fewer frames", doing, length, err)
	}
	if err := keepFromChildren(mapping); err != nil {
		_ = unix.Munmap(mapping)
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return &UMEM{mem: mapping[:size:size], mapping: mapping, config: c, mask: uint64(c.FrameSize) - 1}, nil
}

// keepFromChildren leaves a mapping out of processes that this one forks (madvise(2),
// MADV_DONTFORK). Otherwise they would have the same rings. Before Linux 5.9 a fork would also make
// this process's next store to a private UMEM go to a copy of the page, which the kernel does not
// know. A child that touches the mapping gets a SIGSEGV.
func keepFromChildren(mapping []byte) error {
	if err := unix.Madvise(mapping, unix.MADV_DONTFORK); err != nil {
		return fmt.Errorf("keep a mapping from children: %w", err)
	}
	return nil
}

// If the UMEM is Unaligned, the lower bits of an address say where the frame begins, and those from
// unalignedShift on where in the frame the data does (XSK_UNALIGNED_BUF_OFFSET_SHIFT,
// include/uapi/linux/if_xdp.h).
const (
	unalignedShift = 48
	unalignedAddr  = 1<<unalignedShift - 1
)

// Start returns where in the UMEM the bytes of a descriptor begin. It is not checked.
func (u *UMEM) Start(addr uint64) uint64 {
	if u.config.Unaligned {
		return addr&unalignedAddr + addr>>unalignedShift
	}
	return addr
}

// Data returns the view of a descriptor's bytes, or nil when they do not lie within one frame of
// the UMEM. In an Unaligned UMEM it is nil when they are more than a frame has or lie outside the
// UMEM. The check is needed because a descriptor comes out of shared memory. Data also returns nil
// when the UMEM is closed. An empty descriptor gives an empty view that is not nil.
func (u *UMEM) Data(d Desc) []byte {
	start, room := d.Addr, u.mask+1-d.Addr&u.mask
	if u.config.Unaligned {
		start, room = u.Start(d.Addr), u.mask+1
	}
	if uint64(d.Len) > room {
		return nil
	}
	return u.Span(start, int(d.Len))
}

// Span returns the view of n bytes from addr on, over the ends of frames, or nil when they do not
// lie in the UMEM. It is for a packet that is composed in several frames in a row. A descriptor
// still describes what lies in one frame.
func (u *UMEM) Span(addr uint64, n int) []byte {
	if n < 0 || addr >= uint64(len(u.mem)) || uint64(n) > uint64(len(u.mem))-addr {
		return nil
	}
	end := addr + uint64(n)
	return u.mem[addr:end:end]
}

// Addr returns the address of frame i, counted from 0. It is not checked.
func (u *UMEM) Addr(i uint32) uint64 { return uint64(i) * (u.mask + 1) }

// Config returns the configuration in use, defaults filled in.
func (u *UMEM) Config() UMEMConfig { return u.config }

// RxRoom returns the largest frame in bytes that can be received into one UMEM frame.
func (u *UMEM) RxRoom() int { return int(u.config.FrameSize - kernelHeadroom - u.config.Headroom) }

// Close unmaps the memory; views of it must not be used any more. It fails with
// ErrInUse while a socket is open, and does nothing the second time. It must not
// run at the same time as Open or Data.
func (u *UMEM) Close() error {
	if u.mapping == nil {
		return nil
	}
	if n := u.users.Load(); n > 0 {
		return fmt.Errorf("close UMEM: %w by %d sockets; close them first", ErrInUse, n)
	}
	mapping := u.mapping
	u.mem, u.mapping = nil, nil
	if err := unix.Munmap(mapping); err != nil {
		return fmt.Errorf("close UMEM: unmap: %w", err)
	}
	return nil
}

// register hands the memory to the kernel through the socket fd, which pins it. again says that a
// socket with this memory was just closed. The kernel counts that one's memory until a worker has
// run (xdp_put_umem), so the limit may seem to be reached until then.
func (u *UMEM) register(fd int, deadline time.Time, again bool) error {
	reg := unix.XDPUmemReg{
		Addr:     uint64(uintptr(unsafe.Pointer(unsafe.SliceData(u.mem)))),
		Len:      uint64(len(u.mem)),
		Size:     u.config.FrameSize,
		Headroom: u.config.Headroom,
	}
	if u.config.Unaligned {
		reg.Flags = unix.XDP_UMEM_UNALIGNED_CHUNK_FLAG
	}
	once := func() error {
		return setsockopt(fd, unix.SOL_XDP, unix.XDP_UMEM_REG, unsafe.Pointer(&reg), unsafe.Sizeof(reg))
	}
	if !again {
		return once()
	}
	return patiently(deadline, unix.ENOBUFS, once)
}
