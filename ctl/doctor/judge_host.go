package doctor

// This file judges the host.

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// FUNet's requirements of a host.
const (
	leastMemlock = 2 << 20 // the UMEM of an interface of one queue at an MTU of 1500, in bytes
)

// kernels are the kernel versions that introduced features.
var kernels = []struct {
	major, minor int
	what         string
}{
	{5, 11, "BPF memory is not counted against the memory lock limit"},
	{5, 18, "jumbo frames in generic mode"},
	{6, 0, "shared memory that nobody can make holes in"},
	{6, 6, "AF_XDP frames of several buffers"},
	{6, 18, "zero-copy on virtio-net"},
}

// judgeHost judges the host for a user who makes a card there. If served, a funid answers, and the
// host is judged for the users of that funid.
func judgeHost(h *Host, served bool) []Finding {
	a := &about{subject: "host"}
	h.judgeKernel(a)
	switch {
	case len(h.Missing) > 0 && served:
		a.ok("capabilities", "this process lacks %s; with the funid that answers it needs none",
			strings.Join(h.Missing, ", "))
	case len(h.Missing) > 0:
		a.fail("capabilities",
			"run as root to open a card or to start funid; attaching to a funid that runs needs none",
			"this process lacks %s", strings.Join(h.Missing, ", "))
	default:
		a.ok("capabilities", "those that make a card are there")
	}
	switch {
	case h.MayLock:
		a.ok("memory lock", "no limit (CAP_IPC_LOCK)")
	case h.Memlock == math.MaxUint64:
		a.ok("memory lock", "no limit")
	case h.Memlock < leastMemlock && served:
		a.ok("memory lock", "%s may be locked; with the funid that answers none need be", bytesOf(h.Memlock))
	case h.Memlock < leastMemlock:
		a.fail("memory lock",
			"raise it: `ulimit -l unlimited`, memlock in /etc/security/limits.conf, or LimitMEMLOCK=infinity in funid's unit",
			"%s may be locked, an interface needs %s for each of its queues", bytesOf(h.Memlock), bytesOf(leastMemlock))
	default:
		a.ok("memory lock", "%s may be locked", bytesOf(h.Memlock))
	}
	switch {
	case h.WantHuge && h.HugeFree == 0:
		a.fail("huge pages", "reserve some: `sysctl vm.nr_hugepages=16`, or do without huge_pages",
			"none of %s is free, and they are wanted", bytesOf(uint64(h.HugeBytes)))
	case h.HugeFree == 0:
		a.ok("huge pages", "none is reserved; FUNet needs none")
	default:
		a.ok("huge pages", "%d of %s are free", h.HugeFree, bytesOf(uint64(h.HugeBytes)))
	}
	slow := slices.DeleteFunc(slices.Clone(h.Governors), func(g string) bool { return g == "performance" })
	switch {
	case len(slow) > 0:
		a.warn("governor", "for the shortest round trips: `cpupower frequency-set -g performance`",
			"processors are scaled by %s", strings.Join(slow, ", "))
	case len(h.Governors) == 0:
		a.ok("governor", "the kernel does not scale frequencies here")
	default:
		a.ok("governor", "performance")
	}
	switch {
	case h.Processors < 2:
		a.warn("processors", "give the host two processors, or expect tens of microseconds",
			"one, which the card and every program share")
	case h.Isolated != "":
		a.ok("processors", "%d, isolated: %s; pin the card to one of these (cpu: in funid's configuration)",
			h.Processors, h.Isolated)
	default:
		a.ok("processors", "%d, none isolated", h.Processors)
	}
	switch {
	case slices.Contains([]string{"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"}, h.Clock):
		a.ok("clock source", "%s", h.Clock)
	case slices.Contains(h.Clocks, "tsc"):
		a.warn("clock source",
			"`echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource`, if the kernel log does not call the TSC unstable",
			"%s, and reading it costs a microsecond or more", h.Clock)
	default:
		a.warn("clock source", "boot with one that is read without a system call, or expect slower round trips",
			"%s, and reading it costs a microsecond or more", h.Clock)
	}
	if h.Synchronised {
		a.ok("clock", "synchronised")
	} else {
		a.warn("clock", "start chrony or systemd-timesyncd; logs and captures of two hosts cannot be compared without",
			"not synchronised; FUNet itself does not need it")
	}
	if h.Autogroup {
		a.warn("scheduler", "`sysctl kernel.sched_autogroup_enabled=0` where programs and funid share processors",
			"sessions are scheduling groups (autogroup): a daemon and a program of two sessions pass a processor on slowly")
	} else {
		a.ok("scheduler", "sessions are not scheduling groups")
	}
	return a.list
}

func (h *Host) judgeKernel(a *about) {
	before := func(major, minor int) bool { return h.Major < major || h.Major == major && h.Minor < minor }
	var lacks []string
	for _, k := range kernels {
		if before(k.major, k.minor) {
			lacks = append(lacks, fmt.Sprintf("%s (%d.%d)", k.what, k.major, k.minor))
		}
	}
	switch {
	case before(5, 9):
		a.fail("kernel", "install Linux 5.11 or later", "%s has no bpf_link for XDP (5.9)", h.Kernel)
	case before(5, 11):
		a.warn("kernel", "install Linux 5.11 or later", "%s; it lacks %s", h.Kernel, strings.Join(lacks, ", "))
	case len(lacks) > 0:
		a.ok("kernel", "%s; later ones have %s", h.Kernel, strings.Join(lacks, ", "))
	default:
		a.ok("kernel", "%s", h.Kernel)
	}
	switch {
	case h.AFXDP == nil:
		a.ok("AF_XDP", "sockets can be had")
	case len(h.Missing) > 0:
		a.warn("AF_XDP", "look as root", "not to be found out by this user (%v)", h.AFXDP)
	default:
		a.fail("AF_XDP",
			"use a kernel with CONFIG_XDP_SOCKETS, and a container or service that allows the address family (RestrictAddressFamilies=AF_XDP)", "no socket can be had: %v", h.AFXDP)
	}
}

// bytesOf writes a number of bytes in the largest unit that divides it.
func bytesOf(n uint64) string {
	for _, u := range []struct {
		size uint64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size && n%u.size == 0 {
			return fmt.Sprintf("%d %s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
