package guest

// This file is `guest pass INTERFACE MODE` and `guest unpass INTERFACE`. They attach and detach an
// XDP program that lets every frame pass. The kernel's own traffic beside it shows the cost of the
// driver's XDP mode, apart from the cost of FUNet.

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/funet/funet/bpf"
)

// pinned returns the path that keeps the attachment when the process has ended.
func pinned(name string) string { return filepath.Join("/sys/fs/bpf", "pass-"+name) }

// load loads the hub program and the guards of ports: no guest is a router, and few have ports.
// Older verifiers are stricter.
func load() error {
	h, err := bpf.LoadHub()
	if err != nil {
		return err
	}
	const loopback = 1
	if err := errors.Join(h.SetPort(0, bpf.HubPort{Interface: loopback}), h.Close()); err != nil {
		return err
	}
	s, err := bpf.LoadSwitch(1)
	if err != nil {
		return err
	}
	return s.Close()
}

// xdpPass is XDP_PASS of linux/bpf.h.
const xdpPass = 2

// pass attaches the program in a mode, native or generic. It waits until the link is up, as some
// drivers reset it.
func pass(args []string) error {
	if len(args) != 2 {
		return errors.New("name the interface and the mode")
	}
	modes := map[string]link.XDPAttachFlags{"native": link.XDPDriverMode, "generic": link.XDPGenericMode}
	mode, ok := modes[args[1]]
	if !ok {
		return fmt.Errorf("mode %q: use native or generic", args[1])
	}
	nic, err := netlink.LinkByName(args[0])
	if err != nil {
		return err
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "pass", Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()}})
	if err != nil {
		return fmt.Errorf("loading a program: %w", err)
	}
	defer p.Close()
	l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: nic.Attrs().Index, Flags: mode})
	if err != nil {
		return fmt.Errorf("attaching a program to %s, %s: %w", args[0], args[1], err)
	}
	defer l.Close()
	if err := l.Pin(pinned(args[0])); err != nil {
		return err
	}
	return waitForLink(args[0], time.Now().Add(carrierDeadline))
}

// unpass detaches the program and waits for the link.
func unpass(args []string) error {
	if len(args) != 1 {
		return errors.New("name the interface")
	}
	l, err := link.LoadPinnedLink(pinned(args[0]), nil)
	if err != nil {
		return err
	}
	defer l.Close()
	// the kernel may put off what Unpin alone ends
	if err := errors.Join(l.Detach(), l.Unpin()); err != nil {
		return err
	}
	return waitForLink(args[0], time.Now().Add(carrierDeadline))
}
