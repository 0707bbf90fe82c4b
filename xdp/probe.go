// This file has Probe, which finds out what an interface can do by doing it and undoing it.

package xdp

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// probeFrames is how many UMEM frames receive the kernel's own traffic while a trial holds queue 0
// zero-copy. It is as many as most drivers' rings have descriptors, so that no frame is lost.
const probeFrames = 512

// Answer is one result of Probe.
type Answer int

const (
	Unknown Answer = iota // says that it could not be tried; Trial.Err says why
	Yes                   // says that it was tried and worked
	No                    // says that it was tried and refused; Trial.Err is the refusal
)

func (a Answer) String() string {
	switch a {
	case Unknown:
		return "unknown"
	case Yes:
		return "yes"
	case No:
		return "no"
	}
	return fmt.Sprintf("Answer(%d)", int(a))
}

// Trial is an answer and, unless it is Yes, the reason.
type Trial struct {
	Answer Answer
	Err    error
}

// Capabilities are the findings of Probe.
type Capabilities struct {
	Interface string
	Index     int
	MTU       int // bytes, without the Ethernet header
	Up        bool
	Kind      Kind
	// RxQueues and TxQueues are the queues in use now (ethtool channels). When the driver does not
	// tell, they are the queues that the device was made with.
	RxQueues, TxQueues int
	// Program is the ID of an XDP program that is already attached, 0 for none. With a program
	// attached, Probe tries nothing that could disturb it: every Trial is Unknown with
	// ErrProgramAttached.
	Program uint32

	Native      Trial // attach in the driver
	NativeFrags Trial // attach in the driver a program that takes packets of several buffers
	Generic     Trial // attach in the stack
	Copy        Trial // bind in copy mode
	ZeroCopy    Trial // bind in zero-copy mode, with a native program attached
	NeedWakeup  Trial // bind with XDP_USE_NEED_WAKEUP
	MultiBuffer Trial // bind with XDP_USE_SG
	BusyPoll    Trial // the three busy-poll socket options
}

// Probe looks at an interface in the network namespace of the calling thread. It attaches a program
// that passes every frame, and binds queue 0, each for a moment. If nothing else on the interface
// uses XDP, the kernel's own traffic continues, except that drivers may restart their queues for
// the probe. Each trial puts frames on the fill ring before it binds, and the program passes on the
// frames that are received into them. On an interface that is down, every Trial that binds is
// Unknown. Probe returns an error only if there is no such interface (ErrNoInterface), or the
// kernel does not answer.
func Probe(ifname string) (Capabilities, error) {
	dev, err := findInterface(ifname, 0)
	if err != nil {
		return Capabilities{}, err
	}
	doing := "probe " + ifname
	l, err := netlink.LinkByIndex(dev.Index)
	if err != nil {
		return Capabilities{}, sysFault(doing, err)
	}
	c := Capabilities{Interface: dev.Name, Index: dev.Index, MTU: dev.MTU, Up: dev.Flags&net.FlagUp != 0,
		Kind: kindOf(l), RxQueues: l.Attrs().NumRxQueues, TxQueues: l.Attrs().NumTxQueues}
	if rx, tx, err := channels(dev.Name); err == nil {
		c.RxQueues, c.TxQueues = int(rx), int(tx)
	}
	if x := l.Attrs().Xdp; x != nil && x.Attached {
		c.Program = x.ProgId
		c.skip(fault(doing, ErrProgramAttached, fmt.Errorf("program %d", x.ProgId),
			"nothing was tried; detach it to probe"))
		return c, nil
	}
	c.probeAttach(dev.Index)
	if c.Up {
		return c, c.probeBind(dev)
	}
	down := Trial{Err: sysFault(doing, unix.ENETDOWN)}
	c.Copy, c.ZeroCopy, c.NeedWakeup, c.MultiBuffer, c.BusyPoll = down, down, down, down, down
	return c, nil
}

