// Package doctor finds out why FUNet does not work between two hosts, or is slower than it could
// be. Each check reports whether all is well, and the cure if not.
//
// The journey of a finding: Gather collects facts (facts.go), and changes nothing. The facts are
// about this host (gather_host.go), the interface (gather_interface.go), the daemon
// (gather_daemon.go), key files (gather_key.go), and a peer. Package probe sends to the peer
// (gather_peer.go), and the daemon of this host asks the peer's card (gather_hello.go). Judge makes
// findings from the facts (judge_host.go and so on), one for each check, in the order in which a
// frame would meet their subjects. Judge is pure: the same facts give the same findings, so each
// rule has a row in a table.
//
// Verdicts: Fail keeps FUNet from working. Warn costs time, may become a failure, or could not be
// found out. OK is the rest. The others have a cure: a command to run, or the person who can help.
//
// Rules:
//
//   - Nothing is sent on an interface that the caller did not name.
//   - The modes of the driver are tried (xdp.Probe), and undone at once; a driver may restart its
//     queues or the link for that. An interface that has an XDP program is left alone, as are all
//     interfaces with Options.LeaveDriver.
//   - A fact that could not be found out is a finding, never an error of the whole.
//   - Gather works in the network namespace of the calling thread, and ends with its context.
package doctor
