package daemon

// This file makes the memory that daemon and process share. The daemon makes, seals and maps it
// before any process has it. No process can use it to make the card's thread wait or die.
//
// The memory is a memfd. Seals keep its size. Its pages are allocated at the start, and mapped and
// locked for the daemon. So on a machine without memory making it fails, and the daemon does not
// die at the first store. Two things would still take pages away from the card's thread:
//   - A hole (fallocate(2), MADV_REMOVE). The thread that touches it waits in the kernel for the
//     process that punches it, however seldom that one runs, and then for a page. So the file is
//     immutable (FS_IMMUTABLE_FL, tmpfs since Linux 6.0). Fallocate is then refused to everybody,
//     also to a process that has the file open for writing, while mapped pages can be written. Only
//     the owner with CAP_LINUX_IMMUTABLE can change the flag. That is the one capability that the
//     daemon keeps.
//   - Small pages made huge (MADV_COLLAPSE, Linux 6.1): 2 MiB are copied, and a thread that touches
//     them waits, up to 16 ms. The kernel leaves pages alone that have holders besides their
//     mappings, so a pipe holds one page of each 2 MiB (vmsplice(2)).
//
// The mapping is locked where RLIMIT_MEMLOCK lets it, so the kernel takes no pages away either.
//
// When the memory's context or segment ends, the daemon removes the flag and the pages, even if
// some process still has the file. So a process cannot keep memory uncounted. A page that it
// touches again is new, and counts as its own, as one of a memfd that it has made itself.
//
// Other kinds were measured on Linux 6.18, with 256 MiB to make, map and fill, in ms, beside
// 170 for the above:
//   - memfd_secret(2), 2080: has no holes. But every process that maps it needs room in its
//     RLIMIT_MEMLOCK, and ordinary users have 8 MiB or less of it. Each page splits the kernel's
//     direct map. And the daemon cannot take it from a process that keeps its descriptor.
//   - A BPF array that can be mapped, 350: has no holes and no faults. But the daemon cannot take
//     it from a process that keeps its descriptor. Without CAP_SYS_ADMIN it cannot even tell
//     whether a process does. So a process could pass its quota by keeping descriptors.
//   - udmabuf: meets every need, but few kernels have /dev/udmabuf, and only root may open it.
//   - A memfd with F_SEAL_FUTURE_WRITE has no holes either, but pages of the doorbells are mapped
//     by processes that come later, and the daemon could not erase it.
//
// Where the kernel or the capability is missing, memory is watched instead: see watch.go.

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/uspace/funi"
)

const (
	// mostRegions is the largest number of regions at a time. Each is a mapping, and the kernel
	// lets a process have 65530 (vm.max_map_count). The Go runtime needs some of them, and ends the
	// process when it gets none. Further regions are refused.
	mostRegions = 1 << 15
	immutable   = 0x10 // FS_IMMUTABLE_FL (linux/fs.h)
	// hugePage is the size of the pages that MADV_COLLAPSE makes, where they are smallest.
	hugePage  = 2 << 20
	pipeHolds = 256 // the largest number of pages that a pipe holds (/proc/sys/fs/pipe-max-size)
)

// memory manages all shared memory of a daemon. Its methods may be called from any goroutine.
type memory struct {
	kind   config.MemoryKind
	why    error // why the kind is not the best; nil: it is
	locked atomic.Bool

	mu  sync.Mutex // its holder never waits
	all map[*region]struct{}
}

// pages returns the bytes that memory of the given size takes and is counted as: whole pages.
func pages(bytes int64) int64 { return (bytes + funi.PageSize - 1) &^ (funi.PageSize - 1) }

type region struct {
	of    *memory
	whose *attachment // nil: it is a page of doorbells
	fd    int
	pipes []int // they hold pages
	bytes []byte
}

