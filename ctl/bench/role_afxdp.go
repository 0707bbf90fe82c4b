// This file is raw_afxdp: the least work that sends and receives a frame on AF_XDP rings. It is the
// limit for FUNet on the same machine in the same mode.

package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"github.com/funet/funet/xdp"
)

const (
	rawAFXDP = "raw_afxdp"
	// echoType is local experimental EtherType 2 (IEEE Std 802); FUNet has the first.
	echoType    = 0x88B6
	etherHeader = 14
	macBytes    = 6
	numberBytes = 8
	umemFrame   = 4096 // bytes
	// bytes that the kernel keeps in front of a received frame (XDP_PACKET_HEADROOM)
	umemHeadroom = 256
	umemFrames   = 64
	ringSlots    = 64
	filled       = 32 // frames in the fill ring; the rest is for sending
)

// rawSocket is an AF_XDP socket on queue 0 of an interface, with a program and memory of its own.
type rawSocket struct {
	program    *xdp.RedirectProgram
	attachment *xdp.Attachment
	umem       *xdp.UMEM
	socket     *xdp.Socket
}

// afxdpLink is one end. In an exchange only one frame is under way, so no ring can become full.
type afxdpLink struct {
	rawSocket
	free   *xdp.Allocator
	inFill int    // frames in the fill ring, by this end's count
	frame  []byte // sent by ask
}

func openAFXDP(c roleConfig) (link, error) {
	l := new(afxdpLink)
	if err := l.open(c); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *afxdpLink) open(c roleConfig) (err error) {
	if len(c.LocalMAC) != macBytes || len(c.RemoteMAC) != macBytes || c.FrameSize < MinFrameSize ||
		c.FrameSize > umemFrame-umemHeadroom {
		return fmt.Errorf("%w: MACs %v and %v, frames of %d bytes", ErrRole, c.LocalMAC, c.RemoteMAC, c.FrameSize)
	}
	l.frame = make([]byte, c.FrameSize)
	putEther(l.frame, &c)
	if l.umem, err = xdp.NewUMEM(xdp.UMEMConfig{FrameSize: umemFrame, FrameCount: umemFrames}); err != nil {
		return err
	}
	l.free = xdp.NewAllocator(l.umem, 0, umemFrames)
	frames := make([]uint64, filled)
	for i := range frames {
		frames[i], _ = l.free.Get() // there are more
	}
	l.inFill = filled
	return l.openSocket(&c, xdp.SocketConfig{Frames: frames, RxSize: ringSlots, TxSize: ringSlots, FillSize: ringSlots,
		CompletionSize: ringSlots})
}

// putEther writes the Ethernet header of a frame to the other end.
func putEther(b []byte, c *roleConfig) {
	copy(b, c.RemoteMAC)
	copy(b[macBytes:], c.LocalMAC)
	binary.BigEndian.PutUint16(b[2*macBytes:], echoType)
}

// openSocket attaches the program and binds a socket with rings of the given configuration. Its
// memory exists already.
func (l *rawSocket) openSocket(c *roleConfig, rings xdp.SocketConfig) error {
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
	rings.Interface, rings.UMEM, rings.Bind, rings.NeedWakeup = c.Interface, l.umem, c.Bind, true
	if l.socket, err = xdp.Open(rings); err != nil {
		return err
	}
	return l.socket.Register(l.program.Sockets, 0)
}

// close releases the resources that open acquired, also if open failed halfway.
func (l *rawSocket) close() (err error) {
	if l.attachment != nil {
		err = errors.Join(err, l.attachment.Close())
	}
	if l.socket != nil {
		err = errors.Join(err, l.socket.Close())
	}
	if l.umem != nil {
		err = errors.Join(err, l.umem.Close())
	}
	if l.program != nil {
		err = errors.Join(err, l.program.Close())
	}
	return err
}

func (l *rawSocket) got() modes { return modes{l.attachment.Mode(), l.socket.Info().Mode} }

func (l *afxdpLink) connect() error { return nil }

func (l *afxdpLink) ask(number uint64) error {
	addr, ok := l.free.Get()
	if !ok {
		return errors.New("every frame is still being sent")
	}
	binary.LittleEndian.PutUint64(l.frame[etherHeader:], number)
	copy(l.umem.Frame(addr), l.frame)
	if err := l.send(xdp.Desc{Addr: addr, Len: uint32(len(l.frame))}); err != nil {
		return err
	}
	d, data, err := l.receive()
	if err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint64(data[etherHeader:]); got != number {
		return fmt.Errorf("message %d came back instead", got)
	}
	l.free.Put(d.Addr)
	l.refill()
	return nil
}

// answer sends a received frame back from the memory where it arrived.
func (l *afxdpLink) answer() error {
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
func (l *afxdpLink) send(d xdp.Desc) error {
	tx := l.socket.Tx()
	if tx.Reserve(1) != 1 {
		return errors.New("the tx ring is full")
	}
	tx.Set(0, d)
	tx.Submit(1)
	kick := l.socket.Kick()
	sent := l.socket.Completion()
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

// receive spins for a frame. It releases the descriptor's slot; the memory becomes the caller's.
func (l *afxdpLink) receive() (xdp.Desc, []byte, error) {
	rx := l.socket.Rx()
	for spin := (spinner{}); ; {
		if rx.Peek(1) == 1 {
			d := rx.Desc(0)
			rx.Release(1)
			l.inFill--
			data := l.umem.Data(d)
			if len(data) != len(l.frame) {
				return d, nil, fmt.Errorf("received a frame of %d bytes, want %d", len(data), len(l.frame))
			}
			return d, data, nil
		}
		if err := l.wake(); err != nil {
			return xdp.Desc{}, nil, err
		}
		if !spin.more() {
			return xdp.Desc{}, nil, errNoMessage
		}
	}
}

// wake wakes the kernel for each direction in which it says it sleeps. Otherwise it costs a load
// each.
func (l *afxdpLink) wake() error {
	if err := l.socket.WakeRx(); err != nil {
		return fmt.Errorf("wake reception: %w", err)
	}
	// A frame that the last kick left behind.
	if err := l.socket.Kick(); err != nil && !errors.Is(err, xdp.ErrTxPending) {
		return fmt.Errorf("send a frame: %w", err)
	}
	return nil
}

// refill fills the fill ring up with as many free frames as there are. Frames that are still being
// sent follow in a later call. It keeps its own count rather than read the kernel's index.
func (l *afxdpLink) refill() {
	fill := l.socket.Fill()
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
