package engine

// This file checks operations on elements against a process that changes them at the same time.

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
)

// Rule: an operation on an element is one access for the process that owns the memory, which uses
// atomics: no add of either is lost (section 2.2.2 of Tokyo).
// Elements of 8 and 16 bits leave what is beside them.
func TestOperationsAreAtomic(t *testing.T) {
	// The two must really meet: so each goes on until an add has found the other's that often.
	const meetings = 20_000
	for _, c := range []struct {
		e     arctic.Element
		shift uint
	}{{arctic.Uint64, 0}, {arctic.Uint32, 0}, {arctic.Uint16, 16}, {arctic.Uint8, 8}} {
		var word, others uint64
		size := c.e.Size()
		p := unsafe.Add(unsafe.Pointer(&word), c.shift/8)
		var met atomic.Bool
		started, done := make(chan bool), make(chan bool)
		go func() {
			close(started)
			for ; !met.Load(); others++ {
				if size == 8 {
					atomic.AddUint64(&word, 1)
				} else {
					// in the element, or with carries into it, and beside it
					atomic.AddUint32((*uint32)(unsafe.Pointer(&word)), 1<<24|1)
				}
			}
			close(done)
		}()
		<-started
		mask := ^uint64(0) >> (64 - 8*size)
		made, refused, last := uint64(0), 0, uint64(0)
		deadline := time.Now().Add(5 * time.Second) // with one processor they meet seldom
		for seen := 0; seen < meetings && (made&0xffff != 0 || time.Now().Before(deadline)); {
			was, ok := change(arctic.RemoteAdd, c.e, p, 1, 0)
			if ok {
				made++
			} else {
				refused++ // it changed at each of 16 tries
			}
			if !ok || was != last {
				seen++
			}
			last = (was + 1) & mask
		}
		met.Store(true)
		<-done
		if size != 8 {
			others *= 1<<24 | 1
		}
		got, want := word>>c.shift&mask, (made+others>>c.shift)&mask
		if got != want {
			t.Errorf("element of %d bytes: %#x, want %#x, of %d adds and %d that were refused", size, got,
				want, made, refused)
		}
	}
}
