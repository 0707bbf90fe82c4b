package funi

// This file has operations on windows (Tokyo, sections 2.2.2 and 3.3.1; arctic/operation.go). With
// their request blocks a process puts, gets and changes what lies in the windows of others. Entries
// of the notification ring tell it the outcome.
//
// A window is a key slot with an address and rights (SetOpenWindow). The request block of an
// operation:
//
//	word 0      header: bits 31:30 = 01, type = Operate + arctic.Operation, node 15:0, the rest 0
//	word 1      element type 3:0, words of trailer 7:4, ack 8, fetch 9, silent 10, counts 11
//	word 2      cookie: in what completes the operation, or the first word of the block if it
//	            comes back
//	word 3      address 47:32 in the window, the rest 0
//	words 4, 5  key, its lower half first
//	words 6, 7  address 31:0; 0
//	words 8, 9  address of the process's own: of a put's source, or where a get's answer goes; 0:
//	            operands are in the slot, and answers in the completion; 0
//	word 10     length in bytes: of a put, a get, or of the elements
//	word 11     0
//	word 12     trailer, then operands, as in the packet
//
// With ack or fetch, and for RemoteGet and RemoteRead, the card completes the operation once, by an
// entry in the notification ring, whether it was carried out or not. silent leaves the entry out if
// it was carried out. The card reserves entry and record before the packet leaves. If the ring or
// MaxRequests has no room for them, the block comes back with arctic.ReasonNoBuffer. A put or an
// operation without ack is complete when nothing comes back.
//
// The entry of a completion, 64 bytes:
//
//	word 0       cookie
//	word 1       the node 15:0, operation 23:16, reason 31:24; arctic.ReasonNone: it was carried
//	             out
//	word 2       bytes of the answer
//	word 3       0
//	words 4..11  the answer of an operation with fetch, or of RemoteRead, or of a get without an
//	             address
//	word 15      NoteCompletion
//
// The entry that a put's trailer makes at the receiver (SetOpenWindow says how many there may be):
//
//	word 0       key slot 31:16
//	word 1       source node 15:0
//	words 2, 3   tag
//	words 4, 5   address of the first byte of the put's last packet
//	word 15      NoteWindow
//
// The first packet that finds a window not present makes this entry, if the window has credit for
// it:
//
//	word 0       key slot 31:16
//	word 1       source node 15:0
//	words 2, 3   0
//	words 4, 5   address that it wants
//	word 15      NoteFault

import (
	"sync/atomic"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
)

const (
	// Operate is the first of the sixteen types of request blocks that are operations on windows.
	Operate RemoteOperation = 128
	// SuspendWindow makes all operations on a window wait at their senders (arctic.ReasonAbsent).
	SuspendWindow RemoteOperation = 262
	ResumeWindow  RemoteOperation = 263 // ends the suspension, and releases the lock of the window

	// MaxRequests is the most uncompleted operations of a context. The size of its notification
	// ring is the limit if that is less.
	MaxRequests = 1024
	// MaxAnswer is the longest answer that a completion has room for, in bytes.
	MaxAnswer = arctic.MaxElements * 8

	operateElement = 0xf
	operateTrailer = 0xf << 4
	operateAck     = 1 << 8
	operateFetch   = 1 << 9
	operateSilent  = 1 << 10
	operateCounts  = 1 << 11
	openAbsent     = 1 << 8
	openCounts     = 1 << 9

	noteKindWord   = noteWords - 1
	completedWord  = 0x6a0 / 4 // and the next
	operationsLost = 0x6ac / 4
	windowRights   = RightRead | RightWrite | RightAtomic | RightNotify
	openWindowWord = RemoteDataWord // address 31:0, 47:32
	// openCountsWord is the word of the address of a window's counts. Only a block with openCounts
	// has it.
	openCountsWord = RemoteDataWord + 2

	// CountsBytes is the size of a window's counts: words of 64 bits, in the order of the
	// constants below.
	CountsBytes = 8 * countsOfWindow
)

// What a window counts, of the operations that ask for it (arctic.WindowRequest.Counts).
const (
	CountWrites  = iota // puts, and operations on elements without an answer
	CountFetches        // operations that answer what was there before they changed it
	CountReads          // gets, and reads of elements
	countsOfWindow
)

