package afxdp

// This file opens and closes a port: the NIC program on the interface, a socket on each
// of its receive queues, and the memory.

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/xdp"
)

var (
	// ErrMTU reports an MTU of the interface that is too small for FUNet's frames.
	ErrMTU  = errors.New("MTU too small")
	ErrVLAN = errors.New("not possible") // reports that tags cannot be written or read
	// ErrRing reports an rx ring or fill ring that is too small for one frame.
	ErrRing = errors.New("ring too small for a frame")
)

// Config says how to open a port.
type Config struct {
	Interface string
	Groups    []uint16 // GIDs to let in
	// Attach and Bind are the modes. With AttachAuto Open takes the first mode that works: native
	// mode with zero-copy, native mode, generic mode (modes.go). It takes generic mode at once on a
	// veth of one queue, where it is several times faster, and on a bond, where no other works.
	Attach    xdp.AttachMode
	Bind      xdp.BindMode
	HugePages bool
	BusyPoll  xdp.BusyPoll
	// Jumbo sends and receives frames as long as the MTU allows, not only as long as one UMEM frame
	// holds (3836 bytes). It needs multi-buffer AF_XDP (Linux 6.6) and, in native mode, a driver
	// with it; otherwise Open fails. All nodes of a group have the same setting. Longer frames
	// never arrive at a node without Jumbo, so transfers to it make no progress.
	Jumbo bool
	// RxRing is the size of the rx ring, a power of two; 0 or more than 2048 stands for 2048.
	// FillFrames is the number of UMEM frames that the kernel is given to receive into; 0 or more
	// than 512 stands for 512. With Jumbo it is multiplied by the number of UMEM frames that the
	// longest frame fills, up to 1024 in all. Small values provoke losses.
	RxRing, FillFrames int
	// Longest bounds the length of frames in bytes: of a port that replaces another, it is that of
	// the first one's. 0: only MTU and Jumbo bound it.
	Longest int
	// UDP, if not nil, sends and receives frames in UDP datagrams. MTU and Jumbo concern those, and
	// frames are shorter by the headers of IP and UDP. Limits tells where a path has a smaller MTU.
	UDP *UDP
	// VLAN is the number of the VLAN that frames are tagged with, 1 to 4094. 0: none, as on a VLAN
	// interface, where the kernel handles tags. VLAN cannot be combined with UDP. The interface
	// must leave tags in the frames that it receives (rx-vlan-hw-parse of ethtool(8)), and let
	// frames of the VLAN in.
	VLAN uint16
	// Queue, if not nil, is the only queue that frames leave on, and the NIC is told to bring
	// frames to it (xdp.Steer). If the driver cannot, frames arrive on any queue, and Info.Why says
	// so. nil: frames use all queues.
	Queue *int
	// NIC is a program that was loaded before, for at least as many queues as the interface has. It
	// lets in its own groups and those of Groups, and stays the caller's. nil: Open loads one.
	NIC *bpf.NIC
	// AttachProgram attaches the program; nil: xdp.Attach.
	AttachProgram func(program *ebpf.Program, ifindex int, mode xdp.AttachMode) (*xdp.Attachment, error)
	// Socket makes an AF_XDP socket (xdp.SocketConfig.Make); nil: socket(2). With NIC and Socket
	// set, Open needs no capability.
	Socket func() (int, error)
}

// Info describes what was opened.
type Info struct {
	Interface string
	// of the interface in its network namespace; 0: a direct port, whose interface is the helper's
	Index     int
	MAC       [6]byte
	MTU       int // bytes
	FrameSize int // bytes of the longest frame
	Jumbo     bool
	Queues    int
	XDPMode   xdp.AttachMode // native or generic
	BindMode  xdp.BindMode   // copy or zero-copy
	UDPPort   uint16         // 0: frames have an EtherType of their own
	// datagrams that the kernel merged, at the last Watch: their frames are lost
	Merged uint64
	// Why says in a sentence why the modes are no better, if others were tried or would be
	// expected, and what else the user should know about the interface. "": there is nothing to
	// say.
	Why string
}

// String returns the modes in words, and Why.
func (i Info) String() string {
	s := fmt.Sprintf("XDP %s, %s", i.XDPMode, i.BindMode)
	if i.Why != "" {
		s += ": " + i.Why
	}
	return s
}

