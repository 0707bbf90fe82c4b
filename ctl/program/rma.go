package program

// This file is a program that only measurements run: one node writes straight into the memory of
// the other, or reads it. It does so through a face: package funi alone, so that the card is
// measured without a library above it (rma_funi.go), or package virtni (rma_virtni.go).

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/spf13/cobra"

	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
)

// RMAProgram is the program's name.
const RMAProgram = "bench-rma"

// Values of RMAOptions.Do.
const (
	// RMAPut: node 0 writes 8 bytes; node 1 sees them in its memory and answers likewise. Each
	// round trip is timed.
	RMAPut    = "put"
	RMANotify = "notify" // the same, but a notification reports each write
	// RMARate: node 1 writes 8 bytes at a time into the memory of node 0, as fast as it can.
	RMARate = "rate"
	RMABulk = "bulk" // node 0 writes blocks into the memory of node 1, which checks each
	// RMAGet: node 0 reads 8 bytes of node 1, whose process takes no part. Each read is timed.
	RMAGet  = "get"
	RMAAdd  = "add"  // the same with a fetch-and-add
	RMASwap = "swap" // the same with a swap
	RMAGets = "gets" // node 0 reads blocks of node 1, and checks each
	// RMASend: node 0 sends 64 bytes, and node 1 answers likewise. Only FaceVirtni has messages.
	RMASend = "send"
)

const (
	rmaBase   = 0x1000_0000
	rmaBytes  = 8 // of a short write
	rmaPlaces = 1024

	// Offsets in a node's memory: the flags of the meeting, the word of round trips, the words of
	// one-way writes, and the blocks.
	rmaHello  = 0
	rmaHeard  = 8
	rmaWord   = 64
	rmaTable  = 4096
	rmaBlocks = rmaTable + rmaPlaces*rmaBytes

	// rmaKey is the key of either node's memory, in key slot 0. It is no secret, because both nodes
	// are alone on a lab.
	rmaKey = 0x5241_4d20_4142_0000
	// rmaWindow is the key of the same memory as a window, in key slot 1.
	rmaWindow = 0x5241_4d20_4142_0001
	// rmaDepth is the number of blocks in flight. Each has an area of its own; area 0 is for short
	// writes.
	rmaDepth  = 8
	rmaCredit = 64
	// rmaAgain is the time between two hellos while the other node has not answered.
	rmaAgain = 5 * time.Millisecond
	// rmaHelloCookie marks a hello. A hello may come back, as the other node's memory may not be
	// open.
	rmaHelloCookie = 1
)

// RMAResult is the JSON document of one node. Node 0 has the times of round trips in microseconds,
// the goodput of blocks, or the rate of writes.
type RMAResult struct {
	trips
	Goodput float64 `json:"goodput_gbit_per_s"`
	Rate    float64 `json:"msgs_per_s"`
	Place
}

// RMAOptions are the program's flags.
type RMAOptions struct {
	Do     string
	Face   string // FaceVirtni: package virtni; empty: package funi alone
	Block  int    // bytes of a block
	Count  int    // round trips, writes or blocks
	WarmUp int    // round trips before those, not measured
}

// Arguments are the flags that say the same.
func (o RMAOptions) Arguments() []string { return arguments(o) }

// RMA is the hidden command that a benchmark starts on a lab.
func RMA() *cobra.Command { return hidden(RMAProgram, RMAOptions.open) }

// rmaNode is one node.
type rmaNode struct {
	RMAOptions
	memory []byte
	peer   uint16
	first  bool // this is node 0
}

// rmaFace is what the measurements use the other node's memory through.
type rmaFace interface {
	// meet opens this node's memory, and waits until the other node's is open, too.
	meet(end time.Time) error
	until(done func() bool) error // drives the card until done returns true
	// say sends the number of a round trip to the other node, and heard waits until that one has
	// said it.
	say(i uint64) error
	heard(i uint64) error
	one(i int) error // writes the i-th number of RMARate; with the last one the other is told
	// put writes the i-th block into the memory of the other node, and tells it. get reads a block
	// there, and got waits until one has been read.
	put(i int) error
	get(i int) error
	got() (i int, err error)
	// operate has the card carry out Do on a word of the other node, which is was, and checks the
	// answer.
	operate(i int, was uint64) error
	tell(number int) error // notifies the other node
	told() (number int, err error)
	quiet() error // waits until all that was begun is complete
}

