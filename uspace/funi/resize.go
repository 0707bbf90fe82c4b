package funi

// This file is the process's end of CNTL: start-up, and queues that change their size
// or place while traffic flows (thesis 3.1.2, 3.2.1).
//
// The card cannot see a write to memory, so process and card share what the hardware did when a
// register was written. The process zeroes HD and TL when it writes a BASE. The card takes geometry
// and indices over when CSQM or CRQM is cleared.

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/funet/funet/uspace/arctic"
)

var (
	// ErrTooSmall reports queues that hold more packets than the new ones could.
	ErrTooSmall = errors.New("funi: the queues hold more packets than would fit; receive first, or let the card retrieve")
	// ErrVirtual reports that a virtual send queue is open.
	ErrVirtual = errors.New("funi: a virtual send queue is open; close it first")
)

// Start is the user start-up of thesis 3.2.1 for a context that its card has powered up already. It
// sets CSQM and CRQM, and waits until the card's transactions have halted. Then it writes the Queue
// Registers for queues of the given number of slots, and clears the modes. Returns of an earlier
// life of the context are passed over. While it waits it calls drive, which lets the card run and
// whose error ends the wait.
func Start(m *Memory, slots int, drive func() error) (*Interface, error) {
	i := newInterface(m)
	if err := i.Resize(slots, drive); err != nil {
		return nil, err
	}
	i.returns = atomic.LoadUint32(&m.Page[returnHead])
	i.lost, i.operationsLost = atomic.LoadUint32(&m.Page[returnsLost]), atomic.LoadUint32(&m.Page[operationsLost])
	atomic.StoreUint32(&m.Page[returnTail], i.returns)
	atomic.StoreUint32(&m.Page[lostSeen], i.lost) // nothing of this life can be among them
	i.notes = m.Page.Notified()
	i.given = i.notes
	atomic.StoreUint32(&m.Page[notesTail], i.notes)
	return i, nil
}

// Resize changes the size of all queues to the given number of slots, while traffic flows. It halts
// the card's transactions and carries packets that are not retrieved or not received over into the
// new queues. Then it lets the card go on. A slot that was reserved and not committed is lost, and
// one received and not released comes again. drive is that of Start. ErrSlots, ErrLayout (the
// memory is too small), ErrTooSmall, ErrVirtual and drive's errors leave everything as it was.
func (i *Interface) Resize(slots int, drive func() error) error {
	if err := i.resizable(slots); err != nil {
		return fmt.Errorf("changing to queues of %d slots: %w", slots, err)
	}
	defer i.setModes(i.modes)
	if err := i.Halt(UserModes, drive); err != nil {
		return fmt.Errorf("changing to queues of %d slots: %w", slots, err)
	}
	if i.send[Request].hd == &i.unissued {
		i.TriggerAnswer() // counted later it would be of the new queues
	}
	var unsent, unreceived [arctic.Levels][]Slot
	for l := range arctic.Level(arctic.Levels) {
		if i.send[l].slots == nil {
			continue // start-up: the registers are not initialised
		}
		s, r := &i.send[l], &i.receive[l]
		s.tail, r.head = atomic.LoadUint32(s.tl)&s.mask, atomic.LoadUint32(r.hd)&r.mask
		unsent[l], unreceived[l] = s.between(s.tail, s.head), r.between(r.tail, r.head)
		if max(len(unsent[l]), len(unreceived[l])) >= slots {
			return fmt.Errorf("changing to queues of %d slots with %d packets: %w", slots,
				max(len(unsent[l]), len(unreceived[l])), ErrTooSmall)
		}
	}
	if err := i.layOut(slots); err != nil {
		return err
	}
	for l := range arctic.Levels {
		s, r := &i.send[l], &i.receive[l]
		s.head, r.head = s.put(unsent[l]), r.put(unreceived[l])
		atomic.StoreUint32(s.hd, s.head)
		atomic.StoreUint32(r.hd, r.head)
	}
	return nil
}

