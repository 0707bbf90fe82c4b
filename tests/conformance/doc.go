// Package conformance tests package socket with programs of the field, which are not changed. They
// are the tests of net.Conn that the Go project offers (golang.org/x/net/nettest), gRPC's own
// benchmark service, net/http under the load tool vegeta, and QUIC by quic-go. Each gets FUNet's
// listener and dialer. gRPC's benchmark programs know only TCP; they run as they are, behind funet
// forward.
//
// make conformance runs the tests, as root. There are two hosts of a lab (ctl/lab), each with a
// stack of its own, and both in this process except for gRPC's service. Three kinds of network are
// tried:
//
//	loopback  a node dials itself, and no frame leaves the card
//	veth      a card in this process is at each end
//	daemons   daemons are processes of their own, and both ends are their clients
//
// Each comparison with TCP runs beside TCP between the same two hosts, in turn, and prints a line
// of JSON.
//
// The package has a module of its own, so that the modules that it tests with do not become
// dependencies of FUNet.
package conformance
