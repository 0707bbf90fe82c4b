// Package shared is the port of a card whose job has other nodes on the same host: frames to those,
// its neighbours, go through memory that the two processes share, without a system call. All others
// go by the port inside (package plug on afxdp).
//
// The journey of a frame: Reserve lends a buffer of the port inside. Commit looks whom the frame is
// for. For a neighbour that reads it copies the frame into their ring and keeps the buffer, else
// the port inside sends it. At the other end Receive copies the frame out of the ring into the
// port's own memory, and only then looks at it: the neighbour may write at any time. No guard
// stands between, so Receive checks what the guard checks for frames of other ways (package bpf):
// version, length, group, job, that the source is the neighbour whose ring it is, and that the
// destination is this card. Everything else is dropped and counted by reason.
//
// A ring is bounded. A frame for which it has no room goes by the port inside: so does one for a
// neighbour that sleeps, whose socket its arrival makes readable, and one for a neighbour that has
// yet to map the memory. A frame may overtake another of the same pair thereby, or, rarely, come
// both ways: the numbers of package link put that right, as on any network.
//
// Nobody is told of a neighbour's end. Whoever made the memory erases it then (package ctl/ports),
// so the word that says that this process reads is 0: Attend finds that and lets go of the memory,
// and the node's next process has other memory. The same happens to a ring whose words contradict
// each other: that costs the two neighbours the short way, and nobody else anything.
//
// Memory is asked for when some frames have gone to a neighbour (Config.Want), and again, more
// rarely each time, when there was none.
//
// A Port belongs to the goroutine of its card.
package shared
