//go:build !amd64 && !arm64

package funet

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutine identifies the calling goroutine among those that run at the same time. The value is
// its number, read from the first line of its stack. That takes more than a microsecond.
func goroutine() uintptr {
	var line [64]byte
	f := bytes.Fields(line[:runtime.Stack(line[:], false)])
	n, _ := strconv.ParseUint(string(f[1]), 10, 64) // "goroutine N [running]:"
	return uintptr(n)
}
