package am

// This file is operations that were started and can be cancelled.

// ID names an operation that was started: which kind of operation it is, and which one. 0 names
// none.
type ID uint64

// Kinds of operations, bits 63:32 of an ID.
const (
	callID    ID = 1 << 32 // the rest is the ticket
	sendTagID ID = 2 << 32 // the rest is place and number, as with a ticket
	recvID    ID = 3 << 32
	bytesID   ID = 4 << 32 // the rest is the id
	kindID    ID = 0xffff_ffff << 32
)

// Cancel ends an operation: what its start was given to call is called with ErrCancelled before
// Cancel returns, and nothing of the operation is touched afterwards. It reports whether the
// operation was under way. What has left for another node may still be done there. Any context,
// also from what an operation calls when it ends.
func (e *Endpoint) Cancel(id ID) bool {
	switch id & kindID {
	case callID:
		if c := e.remote.find(uint32(id)); c != nil {
			e.endCall(c, nil, ErrCancelled)
			return true
		}
	case bytesID:
		return e.cancelBytes(uint32(id))
	case sendTagID:
		return e.cancelTagged(uint32(id))
	case recvID:
		return e.cancelReceive(uint32(id))
	}
	return false
}
