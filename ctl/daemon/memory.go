package daemon

// This file is memory that daemon and process share: made, sealed and mapped by the
// daemon, before any process has it. It cannot shrink under the card, nor grow; its pages are there
// from the beginning, so that a machine without memory refuses it instead of ending the
// daemon at the first store.

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// region is a piece of such memory.
type region struct {
	fd    int // -1: passed on and closed
	bytes []byte
}

// newRegion makes memory of so many bytes; name is for /proc. What the machine has no
// memory for is an error.
func newRegion(name string, size int64) (_ *region, err error) {
	r := &region{fd: -1}
	defer func() {
		if err != nil {
			r.close()
			err = fmt.Errorf("making %d bytes of shared memory: %w", size, err)
		}
	}()
	if size <= 0 || int64(int(size)) != size {
		return nil, errors.New("not a size")
	}
	if r.fd, err = unix.MemfdCreate("funet-"+name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return nil, err
	}
	if err = unix.Ftruncate(r.fd, size); err != nil {
		return nil, err
	}
	for {
		// Large ones are interrupted by the signals of the Go runtime, and go on where they were.
		if err = unix.Fallocate(r.fd, 0, 0, size); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if _, err = unix.FcntlInt(uintptr(r.fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return nil, err
	}
	r.bytes, err = unix.Mmap(r.fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return r, err
}

// passed closes the descriptor: the process has its own, and the mapping stays.
func (r *region) passed() {
	if r.fd >= 0 {
		_ = unix.Close(r.fd)
		r.fd = -1
	}
}

// erase gives the pages from an offset on back to the machine, whoever still has the
// file: without it a process could keep memory that is counted no more. What is read there
// afterwards is 0.
func (r *region) erase(from int) {
	if from < len(r.bytes) {
		_ = unix.Madvise(r.bytes[from:], unix.MADV_REMOVE)
	}
}

// close gives the memory back. Nobody may use it any more. Closing twice does nothing.
func (r *region) close() {
	r.passed()
	if r.bytes != nil {
		_ = unix.Munmap(r.bytes)
		r.bytes = nil
	}
}
