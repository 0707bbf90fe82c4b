// This file has a ready-made program for users that need none of their own. It redirects each frame
// to the socket of the queue that the frame came in on. It is assembled here: it needs no compiler.

package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

const (
	xdpPass = 2 // enum xdp_action, include/uapi/linux/bpf.h
	// struct xdp_md, include/uapi/linux/bpf.h
	mdData, mdDataEnd, mdRxQueue = 0, 4, 16
	etherTypeOffset, etherHeader = 12, 14
	maxQueues                    = 1 << 16
)

// RedirectConfig says which frames the redirect program takes.
type RedirectConfig struct {
	EtherType uint16 // to take, in host order (0x88B5); 0 takes every frame
	Queues    int    // the number of slots in the map of sockets, 1 to 65536
	// Frags loads the program with BPF_F_XDP_HAS_FRAGS, which native mode needs
	// for an MTU above a page, and multi-buffer sockets in any mode.
	Frags bool
}

// RedirectProgram sends frames to the socket at slot rx_queue_index of Sockets. A frame of another
// EtherType, or of a queue without a socket, goes on to the kernel's stack (XDP_PASS).
type RedirectProgram struct {
	Program *ebpf.Program // for Attach
	Sockets *ebpf.Map     // for Socket.Register
}

// NewRedirectProgram loads the program. Errors: ErrConfig, ErrPermission.
func NewRedirectProgram(c RedirectConfig) (*RedirectProgram, error) {
	const doing = "load redirect program"
	if c.Queues < 1 || c.Queues > maxQueues {
		return nil, refuse(doing, "%d queues; use 1 to %d", c.Queues, maxQueues)
	}
	// Kernels before 5.11 charge BPF memory to RLIMIT_MEMLOCK; later ones make this a no-op.
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, bpfFault(doing, err)
	}
	sockets, err := ebpf.NewMap(&ebpf.MapSpec{Name: "xdp_sockets", Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4,
		MaxEntries: uint32(c.Queues)})
	if err != nil {
		return nil, bpfFault(doing, err)
	}
	spec := &ebpf.ProgramSpec{Name: "xdp_redirect", Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: redirectCode(c.EtherType, sockets.FD())}
	if c.Frags {
		spec.Flags = unix.BPF_F_XDP_HAS_FRAGS
	}
	program, err := ebpf.NewProgram(spec)
	if err != nil {
		return nil, errors.Join(bpfFault(doing, err), sockets.Close())
	}
	return &RedirectProgram{Program: program, Sockets: sockets}, nil
}

// redirectCode returns the instructions of the program. R1 is the struct xdp_md.
func redirectCode(etherType uint16, sockets int) asm.Instructions {
	var code asm.Instructions
	if etherType != 0 {
		// A half word is loaded in host order; the frame has network order.
		wire := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, etherType))
		code = append(code,
			asm.LoadMem(asm.R2, asm.R1, mdData, asm.Word),
			asm.LoadMem(asm.R3, asm.R1, mdDataEnd, asm.Word),
			asm.Mov.Reg(asm.R4, asm.R2),
			asm.Add.Imm(asm.R4, etherHeader),
			asm.JGT.Reg(asm.R4, asm.R3, "pass"),
			asm.LoadMem(asm.R5, asm.R2, etherTypeOffset, asm.Half),
			asm.JNE.Imm(asm.R5, int32(wire), "pass"),
		)
	}
	code = append(code,
		asm.LoadMem(asm.R2, asm.R1, mdRxQueue, asm.Word),
		asm.LoadMapPtr(asm.R1, sockets),
		// The verdict for an empty slot (Linux 5.3).
		asm.Mov.Imm(asm.R3, xdpPass),
		asm.FnRedirectMap.Call(),
		asm.Return(),
	)
	if etherType == 0 {
		return code // nothing jumps to "pass", and the verifier refuses dead code
	}
	return append(code, asm.Mov.Imm(asm.R0, xdpPass).WithSymbol("pass"), asm.Return())
}

// bpfFault adds to an error the capabilities that loading needs.
func bpfFault(doing string, err error) error {
	if errors.Is(err, unix.EPERM) { // without the library's guess at limits of locked memory
		return fault(doing, ErrPermission, unix.EPERM, "run as root or with CAP_BPF and CAP_NET_ADMIN")
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Close closes program and map. What is attached stays attached until its Attachment is closed.
func (r *RedirectProgram) Close() error {
	return errors.Join(r.Program.Close(), r.Sockets.Close())
}
