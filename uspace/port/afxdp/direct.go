package afxdp

// This file opens a direct port: on a socket that a helper has made for this process, and on memory
// of the process's own. The helper has the interface, and its guard writes addresses and routes
// (package bpf, Ports). So there is neither a NIC program nor an address here.

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/xdp"
)

// GeometryFor returns the rings and memory that a direct port needs for the MTU of its link.
func GeometryFor(mtu int) port.Geometry {
	z := (&Config{}).sizes(mtu, false)
	return port.Geometry{FrameSize: z.umemFrame, Frames: z.rxFrames + z.txFrames,
		RxSize: z.rxSlots, TxSize: z.txSlots, FillSize: z.rxFrames, CompletionSize: z.doneSlots}
}

// Direct is a helper's socket (xdp.Handover) with the memory and link that it was made for.
type Direct struct {
	FD       int      // the socket
	Memory   *os.File // registered with the socket
	Geometry port.Geometry
	MTU      int  // of the socket's link
	Generic  bool // its program runs in generic mode
	// the guard makes datagrams of frames, for which it needs their sums (encap.PutSum)
	Sums bool
}

// ErrGeometry reports memory and rings on which a port cannot be opened.
var ErrGeometry = errors.New("no direct port has such memory; run the same version of FUNet on both sides")

// OpenDirect opens a port on a helper's socket. The socket becomes the port's, even if OpenDirect
// fails. The memory stays the caller's, who may close it afterwards. The port needs no capability
// and has no Watch: the helper watches its interface.
func OpenDirect(d Direct) (*Port, error) {
	g, z := d.Geometry, (&Config{}).sizes(d.MTU, false)
	if g != GeometryFor(d.MTU) {
		unix.Close(d.FD)
		return nil, fmt.Errorf("opening a direct port: %w", ErrGeometry)
	}
	umem, err := xdp.NewUMEM(xdp.UMEMConfig{FrameSize: g.FrameSize, FrameCount: g.Frames, File: d.Memory})
	if err != nil {
		unix.Close(d.FD)
		return nil, fmt.Errorf("opening a direct port: %w", err)
	}
	frames := make([]uint64, z.rxFrames)
	for i := range frames {
		frames[i] = umem.Addr(uint32(i))
	}
	s, err := xdp.Adopt(d.FD, umem, xdp.Info{Interface: "direct", Mode: xdp.BindCopy, NeedWakeup: true,
		RxSize: g.RxSize, TxSize: g.TxSize, FillSize: g.FillSize, CompletionSize: g.CompletionSize}, frames)
	if err != nil {
		umem.Close()
		return nil, fmt.Errorf("opening a direct port: %w", err)
	}
	p := &Port{drainTime: drainTime, umem: umem, sizes: z, sums: d.Sums, frameMax: z.frameMax,
		addr: make([]uint64, maxLent), slabs: newSlabs(umem, z.rxFrames, z)}
	p.info = Info{Interface: s.Info().Interface, MTU: d.MTU, FrameSize: z.frameMax, Queues: 1,
		XDPMode: xdp.AttachNative, BindMode: xdp.BindCopy}
	if d.Generic {
		p.info.XDPMode = xdp.AttachGeneric
	}
	p.addQueue(0, s)
	p.offered, p.sends, p.busy = p.queues, p.queues, make([]*queue, 0, 1)
	return p, nil
}
