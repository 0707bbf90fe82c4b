package afxdp

// This file opens and closes a port: the NIC program on the interface, a socket on each
// of its receive queues, and the memory.

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"

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
	// Attach is where the NIC program runs. AttachAuto is generic mode on a veth of one queue, where it
	// is several times faster, and else native mode, where the driver has it.
	Attach    xdp.AttachMode
	Bind      xdp.BindMode
	HugePages bool
	BusyPoll  xdp.BusyPoll
	// Jumbo sends and receives frames as long as the MTU allows, and not only as one UMEM
	// frame holds (3836 bytes). It needs multi-buffer AF_XDP (Linux 6.6) and, in native
	// mode, a driver that has it; where they lack Open fails. All nodes of a group agree: to
	// one without, longer frames never arrive, so transfers to it make no progress.
	Jumbo bool
	// RxRing is the size of the rx ring, a power of two, 0 or more than 2048 for 2048.
	// FillFrames is how many UMEM frames the kernel is given to receive into, 0 or more
	// than 512 for 512; with Jumbo there are as many times more as the longest frame fills,
	// up to 4096 in all. Small ones provoke losses.
	RxRing, FillFrames int
	// NIC is a program that was loaded before, for as many queues as the interface has or more, and lets in
	// its groups, with those of Groups besides. It stays the caller's. nil: Open loads one.
	NIC *bpf.NIC
	// Socket makes an AF_XDP socket (xdp.SocketConfig.Make); nil: socket(2). With a NIC and this Open needs
	// no capability.
	Socket func() (int, error)
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
	if p.nic = c.NIC; p.nic == nil {
		p.nic, err = bpf.LoadNIC(bpf.Load{Queues: n, Frags: c.Jumbo})
		if err != nil {
			return nil, fmt.Errorf("opening interface %s: %w", c.Interface, p.explain(c, err))
		}
		p.own = p.nic
	}
	for _, gid := range c.Groups {
		if err := p.nic.SetGroup(gid, true); err != nil {
			return nil, fmt.Errorf("opening interface %s for group %d: %w", c.Interface, gid, err)
		}
	}
	// The program goes first: a driver may only then have what a socket needs.
	p.attach, err = xdp.Attach(p.nic.Program(), ifc.Index, prefer(c.Attach, ifc.Index, n))
	if err != nil {
		return nil, fmt.Errorf("opening interface %s: %w", c.Interface, p.explain(c, err))
	}
	p.info.XDPMode = p.attach.Mode()
	for q := range n {
		if err := p.openQueue(c, q); err != nil {
			return nil, err
		}
	}
	p.sock = p.queues[0].sock
	p.tx, p.done = p.sock.Tx(), p.sock.Completion()
	if c.Jumbo {
		p.asm = newAssembly(z.frameMax, sizeOr(c.RxRing, z.rxSlots))
		p.slabs = newSlabs(p.umem, uint32(n)*z.rxFrames, z)
	} else {
		p.free = xdp.NewAllocator(p.umem, uint32(n)*z.rxFrames, z.txFrames)
	}
	p.info.BindMode = p.sock.Info().Mode
	return p, nil
}

// prefer is the attach mode for an interface of so many queues where none in particular was asked for:
// generic on veth. There a native program makes the peer's frames, which AF_XDP sends as socket
// buffers, take a ring, another softirq and a copy into a page of the driver's
// (veth_xdp_rx and veth_convert_skb_to_xdp_buff in drivers/net/veth.c), where a generic one runs in the
// sender's system call: a round trip of 27.6 us instead of 4.0. Several queues of veth
// work in native mode only.
func prefer(m xdp.AttachMode, ifindex, queues int) xdp.AttachMode {
	if m != xdp.AttachAuto || queues > 1 {
		return m
	}
	l, err := netlink.LinkByIndex(ifindex)
	if err == nil && l.Type() == "veth" {
		return xdp.AttachGeneric
	}
	return m // whatever else is wrong with it, attaching will say
}

// explain says what jumbo frames have to do with a feature that lacks.
func (p *Port) explain(c Config, err error) error {
	switch {
	case !errors.Is(err, xdp.ErrNotSupported):
	case c.Jumbo:
		return fmt.Errorf("%w; for jumbo frames kernel (Linux 6.6) and driver must have multi-buffer AF_XDP: do without on every node", err)
	case p.frameMax < p.info.MTU+arctic.EthernetSize:
		return fmt.Errorf("%w; or use jumbo frames on every node", err)
	}
	return err
}

// openQueue binds a socket to queue q, with frames to receive into.
func (p *Port) openQueue(c Config, q int) error {
	z := p.sizes
	frames := make([]uint64, sizeOr(c.FillFrames, z.rxFrames))
	for i := range frames {
		frames[i] = p.umem.Addr(uint32(q)*z.rxFrames + uint32(i))
	}
	cfg := xdp.SocketConfig{
		Interface: c.Interface, Queue: uint32(q), UMEM: p.umem, Frames: frames,
		RxSize: sizeOr(c.RxRing, z.rxSlots), TxSize: z.txSlots, FillSize: z.rxFrames, CompletionSize: z.txSlots,
		Bind: c.Bind, NeedWakeup: true, MultiBuffer: c.Jumbo, BusyPoll: c.BusyPoll, Make: c.Socket,
	}
	if q > 0 {
		// Sockets on other queues of the interface share the first one's UMEM.
		cfg.UMEM, cfg.Shared, cfg.Bind, cfg.NeedWakeup, cfg.MultiBuffer = nil, p.queues[0].sock, xdp.BindAuto, false, false
	}
	s, err := xdp.Open(cfg)
	if err != nil {
		return p.explain(c, err)
	}
	p.queues = append(p.queues, &queue{sock: s, rx: s.Rx(), fill: s.Fill()})
	return s.Register(p.nic.Sockets(), uint32(q))
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
	if p.own != nil {
		errs = append(errs, p.own.Close())
	}
	if p.umem != nil {
		errs = append(errs, p.umem.Close())
	}
	return errors.Join(errs...)
}
