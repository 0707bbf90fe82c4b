package launch

// This file keeps a job of direct ports while daemons come and go: its processes do not need them to talk to each other, and the
// next daemon takes the job over from the one before, when its launcher asks for it again (daemon/resume.go).

import (
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
)

const (
	// lookAtDaemon is how often the connection to the daemon is looked at.
	lookAtDaemon = 20 * time.Millisecond
	// keepFor is how long a job is asked for again: as long as its processes show their tickets (package attach).
	keepFor = 30 * time.Second
)

// keep has the job asked for again when its connection ends. The caller holds talk.
func (l *local) keep(r attach.JobRequest) {
	request, err := r.Encode()
	if err != nil {
		return // it was encoded before
	}
	l.kept = make(chan struct{})
	go l.keeping(request, l.kept)
}

// keeping looks at the connection until the job need not be kept any more, or nobody takes it over.
func (l *local) keeping(request []byte, until <-chan struct{}) {
	t := time.NewTicker(lookAtDaemon)
	defer t.Stop()
	for left := time.Now(); time.Since(left) < keepFor; {
		select {
		case <-t.C:
		case <-until:
			return
		}
		if l.there(request) {
			left = time.Now()
		}
	}
}

// there reports whether the job's connection is there, or is again.
func (l *local) there(request []byte) bool {
	l.talk.Lock()
	defer l.talk.Unlock()
	if l.kept == nil {
		return true // it is free
	}
	if l.conn != nil && !hungUp(l.conn) {
		return true
	}
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
	answer, err := l.askLocked(request)
	if err == nil {
		_, err = attach.DecodeJobAnswer(answer)
	}
	if err != nil && l.conn != nil { // there is none, or it is about to end
		l.conn.Close()
		l.conn = nil
	}
	return err == nil
}

// hungUp reports whether the other end of a connection is gone.
func hungUp(c *net.UnixConn) (gone bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, _ := unix.Poll(p[:], 0)
		gone = n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return gone || err != nil
}