// rmaRun is the program on a node.
type rmaRun struct {
	*rmaNode
	rmaFace
}

// open opens the process's place and runs the program.
func (o RMAOptions) open(ctx context.Context, f *Flags) (r *RMAResult, err error) {
	all := map[string]func(rmaRun, *RMAResult) error{
		RMAPut: rmaRun.roundTrips, RMANotify: rmaRun.roundTrips, RMARate: rmaRun.rate, RMABulk: rmaRun.bulk,
		RMAGet: rmaRun.operations, RMAAdd: rmaRun.operations, RMASwap: rmaRun.operations, RMAGets: rmaRun.gets}
	sizes := funiSizes
	if o.Face == FaceVirtni {
		sizes, all[RMASend] = portSizes, rmaRun.roundTrips
	}
	do, err := measurement(all, o.Do)
	if err != nil {
		return nil, err
	}
	r = new(RMAResult)
	r.Place, err = onCarrier(ctx, f, sizes, func(c funet.Carrier, node int) (err error) {
		n := &rmaNode{RMAOptions: o, peer: uint16(1 - node), first: node == 0}
		if n.memory, err = c.Segment(rmaBase, rmaBlocks+rmaDepth*o.Block, funi.Keyed|funi.Source); err != nil {
			return err
		}
		var face rmaFace
		if o.Face == FaceVirtni {
			face, err = openPort(ctx, c, n)
		} else {
			face = openFuni(ctx, c, n)
		}
		if err == nil {
			err = face.meet(time.Now().Add(f.Wait))
		}
		if err != nil {
			return err
		}
		// the others hear of everything by notifications
		c.Interface().Watch(o.Do == RMAPut || o.Do == RMARate)
		return do(rmaRun{n, face}, r)
	})
	return r, err
}

// word returns a word of this node's memory that the other node's writes change.
func (n *rmaNode) word(offset int) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&n.memory[offset])))
}

// notified checks that the number of a round trip is there whose notification has come.
func (n *rmaNode) notified(i uint64) error {
	if got := n.word(rmaWord); got != i {
		return fmt.Errorf("%w: notification %d came with %d in memory", apps.ErrVerify, i, got)
	}
	return nil
}

// roundTrips says a number, and waits until the same number comes back.
func (n rmaRun) roundTrips(r *RMAResult) error {
	t, err := times(n.WarmUp, n.Count, func(trip int) error {
		i := uint64(trip + 1)
		if n.first {
			if err := n.say(i); err != nil {
				return err
			}
		}
		if err := n.heard(i); err != nil || n.first {
			return err
		}
		return n.say(i)
	})
	if n.first {
		r.trips = t
	}
	if err != nil {
		return err
	}
	return n.quiet()
}

// rate writes one way. Its one notification comes when all writes are there.
func (n rmaRun) rate(r *RMAResult) error {
	if n.first {
		if err := n.until(func() bool { return n.word(rmaTable) != 0 }); err != nil {
			return err
		}
		begin := time.Now()
		if _, err := n.told(); err != nil {
			return err
		}
		r.Rate = float64(n.Count) / time.Since(begin).Seconds()
		for i := n.Count - min(n.Count, rmaPlaces); i < n.Count; i++ {
			if got := n.word(rmaTable + i%rmaPlaces*rmaBytes); got != uint64(i+1) {
				return fmt.Errorf("%w: write %d left %d", apps.ErrVerify, i+1, got)
			}
		}
		return n.tell(0)
	}
	for i := range n.Count {
		if err := n.one(i); err != nil {
			return err
		}
	}
	_, err := n.told()
	return err
}

// place returns where a block is in either node's memory.
func (n *rmaNode) place(i int) int { return rmaBlocks + i%rmaDepth*n.Block }

// block returns the memory of a block.
func (n *rmaNode) block(i int) []byte { return n.memory[n.place(i):][:n.Block] }

// stamp writes the number of a block to both its ends, and stamped checks both.
func stamp(b []byte, i int) {
	binary.NativeEndian.PutUint64(b, uint64(i+1))
	binary.NativeEndian.PutUint64(b[len(b)-rmaBytes:], uint64(i+1))
}

func stamped(b []byte, i int) bool {
	return binary.NativeEndian.Uint64(b) == uint64(i+1) &&
		binary.NativeEndian.Uint64(b[len(b)-rmaBytes:]) == uint64(i+1)
}

