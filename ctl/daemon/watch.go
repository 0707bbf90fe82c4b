package daemon

// This file watches memory that can have holes, when the kernel or the capability for better memory
// is missing (memory.go). A process that makes a hole loses its context.
//
// While a process makes holes the card's thread takes faults, which are counted. When the count has
// grown the daemon searches all memory for missing pages. The more of its time the thread spends in
// such faults, the more likely a search finds one. A process may be interrupted while it punches a
// hole, and the thread then waits for it. The page is missing as long as the thread waits. So a
// process that does much harm is found at the first searches, within 10 ms, and does no more. But
// the wait that is under way is the kernel's, and nothing ends it. A hole where the machine has no
// page to give is a fault (fault.go).

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// watchEvery is the time between two looks at the thread's faults.
	watchEvery = 2 * time.Millisecond
	looks      = 4 // how many times memory is searched after faults
)

// watch ends the contexts of processes that make holes, until quit.
func (d *Daemon) watch(ended <-chan struct{}) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for last := int64(-1); ; {
		select {
		case <-t.C:
		case <-ended:
			return
		}
		now := minorFaults(int(d.loop.tid.Load()))
		if now == last {
			continue
		}
		last = now
		for range looks {
			for _, r := range d.memory.torn() {
				d.dismiss(r)
			}
		}
	}
}

// minorFaults returns the number of faults a thread has taken (proc(5), field 10 of stat), or -1.
func minorFaults(tid int) int64 {
	b, err := os.ReadFile(filepath.Join("/proc/self/task", strconv.Itoa(tid), "stat"))
	if err != nil {
		return -1
	}
	_, rest, _ := strings.Cut(string(b), ") ") // behind the name
	fields := strings.Fields(rest)
	if len(fields) < 8 {
		return -1
	}
	n, err := strconv.ParseInt(fields[7], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func (m *memory) torn() (those []*region) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for r := range m.all {
		var st unix.Stat_t
		if unix.Fstat(r.fd, &st) == nil && st.Blocks*512 < pages(int64(len(r.bytes))) {
			those = append(those, r)
		}
	}
	return those
}

// dismiss ends the contexts that use a region.
func (d *Daemon) dismiss(r *region) {
	_ = d.loop.do(func() { // a thread that has ended touches nothing any more
		d.loop.mendMemory(r)
		d.loop.call()
	})
}
