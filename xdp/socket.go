// This file has the socket: its configuration, the order in which it is built (file, UMEM, rings,
// mappings, frames to receive into, bind), and the reverse order in which it is released.

package xdp

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

const (
	defaultRingSize = 2048
	maxRingSize     = 1 << 20
)

// BindMode is how frames pass between driver and UMEM.
type BindMode int

const (
	BindAuto BindMode = iota // tries zero-copy, then copy. Info says which it got, and why.
	BindCopy                 // makes the kernel copy every frame
	// BindZeroCopy makes the NIC use the UMEM, or fails with ErrNotSupported. While a program is
	// attached in generic mode it is refused, and BindAuto binds copy. Such a program sees frames
	// that the kernel has copied already, so drivers that accept the bind lose frames, or copy
	// while they say zero-copy. Attach before Open.
	BindZeroCopy
)

func (m BindMode) String() string {
	switch m {
	case BindAuto:
		return "auto"
	case BindCopy:
		return "copy"
	case BindZeroCopy:
		return "zero-copy"
	}
	return fmt.Sprintf("BindMode(%d)", int(m))
}

// BusyPoll makes the kernel's NAPI poll run inside our system calls (af_xdp.rst,
// Documentation/networking/napi.rst "Busy polling").
type BusyPoll struct {
	Micros int  // SO_BUSY_POLL, microseconds; 0 leaves busy polling alone
	Budget int  // SO_BUSY_POLL_BUDGET, frames a poll; 0 leaves the kernel's 8
	Prefer bool // SO_PREFER_BUSY_POLL
}

// SocketConfig says what to open.
type SocketConfig struct {
	// Interface by name, or Index when the name is empty. It is looked for in
	// the network namespace of the calling thread.
	Interface string
	Index     int
	Queue     uint32 // of the interface, from 0
	UMEM      *UMEM  // to use. Leave it nil with Shared, or give the same one.
	// Frames are the addresses of UMEM frames that are on the fill ring before the socket is bound,
	// at most FillSize. They are the kernel's from then on; when Open fails they are free. A driver
	// may take its receive buffers from the fill ring when a zero-copy socket is bound. If it finds
	// none, the queue receives nothing, not even the kernel's own frames, until it finds some. So a
	// zero-copy socket gets its frames here and not after Open.
	Frames []uint64
	// Ring sizes in slots: powers of two up to 2^20, 0 means 2048. A socket that
	// shares another's queue has no fill and completion sizes of its own: 0.
	RxSize, TxSize, FillSize, CompletionSize uint32
	// Bind, NeedWakeup and MultiBuffer become the flags of bind(2). With Shared
	// they are the other socket's: leave them zero, or ask for the same.
	Bind        BindMode
	NeedWakeup  bool // XDP_USE_NEED_WAKEUP: the kernel says when it must be kicked
	MultiBuffer bool // XDP_USE_SG: packets may span descriptors
	BusyPoll    BusyPoll
	// Shared is an open socket whose UMEM this one uses too (XDP_SHARED_UMEM).
	// On the same interface and queue both have one fill and one completion
	// ring: Fill and Completion return the same ring for both, and only one
	// goroutine at a time may use it. Anywhere else this socket has its own.
	Shared *Socket
	// Make makes the socket, which then belongs to Open. Its result is a descriptor of AF_XDP and
	// SOCK_RAW that is closed on exec, in the network namespace of the interface. nil: Open calls
	// socket(2), which needs CAP_NET_RAW. Nothing else that Open does needs a capability.
	Make func() (int, error)
}

// Socket is an AF_XDP socket bound to one queue of one interface. Open, Close,
// Info, Register and Statistics may be called from any goroutine. The rings, Kick
// and WakeRx belong to one goroutine at a time.
type Socket struct {
	fd       int
	rx       RxRing
	tx       TxRing
	pair     *queuePair
	umem     *UMEM
	zeroCopy bool
	busyPoll bool
	info     Info
	mappings [][]byte

	mu     sync.Mutex
	closed bool
}

// queuePair has the fill and the completion ring of one interface and queue. Sockets that share the
// queue share the pair; the last one to close unmaps it.
type queuePair struct {
	fill       FillRing
	completion CompletionRing
	mappings   [][]byte
	users      atomic.Int32
}

