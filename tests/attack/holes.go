package attack

// This file takes memory away from the card. It punches holes into all memory that the process
// shares with the card, so each of the card's accesses is a page fault. It also punches from
// threads that the kernel runs last. The fault must then wait for a hole whose thread does not run.

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

func holes() Attack {
	return Attack{
		Name: "holes", Does: "punching holes into all memory that is shared with the card, beside transfers",
		Groups: 1, Contexts: 8, slots: 1024, segment: 2 * blockBytes,
		round: func(p *player) int {
			p.touch()
			return p.punch()
		},
	}
}

const (
	// idleContexts is the number of contexts: so few that the card looks at each in every step.
	idleContexts = 4
	// idlers is the number of threads that punch.
	idlers = 2
	// pageBytes is the length of the transfers beside holes.
	pageBytes = 4096
)

func holesFromIdle() Attack {
	return Attack{
		Name: "holes_idle", Does: "the same from SCHED_IDLE threads, beside a busy one that keeps them from running",
		Groups: 1, Contexts: idleContexts, slots: 1 << 13, Idle: idlers,
		begin: (*player).punchIdly,
		round: (*player).compute,
	}
}

// compute publishes the files to punch, and then keeps the processor busy. It touches no shared
// memory, as it would have to wait for it as the card does.
func (p *player) compute() (none int) {
	var fds []int
	for _, s := range p.seats {
		fds = append(fds, s.files()...)
	}
	p.published.Store(&fds)
	for begin := time.Now(); time.Since(begin) < lookEvery/2; {
	}
	return 0
}

// mapped returns the memory that only this context shares with the card, as mappings.
func (s *seat) mapped() [][]byte {
	if s.k == nil {
		return nil
	}
	return append([][]byte{s.k.Maps[0]}, s.k.Maps[2:]...)
}

// files returns the descriptors of the same memory.
func (s *seat) files() []int {
	if s.k == nil {
		return nil
	}
	return append([]int{s.k.FDs[attach.MemoryDescriptor]}, s.k.FDs[attach.AttachDescriptors:]...)
}

// touch makes the card use the memory, but little of it, since floods are other attacks. Each
// context sends a message and a transfer to its twin on the other host. It sends no more until the
// card has taken these.
func (p *player) touch() {
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		s.receive(funi.Request, 64)
		if s.k.Iface.Unsent(funi.Request) == 0 {
			s.send(funi.Request, p.twin(s), 1)
			s.transfer(p.twin(s), pageBytes, 1)
		}
	}
}

// punch tries to make a hole of the whole of each file, in one of two ways.
func (p *player) punch() (tries int) {
	for _, s := range p.seats {
		for i, fd := range s.files() {
			m := s.mapped()[i]
			if unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, int64(len(m))) != nil {
				_ = unix.Madvise(m, unix.MADV_REMOVE)
			}
			tries++
		}
	}
	return tries
}

// punchIdly starts the threads that the kernel runs last. They punch the files that compute
// published last.
func (p *player) punchIdly() error {
	failed := make(chan error, p.Idle)
	for range p.Idle {
		go func() {
			runtime.LockOSThread()
			err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
			if failed <- err; err != nil {
				return
			}
			for {
				p.punchFiles()
			}
		}()
	}
	for range p.Idle {
		if err := <-failed; err != nil {
			return fmt.Errorf("asking for SCHED_IDLE: %w", err)
		}
	}
	return nil
}

// punchFiles tries to make a hole of the whole of each published file. A file may be closed
// meanwhile, and its number then belong to another file, even of the process itself.
func (p *player) punchFiles() {
	fds := p.published.Load()
	if fds == nil {
		return
	}
	for _, fd := range *fds {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil {
			_ = unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, st.Size)
			p.did.Add(1)
		}
	}
}
