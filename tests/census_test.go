package tests

// This file is the census: what a test's processes have made in the kernel, and
// whether it is gone.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
)

// marked returns the processes with a mark; a zombie has no environment and is none.
func marked(mark string) (pids []int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is good
	for _, path := range paths {
		environ, err := os.ReadFile(path)
		if err != nil || !slices.Contains(strings.Split(string(environ), "\x00"), markEnv+"="+mark) {
			continue // gone, or not ours
		}
		if pid, err := strconv.Atoi(strings.Split(path, "/")[2]); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// holdings are what processes hold in the kernel.
type holdings struct {
	processes  []int
	namespaces map[uint64]uint64 // network namespaces besides the machine's: inode to cookie
	programs   []ebpf.ProgramID  // named funet_nic
	maps       []ebpf.MapID      // whose names begin with funet_
	links      []link.ID
}

// hold follows a mark to what its processes hold now.
func hold(t *testing.T, mark string) holdings {
	t.Helper()
	h := holdings{processes: marked(mark), namespaces: map[uint64]uint64{}}
	home := inode("/proc/self/ns/net")
	for _, pid := range h.processes {
		// the pattern is good
		paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/ns/net", pid))
		for _, path := range paths {
			ino := inode(path)
			if ino == 0 || ino == home || h.namespaces[ino] != 0 {
				continue
			}
			if c := cookie(t, path); c != 0 {
				h.namespaces[ino] = c
			}
		}
		infos, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/[0-9]*", pid)) // the pattern is good
		for _, path := range infos {
			h.note(path)
		}
	}
	return h
}

// note adds the eBPF object that a file descriptor stands for (proc(5), fdinfo).
func (h *holdings) note(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return // closed meanwhile
	}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		key, value, _ := strings.Cut(s.Text(), ":")
		id, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32)
		if err != nil {
			continue
		}
		switch key {
		case "prog_id":
			if name, ok := programName(ebpf.ProgramID(id)); ok && name == "funet_nic" &&
				!slices.Contains(h.programs, ebpf.ProgramID(id)) {
				h.programs = append(h.programs, ebpf.ProgramID(id))
			}
		case "map_id":
			if name, ok := mapName(ebpf.MapID(id)); ok && strings.HasPrefix(name, "funet_") &&
				!slices.Contains(h.maps, ebpf.MapID(id)) {
				h.maps = append(h.maps, ebpf.MapID(id))
			}
		case "link_id":
			h.links = append(h.links, link.ID(id))
		}
	}
}

func programName(id ebpf.ProgramID) (string, bool) {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return "", false
	}
	defer p.Close()
	info, err := p.Info()
	return info.Name, err == nil
}

func mapName(id ebpf.MapID) (string, bool) {
	m, err := ebpf.NewMapFromID(id)
	if err != nil {
		return "", false
	}
	defer m.Close()
	info, err := m.Info()
	return info.Name, err == nil
}

// inode identifies a namespace among those that exist now; 0 if there is none.
func inode(path string) uint64 {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	return st.Ino
}

// cookie identifies a network namespace among all that ever were (socket(7),
// SO_NETNS_COOKIE), because inodes are used again; 0 if the namespace has gone.
func cookie(t *testing.T, path string) (c uint64) {
	t.Helper()
	done := make(chan error)
	go func() {
		// The thread may not come home, and then ends with the goroutine.
		runtime.LockOSThread()
		done <- func() error {
			home, err := os.Open("/proc/thread-self/ns/net")
			if err != nil {
				return err
			}
			defer home.Close()
			there, err := os.Open(path)
			if err != nil {
				return nil
			}
			defer there.Close()
			if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			if c, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err != nil {
				return err
			}
			if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}
			runtime.UnlockOSThread()
			return nil
		}()
	}()
	if err := <-done; err != nil {
		t.Fatalf("asking for the cookie of %s: %v", path, err)
	}
	return c
}

