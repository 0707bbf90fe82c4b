// Package shared is the port of a card whose job has other nodes, its neighbours, on the same host.
// Frames to neighbours go through memory that the two processes share, without a system call. All
// others go by the port inside (package afxdp).
//
// The journey of a frame: Reserve lends a buffer of the port inside. Commit looks up the frame's
// destination. For a neighbour that reads, Commit copies the frame into their ring and keeps the
// buffer; otherwise the port inside sends it. At the other end Receive copies the frame out of the
// ring into the port's own memory. Only then does it look at the frame, because the neighbour may
// write at any time. There is no guard in between. So Receive checks what the guard checks for
// other frames (package bpf): version, length, group, job, that the source is the neighbour of that
// ring, and that the destination is this card. Everything else is dropped and counted by reason.
//
// A ring is bounded, and a frame for which it has no room goes by the port inside. So does a frame
// for a neighbour that sleeps, because its arrival makes the neighbour's socket readable, and one
// for a neighbour that has yet to map the memory. Thereby a frame may overtake another of the same
// pair or, rarely, come both ways. The sequence numbers of package link put that right, as on any
// network.
//
// A process learns of a neighbour's end from the memory. The helper, which made the memory, erases
// it then (package ctl/ports), so the word that says that this process reads becomes 0. Attend
// finds the 0 and lets go of the memory; the node's next process has other memory. The same happens
// to a ring whose words contradict each other. That costs the two neighbours the short way, and
// nobody else anything.
//
// The port asks for memory (Config.Want) when some frames have gone to a neighbour. After a refusal
// it asks again, more rarely each time.
//
// A Port belongs to the goroutine of its card.
package shared
