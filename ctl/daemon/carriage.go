package daemon

// This file is how the messages of jobs travel: through the daemon's card, or by direct ports, which a helper makes.

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/xdp"
)

// Carriage says how messages of jobs travel.
type Carriage int

const (
	// DaemonCarriage: all through the daemon's card.
	DaemonCarriage Carriage = iota
	// DirectCarriage: those of jobs that ask for it by direct ports.
	DirectCarriage
)

var carriages = [...]string{"daemon", "direct"}

func (c Carriage) String() string { return carriages[c] }

// check refuses a configuration whose frames direct ports cannot have.
func (c Carriage) check(cfg *Config) error {
	encap := cfg.Peers.Encap
	if cfg.Encap != nil {
		encap = *cfg.Encap
	}
	switch {
	case c == DaemonCarriage && cfg.Helper != "":
		return fmt.Errorf("helper %s is for direct ports only; add carriage: direct, or leave it out", cfg.Helper)
	case c == DaemonCarriage:
		return nil
	case cfg.Helper != "" && !filepath.IsAbs(cfg.Helper):
		return fmt.Errorf("helper %q is not an absolute path", cfg.Helper)
	case encap == cluster.UDP:
		return errors.New("with encap: udp all messages travel by the daemon; leave carriage out")
	case cfg.VLAN != 0:
		return errors.New("with vlan all messages travel by the daemon; leave carriage out")
	case cfg.Jumbo:
		return errors.New("with jumbo all messages travel by the daemon; leave carriage out")
	}
	return nil
}

// works refuses an interface that direct ports cannot use: what a guard redirects passes generic programs by (bpf/doc.go, Ports),
// and on a veth the frames of other hosts are such.
func (c Carriage) works(i afxdp.Info) error {
	if c == DaemonCarriage || i.XDPMode != xdp.AttachGeneric {
		return nil
	}
	if k, err := xdp.KindOf(i.Interface); err != nil || k.Name != "veth" {
		return err
	}
	return fmt.Errorf("carriage direct: interface %s is a veth in generic mode; use xdp: native, or leave carriage out: %w", i.Interface, ErrConfig)
}

// startSelf starts this program anew, and returns a connection with what it inherits.
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
