package guest

// This file brings a guest up.

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ModuleDir is the folder with a guest's kernel modules, named in the order in which they are
// loaded.
const ModuleDir = "/modules"

// HostParameter is the kernel parameter with the number of the guest's host.
const HostParameter = "funet.host="

// QueuesParameter is the kernel parameter with the number of queues that the guest's NIC should
// have.
const QueuesParameter = "funet.queues="

// searchPath is PATH in a guest.
const searchPath = "/bin:/sbin:/usr/bin:/usr/sbin"

// carrierDeadline bounds the wait for the NIC's link.
const carrierDeadline = 30 * time.Second

// live is the life of a guest's first process. It does not return.
func live() {
	agent, err := openAgent()
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1) // the kernel stops, and the machine with it
	}
	hello, err := boot()
	if err != nil {
		hello.Error = err.Error()
	}
	agent.say(Word{Hello: &hello})
	agent.serve()
	os.Exit(1)
}

// boot mounts file systems, loads modules and sets up the NIC.
func boot() (h Hello, err error) {
	if err := os.Setenv("PATH", searchPath); err != nil {
		return h, err
	}
	for _, m := range []struct{ kind, at string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"tmpfs", "/run"},
		{"tmpfs", "/tmp"}, {"tmpfs", "/dev/shm"}, {"devpts", "/dev/pts"}, {"bpf", "/sys/fs/bpf"}} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return h, err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return h, fmt.Errorf("mounting %s: %w", m.at, err)
		}
	}
	for _, link := range [][2]string{{"/proc/self/fd", "/dev/fd"}, {"/proc/self/fd/0", "/dev/stdin"},
		{"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"}} {
		if err := os.Symlink(link[0], link[1]); err != nil && !errors.Is(err, os.ErrExist) {
			return h, err
		}
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return h, err
	}
	h.Kernel = strings.TrimSpace(string(release))
	if err := loadModules(); err != nil {
		return h, err
	}
	host, err := hostNumber()
	if err != nil {
		return h, err
	}
	if h.Interface, err = bringUp(host); err != nil {
		return h, err
	}
	driver, err := os.Readlink(filepath.Join("/sys/class/net", h.Interface, "device/driver"))
	if err != nil {
		return h, fmt.Errorf("asking for the driver of %s: %w", h.Interface, err)
	}
	h.Driver = filepath.Base(driver)
	go sink()
	return h, nil
}

// loadModules loads the modules that the rig has put into ModuleDir.
func loadModules() error {
	entries, err := os.ReadDir(ModuleDir) // sorted by name
	if err != nil {
		return err
	}
	for _, e := range entries {
		f, err := os.Open(filepath.Join(ModuleDir, e.Name()))
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil && err != unix.EEXIST {
			return fmt.Errorf("loading %s: %w", e.Name(), err)
		}
	}
	return nil
}

// hostNumber returns the number of this guest's host.
func hostNumber() (int, error) { return parameter(HostParameter) }

// parameter returns the value of a kernel parameter.
func parameter(name string) (value int, err error) {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return 0, err
	}
	for _, word := range strings.Fields(string(line)) {
		if n, ok := strings.CutPrefix(word, name); ok {
			_, err := fmt.Sscan(n, &value)
			return value, err
		}
	}
	return 0, fmt.Errorf("the kernel has no parameter %s", name)
}

// setQueues gives the NIC several queues, as drivers begin with at most one for each processor.
func setQueues(name string) error {
	queues, err := parameter(QueuesParameter)
	if err != nil || queues == 1 {
		return err
	}
	return channels([]string{name, fmt.Sprint(queues)})
}

// bringUp finds the NIC, gives it its address and waits for its link.
func bringUp(host int) (name string, err error) {
	deadline := time.Now().Add(carrierDeadline)
	if lo, err := netlink.LinkByName("lo"); err == nil {
		err = netlink.LinkSetUp(lo)
		if err != nil {
			return "", err
		}
	}
	var nic netlink.Link
	for nic == nil { // drivers probe devices in their own time
		links, err := netlink.LinkList()
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(links, func(l netlink.Link) bool {
			return bytes.Equal(l.Attrs().HardwareAddr, MAC(host))
		})
		switch {
		case i >= 0:
			nic = links[i]
		case time.Now().After(deadline):
			return "", fmt.Errorf("no interface has the address %v", MAC(host))
		default:
			time.Sleep(10 * time.Millisecond)
		}
	}
	name = nic.Attrs().Name
	address := &netlink.Addr{IPNet: &net.IPNet{IP: Address(host), Mask: net.CIDRMask(24, 32)}}
	if err := netlink.AddrAdd(nic, address); err != nil {
		return name, fmt.Errorf("giving %s its address: %w", name, err)
	}
	if err := setQueues(name); err != nil {
		return name, err
	}
	if err := netlink.LinkSetUp(nic); err != nil {
		return name, fmt.Errorf("setting %s up: %w", name, err)
	}
	return name, waitForLink(name, deadline)
}

// waitForLink waits until an interface has its link.
func waitForLink(name string, deadline time.Time) error {
	for {
		nic, err := netlink.LinkByName(name)
		switch {
		case err != nil:
			return err
		case nic.Attrs().RawFlags&unix.IFF_RUNNING != 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%s has no link after %v", name, carrierDeadline)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
