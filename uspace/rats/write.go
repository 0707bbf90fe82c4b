package rats

// This file implements the sending end of a Stream.
//
// Written data is sent at once if possible: in one packet, or from a copy in the manager's memory,
// which is freed when the card has taken the message. While data waits for credit or for room,
// further data is collected behind it and is sent with it. So small writes become longer messages
// exactly when the network is the bottleneck, and no timer delays any (unlike RFC 896).

import (
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// Sender is the end of a Stream that writes. It belongs to the goroutine of its manager.
type Sender struct {
	end
	size     uint64 // bytes of the receiver's ring; 0: not known yet
	base     uint64 // place of its first byte
	long     [longAreas]uint16
	sent     uint64 // place up to which data was sent
	consumed uint64 // place up to which data was read
	shorts   uint32 // short messages sent
	longs    uint32
	seen     struct{ shorts, longs uint32 }
	chunk    []byte // collected; nil: nothing waits
	from     int    // of chunk, the first byte that was not sent
	record   bool   // the end of chunk is that of a record: nothing is put behind it
	ending   bool   // the end follows what was written
	final    bool   // and was sent
	done     bool   // the receiver has it
	wants    bool   // a longer ring is asked for, and nothing is sent until the answer comes
	asked    uint64 // sent when it was asked for last
	lane     *lane  // nil: no long message was sent
	queued   bool   // in lane.waiting
	hasTurn  bool   // on lane
}

// chunk sizes, in bytes.
const (
	leastChunk = 4 << 10
	// twoShorts is the longest message that is sent as two short ones rather than as one with an
	// area for itself.
	twoShorts = 2 * shortBytes
)

// NewSender returns the sending end of a Stream. Any holder of its seed can make the receiver
// (ReceiveFrom). It returns ErrFull.
func (m *Manager) NewSender() (*Sender, error) {
	s := &Sender{}
	if err := s.begin(m, s, m.nothing, controlCredit, 0); err != nil {
		return nil, fmt.Errorf("making the sender of a stream: %w", err)
	}
	return s, nil
}

// SendTo returns the sending end of a Stream whose receiver made the seed; or ErrFull or ErrSeed.
func (m *Manager) SendTo(seed Seed) (*Sender, error) {
	if seed.Protocol != protocolReceiver || seed.Key == 0 {
		return nil, fmt.Errorf("making the sender of a stream: %w", ErrSeed)
	}
	s, err := m.NewSender()
	if err == nil {
		s.peer, s.hello = seed.Ticket, true
		s.m.await(&s.instance)
	}
	return s, err
}

// Seed returns the seed for the receiver (ReceiveFrom of the other process).
func (s *Sender) Seed() Seed { return s.m.Seed(s.key, s.areas[0], 0, protocolSender) }

// WriteBytes writes bytes, and returns how many. It writes fewer, or none, if there is no room at
// present; NextReady reports when there is more. The bytes may be changed at once. Errors are
// ErrClosed, ErrAborted, ErrProtocol and a *Failure.
func (s *Sender) WriteBytes(b []byte) (int, error) { return s.write(b, false) }

// WriteRecord is WriteBytes of a record, whose end the reader sees. If it writes fewer bytes, the
// next call writes the rest. A record has at least a byte.
func (s *Sender) WriteRecord(b []byte) (int, error) { return s.write(b, true) }

func (s *Sender) write(b []byte, record bool) (n int, err error) {
	switch {
	case s.err != nil:
		return 0, s.err
	case s.ending || s.closing:
		return 0, ErrClosed
	}
	for n < len(b) && s.chunk == nil {
		k, _ := s.launch(b[n:], record, false)
		if k == 0 {
			break
		}
		n += k
	}
	if n < len(b) {
		n += s.collect(b[n:], record)
	}
	if s.full = n < len(b); s.chunk != nil && !s.flush() || s.full && s.chunk == nil {
		s.m.await(&s.instance)
	}
	return n, nil
}

// collect appends bytes to the data that waits, and returns how many. Collected data ends where the
// ring does. A message around the ring's end would be sent as two, and the stream would wait for a
// turn for each (lane.go).
func (s *Sender) collect(b []byte, record bool) int {
	if s.record {
		return 0
	}
	most := len(b)
	if s.size > 0 {
		inRing := (s.sent - s.base + uint64(len(s.chunk)-s.from)) & (s.size - 1)
		if inRing == 0 && s.chunk != nil {
			return 0
		}
		most = int(min(uint64(most), s.size-inRing))
	}
	if s.chunk == nil {
		size := leastChunk
		for size < most && size < longestMessage {
			size *= 2
		}
		for ; ; size /= 2 {
			if size < leastBlock {
				// whoever writes waits until there is memory, or the message can leave in short
				// ones
				return 0
			}
			if c := s.m.heap.alloc(size); c != nil {
				s.chunk, s.from = c[:0], 0
				break
			}
		}
	}
	n := min(most, cap(s.chunk)-len(s.chunk))
	s.chunk = append(s.chunk, b[:n]...)
	s.record = record && n == len(b) && n > 0
	return n
}

// flush sends what was collected, as far as it can. It returns false if that only waits for the
// send queue or memory; for everything else a record will come.
func (s *Sender) flush() bool {
	for s.chunk != nil {
		k, full := s.launch(s.chunk[s.from:], s.record, true)
		if k == 0 {
			return !full
		}
		if s.from += k; s.from == len(s.chunk) {
			s.m.freeLater(s.chunk)
			s.chunk, s.from, s.record = nil, 0, false
			s.room()
		}
	}
	return true
}

// launch sends one message with the first of the bytes, and returns how many. 0 means that it is
// not possible now; full says that the send queue or memory has no room. stays says that the bytes
// are the manager's memory and do not change.
func (s *Sender) launch(b []byte, record, stays bool) (n int, full bool) {
	if s.size == 0 || s.wants || s.ending && s.final {
		return 0, false
	}
	window := s.size - (s.sent - max(s.consumed, s.base))
	offset := (s.sent - s.base) & (s.size - 1)
	n = int(min(uint64(len(b)), window, s.size-offset, longestMessage))
	if window < s.size/4 && n < len(b) {
		s.askForMore()
		if s.wants || window == 0 || n < longestMessage/4 && uint64(n) == window {
			return 0, false // the next credit brings a fourth of the ring
		}
	}
	if len(b) <= twoShorts {
		n = min(n, shortBytes)
	}
	source := b[:n]
	if n > shortBytes {
		if s.longs-s.seen.longs >= longAreas || !s.enter() {
			return 0, false
		}
		if !stays {
			if source = s.m.heap.alloc(n); source == nil {
				n = shortBytes // no memory to send from: it goes on, slowly
			}
			copy(source, b)
		}
	}
	if n <= shortBytes {
		if s.shorts-s.seen.shorts >= shortCredit-shortReserved {
			return 0, false
		}
		return s.put(b[:n], s.peer.Area, offset, record && n == len(b), false)
	}
	n, full = s.put(source, s.long[s.longs%longAreas], offset, record && n == len(b), true)
	if !stays {
		s.m.freeLater(source)
	}
	return n, full
}

func (s *Sender) put(b []byte, area uint16, offset uint64, record, long bool) (n int, full bool) {
	head := uint32(kindData<<kindShift | len(b))
	if record {
		head |= recordBit
	}
	t := s.peer
	t.Area, t.Size = area, uint32(s.size)
	if !s.send(t, uint32(offset), b, []uint32{head, uint32(s.sent)}, true) {
		return 0, true
	}
	s.sent += uint64(len(b))
	if long {
		s.longs++
		s.entered()
	} else {
		s.shorts++
	}
	return len(b), false
}

// askForMore asks for a longer ring, once in a ring's bytes. Then nothing is sent until the answer.
func (s *Sender) askForMore() {
	if s.size >= MostRing || s.wants || s.sent-s.asked < s.size && s.asked > 0 ||
		s.shorts-s.seen.shorts >= shortCredit {
		return
	}
	if s.send(s.peer, 0, nil, []uint32{kindWant << kindShift, uint32(s.sent)}, true) {
		s.wants, s.asked = true, s.sent
		s.shorts++
	}
}

// CloseWrite ends the stream behind the written data; the receiver then reads io.EOF. The sender
// must exist until the receiver has got the end, which Done reports.
func (s *Sender) CloseWrite() {
	if !s.ending && s.err == nil {
		s.ending = true
		s.m.await(&s.instance)
	}
}

// Done reports whether the receiver has got the end of the stream.
func (s *Sender) Done() bool { return s.done }

// Flush reports whether all written data was sent (3.2, flush). It need not be called for that:
// waiting data is sent when possible.
func (s *Sender) Flush() bool { return s.chunk == nil && s.size > 0 }

// Close closes the sender. A receiver that has not got the end is told that the stream is aborted.
func (s *Sender) Close() {
	if s.closing {
		return
	}
	s.closing = true
	s.abort = s.err == nil && !s.done
	if s.chunk != nil {
		s.m.freeLater(s.chunk)
		s.chunk = nil
	}
	s.m.await(&s.instance)
}

func (s *Sender) arrived(n *funi.Notification) {
	if s.err != nil || s.closing {
		return
	}
	w := n.Metadata
	kind := w[0] >> kindShift
	if s.peer.Key == 0 {
		if kind == kindRing {
			s.peer.Node = n.Source
		} else {
			return
		}
	}
	if n.Source != s.peer.Node {
		return
	}
	switch {
	case kind == kindRing && n.Words == 8:
		s.ring(w[:])
	case kind == kindCredit && n.Words == 4 && s.size > 0:
		s.credit(w[0], w[1], w[2], w[3])
	case kind == kindDone && n.Words == 1 && s.final:
		s.done = true
		s.m.tell(&s.instance)
	case kind == kindAbort && n.Words == 1:
		s.fail(ErrAborted)
	default:
		s.lies("kind", kind)
		return
	}
	if s.err == nil && !s.turn() {
		s.m.await(&s.instance)
	}
}

// ring takes the receiver's first ring, or a longer one.
func (s *Sender) ring(w []uint32) {
	size := uint64(w[1])
	if size < LeastRing || size > MostRing || size&(size-1) != 0 || s.size > 0 && (!s.wants || size <= s.size) ||
		w[7] != uint32(s.sent) {
		s.lies("ring size", w[1])
		return
	}
	s.peer.Key, s.peer.Area = uint64(w[2])|uint64(w[3])<<32, uint16(w[4]>>16)
	s.long = [longAreas]uint16{uint16(w[4]), uint16(w[5] >> 16), uint16(w[5]), uint16(w[6] >> 16)}
	s.size, s.base, s.wants = size, s.sent, false
	s.room()
}

// credit takes a credit. One that was overtaken by a newer one says nothing new.
func (s *Sender) credit(head, bytes, shorts, longs uint32) {
	moreShorts, moreLongs := shorts-s.seen.shorts, longs-s.seen.longs
	consumed := s.consumed + uint64(bytes-uint32(s.consumed))
	if int32(bytes-uint32(s.consumed)) < 0 || int32(moreShorts) < 0 || int32(moreLongs) < 0 {
		if head&answerBit != 0 {
			s.wants = false
		}
		return
	}
	if consumed > s.sent || moreShorts > s.shorts-s.seen.shorts || moreLongs > s.longs-s.seen.longs {
		s.lies("credit", bytes)
		return
	}
	s.consumed, s.seen.shorts, s.seen.longs = consumed, shorts, longs
	if head&answerBit != 0 {
		s.wants = false
	}
	s.room()
}

// turn sends what could not be sent before, and closes what is to be closed.
func (s *Sender) turn() bool {
	if s.hello {
		if !s.sayHello() {
			return false
		}
		s.shorts++
	}
	if s.err == nil && !s.closing {
		if s.chunk == nil {
			s.room()
		} else if !s.flush() {
			return false
		}
	}
	if s.err == nil && !s.closing && s.ending && !s.final && s.chunk == nil && s.size > 0 && !s.wants {
		if s.shorts-s.seen.shorts >= shortCredit {
			return true // a credit will come
		}
		if !s.send(s.peer, 0, nil, []uint32{kindData<<kindShift | endBit, uint32(s.sent)}, true) {
			return false
		}
		s.final = true
		s.shorts++
	}
	return s.finish(nil)
}
