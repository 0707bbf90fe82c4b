package engine

// This file holds a process's memory for transfers, its segments. It also ends the card's reading
// of blocks from them when the context leaves the card.

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// ErrSegmentBusy reports that a segment to unregister is still used by the card.
var ErrSegmentBusy = errors.New("engine: transfers of the context are under way; wait until they are done")

// Register lets the card use a segment for the context's transfers. Errors are those
// of funi.Segments.
func (x *Context) Register(s funi.Segment) error {
	if err := x.segments.Register(s); err != nil {
		return fmt.Errorf("node %d of group %d: %w", x.node, x.gid, err)
	}
	if x.long == nil {
		x.long = newLong(x)
	}
	return nil
}

// Segments returns the context's segments.
func (x *Context) Segments() []funi.Segment { return append([]funi.Segment{}, x.segments.All()...) }

// Unregister ends the use of the segment that starts at base: afterwards the card neither reads nor
// writes its memory. It returns funi.ErrNoSegment if there is none. It returns ErrSegmentBusy while
// a transfer that has begun may still be read from the segment. If the segment has the right
// Destination, it also returns ErrSegmentBusy while any transfer waits in a receive FIFO. Transfers
// from other segments do not matter. Transfers from this segment that have not begun come back
// (arctic.ReasonSource). Key slots in the segment are closed.
func (x *Context) Unregister(base uint32) error {
	s, err := x.segments.At(base)
	if err != nil {
		return err
	}
	busy := false
	x.readFrom(s, func(*transfer) { busy = true })
	if busy || x.awaits(s) {
		return fmt.Errorf("unregistering the segment at %#x: %w", base, ErrSegmentBusy)
	}
	x.closeWithin(s)
	return x.segments.Unregister(base)
}

// Withdraw is Unregister for a process that wants its memory back now. Transfers that the card may
// still read from the segment fail, and come back (arctic.ReasonSource). The receiver of such a
// transfer gets no notice, and may have got parts of it. Withdraw returns funi.ErrNoSegment if
// there is no such segment. If the segment has the right Destination, it returns ErrSegmentBusy
// while a transfer waits in a receive FIFO: that one has been acknowledged.
func (x *Context) Withdraw(base uint32) error {
	s, err := x.segments.At(base)
	if err != nil {
		return err
	}
	if x.awaits(s) {
		return fmt.Errorf("withdrawing the segment at %#x: %w", base, ErrSegmentBusy)
	}
	x.readFrom(s, x.forsake)
	x.closeWithin(s)
	return x.segments.Unregister(base)
}

// readFrom calls do for each transfer that the card may still read from a segment.
func (x *Context) readFrom(s funi.Segment, do func(*transfer)) {
	if x.long == nil {
		return
	}
	for l := range x.long.records {
		for i := len(x.long.records[l]) - 1; i >= 0; i-- {
			if i >= len(x.long.records[l]) {
				continue // do has ended some
			}
			t := x.long.records[l][i]
			if x.needsSource(t) && !(t.put != nil && t.put.inSlot) && t.from >= s.Base && uint64(t.from-s.Base) <
				uint64(len(s.Memory)) {
				do(t)
			}
		}
	}
}

// awaits reports whether the card has accepted packets of transfers, possibly to the segment, that
// it has not written yet.
func (x *Context) awaits(s funi.Segment) bool {
	return s.Rights&funi.Destination != 0 && (x.fifo[arctic.Request].holdsTransfer() ||
		x.fifo[arctic.Reply].holdsTransfer())
}

// forsake fails a transfer whose source the card may no longer read. Its blocks in flight that have
// to be sent again leave without data.
func (x *Context) forsake(t *transfer) {
	x.failTransfer(t, arctic.ReasonSource)
	x.voidBlocks(func(ln *line) bool { return ln.transfer == t })
	if t.state == transferRetrieving {
		t.source, t.lastSource = nil, nil
		x.advance(t)
	}
}

// keptInCall is the number of bytes of blocks after which a call of SwitchOut, or a step (late.go),
// copies no further block.
const keptInCall = 64 << 10

// keepBlocks copies the data of blocks that are in the cache, so that the card does not
// read the process's memory for them any more. One call does not copy all of them;
// keepBlocks reports whether all are copied.
func (x *Context) keepBlocks() (all bool) { return x.keepBlocksOf(func(*line) bool { return true }) }

// keepBlocksOf is keepBlocks for the lines that which selects.
func (x *Context) keepBlocksOf(which func(*line) bool) (all bool) {
	bytesLeft := keptInCall
	return x.eachBlock(func(ln *line) bool {
		if ln.kept || !which(ln) {
			return true
		}
		if bytesLeft <= 0 {
			return false
		}
		bytesLeft -= len(ln.Block)
		x.spends(len(ln.Block) + packetBytes)
		ln.Block, ln.kept = bytes.Clone(ln.Block), true
		return true
	})
}

// forsakeBlocks ends all reading of a process's memory when its context ends. Blocks in flight may
// have to be sent again, because their sequence numbers must be answered. But their transfers will
// never be complete: the last packet of a transfer leaves when all its blocks are acknowledged. So
// no data is copied. A block that is sent again is a part without data, which the receiver rejects
// for good.
func (x *Context) forsakeBlocks() { x.voidBlocks(func(*line) bool { return true }) }

// voidBlocks ends the reading of the blocks of the lines that which selects.
func (x *Context) voidBlocks(which func(*line) bool) {
	x.eachBlock(func(ln *line) bool {
		if which(ln) {
			arctic.Packet(ln.Data[:ln.Size]).Void()
			ln.Block = nil
		}
		return true
	})
}

// eachBlock calls do for the lines with blocks until do returns false, and reports whether it never
// did.
func (x *Context) eachBlock(do func(*line) bool) bool {
	all := func(lines []line) bool {
		for i := range lines {
			if ln := &lines[i]; ln.Block != nil && !do(ln) {
				return false
			}
		}
		return true
	}
	for _, s := range x.shelves {
		if s != nil && !all(s[:]) {
			return false
		}
	}
	return (x.long == nil || all(x.long.own[:])) && (x.answers == nil || all(x.answers.lines[:]))
}
