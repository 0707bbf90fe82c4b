package paths

// This file has the UDP sockets that hold the source ports. They send the datagrams that make
// routers and neighbours answer, and read the answers.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/port/encap"
)

type sources struct {
	sockets []*net.UDPConn
	nudged  map[netip.Addr]nudge // by next hop; it belongs to the goroutine that makes rounds
}

// nudge records an empty datagram that was sent, or the error that prevented it.
type nudge struct {
	at  time.Time
	err error
}

// open opens the sockets and binds them to the interface.
func (s *sources) open(c *Config) error {
	four := c.Local.Is4()
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if e := raw.Control(func(fd uintptr) { err = prepare(int(fd), c.Interface, four) }); e != nil {
			return e
		}
		return err
	}}
	network, any := "udp6", "[::]:"
	if four {
		network, any = "udp4", "0.0.0.0:"
	}
	for i := range encap.Sources {
		port := int(c.Port) + i
		p, err := lc.ListenPacket(context.Background(), network, any+strconv.Itoa(port))
		if errors.Is(err, unix.EADDRINUSE) {
			return fmt.Errorf("%w: %d, one of %d from %d on; end who has it (`ss -ulpn`), or choose another on all hosts with `port:`", ErrPort, port, encap.Sources, c.Port)
		}
		if err != nil {
			return fmt.Errorf("holding UDP port %d: %w", port, err)
		}
		s.sockets = append(s.sockets, p.(*net.UDPConn))
	}
	return nil
}

// prepare sets a socket's options. It reports errors with the routers' answers, sends datagrams at
// their full length even where the kernel knows a smaller MTU, and keeps little of what arrives.
func prepare(fd int, ifname string, four bool) error {
	level, receive, discover, probe := unix.IPPROTO_IPV6, unix.IPV6_RECVERR, unix.IPV6_MTU_DISCOVER,
		unix.IPV6_PMTUDISC_PROBE
	if four {
		level, receive, discover, probe = unix.IPPROTO_IP, unix.IP_RECVERR, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE
	}
	return errors.Join(
		unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, ifname),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1<<14),
		unix.SetsockoptInt(fd, level, receive, 1),
		unix.SetsockoptInt(fd, level, discover, probe))
}

// probe sends each peer that has a path a datagram as long as the interface's MTU.
func (s *sources) probe(states []State, peers []encap.Peer, mtu int) {
	for i, p := range peers {
		if states[i].Missing == "" {
			// Where it cannot be sent, a way that turns out to be narrow is none later.
			_ = s.send(p.Address, min(mtu, 1<<16-1)-encap.Overhead(p.Address))
		}
	}
}

// nudge sends an empty datagram to a peer, so that the kernel resolves the next hop, or asks it
// whether it is still there. It sends at most one a second for each next hop.
func (s *sources) nudge(next, to netip.Addr) error {
	n, now := s.nudged[next], time.Now()
	if now.Sub(n.at) < refresh {
		return n.err
	}
	if s.nudged == nil || len(s.nudged) > 1<<12 { // next hops that there are no more
		s.nudged = map[netip.Addr]nudge{}
	}
	n = nudge{now, s.send(to, 0)}
	s.nudged[next] = n
	return n.err
}

// send sends zeros to a port that the peer's NIC program ignores. A socket like these takes them
// there, or the peer's kernel answers that nobody does.
func (s *sources) send(to netip.Addr, bytes int) (err error) {
	port := uint16(s.sockets[1].LocalAddr().(*net.UDPAddr).Port)
	for range 2 { // an error that a router sent for an earlier one comes in place of sending
		if _, err = s.sockets[0].WriteToUDPAddrPort(make([]byte, bytes), netip.AddrPortFrom(to, port)); err == nil {
			break
		}
	}
	return err
}

// listen starts a goroutine for each socket that reads its errors.
func (s *sources) listen(f *Follower) {
	for _, c := range s.sockets {
		f.done.Go(func() { f.hear(c) })
	}
}

func (s *sources) close() {
	for _, c := range s.sockets {
		_ = c.Close()
	}
}

// atOnce is the number of errors that are read before the follower rests.
const atOnce = 16

