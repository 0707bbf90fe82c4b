// Package measure is `funet bench`: FUNet's own programs as contenders of package ctl/bench.
//
// Each of its commands (peers, calls, rate, incast, xfer, socket, rats, rma, matmul) uses a
// comparison of ctl/bench. The command first checks its flags against the limits of ctl/bench's
// options. It makes the lab and finds its XDP mode ([github.com/funet/funet/ctl/program]). Then it
// calls the comparison with functions that run a program of FUNet's on the lab once. The result is
// a report of ctl/bench, printed as a table or as one JSON document.
//
// Comparisons start processes of two hidden commands. [RoleCommand] is one end of a transport of
// ctl/bench, [SelfCommand] a ping-pong between two contexts of one process.
package measure
