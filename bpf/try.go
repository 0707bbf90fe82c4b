// This file has the NIC program take a frame that did not come from a NIC.

package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// liveFrames is BPF_F_TEST_XDP_LIVE_FRAMES of linux/bpf.h.
const liveFrames = 1 << 1

// context is struct xdp_md of linux/bpf.h as BPF_PROG_TEST_RUN takes it.
type context struct {
	Data, DataEnd, DataMeta, IngressIfindex, RxQueueIndex, EgressIfindex uint32
}

// Try has the program take a frame as if it had come in, in native mode, on an interface of the
// calling thread's network namespace. The program's verdict takes effect: a frame for a port goes
// there (BPF_PROG_RUN, live frame mode). Errors are those of the kernel, or [ErrLive] before Linux
// 5.18.
func (n *NIC) Try(ifindex uint32, frame []byte) error {
	_, err := n.program.Run(&ebpf.RunOptions{Data: frame, Repeat: 1, Flags: liveFrames,
		Context: context{DataEnd: uint32(len(frame)), IngressIfindex: ifindex}})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, ebpf.ErrNotSupported) {
		err = fmt.Errorf("%w (%w)", ErrLive, err)
	}
	if err != nil {
		return fmt.Errorf("run the NIC program on a frame: %w", err)
	}
	return nil
}

// ErrLive reports a kernel that does not run programs on live frames.
var ErrLive = errors.New("trying the NIC program takes Linux 5.18 or later")
