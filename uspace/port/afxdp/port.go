// Package afxdp is the AF_XDP port: a card's way to a real network interface.
//
// The journey of a frame in: the NIC program (package bpf) redirects it to the
// socket of its receive queue, the kernel copies it into a UMEM frame and puts its
// descriptor on the rx ring; Receive lends the card the bytes in place, and Release
// puts the UMEM frame on the fill ring again. Out: Reserve takes a UMEM frame,
// Commit puts its descriptor on the tx ring, Flush kicks the kernel, and the
// completion ring brings the frame back.
//
// All receive queues of the interface have a socket, because the NIC chooses the
// queue; frames are sent on the first. When the fill ring runs empty or the rx ring
// full, the kernel drops frames and counts them (Statistics): the card's
// retransmission brings them again. When all transmit frames are under way,
// Reserve returns nil and the card waits.
//
// With Config.Jumbo a frame may be longer than a UMEM frame (multi-buffer AF_XDP,
// Documentation/networking/af_xdp.rst): it is a chain of descriptors in either ring
// (chain.go, slab.go). Without, a longer frame is not sent, and one that arrives is
// dropped by the kernel, so all nodes of a group have the same setting.
//
// A port belongs to one goroutine that has locked its OS thread, because sending
// is a raw system call; Open must run in the network namespace of the interface.
package afxdp

import (
	"errors"
	"fmt"
	"net"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/xdp"
)

var (
	// ErrMTU is wrapped when the interface's MTU is too small for FUNet's frames.
	ErrMTU = errors.New("MTU too small")
	// ErrRing is wrapped when the rx ring or the fill ring is too small for one frame.
	ErrRing = errors.New("ring too small for a frame")
)

// Config says how to open a port.
type Config struct {
	Interface string
	Groups    []uint16 // GIDs to let in
	Attach    xdp.AttachMode
	Bind      xdp.BindMode
	HugePages bool
	BusyPoll  xdp.BusyPoll
	// Jumbo sends and receives frames as long as the MTU allows, and not only as one UMEM
	// frame holds (3836 bytes). It needs multi-buffer AF_XDP (Linux 6.6) and, in native
	// mode, a driver that has it; where they lack Open fails. All nodes of a group agree.
	Jumbo bool
	// RxRing is the size of the rx ring, a power of two, 0 or more than 2048 for 2048.
	// FillFrames is how many UMEM frames the kernel is given to receive into, 0 or more
	// than 512 for 512; with Jumbo there are as many times more as the longest frame fills,
	// up to 4096 in all. Small ones provoke losses.
	RxRing, FillFrames int
}

// Info is what was got.
type Info struct {
	Interface string
	MAC       [6]byte
	MTU       int // bytes
	FrameSize int // bytes of the longest frame
	Jumbo     bool
	Queues    int
	XDPMode   xdp.AttachMode // native or generic
	BindMode  xdp.BindMode   // copy or zero-copy
}

// Port is an AF_XDP port; it implements port.Port.
type Port struct {
	info   Info
	nic    *bpf.NIC
	attach *xdp.Attachment
	umem   *xdp.UMEM
	queues []*queue
	err    error // of the last kick; nil when it worked

	// Receiving: the queue that lent frames, and which.
	turn int
	lent *queue
	addr []uint64 // maxLent, with Jumbo maxLent*maxParts
	n    uint32
	asm  *assembly // nil without Jumbo

	// Sending, on the first queue.
	sock      *xdp.Socket
	tx        *xdp.TxRing
	done      *xdp.CompletionRing
	free      *xdp.Allocator // nil with Jumbo
	slabs     *slabs         // nil without Jumbo
	reserved  []byte
	at        uint64
	committed uint32
	unsent    bool // the kernel left frames in the ring
	frameMax  int
	sizes     sizes
}

type queue struct {
	sock    *xdp.Socket
	rx      *xdp.RxRing
	fill    *xdp.FillRing
	cutting bool // the ring goes on with the rest of a chain that is dropped
}

