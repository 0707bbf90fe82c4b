package guest

// This file prepares the process, and reads its environment.

// #include <stdlib.h>
// #include "guest.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// leastProcessors is the least GOMAXPROCS with which a goroutine that spins does not delay the
// crossings of other threads.
const leastProcessors = 2

// Settle prepares the process for goroutines that work in it. A library calls it when it opens
// something; any goroutine, any number of times.
func Settle() {
	if runtime.GOMAXPROCS(0) < leastProcessors {
		runtime.GOMAXPROCS(leastProcessors)
	}
	C.guest_on_stack()
}

// Getenv returns a variable of the environment as it is now, or "". os.Getenv would return what was
// there when the library was loaded.
func Getenv(name string) string {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	if v := C.getenv(n); v != nil {
		return C.GoString(v)
	}
	return ""
}