// make makes memory of the given size in bytes for an attachment; name is for /proc. It fails if
// the machine has too little memory.
func (m *memory) make(name string, size int64, whose *attachment) (_ *region, err error) {
	r := &region{of: m, whose: whose, fd: -1}
	defer func() {
		if err != nil {
			r.close()
			err = fmt.Errorf("making %d bytes of shared memory: %w", size, err)
		}
	}()
	if size <= 0 || int64(int(size)) != size {
		return nil, errors.New("not a size")
	}
	if r.fd, err = memfd(name); err != nil {
		return nil, err
	}
	if err = unix.Ftruncate(r.fd, size); err != nil {
		return nil, err
	}
	if err = fallocate(r.fd, 0, 0, size); err != nil {
		return nil, err
	}
	if _, err = unix.FcntlInt(uintptr(r.fd), unix.F_ADD_SEALS,
		unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return nil, err
	}
	if m.kind == config.ImmutableMemory {
		if err = r.setFlags(immutable); err != nil {
			return nil, err
		}
	}
	if r.bytes, err = mapMemory(r.fd, int(size), unix.MAP_SHARED); err != nil {
		return nil, err
	}
	locked, err := populate(r.bytes)
	if err != nil {
		return nil, err
	}
	if !locked {
		m.locked.Store(false)
	}
	if err = r.hold(); err != nil {
		return nil, err
	}
	return r, m.enter(r)
}

func (m *memory) enter(r *region) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.all) >= mostRegions {
		return fmt.Errorf("there are %d pieces already: %w", mostRegions, unix.ENOMEM)
	}
	m.all[r] = struct{}{}
	return nil
}

func (m *memory) leave(r *region) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, r)
}

// at returns the region that contains an address, or nil.
func (m *memory) at(address uintptr) *region {
	m.mu.Lock()
	defer m.mu.Unlock()
	for r := range m.all {
		if first := uintptr(unsafe.Pointer(unsafe.SliceData(r.bytes))); address-first < uintptr(len(r.bytes)) {
			return r
		}
	}
	return nil
}

// memfd makes the file. Where the kernel supports that (Linux 6.3) the file can never be executed.
func memfd(name string) (fd int, err error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	if fd, err = unix.MemfdCreate("funet-"+name, flags|unix.MFD_NOEXEC_SEAL); errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate("funet-"+name, flags)
	}
	return fd, err
}