// skip answers every question with the reason why nothing was tried.
func (c *Capabilities) skip(reason error) {
	t := Trial{Err: reason}
	c.Native, c.NativeFrags, c.Generic, c.Copy = t, t, t, t
	c.ZeroCopy, c.NeedWakeup, c.MultiBuffer, c.BusyPoll = t, t, t, t
}

// judge turns the outcome of a trial into an answer. A refusal that says nothing about the
// interface gives Unknown.
func judge(err error) Trial {
	switch {
	case err == nil:
		return Trial{Answer: Yes}
	case errors.Is(err, ErrBusy), errors.Is(err, ErrPermission), errors.Is(err, ErrMemlock),
		errors.Is(err, ErrProgramAttached),
		errors.Is(err, ErrNoInterface), errors.Is(err, ErrNetDown):
		return Trial{Answer: Unknown, Err: err}
	}
	return Trial{Answer: No, Err: err}
}

// probeAttach attaches and detaches a program that passes every frame.
func (c *Capabilities) probeAttach(ifindex int) {
	c.Native = judge(tryAttach(ifindex, AttachNative, 0))
	c.NativeFrags = judge(tryAttach(ifindex, AttachNative, unix.BPF_F_XDP_HAS_FRAGS))
	c.Generic = judge(tryAttach(ifindex, AttachGeneric, 0))
}

func tryAttach(ifindex int, mode AttachMode, flags uint32) error {
	a, err := attachPass(ifindex, mode, flags)
	if err != nil {
		return err
	}
	return a.Close()
}

// attachPass attaches a program that passes every frame. Only the attachment then holds it.
func attachPass(ifindex int, mode AttachMode, flags uint32) (*Attachment, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "xdp_pass", Type: ebpf.XDP, License: "Dual BSD/GPL", Flags: flags,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()}})
	if err != nil {
		return nil, bpfFault("load pass program", err)
	}
	defer p.Close()
	return Attach(p, ifindex, mode)
}

// probeBind binds and releases queue 0, once for each question.
func (c *Capabilities) probeBind(dev *net.Interface) error {
	umem, err := NewUMEM(UMEMConfig{FrameCount: probeFrames})
	if err != nil {
		return err
	}
	base := SocketConfig{Index: dev.Index, UMEM: umem, Bind: BindCopy, RxSize: 64, TxSize: 64, FillSize: probeFrames,
		CompletionSize: 64}
	for i := range uint32(probeFrames) {
		base.Frames = append(base.Frames, umem.Addr(i))
	}
	try := func(change func(*SocketConfig)) Trial {
		config := base
		change(&config)
		s, err := Open(config)
		if err != nil {
			return judge(err)
		}
		if err := s.Info().BusyPollErr; err != nil {
			return judge(errors.Join(err, s.Close()))
		}
		return judge(s.Close())
	}
	c.Copy = try(func(*SocketConfig) {})
	if errors.Is(c.Copy.Err, ErrBusy) { // for as long as Open waits
		c.ZeroCopy, c.NeedWakeup, c.MultiBuffer, c.BusyPoll = c.Copy, c.Copy, c.Copy, c.Copy
		return umem.Close()
	}
	c.NeedWakeup = try(func(s *SocketConfig) { s.NeedWakeup = true })
	c.MultiBuffer = try(func(s *SocketConfig) { s.MultiBuffer = true })
	c.BusyPoll = try(func(s *SocketConfig) { s.BusyPoll = BusyPoll{Micros: 20, Budget: 8, Prefer: true} })
	// Some drivers bind zero-copy only while they run a program, and without one it is of no use.
	a, err := attachPass(dev.Index, AttachNative, 0)
	if err != nil {
		c.ZeroCopy = judge(fmt.Errorf("zero-copy needs a native program: %w", err))
		return umem.Close()
	}
	c.ZeroCopy = try(func(s *SocketConfig) { s.Bind = BindZeroCopy })
	return errors.Join(a.Close(), umem.Close())
}
