package main

// This file makes the network of guests whose NICs have several queues. A pair of datagram sockets
// serves one queue. Several queues need taps (Linux, Documentation/networking/tuntap.rst). Taps
// need a network namespace, where a bridge joins them.
//
// A process of its own makes the taps and hands them over. Its namespaces begin and end with it. It
// needs no privilege if the kernel lets any user have a user namespace, and /dev/net/tun can be
// opened. The network namespace lives while one of the taps is open, so nothing remains afterwards.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// networkName is the first argument of this process, which names it.
const networkName = "qemu-network"

// networkDeadline bounds the life of this process.
const networkDeadline = 30 * time.Second

// errNetwork reports that taps cannot be made.
var errNetwork = errors.New("taps")

// network joins the guests' NICs. It holds the descriptors of each guest's queues.
type network [2][]*os.File

func (n network) close() {
	for _, files := range n {
		for _, f := range files {
			f.Close()
		}
	}
}

// newNetwork makes a network for NICs with the given number of queues.
func newNetwork(ctx context.Context, k *keeper, queues int) (n network, err error) {
	if queues == 1 {
		return pairOfSockets()
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return n, fmt.Errorf("making a network: %w", err)
	}
	here, there := ends[0], os.NewFile(uintptr(ends[1]), "rig")
	defer unix.Close(here)
	defer there.Close()
	limited, cancel := context.WithTimeout(ctx, networkDeadline)
	defer cancel()
	var complaints strings.Builder
	cmd := exec.CommandContext(limited, "/proc/self/exe", fmt.Sprint(queues))
	cmd.Args[0] = networkName
	cmd.ExtraFiles = []*os.File{there}
	cmd.Stderr = &complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	if err := k.start(cmd); err != nil {
		return n, fmt.Errorf("%w for several queues: %w; as root it may be possible", errNetwork, err)
	}
	if err := cmd.Wait(); err != nil {
		return n, fmt.Errorf("%w for several queues: %s (%w); as root it may be possible", errNetwork,
			strings.TrimSpace(complaints.String()), err)
	}
	for host := range n {
		if n[host], err = receiveFiles(here, queues); err != nil {
			n.close()
			return n, fmt.Errorf("%w for several queues: %w", errNetwork, err)
		}
	}
	return n, nil
}

// pairOfSockets returns a network for NICs of one queue.
func pairOfSockets() (n network, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return n, fmt.Errorf("making a network: %w", err)
	}
	for host, fd := range ends {
		n[host] = []*os.File{os.NewFile(uintptr(fd), "network")}
	}
	return n, nil
}

// makeNetwork is the whole life of the process that makes a network. In any other process it
// returns at once.
func makeNetwork() {
	if os.Args[0] != networkName {
		return
	}
	queues := 0
	_, err := fmt.Sscan(strings.Join(os.Args[1:], " "), &queues)
	if err == nil {
		err = handOver(queues, 3)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
	os.Exit(0)
}

// handOver makes a bridge with two taps, and sends the descriptors of each tap through a socket.
func handOver(queues, to int) error {
	// The bridge has no business with what the guests say to each other.
	// else it says a few words itself
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	snooping := false
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "bridge"}, MulticastSnooping: &snooping}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("making a bridge: %w", err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return fmt.Errorf("setting the bridge up: %w", err)
	}
	for host := range 2 {
		name := fmt.Sprintf("tap%d", host)
		fds, err := openTap(name, queues)
		if err != nil {
			return err
		}
		tap, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := errors.Join(netlink.LinkSetMaster(tap, bridge), netlink.LinkSetUp(tap)); err != nil {
			return fmt.Errorf("joining %s to the bridge: %w", name, err)
		}
		if err := unix.Sendmsg(to, []byte{0}, unix.UnixRights(fds...), nil, 0); err != nil {
			return fmt.Errorf("handing %s over: %w", name, err)
		}
	}
	return nil
}

// openTap makes a tap and returns a descriptor for each of its queues.
func openTap(name string, queues int) (fds []int, err error) {
	for range queues {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return nil, fmt.Errorf("opening /dev/net/tun: %w", err)
		}
		q, err := unix.NewIfreq(name)
		if err != nil {
			return nil, err
		}
		q.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_MULTI_QUEUE)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, q); err != nil {
			return nil, fmt.Errorf("making %s: %w", name, err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// receiveFiles receives the given number of descriptors from a socket.
func receiveFiles(from, n int) (files []*os.File, err error) {
	var one [1]byte
	control := make([]byte, unix.CmsgSpace(4*n))
	_, size, _, _, err := unix.Recvmsg(from, one[:], control, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:size])
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "tap"))
		}
	}
	if len(files) != n {
		return files, fmt.Errorf("%d queues came, not %d", len(files), n)
	}
	return files, nil
}
