package daemon

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Fault puts memory without pages where the daemon has that of the node's context, or of one of its
// segments: the next load or store there is a SIGBUS, as of a hole where the machine promises no
// more memory. Of memory that is hidden the daemon does not know whose it is, so that the SIGBUS is
// a panic like any other.
func (d *Daemon) Fault(gid, node uint16, segment, hidden bool) error {
	fd, err := unix.MemfdCreate("empty", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var failed error
	err = d.loop.do(func() {
		for r := range d.memory.pieces() {
			if a := r.whose; a != nil && a.job.gid == gid && a.node == node && (r != a.memory) == segment {
				_, failed = unix.MmapPtr(fd, 0, unsafe.Pointer(unsafe.SliceData(r.bytes)), uintptr(len(r.bytes)),
					unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
				if hidden {
					d.memory.leave(r)
				}
			}
		}
	})
	if err == nil {
		err = failed
	}
	return err
}

// attachmentOf returns a node's.
func (d *Daemon) attachmentOf(gid, node uint16) (a *attachment) {
	_ = d.loop.do(func() { a = d.loop.byPlace[place{gid, node}] })
	return a
}

// PanicOnCard has a command of the node's connection panic on the card's thread, and returns its
// error.
func (d *Daemon) PanicOnCard(gid, node uint16) error {
	a := d.attachmentOf(gid, node)
	return a.conn.onCard(a, func() { panic("injected") })
}

// PanicInNextSegment has the next request of the node's connection for a segment panic.
func (d *Daemon) PanicInNextSegment(gid, node uint16) {
	c := d.attachmentOf(gid, node).conn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attachment.segments = nil
}

// FreezeMemory has the daemon's stores to the memory of the node's context fail, as those to memory
// that has taken the place of what failed do.
func (d *Daemon) FreezeMemory(gid, node uint16) error {
	return unix.Mprotect(d.attachmentOf(gid, node).memory.bytes, unix.PROT_READ)
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

// Notice is what a daemon tells another, whatever that is.
type Notice struct {
	Kind      uint16
	GID, Node uint16
	Tag       uint64
	Life      uint32
	Order     uint64
}

// Send sends a notice to the daemon of a card.
func (d *Daemon) Send(card uint16, n Notice) {
	_ = d.loop.do(func() {
		d.loop.send(&notice{noticeKind(n.Kind), n.GID, n.Node, n.Tag, n.Life, n.Order}, []uint16{card})
	})
}

// LifeOf returns the life of a node of this host with a direct port, and the tag of its job.
func (d *Daemon) LifeOf(gid, node uint16) (life uint32, tag uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.jobs[gid].lives[node], d.jobs[gid].tag
}

// Departing reports whether the group counts as here only because its job has just ended.
func (d *Daemon) Departing(gid uint16) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.departing[gid] != nil
}

// Waiting returns how many jobs are being made.
func (d *Daemon) Waiting() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, j := range d.jobs {
		if !j.made {
			n++
		}
	}
	return n
}
