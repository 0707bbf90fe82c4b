package daemon_test

// This file tests that a daemon notices that a driver no longer runs the NIC program.

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/xdp"
)

// Rule: when a driver forgets the native program (here it is detached behind the daemon's back),
// the daemon says so and attaches it anew. It finds out by the frames that the interface counts and
// the program does not. The job goes on, and the interface is not opened again. When that does not
// help generic mode takes its place, which the status tells.
func TestProgramNotRun(t *testing.T) {
	long.Test(t)
	b := newBed(t)
	patient := func(c *daemon.Config) {
		c.PeerTimeout, c.ConnectTimeout, c.Attach = time.Hour, time.Hour, xdp.AttachNative
	}
	var log logged
	daemons := []*running{b.start(0, func(c *daemon.Config) { patient(c); c.Log = log.add }), b.start(1, patient)}
	_, nodes := group(t, daemons, 0, 1)
	pingPong(t, nodes, 20)
	for _, c := range []struct{ says, mode string }{
		{"is not run any more; attached it anew", "native"},
		{"is not run any more; attached it anew in generic mode", "generic"},
	} {
		b.forgetProgram(0)
		until(t, "the daemon finds out", func() bool {
			if c.mode == "generic" {
				// again, if that one saw a frame and was therefore tried once more
				b.forgetProgram(0)
			}
			b.broadcast(1)
			return log.ends(c.says)
		})
		if s := linkOf(t, daemons[0]); s.XDPMode != c.mode || s.Reopened != 0 || s.State != report.LinkUp {
			t.Errorf("status %+v, want mode %s", s, c.mode)
		} else if left := strings.Contains(s.XDPWhy, "native mode was left"); left != (c.mode == "generic") {
			t.Errorf("in mode %s the status says %q", s.XDPMode, s.XDPWhy)
		}
	}
	pingPong(t, nodes, 200)
}

// ends reports whether a line ends so.
func (l *logged) ends(words string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool { return strings.HasSuffix(line, words) })
}

// forgetProgram detaches the native program of a host's interface, if there is one; who attached it
// is not told.
func (b *bed) forgetProgram(host int) {
	b.t.Helper()
	b.change(host, labInterface, func(l netlink.Link) error {
		x := l.Attrs().Xdp
		if x == nil || x.AttachMode != nl.XDP_ATTACHED_DRV {
			return nil
		}
		it := new(link.Iterator)
		defer it.Close()
		for it.Next() {
			info, err := it.Link.Info()
			if err != nil {
				return err
			}
			if at := info.XDP(); at != nil && int(at.Ifindex) == l.Attrs().Index && uint32(info.Program) == x.ProgId {
				return it.Link.Detach()
			}
		}
		return it.Err() // it has just been attached anew
	})
}

// broadcast sends a frame from a host's interface that is not FUNet's, past its daemon.
func (b *bed) broadcast(host int) {
	b.t.Helper()
	b.change(host, labInterface, func(l netlink.Link) error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		to := unix.SockaddrLinklayer{Protocol: 0xb688, Ifindex: l.Attrs().Index, Halen: 6,
			Addr: [8]byte{255, 255, 255, 255, 255, 255}}
		return unix.Sendto(fd, make([]byte, 50), 0, &to)
	})
}
