package program

// This file is a program that only measurements run: one node writes straight into the memory of
// the other. It uses package funi alone, so the card is measured without a library above it. See
// rma_virtni.go for the same through package virtni.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/spf13/cobra"

	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/arctic"
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
	ctx     context.Context
	carrier funet.Carrier
	iface   *funi.Interface
	memory  []byte
	peer    uint16
	first   bool // this is node 0
}

// open opens the process's place and runs the program.
func (o RMAOptions) open(ctx context.Context, f *Flags) (r *RMAResult, err error) {
	if o.Face == FaceVirtni {
		return o.openPort(ctx, f)
	}
	do, err := measurement(map[string]func(*rmaNode, *RMAResult) error{
		RMAPut: (*rmaNode).roundTrips, RMANotify: (*rmaNode).roundTrips, RMARate: (*rmaNode).rate,
		RMABulk: (*rmaNode).bulk,
		RMAGet:  (*rmaNode).operations, RMAAdd: (*rmaNode).operations, RMASwap: (*rmaNode).operations,
		RMAGets: (*rmaNode).gets}, o.Do)
	if err != nil {
		return nil, err
	}
	r = new(RMAResult)
	sizes := funi.RemoteSizes{KeySlots: 2, Areas: 16, Notifications: 128}
	r.Place, err = onCarrier(ctx, f, sizes, func(c funet.Carrier, node int) (err error) {
		n := &rmaNode{RMAOptions: o, ctx: ctx, carrier: c, iface: c.Interface(), peer: uint16(1 - node), first: node == 0}
		if n.memory, err = c.Segment(rmaBase, rmaBlocks+rmaDepth*o.Block, funi.Keyed|funi.Source); err != nil {
			return err
		}
		if err := n.meet(time.Now().Add(f.Wait)); err != nil {
			return err
		}
		return do(n, r)
	})
	return r, err
}

// word returns a word of this node's memory that the other node's writes change.
func (n *rmaNode) word(offset int) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&n.memory[offset])))
}

// until drives the card until done returns true.
func (n *rmaNode) until(done func() bool) error {
	for i := 0; !done(); i++ {
		n.carrier.Drive()
		if i&1023 == 0 {
			if err := n.look(); err != nil {
				return err
			}
		}
	}
	return nil
}

// look returns the reason why the program cannot go on; nil: it can.
func (n *rmaNode) look() error {
	for r, ok := n.iface.NextReturn(); ok; r, ok = n.iface.NextReturn() {
		if r.Word != rmaHelloCookie {
			return fmt.Errorf("writing to node %d: it came back: %v", n.peer, r.Reason)
		}
	}
	return cmp.Or(context.Cause(n.ctx), n.carrier.Err())
}

// commit composes a request in a slot and commits it.
func (n *rmaNode) commit(compose func(*funi.Slot)) error {
	s := n.iface.Reserve(funi.Request)
	if s == nil {
		if err := n.until(func() bool { s = n.iface.Reserve(funi.Request); return s != nil }); err != nil {
			return err
		}
	}
	compose(s)
	n.iface.Commit(funi.Request)
	return nil
}

// put writes to the other node.
func (n *rmaNode) put(p *funi.Put) error {
	p.Key = rmaKey
	return n.commit(func(s *funi.Slot) { s.SetPut(n.peer, p) })
}

