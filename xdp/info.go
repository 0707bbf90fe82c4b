// This file has what a socket got, and what the kernel counted on it.

package xdp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Info describes the socket that Open made, which may have less than was asked for.
type Info struct {
	Interface string
	Index     int
	Queue     uint32
	// Mode is BindCopy or BindZeroCopy, as the kernel says (XDP_OPTIONS). It holds until a program
	// in generic mode replaces the program that was attached when the socket was opened.
	Mode BindMode
	// ZeroCopyErr is the reason why BindAuto did not get zero-copy, or did not try it.
	ZeroCopyErr error
	NeedWakeup  bool
	MultiBuffer bool
	// BusyPoll is true when every option asked for was accepted; otherwise
	// BusyPollErr says which was not. Both are zero when none was asked for.
	BusyPoll    bool
	BusyPollErr error
	// Sizes in slots. A socket on a shared queue shows the shared rings' sizes.
	RxSize, TxSize, FillSize, CompletionSize uint32
	Shared                                   bool // says that the UMEM is another socket's
}

// Info returns what Open got.
func (s *Socket) Info() Info { return s.info }

// Statistics are the kernel's counters of one socket since it was opened (struct
// xdp_statistics; af_xdp.rst "XDP_STATISTICS getsockopt").
type Statistics struct {
	RxDropped uint64 // frames dropped: too large for a frame, or for lack of a free one
	// rx_invalid_descs; 6.18 skips unusable addresses in the fill ring without counting them here
	RxInvalid       uint64
	TxInvalid       uint64 // descriptors to send that did not lie within one frame
	RxRingFull      uint64 // frames dropped because the rx ring was full
	RxFillRingEmpty uint64 // times that the fill ring had no frame; counted per queue
	TxRingEmpty     uint64 // times that the kernel found the tx ring empty
}

// Statistics reads the counters, which is a system call.
func (s *Socket) Statistics() (Statistics, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Statistics{}, fmt.Errorf("read statistics: the socket is %w; read them before", ErrClosed)
	}
	k, err := getsockopt[unix.XDPStatistics](s.fd, unix.XDP_STATISTICS)
	if err != nil {
		return Statistics{}, sysFault("read statistics of "+s.info.Interface, err)
	}
	return Statistics{
		RxDropped:       k.Rx_dropped,
		RxInvalid:       k.Rx_invalid_descs,
		TxInvalid:       k.Tx_invalid_descs,
		RxRingFull:      k.Rx_ring_full,
		RxFillRingEmpty: k.Rx_fill_ring_empty_descs,
		TxRingEmpty:     k.Tx_ring_empty_descs,
	}, nil
}
