package funet_test

// This file shows what a program looks like.

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/funet"
)

// Two nodes of a job; each is a process of its own as a rule, which calls funet.Open with no
// options and is started by funet run. Here both are in this process (twoNodes).
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	program := func(e *funet.Endpoint) error {
		defer e.Close(ctx)
		// every node registers the same, first of all
		err := e.Serve(1, func(m *funet.Message) ([]byte, error) {
			return fmt.Appendf(nil, "hello %s, node %d speaking", m.Bytes, e.Node()), nil
		})
		if err != nil {
			return err
		}
		if e.Node() == 0 {
			answer, err := e.Call(ctx, 1, 1, []byte("world"))
			if err != nil {
				return err
			}
			fmt.Println(string(answer))
		}
		return e.Barrier(ctx) // and meanwhile answers calls
	}
	if err := twoNodes(program); err != nil {
		fmt.Println(err)
	}
	// Output: hello world, node 1 speaking
}

// An event loop of epoll(7): the endpoint is one of the descriptors that it waits for.
func ExampleEndpoint_Arm() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	program := func(e *funet.Endpoint) error {
		defer e.Close(ctx)
		greeted := false
		err := e.Handle(1, func(m *funet.Message) error {
			fmt.Printf("node %d says %s\n", m.Source, m.Bytes)
			greeted = true
			return nil
		})
		if err != nil {
			return err
		}
		if e.Node() == 1 {
			if err := e.Send(ctx, 0, 1, []byte("hello")); err != nil {
				return err
			}
			return e.Barrier(ctx)
		}
		fd, err := e.Fd()
		if err != nil {
			return err
		}
		loop, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return err
		}
		defer unix.Close(loop)
		if err := unix.EpollCtl(loop, unix.EPOLL_CTL_ADD, fd,
			&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return err
		}
		for !greeted {
			n, err := e.Poll()
			if err != nil {
				return err
			}
			if n > 0 || !e.Arm() { // something has happened: look again
				continue
			}
			_, err = unix.EpollWait(loop, make([]unix.EpollEvent, 8), -1)
			e.Disarm()
			if err != nil && err != unix.EINTR {
				return err
			}
		}
		return e.Barrier(ctx)
	}
	if err := twoNodes(program); err != nil {
		fmt.Println(err)
	}
	// Output: node 1 says hello
}

// Go's own runtime waits for the descriptor: the goroutine sleeps, and no thread does. (A goroutine
// that calls Run is simpler; its thread sleeps in the kernel.)
func ExampleEndpoint_Fd() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	program := func(e *funet.Endpoint) error {
		defer e.Close(ctx)
		greeted := false
		err := e.Handle(1, func(m *funet.Message) error {
			fmt.Printf("node %d says %s\n", m.Source, m.Bytes)
			greeted = true
			return nil
		})
		if err != nil {
			return err
		}
		if e.Node() == 1 {
			if err := e.Send(ctx, 0, 1, []byte("hello")); err != nil {
				return err
			}
			return e.Barrier(ctx)
		}
		fd, err := e.Fd()
		if err != nil {
			return err
		}
		own, err := unix.Dup(fd) // which the os.File may close
		if err != nil {
			return err
		}
		if err := unix.SetNonblock(own, true); err != nil { // so that the runtime polls it
			return err
		}
		file := os.NewFile(uintptr(own), "funet")
		defer file.Close()
		conn, err := file.SyscallConn()
		if err != nil {
			return err
		}
		for !greeted {
			n, err := e.Poll()
			if err != nil {
				return err
			}
			if n > 0 || !e.Arm() {
				continue
			}
			// looks before the goroutine sleeps, and each time that it wakes
			err = conn.Read(func(fd uintptr) bool {
				n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
				return n > 0 && err == nil
			})
			e.Disarm()
			if err != nil {
				return err
			}
		}
		return e.Barrier(ctx)
	}
	if err := twoNodes(program); err != nil {
		fmt.Println(err)
	}
	// Output: node 1 says hello
}
