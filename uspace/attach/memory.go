package attach

// This file has the memory that daemon and process share: files without a name. Once they are
// sealed no process can shrink or grow them, so neither side can take memory from the other. The
// daemon also prevents holes in it (ctl/daemon, memory.go).

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrMemory reports that the daemon passed something other than sealed memory of the right size.
var ErrMemory = errors.New("attach: the daemon passed other memory than it announced; run the same version of FUNet on both sides")

// seals are the seals of all shared memory.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// MapMemory maps the memory, which must have the given size in bytes and be sealed (ErrMemory), so
// that no access can fail. Unmap ends the mapping. The descriptor is not needed afterwards.
func MapMemory(fd int, bytes uint64) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("looking at shared memory: %w", err)
	}
	// What is no memory has no seals.
	if has, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || has&seals != seals ||
		bytes > math.MaxInt64 || st.Size != int64(bytes) {
		return nil, fmt.Errorf("looking at shared memory of %d bytes with seals %#x that should have %d: %w", st.Size,
			has, bytes, ErrMemory)
	}
	// Not Mmap, which keeps account of what is mapped where: Client.Move puts one mapping in the
	// place of another.
	p, err := unix.MmapPtr(fd, 0, nil, uintptr(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes of shared memory: %w", bytes, err)
	}
	return unsafe.Slice((*byte)(p), int(bytes)), nil
}

// Unmap ends a mapping of MapMemory. With nil it does nothing.
func Unmap(b []byte) {
	if len(b) > 0 {
		_ = unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)))
	}
}
