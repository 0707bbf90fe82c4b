// Package rawxdp does the least work that sends and receives frames on AF_XDP rings. It is the
// limit for FUNet on the same machine in the same mode, in the benchmarks (ctl/bench), and finds
// the fastest XDP mode of a lab ([Fastest]).
//
// An [End] is at one end of round trips: [End.Ask] sends a frame with a number and spins until it
// is back, [End.Answer] spins for a frame and sends it back. A spin ends after [Patience]. An end
// belongs to one goroutine.
package rawxdp
