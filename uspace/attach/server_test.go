package attach_test

// This file is a daemon for tests: a real engine without ports, on a goroutine of its
// own, whose group 5 has nodes 0 to 7 on this one card. It does as daemons should, and
// sleeps as early as it can.

import (
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

const (
	gid     = 5
	members = 8
	// Words of the register page (package funi).
	asleepWord = 0x4c0 / 4
	wakeWord   = 0x4d8 / 4
	// quota is how many bytes of segments a context may have.
	quota = 64 << 20
)

var token = attach.Token{1, 2, 3}

// daemon is the server.
type daemon struct {
	t        testing.TB
	path     string
	listener *net.UnixListener
	card     *engine.Card
	bells    int // descriptor
	mailbox  chan func()
	event    int            // eventfd that ends a sleep for the mailbox
	stopped  chan struct{}  // the engine's goroutine has ended
	accepts  sync.WaitGroup // the goroutine that accepts connections
	// Both are the engine goroutine's: contexts by bell, and those that hold the places of
	// members that have not come yet, so that messages for them wait instead of coming back.
	served  [members]*served
	waiting [members]*engine.Context
	asleep  atomic.Bool
	taken   atomic.Int32 // attaches that were refused because the node was in use
	spins   atomic.Bool  // it never sleeps

	mu    sync.Mutex
	conns []*net.UnixConn
	work  sync.WaitGroup
}

// served is a context.
type served struct {
	ctx    *engine.Context
	memory *funi.Memory
	mapped [][]byte
	card   int
	// write end of the pipe that wakes the process: the process sees its end, as with a daemon
	process  int
	seen     funi.Published
	segments map[uint32][]byte
	bytes    uint64
}

// start runs a daemon at a path; "" is a new one.
func start(t testing.TB, path string) *daemon {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "funid.sock")
	}
	d := &daemon{t: t, path: path, mailbox: make(chan func(), 16), stopped: make(chan struct{})}
	var err error
	if d.listener, err = net.ListenUnix(attach.Network, &net.UnixAddr{Name: path, Net: attach.Network}); err != nil {
		t.Fatal(err)
	}
	if d.bells, err = makeMemory("bells", funi.DoorbellsSize); err != nil {
		t.Fatal(err)
	}
	b, err := attach.MapMemory(d.bells, funi.DoorbellsSize)
	if err != nil {
		t.Fatal(err)
	}
	cfg := engine.Native()
	cfg.Card, cfg.Incarnation, cfg.Seed = 3, 77, 1
	if cfg.Doorbells, err = funi.SharedDoorbells(b); err != nil {
		t.Fatal(err)
	}
	for range members {
		cfg.Routes = append(cfg.Routes, 3)
	}
	if d.card, err = engine.New(cfg); err != nil {
		t.Fatal(err)
	}
	for node := range d.waiting {
		m, err := funi.NewMemory(2)
		if err != nil {
			t.Fatal(err)
		}
		if d.waiting[node], err = d.card.PowerUp(m, uint16(node)); err != nil {
			t.Fatal(err)
		}
		if err := d.waiting[node].Store(funi.GID, gid); err != nil {
			t.Fatal(err)
		}
	}
	d.event = eventfd(t)
	go d.run(b)
	d.accepts.Go(func() {
		for {
			c, err := d.listener.AcceptUnix()
			if err != nil {
				return
			}
			d.mu.Lock()
			d.conns = append(d.conns, c)
			d.work.Add(1)
			d.mu.Unlock()
			go d.serve(c)
		}
	})
	t.Cleanup(d.crash)
	return d
}

