package virtni_test

// This file has two ports that answer each other.

import (
	"fmt"
	"testing"

	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/sim"
	"github.com/funet/funet/uspace/virtni"
)

// Rule: two ports that answer each other's puts by puts go on for ever: credit comes back
// (doc.go).
func TestPingPong(t *testing.T) {
	var windows [2]*virtni.Window
	run(t, 2, sim.EthernetConfig{Seed: 1}, func(n *node) (err error) {
		if windows[n.number], err = n.OpenWindow(n.memory[:64], rma.Options{Notifications: 16}); err != nil {
			return err
		}
		other := 1 - n.number
		if err := n.until("the other's window", func() bool { return windows[other] != nil }); err != nil {
			return err
		}
		v := virtni.VCI{Target: windows[other].Target(other), Words: make([]uint64, 1), Notify: true}
		for i := range uint64(3000) {
			if n.number == 1 {
				if x, err := n.next(virtni.NotifyRemoteAccess); err != nil || x.UserTag != i {
					return fmt.Errorf("put %d: %+v, %w", i, x, err)
				}
			}
			v.UserTag = i
			if err := n.FastPut(&v); err != nil {
				return err
			}
			if got, s, err := n.Issue(1); got != 1 || err != nil {
				return fmt.Errorf("issue: %d, %v, %w", got, s, err)
			}
			if n.number == 0 {
				if x, err := n.next(virtni.NotifyRemoteAccess); err != nil || x.UserTag != i {
					return fmt.Errorf("put %d: %+v, %w", i, x, err)
				}
			}
		}
		return n.Quiet()
	})
}
