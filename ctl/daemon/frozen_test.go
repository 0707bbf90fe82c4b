//go:build !race

package daemon_test

// This file has the one provocation that a build for the race detector cannot have. There an atomic
// store is a C function's: the Go runtime makes no panic of its fault, and ends the process. A load
// that fails is found before that function is called (racecallatomic in runtime/race_amd64.s), so
// the other tests of failing memory run there, too.

import (
	"testing"

	"github.com/funet/funet/uspace/attach"
)

func init() {
	provocations["memory that fails in a request"] = func(t *testing.T, d *running, torn, _ *client) {
		if err := d.FreezeMemory(torn.Answer.GID, 0); err != nil {
			t.Fatal(err)
		}
		body, err := attach.EncodeBody(attach.KindWhither, []byte(`{"failed":"it stays"}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := attach.Send(torn.Conn, body); err != nil {
			t.Fatal(err)
		}
	}
}