// Open attaches the NIC program to the interface and binds a socket to each of its receive queues.
// Its errors wrap those of package xdp, or ErrMTU, ErrVLAN or ErrRing.
func Open(c Config) (_ *Port, err error) {
	ifc, err := xdp.Find(c.Interface)
	if err != nil {
		return nil, fmt.Errorf("opening interface %s: %w; `ip link` lists those there are", c.Interface,
			xdp.ErrNoInterface)
	}
	c.Interface = ifc.Name // which that may be an alternative to
	if len(ifc.HardwareAddr) != 6 {
		return nil, fmt.Errorf("opening interface %s: it has no Ethernet address; use an Ethernet interface",
			c.Interface)
	}
	if ifc.Flags&net.FlagUp == 0 {
		return nil, fmt.Errorf("opening interface %s: %w; `ip link set %s up` mends it", c.Interface,
			xdp.ErrNetDown, c.Interface)
	}
	least := arctic.MinMTU
	if c.UDP != nil {
		udp := c.UDP.complete()
		c.UDP = &udp
		least = leastMTU(udp.Local)
	}
	if c.VLAN != 0 {
		least += TagSize
	}
	if ifc.MTU < least {
		return nil, fmt.Errorf("opening interface %s: %w: %d bytes, FUNet needs %d; `ip link set %s mtu 1500` mends it",
			c.Interface, ErrMTU, ifc.MTU, least, c.Interface)
	}
	if err := c.checkVLAN(); err != nil {
		return nil, fmt.Errorf("opening interface %s: %w", c.Interface, err)
	}
	n, err := xdp.Queues(c.Interface)
	if err != nil {
		return nil, fmt.Errorf("opening interface %s: %w", c.Interface, err)
	}
	if c.Queue != nil && (*c.Queue < 0 || *c.Queue >= n) {
		return nil,
			fmt.Errorf("opening interface %s for queue %d: %w: it has queues 0 to %d; take one of these, or `ethtool -L %s combined %d`",
				c.Interface, *c.Queue, xdp.ErrQueueRange, n-1, c.Interface, *c.Queue+1)
	}
	p := &Port{drainTime: drainTime, ifindex: ifc.Index, watcher: watcher{heardBefore: neighbourHeard(ifc.Index)},
		info: Info{Interface: c.Interface, Index: ifc.Index, MAC: [6]byte(ifc.HardwareAddr), MTU: ifc.MTU, Queues: n}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.attachProgram = c.AttachProgram; p.attachProgram == nil {
		p.attachProgram = xdp.Attach
	}
	load := bpf.Load{Queues: n, Frags: c.Jumbo, VLAN: c.VLAN}
	p.vlan = c.VLAN
	if c.UDP != nil {
		if err := p.openPaths(c.UDP, ifc); err != nil {
			return nil, fmt.Errorf("opening interface %s: %w", c.Interface, err)
		}
		p.info.UDPPort = c.UDP.Port
		load.UDPPort = c.UDP.Port
	}
	kind, err := xdp.KindOf(c.Interface)
	if err != nil {
		return nil, fmt.Errorf("opening interface %s: %w", c.Interface, err)
	}
	if c.VLAN != 0 && strips(c.Interface, kind.Name) {
		return nil,
			fmt.Errorf("opening interface %s for VLAN %d: %w: it takes tags out of the frames that it receives; `ethtool -K %[1]s rxvlan off` mends it", c.Interface, c.VLAN, ErrVLAN)
	}
	if p.nic = c.NIC; p.nic == nil {
		if p.nic, err = bpf.LoadNIC(load); err != nil {
			return nil, fmt.Errorf("opening interface %s: %w", c.Interface, p.explain(c, err))
		}
		p.own = p.nic
	}
	for _, gid := range c.Groups {
		if err := p.nic.SetGroup(gid, true); err != nil {
			return nil, fmt.Errorf("opening interface %s for group %d: %w", c.Interface, gid, err)
		}
	}
	why, err := p.climbBest(c, ifc, kind)
	if err != nil {
		return nil, err
	}
	if kind.Remark != "" {
		why = append(why, kind.Remark)
	}
	if said := p.merging(); said != "" {
		why = append(why, said)
	}
	if said := p.steer(c, kind); said != "" {
		why = append(why, said)
	}
	p.info.Why = strings.Join(why, "; ")
	return p, p.follow()
}

// climbBest opens the port in the best modes that work, and returns why no better ones do.
func (p *Port) climbBest(c Config, ifc *net.Interface, kind xdp.Kind) ([]string, error) {
	rungs, why := c.rungs(kind, p.info.Queues)
	for len(rungs) > 0 {
		r := rungs[0]
		err := p.climb(c, ifc, r)
		if err == nil {
			break
		}
		rungs = rungs[1:]
		said := r.failed(p.attach != nil, err)
		if p.attach == nil { // nor does it attach for another way to bind
			rungs = slices.DeleteFunc(rungs, func(next rung) bool { return next.attach == r.attach })
		}
		if len(rungs) == 0 || final(err) {
			return nil, err
		}
		why = append(why, said)
		if e := p.stepOff(); e != nil {
			return nil, errors.Join(err, e)
		}
	}
	return why, nil
}

// steer has the NIC bring frames to Config.Queue, and returns a remark about queues.
func (p *Port) steer(c Config, kind xdp.Kind) (said string) {
	shifted := kind.Name == "veth" && p.info.Queues > 1 && p.info.XDPMode == xdp.AttachGeneric
	if c.Queue == nil {
		if shifted {
			return "in generic mode veth brings what leaves on queue 2 to queue 1, and so on, and nothing to the last: native mode uses all"
		}
		return ""
	}
	flow := xdp.Flow{EtherType: bpf.EtherType}
	if c.UDP != nil {
		flow = xdp.Flow{UDPPort: c.UDP.Port, IPv6: c.UDP.Local.Is6()}
	}
	var err error
	if p.steering, err = xdp.Steer(c.Interface, flow, uint32(*c.Queue)); err != nil {
		return fmt.Sprintf("frames leave on queue %d and arrive on any: %v", *c.Queue, err)
	}
	return fmt.Sprintf("frames of %s are steered to queue %d, by rule %d of the NIC", flow, *c.Queue,
		p.steering.Location())
}

func (p *Port) climb(c Config, ifc *net.Interface, r rung) (err error) {
	z := c.sizes(ifc.MTU, r.bind == xdp.BindZeroCopy)
	p.sizes, p.frameMax, p.room = z, z.frameMax, z.room
	p.info.FrameSize, p.info.Jumbo = p.frameMax, c.Jumbo
	if need := z.rxParts; c.Jumbo && (sizeOr(c.RxRing, z.rxSlots) < need || sizeOr(c.FillFrames, z.rxFrames) < need) {
		return fmt.Errorf("opening interface %s for frames of %d bytes: %w: it fills %d slots; use larger rings, or a smaller MTU",
			c.Interface, z.frameMax, ErrRing, need)
	}
	// The program goes first: a driver may only then have what a socket needs.
	if p.attach != nil && p.attach.Mode() != r.attach {
		err, p.attach = p.attach.Close(), nil
		if err != nil {
			return err
		}
	}
	if p.attach == nil {
		if p.attach, err = p.attachProgram(p.nic.Program(), ifc.Index, r.attach); err != nil {
			return fmt.Errorf("opening interface %s: %w", c.Interface, p.explain(c, err))
		}
	}
	n := uint32(p.info.Queues)
	p.umem, err = xdp.NewUMEM(xdp.UMEMConfig{FrameSize: z.umemFrame, FrameCount: n*z.rxFrames + z.txFrames,
		HugePages: c.HugePages,
		Unaligned: c.Jumbo && r.bind == xdp.BindCopy})
	if err != nil {
		return fmt.Errorf("opening interface %s: %w", c.Interface, err)
	}
	for q := range p.info.Queues {
		if err := p.openQueue(c, r, q); err != nil {
			return err
		}
	}
	p.offered, p.busy = p.queues, make([]*queue, 0, len(p.queues))
	if c.Queue != nil {
		p.offered = p.queues[*c.Queue:][:1]
	}
	p.sends = p.offered
	if p.addr = make([]uint64, maxLent); c.Jumbo {
		p.asm = newAssembly(z.wireMax, sizeOr(c.RxRing, z.rxSlots))
		p.addr = make([]uint64, maxLent*maxParts)
	}
	p.slabs = newSlabs(p.umem, n*z.rxFrames, z)
	p.info.XDPMode, p.info.BindMode = p.attach.Mode(), p.queues[0].sock.Info().Mode
	return nil
}

// stepOff gives back what a rung took, except the attachment, which the next rung may use, too.
func (p *Port) stepOff() error {
	var errs []error
	for i := len(p.queues) - 1; i >= 0; i-- {
		errs = append(errs, p.queues[i].sock.Close())
	}
	p.queues, p.offered, p.sends, p.busy = nil, nil, nil, nil
	if p.umem != nil {
		errs = append(errs, p.umem.Close())
		p.umem = nil
	}
	return errors.Join(errs...)
}

// explain adds to an error that jumbo frames need the missing feature, if they do.
func (p *Port) explain(c Config, err error) error {
	switch {
	case !errors.Is(err, xdp.ErrNotSupported):
	case c.Jumbo:
		return fmt.Errorf("%w; for jumbo frames kernel (Linux 6.6) and driver must have multi-buffer AF_XDP: do without on every node", err)
	case p.sizes.wireMax < p.info.MTU+arctic.EthernetSize:
		return fmt.Errorf("%w; or use jumbo frames on every node", err)
	}
	return err
}

// openQueue binds a socket to queue q, with frames to receive into.
func (p *Port) openQueue(c Config, r rung, q int) error {
	z := p.sizes
	frames := make([]uint64, sizeOr(c.FillFrames, z.rxFrames))
	apart := p.umem.Addr(1)
	if p.umem.Config().Unaligned {
		apart = uint64(p.umem.RxRoom()) // so that chains lie in one piece (chain.go)
	}
	for i := range frames {
		frames[i] = p.umem.Addr(uint32(q)*z.rxFrames) + uint64(i)*apart
	}
	cfg := xdp.SocketConfig{
		Interface: c.Interface, Queue: uint32(q), UMEM: p.umem, Frames: frames,
		RxSize: sizeOr(c.RxRing, z.rxSlots), TxSize: z.txSlots, FillSize: z.rxFrames, CompletionSize: z.doneSlots,
		Bind: r.bind, NeedWakeup: true, MultiBuffer: c.Jumbo, BusyPoll: c.BusyPoll, Make: c.Socket,
	}
	if q > 0 {
		// Sockets on other queues of the interface share the first one's UMEM.
		cfg.UMEM, cfg.Shared, cfg.Bind, cfg.NeedWakeup, cfg.MultiBuffer = nil, p.queues[0].sock,
			xdp.BindAuto, false, false
	}
	s, err := xdp.Open(cfg)
	if err != nil {
		return p.explain(c, err)
	}
	p.addQueue(q, s)
	return s.Register(p.nic.Sockets(), uint32(q))
}

func (p *Port) addQueue(number int, s *xdp.Socket) {
	p.queues = append(p.queues, &queue{number: number, sock: s, rx: s.Rx(), fill: s.Fill(), tx: s.Tx(),
		done: s.Completion()})
	i := s.Info()
	p.wakes = i.BusyPoll || i.Mode == xdp.BindZeroCopy
}

// Close sends the committed frames, detaches the program and gives everything back. It takes up to
// drainTime longer when frames do not leave. Nothing ends that wait early: one of the frames may be
// the acknowledgment that spares a peer its retries. Close may be called twice.
func (p *Port) Close() error {
	p.drain()
	var errs []error
	if p.udp != nil {
		p.udp.paths.Close()
	}
	if p.attach != nil {
		errs = append(errs, p.attach.Close())
	}
	errs = append(errs, p.stepOff())
	if p.steering != nil {
		// A daemon has given up the capability: its next life takes over the rule that it leaves,
		// and Info.Why has named the rule.
		if err := p.steering.Close(); !errors.Is(err, xdp.ErrPermission) {
			errs = append(errs, err)
		}
	}
	if p.own != nil {
		errs = append(errs, p.own.Close())
	}
	return errors.Join(errs...)
}
