package daemon

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Fault puts memory without pages where the daemon has that of the node's context, or of one
// of its segments: the next load or store there is a SIGBUS, as of a hole where the machine promises
// no more memory.
func (d *Daemon) Fault(gid, node uint16, segment bool) error {
	fd, err := unix.MemfdCreate("empty", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var failed error
	err = d.loop.do(func() {
		for r := range d.memory.pieces() {
			if a := r.whose; a != nil && a.job.gid == gid && a.node == node && (r != a.memory) == segment {
				_, failed = unix.MmapPtr(fd, 0, unsafe.Pointer(unsafe.SliceData(r.bytes)), uintptr(len(r.bytes)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
			}
		}
	})
	if err == nil {
		err = failed
	}
	return err
}

// pieces returns all memory.
func (m *memory) pieces() map[*region]struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[*region]struct{}{}
	for r := range m.all {
		all[r] = struct{}{}
	}
	return all
}

// MinorFaults returns how many the card's thread has taken.
func (d *Daemon) MinorFaults() int64 { return minorFaults(int(d.loop.tid.Load())) }