// hear reads errors, and discards everything else that arrives, until the socket is closed.
func (f *Follower) hear(c *net.UDPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	data, control := make([]byte, 128), make([]byte, 512)
	for {
		n, news := 0, false
		err := raw.Read(func(fd uintptr) bool {
			for n < atOnce {
				_, controls, _, from, err := unix.Recvmsg(int(fd), data, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
				if err != nil {
					break
				}
				n++
				news = f.note(from, control[:controls]) || news
			}
			for n < atOnce {
				if _, _, err := unix.Recvfrom(int(fd), data, unix.MSG_DONTWAIT|unix.MSG_TRUNC); errors.Is(err,
					unix.EAGAIN) {
					break
				}
				n++ // also an error that a router has sent: it has been read
			}
			return n > 0
		})
		if err != nil {
			return
		}
		if news { // what strangers send makes no work
			f.changed()
		}
		select {
		case <-f.quit:
			return
		case <-time.After(pause / 10):
		}
	}
}

// note keeps an ICMP error for the peer that the datagram was for, and reports whether there is
// one.
func (f *Follower) note(to unix.Sockaddr, control []byte) (known bool) {
	var peer netip.Addr
	switch a := to.(type) {
	case *unix.SockaddrInet4:
		peer = netip.AddrFrom4(a.Addr)
	case *unix.SockaddrInet6:
		peer = netip.AddrFrom16(a.Addr).Unmap()
	}
	f.mu.Lock()
	if known = slices.ContainsFunc(f.peers, func(p encap.Peer) bool { return p.Address == peer }); known {
		if f.doubts.hosts == nil {
			f.doubts.hosts = map[netip.Addr]bool{}
		}
		f.doubts.hosts[peer] = true // the kernel may have noted another MTU
	}
	f.mu.Unlock()
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil || !known {
		return known
	}
	for _, m := range messages {
		if m.Header.Type != unix.IP_RECVERR && m.Header.Type != unix.IPV6_RECVERR ||
			len(m.Data) < int(unsafe.Sizeof(unix.SockExtendedErr{})) {
			continue
		}
		text := explain(m.Data)
		if text == "" {
			continue
		}
		f.mu.Lock()
		f.heard[peer] = heard{text, time.Now()}
		f.mu.Unlock()
	}
	return true
}

// explain returns the meaning and the sender of an extended error, or "" if it is of no interest. A
// datagram that was too long is no error, because the kernel has noted the path's MTU.
func explain(data []byte) string {
	e := unix.SockExtendedErr{Errno: binary.NativeEndian.Uint32(data), Origin: data[4], Type: data[5], Code: data[6],
		Info: binary.NativeEndian.Uint32(data[8:])}
	if e.Origin != unix.SO_EE_ORIGIN_ICMP && e.Origin != unix.SO_EE_ORIGIN_ICMP6 ||
		unix.Errno(e.Errno) == unix.EMSGSIZE {
		return ""
	}
	who := "a router"
	switch offender := data[unsafe.Sizeof(e):]; {
	case len(offender) >= 8 && binary.NativeEndian.Uint16(offender) == unix.AF_INET:
		who = netip.AddrFrom4([4]byte(offender[4:8])).String()
	case len(offender) >= 24 && binary.NativeEndian.Uint16(offender) == unix.AF_INET6:
		who = netip.AddrFrom16([16]byte(offender[8:24])).String()
	}
	what := unix.Errno(e.Errno).Error()
	switch meant[icmp{e.Origin == unix.SO_EE_ORIGIN_ICMP6, e.Type, e.Code}] {
	case nobody:
		what = "nobody has the UDP port there; see that FUNet runs on that host, with the same port"
	case filtered:
		what = "prohibited by a filter"
	case expired:
		what = "the datagram went round in circles; look at the routes of the routers"
	case unreachable:
		what = "host or network unreachable"
	}
	return fmt.Sprintf("%s answers: %s (ICMP type %d, code %d)", who, what, e.Type, e.Code)
}

// icmp is a kind of ICMP error; meaning is its meaning for a path.
type icmp struct {
	six        bool
	kind, code uint8
}

type meaning int

const (
	other meaning = iota
	nobody
	filtered
	expired
	unreachable
)

// meant maps the errors that routers and hosts send to their meanings (RFC 792, RFC 1812 5.2.7, RFC
// 4443 3).
var meant = map[icmp]meaning{
	{false, 3, 3}: nobody, {true, 1, 4}: nobody,
	{false, 3, 9}: filtered, {false, 3, 10}: filtered, {false, 3, 13}: filtered, {true, 1, 1}: filtered,
	{true, 1, 5}: filtered, {true, 1, 6}: filtered,
	{false, 11, 0}: expired, {true, 3, 0}: expired,
	{false, 3, 0}: unreachable, {false, 3, 1}: unreachable, {true, 1, 0}: unreachable, {true, 1, 3}: unreachable,
}
