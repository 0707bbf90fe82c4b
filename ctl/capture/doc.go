// Package capture takes down the frames that a daemon's card sends and receives, and what becomes of
// each, for Wireshark: AF_XDP frames do not pass the kernel's packet sockets, so tcpdump sees none of
// what a card receives.
//
// The journey of a frame: the card's thread copies it into a ring (ring.go), which nobody has made while
// nobody captures; a goroutine of the daemon takes whole records from the ring (record.go) and sends them
// to the administrator's process by the daemon's socket; Follow (client.go) reads them there, and Writer
// (pcapng.go) makes a pcapng file of them, which Wireshark reads with the dissector (funet.lua).
//
// Rules:
//
//   - The card's thread waits for nobody: a frame for which the ring has no room is counted as lost and
//     left out. The counts stand in the file, as frames that the interface dropped (isb_ifdrop).
//   - Who captures sees frames of all users' jobs, so it is for administrators, as the daemon decides.
//   - The process reads what a daemon says as it reads any bytes.
//   - A file ends with a whole block, also when the disk is full.
package capture
