package am

// This file names started operations, and cancels them.

// ID names a started operation: its kind, and which one it is. 0 names none.
type ID uint64

// Kinds of operations, bits 63:32 of an ID.
const (
	callID    ID = 1 << 32 // the rest is the ticket
	sendTagID ID = 2 << 32
	recvID    ID = 3 << 32
	bytesID   ID = 4 << 32
	kindID    ID = 0xffff_ffff << 32
)

// Cancel ends an operation. The function that was passed at its start is called with ErrCancelled
// before Cancel returns; then the operation's memory is the program's again. Cancel reports whether
// the operation was in flight. Messages that have left may still take effect at the other node. Any
// context, also in the function that an operation calls when it ends.
func (e *Endpoint) Cancel(id ID) bool {
	switch id & kindID {
	case callID:
		if c := e.remote.find(uint32(id)); c != nil {
			e.remote.end(c, nil, ErrCancelled, false)
			return true
		}
	case bytesID:
		if s := e.bytes.sends.find(uint32(id)); s != nil && s.state != sendGivenUp {
			e.bytes.endSend(s, ErrCancelled, true)
			return true
		}
	case sendTagID:
		if s := e.tags.sends.find(uint32(id)); s != nil {
			e.tags.dropSend(s, ErrCancelled)
			return true
		}
	case recvID:
		return e.tags.cancelReceive(uint32(id))
	}
	return false
}
