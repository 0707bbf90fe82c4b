package virtni_test

// This file has the rules of two-sided communication (send.go).

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/virtni"
)

// between runs a program on node 0 once node 1 receives as open says, and another on node 1.
func between(t *testing.T, open func(n *node) error, sends func(n *node, own *virtni.Window) error,
	receives func(n *node) error) {
	t.Helper()
	for _, net := range networks {
		opened, over := false, 0
		run(t, 2, net, func(n *node) error {
			if n.number == 1 {
				if err := open(n); err != nil {
					return err
				}
				opened = true
				if err := receives(n); err != nil {
					return err
				}
			} else {
				own, err := n.OpenWindow(n.memory[:16384], rma.Options{})
				if err != nil {
					return err
				}
				if err := n.until("the other receives", func() bool { return opened }); err != nil {
					return err
				}
				if err := sends(n, own); err != nil {
					return err
				}
			}
			over++
			return n.until("the other is done", func() bool { return over == 2 })
		})
	}
}

// Rule: a fast send of up to 5 words comes once, with origin, tags and words in its notification,
// and a longer one is refused (section 4.2.3). What is not received waits at its sender.
func TestFastSend(t *testing.T) {
	const messages = 100
	between(t, func(n *node) error { return n.OpenReceive(nil, 4) }, func(n *node, _ *virtni.Window) error {
		for i := range messages {
			v := virtni.VCI{Target: virtni.Target{VPID: 1}, UserTag: uint64(i) << 32, APITag: uint32(i), Ack: i%2 == 0}
			for w := range i % 6 {
				v.Words = append(v.Words, uint64(100*i+w))
			}
			if err := n.FastSend(&v); err != nil {
				return err
			}
			if !v.Ack {
				continue
			}
			x, err := n.did(nil)
			if err != nil || x.Of != virtni.CommandFastSend|1<<3|virtni.Command(i%6) || x.APITag != uint32(i) || x.VPID != 1 {
				return fmt.Errorf("message %d: %+v, %w", i, x, err)
			}
		}
		v := virtni.VCI{Target: virtni.Target{VPID: 1}, Words: make([]uint64, 6)}
		if err := n.FastSend(&v); !errors.Is(err, virtni.CodeCommand) {
			return fmt.Errorf("six words: %w", err)
		}
		return n.Quiet()
	}, func(n *node) error {
		var seen [messages]bool
		for range messages {
			n.p.Sleep(int64(20 * time.Microsecond))
			x, err := n.next(virtni.NotifyFastReceive)
			if err != nil {
				return err
			}
			i := int(x.APITag)
			if x.VPID != 0 || x.UserTag != uint64(i)<<32 || x.Count != i%6 || x.Bytes != 8*x.Count || seen[i] {
				return fmt.Errorf("%+v", x)
			}
			for w, got := range x.Words[:x.Count] {
				if got != uint64(100*i+w) {
					return fmt.Errorf("message %d has word %d %d", i, w, got)
				}
			}
			seen[i] = true
		}
		return nil
	})
}

// sizes of messages; the receiver knows them by number.
func sizeOf(i int) int { return (i*i*37 + 41) % 1900 }

func fill(b []byte, i int) {
	for j := range b {
		b[j] = byte(i + 3*j)
	}
}

// Rule: messages that do not fit a notification come into the ring, whole, and their room is given
// back whatever the order in which they are released (sections 4.1.5 and 4.2.7, increment RDR RP).
func TestReceiveRing(t *testing.T) {
	const messages, ring = 200, 8192
	want := make([]byte, 2048)
	between(t, func(n *node) error { return n.OpenReceive(n.memory[32768:32768+ring], 8) },
		func(n *node, own *virtni.Window) error {
			for i := range messages {
				v := virtni.VCI{Target: virtni.Target{VPID: 1}, APITag: uint32(i), Origin: own, Offset: uint64(i%4) * 2048,
					Bytes: sizeOf(i), Ack: true}
				fill(own.Memory[v.Offset:][:v.Bytes], i)
				if err := n.Send(&v); err != nil {
					return err
				}
				if i%4 == 3 { // the memory may be used again
					for range 4 {
						if x, err := n.did(nil); err != nil || x.Of != virtni.CommandSend|1<<3 {
							return fmt.Errorf("%+v, %w", x, err)
						}
					}
				}
			}
			return nil
		}, func(n *node) error {
			var held []virtni.Notification
			for range messages {
				var x virtni.Notification
				if err := n.Wait(&x); err != nil || x.Err != nil {
					return fmt.Errorf("%w, %w", err, x.Err)
				}
				i := int(x.APITag)
				fill(want[:sizeOf(i)], i)
				switch {
				case x.Bytes != sizeOf(i):
					return fmt.Errorf("message %d has %d bytes, want %d", i, x.Bytes, sizeOf(i))
				case x.Command == virtni.NotifyReceive && bytes.Equal(x.Data, want[:x.Bytes]):
					if held = append(held, x); len(held) == 2 { // the later one first
						n.Release(&held[1])
						n.Release(&held[0])
						held = nil
					}
				case x.Command != virtni.NotifyFastReceive || x.Bytes > 40:
					return fmt.Errorf("message %d: %v, %d bytes", i, x.Command, len(x.Data))
				}
			}
			return nil
		})
}

