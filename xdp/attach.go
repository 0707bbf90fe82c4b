// Attaching a program to an interface through a bpf_link, which detaches when it
// is closed and also when the process dies.

package xdp

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// AttachMode is where in the kernel the program runs.
type AttachMode int

const (
	AttachAuto    AttachMode = iota // tries native, then generic. Attachment.Mode says which it is.
	AttachNative                    // runs the program in the driver (XDP_FLAGS_DRV_MODE)
	AttachGeneric                   // runs it in the stack, on any driver (XDP_FLAGS_SKB_MODE)
)

func (m AttachMode) String() string {
	switch m {
	case AttachAuto:
		return "auto"
	case AttachNative:
		return "native"
	case AttachGeneric:
		return "generic"
	}
	return fmt.Sprintf("AttachMode(%d)", int(m))
}

// Attachment is a program attached to an interface.
type Attachment struct {
	link      link.Link
	mode      AttachMode
	nativeErr error
	noNative  error // Kind.Native
	ifindex   int

	once sync.Once
	err  error
}

// Attach attaches prog to the interface, which it looks for in the network namespace of the calling
// thread. Errors: ErrNoInterface, ErrPermission, ErrProgramAttached, ErrNotSupported (also for an
// MTU too large for native mode, and for native mode on a bond), ErrConfig. A native attach can
// restart the NIC's queues, which loses frames.
func Attach(prog *ebpf.Program, ifindex int, mode AttachMode) (*Attachment, error) {
	doing := fmt.Sprintf("attach XDP program to interface %d (%s)", ifindex, mode)
	if prog == nil || prog.Type() != ebpf.XDP {
		return nil, refuse(doing, "not an XDP program; give one of type BPF_PROG_TYPE_XDP")
	}
	if ifindex < 1 {
		return nil, refuse(doing, "interface indices start at 1; look it up by name")
	}
	// The kernel says EINVAL for an index that is not there, as for much else.
	if _, err := findInterface("", ifindex); err != nil {
		return nil, err
	}
	l, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		return nil, sysFault(doing, err)
	}
	a := &Attachment{ifindex: ifindex, mode: mode, noNative: kindOf(l).Native}
	switch mode {
	case AttachNative, AttachGeneric:
		if err := a.attach(prog, mode); err != nil {
			return nil, attachFault(doing, err)
		}
	case AttachAuto:
		err := a.attach(prog, AttachNative)
		if err == nil {
			return a, nil
		}
		if hopeless(err) {
			return nil, attachFault(doing, err)
		}
		a.nativeErr = attachFault(doing, err)
		if err := a.attach(prog, AttachGeneric); err != nil {
			return nil, attachFault(doing, err)
		}
	default:
		return nil, refuse(doing, "unknown mode")
	}
	return a, nil
}

func (a *Attachment) attach(prog *ebpf.Program, mode AttachMode) (err error) {
	flags := link.XDPDriverMode
	switch {
	case mode == AttachGeneric:
		flags = link.XDPGenericMode
	case a.noNative != nil:
		return a.noNative
	}
	a.mode = mode
	a.link, err = link.AttachXDP(link.XDPOptions{Program: prog, Interface: a.ifindex, Flags: flags})
	return err
}

// AttachOver replaces the program that another process's link has on the interface with prog, and
// no frame passes by in between. The link's descriptor becomes the Attachment's, even if AttachOver
// fails. It fails if the link is of another interface or mode (ErrConfig), or if the kernel
// refuses. The program is detached when all descriptors of the link are closed. See Attach for the
// namespace.
func AttachOver(prog *ebpf.Program, ifindex int, mode AttachMode, fd int) (_ *Attachment, err error) {
	doing := fmt.Sprintf("replace XDP program of interface %d (%s)", ifindex, mode)
	l, err := link.NewFromFD(fd)
	if err != nil {
		unix.Close(fd)
		return nil, bpfFault(doing, err)
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	info, err := l.Info()
	if err != nil {
		return nil, bpfFault(doing, err)
	}
	there, err := attachedMode(ifindex)
	if err != nil {
		return nil, sysFault(doing, err)
	}
	if x := info.XDP(); x == nil || x.Ifindex != uint32(ifindex) || there != mode {
		return nil, refuse(doing, "the link is of another interface or mode; attach")
	}
	if err := l.Update(prog); err != nil {
		return nil, bpfFault(doing, err)
	}
	return &Attachment{link: l, ifindex: ifindex, mode: mode}, nil
}

// FD returns the descriptor of the link, which stays the Attachment's; -1: the kernel gave none.
func (a *Attachment) FD() int {
	if l, ok := a.link.(interface{ FD() int }); ok {
		return l.FD()
	}
	return -1
}

// attachedMode returns the mode of the program that is attached to an interface, or AttachAuto if
// there is none.
func attachedMode(ifindex int) (AttachMode, error) {
	l, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		return AttachAuto, err
	}
	x := l.Attrs().Xdp
	switch {
	case x == nil || !x.Attached:
		return AttachAuto, nil
	case x.AttachMode == nl.XDP_ATTACHED_SKB:
		return AttachGeneric, nil
	}
	return AttachNative, nil
}

// hopeless reports whether generic mode would get the same error.
func hopeless(err error) bool {
	for _, e := range []unix.Errno{unix.EPERM, unix.ENODEV, unix.EBUSY, unix.EEXIST} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// attachFault gives the errnos of a bpf_link for XDP (dev_xdp_attach in
// net/core/dev.c, veth_xdp_set) their sentinels and cures.
func attachFault(doing string, err error) error {
	switch {
	case errors.Is(err, errBond):
		return fault(doing, ErrNotSupported, err, "attach generic, or native to each slave")
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		return fault(doing, ErrProgramAttached, err,
			"detach it first: 'ip link set dev NAME xdp off', or end its owner ('bpftool link')")
	case errors.Is(err, unix.ERANGE), errors.Is(err, unix.EMSGSIZE):
		return fault(doing, ErrNotSupported, err,
			"lower the MTU (of the peer too), load the program with frags support, or attach generic")
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL), errors.Is(err, ebpf.ErrNotSupported):
		return fault(doing, ErrNotSupported, err, "attach generic, or use a driver with native XDP")
	}
	return sysFault(doing, err)
}

// Mode returns AttachNative or AttachGeneric.
func (a *Attachment) Mode() AttachMode { return a.mode }

// NativeErr returns the reason why AttachAuto did not get native mode; nil otherwise.
func (a *Attachment) NativeErr() error { return a.nativeErr }

// Close detaches the program. It does nothing the second time, and may be called
// from any goroutine and network namespace.
func (a *Attachment) Close() error {
	a.once.Do(func() {
		if err := a.link.Close(); err != nil {
			a.err = fmt.Errorf("detach XDP program from interface %d: %w", a.ifindex, err)
		}
	})
	return a.err
}
