package daemon

// This file closes sockets without waiting. A client can send descriptors as soon as it connects.
// Closing the last reference of such a descriptor can take as long as its owner likes, by SO_LINGER
// (socket(7)). From Linux 6.16 on the kernel refuses descriptors that are sent to the daemon
// (listen.go), and closing is quick.
//
// Before that, sockets that are not served go to the undertaker. It starts a thread with a copy of
// the descriptor table (unshare(2), CLONE_FILES). Then it closes the sockets in the daemon's table,
// where they are not the last references, and lets the thread end. The kernel does not linger for a
// thread that ends (PF_EXITING in inet_release, af_inet.c, and in the other families).

import (
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	// mostGraves bounds the sockets that wait for the undertaker. When there are more the accept
	// loop waits; no user can make it wait longer.
	mostGraves  = 1024
	burialBatch = 256 // how many sockets are closed with one thread
)

// shed closes a connection that is not served. Only the accept loop calls it.
func (d *Daemon) shed(fd int) {
	if d.listener.pure {
		_ = unix.Close(fd)
		return
	}
	// Nothing more comes in, and the process sees its end.
	_ = unix.Shutdown(fd, unix.SHUT_RDWR)
	d.graves <- fd
}

// undertaker closes the sockets that were shed, until the channel is closed.
func undertaker(graves <-chan int) {
	for fd := range graves {
		batch := []int{fd}
		for len(batch) < burialBatch && len(graves) > 0 {
			batch = append(batch, <-graves)
		}
		bury(batch)
	}
}

// bury closes sockets, without waiting for descriptors in them.
func bury(fds []int) {
	copied, closed := make(chan struct{}), make(chan struct{})
	go grave(copied, closed)
	<-copied
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	close(closed)
}

// grave is the life of a thread that has a copy of the descriptor table. The Go runtime ends the
// thread of a goroutine that ends without unlocking it, except for the first thread of the process.
func grave(copied, closed chan struct{}) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		done := make(chan struct{})
		go func() {
			grave(copied, closed)
			close(done)
		}()
		<-done // so that it is another thread
		runtime.UnlockOSThread()
		return
	}
	_ = unix.Unshare(unix.CLONE_FILES) // refused, the caller waits instead
	close(copied)
	<-closed
}
