//go:build amd64 || arm64

package funet

// goroutine tells goroutines apart that run at the same time: it is the address of the runtime's
// record of the calling one, which another may get when this one has ended.
func goroutine() uintptr