// left says what there still is, "" if nothing.
func (h *holdings) left(t *testing.T, mark string) string {
	t.Helper()
	if pids := marked(mark); len(pids) != 0 {
		return fmt.Sprint("processes ", pids)
	}
	for _, pattern := range []string{"/proc/[0-9]*/task/[0-9]*/ns/net", "/proc/[0-9]*/fd/*", "/run/netns/*"} {
		paths, _ := filepath.Glob(pattern) // the patterns are good
		for _, path := range paths {
			if strings.Contains(path, "/fd/") {
				if to, _ := os.Readlink(path); !strings.HasPrefix(to, "net:[") {
					continue
				}
			}
			if was := h.namespaces[inode(path)]; was != 0 && cookie(t, path) == was {
				return fmt.Sprint("a namespace, held by ", path)
			}
		}
	}
	for id, err := ebpf.ProgramGetNextID(0); err == nil; id, err = ebpf.ProgramGetNextID(id) {
		if slices.Contains(h.programs, id) {
			return fmt.Sprint("program ", id)
		}
	}
	for id, err := ebpf.MapGetNextID(0); err == nil; id, err = ebpf.MapGetNextID(id) {
		if slices.Contains(h.maps, id) {
			return fmt.Sprint("map ", id)
		}
	}
	for _, id := range h.links {
		if l, err := link.NewFromID(id); err == nil {
			l.Close()
			return fmt.Sprint("eBPF link ", id)
		}
	}
	return ""
}

// gone waits until nothing is left of a process and what it held.
func (h *holdings) gone(t *testing.T, mark string) {
	t.Helper()
	left := ""
	defer func() {
		if t.Failed() && left != "" {
			t.Log("left behind:", left)
		}
	}()
	eventually(t, "nothing is left behind", func() bool {
		left = h.left(t, mark)
		return left == ""
	})
	outside(t)
}

// outside fails the test if there is anything outside namespaces: links on the
// machine, or objects pinned to the file system. Nothing of FUNet's is ever there.
func outside(t *testing.T) {
	t.Helper()
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if name := l.Attrs().Name; strings.HasPrefix(name, "fu") {
			t.Errorf("interface %s on the machine itself", name)
		}
	}
	pins, _ := filepath.Glob("/sys/fs/bpf/*") // the pattern is good
	for _, pin := range pins {
		if strings.HasPrefix(filepath.Base(pin), "fu") {
			t.Errorf("%s is pinned", pin)
		}
	}
}

// noLab fails the test if there is a state file or namespace of a lab.
func noLab(t *testing.T, name string) {
	t.Helper()
	for _, pattern := range []string{"/run/funet-labs/state/" + name + ".json*", "/run/netns/funet-" + name + "-*"} {
		if paths, _ := filepath.Glob(pattern); len(paths) != 0 {
			t.Errorf("left behind: %v", paths)
		}
	}
}

// attached returns the interfaces of a host that have an XDP program.
func attached(t *testing.T, l *lab.Lab, host int) (names []string) {
	t.Helper()
	err := l.Do(host, func() error {
		links, err := netlink.LinkList()
		for _, k := range links {
			if x := k.Attrs().Xdp; x != nil && x.Attached {
				names = append(names, k.Attrs().Name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// setLink sets an interface of a host up or down.
func setLink(t *testing.T, l *lab.Lab, host int, name string, up bool) {
	t.Helper()
	err := l.Do(host, func() error {
		k, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if up {
			return netlink.LinkSetUp(k)
		}
		return netlink.LinkSetDown(k)
	})
	if err != nil {
		t.Fatal(errors.Join(errors.New("setting "+name), err))
	}
}

// frames returns how many frames the first interface of a host has sent and received.
func frames(t *testing.T, l *lab.Lab, host int) (n uint64) {
	t.Helper()
	err := l.Do(host, func() error {
		k, err := netlink.LinkByName(l.Hosts()[host].Interfaces[0].Name)
		if err != nil {
			return err
		}
		s := k.Attrs().Statistics
		n = s.RxPackets + s.TxPackets
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
