package rats

// This file implements the protocol Remote Read (HPL-95-86, section 3.2): a ReadServer lets other
// processes read its memory. The request is a message without data. The server answers in
// process_arrival, without its program, by writing the requested part into the reader's buffer. One
// read of a reader can be in flight.
//
// Each seed is for one reader. So a server has at most as many unanswered requests, for want of
// room in the send queue, as it has made seeds.
//
// Words, first the kind in bits 31:28:
//
//	read   to the server: number 27:0; key of the reader's buffer, 2 words; its area; offset;
//	       length
//	abort  either way: 0
//	data   to the reader: number 27:0; with what was read
//	refuse to the reader: number 27:0. The part is not in the memory

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	kindRead   = 13
	kindRefuse = 14
	readWords  = 6
	numberMask = 1<<kindShift - 1

	MaxRead = arctic.MaxTransferWords * arctic.WordSize // the largest number of bytes of one read
)

var (
	// ErrInFlight reports that the reader has a read in flight.
	ErrInFlight = errors.New("rats: a read is in flight already")
	// ErrRange reports a read beyond the memory that may be read.
	ErrRange = errors.New("rats: this lies beyond the memory that may be read")
)

// ReadServer is memory that other processes read. It belongs to the goroutine of its manager.
type ReadServer struct {
	links
	memory []byte
}

type readLink struct {
	serverEnd
	of     *ReadServer
	unsent bool // an answer waits for room in the send queue
	answer struct {
		number uint32
		part   []byte
		bad    bool
	}
}

// NewReadServer returns a server of memory that Alloc returned. The memory belongs to the server
// until it is closed, and is freed then. Its program may change it at any time; a read during a
// change may return old bytes and new ones. Errors are ErrMemory and ErrFull.
func (m *Manager) NewReadServer(memory []byte) (*ReadServer, error) {
	if !m.heap.allocated(memory) {
		return nil, fmt.Errorf("serving reads of %d bytes: %w", len(memory), ErrMemory)
	}
	s := &ReadServer{memory: memory}
	if err := m.add(&s.instance, gone{}); err != nil {
		return nil, fmt.Errorf("serving reads: %w", err)
	}
	return s, nil
}

// Memory is what others read.
func (s *ReadServer) Memory() []byte { return s.memory }

// Seed returns a seed for one reader. It returns ErrFull and ErrClosed.
func (s *ReadServer) Seed() (seed Seed, err error) {
	if s.closing {
		return seed, fmt.Errorf("making a seed: %w", ErrClosed)
	}
	l := &readLink{of: s}
	err = l.begin(s.m, l, s.m.nothing, controlArea, 0)
	return s.links.seed(&l.serverEnd, len(s.memory), protocolRead, err)
}

// Close closes the server. It frees its memory when the reads in flight have been sent.
func (s *ReadServer) Close() {
	if s.close() {
		s.m.freeLater(s.memory)
	}
}

func (l *readLink) arrived(n *funi.Notification) {
	if l.strange(n) {
		return
	}
	w := n.Metadata
	switch kind := w[0] >> kindShift; {
	case kind == kindRead && n.Words == readWords && !l.unsent && w[3] <= 0xffff && w[1]|w[2] != 0:
		l.bound = true
		l.peer = Ticket{Node: n.Source, Area: uint16(w[3]), Key: uint64(w[1]) | uint64(w[2])<<32}
		a := &l.answer
		a.number, a.bad = w[0]&numberMask, uint64(w[4])+uint64(w[5]) > uint64(len(l.of.memory)) || w[5] > MaxRead
		if a.part = nil; !a.bad {
			a.part = l.of.memory[w[4] : w[4]+w[5]]
		}
		if l.unsent = true; !l.reply() {
			l.m.await(&l.instance)
		}
	case w[0] == kindAbort<<kindShift && n.Words == 1:
		l.abandon()
	default:
		l.bound, l.peer.Node = true, n.Source
		l.liar(kind)
	}
}

// reply answers; false: the send queue is full.
func (l *readLink) reply() bool {
	a, kind, t := &l.answer, uint32(kindData), l.peer
	if a.bad {
		kind = kindRefuse
	}
	t.Size = uint32(len(a.part))
	if !l.sendAny(t, a.part, []uint32{kind<<kindShift | a.number}) {
		return false
	}
	l.unsent, a.part = false, nil
	return true
}

func (l *readLink) turn() bool {
	if l.unsent && !l.closing && !l.reply() {
		return false
	}
	return l.finishOf(&l.of.links, nil)
}

