// Package measure is `funet bench`: FUNet's own programs as contenders of package ctl/bench.
//
// Each of its commands (peers, calls, rate, incast, xfer, socket, rats, rma, matmul) has a
// comparison of ctl/bench behind it. The command checks its flags, against the limits that
// ctl/bench has for its options; makes the lab and finds its XDP mode
// ([github.com/funet/funet/ctl/program]); and gives the comparison functions that run a program of
// FUNet's on the lab once. What comes back is a report of ctl/bench, printed as a table or as one
// JSON document.
//
// Two hidden commands are processes that comparisons start: [RoleCommand] is one end of a transport
// of ctl/bench, [SelfCommand] a ping-pong between two contexts of one process.
package measure
