// Package capture records the frames that a daemon's card sends and receives, and the fate of each
// frame, for Wireshark. AF_XDP frames do not pass the kernel's packet sockets, so tcpdump does not
// see the frames that a card receives.
//
// The journey of a frame: the card's thread copies it into a ring (ring.go), which exists only
// during a capture. A goroutine of the daemon takes whole records from the ring (record.go) and
// sends them to the administrator's process through the daemon's socket. Follow (client.go) reads
// them there. Writer (pcapng.go) makes a pcapng file of them, which Wireshark reads with the
// dissector (funet.lua).
//
// Frames of direct ports do not pass the card. During a capture, the switch puts them into a ring
// of the kernel (package bpf). The same goroutine moves them from there to its batches.
//
// Rules:
//
//   - The card's thread never waits: a frame that finds no room in the ring is left out and counted
//     as lost. The programs of the switch do the same. The file has these counts as frames that the
//     interface dropped (isb_ifdrop).
//   - A capture shows frames of all users' jobs, so only administrators may capture. The daemon
//     decides whether a user is an administrator.
//   - The process does not trust the daemon's messages: any bytes give records or an error.
//   - A file ends with a whole block, also when the disk is full.
package capture