// WindowRights is what others may do with a window. A key slot that is opened without an address
// has RightWrite.
type WindowRights uint8

// The rights of a window.
const (
	RightRead   WindowRights = 1 << iota // get and read
	RightWrite                           // put and write, also by an area
	RightAtomic                          // the other operations, locks, and signals
	RightNotify                          // notifications of puts
)

// NoteKind says what an entry of the notification ring reports.
type NoteKind uint32

// The kinds of entries.
const (
	NoteArea       NoteKind = iota // all that an area counts is there (remote.go)
	NoteCompletion                 // an operation of the process's own is complete
	NoteWindow                     // another's put with a notification is there
	NoteFault                      // another wants a window that is not present
	NotePointers                   // the answer to TriggerPointers
	// NoteBarrier says that a barrier is complete, or has failed. Cookie is its number.
	NoteBarrier NoteKind = 8
)

// Window is what SetOpenWindow opens.
type Window struct {
	Key uint64 // the number of the key slot 15:0, the secret 63:16
	// Base is the address of its memory in the process's own segment, which must be Keyed
	Base    uint32
	Bytes   uint32
	Address uint64 // of its first byte, for others; at most arctic.MaxAddress
	Rights  WindowRights
	// Credit is how many notifications of puts may be unread; a further one waits at its sender.
	Credit uint32
	Absent bool // opens the window suspended: it is present once it is resumed
	// Counts is the address of the window's counts, CountsBytes in a Keyed segment of the process,
	// a multiple of 8 in memory. 0: it counts nothing. The card adds to them and reads nothing
	// there.
	Counts uint32
}

// Operation is an operation on another process's window.
type Operation struct {
	arctic.WindowRequest // but for Block and ID
	// Source is an address in a segment: of a put's data (right Source), or where a get's answer
	// goes (right Keyed); 0: none
	Source uint32
	Length int // bytes of a put with Source, or of a get
	Cookie uint32
	Silent bool
}

// Valid reports whether a card would accept the lengths of o.
func (o *Operation) Valid() bool {
	if o.Operation > arctic.RemoteUnlock || o.Address > arctic.MaxAddress || o.Counts && !o.Countable() ||
		o.Trailer.Words() > 0 && o.Operation != arctic.RemotePut {
		return false
	}
	switch o.Operation {
	case arctic.RemotePut:
		if o.Source != 0 {
			return len(o.Operands) == 0 && o.Length >= 0 && o.Length <= arctic.MaxTransferWords*arctic.WordSize
		}
		return len(o.Operands)+o.Trailer.Words()*arctic.WordSize <= arctic.MaxRemoteBytes
	case arctic.RemoteGet:
		if o.Source != 0 {
			return o.Length >= 0 && o.Length <= arctic.MaxTransferWords*arctic.WordSize
		}
		return o.Length >= 0 && o.Length <= MaxAnswer
	}
	return o.Source == 0 && len(o.Operands) <= arctic.MaxRemoteBytes && len(o.Operands) == o.OperandBytes()
}

// SetOperation composes the request block of an operation that is Valid.
func (s *Slot) SetOperation(node uint16, o *Operation) {
	s.setRemote(Operate+RemoteOperation(o.Operation), node, o.Key, o.Cookie)
	words := o.Trailer.Words()
	flags := uint32(o.Element)&operateElement | uint32(words)<<4
	if o.Ack {
		flags |= operateAck
	}
	if o.Fetch {
		flags |= operateFetch
	}
	if o.Silent {
		flags |= operateSilent
	}
	if o.Counts {
		flags |= operateCounts
	}
	s[RemoteAreaWord], s[3] = flags, uint32(o.Address>>32)
	s[RemoteOffsetWord], s[RemoteSourceWord] = uint32(o.Address), o.Source
	switch {
	case o.Operation == arctic.RemoteGet, o.Source != 0:
		s[RemoteLengthWord] = uint32(o.Length)
	case o.Operation == arctic.RemotePut:
		s[RemoteLengthWord] = uint32(len(o.Operands))
	default:
		s[RemoteLengthWord] = uint32(o.Bytes)
	}
	o.Trailer.Put(s[RemoteDataWord : RemoteDataWord+words])
	if o.Source == 0 && o.Operation != arctic.RemoteGet {
		s.setBytes(RemoteDataWord+words, o.Operands)
	}
}

