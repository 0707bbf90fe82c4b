package daemon_test

// This file tests that nothing a process does to the memory that it shares with the card
// makes the card's thread wait or die.

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

const (
	huge     = 2 << 20
	collapse = 25 // MADV_COLLAPSE, Linux 6.1
)

// shares returns what a process shares with the card: its context's memory, the doorbells of
// its user, and a segment of two huge pages and a bit, which it makes.
func shares(t *testing.T, k *client) map[string]int {
	t.Helper()
	const size = 2*huge + 4096
	answer, fds := k.ask(attach.SegmentRequest{Base: 4096, Rights: funi.Source | funi.Destination,
		Bytes: size}.Encode(), attach.SegmentDescriptors)
	if _, err := attach.DecodeSegmentAnswer(answer); err != nil {
		t.Fatal(err)
	}
	k.FDs = append(k.FDs, fds...)
	return map[string]int{"context": k.FDs[attach.MemoryDescriptor], "doorbells": k.FDs[attach.DoorbellsDescriptor],
		"segment": fds[0]}
}

// mapAligned maps a file at the start of a huge page, as a process does that wants the memory made
// huge.
func mapAligned(t *testing.T, fd int, size uintptr) unsafe.Pointer {
	t.Helper()
	room, err := unix.MmapPtr(-1, 0, nil, size+huge, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.MunmapPtr(room, size+huge) })
	at, err := unix.MmapPtr(fd, 0, unsafe.Add(room, -uintptr(room)%huge), size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// Rule: nobody can make a hole in what is shared with the card, cut, grow or execute it, or have
// its pages collapsed; and the traffic of others goes on meanwhile (memory.go).
func TestMemoryWithoutHoles(t *testing.T) {
	b := newBed(t)
	d := b.start(0, func(c *daemon.Config) { c.Memory = config.ImmutableMemory })
	_, enemies := group(t, []*running{d}, 0)
	_, victims := group(t, []*running{d}, 0, 0)
	if s := d.status(t); s.Memory != "immutable" || s.MemoryWhy != "" {
		t.Errorf("status says that memory is %q, as %q", s.Memory, s.MemoryWhy)
	}
	for name, fd := range shares(t, enemies[0]) {
		t.Run(name, func(t *testing.T) {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil {
				t.Fatal(err)
			}
			if st.Mode&0o111 != 0 {
				t.Errorf("it can be executed: mode %o", st.Mode)
			}
			if seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil ||
				seals&unix.F_SEAL_EXEC == 0 {
				t.Errorf("seals %#x, %v: it can be made executable", seals, err)
			}
			size := uintptr(st.Size+huge-1) &^ (huge - 1)
			at := mapAligned(t, fd, size)
			bytes := unsafe.Slice((*byte)(at), st.Size)
			for i := range int64(len(bytes)) / 4096 {
				bytes[i*4096+4092]++ // no register nor bell
			}
			const keep = unix.FALLOC_FL_KEEP_SIZE
			pid := unix.Getpid()
			for what, err := range map[string]error{
				"punch":              unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|keep, 0, st.Size),
				"punch a page":       unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|keep, 0, 4096),
				"zero":               unix.Fallocate(fd, unix.FALLOC_FL_ZERO_RANGE|keep, 0, 4096),
				"cut":                unix.Ftruncate(fd, 0),
				"grow":               unix.Ftruncate(fd, st.Size+4096),
				"MADV_REMOVE":        unix.Madvise(bytes, unix.MADV_REMOVE),
				"MADV_COLLAPSE":      unix.Madvise(unsafe.Slice((*byte)(at), size), collapse),
				"seal against write": second(unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)),
				"through /proc":      punchBy(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)),
			} {
				if err == nil {
					t.Errorf("%s: it can be done", what)
				}
			}
			if err := unix.Fstat(fd, &st); err != nil || st.Blocks*512 < st.Size {
				t.Errorf("%d bytes of %d are there, %v", st.Blocks*512, st.Size, err)
			}
			for i := range int64(len(bytes)) / 4096 {
				if bytes[i*4096+4092] == 0 {
					t.Fatalf("page %d is another", i)
				}
			}
			pingPong(t, victims, 50)
		})
	}
}

func second(_ int, err error) error { return err }

// punchBy punches a hole through a path.
func punchBy(path string) error {
	fd, err := unix.Open(path, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096)
}