// resizable returns the error of a Resize that cannot succeed, before anything is halted.
func (i *Interface) resizable(slots int) error {
	switch {
	case !legal(slots):
		return ErrSlots
	case queues*slots*SlotWords > len(i.memory.Queues):
		return ErrLayout
	case i.virtual[Request] != nil || i.virtual[Reply] != nil:
		return ErrVirtual
	}
	return nil
}

// Halt sets modes, CSQM or CRQM or both, and waits until CSQR and CRQR say that the card has
// halted. Release them with Go. An error of drive leaves the modes set. With CSQM the wait includes
// transfers of many packets that have begun: up to the card's PeerTimeout if their receiver is
// silent.
func (i *Interface) Halt(modes uint32, drive func() error) error {
	modes &= UserModes
	i.setModes(i.modes | modes)
	for ready := modes << 1; ; { // each ready bit is the one above its mode
		if i.page.Load(Control)&ready == ready {
			return nil
		}
		if err := drive(); err != nil {
			return err
		}
	}
}

// Go clears modes that Halt set.
func (i *Interface) Go(modes uint32) { i.setModes(i.modes &^ modes) }

// setModes writes CNTL. The write takes the status bits away. The card puts them back when it has
// seen the write, so a ready bit is never an old one.
func (i *Interface) setModes(modes uint32) {
	i.modes = modes & UserModes
	i.page.Store(Control, i.modes)
	if n := atomic.LoadUint32(&i.page[asleepWord]); n != 0 {
		i.memory.rouse(n)
	}
}

// Status returns CNTL as the card last published it.
func (i *Interface) Status() uint32 { return i.page.Load(Control) }

// Fault returns why MERR is set, or ReasonNone.
func (i *Interface) Fault() arctic.Reason {
	if i.page.Load(Control)&MERR == 0 {
		return arctic.ReasonNone
	}
	return i.page.Fault()
}

// layOut writes the Queue Registers for four queues of the given number of slots one behind the
// other, and starts both ends from zero.
func (i *Interface) layOut(slots int) error {
	i.page.Store(QMask, uint32(slots-1))
	for n, r := range []Register{RPSQBase, RQSQBase, RPRQBase, RQRQBase} {
		i.setBase(r, uint32(n*slots*slotBytes))
	}
	send, err := i.memory.rings(sendBase)
	if err != nil {
		return err
	}
	receive, err := i.memory.rings(receiveBase)
	if err != nil {
		return err
	}
	for l := range arctic.Levels {
		i.send[l], i.receive[l] = sendQueue{ring: send[l]}, receiveQueue{ring: receive[l]}
	}
	if i.issued = 0; i.page.triggers() {
		// A trigger that was not answered is withdrawn. If the card answers it just now, it takes
		// the withdrawal for a trigger that was skipped, and answers that, too.
		i.turn, i.asked = uint32(i.page.Answers()), TriggerPointers
		atomic.StoreUint64(i.page.word64(triggerWord), uint64(i.turn)<<32)
		i.send[Request].hd = &i.unissued
	}
	return nil
}

// setBase writes a BASE register, which zeroes HD and TL (thesis 3.1.2).
func (i *Interface) setBase(r Register, base uint32) {
	i.page.Store(r, base)
	head := RPSQHead + 2*(r-RPSQBase)
	i.page.Store(head, 0)
	i.page.Store(head+1, 0)
}

// between copies the slots from index tail to before head.
func (r *ring) between(tail, head uint32) (slots []Slot) {
	for ; tail != head; tail = (tail + 1) & r.mask {
		slots = append(slots, r.slots[tail&r.mask])
	}
	return slots
}

// put copies slots into an empty ring from index 0 on, and returns the head.
func (r *ring) put(slots []Slot) uint32 {
	return uint32(copy(r.slots, slots))
}
