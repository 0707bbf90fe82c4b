package daemon

// This file keeps the card's thread from computing all the time while other threads want its
// processor. Otherwise a user that floods the card could make it do that. The kernel lets a thread
// that never sleeps wait for whole time slices, and everybody's messages would wait with it. The
// kernel runs a thread that sleeps more than it runs as soon as it has something to do.
//
// So the thread charges users for its work and rests, if it had to wait for its processor lately.
// It does so while several users use the card (engine.Card.Contended), or processes have direct
// ports. After each step that had work it reports how long the step took (engine.Card.Charge). The
// users for whom it worked rest for twice as long, so they get a third of the time.
//
// The thread itself sleeps for at least shortestRest. It sleeps longer when work that could not be
// put off, such as frames that arrive, has given accounts more than their time: resting times the
// excess, at most longestRest. Then it sleeps until there is something to do for users who do not
// rest, or until the rests end. So a user that has little to send waits for the shortest rest only,
// or not at all. The flood gets the remaining time of the card. Nothing changes on a machine with a
// processor to spare, or for a user that has card and host to itself.
//
// The thread also asks for the shortest time slice. Of two threads that may run the kernel takes
// the one with the shorter slice first, at once when it wakes up. The time that each gets in all
// stays the same (Linux, Documentation/scheduler/sched-eevdf.rst). Clients ask, too (package wait).
//
// The second number of the thread's schedstat says how long it was runnable and did not run (Linux,
// Documentation/scheduler/sched-stats.rst). Without schedstat the daemon never moderates.

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/wait"
)

const (
	sampled = int64(4 * time.Millisecond) // the time between two looks at the thread's schedstat
	// crowdedPart says when the processor counts as crowded: the thread waits for more than one
	// crowdedPart-th of the time.
	crowdedPart = 16
	crowdedFor  = int64(100 * time.Millisecond) // how long that finding is believed
	// resting is the ratio of the thread's rest to the excess time (Charge), within the bounds
	// shortestRest and longestRest. Each wake-up stops a process on the thread's processor: 10,000
	// a second with rests of 10 us. Beside attacks, users kept 0.40 to 0.45 of their rate then, and
	// 0.6 to 0.9 with 40 us (`make share`).
	resting      = 2
	shortestRest = int64(40 * time.Microsecond)
	longestRest  = int64(200 * time.Microsecond)
	timerSlack   = 1000 // how late the kernel may end a rest, in nanoseconds (prctl(2))
)

// moderation is the thread's record of how long it waits for its processor.
type moderation struct {
	schedstat int   // descriptor; -1: the kernel has none
	next      int64 // time of the next look
	at        int64 // time of the last look
	waited    int64 // nanoseconds waited until then
	until     int64 // time until which the processor counts as crowded
	buffer    [64]byte
}

// begin opens the schedstat, and asks for the shortest time slice and punctual timers. The thread
// itself calls it.
func (m *moderation) begin() {
	m.schedstat = -1
	if f, err := unix.Open(fmt.Sprintf("/proc/self/task/%d/schedstat", unix.Gettid()), unix.O_RDONLY|unix.O_CLOEXEC,
		0); err == nil {
		m.schedstat = f
	}
	wait.ShortSlice()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, timerSlack, 0, 0, 0) // else rests are longer
}

func (m *moderation) end() { closeFD(m.schedstat) }

// crowded reports whether other threads want the thread's processor.
func (m *moderation) crowded(now int64) bool {
	if now >= m.next && m.schedstat >= 0 {
		m.next = now + sampled
		if waited, ok := m.look(); ok {
			if m.at != 0 && (waited-m.waited)*crowdedPart > now-m.at {
				m.until = now + crowdedFor
			}
			m.at, m.waited = now, waited
		}
	}
	return now < m.until
}

// look reads how long the thread has waited.
func (m *moderation) look() (waited int64, ok bool) {
	n, err := unix.Pread(m.schedstat, m.buffer[:], 0)
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(m.buffer[:n])
	if len(fields) < 2 {
		return 0, false
	}
	waited, err = strconv.ParseInt(string(fields[1]), 10, 64)
	return waited, err == nil
}

// harms reports whether the thread's work may delay users other than those that it is for.
func (l *loop) harms(now int64) bool {
	crowded := l.moderation.crowded(now)
	if crowded && l.ports.Load() > 0 {
		l.card.Beside(now)
	}
	return crowded && l.card.Contended()
}

// moderate rests after a step that had work.
func (l *loop) moderate() {
	now := l.clock()
	if !l.harms(now) {
		return
	}
	over := l.card.Charge(now, now-l.now)
	t := unix.NsecToTimespec(min(max(resting*over, shortestRest), longestRest))
	_ = unix.Nanosleep(&t, nil) // a signal ends it early, which does no harm
	if l.nap() {
		l.sleep()
	}
}
