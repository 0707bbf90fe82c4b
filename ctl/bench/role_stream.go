package bench

// This file is the sender and receiver of Xfer's raw_afxdp, on the parent's and the child's side.
// They do the least work that moves memory from one process to another over AF_XDP rings.
//
// The sender copies its memory into frames as long as FUNet's, block by block, and begins again
// after the last one. The data of a frame lies behind as many bytes of header as FUNet's frames
// have. A block is cut where FUNet cuts it, and its last bytes have a frame of their own. The
// receiver checks that the number in each frame is the next one, and copies the frame's data to the
// same place of its memory. There is no checksum of frames, and nothing is sent again: a missing
// frame is an error. To prevent that, the receiver reports how many frames it has copied, four
// times in a window of frames. At most a window of frames is in flight, for which the receiver has
// buffers.
//
//	sender (host 0)              receiver (host 1)
//	frame 0, 1, 2, ... ------>   copies
//	                   <------   number of frames copied so far
//
// Both ends spin. While nothing happens they sometimes yield, so that the other end can run where
// others want its processor.
//
// At the end, outside the measured time, both ends report a checksum of their memory.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/rawxdp"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/xdp"
)

const (
	roleStream = "raw_afxdp_stream"
	// streamHeader is the number of bytes before a frame's data, the same as in FUNet's blocks.
	streamHeader = arctic.HeaderSize + arctic.PacketHeaderSize + arctic.WordSize
	// streamRoom is the longest frame that fits one UMEM frame; FUNet's is as long.
	streamRoom = rawxdp.UMEMFrame - rawxdp.Headroom - 4
	// streamWindow is the most bytes under way, and streamFrames the most frames.
	streamWindow = 1 << 20
	streamFrames = 256
	// streamKick is the number of descriptors handed to the kernel at once, as many as one system
	// call sends.
	streamKick = 32
)

// streamConfig holds what both ends of a stream must know.
type streamConfig struct {
	Block  int  `json:"block,omitempty"`  // bytes
	Memory int  `json:"memory,omitempty"` // bytes, whole blocks
	Jumbo  bool `json:"jumbo,omitempty"`  // frames may have several buffers
}

// moved is the result of a turn at one end: the checksum of its memory, and the sender's time.
type moved struct {
	Sum         uint32 `json:"memory_crc32c"`
	Nanoseconds int64  `json:"nanoseconds,omitempty"`
}

// stream runs one turn between two fresh processes, and returns gigabits of data a second.
func (s *session) stream(ctx context.Context, c roleConfig) (gbit float64, err error) {
	p, err := s.startPair(ctx, roleStream, c)
	if err != nil {
		return 0, err
	}
	defer p.end()
	var sender, receiver moved
	switch err = p.turn(ctx, &sender, &receiver); {
	case err != nil:
		return 0, err
	case sender.Sum != receiver.Sum:
		return 0, fmt.Errorf("%s: the receiver's memory is not the sender's", roleStream)
	}
	return float64(c.Exchanges) * float64(c.Block) * 8 / float64(sender.Nanoseconds), nil
}

// rawStream is one end.
type rawStream struct {
	rawxdp.Socket
	c      roleConfig
	memory []byte
	block  int // bytes of a block in one frame
	window int // frames
	frames uint64

	slab uint64 // bytes of UMEM for a frame to send
	free []uint64
	left []uint8 // by slab: descriptors that the kernel still has
	base uint64  // of the first slab
}

