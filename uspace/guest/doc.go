// Package guest is what a library in Go does to live in a program in C: libfunet and the provider
// for libfabric (package ofi) share it. guest.h is the part that C calls before it crosses into Go.
//
// Rules, with what each is for:
//
//   - Parameters of exported functions are integers and uintptr. Go's stacks never hold a pointer
//     that is none, which the runtime would end the process for. Memory and Array make a pointer
//     where memory is touched.
//   - Handlers of signals that lack SA_ONSTACK would run on stacks of goroutines, which are small.
//     Settle adds it to those that exist, and a library that funet run --ofi preloads to later ones
//     (uspace/ofi/onstack).
//   - Go's threads block signals: constructors before and after Go's see to that. So handlers run
//     on threads of the program only.
//   - A thread gets an alternative signal stack of 256 KiB with a guard at its first crossing, if
//     it has none. The one that Go would give it has 32 KiB and no guard.
//   - Go's threads do not exist in a child of fork. guest_enter fails there.
//   - GOMAXPROCS is at least 2 (Settle). With 1, as in a process that is bound to one processor, a
//     goroutine that spins delays the crossings of all other threads.
//   - The environment is read by C's getenv (Getenv); Go's copy is of the time of loading.
//   - No constructor of C calls Go. The runtime starts on a thread of its own when the library is
//     loaded; the first crossing waits for that.
//
// A crossing takes some 70 ns, and one from Go into C 50.
package guest
