package engine

// This file is the memory of a process that transfers use: its segments, and how the card
// stops reading blocks from them when the context leaves the card.

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// ErrSegmentBusy is returned when a segment is unregistered that the card still uses.
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

// Unregister ends the use of the segment that starts at base: after it the card
// neither reads nor writes its memory. It returns funi.ErrNoSegment, or
// ErrSegmentBusy while the slot of a transfer is not retired or one waits in a receive
// FIFO.
func (x *Context) Unregister(base uint32) error {
	busy := false
	for l := range x.fifo {
		busy = busy || x.long != nil && x.long.slots[l].head != nil || x.fifo[l].holdsTransfer()
	}
	if busy {
		return fmt.Errorf("unregistering the segment at %#x: %w", base, ErrSegmentBusy)
	}
	return x.segments.Unregister(base)
}

// keptInCall is how many bytes of blocks a call of SwitchOut copies at the most, beyond one block.
const keptInCall = 64 << 10

// keepBlocks copies the data of blocks that are in the cache, so that the card does not
// read the process's memory for them any more. One call does not copy all of them;
// keepBlocks reports whether all are copied.
func (x *Context) keepBlocks() (all bool) {
	bytesLeft := keptInCall
	return x.eachBlock(func(ln *line) bool {
		if ln.kept {
			return true
		}
		if bytesLeft <= 0 {
			return false
		}
		bytesLeft -= len(ln.Block)
		ln.Block, ln.kept = bytes.Clone(ln.Block), true
		return true
	})
}

// forsakeBlocks ends all reading of the memory of a process whose context ends. Blocks
// in flight may have to be sent again, because their sequence numbers must be answered.
// But their transfers will never be complete: the last packet of a transfer leaves when all
// its blocks are acknowledged. So nothing is copied: what is sent again is a part without data,
// which the receiver rejects for good.
func (x *Context) forsakeBlocks() {
	x.eachBlock(func(ln *line) bool {
		arctic.Packet(ln.Data[:ln.Size]).Void()
		ln.Block = nil
		return true
	})
}

// eachBlock looks at the lines with blocks until one of the calls returns false, and reports
// whether none did.
func (x *Context) eachBlock(do func(*line) bool) bool {
	all := func(lines []line) bool {
		for i := range lines {
			if ln := &lines[i]; ln.Block != nil && !do(ln) {
				return false
			}
		}
		return true
	}
	return all(x.lines) && (x.long == nil || all(x.long.own[:]))
}