func openStream(c roleConfig) (end, error) {
	s := &rawStream{c: c}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *rawStream) open() (err error) {
	c := &s.c
	s.block = min(arctic.MaxBlock(c.FrameSize), c.Block)
	if !c.Addressed() || s.block <= 0 || c.FrameSize > arctic.MaxFrame ||
		!c.Jumbo && c.FrameSize > streamRoom ||
		c.Memory < c.Block || c.Memory%c.Block != 0 || c.Memory > maxXferMemory {
		return fmt.Errorf("%w: MACs %v and %v, frames of %d bytes, blocks of %d and memory of %d", errRole, c.LocalMAC,
			c.RemoteMAC, c.FrameSize, c.Block, c.Memory)
	}
	s.frames = uint64(c.Exchanges) * uint64((s.body()+s.block-1)/s.block+1)
	s.memory = make([]byte, c.Memory)
	for i := range s.memory {
		s.memory[i] = 1 // touches it; what does not arrive differs
		if !c.Server {
			s.memory[i] = byte(i * i >> 7)
		}
	}
	longest := s.block + streamHeader
	s.window = min(streamFrames, max(4, streamWindow/longest))
	size := 2048
	if longest+rawxdp.Headroom > size {
		size = rawxdp.UMEMFrame
	}
	// UMEM frames
	in := (longest + size - rawxdp.Headroom - 1) / (size - rawxdp.Headroom) * s.window
	out := (longest + size - 1) / size
	fill, slots := uint32(1)<<bits.Len(uint(in+streamKick)), uint32(1)<<bits.Len(uint(2*out*s.window))
	if s.UMEM, err = xdp.NewUMEM(xdp.UMEMConfig{FrameSize: uint32(size),
		FrameCount: fill + uint32(out*s.window)}); err != nil {
		return err
	}
	receive := make([]uint64, fill)
	for i := range receive {
		receive[i] = s.UMEM.Addr(uint32(i))
	}
	s.base, s.slab = s.UMEM.Addr(fill), uint64(out*size)
	s.left = make([]uint8, s.window)
	for i := range s.window {
		s.free = append(s.free, s.base+uint64(s.window-1-i)*s.slab)
		rawxdp.PutEther(s.UMEM.Span(s.free[i], rawxdp.EtherHeader), &c.Config)
	}
	return s.Attach(&c.Config, xdp.SocketConfig{Frames: receive, MultiBuffer: c.Jumbo, RxSize: fill, TxSize: slots,
		FillSize: fill, CompletionSize: slots})
}

// run moves the blocks of a turn.
func (s *rawStream) run() (any, error) {
	begin := time.Now()
	var err error
	if s.c.Server {
		err = s.receiveAll()
	} else {
		err = s.sendAll()
	}
	took := time.Since(begin)
	return moved{Sum: crc32.Checksum(s.memory, crc32.MakeTable(crc32.Castagnoli)), Nanoseconds: took.Nanoseconds()}, err
}

// body returns the length of a block up to the bytes that FUNet sends as the last packet of a
// transfer (package engine).
func (s *rawStream) body() int {
	last := s.c.Block % (arctic.MaxPartWords * arctic.WordSize)
	if last == 0 {
		last = arctic.MaxSingleWords * arctic.WordSize
	}
	return s.c.Block - last
}

// place walks the memory frame by frame.
type place struct{ block, at int }

// next returns the memory of the next frame.
func (p *place) next(s *rawStream) []byte {
	from := p.block + p.at
	n := s.c.Block - p.at
	if body := s.body(); p.at < body {
		n = min(s.block, body-p.at)
	}
	if p.at += n; p.at == s.c.Block {
		p.at = 0
		if p.block += s.c.Block; p.block == len(s.memory) {
			p.block = 0
		}
	}
	return s.memory[from : from+n]
}

// sendAll is the sender: it returns when the other end has copied everything.
func (s *rawStream) sendAll() error {
	var at place
	next, copied := uint64(0), uint64(0)
	for spin := (rawxdp.Spin{}); copied < s.frames; {
		pending := uint32(0)
		for ; next < s.frames && next-copied < uint64(s.window) && pending < streamKick && len(s.free) > 0; next++ {
			pending += s.put(pending, next, at.next(s))
		}
		s.Tx().Submit(pending)
		if err := s.kick(); err != nil {
			return err
		}
		heard, err := s.heard(copied)
		if err != nil {
			return err
		}
		if heard > next {
			return fmt.Errorf("%d frames have arrived of %d that were sent", heard, next)
		}
		if pending > 0 || heard > copied {
			spin = rawxdp.Spin{}
		} else if !s.more(&spin) {
			return rawxdp.ErrNoMessage
		}
		copied = heard
	}
	return nil
}

