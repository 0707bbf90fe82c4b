package main

// This file is paths of lines (package ultra).

// #include "gate.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/ultra"
)

// path is what a struct funet_path of C stands for: one of the two ends.
type path struct {
	mu       sync.Mutex // of the thread that uses it
	e        *endpoint
	memory   []byte
	sender   *ultra.Sender
	receiver *ultra.Receiver
}

var paths = table[*path]{kind: C.KIND_PATH}

// errEnd reports the other kind of end.
var errEnd = fmt.Errorf("funet: it is the other end of a path: %w", errArgument)

// openPath opens an end of a path to or from a node; with slices 0 the one that sends.
func openPath(handle uintptr, node uint32, slices int, to uintptr, milliseconds int64, cancel uintptr) C.int {
	return withWindows(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		if err := check(to, 8, 8); err != nil {
			return err
		}
		if int(node) >= e.Nodes() {
			return fmt.Errorf("opening a path to node %d: %w", node, funet.ErrNode)
		}
		n, err := ultra.Bytes(slices)
		if err != nil {
			return fmt.Errorf("opening a path with node %d: %w", node, err)
		}
		p := &path{e: e}
		if p.memory, err = e.windows.forPath(n); err != nil {
			return err
		}
		err = e.windows.Do(ctx, func(*rma.Endpoint) (err error) {
			if slices == 0 {
				p.sender, err = e.windows.paths.OpenSender(uint16(node), p.memory)
			} else {
				p.receiver, err = e.windows.paths.OpenReceiver(uint16(node), p.memory, slices)
			}
			return err
		})
		if err != nil {
			return err // the card may have the memory
		}
		h := paths.put(p)
		if h == 0 {
			return errors.Join(errFull, e.windows.Do(ctx, func(*rma.Endpoint) error { return p.close() }))
		}
		return store(to, h)
	})
}

// close closes the end, within Do.
func (p *path) close() (err error) {
	if p.sender != nil {
		err = p.sender.Close()
	} else {
		err = p.receiver.Close()
	}
	return err
}

// forPath returns memory for an end of a path: that of one that was closed, or new memory.
func (w *windows) forPath(bytes int) ([]byte, error) {
	if b := w.spared(bytes); b != nil {
		return b, nil
	}
	b, err := w.allocate(uintptr(bytes))
	if err != nil {
		return nil, err
	}
	return b[:bytes], nil
}

// spared returns memory of an end that was closed; nil: there is none.
func (w *windows) spared(bytes int) (b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.spare[bytes]); n > 0 {
		b = w.spare[bytes][n-1]
		w.spare[bytes] = w.spare[bytes][:n-1]
	}
	return b
}

// errUsed reports that two threads use a path, or a handler uses it while its thread waits there.
var errUsed = fmt.Errorf("funet: another thread uses the path: %w", errArgument)

// withPath calls f with a path and the context of its wait, while no other thread uses the path.
func withPath(handle uintptr, milliseconds int64, cancel uintptr, f func(context.Context, *path) error) (code C.int) {
	defer caught(&code)
	p, err := paths.find(handle)
	if err != nil {
		return tell(err)
	}
	ctx, release, err := until(milliseconds, cancel)
	defer release()
	if err == nil {
		if !p.mu.TryLock() {
			return tell(errUsed)
		}
		defer p.mu.Unlock()
		p.e.crossed()
		err = f(ctx, p)
	}
	return tell(err)
}

//export libfunet_open_sender
func libfunet_open_sender(handle uintptr, node uint32, to uintptr, milliseconds int64, cancel uintptr) C.int {
	return openPath(handle, node, 0, to, milliseconds, cancel)
}

//export libfunet_open_receiver
func libfunet_open_receiver(handle uintptr, node, lines uint32, to uintptr, milliseconds int64, cancel uintptr) C.int {
	return openPath(handle, node, int(max(lines, 1)), to, milliseconds, cancel)
}

//export libfunet_send_line
func libfunet_send_line(handle, words uintptr, n C.int, milliseconds int64, cancel uintptr) C.int {
	return withPath(handle, milliseconds, cancel, func(ctx context.Context, p *path) error {
		if n < 1 || n > ultra.MaxWords {
			return fmt.Errorf("sending %d words: %w", n, ultra.ErrLine)
		}
		line, err := array[uint64](words, int(n))
		if err != nil {
			return err
		}
		if p.sender == nil {
			return errEnd
		}
		for {
			sent := false
			err := p.e.windows.Do(context.Background(), func(*rma.Endpoint) (err error) {
				sent, err = p.sender.Send(line...)
				return err
			})
			if sent {
				p.e.push()
			}
			if sent || err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("sending a line: %w", context.Cause(ctx))
			}
			if _, err := p.e.Poll(); err != nil {
				return err
			}
		}
	})
}

// push has the card send now what was stored.
func (e *endpoint) push() {
	if _, err := e.Enter(); err == nil {
		e.Push()
		e.Exit()
	}
}

//export libfunet_flush_lines
func libfunet_flush_lines(handle uintptr, milliseconds int64, cancel uintptr) C.int {
	return withPath(handle, milliseconds, cancel, func(ctx context.Context, p *path) error {
		if p.sender == nil {
			return errEnd
		}
		return p.e.windows.Do(ctx, func(*rma.Endpoint) error { return p.sender.Flush() })
	})
}

//export libfunet_receive_line
func libfunet_receive_line(handle, words uintptr, milliseconds int64, cancel uintptr) C.int {
	n := 0
	code := withPath(handle, milliseconds, cancel, func(ctx context.Context, p *path) error {
		to, err := array[uint64](words, ultra.MaxWords)
		if err != nil {
			return err
		}
		if p.receiver == nil {
			return errEnd
		}
		line, there := (*[ultra.MaxWords]uint64)(to), false
		next := func() bool {
			if !there && err == nil { // else it was asked before
				n, there, err = p.receiver.Next(line)
			}
			return there || err != nil
		}
		if milliseconds == 0 {
			if _, err := p.e.Poll(); err != nil {
				return err
			}
		}
		if wait := p.e.windows.Until(ctx, next); wait != nil {
			return wait
		}
		if errors.Is(err, io.EOF) {
			n, err = 0, nil
		}
		return err
	})
	if code == 0 {
		return C.int(n)
	}
	return code
}

//export libfunet_close_path
func libfunet_close_path(handle uintptr, milliseconds int64, cancel uintptr) C.int {
	return withPath(handle, milliseconds, cancel, func(ctx context.Context, p *path) error {
		w := &p.e.windows
		err := w.Do(ctx, func(*rma.Endpoint) error { return p.close() })
		if err != nil && ctx.Err() != nil && p.e.Err() == nil {
			return err // it can be closed again
		}
		paths.remove(handle)
		var ended *ultra.Error
		if err == nil || errors.As(err, &ended) {
			w.mu.Lock()
			w.spare[len(p.memory)] = append(w.spare[len(p.memory)], p.memory)
			w.mu.Unlock()
		}
		return err
	})
}
