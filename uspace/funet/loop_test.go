package funet_test

// This file tests an endpoint in an event loop.

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/funet"
)

// loops are what an event loop sleeps in, given the descriptor: it returns when that is readable.
var loops = map[string]func(t *testing.T, fd int) (sleep func() error){
	"epoll": func(t *testing.T, fd int) func() error {
		outer, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err == nil {
			err = unix.EpollCtl(outer, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN})
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(outer) })
		return func() error {
			for {
				n, err := unix.EpollWait(outer, make([]unix.EpollEvent, 1), int(patience/time.Millisecond))
				if n == 0 && err == nil {
					return errors.New("nothing makes the descriptor readable")
				}
				if err != unix.EINTR {
					return err
				}
			}
		}
	},
	"Go's runtime": func(t *testing.T, fd int) func() error {
		own, err := unix.Dup(fd) // os.File closes what it has
		if err == nil {
			err = unix.SetNonblock(own, true)
		}
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(own), "funet")
		t.Cleanup(func() { f.Close() })
		raw, err := f.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		return func() error {
			if err := f.SetReadDeadline(time.Now().Add(patience)); err != nil {
				return err
			}
			return raw.Read(func(fd uintptr) bool { return readable(int(fd)) })
		}
	},
}

// readable reports whether a descriptor is.
func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, _ := unix.Poll(fds, 0)
	return n > 0
}

// Rule: an event loop that follows Arm's rule handles every message, also while other goroutines
// use the endpoint, whose polls take from the card what would have woken the loop.
func TestEventLoop(t *testing.T) {
	const messages = 500
	for name, loop := range loops {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, b *bed) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
				defer cancel()
				server, client := b.open(0), b.open(1)
				var handled atomic.Int64
				err := errors.Join(
					server.Handle(count, func(*funet.Message) error { handled.Add(1); return nil }),
					client.Serve(double, func(m *funet.Message) ([]byte, error) { return m.Bytes, nil }))
				if err != nil {
					t.Fatal(err)
				}
				fd, err := server.Fd()
				if err != nil {
					t.Fatal(err)
				}
				sleep := loop(t, fd)
				looped := make(chan error, 1)
				go func() {
					looped <- func() error {
						for handled.Load() < messages {
							n, err := server.Poll()
							if err != nil {
								return err
							}
							if n == 0 && handled.Load() < messages && server.Arm() {
								err := sleep()
								server.Disarm()
								if err != nil {
									return err
								}
							}
						}
						return nil
					}()
				}()
				clients := make(chan error, 2)
				go func() { // beside the loop, on the same endpoint
					for range messages / 10 {
						if _, err := server.Call(ctx, 1, double, nil); err != nil {
							clients <- err
							return
						}
						time.Sleep(300 * time.Microsecond)
					}
					clients <- nil
				}()
				go func() {
					for i := range messages {
						if err := client.Send(ctx, 0, count, nil); err != nil {
							clients <- err
							return
						}
						if i%20 == 0 { // it polls for the calls, too
							short, cancel := context.WithTimeout(ctx, time.Millisecond)
							_ = client.Run(short)
							cancel()
						}
					}
					clients <- nil
				}()
				serving, end := context.WithCancel(ctx)
				go func() { <-looped; end() }()
				sent := 0
				for sent < 2 {
					select {
					case err := <-clients:
						if err != nil {
							t.Fatal(err)
						}
						sent++
					case <-time.After(time.Millisecond):
						short, cancel := context.WithTimeout(ctx, time.Millisecond)
						_ = client.Run(short)
						cancel()
					}
				}
				if err := client.Run(serving); err != nil {
					t.Fatal(err)
				}
				if n := handled.Load(); n != messages {
					t.Errorf("%d messages were handled", n)
				}
			})
		})
	}
}