// more reports whether to look again. It sometimes yields first.
func (s *rawStream) more(spin *rawxdp.Spin) bool {
	more := spin.More()
	if spin.Looks&(rawxdp.Spins-1) == 0 {
		unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
	return more
}

// put copies the data of a frame. It puts the frame's descriptors behind the pending ones and
// returns their number.
func (s *rawStream) put(pending uint32, number uint64, data []byte) uint32 {
	addr := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	frame := s.UMEM.Span(addr, streamHeader+len(data))
	binary.LittleEndian.PutUint64(frame[rawxdp.EtherHeader:], number)
	copy(frame[streamHeader:], data)
	return s.commit(pending, addr, len(frame))
}

// commit puts the descriptors of a frame behind those that are pending. There is room: the ring has
// twice as many slots as a window of frames has descriptors.
func (s *rawStream) commit(pending uint32, addr uint64, n int) uint32 {
	size := int(s.UMEM.Config().FrameSize)
	parts := uint32((n + size - 1) / size)
	s.left[(addr-s.base)/s.slab] = uint8(parts)
	tx := s.Tx()
	tx.Reserve(pending + parts)
	for i := range parts {
		d := xdp.Desc{Addr: addr + uint64(i)*uint64(size), Len: uint32(min(n, size))}
		if n -= size; n > 0 {
			d.Options = xdp.PacketContinued
		}
		tx.Set(pending+i, d)
	}
	return parts
}

// kick has the kernel send the submitted frames, and reclaims the sent ones.
func (s *rawStream) kick() error {
	if err := s.Kick(); err != nil && !errors.Is(err, xdp.ErrTxPending) {
		return fmt.Errorf("send frames: %w", err)
	}
	sent := s.Completion()
	n := sent.Peek(sent.Cap())
	for i := range n {
		slab := (sent.At(i) - s.base) / s.slab
		if s.left[slab]--; s.left[slab] == 0 {
			s.free = append(s.free, s.base+slab*s.slab)
		}
	}
	sent.Release(n)
	return nil
}

// heard returns the receiver's latest count of copied frames, or before if none arrived.
func (s *rawStream) heard(before uint64) (uint64, error) {
	rx, fill := s.Rx(), s.Fill()
	n := rx.Peek(rx.Cap())
	fill.Reserve(n)
	for i := range n {
		d := rx.At(i)
		data := s.UMEM.Data(d)
		if len(data) != rawxdp.MinFrameSize {
			return 0, fmt.Errorf("received a frame of %d bytes, want %d", len(data), rawxdp.MinFrameSize)
		}
		before = binary.LittleEndian.Uint64(data[rawxdp.EtherHeader:])
		fill.Set(i, d.Addr)
	}
	rx.Release(n)
	fill.Submit(n)
	return before, s.WakeRx()
}

// receiveAll is the receiver.
func (s *rawStream) receiveAll() error {
	var at place
	var data []byte // of the frame that arrives, what is still to come
	var done, told uint64
	rx, fill := s.Rx(), s.Fill()
	first := true
	for spin := (rawxdp.Spin{}); told < s.frames; {
		n := rx.Peek(streamKick)
		fill.Reserve(n)
		for i := range n {
			d := rx.At(i)
			piece := s.UMEM.Data(d)
			if first {
				if data = at.next(s); len(piece) < min(streamRoom, streamHeader+len(data)) {
					return fmt.Errorf("frame %d begins with %d bytes", done, len(piece))
				}
				if number := binary.LittleEndian.Uint64(piece[rawxdp.EtherHeader:]); number != done {
					return fmt.Errorf("frame %d came instead of %d", number, done)
				}
				piece = piece[streamHeader:]
			}
			data = data[copy(data, piece):]
			if first = d.Options&xdp.PacketContinued == 0; first {
				if len(data) > 0 {
					return fmt.Errorf("frame %d lacks %d bytes", done, len(data))
				}
				done++
			}
			fill.Set(i, d.Addr)
		}
		rx.Release(n)
		fill.Submit(n)
		if err := s.WakeRx(); err != nil {
			return fmt.Errorf("wake reception: %w", err)
		}
		if n > 0 {
			spin = rawxdp.Spin{}
		} else if !s.more(&spin) {
			return rawxdp.ErrNoMessage
		}
		if done-told >= uint64(s.window/4) || done == s.frames {
			if err := s.tell(done); err != nil {
				return err
			}
			told = done
		}
	}
	return nil
}

// tell sends the number of copied frames. A slab is always free, because the sender of these
// reports sends no faster than it receives.
func (s *rawStream) tell(done uint64) error {
	if len(s.free) == 0 {
		return errors.New("every frame is still being sent")
	}
	addr := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	binary.LittleEndian.PutUint64(s.UMEM.Span(addr, rawxdp.MinFrameSize)[rawxdp.EtherHeader:], done)
	s.Tx().Submit(s.commit(0, addr, rawxdp.MinFrameSize))
	return s.kick()
}
