package rma

// This file has messages to memory that their receiver has named (funi/send.go; Froening's thesis,
// sections 2.4.1 and 4.1.4 to 4.1.7). They complete as operations do. What arrives goes to
// Endpoint.Entry.

import (
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// Send sends a message with two tags. Up to arctic.MaxFastSend bytes are copied at once. More must
// lie in a segment with the right Source, and must not change until the message is complete. With
// is that of a put without a trailer. Errors are ErrMemory, ErrTooLong, and those of drive.
func (e *Endpoint) Send(node uint16, data []byte, userTag uint64, apiTag uint32, with With) (ID, error) {
	r := funi.SendRequest{UserTag: userTag, APITag: apiTag, Ack: true, Silent: !with.Ack}
	if len(data) <= arctic.MaxFastSend {
		r.Data = data
	} else {
		address, ok := e.segments.Address(data, funi.Source)
		if !ok {
			return 0, fmt.Errorf("sending %d bytes to node %d: %w", len(data), node, ErrMemory)
		}
		r.Source, r.Length = address, len(data)
	}
	if !r.Valid() {
		return 0, fmt.Errorf("sending %d bytes to node %d: %w", len(data), node, ErrTooLong)
	}
	s, id, cookie, err := e.record("sending", node, with.Ordered, r.Silent)
	if err != nil {
		return 0, err
	}
	r.Cookie = cookie
	s.SetSend(node, &r)
	e.commit(id, arctic.RemoteSend)
	return id, nil
}

// OpenReceive says where messages go, in place of what was said before: memory is the receive ring
// or the queue of posted buffers, in a segment with the right Keyed, and empty with
// funi.ReceiveFast. At most credit messages are unread. Errors are ErrMemory, ErrFull, ErrUntold,
// and those of drive.
func (e *Endpoint) OpenReceive(mode funi.ReceiveMode, memory []byte, credit int) error {
	r := funi.Receive{Mode: mode, Bytes: uint32(len(memory)), Credit: uint32(credit)}
	if len(memory) > 0 {
		var ok bool
		if r.Base, ok = e.segments.Address(memory, funi.Keyed); !ok {
			return fmt.Errorf("opening %d bytes for messages: %w", len(memory), ErrMemory)
		}
	}
	if !r.Valid() || e.credit-e.receives+credit >= e.iface.Remote().Notifications {
		return fmt.Errorf("opening %d bytes for %d messages: %w", len(memory), credit, ErrFull)
	}
	reason, err := e.Command(func(s *funi.Slot, cookie uint32) { s.SetOpenReceive(&r, cookie) })
	if err == nil && reason != arctic.ReasonNone {
		err = fmt.Errorf("%w: %v", ErrFull, reason)
	}
	if err != nil {
		return fmt.Errorf("opening %d bytes for %d messages: %w", len(memory), credit, err)
	}
	e.receive(credit)
	return nil
}

// CloseReceive ends receiving. When it returns, the card no longer writes to the memory. Errors are
// ErrWindow if nothing was open, ErrUntold, and those of drive.
func (e *Endpoint) CloseReceive() error {
	reason, err := e.Command(func(s *funi.Slot, cookie uint32) { s.SetCloseReceive(cookie) })
	switch {
	case err != nil:
	case reason != arctic.ReasonNone:
		err = ErrWindow
	default:
		e.receive(0)
	}
	if err != nil {
		return fmt.Errorf("closing the memory for messages: %w", err)
	}
	return nil
}

// receive reserves entries of the ring for messages.
func (e *Endpoint) receive(credit int) {
	e.credit += credit - e.receives
	e.receives = credit
	e.ops.limit = min(e.iface.Remote().Notifications-e.credit, funi.MaxRequests)
}

// Address returns the address of memory in a segment with the right Keyed, or ErrMemory.
func (e *Endpoint) Address(memory []byte) (uint32, error) {
	address, ok := e.segments.Address(memory, funi.Keyed)
	if !ok || len(memory) == 0 {
		return 0, ErrMemory
	}
	return address, nil
}
