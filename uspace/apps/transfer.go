package apps

// This file is transfer: node 0 moves blocks of memory to node 1, which checks each.

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	transferNotice = 0 // notice handler: a block is there
	transferBack   = 0 // message handler: node 1 is done with it
	transferBase   = 0x1000000
	// transferStamp is how many bytes at each end of a block say which one it is.
	transferStamp = 8

	// MaxTransferDepth is the most blocks under way at once, and MaxTransferMemory the most bytes
	// of them.
	MaxTransferDepth  = 256
	MaxTransferMemory = 1 << 30
)

// TransferOptions are the same on all nodes.
type TransferOptions struct {
	Bytes int // in all: a multiple of Block
	Block int // of one transfer: a multiple of 16, at most 64 MiB
	Depth int // blocks under way at once, each with memory of its own

	Progress Progress
}

// TransferResult is the result at node 0.
type TransferResult struct {
	Bytes       int   // moved, each block checked
	Nanoseconds int64 // from the first request to the word that the last block is done
}

// Transfer runs the program. Segment returns memory that the card of this process may use, as
// Segment of a card and of a daemon's client does. On nodes other than 0 the result is empty. Clock
// returns nanoseconds.
//
// Node 1 checks on arrival that both ends of a block carry its number, and at the end
// every byte of the last Depth blocks.
func Transfer(e *am.Endpoint, segment func(base uint32, bytes int, rights funi.Rights) ([]byte, error),
	clock func() int64, o TransferOptions) (TransferResult, error) {
	var r TransferResult
	if o.Block < arctic.TransferAlign || o.Block%arctic.TransferAlign != 0 ||
		o.Block > arctic.MaxTransferWords*arctic.WordSize ||
		o.Bytes < o.Block || o.Bytes%o.Block != 0 || o.Depth < 1 || o.Depth > MaxTransferDepth ||
		o.Block*o.Depth > MaxTransferMemory || e.Nodes() < 2 {
		return r,
			fmt.Errorf("transferring %d bytes in blocks of %d, %d at once: use a multiple of the block, a block of a multiple of 16 up to 64 MiB, 1 to 256 at once, at most 1 GiB of them, and two nodes",
				o.Bytes, o.Block, o.Depth)
	}
	t := transferState{o: o, blocks: o.Bytes / o.Block, last: make([]int, o.Depth)}
	for i := range t.last {
		t.last[i] = -1
	}
	if e.Node() < 2 {
		var err error
		if t.memory, err = segment(transferBase, o.Block*o.Depth,
			[]funi.Rights{funi.Source, funi.Destination}[e.Node()]); err != nil {
			return r, err
		}
	}
	if err := errors.Join(e.HandleNotice(transferNotice, t.arrived), e.Handle(transferBack, t.back)); err != nil {
		return r, err
	}
	if e.Node() == 0 {
		transferPattern(t.memory)
	}
	if err := e.Barrier(); err != nil {
		return r, err
	}
	switch e.Node() {
	case 0:
		begin := clock()
		if err := t.send(e); err != nil {
			return r, err
		}
		r = TransferResult{Bytes: o.Bytes, Nanoseconds: clock() - begin}
	case 1:
		if err := e.WaitFor(0, func() bool { return t.done == t.blocks }); err != nil {
			return r, err
		}
	}
	if err := e.Barrier(); err != nil {
		return r, err
	}
	if e.Node() == 1 {
		return r, t.verify()
	}
	return r, nil
}

// transferState is a node's state of the run.
type transferState struct {
	o       TransferOptions
	memory  []byte
	blocks  int
	done    int // blocks that node 1 has checked
	damaged int
	last    []int // node 0: the last block that is done, by its place in memory
}

// block returns the memory of a block.
func (t *transferState) block(n int) []byte {
	at := n % t.o.Depth * t.o.Block
	return t.memory[at : at+t.o.Block]
}

// send is node 0: it keeps Depth blocks under way. Blocks are done in any order; the
// memory of one is used again when just that one is done.
func (t *transferState) send(e *am.Endpoint) error {
	for n := range t.blocks {
		if err := e.WaitFor(1, func() bool { return n < t.o.Depth || t.last[n%t.o.Depth] == n-t.o.Depth }); err != nil {
			return err
		}
		stamp(t.block(n), n)
		address := uint32(transferBase + n%t.o.Depth*t.o.Block)
		if err := e.Transfer(1, transferNotice, funi.Transfer{Source: address, Destination: address,
			Argument: uint32(n), Words: t.o.Block / arctic.WordSize}); err != nil {
			return err
		}
	}
	return e.WaitFor(1, func() bool { return t.done == t.blocks })
}

// back is node 0: a block is done.
func (t *transferState) back(m *am.Message) {
	if n := int(m.Words[0]); n < t.blocks {
		t.last[n%t.o.Depth] = n
	}
	t.done++
	t.o.Progress.tell(t.done, t.blocks)
}

// arrived is node 1: a block is there.
func (t *transferState) arrived(m *am.Message, n funi.Notice) {
	if int(n.Argument) >= t.blocks || n.Words*arctic.WordSize != t.o.Block ||
		n.Address != uint32(transferBase+int(n.Argument)%t.o.Depth*t.o.Block) ||
		!stamped(t.block(int(n.Argument)), int(n.Argument)) {
		t.damaged++
	}
	t.done++
	if err := m.Reply4(transferBack, n.Argument, 0, 0, 0); err != nil {
		t.damaged++
	}
}

// verify checks every byte of the last blocks.
func (t *transferState) verify() error {
	want := make([]byte, len(t.memory))
	transferPattern(want)
	used := min(t.blocks, t.o.Depth)
	last := transferState{o: t.o, memory: want}
	for n := t.blocks - used; n < t.blocks; n++ {
		stamp(last.block(n), n)
		if string(last.block(n)) != string(t.block(n)) {
			t.damaged++
		}
	}
	if t.damaged > 0 {
		return fmt.Errorf("%w: %d blocks were damaged", ErrVerify, t.damaged)
	}
	return nil
}

// stamp writes the number of a block to both of its ends.
func stamp(b []byte, n int) {
	binary.LittleEndian.PutUint64(b, uint64(n))
	binary.LittleEndian.PutUint64(b[len(b)-transferStamp:], uint64(n))
}

func stamped(b []byte, n int) bool {
	return binary.LittleEndian.Uint64(b) == uint64(n) &&
		binary.LittleEndian.Uint64(b[len(b)-transferStamp:]) == uint64(n)
}

// transferPattern fills memory with bytes that do not repeat.
func transferPattern(b []byte) {
	x := uint64(88172645463325252)
	for ; len(b) >= 8; b = b[8:] {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(b, x)
	}
}