// Open makes and binds a socket. It does not attach a program: see Attach and Register. It waits up
// to 10 s for a queue that another socket has just released. Errors: ErrConfig, ErrNoInterface,
// ErrNetDown, ErrPermission, ErrMemlock, ErrQueueRange, ErrBusy, ErrNotSupported, ErrClosed.
func Open(c SocketConfig) (*Socket, error) {
	dev, err := findInterface(c.Interface, c.Index)
	if err != nil {
		return nil, err
	}
	doing := fmt.Sprintf("open AF_XDP socket on %s queue %d", dev.Name, c.Queue)
	if c.Shared != nil {
		// Until the end, so that Close cannot take the shared rings away.
		c.Shared.mu.Lock()
		defer c.Shared.mu.Unlock()
	}
	if c.Make == nil {
		c.Make = newSocket
	}
	fd, err := c.Make()
	if err != nil {
		return nil, sysFault(doing, err)
	}
	if err := c.complete(doing, dev, fd); err != nil {
		unix.Close(fd)
		return nil, err
	}
	bind, without, err := c.firstBind(doing, dev.Index)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	deadline := time.Now().Add(busyWait)
	s, err := c.build(fd, dev, bind, deadline, false)
	if err != nil && c.Shared == nil && c.Bind == BindAuto && bind == BindZeroCopy {
		// A driver that refuses may have taken frames from the fill ring before, and they
		// are lost with its state: so the next trial has a socket and rings of its own.
		without = err
		if fd, err = c.Make(); err == nil {
			s, err = c.build(fd, dev, BindCopy, deadline, true)
		}
	}
	if err != nil {
		return nil, c.bindFault(doing, dev.Name, err)
	}
	s.info.ZeroCopyErr = without
	// The driver looks into the fill ring at once if it asks for that. An answer here is
	// about the interface at this moment, such as one that is being reset for the bind:
	// it takes the frames when it is up again.
	_ = s.WakeRx()
	return s, nil
}

func newSocket() (int, error) { return unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) }

// firstBind returns the mode to try first, and the reason if BindAuto does not try zero-copy.
func (c *SocketConfig) firstBind(doing string, ifindex int) (bind BindMode, without, err error) {
	if c.Shared != nil {
		return c.Shared.info.Mode, nil, nil
	}
	if c.Bind == BindCopy {
		return BindCopy, nil, nil
	}
	mode, err := attachedMode(ifindex)
	switch {
	case err != nil:
		return c.Bind, nil, sysFault(doing, err)
	case mode != AttachGeneric:
		return BindZeroCopy, nil, nil
	case c.Bind == BindZeroCopy:
		return c.Bind, nil, fault(doing, ErrNotSupported, errGeneric, "attach native before, or use copy mode")
	}
	return BindCopy, errGeneric, nil
}

// complete checks the configuration and fills in what was left zero.
func (c *SocketConfig) complete(doing string, dev *net.Interface, fd int) error {
	own := true
	if c.Shared != nil {
		if c.Shared.closed {
			return fmt.Errorf("%s: the shared socket is %w; open it first", doing, ErrClosed)
		}
		of := c.Shared.info
		if c.UMEM != nil && c.UMEM != c.Shared.umem {
			return refuse(doing, "UMEM and Shared are different memory; leave UMEM nil")
		}
		c.UMEM = c.Shared.umem
		if c.Bind != BindAuto && c.Bind != of.Mode {
			return refuse(doing, "bind %s, but the shared socket is bound %s; leave Bind zero", c.Bind, of.Mode)
		}
		if c.NeedWakeup && !of.NeedWakeup || c.MultiBuffer && !of.MultiBuffer {
			return refuse(doing, "NeedWakeup or MultiBuffer differ from the shared socket; leave them zero")
		}
		c.NeedWakeup, c.MultiBuffer = of.NeedWakeup, of.MultiBuffer
		own = dev.Index != of.Index || c.Queue != of.Queue || !sameNamespace(fd, c.Shared.fd)
		if !own && (c.FillSize != 0 || c.CompletionSize != 0) {
			return refuse(doing,
				"a socket that shares a queue has no fill and completion ring; leave FillSize and CompletionSize zero")
		}
	}
	if c.UMEM == nil {
		return refuse(doing, "no UMEM; give UMEM or Shared")
	}
	if c.Bind < BindAuto || c.Bind > BindZeroCopy {
		return refuse(doing, "%s", c.Bind)
	}
	sizes := []*uint32{&c.RxSize, &c.TxSize}
	if own {
		sizes = append(sizes, &c.FillSize, &c.CompletionSize)
	}
	for _, n := range sizes {
		if *n == 0 {
			*n = defaultRingSize
		}
		if *n > maxRingSize || *n&(*n-1) != 0 {
			return refuse(doing, "ring size %d; use a power of two up to %d", *n, maxRingSize)
		}
	}
	switch {
	case len(c.Frames) > 0 && !own:
		return refuse(doing, "a socket that shares a queue has no fill ring; leave Frames nil")
	case uint64(len(c.Frames)) > uint64(c.FillSize):
		return refuse(doing, "%d frames for a fill ring of %d slots; make FillSize larger", len(c.Frames), c.FillSize)
	}
	for _, addr := range c.Frames {
		if c.UMEM.mapping != nil && addr >= uint64(len(c.UMEM.mem)) {
			return refuse(doing, "frame at %#x lies outside the UMEM of %d bytes", addr, len(c.UMEM.mem))
		}
	}
	if c.UMEM.mapping == nil {
		return fmt.Errorf("%s: the UMEM is %w; map a new one", doing, ErrClosed)
	}
	if dev.Flags&net.FlagUp == 0 {
		return sysFault(doing, unix.ENETDOWN)
	}
	if n := queueCount(dev.Name); n > 0 && c.Queue >= n {
		return fmt.Errorf("%s: %w: there are queues 0 to %d; take one of these or add queues with 'ethtool -L %s'",
			doing, ErrQueueRange, n-1, dev.Name)
	}
	return nil
}

