package rma_test

// This file tests waiting for windows that are not there yet.

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/sim"
)

// Rule: Ready ends soon after the window is exposed, whatever it permits, and at the latest a pause
// later; meanwhile it sends few packets; where nothing is exposed it ends with the error of drive.
// Without it an operation fails at once.
func TestReady(t *testing.T) {
	const key, after = 0x77_0003, int64(2 * time.Second)
	run(t, 2, sim.EthernetConfig{}, func(n *node) error {
		target := rma.Target{Node: 1, Key: key}
		if n.number == 1 {
			if err := n.until("a while", func() bool { return n.p.Now() > after }); err != nil {
				return err
			}
			_, err := n.Expose(n.memory[:64], rma.Options{Key: key, Rights: funi.RightWrite})
			return errors.Join(err, n.until("some more", func() bool { return n.p.Now() > 3*after }))
		}
		id, err := n.Read(target)
		if err == nil {
			_, err = n.Wait(id)
		}
		if !errors.Is(err, rma.ErrKey) {
			return fmt.Errorf("a window that is not there: %w", err)
		}
		if err := n.Ready(target, n.p.Now); err != nil {
			return err
		}
		if now := n.p.Now(); now < after || now > after+int64(200*time.Millisecond) {
			return fmt.Errorf("it ended at %v", time.Duration(now))
		}
		if sent := n.p.Interface().Committed(funi.Request); sent > 40 {
			return fmt.Errorf("it sent %d packets", sent)
		}
		target.Key++
		if err := n.Ready(target, n.p.Now); !errors.Is(err, errLate) && !errors.Is(err, rma.ErrUnreachable) {
			return fmt.Errorf("a window that never comes: %w", err)
		}
		return nil
	})
}