// Reader reads the memory of a ReadServer. It belongs to the goroutine of its manager.
type Reader struct {
	end
	memory []byte // of what is read
	size   uint32 // of the server's memory
	number uint32 // of the last read
	length int
	asked  bool // a read is in flight
	unsent []uint32
	why    error // the last read was refused
}

// ReadFrom returns a reader for the server that made the seed, with a buffer for reads of up to
// size bytes. Errors are ErrFull and ErrSeed.
func (m *Manager) ReadFrom(s Seed, size int) (*Reader, error) {
	memory, err := m.Alloc(max(size, 1))
	if err != nil {
		return nil, fmt.Errorf("making a reader: %w", err)
	}
	r := &Reader{memory: memory, size: s.Size}
	if err := m.client(&r.end, r, s, protocolRead, memory); err != nil {
		if r.key == 0 {
			m.Free(memory)
		}
		return nil, fmt.Errorf("making a reader: %w", err)
	}
	return r, nil
}

// Size returns how many bytes may be read.
func (r *Reader) Size() int { return int(r.size) }

// AsyncRemoteRead begins to read the bytes from offset on. Ready reports when they are there.
// Errors are ErrInFlight, ErrTooLong for more than the reader's buffer, and the reason why the
// reader is unusable. If the part lies beyond the server's memory, Ready returns ErrRange.
func (r *Reader) AsyncRemoteRead(offset uint32, length int) error {
	switch {
	case r.err != nil:
		return r.err
	case r.closing:
		return ErrClosed
	case r.asked:
		return fmt.Errorf("reading %d bytes: %w", length, ErrInFlight)
	case length < 0 || length > len(r.memory):
		return fmt.Errorf("reading %d bytes into %d: %w", length, len(r.memory), ErrTooLong)
	}
	r.number++
	r.asked, r.length, r.why = true, length, nil
	r.unsent = append(r.unsent[:0], kindRead<<kindShift|r.number&numberMask, uint32(r.key), uint32(r.key>>32),
		uint32(r.areas[0]), offset, uint32(length))
	if !r.request() {
		r.m.await(&r.instance)
	}
	return nil
}

// RemoteRead reads the bytes from offset on, and returns them; they are in the reader's buffer
// until its next read. drive lets the card run and calls Poll, until it returns an error, which
// RemoteRead returns. Other errors are those of AsyncRemoteRead and Ready.
func (r *Reader) RemoteRead(offset uint32, length int, drive func() error) ([]byte, error) {
	if err := r.AsyncRemoteRead(offset, length); err != nil {
		return nil, err
	}
	for {
		if b, ok, err := r.Ready(); ok || err != nil {
			return b, err
		}
		if err := drive(); err != nil {
			return nil, fmt.Errorf("reading %d bytes of node %d: %w", length, r.peer.Node, err)
		}
	}
}

// Ready returns the data of the last read, valid until the next one; false: it has not arrived. The
// error is ErrRange for that read, or the reason why nothing can be read any more.
func (r *Reader) Ready() (b []byte, ok bool, err error) {
	switch {
	case r.err != nil:
		return nil, false, r.err
	case r.why != nil:
		return nil, false, r.why
	case r.asked || r.number == 0:
		return nil, false, nil
	}
	return r.memory[:r.length:r.length], true, nil
}

// Close closes the reader and frees its buffer. A later answer is ignored.
func (r *Reader) Close() {
	if !r.closing {
		r.shutdown()
		r.unsent = nil
	}
}

// request sends the request; false: the send queue is full.
func (r *Reader) request() bool {
	if len(r.unsent) > 0 && !r.send(r.peer, 0, nil, r.unsent, true) {
		return false
	}
	r.unsent = r.unsent[:0]
	return true
}

func (r *Reader) arrived(n *funi.Notification) {
	if r.err != nil || r.closing || n.Source != r.peer.Node {
		return
	}
	w := n.Metadata
	kind := w[0] >> kindShift
	switch {
	case n.Words == 1 && w[0] == kindAbort<<kindShift:
		r.fail(ErrAborted)
		return
	case n.Words != 1 || !r.asked || w[0]&numberMask != r.number&numberMask || kind != kindData && kind != kindRefuse:
		r.lies("kind", kind)
		return
	}
	if r.asked = false; kind == kindRefuse {
		r.why = fmt.Errorf("reading %d bytes of node %d: %w", r.length, n.Source, ErrRange)
	}
	r.m.tell(&r.instance)
}

func (r *Reader) turn() bool {
	if !r.request() {
		return false
	}
	return r.finish(r.memory)
}
