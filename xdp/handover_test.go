// Sockets that are handed over: the user's thread has no capability and is in another network
// namespace.

package xdp

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// newMemfd makes memory for a UMEM as a process does that gives it away: sealed against shrinking.
func newMemfd(t *testing.T, size int64) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("umem", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	must(t, err)
	f := os.NewFile(uintptr(fd), "umem")
	t.Cleanup(func() { f.Close() })
	must(t, f.Truncate(size))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	must(t, err)
	return f
}

// asNobody runs f on a thread that has no capability.
func asNobody(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if err := unix.Capset(&header, &make([]unix.CapUserData, 2)[0]); err != nil {
			done <- err
			return
		}
		if fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err == nil {
			unix.Close(fd)
			done <- errors.New("the thread may make AF_XDP sockets, so nothing is tested")
			return
		}
		done <- f()
	}()
	must(t, <-done)
}

// Rule (Handover, Adopt): who has the capabilities makes the socket, on the other's memory, and
// forgets it; the other has the traffic.
func TestHandover(t *testing.T) {
	for _, mode := range []AttachMode{AttachGeneric, AttachNative} {
		for _, wakeup := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/wakeup=%v", mode, wakeup), func(t *testing.T) {
				l := newLab(t, labOptions{})
				other := l.openPort(1, portConfig{})
				other.fill(128)
				l.redirect(1, mode, RedirectConfig{EtherType: testEtherType}, other.sock)

				const frames = 256
				file := newMemfd(t, frames*4096)
				theirs, err := NewUMEM(UMEMConfig{FrameCount: frames, File: file})
				must(t, err)
				var fd int
				var info Info
				l.in(0, func() {
					fd, info, err = Handover(SocketConfig{Interface: labInterface, UMEM: theirs, NeedWakeup: wakeup},
						busyWait)
					must(t, err)
				})
				must(t, theirs.Close())

				mine, err := NewUMEM(UMEMConfig{FrameCount: frames, File: file})
				must(t, err)
				t.Cleanup(func() { must(t, mine.Close()) })
				p := &port{t: t, umem: mine, free: NewAllocator(mine, 0, frames)}
				asNobody(t, func() (err error) {
					p.sock, err = Adopt(fd, mine, info, nil)
					return err
				})
				t.Cleanup(func() { must(t, p.sock.Close()) })
				// as the other process would
				l.redirect(0, mode, RedirectConfig{EtherType: testEtherType}, p.sock)
				p.fill(128)
				exchange(t, p, other, 0, 14, 60, 64, 1514)
				exchange(t, other, p, 1, 14, 60, 64, 1514)
			})
		}
	}
}

// What cannot be handed over is refused, and so is what another process cannot mean.
func TestHandoverRefuses(t *testing.T) {
	l := newLab(t, labOptions{})
	file := newMemfd(t, 16*4096)
	if _, err := NewUMEM(UMEMConfig{FrameCount: 17, File: file}); !errors.Is(err, ErrConfig) {
		t.Errorf("a file that is too short: %v", err)
	}
	if _, err := NewUMEM(UMEMConfig{FrameCount: 16, File: file, HugePages: true}); !errors.Is(err, ErrConfig) {
		t.Errorf("huge pages of a file: %v", err)
	}
	u, err := NewUMEM(UMEMConfig{FrameCount: 16, File: file})
	must(t, err)
	defer u.Close()
	l.in(0, func() {
		for what, c := range map[string]SocketConfig{
			"frames": {Frames: []uint64{0}}, "busy polling": {BusyPoll: BusyPoll{Micros: 1}},
			"zero-copy": {Bind: BindZeroCopy},
		} {
			c.Interface, c.UMEM = labInterface, u
			if _, _, err := Handover(c, 0); !errors.Is(err, ErrConfig) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, _, err := Handover(SocketConfig{Interface: "nosuch0", UMEM: u}, 0); !errors.Is(err, ErrNoInterface) {
			t.Errorf("no interface: %v", err)
		}
	})
	for what, info := range map[string]Info{"no sizes": {},
		"a size of 3": {RxSize: 3, TxSize: 2, FillSize: 2, CompletionSize: 2}} {
		null, err := os.Open(os.DevNull)
		must(t, err)
		fd, err := unix.Dup(int(null.Fd()))
		must(t, errors.Join(err, null.Close()))
		if _, err := Adopt(fd, u, info, nil); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", what, err)
		}
	}
	null, err := os.Open(os.DevNull)
	must(t, err)
	fd, err := unix.Dup(int(null.Fd()))
	must(t, errors.Join(err, null.Close()))
	if s, err := Adopt(fd, u, Info{RxSize: 2, TxSize: 2, FillSize: 2, CompletionSize: 2}, nil); err == nil {
		s.Close()
		t.Error("a file that is no socket was adopted")
	}
}