// bindFault interprets EINVAL, which the kernel returns for a queue that does not exist and for
// flags that it does not know.
func (c *SocketConfig) bindFault(doing, ifname string, err error) error {
	switch {
	case !errors.Is(err, unix.EINVAL):
		return sysFault(doing, err)
	case c.Queue > 0 && queueCount(ifname) == 0:
		return fault(doing, ErrQueueRange, err, "use queue 0; the driver does not tell how many it has")
	}
	return fault(doing, ErrNotSupported, err, "leave MultiBuffer (Linux 6.6) and NeedWakeup (Linux 5.4) out")
}

// build takes the steps in the order of af_xdp.rst: UMEM, rings, mappings, frames, bind. It closes
// fd when it fails. again says that it is the second time for this UMEM.
func (c *SocketConfig) build(fd int, dev *net.Interface, bind BindMode, deadline time.Time,
	again bool) (*Socket, error) {
	s := &Socket{fd: fd, umem: c.UMEM}
	s.umem.users.Add(1)
	err := s.assemble(c, dev, deadline, again)
	if err == nil {
		err = s.bind(c, bind, deadline)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// assemble takes the steps before bind.
func (s *Socket) assemble(c *SocketConfig, dev *net.Interface, deadline time.Time, again bool) error {
	if err := s.prepare(c, dev, deadline, again); err != nil {
		return err
	}
	if err := s.mapRings(c); err != nil {
		return err
	}
	s.setBusyPoll(c.BusyPoll)
	s.fill(c.Frames)
	return nil
}

// prepare has the kernel know the UMEM and make the rings. A socket that shares another's queue has
// no fill and completion rings of its own.
func (s *Socket) prepare(c *SocketConfig, dev *net.Interface, deadline time.Time, again bool) error {
	s.info = Info{Interface: dev.Name, Index: dev.Index, Queue: c.Queue, NeedWakeup: c.NeedWakeup,
		MultiBuffer: c.MultiBuffer,
		RxSize:      c.RxSize, TxSize: c.TxSize, FillSize: c.FillSize, CompletionSize: c.CompletionSize,
		Shared: c.Shared != nil}
	if c.Shared == nil {
		if err := s.umem.register(s.fd, deadline, again); err != nil {
			return fmt.Errorf("register UMEM: %w", err)
		}
	}
	for _, r := range []struct {
		name   string
		option int
		slots  uint32
	}{
		{"rx", unix.XDP_RX_RING, c.RxSize},
		{"tx", unix.XDP_TX_RING, c.TxSize},
		{"fill", unix.XDP_UMEM_FILL_RING, c.FillSize},
		{"completion", unix.XDP_UMEM_COMPLETION_RING, c.CompletionSize},
	} {
		if r.slots == 0 {
			continue
		}
		if err := unix.SetsockoptInt(s.fd, unix.SOL_XDP, r.option, int(r.slots)); err != nil {
			return fmt.Errorf("create %s ring: %w", r.name, err)
		}
	}
	return nil
}

// fill puts frames on the fill ring, which is empty.
func (s *Socket) fill(frames []uint64) {
	n := uint32(len(frames))
	if n == 0 {
		return
	}
	fill := &s.pair.fill
	fill.Reserve(n)
	for i, addr := range frames {
		fill.Set(uint32(i), addr)
	}
	fill.Submit(n)
}

func (s *Socket) mapRings(c *SocketConfig) error {
	off, err := mmapOffsets(s.fd)
	if err != nil {
		return fmt.Errorf("read ring offsets: %w", err)
	}
	if s.rx.ring, err = mapRing[Desc](s.fd, unix.XDP_PGOFF_RX_RING, off.Rx, c.RxSize, &s.mappings); err != nil {
		return fmt.Errorf("map rx ring: %w", err)
	}
	if s.tx.ring, err = mapRing[Desc](s.fd, unix.XDP_PGOFF_TX_RING, off.Tx, c.TxSize, &s.mappings); err != nil {
		return fmt.Errorf("map tx ring: %w", err)
	}
	if c.FillSize == 0 {
		s.pair = c.Shared.pair
		s.pair.users.Add(1)
		s.info.FillSize, s.info.CompletionSize = c.Shared.info.FillSize, c.Shared.info.CompletionSize
		return nil
	}
	p := new(queuePair)
	s.pair = p
	p.users.Add(1)
	p.fill.ring, err = mapRing[uint64](s.fd, unix.XDP_UMEM_PGOFF_FILL_RING, off.Fr, c.FillSize, &p.mappings)
	if err != nil {
		return fmt.Errorf("map fill ring: %w", err)
	}
	p.completion.ring, err = mapRing[uint64](s.fd, unix.XDP_UMEM_PGOFF_COMPLETION_RING, off.Cr, c.CompletionSize,
		&p.mappings)
	if err != nil {
		return fmt.Errorf("map completion ring: %w", err)
	}
	return nil
}

// Rx returns the ring that brings received frames.
func (s *Socket) Rx() *RxRing { return &s.rx }

// Tx returns the ring that takes frames to send.
func (s *Socket) Tx() *TxRing { return &s.tx }

// Fill returns the ring that takes free frames to receive into.
func (s *Socket) Fill() *FillRing { return &s.pair.fill }

// Completion returns the ring that returns the frames that were sent.
func (s *Socket) Completion() *CompletionRing { return &s.pair.completion }

// UMEM returns the memory that the rings' addresses refer to.
func (s *Socket) UMEM() *UMEM { return s.umem }

// FD returns the file descriptor, for poll(2) or epoll(7) together with others. It stays the
// socket's: do not close it. It is -1 when the socket is closed.
func (s *Socket) FD() int { return s.fd }

// Register puts the socket into slot key of an XSKMAP, where a program's bpf_redirect_map finds it.
// The kernel accepts frames only from the queue that the socket is bound to, so programs use the
// queue's number as key. The slot empties itself when the socket is closed.
func (s *Socket) Register(m *ebpf.Map, key uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	doing := fmt.Sprintf("register socket of %s queue %d in map slot %d", s.info.Interface, s.info.Queue, key)
	if s.closed {
		return fmt.Errorf("%s: the socket is %w; open a new one", doing, ErrClosed)
	}
	if m == nil || m.Type() != ebpf.XSKMap {
		return refuse(doing, "not an XSKMAP; give a map of type BPF_MAP_TYPE_XSKMAP")
	}
	if key >= m.MaxEntries() {
		return fmt.Errorf("%s: %w: the map has %d slots; make it larger", doing, ErrQueueRange, m.MaxEntries())
	}
	if err := m.Put(key, uint32(s.fd)); err != nil {
		return sysFault(doing, err)
	}
	return nil
}

// Close gives everything back: the queue, the XSKMAP slots, the rings. Frames that were in the
// rings are simply free again. Close does nothing the second time. No other goroutine may be using
// the socket. Rings that are used later by mistake are full and empty at once. The kernel frees the
// queue a little later; Open waits for that.
func (s *Socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := unix.Close(s.fd)
	s.fd = -1
	s.rx.ring, s.tx.ring = closedRing[Desc](), closedRing[Desc]()
	mappings := s.mappings
	if p := s.pair; p != nil && p.users.Add(-1) == 0 {
		mappings = append(mappings, p.mappings...)
		p.clear()
	}
	s.pair = new(queuePair)
	s.pair.clear()
	for _, m := range mappings {
		if e := unix.Munmap(m); e != nil && err == nil {
			err = e
		}
	}
	s.mappings = nil
	s.umem.users.Add(-1)
	if err != nil {
		return fmt.Errorf("close AF_XDP socket of %s queue %d: %w", s.info.Interface, s.info.Queue, err)
	}
	return nil
}

// clear makes the rings those of a closed socket.
func (p *queuePair) clear() {
	p.mappings = nil
	p.fill.ring, p.completion.ring = closedRing[uint64](), closedRing[uint64]()
}
