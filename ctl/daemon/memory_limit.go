package daemon

// This file finds how much memory there is for contexts and segments if the configuration does not
// say. It is three quarters of the machine's, and at most what the daemon's memory cgroups leave
// beside the daemon itself. Shared memory counts for the cgroup that fills it first, which is the
// daemon's. A cgroup that exceeds its limit loses a process: the daemon.
//
// The limits are those of the cgroup and of all above it (Linux,
// Documentation/admin-guide/cgroup-v2.rst, memory.max; cgroup-v1/memory.rst,
// memory.limit_in_bytes). On a machine with both kinds each hierarchy is looked at. Limits change
// while a daemon runs (docker update, systemctl set-property), and it may be moved to another
// cgroup. So they are read again when memory is asked for, at most once each roomAgain.

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// besides is the least of a cgroup's limit that is left to the daemon, above a quarter.
	besides = 96 << 20
	// leastPart: contexts and segments get one leastPart-th of a limit in any case.
	leastPart = 4
	roomAgain = time.Second // how long an answer of roomFor is used
)

// room caches the last answer of roomFor. Any goroutine may call its methods.
type room struct {
	mu    sync.Mutex
	next  time.Time // when roomFor is asked again
	bytes int64
	why   string
}

// find asks roomFor if its last answer is too old. If roomFor fails the last answer is used;
// without one find fails.
func (r *room) find(root string, now time.Time) (bytes int64, why string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.next) {
		return r.bytes, r.why, nil
	}
	if bytes, why, err = roomFor(root); err != nil && r.why == "" {
		return 0, "", err
	}
	if err == nil {
		r.bytes, r.why = bytes, why
	}
	r.next = now.Add(roomAgain)
	return r.bytes, r.why, nil
}

// roomFor returns how many bytes there are for contexts and segments, and the limit that this
// follows from. Files are looked for under a root.
func roomFor(root string) (bytes int64, why string, err error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, "", fmt.Errorf("asking how much memory there is: %w", err)
	}
	total := int64(info.Totalram) * int64(info.Unit)
	bytes, why = total/4*3, "three quarters of the machine's"
	limit, file := cgroupLimit(root)
	if room := max(limit-max(limit/4, besides), limit/leastPart); limit < total && room < bytes {
		bytes, why = room, fmt.Sprintf("what the limit of %d bytes in %s leaves beside funid", limit, file)
	}
	return bytes, why, nil
}

// cgroupLimit returns the smallest limit of the memory cgroups of this process, and its file;
// math.MaxInt64: there is no limit.
func cgroupLimit(root string) (limit int64, file string) {
	limit = math.MaxInt64
	mine, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return limit, ""
	}
	mounts, err := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	if err != nil {
		return limit, ""
	}
	for line := range strings.Lines(string(mine)) { // number:controllers:path (cgroups(7))
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		name := "memory.max"
		if f[1] != "" {
			if !slices.Contains(strings.Split(f[1], ","), "memory") {
				continue
			}
			name = "memory.limit_in_bytes"
		}
		mount, path := cgroupMount(string(mounts), f[1] == "", f[2])
		if mount == "" {
			continue
		}
		for ; ; path = filepath.Dir(path) {
			at := filepath.Join(mount, path, name)
			if n, ok := readLimit(filepath.Join(root, at)); ok && n < limit {
				limit, file = n, at
			}
			if path == "/" {
				break
			}
		}
	}
	return limit, file
}

// cgroupMount returns the mount point of the memory hierarchy, and the path of a cgroup there; "":
// it is not mounted.
func cgroupMount(mounts string, unified bool, path string) (at, below string) {
	for line := range strings.Lines(mounts) { // proc_pid_mountinfo(5)
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(g) < 3 {
			continue
		}
		if unified && g[0] != "cgroup2" || !unified &&
			(g[0] != "cgroup" || !slices.Contains(strings.Split(g[2], ","), "memory")) {
			continue
		}
		// A container may see a part of the hierarchy only, from the fourth field on. A cgroup that
		// is not below it stands for that part.
		below, ok = strings.CutPrefix(path, strings.TrimSuffix(f[3], "/"))
		if !ok {
			below = ""
		}
		return f[4], filepath.Join("/", below)
	}
	return "", ""
}

// readLimit reads a limit in bytes. Missing files, and cgroups without a limit, give ok false.
func readLimit(path string) (n int64, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil && n > 0
}
