// Package fake listens in place of funid, for tests of programs that ask a daemon.
package fake

import (
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/funet/funet/uspace/attach"
)

// Daemon listens in a folder and returns the path of its socket. It serves each connection on a
// goroutine of its own: it passes the first message to answer, and closes the connection when
// answer returns. All of them end with the test. A test that wants no answer waits for
// t.Context in answer.
func Daemon(t testing.TB, dir string, answer func(c *net.UnixConn, request []byte)) (socket string) {
	t.Helper()
	socket = filepath.Join(dir, "funid.sock")
	l, err := net.ListenUnix(attach.Network, &net.UnixAddr{Name: socket, Net: attach.Network})
	if err != nil {
		t.Fatal(err)
	}
	var connections sync.WaitGroup
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			connections.Go(func() {
				defer c.Close()
				if request, _, err := attach.Receive(c, make([]byte, attach.MaxMessage), 0); err == nil {
					answer(c, request)
				}
			})
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-accepting
		connections.Wait()
	})
	return socket
}