// Rule: with posted receives messages take the buffers in the order in which they were posted. One
// that is longer than its buffer is cut, and both ends get error 17 (sections 4.1.7 and 4.2.6).
func TestPostedReceive(t *testing.T) {
	const messages, buffer = 60, 1024
	want := make([]byte, 2048)
	post := func(n *node, i int) error { return n.Post(n.memory[32768+i%4*buffer:][:buffer]) }
	between(t, func(n *node) error {
		if err := n.Post(n.memory[:8]); !errors.Is(err, virtni.ErrPosted) {
			return fmt.Errorf("a buffer without a queue: %w", err)
		}
		if err := n.OpenPosted(n.memory[16384:16384+4*16], 4); err != nil {
			return err
		}
		for i := range 4 {
			if err := post(n, i); err != nil {
				return err
			}
		}
		if err := post(n, 4); !errors.Is(err, virtni.ErrPosted) {
			return fmt.Errorf("more buffers than the queue has room for: %w", err)
		}
		return nil
	}, func(n *node, own *virtni.Window) error {
		for i := range messages {
			v := virtni.VCI{Target: virtni.Target{VPID: 1}, APITag: uint32(i), Origin: own, Bytes: max(sizeOf(i), 41),
				Ack: true}
			fill(own.Memory[:v.Bytes], i)
			x, err := n.did(n.Send(&v))
			if cut := v.Bytes > buffer; cut != errors.Is(err, virtni.CodeTruncated) || !cut && err != nil {
				return fmt.Errorf("message of %d bytes: %+v, %w", v.Bytes, x, err)
			}
		}
		return nil
	}, func(n *node) error {
		for i := range messages {
			x, err := n.next(virtni.NotifyPosted)
			if err != nil {
				return err
			}
			size := max(sizeOf(i), 41)
			fill(want[:size], i)
			if x.APITag != uint32(i) || x.Bytes != size || !bytes.Equal(x.Data, want[:min(size, buffer)]) ||
				(size > buffer) != errors.Is(x.Err, virtni.CodeTruncated) {
				return fmt.Errorf("message %d of %d bytes: %d, %d there, %w", i, size, x.Bytes, len(x.Data), x.Err)
			}
			if err := post(n, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// Rule: a message to a port that receives none, or none so long, comes back with an error.
func TestSendRefused(t *testing.T) {
	between(t, func(n *node) error { return n.OpenReceive(nil, 4) }, func(n *node, own *virtni.Window) error {
		v := virtni.VCI{Target: virtni.Target{VPID: 1}, Origin: own, Bytes: 400, Ack: true}
		if _, err := n.did(n.Send(&v)); !errors.Is(err, virtni.CodeBroken) {
			return fmt.Errorf("a long message to a port that receives short ones: %w", err)
		}
		v.Ack = false
		if err := n.Send(&v); err != nil {
			return err
		}
		if err := n.Quiet(); !errors.Is(err, virtni.CodeBroken) {
			return fmt.Errorf("Quiet after a message that was refused: %w", err)
		}
		v = virtni.VCI{Target: virtni.Target{VPID: 9}, Words: []uint64{1}, Ack: true}
		if _, err := n.did(n.FastSend(&v)); !errors.Is(err, virtni.CodeRoute) {
			return fmt.Errorf("a message to nobody: %w", err)
		}
		return nil
	}, func(n *node) error { return nil })
}

// Rule: after CloseReceive the port can open another ring, and credits come back.
func TestCloseReceive(t *testing.T) {
	run(t, 1, networks[0], func(n *node) error {
		for i := range 20 {
			if err := n.OpenReceive(n.memory[32768:32768+4096], 40); err != nil {
				return fmt.Errorf("time %d: %w", i, err)
			}
			if err := n.OpenReceive(n.memory[32768:32768+8192], 50); err != nil {
				return fmt.Errorf("in place of another, time %d: %w", i, err)
			}
			if err := n.CloseReceive(); err != nil {
				return err
			}
		}
		if err := n.CloseReceive(); !errors.Is(err, rma.ErrWindow) {
			return fmt.Errorf("closing what is not open: %w", err)
		}
		if err := n.OpenReceive(nil, 64); !errors.Is(err, rma.ErrFull) {
			return fmt.Errorf("more credit than the queue has: %w", err)
		}
		return nil
	})
}
