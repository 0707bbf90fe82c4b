package attach_test

// This file holds the rules of a process that sleeps until others write into its memory
// (funi/written.go), over a daemon.

import (
	"encoding/binary"
	"fmt"
	"os/exec"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

const (
	watched      = 0x10000          // the address of the segment that is written
	watchedKey   = 0x5757_0001_0000 // of key slot 0
	watchedBytes = 4096
)

var watchedSizes = funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: 4}

// putNumber writes a number into node 1's memory.
func putNumber(t *testing.T, c *attach.Client, n uint64) {
	t.Helper()
	s := c.Interface().Reserve(funi.Request)
	for ; s == nil; s = c.Interface().Reserve(funi.Request) {
		c.Drive()
	}
	s.SetPut(1, &funi.Put{Key: watchedKey, Data: binary.NativeEndian.AppendUint64(nil, n)})
	c.Interface().Commit(funi.Request)
}

// putNumbers writes 1 to n, every other one when node 1 is about to sleep, or sleeps.
func (d *daemon) putNumbers(t *testing.T, n uint64) {
	t.Helper()
	a := d.open(0)
	asks := func() (v uint32) {
		d.do(func() {
			for _, x := range d.served {
				if x != nil && x.ctx.Node() == 1 {
					v = atomic.LoadUint32(&x.memory.Page[wakeWord])
				}
			}
		})
		return v
	}
	eventually(t, "node 1 watches its memory", func() bool { return asks() == 3 })
	for i := uint64(1); i <= n; i++ {
		if i%2 == 1 {
			eventually(t, "node 1 sleeps", func() bool { return asks() == 3 })
		}
		putNumber(t, a, i)
	}
}

// Rule: writes of others wake a process that asks for it, also when the write comes just before the
// sleep. Nothing else wakes it if nothing else comes. That holds in Wait, which returns for news
// alone, and in an event loop.
func TestWritesEndASleep(t *testing.T) {
	const numbers = 400
	for name, sleep := range map[string]func(t *testing.T, c *attach.Client) error{
		"Wait": func(t *testing.T, c *attach.Client) error { return c.Wait(within(t)) },
		"an event loop": func(t *testing.T, c *attach.Client) error {
			fd, err := c.Fd()
			if err == nil && c.Arm() && !sleepUntil(t, fd) {
				err = fmt.Errorf("it sleeps on")
			}
			c.Disarm()
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := start(t, "")
			config := d.config(1)
			config.Remote = watchedSizes
			c, err := attach.Open(config)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(0)
			memory, err := c.Segment(watched, watchedBytes, funi.Keyed)
			if err != nil {
				t.Fatal(err)
			}
			c.Interface().Reserve(funi.Request).SetOpenKeySlot(watchedKey, watched, watchedBytes, 0)
			c.Interface().Commit(funi.Request)
			for c.Interface().Unsent(funi.Request) > 0 {
				c.Drive()
			}
			done := make(chan error, 1)
			go func() {
				c.Interface().Watch(true)
				for (*atomic.Uint64)(unsafe.Pointer(&memory[0])).Load() < numbers {
					if err := sleep(t, c); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
			d.putNumbers(t, numbers)
			if err := await(t, "it has seen the last number", done); err != nil {
				t.Error(err)
			}
		})
	}
}

// outcome is how a program has ended, and what it said.
type outcome struct {
	out []byte
	err error
}

// runs runs a program beside the test.
func runs(cmd *exec.Cmd) <-chan outcome {
	ended := make(chan outcome, 1)
	go func() {
		out, err := cmd.CombinedOutput()
		ended <- outcome{out, err}
	}()
	return ended
}

// Rule: the same in C (funi_watch), with funi_wait and in an event loop.
func TestCWatches(t *testing.T) {
	program := compile(t, "testdata/watch.c")
	const numbers = 400
	for _, how := range []string{"wait", "arm"} {
		d := start(t, "")
		ended := runs(d.member(program, 1, how, fmt.Sprint(numbers)))
		d.putNumbers(t, numbers)
		if r := await(t, "it has seen the last number", ended); r.err != nil || string(r.out) != "seen\n" {
			t.Errorf("%s: %v, and it said %q", how, r.err, r.out)
		}
	}
}
