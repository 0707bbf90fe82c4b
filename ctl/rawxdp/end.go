package rawxdp

// This file is one end: rings, memory and program of an AF_XDP socket, and round trips over them.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/funet/funet/xdp"
)

const (
	EtherHeader      = 14  // bytes
	MinFrameSize     = 60  // bytes, the shortest Ethernet frame (IEEE Std 802.3, without the FCS)
	DefaultFrameSize = 104 // bytes
	// UMEMFrame is the length of a frame of UMEM in bytes. Headroom are those that the kernel keeps
	// in front of a received frame (XDP_PACKET_HEADROOM).
	UMEMFrame = 4096
	Headroom  = 256
	// PlainMTU is the largest MTU with which veth takes a native program without frags support
	// (veth_xdp_set in drivers/net/veth.c: a frame must fit into a page with its headroom).
	PlainMTU = 3506

	// echoType is local experimental EtherType 2 (IEEE Std 802); FUNet has the first.
	echoType   = 0x88B6
	macBytes   = 6
	umemFrames = 64
	ringSlots  = 64
	filled     = 32 // frames in the fill ring; the rest is for sending
)

// ErrConfig reports an impossible configuration of an end.
var ErrConfig = errors.New("no such end")

// Config says where an end is and what it sends.
type Config struct {
	Interface string           `json:"interface,omitempty"`
	LocalMAC  net.HardwareAddr `json:"local_mac,omitempty"`
	RemoteMAC net.HardwareAddr `json:"remote_mac,omitempty"`
	FrameSize int              `json:"frame_size,omitempty"` // bytes
	Frags     bool             `json:"frags,omitempty"`      // of several buffers
	Modes
}

// Modes are the modes of an XDP program and an AF_XDP socket, as requested or as obtained.
type Modes struct {
	Attach xdp.AttachMode `json:"attach,omitempty"`
	Bind   xdp.BindMode   `json:"bind,omitempty"`
}

// Addressed reports whether both addresses are those of Ethernet.
func (c *Config) Addressed() bool { return len(c.LocalMAC) == macBytes && len(c.RemoteMAC) == macBytes }

// Socket is an AF_XDP socket on queue 0 of an interface, with a program and memory of its own.
type Socket struct {
	UMEM *xdp.UMEM
	*xdp.Socket
	program    *xdp.RedirectProgram
	attachment *xdp.Attachment
}

// End is one end of an exchange. Only one frame is under way, so no ring can become full.
type End struct {
	Socket
	free    *xdp.Allocator
	stopped atomic.Bool
	inFill  int    // frames in the fill ring, by this end's count
	frame   []byte // sent by ask
}

// Open opens an end in the network namespace of this thread. Errors: ErrConfig, package xdp's, or
// the system's.
func Open(c Config) (*End, error) {
	l := new(End)
	if err := l.open(c); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *End) open(c Config) (err error) {
	if !c.Addressed() || c.FrameSize < MinFrameSize || c.FrameSize > UMEMFrame-Headroom {
		return fmt.Errorf("%w: MACs %v and %v, frames of %d bytes", ErrConfig, c.LocalMAC, c.RemoteMAC, c.FrameSize)
	}
	l.frame = make([]byte, c.FrameSize)
	PutEther(l.frame, &c)
	if l.UMEM, err = xdp.NewUMEM(xdp.UMEMConfig{FrameSize: UMEMFrame, FrameCount: umemFrames}); err != nil {
		return err
	}
	l.free = xdp.NewAllocator(l.UMEM, 0, umemFrames)
	frames := make([]uint64, filled)
	for i := range frames {
		frames[i], _ = l.free.Get() // there are more
	}
	l.inFill = filled
	return l.Attach(&c, xdp.SocketConfig{Frames: frames, RxSize: ringSlots, TxSize: ringSlots, FillSize: ringSlots,
		CompletionSize: ringSlots})
}

// PutEther writes the Ethernet header of a frame to the other end.
func PutEther(b []byte, c *Config) {
	copy(b, c.RemoteMAC)
	copy(b[macBytes:], c.LocalMAC)
	binary.BigEndian.PutUint16(b[2*macBytes:], echoType)
}

// Attach attaches the program and binds a socket with rings of the given configuration. UMEM exists
// already.
func (l *Socket) Attach(c *Config, rings xdp.SocketConfig) error {
	iface, err := net.InterfaceByName(c.Interface)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", c.Interface, err)
	}
	if l.program, err = xdp.NewRedirectProgram(xdp.RedirectConfig{EtherType: echoType, Queues: 1,
		Frags: c.Frags}); err != nil {
		return err
	}
	if l.attachment, err = xdp.Attach(l.program.Program, iface.Index, c.Attach); err != nil {
		return err
	}
	rings.Interface, rings.UMEM, rings.Bind, rings.NeedWakeup = c.Interface, l.UMEM, c.Bind, true
	if l.Socket, err = xdp.Open(rings); err != nil {
		return err
	}
	return l.Register(l.program.Sockets, 0)
}

