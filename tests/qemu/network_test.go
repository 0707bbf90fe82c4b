package main

// This file tests the network of guests with several queues: that of taps, in namespaces of its
// own.

import (
	"bytes"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// vnetHeader is the size of the header before a frame on these taps, in bytes (struct
// virtio_net_hdr).
const vnetHeader = 10

// What one guest sends on any of its queues arrives at the other, on one of his, and nothing of the
// network is left in the machine's own namespace.
func TestNetworkOfTaps(t *testing.T) {
	const queues = 2
	n, err := newNetwork(t.Context(), newKeeper(), queues)
	if err != nil {
		t.Fatal(err) // the tests of this project run as root
	}
	defer n.close()
	for from := range n {
		for q, out := range n[from] {
			frame := make([]byte, vnetHeader+64)
			copy(frame[vnetHeader:], []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0,
				byte(1 + from), 0x88, 0xb5})
			for i := range frame[vnetHeader+14:] {
				frame[vnetHeader+14+i] = byte(i + 10*from + 3*q)
			}
			until := time.Now().Add(deadline)
			for got := false; !got; { // a bridge's port takes a moment until it passes frames
				if _, err := unix.Write(int(out.Fd()), frame); err != nil && err != unix.EIO {
					t.Fatal(err)
				}
				var fds []unix.PollFd
				for _, f := range n[1-from] {
					fds = append(fds, unix.PollFd{Fd: int32(f.Fd()), Events: unix.POLLIN})
				}
				_, _ = unix.Poll(fds, 10)
				b := make([]byte, 2000)
				for _, f := range n[1-from] {
					_ = unix.SetNonblock(int(f.Fd()), true)
					size, err := unix.Read(int(f.Fd()), b)
					got = got || err == nil && bytes.Equal(b[vnetHeader:size], frame[vnetHeader:])
				}
				if time.Now().After(until) {
					t.Fatalf("what guest %d sends on queue %d does not arrive", from, q)
				}
			}
		}
	}
}
