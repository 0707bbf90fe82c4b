package am

// This file implements get and put: split-phase copies between this process's memory and a node's
// (thesis 6.2.1, "shared memory library calls"; Split-C's get and put).
//
// The journey: one or two words travel in a message of four words, and fewer than 16 in one of
// variable length. In a longer copy the card itself moves the block that begins and ends at
// multiples of 16 bytes on both sides. The up to 3 words before and behind the block travel in
// messages. If the two addresses differ modulo 16 bytes no card can move a block, and everything
// travels in messages of 16 words. Each piece is answered; the call is complete when all answers
// have arrived.

import (
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// pieceWords is the largest number of words of a call in one message.
const pieceWords = 16

// Get copies words from a node's memory at address to this process's memory at local, and adds one
// to the counter when all have arrived. Both addresses are multiples of 4 in shared regions. The
// node's region needs the right Source and this process's the right Destination (ErrAddress). words
// is at least 0.
//
// Get returns when it has sent the question. Up to MaxCalls calls are in flight; the next one waits
// until one is complete. The program must leave the memory alone until the call is complete. If the
// call fails, or Get returns an error, the memory may have been written in part. The question may
// wait in the send queue until the next Request, Poll, Wait or Barrier.
//
// Questions are at request priority and answers at reply priority. Main program only. Errors are
// ErrAddress and those of Request. If the node has not shared such memory, WaitCounter returns the
// error. After an error of Get itself nothing is counted.
func (e *Endpoint) Get(node int, address, local uint32, words int, c *Counter) error {
	into, err := e.regions.own(local, words, funi.Destination)
	if err != nil {
		return fmt.Errorf("getting from node %d: %w", node, err)
	}
	if e.pace != nil && words == 4 && e.pace.cpu.Library().SegmentCycles > 0 {
		return e.calls.askFour(node, address, local, c)
	}
	return e.calls.copy(node, address, local, words, into, c, func(ticket uint32, p copying) error {
		if at := uint32(4 * p.at); p.block {
			return e.post4(node, typeGetBlock, ticket, address+at, uint32(p.words), local+at, 0)
		}
		return e.post4(node, typeGet, ticket, address+uint32(4*p.at), uint32(p.words), uint32(p.at), 0)
	})
}

// Put copies words from this process's memory at local to a node's memory at address, and adds one
// to the counter when all have arrived. It is Get in the other direction: this process's region
// needs the right Source and the node's Destination, and the memory must not change until the call
// is complete.
func (e *Endpoint) Put(node int, address, local uint32, words int, c *Counter) error {
	from, err := e.regions.own(local, words, funi.Source)
	if err != nil {
		return fmt.Errorf("putting to node %d: %w", node, err)
	}
	return e.calls.copy(node, address, local, words, nil, c, func(ticket uint32, p copying) error {
		if at := uint32(4 * p.at); p.block {
			return e.transfer(node, typePutBlock, &funi.Transfer{Source: local + at, Destination: address + at,
				Argument: ticket, Words: p.words})
		}
		return e.calls.putPiece(node, ticket, address+uint32(4*p.at), from[4*p.at:4*(p.at+p.words)])
	})
}

// copy begins a call for a copy and sends its pieces.
func (t *calls) copy(node int, address, local uint32, words int, into []byte, c *Counter,
	send func(ticket uint32, p copying) error) error {
	if err := checkRemote(node, address, words); err != nil {
		return err
	}
	p := plan(address, local, words)
	ticket, err := t.begin(node, p.pieces, into, c)
	for err == nil && p.next() {
		if err = send(ticket, p); err != nil {
			t.giveUp(ticket)
		}
	}
	return err
}

// checkRemote refuses addresses that no node can have.
func checkRemote(node int, address uint32, words int) error {
	if address == 0 || address%4 != 0 || uint64(address)+4*uint64(words) > 1<<32 {
		return fmt.Errorf("%d words of node %d's memory at %#x: %w", words, node, address, ErrAddress)
	}
	return nil
}

// copying cuts a copy into pieces: messages up to the start of the blocks, then blocks, then one
// message.
type copying struct {
	total      int
	begin, end int // of what the card moves, in words
	pieces     int // at least 1: an empty copy sends a question, too

	// The piece that next found.
	number int
	at     int // in words
	words  int
	block  bool // the card moves this piece
}

// plan cuts a copy.
func plan(address, local uint32, words int) copying {
	p := copying{total: words, begin: words, end: words}
	if words >= pieceWords && (address^local)%arctic.TransferAlign == 0 {
		p.begin = int(-address%arctic.TransferAlign) / 4
		p.end = p.begin + (words-p.begin)&^3
	}
	count := func(words, most int) int { return (words + most - 1) / most }
	p.pieces = max(1, count(p.begin, pieceWords)+count(p.end-p.begin, arctic.MaxTransferWords)+
		count(words-p.end, pieceWords))
	return p
}

// next finds the next piece.
func (p *copying) next() bool {
	if p.number == p.pieces {
		return false
	}
	p.number++
	p.at += p.words
	p.block = p.at >= p.begin && p.at < p.end
	switch {
	case p.block:
		p.words = min(arctic.MaxTransferWords, p.end-p.at)
	case p.at < p.begin:
		p.words = min(pieceWords, p.begin-p.at)
	default:
		p.words = min(pieceWords, p.total-p.at)
	}
	return true
}

// putPiece sends data that a node is to put at an address.
func (t *calls) putPiece(node int, ticket, address uint32, data []byte) error {
	words := len(data) / 4
	s, err := t.reserve(node, 1+words)
	if err != nil {
		return err
	}
	s.SetHeader(funi.NewHeader(uint16(node), typePut, 2+words))
	s[1], s[2] = ticket, address
	load(s[3:3+words], data)
	t.commit(funi.Request, s)
	return nil
}
