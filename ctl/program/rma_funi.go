package program

// This file is the program of rma.go through package funi alone.

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
)

// funiSizes are those of a node: a key slot and a window for the same memory.
var funiSizes = funi.RemoteSizes{KeySlots: 2, Areas: 16, Notifications: 128}

// funiFace is the face of package funi.
type funiFace struct {
	*rmaNode
	ctx     context.Context
	carrier funet.Carrier
	iface   *funi.Interface
	note    funi.Notification // the last one

	// number is what said and counted write, the puts of round trips and of RMARate, and an operand
	// of operation.
	number        [rmaBytes]byte
	said, counted funi.Put
	operation     funi.Operation
}

func openFuni(ctx context.Context, c funet.Carrier, of *rmaNode) rmaFace {
	n := &funiFace{rmaNode: of, ctx: ctx, carrier: c, iface: c.Interface()}
	n.said = funi.Put{Offset: rmaWord, Counted: n.Do == RMANotify, Data: n.number[:]}
	n.counted = funi.Put{Counted: true, Count: 1, Data: n.number[:]}
	o := &n.operation
	o.Key, o.Address = rmaWindow, rmaTable
	o.Element, o.Bytes, o.Operands, o.Fetch = arctic.Uint64, rmaBytes, n.number[:], true
	switch n.Do {
	case RMAGet:
		*o = funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet, Key: rmaWindow,
			Address: rmaTable}, Length: rmaBytes}
	case RMAAdd:
		o.Operation = arctic.RemoteAdd
	case RMASwap:
		o.Operation = arctic.RemoteSwap
	}
	return n
}

func (n *funiFace) until(done func() bool) error {
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
func (n *funiFace) look() error {
	for r, ok := n.iface.NextReturn(); ok; r, ok = n.iface.NextReturn() {
		if r.Word != rmaHelloCookie {
			return fmt.Errorf("writing to node %d: it came back: %v", n.peer, r.Reason)
		}
	}
	return cmp.Or(context.Cause(n.ctx), n.carrier.Err())
}

// commit composes a request in a slot and commits it.
func (n *funiFace) commit(compose func(*funi.Slot)) error {
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

// write writes to the other node.
func (n *funiFace) write(p *funi.Put) error {
	p.Key = rmaKey
	return n.commit(func(s *funi.Slot) { s.SetPut(n.peer, p) })
}

// Each node repeats a hello until it has heard from the other, and then says that it has heard it.
func (n *funiFace) meet(end time.Time) error {
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
		return n.write(&p)
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
	return n.write(&funi.Put{Offset: rmaHeard, Data: one})
}

func (n *funiFace) say(i uint64) error {
	binary.NativeEndian.PutUint64(n.number[:], i)
	return n.write(&n.said)
}

func (n *funiFace) heard(i uint64) error {
	if n.Do != RMANotify {
		return n.until(func() bool { return n.word(rmaWord) == i })
	}
	if _, err := n.told(); err != nil {
		return err
	}
	return n.notified(i)
}

// one has the area count all writes, so its one notification proves that each came once.
func (n *funiFace) one(i int) error {
	binary.NativeEndian.PutUint64(n.number[:], uint64(i+1))
	n.counted.Offset = uint32(rmaTable + i%rmaPlaces*rmaBytes)
	if i == n.Count-1 {
		n.counted.Count = -uint32(i)
	}
	return n.write(&n.counted)
}

func (n *funiFace) tell(number int) error {
	return n.write(&funi.Put{Offset: rmaWord, Counted: true, Metadata: []uint32{uint32(number)}})
}

func (n *funiFace) told() (int, error) {
	err := n.until(func() bool { return n.iface.NextNotification(&n.note) })
	return int(n.note.Metadata[0]), err
}

func (n *funiFace) put(i int) error {
	at := uint32(n.place(i))
	return n.write(&funi.Put{Offset: at, Source: rmaBase + at, Length: n.Block, Area: uint16(1 + i%rmaDepth),
		Counted: true, Metadata: []uint32{uint32(i)}})
}

func (n *funiFace) get(i int) error {
	at := uint32(n.place(i))
	o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet, Key: rmaWindow,
		Address: uint64(at)}, Source: rmaBase + at, Length: n.Block, Cookie: uint32(i)}
	return n.commit(func(s *funi.Slot) { s.SetOperation(n.peer, &o) })
}

// got waits for a completion, and returns its cookie.
func (n *funiFace) got() (int, error) {
	err := n.until(func() bool { return n.iface.NextNotification(&n.note) })
	if err == nil && (n.note.Kind != funi.NoteCompletion || n.note.Reason != arctic.ReasonNone) {
		err = fmt.Errorf("%s on node %d: %v", n.Do, n.peer, n.note.Reason)
	}
	return int(n.note.Cookie), err
}

func (n *funiFace) operate(i int, was uint64) error {
	o := &n.operation
	o.Cookie = uint32(i)
	if n.Do == RMASwap {
		binary.NativeEndian.PutUint64(n.number[:], was+1)
	} else {
		binary.NativeEndian.PutUint64(n.number[:], 1)
	}
	if err := n.commit(func(s *funi.Slot) { s.SetOperation(n.peer, o) }); err != nil {
		return err
	}
	cookie, err := n.got()
	if err != nil {
		return err
	}
	if got := binary.NativeEndian.Uint64(n.note.Answer[:]); cookie != i || got != was {
		return fmt.Errorf("%w: %s %d answers %d as %d, want %d", apps.ErrVerify, n.Do, i, got, cookie, was)
	}
	return nil
}

func (n *funiFace) quiet() error { return nil } // each write is answered
