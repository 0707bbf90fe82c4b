package arctic

// This file has the payload of a packet of KindRemote without the flag area: an operation on a
// window. A window is memory that a process has given a key to, with an address and rights (Tokyo,
// sections 2.2.2, 3.3.1.1 and 3.3.1.2). These sections name a write, a read and atomic operations.
// The further operations of RDMA verbs are here, too.
//
// The type of the packet: operation 3:0, element type 7:4, flags 13:8:
//
//	12  counts: the last packet of an operation that the window is to count
//	11  block: the data of a put is the frame's block
//	10  trailer: what is to be done when the data is there
//	9   fetch: the elements' old values are answered (response.go)
//	8   ack: the sender waits for the acknowledgment, which therefore leaves at once
//
// The payload:
//
//	words 0, 1  key: the number of the window 15:0, the secret 63:16
//	word 2      address 31:0, in the window's numbering
//	word 3      bytes 31:16 of the elements, or of the data; 0 with a block. Address 47:32 in 15:0
//	word 4      the request that an answer is to: index 15:0, generation 31:16
//	            trailer, of 3, 6 or 8 words
//	            operands: those of all elements, for a compare-and-swap first what they are
//	            compared with; a get has the offset that its answer repeats; and as many zeros as
//	            fill up the last word
//
// The trailer:
//
//	word 0      1: notify, 2: set a signal, 4: add to it; the signal's address 47:32 in 31:16
//	            notify: tag, 2 words
//	            signal: key, 2 words, address 31:0, value, 2 words
//
// Trailer and operands have 64 bytes together, so that a packet has 24 words at most.

import "encoding/binary"

// Operation is what a packet of KindRemote asks for.
type Operation uint8

// The operations. Unless said otherwise, an operation answers the old values if asked to
// (WindowRequest.Fetch).
const (
	RemotePut   Operation = iota // writes bytes, and answers nothing
	RemoteGet                    // answers bytes
	RemoteWrite                  // writes elements, each atomically
	RemoteRead                   // answers elements, each read atomically
	RemoteAdd                    // modulo 2^bits
	RemoteAnd
	RemoteOr
	RemoteXor
	RemoteMin
	RemoteMax
	RemoteProd
	RemoteSwap
	RemoteCompareSwap // writes the second operand where the element equals the first one
	RemoteMaskedSwap  // writes those bits of the first operand that are set in the second
	// RemoteLock locks the window for the sending node. Its operand is the life of the node.
	RemoteLock
	RemoteUnlock // releases the lock
	// RemoteMulticast stands in the completion of a multicast (multicast.go); no packet of
	// KindRemote asks for it.
	RemoteMulticast
	// RemoteSend stands in the completion of a message (send.go); no packet of KindRemote asks for
	// it.
	RemoteSend
	// RemoteBarrier stands in the notification of a barrier. Its packets are an addition to key 0
	// (engine/barrier.go).
	RemoteBarrier
)

// Element is the type of an element.
type Element uint8

// The types of elements.
const (
	Uint8 Element = iota
	Uint16
	Uint32
	Uint64
	Int8
	Int16
	Int32
	Int64
	Float32
	Float64
	Elements // how many there are
)

// Size returns the size of an element in bytes, 1 to 8, or 0 if e is not an element type.
func (e Element) Size() int {
	switch e {
	case Uint8, Int8:
		return 1
	case Uint16, Int16:
		return 2
	case Uint32, Int32, Float32:
		return 4
	case Uint64, Int64, Float64:
		return 8
	}
	return 0
}

const (
	TrailerFlag = 1 << 10   // the flag of the type that announces a trailer
	MaxElements = 4         // the most elements of an operation
	MaxAddress  = 1<<48 - 1 // the largest address in a window
	MaxGetBytes = 1<<16 - 1 // the most bytes that one packet asks for

	operationWords = remoteWords
	elementShift   = 4

	remoteCounts  = 1 << 12
	remoteTrailer = TrailerFlag
	remoteFetch   = 1 << 9
	remoteAck     = 1 << 8

	trailerNotify = 1
	trailerSet    = 2
	trailerAdd    = 4
)

