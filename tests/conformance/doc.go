// Package conformance is what stands on package socket, tested with the field's own programs: the
// tests of net.Conn that the Go project has for all (golang.org/x/net/nettest), gRPC's own
// benchmark service, net/http under the load tool vegeta, and QUIC by quic-go. Each is given
// FUNet's listener and dialer, and nothing of it is changed. gRPC's benchmark programs, which know
// of TCP only, run as they are, behind funet forward.
//
// make conformance runs it, as root: two hosts of a lab (ctl/lab), each with a stack of its own,
// both in this process but for gRPC's service. Three kinds of network are tried: loopback, where a
// node dials itself and no frame leaves the card; veth, with a card in the process at each end; and
// daemons, processes of their own whose clients both ends are. What is compared with TCP runs
// beside TCP between the same two hosts, in turn, and prints a line of JSON.
//
// It has a module of its own, so that FUNet is not built from what it is only tested with.
package conformance
