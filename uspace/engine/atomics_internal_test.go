package engine

// This file checks operations on elements against a process that changes them at the same time.

import (
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
)

// Rule: an operation on an element is one access for the process that owns the memory, which uses
// atomics: no add of either is lost (section 2.2.2 of Tokyo).
// Elements of 8 and 16 bits leave what is beside them.
func TestOperationsAreAtomic(t *testing.T) {
	const each = 2_000_000
	for _, c := range []struct {
		e     arctic.Element
		shift uint
	}{{arctic.Uint64, 0}, {arctic.Uint32, 0}, {arctic.Uint16, 16}, {arctic.Uint8, 8}} {
		var word uint64
		size := c.e.Size()
		p := unsafe.Add(unsafe.Pointer(&word), c.shift/8)
		started, done := make(chan bool), make(chan bool)
		go func() {
			close(started)
			for range each {
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
		made, refused := uint64(0), 0
		for range each {
			if _, ok := change(arctic.RemoteAdd, c.e, p, 1, 0); ok {
				made++
			} else {
				refused++ // it changed at each of 16 tries
			}
		}
		<-done
		mask := ^uint64(0) >> (64 - 8*size)
		others := uint64(each * (1<<24 | 1))
		if size == 8 {
			others = each
		}
		got, want := word>>c.shift&mask, (made+others>>c.shift)&mask
		if got != want {
			t.Errorf("element of %d bytes: %#x, want %#x, of %d adds and %d that were refused", size, got,
				want, made, refused)
		}
	}
}
