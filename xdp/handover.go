// This file has sockets that one process makes and another uses. The first has the capabilities
// that the kernel asks for. The second needs none, and need not be in the interface's network
// namespace.

package xdp

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Taken reports whether a socket of any process has the queue. It tries to make another socket
// there. A UMEM of two frames is enough, and can serve for all such trials.
func Taken(c SocketConfig) (bool, error) {
	fd, _, err := Handover(c, 0)
	if errors.Is(err, ErrBusy) {
		return true, nil
	}
	if err == nil {
		err = unix.Close(fd)
	}
	return false, err
}

// Handover makes and binds a socket as Open does, in copy mode, for another process to use. It
// returns the socket's descriptor, which is the caller's, and what Adopt needs to know. It does not
// map the rings and puts no frames on the fill ring. The UMEM is of a file that the user of the
// socket has, too (UMEMConfig.File). It may be closed afterwards, because the kernel holds its
// pages. If the kernel has yet to release the queue's last socket, Handover waits as long as
// patience says. Errors: those of Open.
func Handover(c SocketConfig, patience time.Duration) (fd int, info Info, err error) {
	dev, err := findInterface(c.Interface, c.Index)
	if err != nil {
		return -1, Info{}, err
	}
	doing := fmt.Sprintf("make an AF_XDP socket on %s queue %d", dev.Name, c.Queue)
	if c.Shared != nil || len(c.Frames) > 0 || c.BusyPoll != (BusyPoll{}) || c.Bind == BindZeroCopy {
		return -1, Info{}, refuse(doing, "Shared, Frames, BusyPoll or zero-copy for another process; leave them out")
	}
	if c.Make == nil {
		c.Make = newSocket
	}
	if fd, err = c.Make(); err != nil {
		return -1, Info{}, sysFault(doing, err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
			fd = -1
		}
	}()
	if err = c.complete(doing, dev, fd); err != nil {
		return fd, Info{}, err
	}
	s := &Socket{fd: fd, umem: c.UMEM}
	deadline := time.Now().Add(patience)
	if err = s.prepare(&c, dev, deadline, false); err == nil {
		err = s.bind(&c, BindCopy, deadline)
	}
	if err != nil {
		return fd, Info{}, c.bindFault(doing, dev.Name, err)
	}
	return fd, s.info, nil
}

// Adopt uses a socket that another process made with Handover, with a UMEM of the same file and
// configuration. It puts the frames on the socket's fill ring. The descriptor belongs to the
// Socket, even if Adopt fails. Adopt believes info: a process that can make such a socket could do
// more.
func Adopt(fd int, u *UMEM, info Info, frames []uint64) (*Socket, error) {
	doing := fmt.Sprintf("use an AF_XDP socket on %s queue %d", info.Interface, info.Queue)
	c := SocketConfig{RxSize: info.RxSize, TxSize: info.TxSize, FillSize: info.FillSize,
		CompletionSize: info.CompletionSize}
	for _, n := range []uint32{c.RxSize, c.TxSize, c.FillSize, c.CompletionSize} {
		if n == 0 || n > maxRingSize || n&(n-1) != 0 {
			unix.Close(fd)
			return nil, refuse(doing, "ring size %d; want a power of two up to %d", n, maxRingSize)
		}
	}
	switch {
	case u.mapping == nil:
		unix.Close(fd)
		return nil, fmt.Errorf("%s: the UMEM is %w; map a new one", doing, ErrClosed)
	case uint64(len(frames)) > uint64(c.FillSize):
		unix.Close(fd)
		return nil, refuse(doing, "%d frames for a fill ring of %d slots", len(frames), c.FillSize)
	}
	s := &Socket{fd: fd, umem: u, info: info}
	u.users.Add(1)
	if err := s.mapRings(&c); err != nil {
		s.Close()
		if errors.Is(err, unix.EBUSY) { // xsk_mmap, net/xdp/xsk.c
			return nil, fault(doing, ErrNotSupported, err,
				"Linux 6.4 or later is needed: earlier ones give no rings of a socket that is bound")
		}
		return nil, sysFault(doing, err)
	}
	s.fill(frames)
	_ = s.WakeRx()
	return s, nil
}