// WindowRequest is the payload of an operation on a window.
type WindowRequest struct {
	Operation Operation
	Element   Element
	Block     bool // the frame has the data, see PutBlock
	Ack       bool
	Fetch     bool
	Counts    bool // the window counts the operation; not for locks
	Key       uint64
	Address   uint64 // at most MaxAddress
	Bytes     int    // of the elements, or of what a get asks for; a put's are those of Operands
	ID        uint32 // generation 31:16, index 15:0
	Trailer   Trailer
	Operands  []byte
}

// Trailer says what is to be done when the data of a put is there.
type Trailer struct {
	Notify bool
	Tag    uint64 // of the notification
	// Set writes Value to the word of 64 bits at Address in the window with the Key; Add adds it.
	Set, Add bool
	Key      uint64
	Address  uint64
	Value    uint64
}

// Words returns how many words a trailer has.
func (t *Trailer) Words() (n int) {
	if t.Notify {
		n += 2
	}
	if t.Set || t.Add {
		n += 5
	}
	if n > 0 {
		n++
	}
	return n
}

// Put encodes a trailer into words, which must have room for Words.
func (t *Trailer) Put(w []uint32) {
	if t.Words() == 0 {
		return
	}
	w[0] = 0
	n := 1
	if t.Notify {
		w[0] |= trailerNotify
		w[n], w[n+1] = uint32(t.Tag), uint32(t.Tag>>32)
		n += 2
	}
	if t.Set || t.Add {
		if t.Set {
			w[0] |= trailerSet
		} else {
			w[0] |= trailerAdd
		}
		w[0] |= uint32(t.Address>>32) << 16
		w[n], w[n+1], w[n+2] = uint32(t.Key), uint32(t.Key>>32), uint32(t.Address)
		w[n+3], w[n+4] = uint32(t.Value), uint32(t.Value>>32)
	}
}

// TrailerWords returns how many words the trailer that begins with w has, or 0 if no trailer does.
func TrailerWords(w uint32) int {
	switch w & 0xffff {
	case trailerNotify:
		if w>>16 == 0 {
			return 3
		}
	case trailerSet, trailerAdd:
		return 6
	case trailerNotify | trailerSet, trailerNotify | trailerAdd:
		return 8
	}
	return 0
}

// read decodes a trailer and returns the bytes behind it, or false.
func (t *Trailer) read(b []byte) ([]byte, bool) {
	if len(b) < WordSize {
		return nil, false
	}
	w := binary.LittleEndian.Uint32(b)
	n := TrailerWords(w) * WordSize
	if n == 0 || len(b) < n {
		return nil, false
	}
	rest := b[n:]
	b = b[WordSize:]
	if t.Notify = w&trailerNotify != 0; t.Notify {
		t.Tag, b = binary.LittleEndian.Uint64(b), b[8:]
	}
	t.Set, t.Add = w&trailerSet != 0, w&trailerAdd != 0
	if t.Set || t.Add {
		t.Key, t.Address = binary.LittleEndian.Uint64(b), uint64(w>>16)<<32|uint64(binary.LittleEndian.Uint32(b[8:]))
		t.Value = binary.LittleEndian.Uint64(b[12:])
	}
	return rest, true
}

// OperandBytes returns how many bytes of operands a request has. For a put or a lock: of Operands.
func (r *WindowRequest) OperandBytes() int {
	switch r.Operation {
	case RemotePut:
		if r.Block {
			return 0
		}
		return r.Bytes
	case RemoteGet, RemoteLock, RemoteUnlock:
		return WordSize
	case RemoteRead:
		return 0
	case RemoteCompareSwap, RemoteMaskedSwap:
		return 2 * r.Bytes
	}
	return r.Bytes
}