// setBytes writes bytes into the words from one on, the last filled up with zeros.
func (s *Slot) setBytes(n int, b []byte) {
	words := len(b) / arctic.WordSize
	arctic.Words(s[n:n+words], b)
	if b = b[words*arctic.WordSize:]; len(b) > 0 {
		var last [arctic.WordSize]byte
		copy(last[:], b)
		arctic.Words(s[n+words:n+words+1], last[:])
	}
}

// SetOpenWindow composes a block that opens a window. Its number must be that of a closed key slot.
func (s *Slot) SetOpenWindow(w *Window, cookie uint32) {
	s.SetOpenKeySlot(w.Key, w.Base, w.Bytes, cookie)
	s[RemoteAreaWord], s[RemoteCountWord] = uint32(w.Rights), w.Credit
	if w.Absent {
		s[RemoteAreaWord] |= openAbsent
	}
	if w.Counts != 0 {
		s[RemoteAreaWord] |= openCounts
		s[openCountsWord] = w.Counts
	}
	s[openWindowWord], s[openWindowWord+1] = uint32(w.Address), uint32(w.Address>>32)
}

// SetSuspendWindow composes a block that suspends the window with the key; see SuspendWindow.
func (s *Slot) SetSuspendWindow(key uint64, cookie uint32) {
	s.setRemote(SuspendWindow, 0, key, cookie)
}

// SetResumeWindow composes a block that resumes the window with the key; see ResumeWindow.
func (s *Slot) SetResumeWindow(key uint64, cookie uint32) { s.setRemote(ResumeWindow, 0, key, cookie) }

// Completed returns how many operations of the process the card has completed since the context was
// attached, silent ones, too.
func (i *Interface) Completed() uint64 {
	return atomic.LoadUint64(i.page.completed())
}

// OperationsLost returns how many of the lost returns (ReturnsLost) are of operations on windows
// and of multicasts. Such a block has done nothing, and has no completion. The card stores the
// count before it retires the block's slot.
func (i *Interface) OperationsLost() uint32 {
	return atomic.LoadUint32(&i.page[operationsLost]) - i.operationsLost
}

// completes reports whether the block is an operation on a window or a multicast. The card
// completes these unless it gives the block back.
func (h Header) completes() bool {
	_, operation := h.WindowOperation()
	return h.Remote() && (operation || h.Operation() == Multicast || h.Operation() == Send)
}

// completed returns the count of completions, two words of the page on a multiple of eight bytes.
func (p *Page) completed() *uint64 { return (*uint64)(unsafe.Pointer(&p[completedWord])) }

// Completed returns the lower half of the number of operations that the card has completed.
func (p *Page) Completed() uint32 { return uint32(atomic.LoadUint64(p.completed())) }

// readWindow decodes an entry of the ring that is not of an area.
func (n *Notification) readWindow(e []uint32) {
	switch n.Kind {
	case NotePath:
		n.Cookie, n.Reason, n.Tag = e[0], arctic.Reason(e[1]), uint64(e[2])|uint64(e[3])<<32
		return
	case NotePointers:
		n.Pointers = Pointers{Issued: e[0], Retired: e[1], Notified: e[4], NotesRead: e[5]}
		return
	case NoteFastReceive, NoteReceive, NotePostedReceive:
		n.readMessage(e)
		return
	}
	n.Source = uint16(e[1])
	if n.Kind != NoteCompletion && n.Kind != NoteBarrier {
		n.KeySlot, n.Tag, n.Address = uint16(e[0]>>16), uint64(e[2])|uint64(e[3])<<32, uint64(e[4])|uint64(e[5])<<32
		return
	}
	n.Cookie, n.Operation, n.Reason, n.Bytes = e[0], arctic.Operation(e[1]>>16&0xff), arctic.Reason(e[1]>>24), e[2]
	arctic.PutWords(n.Answer[:], e[noteMetadataWord:noteMetadataWord+MaxAnswer/arctic.WordSize])
}

// The card's end.