// meet opens this node's memory, and waits until the other node's is open, too. Each node repeats a
// hello until it has heard from the other, and then says that it has heard it.
func (n *rmaNode) meet(end time.Time) error {
	n.iface.Watch(true)
	err := n.commit(func(s *funi.Slot) { s.SetOpenKeySlot(rmaKey, rmaBase, uint32(len(n.memory)), 0) })
	if err == nil {
		w := funi.Window{Key: rmaWindow, Base: rmaBase, Bytes: uint32(len(n.memory)),
			Rights: funi.RightRead | funi.RightAtomic}
		err = n.commit(func(s *funi.Slot) { s.SetOpenWindow(&w, 0) })
	}
	for a := uint16(0); err == nil && a <= rmaDepth; a++ {
		credit := 1
		if a == 0 {
			credit = rmaCredit
		}
		err = n.commit(func(s *funi.Slot) { s.SetOpenArea(a, rmaKey, credit, false, 0) })
	}
	one := binary.NativeEndian.AppendUint64(nil, 1)
	hello := func() error {
		p := funi.Put{Offset: rmaHello, Cookie: rmaHelloCookie, Data: one}
		if n.word(rmaHello) != 0 {
			p.Offset = rmaHeard
		}
		return n.put(&p)
	}
	for err == nil && n.word(rmaHeard) == 0 {
		if time.Now().After(end) {
			return fmt.Errorf("meeting node %d: it has not opened its memory; is it running?", n.peer)
		}
		again := time.Now().Add(rmaAgain)
		if err = hello(); err == nil {
			err = n.until(func() bool { return n.word(rmaHeard) != 0 || time.Now().After(again) })
		}
	}
	if err != nil {
		return err
	}
	// the others hear of everything by notifications
	n.iface.Watch(n.Do == RMAPut || n.Do == RMARate)
	return n.put(&funi.Put{Offset: rmaHeard, Data: one})
}

// roundTrips writes a number, and waits until the same number comes back.
func (n *rmaNode) roundTrips(r *RMAResult) error {
	var b [rmaBytes]byte
	p := funi.Put{Offset: rmaWord, Counted: n.Do == RMANotify, Data: b[:]}
	var i uint64
	say := func() error {
		binary.NativeEndian.PutUint64(b[:], i)
		return n.put(&p)
	}
	var note funi.Notification
	came := func() bool { return n.word(rmaWord) == i }
	if p.Counted {
		came = func() bool { return n.iface.NextNotification(&note) }
	}
	t, err := times(n.WarmUp, n.Count, func(trip int) error {
		i = uint64(trip + 1)
		if n.first {
			if err := say(); err != nil {
				return err
			}
		}
		if err := n.until(came); err != nil {
			return err
		}
		if got := n.word(rmaWord); got != i {
			return fmt.Errorf("%w: notification %d came with %d in memory", apps.ErrVerify, i, got)
		}
		if !n.first {
			return say()
		}
		return nil
	})
	if n.first {
		r.trips = t
	}
	return err
}

// rate writes one way. The area counts all writes, so its one notification proves that each came
// once.
func (n *rmaNode) rate(r *RMAResult) error {
	if n.first {
		var note funi.Notification
		if err := n.until(func() bool { return n.word(rmaTable) != 0 }); err != nil {
			return err
		}
		begin := time.Now()
		if err := n.until(func() bool { return n.iface.NextNotification(&note) }); err != nil {
			return err
		}
		r.Rate = float64(n.Count) / time.Since(begin).Seconds()
		for i := n.Count - min(n.Count, rmaPlaces); i < n.Count; i++ {
			if got := n.word(rmaTable + i%rmaPlaces*rmaBytes); got != uint64(i+1) {
				return fmt.Errorf("%w: write %d left %d", apps.ErrVerify, i+1, got)
			}
		}
		return n.answer(0)
	}
	var b [rmaBytes]byte
	p := funi.Put{Counted: true, Count: 1, Data: b[:]}
	for i := range n.Count {
		binary.NativeEndian.PutUint64(b[:], uint64(i+1))
		p.Offset = uint32(rmaTable + i%rmaPlaces*rmaBytes)
		if i == n.Count-1 {
			p.Count = -uint32(i)
		}
		if err := n.put(&p); err != nil {
			return err
		}
	}
	var note funi.Notification
	return n.until(func() bool { return n.iface.NextNotification(&note) })
}

