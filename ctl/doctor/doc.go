// Package doctor finds out why FUNet does not work between two hosts, or is slower than it could be, and says
// for each thing that it looked at whether it is well and what to do about it.
//
// The journey of a finding: Gather collects facts (facts.go), and changes nothing: of this host
// (gather_host.go), of the interface (gather_interface.go), of the daemon (gather_daemon.go), and of a peer, to
// whom package probe sends (gather_peer.go), and whose card the daemon of this host asks (gather_hello.go). Judge makes findings of the facts (judge_host.go and so on), one
// for each check, in the order in which a frame would meet what they are about. It is pure: the same facts give the
// same findings, so each rule has a row in a table.
//
// Verdicts: Fail keeps FUNet from working, Warn costs time or may become a failure, or could
// not be found out; OK is the rest. Whatever is not OK has a cure: a command to run, or who can do something.
//
// Rules:
//
//   - Nothing is sent on an interface that the caller did not name.
//   - What the driver can do is tried (xdp.Probe), and undone at once; a driver may restart its queues for it, or the link.
//     An interface that has an XDP program is left alone, and so is every one with Options.LeaveDriver.
//   - A fact that could not be had is a finding, never an error of the whole.
//   - Gather works in the network namespace of the calling thread, and ends with its context.
package doctor