// fallocate is fallocate(2). After a signal of the Go runtime it continues from where it was.
func fallocate(fd int, mode uint32, from, size int64) (err error) {
	for {
		if err = unix.Fallocate(fd, mode, from, size); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// setFlags replaces the file's flags (ioctl_iflags(2)).
func (r *region) setFlags(flags int) error {
	return unix.IoctlSetPointerInt(r.fd, unix.FS_IOC_SETFLAGS, flags)
}

// mapStep is how many bytes are mapped, locked or unmapped at once. Meanwhile the kernel keeps
// every other thread of the daemon from changing its mappings (mmap_lock).
const mapStep = 2 << 20

// mapMemory maps memory of a file, or anonymous memory if fd is -1.
func mapMemory(fd, size, flags int) ([]byte, error) {
	at, err := unix.MmapPtr(fd, 0, nil, uintptr(size), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(at), size), nil
}

// mapPrivate makes memory that only the daemon has, outside of the Go heap. Unmapping it gives it
// back to the machine at once.
func mapPrivate(size int) ([]byte, error) {
	b, err := mapMemory(-1, size, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err == nil {
		if _, err = populate(b); err != nil {
			unmap(b)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("making %d bytes of the card's memory: %w", size, err)
	}
	return b, nil
}

// unmap gives back what mapMemory has mapped.
func unmap(b []byte) {
	for at := 0; at < len(b); at += mapStep {
		_ = unix.MunmapPtr(unsafe.Pointer(&b[at]), uintptr(min(mapStep, len(b)-at)))
	}
}

// populate maps all pages, and locks them if the daemon may (see LockMemory).
func populate(b []byte) (locked bool, err error) {
	locked = true
	for at := 0; at < len(b); at += mapStep {
		some := b[at:min(at+mapStep, len(b))]
		if locked = locked && unix.Mlock(some) == nil; locked {
			continue
		}
		err := unix.Madvise(some, unix.MADV_POPULATE_WRITE)
		if errors.Is(err, unix.EINVAL) { // before Linux 5.14
			for i := 0; i < len(some); i += funi.PageSize {
				some[i] = 0 // nobody else has it yet
			}
			err = nil
		}
		if err != nil {
			return false, err
		}
	}
	return locked, nil
}

// hold keeps the kernel from collapsing the memory into huge pages.
func (r *region) hold() error {
	var some []unix.Iovec
	for at := 0; at < len(r.bytes); at += hugePage {
		v := unix.Iovec{Base: &r.bytes[at]}
		v.SetLen(1)
		if some = append(some, v); len(some) == pipeHolds || at+hugePage >= len(r.bytes) {
			if err := r.holdThese(some); err != nil {
				return fmt.Errorf("holding its pages: %w", err)
			}
			some = some[:0]
		}
	}
	return nil
}

func (r *region) holdThese(these []unix.Iovec) error {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return err
	}
	defer closeFD(pipe[0])
	r.pipes = append(r.pipes, pipe[1])
	if _, err := unix.FcntlInt(uintptr(pipe[1]), unix.F_SETPIPE_SZ, len(these)*funi.PageSize); err != nil {
		return err
	}
	for len(these) > 0 {
		n, err := unix.Vmsplice(pipe[1], these, unix.SPLICE_F_NONBLOCK)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		these = these[max(n, 0):] // each is a byte
	}
	return nil
}

// erase gives the pages from an offset on back to the machine, even if a process still has the
// file. Without it a process could keep memory that is no longer counted. Reads there give 0
// afterwards. The card must not use the memory any more.
func (r *region) erase(from int) {
	if from >= len(r.bytes) {
		return
	}
	r.of.leave(r)
	if r.of.kind == config.ImmutableMemory && r.setFlags(0) != nil {
		return // it was set by the same
	}
	r.release()
	// Further holes hurt nobody, and what they make room for is the process's.
	_ = fallocate(r.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(from), int64(len(r.bytes)-from))
}

// release lets go of the pages that pipes hold.
func (r *region) release() {
	for _, fd := range r.pipes {
		closeFD(fd)
	}
	r.pipes = nil
}

// close gives the memory back. It must no longer be in use. A second call does nothing.
func (r *region) close() {
	r.release()
	if r.bytes != nil {
		r.of.leave(r)
		unmap(r.bytes)
		r.bytes = nil
	}
	closeFD(r.fd)
	r.fd = -1
}

// newMemory chooses the kind of memory. A kind that is asked for and does not work is an error;
// with AnyMemory it takes the best that works.
func newMemory(kind config.MemoryKind) (*memory, error) {
	m := &memory{kind: config.ImmutableMemory, all: map[*region]struct{}{}}
	m.locked.Store(true)
	if kind == config.WatchedMemory {
		m.kind, m.why = kind, errors.New("the configuration says so")
		return m, nil
	}
	r, err := m.make("try", funi.PageSize, nil)
	switch {
	case err == nil:
		r.close()
		return m, nil
	case errors.Is(err, unix.EPERM):
		err = fmt.Errorf("%w; funid needs CAP_LINUX_IMMUTABLE for memory without holes", err)
	default:
		err = fmt.Errorf("%w; memory without holes needs Linux 6.0", err)
	}
	if kind == config.ImmutableMemory {
		return nil, fmt.Errorf("%w: %w", err, config.ErrConfig)
	}
	m.kind, m.why = config.WatchedMemory, err
	return m, nil
}

// LockMemory locks all memory of the process, now and later, so the card's thread never waits for a
// page that was taken away. It needs an RLIMIT_MEMLOCK without limit: with a limit the Go runtime
// might one day get no memory.
func LockMemory() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return fmt.Errorf("reading how much memory may be locked: %w", err)
	}
	if limit.Cur != unix.RLIM_INFINITY {
		return fmt.Errorf("locking memory: RLIMIT_MEMLOCK is %d bytes; start funid with `ulimit -l unlimited` or LimitMEMLOCK=infinity", limit.Cur)
	}
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		return fmt.Errorf("locking memory: %w", err)
	}
	return nil
}

// MemoryNotes returns lines for the log: the kind of memory that the daemon shares, and the memory
// that it could not lock, as LockMemory has reported.
func (d *Daemon) MemoryNotes(unlocked error) []string {
	kind := "shared memory is " + d.memory.kind.String()
	if d.memory.why != nil {
		kind += ", as " + d.memory.why.Error()
	}
	if unlocked == nil {
		return []string{kind + ", and locked"}
	}
	return []string{kind, unlocked.Error() + "; the card may have to wait for memory"}
}
