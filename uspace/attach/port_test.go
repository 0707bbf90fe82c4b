package attach_test

// This file has ports of package virtni on another card.

import (
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/virtni"
)

// Rule: ports of processes meet at barriers on a daemon's card, whose thread sleeps.
func TestPortsMeet(t *testing.T) {
	d := start(t, "")
	const rounds = 500
	ended := make(chan error, 2)
	for node := range uint16(2) {
		config := d.config(node)
		config.Remote = funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: 16}
		c, err := attach.Open(config)
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- meet(c, rounds) }()
	}
	for range 2 {
		if err := await(t, "they have met", ended); err != nil {
			t.Error(err)
		}
	}
}

func meet(c *attach.Client, rounds int) error {
	ports, err := virtni.Open(rand.Reader, func() error { c.Drive(); return c.Err() }, c.Interface())
	if err != nil {
		return err
	}
	for round := range rounds {
		s, err := ports[0].Barrier(3, 2)
		if err == nil {
			err = s.Err()
		}
		var n virtni.Notification
		if err == nil {
			err = ports[0].Wait(&n)
		}
		if err != nil || n.Command != virtni.NotifyBarrier || n.Err != nil {
			return fmt.Errorf("round %d: %+v, %w", round, n, err)
		}
	}
	return c.Close(timeout)
}
