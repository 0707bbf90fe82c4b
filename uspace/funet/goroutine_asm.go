//go:build amd64 || arm64

package funet

// goroutine identifies the calling goroutine among those that run at the same time. The value is
// the address of the runtime's record of it, which a later goroutine may reuse.
func goroutine() uintptr
