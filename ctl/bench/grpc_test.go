// gRPC on a real lab: calls that are answered, and what ends them.

package bench

import (
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/rawxdp"
	"github.com/funet/funet/tests/long"
)

// Both ends measure; a second turn of the same processes finds them as the first did.
func TestGRPC(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	s, err := newSession(newLab(t, lab.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.startPair(t.Context(), roleGRPC, s.roleConfig(rawxdp.Modes{}, 10, 200))
	if err != nil {
		t.Fatal(err)
	}
	defer p.end()
	for range 2 {
		var client, server outcome
		if err := p.turn(t.Context(), &client, &server); err != nil {
			t.Fatal(err)
		}
		if !(client.P50 > 0) || client.P99 < client.P50 || server.P50 != 0 {
			t.Errorf("the client found %+v, the server %+v", client, server)
		}
	}
}

// A server that another port than the client's has is not found: the client says so, and neither
// stays.
func TestGRPCWithoutServer(t *testing.T) {
	c := roleConfig{Local: "127.0.0.1:1", Remote: "127.0.0.1:1", Exchanges: 1}
	e, err := openGRPC(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.run(); err == nil {
		t.Error("a call to nobody was answered")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
