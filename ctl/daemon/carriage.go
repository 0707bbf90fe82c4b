package daemon

// This file decides how the messages of jobs travel: through the daemon's card, or by direct ports,
// which a helper makes. That is decided once, at the start, before capabilities are dropped. Direct
// ports are used only if test ports have carried frames (ports.Client.Prove).

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/xdp"
)

// ChooseCarriage decides how messages travel. With DirectCarriage and AutoCarriage it starts the
// helper (StartPorts, with these arguments) and proves ports with frames. It sets CarriageWhy, and
// Ports if there are any. Call it before Open, with the same capabilities and in the same network
// namespace. With AutoCarriage only the end of the context and an invalid configuration are errors.
func ChooseCarriage(ctx context.Context, cfg *Config, args ...string) error {
	if cfg.Carriage == config.DaemonCarriage {
		return nil
	}
	full, err := cfg.complete()
	if err != nil {
		return fmt.Errorf("starting funid: %w", err)
	}
	var why error
	cfg.Ports, cfg.CarriageWhy, why = provenPorts(ctx, &full, args)
	switch {
	case why == nil:
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case cfg.Carriage == config.DirectCarriage:
		return fmt.Errorf("starting funid: carriage direct: %w; leave carriage out, or let it be auto", why)
	default:
		cfg.CarriageWhy = strings.ReplaceAll(why.Error(), "\n", "; ")
	}
	return nil
}

// provenPorts starts the helper, proves its ports, and describes the proof.
func provenPorts(ctx context.Context, cfg *Config, args []string) (_ *ports.Client, proof string, err error) {
	index, mtu, modes := 0, ports.MaxMTU, []xdp.AttachMode{xdp.AttachNative}
	for _, name := range cfg.Interfaces {
		i, err := net.InterfaceByName(name)
		if err != nil {
			return nil, "", fmt.Errorf("interface %s: %w", name, err)
		}
		index, mtu = i.Index, min(mtu, i.MTU)
		if k, err := xdp.KindOf(name); err == nil && k.Name == "device" || cfg.Attach == xdp.AttachNative {
			continue
		}
		// which of the two ports have says portMode
		if modes = append(modes[:1], xdp.AttachGeneric); cfg.Attach == xdp.AttachGeneric {
			modes = modes[1:]
		}
	}
	c, err := StartPorts(ctx, cfg, args...)
	if err != nil {
		return nil, "", err
	}
	for _, mode := range modes {
		p, err := c.Prove(ctx, index, mtu, mode)
		switch {
		case errors.Is(err, ports.ErrFull):
			return c, "processes have ports of this host already", nil
		case err != nil:
			return nil, "", errors.Join(err, c.Quit())
		}
		proof = p.String()
	}
	return c, proof, nil
}

// mostCarriageWhy bounds the bytes of attach.Carriage.Why.
const mostCarriageWhy = 512

func (d *Daemon) carriage() attach.Carriage {
	s := attach.Carriage{Configured: d.cfg.Carriage.String(), Chosen: attach.CarriageDaemon, Why: d.cfg.CarriageWhy}
	if d.cfg.Ports != nil {
		s.Chosen = attach.CarriageDirect
	}
	s.Why = strings.ToValidUTF8(s.Why[:min(len(s.Why), mostCarriageWhy)], "")
	return s
}

func (d *Daemon) tellCarriage() {
	switch s := d.carriage(); {
	case s.Configured == attach.CarriageDaemon:
	case s.Chosen == attach.CarriageDaemon:
		d.cfg.Logger.Warn("there are no direct ports, and all messages travel by the daemon: " + s.Why)
	case s.Why != "":
		d.cfg.Logger.Info("jobs may have direct ports: " + s.Why)
	}
}

// startSelf starts this program anew, and returns a connection to it. The new process inherits the
// other end.
func startSelf(args []string) (*net.UnixConn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	its, ours := os.NewFile(uintptr(pair[1]), "helper"), os.NewFile(uintptr(pair[0]), "helper")
	defer its.Close()
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0], cmd.Stderr, cmd.ExtraFiles = os.Args[0], os.Stderr, []*os.File{its}
	if err := cmd.Start(); err != nil {
		conn.Close()
		return nil, err
	}
	go func() { _ = cmd.Wait() }() // whoever asks it for something notices
	return conn.(*net.UnixConn), nil
}
