package afxdp

// This file opens a direct port: on a socket that a helper has made for this process, on memory of the process's own. The helper has the interface, and its guard
// writes addresses and routes (package bpf, Ports). So there is neither a program nor an address here.

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/xdp"
)

// Geometry is the memory and the rings of a direct port, as its process wants them and its helper makes them.
type Geometry struct {
	UMEM                                     xdp.UMEMConfig
	RxSize, TxSize, FillSize, CompletionSize uint32 // slots
}

// GeometryFor is what a direct port needs for the MTU of its link.
func GeometryFor(mtu int) Geometry {
	z := (&Config{}).sizes(mtu, false)
	return Geometry{UMEM: xdp.UMEMConfig{FrameSize: z.umemFrame, FrameCount: z.rxFrames + z.txFrames},
		RxSize: z.rxSlots, TxSize: z.txSlots, FillSize: z.rxFrames, CompletionSize: z.doneSlots}
}

// Bytes is how much memory it is.
func (g *Geometry) Bytes() int64 { return int64(g.UMEM.FrameSize) * int64(g.UMEM.FrameCount) }

// NewMemory makes the memory: a memfd whose pages are there, and count for this process, and which can neither shrink nor grow.
func (g *Geometry) NewMemory() (*os.File, error) {
	fd, err := unix.MemfdCreate("funet-port", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("making the memory of a port: %w", err)
	}
	f := os.NewFile(uintptr(fd), "the memory of a port")
	if err = unix.Fallocate(fd, 0, 0, g.Bytes()); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("making %d bytes of memory for a port: %w", g.Bytes(), err)
	}
	return f, nil
}

// OpenDirect opens a port on a socket of a helper's (xdp.Handover), which becomes the port's, for the MTU that the geometry was made for. It needs no
// capability, and the port has no Watch: its interface is the helper's business.
func OpenDirect(fd int, info xdp.Info, memory *os.File, mtu int) (*Port, error) {
	g, z := GeometryFor(mtu), (&Config{}).sizes(mtu, false)
	g.UMEM.File = memory
	umem, err := xdp.NewUMEM(g.UMEM)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("opening a direct port: %w", err)
	}
	frames := make([]uint64, z.rxFrames)
	for i := range frames {
		frames[i] = umem.Addr(uint32(i))
	}
	s, err := xdp.Adopt(fd, umem, info, frames)
	if err != nil {
		umem.Close()
		return nil, fmt.Errorf("opening a direct port: %w", err)
	}
	p := &Port{drainTime: drainTime, umem: umem, sizes: z, frameMax: z.frameMax, free: xdp.NewAllocator(umem, z.rxFrames, z.txFrames)}
	p.info = Info{Interface: info.Interface, MTU: mtu, FrameSize: z.frameMax, Queues: 1, BindMode: info.Mode}
	p.queues = []*queue{{sock: s, rx: s.Rx(), fill: s.Fill(), tx: s.Tx(), done: s.Completion()}}
	p.offered, p.sends, p.busy = p.queues, p.queues, make([]*queue, 0, 1)
	return p, nil
}