// Rule: where memory can have holes, who makes them loses his context, and only he: what others
// exchange goes on (watch.go).
func TestHolesEndTheContext(t *testing.T) {
	b := newBed(t)
	d := b.start(0, func(c *daemon.Config) { c.Memory = config.WatchedMemory })
	if s := d.status(t); s.Memory != "watched" || s.MemoryWhy == "" {
		t.Errorf("status says that memory is %q, as %q", s.Memory, s.MemoryWhy)
	}
	_, victims := group(t, []*running{d}, 0, 0)
	for _, name := range []string{"context", "segment"} {
		_, enemies := group(t, []*running{d}, 0)
		fd := shares(t, enemies[0])[name]
		before := d.status(t).MemoryFaults
		var stop atomic.Bool
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for !stop.Load() {
				_ = unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20)
				runtime.Gosched()
			}
		}()
		end := func() { stop.Store(true); <-ended }
		t.Cleanup(end) // before its descriptor is another's
		enemies[0].until("its connection ends", func() bool {
			pingPong(t, victims, 1)
			// the card has no business there: it need not notice, but for its other faults
			if name == "segment" {
				_ = unix.Fallocate(enemies[0].FDs[attach.MemoryDescriptor],
					unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20)
			}
			return d.status(t).MemoryFaults > before
		})
		end()
		pingPong(t, victims, 50)
	}
}

// Rule: a load or store of the card's thread that fails, in a context or a segment, ends the
// context whose memory it is, and neither the daemon nor any other, not even of the same group
// (fault.go).
func TestFaultEndsOneContext(t *testing.T) {
	for _, kind := range []config.MemoryKind{config.ImmutableMemory, config.WatchedMemory} {
		for _, segment := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/segment=%v", kind, segment), func(t *testing.T) {
				b := newBed(t)
				tune := func(c *daemon.Config) { c.Memory = kind }
				daemons := []*running{b.start(0, tune), b.start(1, tune)}
				_, nodes := group(t, daemons, 0, 0, 0, 1)
				_, victims := group(t, daemons, 0, 1)
				torn, peers := nodes[0], []*client{nodes[1], nodes[2]}
				shares(t, torn)
				send := func(from *client, to uint16) { // unless its queue is full
					if s := from.Iface.Reserve(funi.Request); s != nil {
						s.SetHeader(funi.NewHeader(to, 5, 1))
						from.Iface.Commit(funi.Request)
						from.Wake()
					}
				}
				if err := daemons[0].Fault(torn.Answer.GID, 0, segment, false); err != nil {
					t.Fatal(err)
				}
				torn.until("the context ends", func() bool {
					if segment { // its source cannot be read
						if s := torn.Iface.Reserve(funi.Request); s != nil {
							s.SetTransfer(3, 5, funi.Transfer{Source: 4096, Destination: 4096, Words: 4096})
							torn.Iface.Commit(funi.Request)
							torn.Wake()
						}
					} else { // from a context here and from another host
						send(nodes[1], 0)
						send(nodes[3], 0)
					}
					return daemons[0].status(t).MemoryFaults == 1
				})
				torn.until("its connection ends", func() bool { return len(daemons[0].status(t).Contexts) == 3 })
				for i := range uint32(100) {
					peers[0].send(2, i)
					for {
						if from, word := peers[1].receive(); from == 1 && word == i {
							break
						}
					}
					nodes[3].send(2, i)
					for {
						if from, word := peers[1].receive(); from == 3 && word == i {
							break
						}
					}
				}
				pingPong(t, victims, 50)
				if n := daemons[0].status(t).MemoryFaults; n != 1 {
					t.Errorf("%d pieces of memory failed", n)
				}
			})
		}
	}
}

// Rule: a kind of memory that does not work is refused if it is asked for by name: without
// CAP_LINUX_IMMUTABLE there is none without holes, and the status says why.
func TestMemoryNeedsCapability(t *testing.T) {
	b := newBed(t)
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // which ends with its capabilities
		h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&h, &data[0]); err != nil {
			done <- err
			return
		}
		data[0].Effective &^= 1 << unix.CAP_LINUX_IMMUTABLE
		if err := unix.Capset(&h, &data[0]); err != nil {
			done <- err
			return
		}
		c := b.config(0)
		c.Memory = config.ImmutableMemory
		d, err := daemon.Open(c)
		if err == nil {
			err = errors.Join(errors.New("it was opened"), d.Abandon())
		}
		if !errors.Is(err, config.ErrConfig) || !errors.Is(err, unix.EPERM) {
			done <- fmt.Errorf("%v, want ErrConfig and EPERM", err)
			return
		}
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
