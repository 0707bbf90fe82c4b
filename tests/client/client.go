// Package client is a process's end of a daemon's socket, message by message. It is for tests and
// attacks that need what package attach keeps to itself: the descriptors and mappings of a context,
// contexts that are attached but not started, and several messages under way.
//
// The journey: Dial connects. Then Job makes a group, or Attach asks for a context and maps its
// memory and the doorbells. Start takes the context's queues into use (package funi). Segment adds
// memory for transfers. Close gives everything back; the daemon then ends the context or the group.
//
// A Connection belongs to one goroutine at a time.
package client

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

// Patience bounds the wait for each answer of a daemon, and for the card's in Start.
const Patience = time.Minute

// ErrHalt reports a card that does not halt the context's queues.
var ErrHalt = errors.New("the card does not halt the queues")

// Connection is a connection to a daemon, with or without a context.
type Connection struct {
	Conn   *net.UnixConn
	Socket int // its descriptor, for poll
	Answer attach.AttachAnswer
	Memory *funi.Memory
	Iface  *funi.Interface
	// FDs are the received descriptors in order: those of the context (attach.MemoryDescriptor and
	// so on), then one for each segment. Maps are the mappings of the context's memory, the
	// doorbells, and the segments.
	FDs  []int
	Maps [][]byte

	Buffer []byte // attach.MaxMessage bytes, with the last answer
}

// Dial connects to the daemon that listens on the socket.
func Dial(socket string) (*Connection, error) {
	c, err := attach.Dial(context.Background(), socket, Patience)
	if err != nil {
		return nil, err
	}
	k := &Connection{Conn: c, Buffer: make([]byte, attach.MaxMessage)}
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { k.Socket = int(fd) })
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return k, nil
}

// Close gives everything back. The context's interface must not be used afterwards.
func (k *Connection) Close() {
	k.Conn.Close()
	attach.CloseDescriptors(k.FDs)
	for _, m := range k.Maps {
		_ = unix.Munmap(m)
	}
	k.FDs, k.Maps, k.Iface, k.Memory = nil, nil, nil, nil
}

// Ask sends a message and returns the answer, which is valid until the next call. The answer may
// have up to the given number of descriptors.
func (k *Connection) Ask(message []byte, descriptors int) ([]byte, []int, error) {
	if err := k.Conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		return nil, nil, err
	}
	if err := attach.Send(k.Conn, message); err != nil {
		return nil, nil, err
	}
	return attach.Receive(k.Conn, k.Buffer, descriptors)
}

// Status asks the daemon for its status, and decodes it into to.
func (k *Connection) Status(to any) error {
	message, err := attach.EncodeBody(attach.KindStatus, nil)
	if err != nil {
		return err
	}
	answer, _, err := k.Ask(message, 0)
	if err != nil {
		return err
	}
	body, err := attach.DecodeBody(answer, attach.KindStatus|attach.AnswerBit)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, to)
}

// Job makes a job on the card and returns its GID. The job lives as long as the connection.
func (k *Connection) Job(r attach.JobRequest) (uint16, error) {
	message, err := r.Encode()
	if err != nil {
		return 0, err
	}
	answer, _, err := k.Ask(message, 0)
	if err != nil {
		return 0, err
	}
	a, err := attach.DecodeJobAnswer(answer)
	return a.GID, err
}

// Attach asks for a context and maps it, but does not start it.
func (k *Connection) Attach(r attach.AttachRequest) error {
	answer, fds, err := k.Ask(r.Encode(), attach.AttachDescriptors)
	if err != nil {
		return err
	}
	k.FDs = append(k.FDs, fds...)
	if k.Answer, err = attach.DecodeAttachAnswer(answer); err != nil {
		return err
	}
	if len(fds) != attach.AttachDescriptors {
		return fmt.Errorf("attaching: %d descriptors, not %d", len(fds), attach.AttachDescriptors)
	}
	for i, size := range []int{int(k.Answer.Memory), funi.DoorbellsSize} {
		m, err := unix.Mmap(fds[i], 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return fmt.Errorf("mapping the context: %w", err)
		}
		k.Maps = append(k.Maps, m)
	}
	if k.Memory, err = funi.SharedRemoteMemory(k.Maps[0], k.Maps[1], k.Answer.Remote); err != nil {
		return err
	}
	k.Memory.Wake = k.Wake
	return nil
}

// Start takes the context into use.
func (k *Connection) Start() (err error) {
	end := time.Now().Add(Patience)
	k.Iface, err = funi.Start(k.Memory, int(k.Answer.Slots), func() error {
		switch {
		case time.Now().After(end):
			return ErrHalt
		case k.Memory.Page.Load(funi.Control) == 0 && k.HungUp():
			return funi.ErrDetached
		}
		unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		return nil
	})
	return err
}

// Segment makes memory for transfers, and maps it.
func (k *Connection) Segment(r attach.SegmentRequest) ([]byte, error) {
	answer, fds, err := k.Ask(r.Encode(), attach.SegmentDescriptors)
	if err != nil {
		return nil, err
	}
	k.FDs = append(k.FDs, fds...)
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
	k.Maps = append(k.Maps, m)
	return m, nil
}

// Wake wakes the card's thread.
func (k *Connection) Wake() {
	if len(k.FDs) <= attach.CardDescriptor {
		return // an enemy has closed it
	}
	_, _ = unix.Write(k.FDs[attach.CardDescriptor], []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// HungUp reports whether the daemon has closed the connection or is gone.
func (k *Connection) HungUp() bool {
	fds := []unix.PollFd{{Fd: int32(k.Socket)}}
	n, _ := unix.Poll(fds, 0)
	return n > 0 && fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}
