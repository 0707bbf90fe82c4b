package hostile

// This file is a process's connection to a daemon, message by message, and the context
// that it may have.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// connection is a connection, with a context or without.
type connection struct {
	conn   *net.UnixConn
	socket int // its descriptor, for poll
	buffer []byte
	answer attach.AttachAnswer
	memory *funi.Memory
	iface  *funi.Interface
	fds    []int
	maps   [][]byte
}

func dial(socket string) (*connection, error) {
	c, err := attach.Dial(context.Background(), socket, patience)
	if err != nil {
		return nil, err
	}
	k := &connection{conn: c, buffer: make([]byte, attach.MaxMessage)}
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { k.socket = int(fd) })
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return k, nil
}

// close gives back everything. The context's interface must not be used any more.
func (k *connection) close() {
	k.conn.Close()
	attach.CloseDescriptors(k.fds)
	for _, m := range k.maps {
		_ = unix.Munmap(m)
	}
	k.fds, k.maps, k.iface, k.memory = nil, nil, nil, nil
}

// ask sends a message and returns the answer, which may have so many descriptors.
func (k *connection) ask(message []byte, descriptors int) ([]byte, []int, error) {
	if err := k.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, nil, err
	}
	if err := attach.Send(k.conn, message); err != nil {
		return nil, nil, err
	}
	return attach.Receive(k.conn, k.buffer, descriptors)
}

// status asks what is going on.
func (k *connection) status(to any) error {
	message, err := attach.EncodeBody(attach.KindStatus, nil)
	if err != nil {
		return err
	}
	answer, _, err := k.ask(message, 0)
	if err != nil {
		return err
	}
	body, err := attach.DecodeBody(answer, attach.KindStatus|attach.AnswerBit)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, to)
}

// job makes a job on the card, which lives as long as the connection.
func (k *connection) job(r attach.JobRequest) (uint16, error) {
	message, err := r.Encode()
	if err != nil {
		return 0, err
	}
	answer, _, err := k.ask(message, 0)
	if err != nil {
		return 0, err
	}
	a, err := attach.DecodeJobAnswer(answer)
	return a.GID, err
}

// attach asks for a context and maps it, but does not start it.
func (k *connection) attach(r attach.AttachRequest) error {
	answer, fds, err := k.ask(r.Encode(), attach.AttachDescriptors)
	if err != nil {
		return err
	}
	k.fds = append(k.fds, fds...)
	if k.answer, err = attach.DecodeAttachAnswer(answer); err != nil {
		return err
	}
	if len(fds) != attach.AttachDescriptors {
		return fmt.Errorf("attaching: %d descriptors, not %d", len(fds), attach.AttachDescriptors)
	}
	for i, size := range []int{int(k.answer.Memory), funi.DoorbellsSize} {
		m, err := unix.Mmap(fds[i], 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return fmt.Errorf("mapping the context: %w", err)
		}
		k.maps = append(k.maps, m)
	}
	if k.memory, err = funi.SharedMemory(k.maps[0], k.maps[1]); err != nil {
		return err
	}
	k.memory.Wake = k.wake
	return nil
}

// errHalt: the card does not take up the context's queues.
var errHalt = errors.New("the card does not halt the queues")

// start takes the context into use.
func (k *connection) start() (err error) {
	end := time.Now().Add(patience)
	k.iface, err = funi.Start(k.memory, int(k.answer.Slots), func() error {
		switch {
		case time.Now().After(end):
			return errHalt
		case k.memory.Page.Load(funi.Control) == 0 && k.hungUp():
			return funi.ErrDetached
		}
		unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		return nil
	})
	return err
}

// segment makes memory for transfers.
func (k *connection) segment(r attach.SegmentRequest) ([]byte, error) {
	answer, fds, err := k.ask(r.Encode(), attach.SegmentDescriptors)
	if err != nil {
		return nil, err
	}
	k.fds = append(k.fds, fds...)
	if _, err := attach.DecodeSegmentAnswer(answer); err != nil {
		return nil, err
	}
	if len(fds) != attach.SegmentDescriptors {
		return nil, fmt.Errorf("making a segment: %d descriptors", len(fds))
	}
	m, err := unix.Mmap(fds[0], 0, int(r.Bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping a segment: %w", err)
	}
	k.maps = append(k.maps, m)
	return m, nil
}

// wake wakes the card's thread.
func (k *connection) wake() {
	if len(k.fds) <= attach.CardDescriptor {
		return // the enemy has closed it
	}
	_, _ = unix.Write(k.fds[attach.CardDescriptor], []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// hungUp reports whether the daemon has closed the connection or is gone.
func (k *connection) hungUp() bool {
	fds := []unix.PollFd{{Fd: int32(k.socket)}}
	n, _ := unix.Poll(fds, 0)
	return n > 0 && fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}
