package rats

// This file implements SendMsg, and tracks the outcome of messages (HPL-95-86, section 3.1).

import (
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// remembered is the number of latest messages whose handles are valid.
const remembered = 1024

// Handle names a message that was sent, or another request. It is less than 1<<31.
type Handle uint32

// ownerCookie is the bit of a request's cookie that says that the rest names an instance
// (manager.go), not a handle.
const ownerCookie = 1 << 31

// Status is the progress of a message.
type Status uint8

const (
	// Pending: the card has not taken the message. The memory of a long message must not change.
	Pending Status = iota
	Copied         // the message is in the send queue, and its memory is the process's again
	// Sent: the card has taken the message, and needs nothing more of the process for it. It will
	// be delivered once, or come back; then its status becomes Failed. If the card had no room to
	// say what came back, all messages to that node are Failed, with NoReason. If several nodes
	// were affected, messages to other nodes may be Failed, too (funi.Lost).
	Sent
	Failed // the message came back; a part of a long one may have been written
)

type send struct {
	handle Handle
	at     uint64 // how many slots of the request queue were committed up to it
	inSlot bool
	reason arctic.Reason
	node   uint16
	lost   bool // it may have come back, and the card had no room to say so
}

// sends is the last requests. The index of a handle is its lower bits.
type sends struct {
	list    [remembered]send
	next    Handle
	retired uint64 // slots of the request queue
}

// at returns what a cookie or handle names, or nil.
func (s *sends) at(n uint32) *send {
	if m := &s.list[n%remembered]; n != 0 && uint32(m.handle) == n {
		return m
	}
	return nil
}

// look notes which slots were retired.
func (e *Endpoint) look() {
	e.sent.retired = e.iface.Committed(funi.Request) - uint64(e.iface.Unsent(funi.Request))
}

// suspect notes which messages may have come back. Slots are retired in order, so a message may
// come back while its slot waits behind that of a long message: one that is not retired is suspect,
// too, and fails when it is.
func (s *sends) suspect(l *funi.Lost) {
	for i := range s.list {
		if m := &s.list[i]; m.handle != 0 && l.To(m.node) {
			m.lost = true
		}
	}
}

// launch commits a request that compose makes of a slot, and remembers it.
func (e *Endpoint) launch(compose func(s *funi.Slot, cookie uint32)) (Handle, error) {
	e.look()
	h := e.sent.next + 1
	if h == ownerCookie {
		h = remembered // 0 is none
	}
	m := &e.sent.list[h%remembered]
	if m.handle != 0 && m.at > e.sent.retired {
		return 0, ErrFull
	}
	at, ok := e.commit(uint32(h), compose)
	if !ok {
		return 0, ErrFull
	}
	*m = send{handle: h, at: at}
	e.sent.next = h
	return h, nil
}

// commit commits a request with a cookie. It returns how many slots of the queue were committed up
// to it: at is retired when the card needs nothing of the process for it any more. false: the queue
// is full.
func (e *Endpoint) commit(cookie uint32, compose func(s *funi.Slot, cookie uint32)) (at uint64, ok bool) {
	e.look()
	s := e.iface.Reserve(funi.Request)
	if s == nil {
		return 0, false
	}
	compose(s, cookie)
	e.iface.Commit(funi.Request)
	return e.iface.Committed(funi.Request), true
}

// SendMsg launches a message to the place of its ticket, with up to 11 words of metadata for the
// record. A message that does not fit a packet must lie in a segment with the right Source, and
// must not change until Status is Sent. Errors are ErrTooLong, ErrMemory and ErrFull; then nothing
// was sent.
func (e *Endpoint) SendMsg(t Ticket, data []byte, metadata ...uint32) (Handle, error) {
	return e.send(t, 0, data, metadata, true)
}

// Write writes data at an offset from the ticket's, without a record for the receiver (3.2, remote
// write). It is otherwise like SendMsg.
func (e *Endpoint) Write(t Ticket, offset uint32, data []byte) (Handle, error) {
	return e.send(t, offset, data, nil, false)
}

func (e *Endpoint) send(t Ticket, offset uint32, data []byte, metadata []uint32, counted bool) (Handle, error) {
	source, err := e.source(&t, offset, data, len(metadata))
	if err != nil {
		return 0, err
	}
	e.sends(nil, source == 0, len(data), len(metadata)*arctic.WordSize)
	p := t.put(offset, source, data, metadata, counted)
	h, err := e.launch(func(s *funi.Slot, cookie uint32) {
		p.Cookie = cookie
		s.SetPut(t.Node, &p)
	})
	if err != nil {
		return 0, fmt.Errorf("sending %d bytes to node %d: %w", len(data), t.Node, err)
	}
	m := e.sent.at(uint32(h))
	m.inSlot, m.node = source == 0, t.Node
	return h, nil
}

// source returns the address of a message's data in a segment, or 0 for one whose data is in the
// slot. Errors are those of SendMsg but ErrFull.
func (e *Endpoint) source(t *Ticket, offset uint32, data []byte, metadata int) (address uint32, err error) {
	if uint64(offset)+uint64(len(data)) > uint64(t.Size) || metadata > arctic.MaxRemoteMetadata {
		return 0, fmt.Errorf("sending %d bytes at %d to node %d: %w", len(data), offset, t.Node, ErrTooLong)
	}
	if len(data)+metadata*arctic.WordSize <= arctic.MaxRemoteBytes {
		return 0, nil
	}
	address, ok := e.segments.Address(data, funi.Source)
	if !ok {
		return 0, fmt.Errorf("sending %d bytes to node %d: %w", len(data), t.Node, ErrMemory)
	}
	if p := (funi.Put{Source: address, Length: len(data)}); !p.Valid() {
		return 0, fmt.Errorf("sending %d bytes to node %d: %w", len(data), t.Node, ErrTooLong)
	}
	return address, nil
}

// put makes the request of a message, whose source is that of Endpoint.source. It keeps the slices
// in what it returns and nowhere else, so a caller's need not be on the heap.
func (t *Ticket) put(offset, source uint32, data []byte, metadata []uint32, counted bool) funi.Put {
	p := funi.Put{Key: t.Key, Offset: t.Offset + offset, Area: t.Area, Counted: counted, Count: t.Count,
		Metadata: metadata}
	if source != 0 {
		p.Source, p.Length = source, len(data)
	} else {
		p.Data = data
	}
	return p
}

// Status returns the progress of a message, and why it came back. Call Poll before. A handle is
// valid for the next 1024 messages; then Status returns ErrHandle.
func (e *Endpoint) Status(h Handle) (Status, arctic.Reason, error) {
	e.look()
	e.hearLost() // a return is lost before its slot is retired
	m := e.sent.at(uint32(h))
	switch {
	case m == nil:
		return Failed, NoReason, ErrHandle
	case m.reason != NoReason:
		return Failed, m.reason, nil
	case m.at <= e.sent.retired && m.lost:
		return Failed, NoReason, nil
	case m.at <= e.sent.retired:
		return Sent, NoReason, nil
	case m.inSlot:
		return Copied, NoReason, nil
	}
	return Pending, NoReason, nil
}