// WindowOperation returns the operation on a window that the block asks for, or false if it asks
// for something else.
func (h Header) WindowOperation() (arctic.Operation, bool) {
	op := h.Operation() - Operate
	return arctic.Operation(op), op <= RemoteOperation(arctic.RemoteUnlock)
}

// OpenedWindow decodes the window that a block opens, or returns false. The words are the card's
// copy.
func OpenedWindow(w *Slot) (o Window, ok bool) {
	flags := w[RemoteAreaWord]
	o = Window{Key: uint64(w[RemoteKeyWord]) | uint64(w[RemoteKeyWord+1])<<32, Base: w[RemoteOffsetWord],
		Bytes: w[RemoteLengthWord]}
	if flags == 0 && w[RemoteCountWord] == 0 {
		o.Rights = RightWrite // a key slot, which has no address
		return o, true
	}
	o.Rights, o.Credit, o.Absent = WindowRights(flags), w[RemoteCountWord], flags&openAbsent != 0
	o.Address = uint64(w[openWindowWord+1])<<32 | uint64(w[openWindowWord])
	if flags&openCounts != 0 {
		o.Counts = w[openCountsWord]
	}
	return o, flags&^(uint32(windowRights)|openAbsent|openCounts) == 0 && o.Address <= arctic.MaxAddress &&
		(o.Credit == 0 || o.Rights&RightNotify != 0) && (o.Counts != 0) == (flags&openCounts != 0)
}

// ReadOperation decodes an operation from a block, except for its trailer and operands. It returns
// how many words the trailer has, or false. The words are the card's copy.
func ReadOperation(h Header, w *Slot, o *Operation) (trailer int, ok bool) {
	op, ok := h.WindowOperation()
	flags := w[RemoteAreaWord]
	if !ok || flags&^(operateElement|operateTrailer|operateAck|operateFetch|operateSilent|operateCounts) != 0 ||
		w[3]>>16 != 0 || w[RemoteCountWord] != 0 {
		return 0, false
	}
	o.WindowRequest = arctic.WindowRequest{
		Operation: op, Element: arctic.Element(flags & operateElement), Ack: flags&operateAck != 0,
		Fetch: flags&operateFetch != 0, Counts: flags&operateCounts != 0,
		Key:     uint64(w[RemoteKeyWord]) | uint64(w[RemoteKeyWord+1])<<32,
		Address: uint64(w[3])<<32 | uint64(w[RemoteOffsetWord]),
	}
	o.Source, o.Length, o.Cookie, o.Silent = w[RemoteSourceWord], int(w[RemoteLengthWord]), w[RemoteCookieWord],
		flags&operateSilent != 0
	return int(flags >> 4 & 0xf), !o.Counts || o.Countable()
}

// Complete puts the completion of an operation into the ring as entry n. The caller makes sure that
// there is room.
func (c *Card) Complete(n, cookie uint32, node uint16, op arctic.Operation, reason arctic.Reason, bytes uint32,
	answer []byte) {
	e := c.memory.note(n)
	e[0], e[1], e[2], e[3] = cookie, uint32(node)|uint32(op)<<16|uint32(reason)<<24, bytes, 0
	clear(e[noteMetadataWord : noteMetadataWord+MaxAnswer/4])
	arctic.Words(e[noteMetadataWord:noteMetadataWord+len(answer)/arctic.WordSize], answer)
	if e[noteKindWord] = uint32(NoteCompletion); op == arctic.RemoteBarrier {
		e[noteKindWord] = uint32(NoteBarrier)
	}
	c.noted(n)
}

// NotifyWindow puts into the ring as entry n the notification of a put (NoteWindow), or that a node
// wants a window which is not present (NoteFault, without a tag).
func (c *Card) NotifyWindow(n uint32, kind NoteKind, keySlot, source uint16, tag, address uint64) {
	e := c.memory.note(n)
	e[0], e[1], e[2], e[3] = uint32(keySlot)<<16, uint32(source), uint32(tag), uint32(tag>>32)
	e[4], e[5], e[noteKindWord] = uint32(address), uint32(address>>32), uint32(kind)
	c.noted(n)
}

// PutCompleted tells the process how many operations are complete.
func (c *Card) PutCompleted(n uint64) {
	atomic.StoreUint64(c.page.completed(), n)
	c.changed = true
}
