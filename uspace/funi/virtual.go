package funi

// This file is the virtual send queue (thesis 3.2.2): a program that finds its send
// queue full goes on composing into another block of the same size, which becomes the
// send queue when the card has emptied the real one.
//
// The thesis stores the new BASE at once. Here CSQM comes first, as 3.1.2 demands of every write to
// a BASE. No call waits for CSQR: the first call that finds it set makes the switch.

import (
	"fmt"
	"sync/atomic"

	"github.com/funet/funet/uspace/arctic"
)

// VirtualQueue sends on one level through the real send queue while that has room,
// and otherwise through a virtual one. While it is open, use it instead of
// Interface.Reserve and Commit. It belongs to the interface's goroutine.
type VirtualQueue struct {
	iface     *Interface
	level     Level
	block     []Slot // not the card's
	base      uint32
	head      uint32 // packets in it
	real      bool   // the reserved slot is the real queue's
	switching bool   // CSQM is set for us
}

// NewVirtualQueue opens the virtual send queue of a level. Each level has a block behind the four
// queues, so the memory must be half as large again as they are, or it returns ErrLayout. It
// returns ErrVirtual if the level has a virtual queue already.
func (i *Interface) NewVirtualQueue(l Level) (*VirtualQueue, error) {
	l &= 1
	if i.virtual[l] != nil {
		return nil, fmt.Errorf("opening the virtual %v send queue: %w", l, ErrVirtual)
	}
	v := &VirtualQueue{iface: i, level: l}
	// The block that a virtual queue left behind may be any of the queue's two.
	v.base = uint32((queues + int(l)) * i.Slots() * slotBytes)
	if i.page.Load(sendBase[l]) == v.base {
		v.base = uint32(1-int(l)) * uint32(i.Slots()*slotBytes)
	}
	var err error
	if v.block, err = i.memory.slots(v.base, i.Slots()); err != nil {
		return nil, fmt.Errorf("opening the virtual %v send queue: %w", l, err)
	}
	i.virtual[l] = v
	return v, nil
}

// Reserve returns a slot for the next packet, or nil when both queues are full. Packets
// keep their order: while any is in the virtual queue, others go there.
func (v *VirtualQueue) Reserve() *Slot {
	if v.head > 0 {
		v.Advance()
	}
	if v.head == 0 {
		if s := v.iface.Reserve(v.level); s != nil {
			v.real = true
			return s
		}
	}
	v.real = false
	if int(v.head) == len(v.block)-1 {
		return nil
	}
	return &v.block[v.head]
}

// Commit sends the slot that Reserve returned: now, or after a switch.
func (v *VirtualQueue) Commit() {
	if v.real {
		v.iface.Commit(v.level)
		return
	}
	v.head++
}

// Waiting returns how many packets are in the virtual queue. Call Advance until there
// are none, or they are never sent.
func (v *VirtualQueue) Waiting() int { return int(v.head) }

// Advance switches the virtual queue in if it holds packets, the real one is empty and
// the card has halted. It never waits. A slot that was reserved before is void.
func (v *VirtualQueue) Advance() {
	i := v.iface
	if !v.switching {
		if v.head == 0 || i.Unsent(v.level) > 0 {
			return
		}
		v.switching = true
		i.setModes(i.modes | CSQM)
	}
	if i.page.Load(Control)&CSQR == 0 {
		return
	}
	q := &i.send[v.level]
	base := i.page.Load(sendBase[v.level])
	i.setBase(sendBase[v.level], v.base)
	q.slots, v.block = v.block, q.slots
	v.base = base
	q.head, q.tail, v.head = v.head, 0, 0
	atomic.StoreUint32(q.hd, q.head)
	v.switching = false
	if other := i.virtual[v.level^1]; other == nil || !other.switching {
		i.setModes(i.modes &^ CSQM)
	}
}

// Close ends the use of the virtual queue, which must be empty; otherwise it returns ErrVirtual.
func (v *VirtualQueue) Close() error {
	if v.head > 0 {
		return fmt.Errorf("closing the virtual %v send queue with %d packets: %w", v.level, v.head, ErrVirtual)
	}
	v.iface.virtual[v.level&arctic.Reply] = nil
	return nil
}