func eventfd(t testing.TB) int {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func signal(fd int) { _, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// do has the engine's goroutine call f between two steps. It returns false if that goroutine has
// ended.
func (d *daemon) do(f func()) bool {
	done := make(chan struct{})
	select {
	case d.mailbox <- func() { f(); close(done) }:
	case <-d.stopped:
		return false
	}
	signal(d.event)
	select {
	case <-done:
		return true
	case <-d.stopped:
		return false
	}
}

// attached reports whether the first context is there.
func (d *daemon) attached() (is bool) {
	d.do(func() { is = d.served[0] != nil })
	return is
}

// run is the card's thread.
func (d *daemon) run(bells []byte) {
	defer close(d.stopped)
	defer func() { attach.Unmap(bells) }()
	begin, idle, progress := time.Now(), 0, uint64(0)
	step := func() (next int64, quiet bool) {
		now := int64(time.Since(begin))
		next = d.card.Step(now)
		quiet = next > now && d.card.Progress() == progress
		progress = d.card.Progress()
		called := d.card.TakeCalled()
		for _, x := range d.served {
			if x == nil {
				continue
			}
			if p := x.memory.Page.Published(); p != x.seen {
				x.seen, quiet = p, false
			}
			if slices.Contains(called, x.ctx) {
				signal(x.process)
			}
		}
		return next - now, quiet
	}
	for {
		select {
		case f := <-d.mailbox:
			if f == nil {
				return
			}
			f()
			idle = 0
			continue
		default:
		}
		if _, quiet := step(); !quiet {
			idle = 0
			continue
		}
		if d.spins.Load() {
			continue
		}
		if idle++; idle < 3 {
			runtime.Gosched()
			continue
		}
		fds := []unix.PollFd{{Fd: int32(d.event), Events: unix.POLLIN}}
		for bell, x := range d.served {
			if x != nil {
				atomic.StoreUint32(&x.memory.Page[asleepWord], 1<<31|uint32(bell+1))
				fds = append(fds, unix.PollFd{Fd: int32(x.card), Events: unix.POLLIN})
			}
		}
		if left, quiet := step(); quiet {
			d.asleep.Store(true)
			t := unix.NsecToTimespec(min(left, int64(time.Minute)))
			_, _ = unix.Ppoll(fds, &t, nil)
			d.asleep.Store(false)
			for _, fd := range fds {
				if fd.Revents != 0 {
					_, _ = unix.Read(int(fd.Fd), make([]byte, 8))
				}
			}
		}
		for _, x := range d.served {
			if x != nil {
				atomic.StoreUint32(&x.memory.Page[asleepWord], 0)
			}
		}
		idle = 0
	}
}

// serve answers a connection's requests until it ends, and ends its context then.
func (d *daemon) serve(c *net.UnixConn) {
	defer d.work.Done()
	defer c.Close()
	var x *served
	defer func() { d.end(x) }()
	buffer := make([]byte, attach.MaxMessage)
	for {
		message, _, err := attach.Receive(c, buffer, 0)
		if err != nil {
			return
		}
		var fds []int
		h, err := attach.DecodeHeader(message)
		answer, fatal := []byte(nil), err != nil
		if err == nil {
			switch h.Kind {
			case attach.KindAttach:
				answer, fds, x, err = d.attach(message, x)
			case attach.KindSegment, attach.KindUnsegment, attach.KindDetach:
				switch {
				case x == nil:
					err = attach.ErrNotAttached
				case h.Kind == attach.KindSegment:
					answer, fds, err = d.segment(message, x)
				case h.Kind == attach.KindUnsegment:
					answer, err = d.unsegment(message, x)
				default:
					answer, err = d.detach(message, x)
					x = nil
				}
			default:
				err = attach.ErrKind
			}
		}
		if errors.Is(err, errCrashed) {
			return // a daemon that is gone answers nobody
		}
		if errors.Is(err, attach.ErrTaken) {
			d.taken.Add(1)
		}
		if err != nil {
			answer = attach.EncodeRefusal(h.Kind, err)
		}
		err = attach.Send(c, answer, fds...)
		attach.CloseDescriptors(slices.DeleteFunc(fds, func(fd int) bool {
			return fd == d.bells || x != nil && (fd == x.card)
		}))
		if err != nil || fatal {
			return
		}
	}
}

func (d *daemon) attach(message []byte, had *served) (_ []byte, fds []int, x *served, err error) {
	r, err := attach.DecodeAttachRequest(message)
	slots := int(r.Slots)
	if slots == 0 {
		slots = 64
	}
	size, slotsErr := funi.SharedSize(slots)
	size += r.Remote.Bytes()
	switch {
	case err != nil:
		return nil, nil, had, err
	case had != nil:
		return nil, nil, had, attach.ErrAttached
	case r.GID != gid:
		return nil, nil, nil, fmt.Errorf("group %d: %w", r.GID, attach.ErrGroup)
	case !r.Token.Equal(token):
		return nil, nil, nil, attach.ErrToken
	case r.Node >= members:
		return nil, nil, nil, attach.ErrNode
	case slotsErr != nil:
		return nil, nil, nil, attach.ErrSlots
	}
	fd, err := makeMemory("context", uint64(size))
	if err != nil {
		return nil, nil, nil, err
	}
	b, err := attach.MapMemory(fd, uint64(size))
	if err != nil {
		return nil, nil, nil, err
	}
	bells, err := attach.MapMemory(d.bells, funi.DoorbellsSize)
	if err != nil {
		return nil, nil, nil, err
	}
	var wakes [2]int
	if err := unix.Pipe2(wakes[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, nil, nil, err
	}
	x = &served{mapped: [][]byte{b, bells}, card: eventfd(d.t), process: wakes[1], segments: map[uint32][]byte{}}
	if x.memory, err = funi.SharedRemoteMemory(b, bells, r.Remote); err != nil {
		return nil, nil, nil, err
	}
	x.memory.Page.Store(funi.Control, funi.UserModes)
	bell := -1
	d.do(func() {
		if w := d.waiting[r.Node]; w != nil {
			d.card.Detach(w)
			d.waiting[r.Node] = nil
		}
		if x.ctx, err = d.card.Attach(x.memory, r.GID, r.Node, 0); err == nil {
			bell = slices.Index(d.served[:], nil)
			d.served[bell] = x
		}
	})
	if err != nil {
		x.free()
		attach.CloseDescriptors([]int{fd, wakes[0]})
		return nil, nil, nil, fmt.Errorf("%w: %w", attach.ErrTaken, err)
	}
	a := attach.AttachAnswer{ABI: funi.ABI, Context: uint32(bell), GID: gid, Node: r.Node, Nodes: members,
		Slots: uint32(slots), Remote: r.Remote, Memory: uint64(size), Incarnation: 77}
	return a.Encode(), []int{fd, d.bells, x.card, wakes[0]}, x, nil
}

func (d *daemon) segment(message []byte, x *served) ([]byte, []int, error) {
	r, err := attach.DecodeSegmentRequest(message)
	if err != nil {
		return nil, nil, err
	}
	if r.Bytes == 0 {
		return nil, nil, attach.ErrSegment
	}
	if r.Bytes > quota-x.bytes {
		return nil, nil, attach.ErrQuota
	}
	fd, err := makeMemory("segment", r.Bytes)
	if err != nil {
		return nil, nil, err
	}
	b, err := attach.MapMemory(fd, r.Bytes)
	if err != nil {
		return nil, nil, err
	}
	d.do(func() { err = x.ctx.Register(funi.Segment{Base: r.Base, Memory: b, Rights: r.Rights}) })
	if err != nil {
		attach.Unmap(b)
		_ = unix.Close(fd)
		return nil, nil, refused(err)
	}
	x.segments[r.Base] = b
	x.bytes += r.Bytes
	return r.EncodeAnswer(), []int{fd}, nil
}

// refused gives an error of the engine its status.
func refused(err error) error {
	for _, s := range []attach.Status{attach.ErrSegment, attach.ErrOverlap, attach.ErrTooManySegments,
		attach.ErrNoSegment} {
		for _, f := range []error{funi.ErrSegment, funi.ErrOverlap, funi.ErrTooManySegments, funi.ErrNoSegment} {
			if s.Is(f) && errors.Is(err, f) {
				return fmt.Errorf("%w: %w", s, err)
			}
		}
	}
	if errors.Is(err, engine.ErrSegmentBusy) {
		return attach.ErrBusy
	}
	return err
}

func (d *daemon) unsegment(message []byte, x *served) ([]byte, error) {
	r, err := attach.DecodeUnsegmentRequest(message)
	if err != nil {
		return nil, err
	}
	d.do(func() { err = x.ctx.Unregister(r.Base) })
	if err != nil {
		return nil, refused(err)
	}
	x.bytes -= uint64(len(x.segments[r.Base]))
	attach.Unmap(x.segments[r.Base])
	delete(x.segments, r.Base)
	return attach.EncodeBody(attach.KindUnsegment|attach.AnswerBit, nil)
}

// errCrashed: the card has ended.
var errCrashed = errors.New("crashed")

func (d *daemon) detach(message []byte, x *served) ([]byte, error) {
	r, err := attach.DecodeDetachRequest(message)
	if err != nil {
		d.t.Error(err)
	}
	idle := false
	for end := time.Now().Add(r.Linger); ; {
		if !d.do(func() { idle = x.ctx.Idle() }) || idle || time.Now().After(end) {
			break // a card that has ended makes nothing idle, however long the process would linger
		}
	}
	d.end(x)
	select {
	case <-d.stopped:
		return nil, errCrashed
	default:
	}
	if !idle {
		return nil, attach.ErrBusy
	}
	return attach.EncodeBody(attach.KindDetach|attach.AnswerBit, nil)
}

// end detaches a context and gives back what it had.
func (d *daemon) end(x *served) {
	if x == nil {
		return
	}
	d.do(func() {
		d.card.Detach(x.ctx)
		d.served[slices.Index(d.served[:], x)] = nil
	})
	x.free()
}

func (x *served) free() {
	for _, b := range x.mapped {
		attach.Unmap(b)
	}
	for _, b := range x.segments {
		attach.Unmap(b)
	}
	attach.CloseDescriptors([]int{x.card, x.process})
}

// evict tells all processes that their contexts have ended, as a daemon that stops does.
func (d *daemon) evict() {
	d.do(func() {
		for _, x := range d.served {
			if x != nil {
				d.card.Detach(x.ctx)
				x.memory.Page.PutGone()
			}
		}
	})
}

// crash ends the daemon without a word, twice as well as once.
func (d *daemon) crash() {
	select {
	case <-d.stopped:
		return
	default:
	}
	_ = d.listener.Close()
	d.mailbox <- nil
	signal(d.event)
	<-d.stopped
	d.accepts.Wait() // so that every connection is among conns
	d.mu.Lock()
	for _, c := range d.conns {
		_ = c.Close()
	}
	d.mu.Unlock()
	d.work.Wait()
	attach.CloseDescriptors([]int{d.bells, d.event})
}

// makeMemory returns the descriptor of new memory of the given size in bytes, all 0. The memory is
// sealed against changes of its size and, from Linux 6.3 on, against being executed. /proc shows
// the name. Closing the descriptor and unmapping the memory everywhere gives it back.
func makeMemory(name string, bytes uint64) (fd int, err error) {
	if bytes == 0 || bytes > math.MaxInt64 {
		return -1, fmt.Errorf("making shared memory of %d bytes: %w", bytes, unix.EINVAL)
	}
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	// before Linux 6.3
	if fd, err = unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL); errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err == nil {
		if err = unix.Ftruncate(fd, int64(bytes)); err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		}
		if err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		return -1, fmt.Errorf("making shared memory of %d bytes: %w", bytes, err)
	}
	return fd, nil
}