// Close releases what was opened, also if that failed halfway.
func (l *Socket) Close() (err error) {
	if l.attachment != nil {
		err = errors.Join(err, l.attachment.Close())
	}
	if l.Socket != nil {
		err = errors.Join(err, l.Socket.Close())
	}
	if l.UMEM != nil {
		err = errors.Join(err, l.UMEM.Close())
	}
	if l.program != nil {
		err = errors.Join(err, l.program.Close())
	}
	return err
}

// Got returns the modes in use.
func (l *Socket) Got() Modes { return Modes{l.attachment.Mode(), l.Info().Mode} }

// Ask sends a frame with a number and returns when it has come back.
func (l *End) Ask(number uint64) error {
	addr, ok := l.free.Get()
	if !ok {
		return errors.New("every frame is still being sent")
	}
	binary.LittleEndian.PutUint64(l.frame[EtherHeader:], number)
	copy(l.UMEM.Span(addr, len(l.frame)), l.frame)
	if err := l.send(xdp.Desc{Addr: addr, Len: uint32(len(l.frame))}); err != nil {
		return err
	}
	d, data, err := l.receive()
	if err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint64(data[EtherHeader:]); got != number {
		return fmt.Errorf("message %d came back instead", got)
	}
	l.free.Put(d.Addr)
	l.refill()
	return nil
}

// Answer waits for a frame and sends it back from the memory where it arrived.
func (l *End) Answer() error {
	d, data, err := l.receive()
	if err != nil {
		return err
	}
	var mac [macBytes]byte
	copy(mac[:], data)
	copy(data, data[macBytes:2*macBytes])
	copy(data[macBytes:], mac[:])
	if err := l.send(xdp.Desc{Addr: d.Addr, Len: d.Len}); err != nil {
		return err
	}
	l.refill()
	return nil
}

// send sends one frame, and reclaims frames sent before.
func (l *End) send(d xdp.Desc) error {
	tx := l.Tx()
	if tx.Reserve(1) != 1 {
		return errors.New("the tx ring is full")
	}
	tx.Set(0, d)
	tx.Submit(1)
	kick := l.Kick()
	sent := l.Completion()
	n := sent.Peek(ringSlots)
	for i := range n {
		l.free.Put(sent.At(i))
	}
	sent.Release(n)
	if kick != nil && !errors.Is(kick, xdp.ErrTxPending) {
		return fmt.Errorf("send a frame: %w", kick)
	}
	return nil
}

// Stop ends Ask and Answer with ErrNoMessage, now and later. Any goroutine may call it.
func (l *End) Stop() { l.stopped.Store(true) }

// receive spins for a frame. It releases the descriptor's slot; the memory becomes the caller's.
func (l *End) receive() (xdp.Desc, []byte, error) {
	rx := l.Rx()
	for spin := (Spin{}); ; {
		if rx.Peek(1) == 1 {
			d := rx.At(0)
			rx.Release(1)
			l.inFill--
			data := l.UMEM.Data(d)
			if len(data) != len(l.frame) {
				return d, nil, fmt.Errorf("received a frame of %d bytes, want %d", len(data), len(l.frame))
			}
			return d, data, nil
		}
		if err := l.wake(); err != nil {
			return xdp.Desc{}, nil, err
		}
		if !spin.More() || l.stopped.Load() {
			return xdp.Desc{}, nil, ErrNoMessage
		}
	}
}

// wake wakes the kernel for each direction in which it says it sleeps. Otherwise it costs a load
// each.
func (l *End) wake() error {
	if err := l.WakeRx(); err != nil {
		return fmt.Errorf("wake reception: %w", err)
	}
	// A frame that the last kick left behind.
	if err := l.Kick(); err != nil && !errors.Is(err, xdp.ErrTxPending) {
		return fmt.Errorf("send a frame: %w", err)
	}
	return nil
}

// refill fills the fill ring up with as many free frames as there are. Frames that are still being
// sent follow in a later call. It keeps its own count rather than read the kernel's index.
func (l *End) refill() {
	fill := l.Fill()
	n := uint32(0)
	for want := fill.Reserve(uint32(filled - l.inFill)); n < want; n++ {
		addr, ok := l.free.Get()
		if !ok {
			break
		}
		fill.Set(n, addr)
	}
	fill.Submit(n)
	l.inFill += int(n)
}