// Open attaches the NIC program to the interface and binds a socket to each of its
// receive queues. The errors of package xdp and ErrMTU tell what is wrong.
func Open(c Config) (_ *Port, err error) {
	ifc, err := net.InterfaceByName(c.Interface)
	if err != nil {
		return nil, fmt.Errorf("opening interface %s: %w; `ip link` lists those there are", c.Interface, xdp.ErrNoInterface)
	}
	if len(ifc.HardwareAddr) != 6 {
		return nil, fmt.Errorf("opening interface %s: it has no Ethernet address; use an Ethernet interface", c.Interface)
	}
	if ifc.Flags&net.FlagUp == 0 {
		return nil, fmt.Errorf("opening interface %s: %w; `ip link set %s up` mends it", c.Interface, xdp.ErrNetDown, c.Interface)
	}
	if ifc.MTU < arctic.MinMTU {
		return nil, fmt.Errorf("opening interface %s: %w: %d bytes, FUNet needs %d; `ip link set %s mtu 1500` mends it",
			c.Interface, ErrMTU, ifc.MTU, arctic.MinMTU, c.Interface)
	}
	n, err := xdp.Queues(c.Interface)
	if err != nil {
		return nil, fmt.Errorf("opening interface %s: %w", c.Interface, err)
	}
	p := &Port{info: Info{Interface: c.Interface, MAC: [6]byte(ifc.HardwareAddr), MTU: ifc.MTU, Queues: n}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	p.sizes = c.sizes(ifc.MTU)
	z := p.sizes
	p.frameMax = z.frameMax
	p.info.FrameSize, p.info.Jumbo = z.frameMax, c.Jumbo
	if need := z.rxParts; c.Jumbo && (sizeOr(c.RxRing, z.rxSlots) < need || sizeOr(c.FillFrames, z.rxFrames) < need) {
		return nil, fmt.Errorf("opening interface %s for frames of %d bytes: %w: it fills %d slots; use larger rings, or a smaller MTU",
			c.Interface, z.frameMax, ErrRing, need)
	}
	p.umem, err = xdp.NewUMEM(xdp.UMEMConfig{FrameSize: z.umemFrame, FrameCount: uint32(n)*z.rxFrames + z.txFrames, HugePages: c.HugePages})
	if err != nil {
		return nil, fmt.Errorf("opening interface %s: %w", c.Interface, err)
	}
	p.nic, err = bpf.LoadNIC(bpf.Load{Queues: n, Frags: c.Jumbo})
	if err != nil {
		return nil, fmt.Errorf("opening interface %s: %w", c.Interface, c.explain(err))
	}
	for _, gid := range c.Groups {
		if err := p.nic.SetGroup(gid, true); err != nil {
			return nil, fmt.Errorf("opening interface %s for group %d: %w", c.Interface, gid, err)
		}
	}
	// The program goes first: a driver may only then have what a socket needs.
	p.attach, err = xdp.Attach(p.nic.Program(), ifc.Index, c.Attach)
	if err != nil {
		return nil, fmt.Errorf("opening interface %s: %w", c.Interface, c.explain(err))
	}
	p.info.XDPMode = p.attach.Mode()
	for q := range n {
		if err := p.openQueue(c, q); err != nil {
			return nil, err
		}
	}
	p.sock = p.queues[0].sock
	p.tx, p.done = p.sock.Tx(), p.sock.Completion()
	p.addr = make([]uint64, maxLent)
	if c.Jumbo {
		p.addr = make([]uint64, maxLent*maxParts)
		p.asm = newAssembly(z.frameMax, sizeOr(c.RxRing, z.rxSlots))
		p.slabs = newSlabs(p.umem, uint32(n)*z.rxFrames, z)
	} else {
		p.free = xdp.NewAllocator(p.umem, uint32(n)*z.rxFrames, z.txFrames)
	}
	p.info.BindMode = p.sock.Info().Mode
	return p, nil
}

// openQueue binds a socket to queue q and gives it frames to receive into.
func (p *Port) openQueue(c Config, q int) error {
	z := p.sizes
	cfg := xdp.SocketConfig{
		Interface: c.Interface, Queue: uint32(q), UMEM: p.umem,
		RxSize: sizeOr(c.RxRing, z.rxSlots), TxSize: z.txSlots, FillSize: z.rxFrames, CompletionSize: z.txSlots,
		Bind: c.Bind, NeedWakeup: true, MultiBuffer: c.Jumbo, BusyPoll: c.BusyPoll,
	}
	if q > 0 {
		// Sockets on other queues of the interface share the first one's UMEM.
		cfg.UMEM, cfg.Shared, cfg.Bind, cfg.NeedWakeup, cfg.MultiBuffer = nil, p.queues[0].sock, xdp.BindAuto, false, false
	}
	s, err := xdp.Open(cfg)
	if err != nil {
		return c.explain(err)
	}
	u := &queue{sock: s, rx: s.Rx(), fill: s.Fill()}
	p.queues = append(p.queues, u)
	frames := u.fill.Reserve(sizeOr(c.FillFrames, z.rxFrames))
	for i := range frames {
		u.fill.Set(i, p.umem.Addr(uint32(q)*z.rxFrames+i))
	}
	u.fill.Submit(frames)
	return s.Register(p.nic.Sockets(), uint32(q))
}

// FrameSize returns the longest frame that the port sends.
func (p *Port) FrameSize() int { return p.frameMax }

// Ready reports whether a frame can be received, or with Jumbo at least a part of one.
func (p *Port) Ready() bool {
	for _, q := range p.queues {
		if q.rx.Peek(1) > 0 {
			return true
		}
	}
	return false
}

// Receive lends up to len(frames) frames of one queue, the queues taking turns.
func (p *Port) Receive(frames [][]byte) int {
	if p.asm != nil {
		return p.receiveChains(frames)
	}
	for range p.queues {
		q := p.nextQueue()
		n := q.rx.Peek(uint32(min(len(frames), maxLent)))
		if n == 0 {
			continue
		}
		p.lent, p.n = q, n
		k := 0
		for i := range n {
			d := q.rx.Desc(i)
			p.addr[i] = d.Addr
			if b := p.umem.Data(d); b != nil {
				frames[k] = b
				k++
			}
		}
		return k
	}
	return 0
}

// nextQueue is the queue whose turn it is.
func (p *Port) nextQueue() *queue {
	q := p.queues[p.turn]
	if p.turn++; p.turn == len(p.queues) {
		p.turn = 0
	}
	return q
}

// Release gives lent frames back to the kernel.
func (p *Port) Release() {
	q, n := p.lent, p.n
	if q == nil {
		return
	}
	p.lent, p.n = nil, 0
	q.rx.Release(n)
	// The fill ring has a slot for every frame of the queue, so none is left over.
	n = q.fill.Reserve(n)
	for i := range n {
		q.fill.Set(i, p.umem.Base(p.addr[i]))
	}
	q.fill.Submit(n)
	if err := q.sock.WakeRx(); err != nil {
		p.err = err
	}
}

// Reserve returns a transmit frame, or nil while all are under way.
func (p *Port) Reserve() []byte {
	if p.reserved == nil {
		if p.slabs != nil {
			return p.reserveSlab()
		}
		if p.tx.Reserve(p.committed+1) <= p.committed {
			return nil
		}
		at, ok := p.free.Get()
		if !ok {
			if p.reap(); p.free.Len() == 0 {
				return nil
			}
			at, _ = p.free.Get()
		}
		p.at = at
		p.reserved = p.umem.Frame(at)[:p.frameMax]
	}
	return p.reserved
}

// Commit puts the reserved frame on the tx ring.
func (p *Port) Commit(n int) {
	if p.slabs != nil {
		p.commitChain(n)
		return
	}
	p.tx.Set(p.committed, xdp.Desc{Addr: p.at, Len: uint32(n)})
	p.committed++
	p.reserved = nil
}

// Flush hands committed frames to the kernel and has it send them.
func (p *Port) Flush() {
	if p.committed == 0 && !p.unsent {
		return
	}
	if p.committed > 0 {
		p.tx.Submit(p.committed)
		p.committed = 0
	}
	p.err = p.sock.Kick()
	p.unsent = p.err != nil
	p.reap()
}

// reap takes back frames that have been sent.
func (p *Port) reap() {
	for n := p.done.Peek(txFrames); n > 0; n = p.done.Peek(txFrames) {
		if p.slabs != nil {
			for i := range n {
				p.slabs.put(p.done.At(i))
			}
		} else {
			for i := range n {
				p.free.Put(p.done.At(i))
			}
		}
		p.done.Release(n)
	}
}

// Info says what was got.
func (p *Port) Info() Info { return p.info }

// Err returns the error of the last kick: nil when it worked, xdp.ErrNetDown when
// the interface went down. A port that was merely too busy has no error.
func (p *Port) Err() error {
	if errors.Is(p.err, xdp.ErrTxPending) {
		return nil
	}
	return p.err
}

// FDs returns the sockets' file descriptors, which poll(2) finds readable when a
// frame can be received.
func (p *Port) FDs() []int {
	var fds []int
	for _, q := range p.queues {
		fds = append(fds, q.sock.FD())
	}
	return fds
}

// NIC returns the NIC program, for its counters.
func (p *Port) NIC() *bpf.NIC { return p.nic }

// Statistics returns the kernel's counters, summed over the queues.
func (p *Port) Statistics() (xdp.Statistics, error) {
	var sum xdp.Statistics
	for _, q := range p.queues {
		s, err := q.sock.Statistics()
		if err != nil {
			return sum, err
		}
		sum.RxDropped += s.RxDropped
		sum.RxInvalid += s.RxInvalid
		sum.TxInvalid += s.TxInvalid
		sum.RxRingFull += s.RxRingFull
		sum.RxFillRingEmpty += s.RxFillRingEmpty
		sum.TxRingEmpty += s.TxRingEmpty
	}
	return sum, nil
}

// Close detaches the program and gives everything back. It may be called twice.
func (p *Port) Close() error {
	var errs []error
	if p.attach != nil {
		errs = append(errs, p.attach.Close())
	}
	for i := len(p.queues) - 1; i >= 0; i-- {
		errs = append(errs, p.queues[i].sock.Close())
	}
	if p.nic != nil {
		errs = append(errs, p.nic.Close())
	}
	if p.umem != nil {
		errs = append(errs, p.umem.Close())
	}
	return errors.Join(errs...)
}
