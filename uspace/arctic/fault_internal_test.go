//go:build unix

package arctic

// This file reads and writes memory that is not there, as that of a process which has gone may be.

import (
	"runtime"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"
)

// Rule: who copies a block from or to memory that faults gets a panic, and can go on
// (debug.SetPanicOnFault).
func TestCopyChecksumFaults(t *testing.T) {
	page := unix.Getpagesize()
	memory, err := unix.Mmap(-1, 0, 3*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	if err := unix.Mprotect(memory[2*page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	good := make([]byte, 2*page)
	for _, n := range []int{page + 16, page + 300, 2 * page} {
		bad := memory[page:][:n]
		for name, copies := range map[string]func(){
			"from": func() { copyChecksum(0, good, bad) },
			"to":   func() { copyChecksum(0, bad, good[:n]) },
		} {
			faulted := func() (faulted bool) {
				defer func() {
					err, ok := recover().(runtime.Error)
					faulted = ok && err != nil
					runtime.GC() // looks through the stack of the panic
				}()
				copies()
				return false
			}()
			if !faulted {
				t.Errorf("%d bytes %s memory that is not there: no panic", n, name)
			}
		}
	}
	copyChecksum(0, memory[page:][:page], good[:page]) // and the next block is copied
}
