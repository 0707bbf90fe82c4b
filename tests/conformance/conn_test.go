package conformance

// This file holds connections to the tests that the Go project has for every net.Conn.

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"
)

// Rule: what Go programs expect of a connection holds over FUNet (golang.org/x/net/nettest).
func TestConn(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			w := newBed(t, kind).funet()
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
				dialed, accepted, err := w.pair()
				return dialed, accepted, func() { dialed.Close(); accepted.Close() }, err
			})
		})
	}
}