// Type returns the type of the packet.
func (r *WindowRequest) Type() uint16 {
	t := uint16(r.Operation) | uint16(r.Element)<<elementShift
	if r.Block {
		t |= remoteBlock
	}
	if r.Trailer.Words() > 0 {
		t |= remoteTrailer
	}
	if r.Fetch {
		t |= remoteFetch
	}
	if r.Ack {
		t |= remoteAck
	}
	if r.Counts {
		t |= remoteCounts
	}
	return t
}

// PutWindowRequest encodes r into b, which must have room for MaxPayloadWords, and returns the
// length in payload words. A request that does not fit panics, as with any slice; the card checks
// before.
func PutWindowRequest(b []byte, r *WindowRequest) int {
	binary.LittleEndian.PutUint64(b, r.Key)
	binary.LittleEndian.PutUint32(b[8:], uint32(r.Address))
	binary.LittleEndian.PutUint32(b[12:], uint32(r.Bytes)<<16|uint32(r.Address>>32))
	binary.LittleEndian.PutUint32(b[16:], r.ID)
	n := operationWords * WordSize
	if words := r.Trailer.Words(); words > 0 {
		var w [8]uint32
		r.Trailer.Put(w[:words])
		PutWords(b[n:n+words*WordSize], w[:words])
		n += words * WordSize
	}
	return putPadded(b, n, r.Operands)
}

// putPadded puts data behind n bytes of b, and zeros up to a whole word. It returns their words.
func putPadded(b []byte, n int, data []byte) int {
	n += copy(b[n:n+len(data)], data)
	for ; n%WordSize != 0; n++ {
		b[n] = 0
	}
	return n / WordSize
}

func zeros(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// WindowRequest decodes the payload of a packet of KindRemote with header h into r, whose Operands
// alias the packet, and reports whether its form is that of an operation that a card sends. It
// accepts any payload. The receiver has to check which types of elements an operation takes, and
// how many.
func (p Packet) WindowRequest(h *PacketHeader, r *WindowRequest) bool {
	b := p.Payload()
	if len(b) < operationWords*WordSize || h.Type&remoteArea != 0 {
		return false
	}
	word := binary.LittleEndian.Uint32(b[12:])
	*r = WindowRequest{
		Operation: Operation(h.Type & 0xf), Element: Element(h.Type >> elementShift & 0xf),
		Block: h.Type&remoteBlock != 0, Ack: h.Type&remoteAck != 0, Fetch: h.Type&remoteFetch != 0,
		Counts:  h.Type&remoteCounts != 0,
		Key:     binary.LittleEndian.Uint64(b),
		Address: uint64(word&0xffff)<<32 | uint64(binary.LittleEndian.Uint32(b[8:])),
		Bytes:   int(word >> 16), ID: binary.LittleEndian.Uint32(b[16:]),
	}
	b = b[operationWords*WordSize:]
	if h.Type&remoteTrailer != 0 {
		var ok bool
		if b, ok = r.Trailer.read(b); !ok || r.Operation != RemotePut || r.Block {
			return false
		}
	}
	if r.Block && (r.Operation != RemotePut || r.Bytes != 0) || r.Counts && !r.Countable() {
		return false
	}
	n := r.OperandBytes()
	if n > len(b) || (n+WordSize-1)/WordSize*WordSize != len(b) || !zeros(b[n:]) {
		return false
	}
	r.Operands = b[:n:n]
	return true
}

// Asked reports whether the receiver answers the request (KindResponse). The other requests are
// complete when they are acknowledged.
func (r *WindowRequest) Asked() bool {
	return r.Operation == RemoteGet || r.Operation == RemoteRead || r.Fetch
}

// Countable reports whether a packet with the request may be the last of an operation that a window
// counts. The last packet of a put has no block.
func (r *WindowRequest) Countable() bool {
	return r.Operation != RemoteLock && r.Operation != RemoteUnlock && !r.Block
}

// IsOperation reports whether a packet of KindRemote with that type is an operation on a window.
// The others are writes that an area may count.
func IsOperation(typ uint16) bool { return typ&remoteArea == 0 }
