package daemon

// This file tests which limits of cgroups are found, with files as the kernel has them.

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/uspace/attach"
)

// Rule: without most_memory the card shares no more memory than the smallest limit of the daemon's
// memory cgroups leaves beside the daemon, whichever kind of hierarchy that is in and however far
// above; more is refused, with the limit.
func TestMemoryLimitOfCgroups(t *testing.T) {
	const v1 = "34 30 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	const v2 = "40 30 0:37 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
	const hybrid = "40 30 0:37 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
	for _, row := range []struct {
		name, mine, mounts string
		limits             map[string]string
		want               int64
		file               string
	}{
		{"none", "0::/a\n", v2, map[string]string{"/sys/fs/cgroup/a/memory.max": "max"}, math.MaxInt64, ""},
		{"v2", "0::/a/b\n", v2, map[string]string{"/sys/fs/cgroup/a/b/memory.max": "125829120",
			"/sys/fs/cgroup/a/memory.max": "max"}, 125829120, "/sys/fs/cgroup/a/b/memory.max"},
		{"v2, above", "0::/a/b\n", v2, map[string]string{"/sys/fs/cgroup/a/b/memory.max": "200000000",
			"/sys/fs/cgroup/a/memory.max": "125829120"}, 125829120, "/sys/fs/cgroup/a/memory.max"},
		{"v1", "9:name=systemd:/x\n4:cpu,memory:/a\n", v1,
			map[string]string{"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "125829120",
				"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, 125829120,
			"/sys/fs/cgroup/memory/a/memory.limit_in_bytes"},
		{"hybrid", "4:memory:/a\n0::/b\n", v1 + hybrid,
			map[string]string{"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "300000000",
				"/sys/fs/cgroup/unified/b/memory.max": "125829120"}, 125829120, "/sys/fs/cgroup/unified/b/memory.max"},
		{"a container's part", "0::/docker/c/d\n", strings.Replace(v2, " / ", " /docker/c ", 1),
			map[string]string{"/sys/fs/cgroup/d/memory.max": "125829120"}, 125829120, "/sys/fs/cgroup/d/memory.max"},
		{"a cgroup that is not visible", "0::/../x\n", v2, map[string]string{"/sys/fs/cgroup/memory.max": "125829120"},
			125829120, "/sys/fs/cgroup/memory.max"},
	} {
		t.Run(row.name, func(t *testing.T) {
			root := t.TempDir()
			files := map[string]string{"/proc/self/cgroup": row.mine, "/proc/self/mountinfo": row.mounts}
			for path, text := range row.limits {
				files[path] = text + "\n"
			}
			for path, text := range files {
				err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755)
				if err = errors.Join(err, os.WriteFile(filepath.Join(root, path), []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			if n, file := cgroupLimit(root); n != row.want || file != row.file {
				t.Fatalf("a limit of %d in %q, not %d in %q", n, file, row.want, row.file)
			}
			if row.file == "" {
				return
			}
			bytes, why, err := roomFor(root)
			if err != nil || bytes != row.want/leastPart && bytes != row.want-besides {
				t.Fatalf("room for %d bytes, %v", bytes, err)
			}
			c := capacity{contexts: 1 << 20, jobs: 1 << 20, pieces: 1 << 20, descriptors: 1 << 20,
				bytes: bytes, limit: why}
			err = c.reserved(7, usage{}, usage{}, usage{bytes: 200 << 20})
			if !errors.Is(err, attach.ErrQuota) || !strings.Contains(err.Error(), fmt.Sprint(row.want)) ||
				!strings.Contains(err.Error(), row.file) {
				t.Errorf("%v does not name the limit of %d in %s", err, row.want, row.file)
			}
		})
	}
}

// Rule: a limit that changes while the daemon runs, or that of another cgroup which it was moved
// to, counts within roomAgain; asking more often reads no files.
func TestRoomFollowsLimits(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/self/cgroup", "0::/a\n")
	write("proc/self/mountinfo", "40 30 0:37 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n")
	write("sys/fs/cgroup/a/memory.max", "max\n")
	r, now := &room{}, time.Now()
	find := func(want int64) {
		t.Helper()
		if bytes, why, err := r.find(root, now); err != nil || bytes != want {
			t.Errorf("room for %d bytes (%s), %v; not %d", bytes, why, err, want)
		}
	}
	all, _, err := roomFor(root)
	if err != nil {
		t.Fatal(err)
	}
	find(all)
	write("sys/fs/cgroup/a/memory.max", "41943040\n")
	now = now.Add(roomAgain - 1)
	find(all)
	now = now.Add(1)
	find(41943040 / leastPart)
	write("sys/fs/cgroup/b/memory.max", "83886080\n")
	write("proc/self/cgroup", "0::/b\n")
	now = now.Add(roomAgain)
	find(83886080 / leastPart)
}