// answer notifies the other node that this one has finished with what.
func (n *rmaNode) answer(what uint32) error {
	return n.put(&funi.Put{Offset: rmaWord, Counted: true, Metadata: []uint32{what}})
}

// block returns the memory of a block.
func (n *rmaNode) block(i int) []byte {
	at := rmaBlocks + i%rmaDepth*n.Block
	return n.memory[at : at+n.Block]
}

// stamp writes the number of a block to both its ends, and stamped checks both.
func stamp(b []byte, i int) {
	binary.NativeEndian.PutUint64(b, uint64(i+1))
	binary.NativeEndian.PutUint64(b[len(b)-rmaBytes:], uint64(i+1))
}

func stamped(b []byte, i int) bool {
	return binary.NativeEndian.Uint64(b) == uint64(i+1) &&
		binary.NativeEndian.Uint64(b[len(b)-rmaBytes:]) == uint64(i+1)
}

// bulk writes blocks, rmaDepth at a time. The memory of a block is used again when the block is
// done.
func (n *rmaNode) bulk(r *RMAResult) error {
	var note funi.Notification
	pattern := make([]byte, n.Block)
	for i := range pattern {
		pattern[i] = byte(i*7 + i>>8)
	}
	if !n.first {
		for done := range n.Count {
			if err := n.until(func() bool { return n.iface.NextNotification(&note) }); err != nil {
				return err
			}
			i := int(note.Metadata[0])
			b := n.block(i)
			if note.Words != 1 || !stamped(b, i) {
				return fmt.Errorf("%w: block %d is damaged, after %d", apps.ErrVerify, i, done)
			}
			if i >= n.Count-rmaDepth && !bytes.Equal(b[rmaBytes:n.Block-rmaBytes], pattern[rmaBytes:n.Block-rmaBytes]) {
				return fmt.Errorf("%w: block %d is damaged inside", apps.ErrVerify, i)
			}
			if err := n.answer(uint32(i)); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range rmaDepth {
		copy(n.block(i), pattern)
	}
	var busy [rmaDepth]bool
	under := 0
	take := func() {
		for n.iface.NextNotification(&note) {
			busy[note.Metadata[0]%rmaDepth] = false
			under--
		}
	}
	begin := time.Now()
	for i := range n.Count {
		place := i % rmaDepth
		if err := n.until(func() bool { take(); return !busy[place] }); err != nil {
			return err
		}
		stamp(n.block(i), i)
		at := uint32(rmaBlocks + place*n.Block)
		busy[place] = true
		under++
		p := funi.Put{Offset: at, Source: rmaBase + at, Length: n.Block, Area: uint16(1 + place), Counted: true,
			Metadata: []uint32{uint32(i)}}
		if err := n.put(&p); err != nil {
			return err
		}
	}
	if err := n.until(func() bool { take(); return under == 0 }); err != nil {
		return err
	}
	r.Goodput = float64(n.Count) * float64(n.Block) * 8 / float64(time.Since(begin).Nanoseconds())
	return nil
}

// operations times operations on a word of the other node, one after the other, and checks each
// result.
func (n *rmaNode) operations(r *RMAResult) error {
	var note funi.Notification
	if !n.first {
		binary.NativeEndian.PutUint64(n.memory[rmaTable:], 1)
		if err := n.answer(0); err != nil { // the word is there
			return err
		}
		return n.until(func() bool { return n.iface.NextNotification(&note) })
	}
	if err := n.until(func() bool { return n.iface.NextNotification(&note) }); err != nil {
		return err
	}
	var b [rmaBytes]byte
	o := funi.Operation{WindowRequest: arctic.WindowRequest{Key: rmaWindow, Address: rmaTable, Element: arctic.Uint64,
		Bytes: rmaBytes, Operands: b[:], Fetch: true}}
	step := uint64(1) // by which the word grows
	switch n.Do {
	case RMAGet:
		o = funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet, Key: rmaWindow,
			Address: rmaTable}, Length: rmaBytes}
		step = 0
	case RMAAdd:
		o.Operation = arctic.RemoteAdd
	case RMASwap:
		o.Operation = arctic.RemoteSwap
	}
	want := uint64(1)
	var err error
	r.trips, err = times(n.WarmUp, n.Count, func(i int) error {
		o.Cookie = uint32(i)
		if n.Do == RMASwap {
			binary.NativeEndian.PutUint64(b[:], want+1)
		} else {
			binary.NativeEndian.PutUint64(b[:], 1)
		}
		if err := n.commit(func(s *funi.Slot) { s.SetOperation(n.peer, &o) }); err != nil {
			return err
		}
		if err := n.until(func() bool { return n.iface.NextNotification(&note) }); err != nil {
			return err
		}
		if note.Kind != funi.NoteCompletion || note.Reason != arctic.ReasonNone {
			return fmt.Errorf("%s on node %d: %v", n.Do, n.peer, note.Reason)
		}
		if got := binary.NativeEndian.Uint64(note.Answer[:]); note.Cookie != o.Cookie || got != want {
			return fmt.Errorf("%w: %s %d answers %d as %d, want %d", apps.ErrVerify, n.Do, i, got, note.Cookie, want)
		}
		want += step
		return nil
	})
	if err != nil {
		return err
	}
	return n.answer(0)
}

