package doctor

// This file gathers facts of the host, from /proc, /sys and the kernel.

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// capabilities are those needed to make a card, the same as in package daemon.
var capabilities = []struct {
	number int
	name   string
}{{unix.CAP_NET_RAW, "CAP_NET_RAW"}, {unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {unix.CAP_BPF, "CAP_BPF"},
	{unix.CAP_PERFMON, "CAP_PERFMON"}}

func gatherHost(wantHuge bool) Host {
	h := Host{WantHuge: wantHuge, Processors: runtime.NumCPU()}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		h.Kernel = string(bytes.TrimRight(name.Release[:], "\x00"))
		h.Major, h.Minor = release(h.Kernel)
	}
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	h.AFXDP = err
	h.Kubernetes = os.Getenv("KUBERNETES_SERVICE_HOST") != "" || contents("/var/lib/kubelet/config.yaml") != ""
	h.gatherPrivileges()
	h.gatherHuge()
	for _, file := range glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor") {
		if g := line(file); g != "" && !slices.Contains(h.Governors, g) {
			h.Governors = append(h.Governors, g)
		}
	}
	h.Isolated = line("/sys/devices/system/cpu/isolated")
	h.Clock = line("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	h.Clocks = strings.Fields(line("/sys/devices/system/clocksource/clocksource0/available_clocksource"))
	var t unix.Timex
	_, err = unix.Adjtimex(&t)
	h.Synchronised = err == nil && t.Status&unix.STA_UNSYNC == 0
	h.Autogroup = line("/proc/sys/kernel/sched_autogroup_enabled") == "1"
	return h
}

func (h *Host) gatherPrivileges() {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) == nil {
		has := func(c int) bool { return data[c/32].Effective>>(c%32)&1 == 1 }
		for _, c := range capabilities {
			if !has(c.number) {
				h.Missing = append(h.Missing, c.name)
			}
		}
		h.MayLock = has(unix.CAP_IPC_LOCK)
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil {
		h.Memlock = limit.Cur
	}
}

func (h *Host) gatherHuge() {
	for _, l := range strings.Split(contents("/proc/meminfo"), "\n") {
		f := strings.Fields(l)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.Atoi(f[1])
		switch f[0] {
		case "HugePages_Free:":
			h.HugeFree = n
		case "Hugepagesize:":
			h.HugeBytes = n << 10
		}
	}
}

// release returns the first two numbers of a kernel's release name.
func release(s string) (major, minor int) {
	first, rest, _ := strings.Cut(s, ".")
	major, _ = strconv.Atoi(first)
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	minor, _ = strconv.Atoi(rest)
	return major, minor
}

func contents(file string) string {
	b, _ := os.ReadFile(file) // of what is not there nothing is known
	return string(b)
}

func line(file string) string { return strings.TrimSpace(contents(file)) }

func glob(pattern string) []string {
	list, _ := filepath.Glob(pattern) // the patterns are good
	return list
}
