package daemon

import (
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Rule: a thread that may not go first is told so, with what would allow it, and goes on.
func TestPriorityThatIsRefused(t *testing.T) {
	said := make(chan string)
	go func() {
		runtime.LockOSThread() // and the goroutine ends with the thread
		none := unix.Rlimit{}
		if err := unix.Setrlimit(unix.RLIMIT_NICE, &none); err != nil {
			t.Error(err)
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)); e != 0 {
			t.Error(e)
		}
		said <- prefer()
	}()
	if s := <-said; !strings.HasPrefix(s, "nice 0: ") || !strings.Contains(s, "CAP_SYS_NICE") || strings.Contains(s, "\n") {
		t.Errorf("it says %q", s)
	}
}