// gets reads blocks of the other node, rmaDepth at a time.
func (n *rmaNode) gets(r *RMAResult) error {
	var note funi.Notification
	if !n.first {
		for i := range rmaDepth {
			b := n.block(i)
			for j := range b {
				b[j] = byte(j*7 + j>>8 + i)
			}
			stamp(b, i)
		}
		if err := n.answer(0); err != nil { // the blocks are there
			return err
		}
		return n.until(func() bool { return n.iface.NextNotification(&note) })
	}
	if err := n.until(func() bool { return n.iface.NextNotification(&note) }); err != nil {
		return err
	}
	get := func(i int) error {
		at := uint32(rmaBlocks + i%rmaDepth*n.Block)
		clear(n.block(i)[:rmaBytes])
		clear(n.block(i)[n.Block-rmaBytes:])
		o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet, Key: rmaWindow,
			Address: uint64(at)}, Source: rmaBase + at, Length: n.Block, Cookie: uint32(i)}
		return n.commit(func(s *funi.Slot) { s.SetOperation(n.peer, &o) })
	}
	begin := time.Now()
	asked := 0
	for ; asked < min(rmaDepth, n.Count); asked++ {
		if err := get(asked); err != nil {
			return err
		}
	}
	for range n.Count {
		if err := n.until(func() bool { return n.iface.NextNotification(&note) }); err != nil {
			return err
		}
		i := int(note.Cookie)
		b := n.block(i)
		if note.Kind != funi.NoteCompletion || note.Reason != arctic.ReasonNone {
			return fmt.Errorf("getting block %d of node %d: %v", i, n.peer, note.Reason)
		}
		if !stamped(b, i%rmaDepth) || b[n.Block/2] != byte(n.Block/2*7+n.Block/2>>8+i%rmaDepth) {
			return fmt.Errorf("%w: block %d is damaged", apps.ErrVerify, i)
		}
		if asked < n.Count {
			if err := get(asked); err != nil {
				return err
			}
			asked++
		}
	}
	r.Goodput = float64(n.Count) * float64(n.Block) * 8 / float64(time.Since(begin).Nanoseconds())
	for i := range min(rmaDepth, n.Count) {
		b := n.block(i)
		for j := rmaBytes; j < n.Block-rmaBytes; j++ {
			if b[j] != byte(j*7+j>>8+i) {
				return fmt.Errorf("%w: block %d is damaged at %d", apps.ErrVerify, i, j)
			}
		}
	}
	return n.answer(0)
}
