package am

// This file fills segments: by messages (cmam_xfer_4), by transfers of the card (cmam_mfer_n), or
// with data of any length by several messages.

import (
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// Xfer4 puts four words, 16 bytes, into a segment of a node, at request priority. It returns when
// the message is in the send queue, where it may stay until the next Request, Poll, Wait or
// Barrier. Main program only. Errors are those of Request4, and ErrSegment for a place beyond the
// end of any segment.
//
// The receiver drops data that does not lie in an open segment, and Unknown counts it.
func (e *Endpoint) Xfer4(node int, to Place, w0, w1, w2, w3 uint32) error {
	if err := to.check(16); err != nil {
		return err
	}
	return e.post4(node, typeXfer, uint32(to), w0, w1, w2, w3)
}

// Xfer puts data into a segment of a node, in messages of 16 bytes and a shorter one; it copies the
// data. Its length is a multiple of 4 bytes, up to MaxSegmentSize (ErrSegment). While the send
// queue is full it polls. After an error part of the data may have been sent. It is otherwise like
// Xfer4.
func (e *Endpoint) Xfer(node int, to Place, data []byte) error {
	return e.xfer(funi.Request, node, to, data, func(words int) (*funi.Slot, error) { return e.reserve(node, words) })
}

// xfer sends data for a segment, in slots that reserve returns.
func (c *core) xfer(l funi.Level, node int, to Place, data []byte, reserve func(words int) (*funi.Slot, error)) error {
	if err := to.check(len(data)); err != nil {
		return err
	}
	for at := 0; at < len(data); at += 16 {
		words := min(4, (len(data)-at)/4)
		s, err := reserve(words)
		if err != nil {
			return err
		}
		s.SetHeader(funi.NewHeader(uint16(node), typeXfer, 1+words))
		s[funi.PayloadWord] = uint32(to.At(at))
		load(s[funi.PayloadWord+1:funi.PayloadWord+1+words], data[at:])
		c.commit(l, s)
	}
	return nil
}

// ReplyXfer4 is Xfer4 to the node that sent the request, at reply priority, for request
// handlers (ErrHandler).
func (m *Message) ReplyXfer4(to Place, w0, w1, w2, w3 uint32) error {
	if err := to.check(16); err != nil {
		return err
	}
	return m.reply4(typeXfer, uint32(to), w0, w1, w2, w3)
}

// ReplyXfer is Xfer to the node that sent the request, at reply priority, for request
// handlers (ErrHandler). While the send queue is full it handles replies.
func (m *Message) ReplyXfer(to Place, data []byte) error {
	return m.endpoint.xfer(funi.Reply, m.Source, to, data, m.reserve)
}

// Mfer makes the card copy words of this process's memory at source into a node's memory at
// destination, at request priority. destination lies in the given segment, which counts the words
// when all have arrived. source and destination are addresses of regions, multiples of 16. words is
// a multiple of 4 up to 2^24 (ErrTransfer).
//
// Up to 16 words travel in one packet, and more in packets of 20 words or in full frames, as the
// network allows; the segment counts all of them at once. Other errors, contexts, and when source
// may change, are those of Transfer. Data that does not lie in an open segment is not counted
// there, but by Unknown.
func (e *Endpoint) Mfer(node int, segment Place, source, destination uint32, words int) error {
	t := funi.Transfer{Source: source, Destination: destination, Argument: uint32(segment), Words: words}
	if err := checkBlock(node, &t); err != nil {
		return err
	}
	if e.pace.cuts() {
		return e.pace.cut(t, funi.Request, node, func(int) (*funi.Slot, error) { return e.reserve(node, 0) })
	}
	return e.transfer(node, typeMfer, &t)
}

// ReplyMfer is Mfer to the node that sent the request, at reply priority, for request
// handlers (ErrHandler).
func (m *Message) ReplyMfer(segment Place, source, destination uint32, words int) error {
	t := funi.Transfer{Source: source, Destination: destination, Argument: uint32(segment), Words: words}
	if err := checkBlock(m.Source, &t); err != nil {
		return err
	}
	if m.endpoint.pace.cuts() {
		return m.endpoint.pace.cut(t, funi.Reply, m.Source, m.reserve)
	}
	return m.transfer(typeMfer, &t)
}

// cuts reports whether the library cuts blocks into packets, as that of thesis appendix C does. The
// thesis's card does not (3.2.4).
func (c *pace) cuts() bool { return c != nil && c.cpu.Library().TransferWords > 0 }

// cut sends a block in packets of as many words as the machine's card moves at once.
func (c *pace) cut(t funi.Transfer, l funi.Level, node int, reserve func(words int) (*funi.Slot, error)) error {
	for left := t.Words; left > 0; left -= t.Words {
		s, err := reserve(0)
		if err != nil {
			return err
		}
		t.Words = min(left, c.cpu.Library().TransferWords)
		if t.Words > arctic.MaxSingleWords {
			s.SetUnnamed(uint16(node), typeMfer, t) // its segment is found by its address
		} else {
			s.SetTransfer(uint16(node), typeMfer, t)
		}
		c.cpu.Work(c.cpu.Library().BlockCycles)
		c.commit(l, s)
		t.Source += uint32(4 * t.Words)
		t.Destination += uint32(4 * t.Words)
	}
	return nil
}

// BlockWords returns how many words of a block travel in a packet of Mfer: 16, or as many as the
// machine's card moves at once. Any context.
func (e *Endpoint) BlockWords() int {
	if e.pace.cuts() {
		return e.pace.cpu.Library().TransferWords
	}
	return arctic.MaxSingleWords
}

// check refuses a place, and a length, that fit no segment.
func (p Place) check(bytes int) error {
	if bytes%4 != 0 || p.offset()+bytes > MaxSegmentSize {
		return fmt.Errorf("putting %d bytes at offset %d: %w", bytes, p.offset(), ErrSegment)
	}
	return nil
}

// checkBlock refuses a transfer that is not from memory to memory.
func checkBlock(node int, t *funi.Transfer) error {
	if t.Source == 0 || t.Destination == 0 || (t.Source|t.Destination)%arctic.TransferAlign != 0 || !t.Valid() {
		return fmt.Errorf("transferring %d words from %#x to %#x on node %d: %w", t.Words, t.Source, t.Destination,
			node, ErrTransfer)
	}
	return nil
}