// patternAt is the byte at a place of a block, and pattern fills a block. No two blocks in flight
// have the same where salt is their place.
func patternAt(at, salt int) byte { return byte(at*7 + at>>8 + salt) }

func pattern(b []byte, salt int) {
	for i := range b {
		b[i] = patternAt(i, salt)
	}
}

// inner returns a block without its stamps.
func inner(b []byte) []byte { return b[rmaBytes : len(b)-rmaBytes] }

// bulk writes blocks, rmaDepth at a time. The memory of a block is used again when the block is
// done.
func (n rmaRun) bulk(r *RMAResult) error {
	want := make([]byte, n.Block)
	pattern(want, 0)
	if !n.first {
		for done := range n.Count {
			i, err := n.told()
			if err != nil {
				return err
			}
			if b := n.block(i); !stamped(b, i) || i >= n.Count-rmaDepth && !bytes.Equal(inner(b), inner(want)) {
				return fmt.Errorf("%w: block %d is damaged, after %d", apps.ErrVerify, i, done)
			}
			if err := n.tell(i); err != nil {
				return err
			}
		}
		return n.quiet()
	}
	for i := range rmaDepth {
		copy(n.block(i), want)
	}
	var busy [rmaDepth]bool
	under := 0
	take := func() error {
		i, err := n.told()
		busy[i%rmaDepth] = false
		under--
		return err
	}
	begin := time.Now()
	for i := range n.Count {
		for busy[i%rmaDepth] {
			if err := take(); err != nil {
				return err
			}
		}
		stamp(n.block(i), i)
		busy[i%rmaDepth] = true
		under++
		if err := n.put(i); err != nil {
			return err
		}
	}
	for under > 0 {
		if err := take(); err != nil {
			return err
		}
	}
	r.Goodput = float64(n.Count) * float64(n.Block) * 8 / float64(time.Since(begin).Nanoseconds())
	return n.quiet()
}

// operations times operations on a word of the other node, one after the other.
func (n rmaRun) operations(r *RMAResult) (err error) {
	if !n.first {
		binary.NativeEndian.PutUint64(n.memory[rmaTable:], 1)
		return n.serve()
	}
	if _, err := n.told(); err != nil {
		return err
	}
	was := uint64(1)
	r.trips, err = times(n.WarmUp, n.Count, func(i int) error {
		err := n.operate(i, was)
		if n.Do != RMAGet {
			was++
		}
		return err
	})
	if err != nil {
		return err
	}
	return n.tell(0)
}

// serve says that this node's memory is ready, and waits until the other node has done with it.
func (n rmaRun) serve() error {
	if err := n.tell(0); err != nil {
		return err
	}
	_, err := n.told()
	return err
}

// gets reads blocks of the other node, rmaDepth at a time.
func (n rmaRun) gets(r *RMAResult) error {
	if !n.first {
		for i := range rmaDepth {
			pattern(n.block(i), i)
			stamp(n.block(i), i)
		}
		return n.serve()
	}
	if _, err := n.told(); err != nil {
		return err
	}
	begin, asked := time.Now(), 0
	ask := func() error {
		b := n.block(asked)
		clear(b[:rmaBytes])
		clear(b[n.Block-rmaBytes:])
		asked++
		return n.get(asked - 1)
	}
	for asked < min(rmaDepth, n.Count) {
		if err := ask(); err != nil {
			return err
		}
	}
	damaged := func(i int) error { return fmt.Errorf("%w: block %d is damaged", apps.ErrVerify, i) }
	for range n.Count {
		i, err := n.got()
		if err != nil {
			return err
		}
		if b := n.block(i); !stamped(b, i%rmaDepth) || b[n.Block/2] != patternAt(n.Block/2, i%rmaDepth) {
			return damaged(i)
		}
		if asked < n.Count {
			if err := ask(); err != nil {
				return err
			}
		}
	}
	r.Goodput = float64(n.Count) * float64(n.Block) * 8 / float64(time.Since(begin).Nanoseconds())
	want := make([]byte, n.Block)
	for i := range min(rmaDepth, n.Count) {
		if pattern(want, i); !bytes.Equal(inner(n.block(i)), inner(want)) {
			return damaged(i)
		}
	}
	return n.tell(0)
}
