package funi

// This file is the process's end: sending (thesis 3.2.2), receiving (3.2.3) and
// packets that came back. See resize.go for start-up by the book.

import (
	"sync/atomic"

	"github.com/funet/funet/uspace/arctic"
)

// Interface is a process's end of its context. It belongs to one goroutine.
type Interface struct {
	memory         *Memory
	page           *Page
	send           [arctic.Levels]sendQueue
	receive        [arctic.Levels]receiveQueue
	returns        uint32 // next return to read
	lost           uint32 // returns lost before the start
	operationsLost uint32 // of those lost returns, the operations
	modes          uint32 // CSQM and CRQM as the process wants them
	virtual        [arctic.Levels]*VirtualQueue
	notes          uint32                // next notification to read
	committed      [arctic.Levels]uint64 // slots
	// Of a process that issues by triggers (trigger.go): the last turn and its command, where the
	// slots begin that were not issued, where Commit stores the head of the request send queue, and
	// how many notifications were given back.
	turn     uint32
	asked    TriggerCommand
	issued   uint32
	unissued uint32
	given    uint32
	lines    uint32 // stored on paths (path.go)
}

// sendQueue remembers the tail it last saw, so that the card's register is read
// once a lap (thesis 3.2.2: memoization).
type sendQueue struct {
	ring
	head, tail uint32
}

type receiveQueue struct {
	ring
	head, tail uint32
	told       uint32 // tail as last written to the register
}

// Initialize divides the queue memory evenly into four queues, writes the Queue Registers (thesis
// 3.2.1), empties the return ring, and returns the process's end. It returns ErrSlots if a quarter
// of the memory is not a legal queue. The card must attach after it. If the card was there first,
// use Start.
func Initialize(m *Memory) (*Interface, error) {
	return InitializeSlots(m, len(m.Queues)/(queues*SlotWords))
}

// InitializeSlots is Initialize with queues of the given number of slots. It leaves the rest of the
// memory to Resize and VirtualQueue.
func InitializeSlots(m *Memory, slots int) (*Interface, error) {
	m.Page.Store(Control, 0)
	for _, w := range []int{returnHead, returnTail, returnsLost, operationsLost, asleepWord, faultWord, wakeWord,
		goneWord, notesHead, notesTail, triggerWord, triggerWord + 1, triggerAnswerWord, triggerAnswerWord + 1} {
		atomic.StoreUint32(&m.Page[w], 0) // returns of an earlier context are not this one's
	}
	m.Page.PutWhy("")
	i := newInterface(m)
	return i, i.layOut(slots)
}

func newInterface(m *Memory) *Interface {
	if m.Doorbells == nil {
		m.Doorbells = new(Doorbells) // nobody hears them until the card puts its own here
	}
	atomic.StoreUint32(&m.Page[looksWord], 1)
	return &Interface{memory: m, page: m.Page}
}

// Slots returns the size of each queue in slots; one less fits.
func (i *Interface) Slots() int { return int(i.send[0].mask) + 1 }

// GID returns the group of the context.
func (i *Interface) GID() uint16 { return uint16(i.page.Load(GID)) }

// Reserve returns the head slot of the send queue, to be filled in and then sent
// with Commit, or nil when the queue is full: let the card run, receive, and try
// again. Reserving twice without Commit returns the same slot.
func (i *Interface) Reserve(l Level) *Slot {
	q := &i.send[l&1]
	if (q.head+1)&q.mask == q.tail {
		q.tail = atomic.LoadUint32(q.tl) & q.mask
		if (q.head+1)&q.mask == q.tail {
			return nil
		}
	}
	return &q.slots[q.head&q.mask]
}

// KnownTail returns the tail of the send queue as it was last read from the card's
// register (thesis 3.2.2: memoization).
func (i *Interface) KnownTail(l Level) uint32 { return i.send[l&1].tail }

// Commit makes the slot that Reserve returned visible to the card.
func (i *Interface) Commit(l Level) {
	q := &i.send[l&1]
	q.head = (q.head + 1) & q.mask
	i.committed[l&1]++
	atomic.StoreUint32(q.hd, q.head)
	if n := atomic.LoadUint32(&i.page[asleepWord]); n != 0 {
		i.memory.rouse(n)
	}
}

// Unsent returns how many slots of the level the card has not yet given back.
func (i *Interface) Unsent(l Level) int {
	q := &i.send[l&1]
	q.tail = atomic.LoadUint32(q.tl) & q.mask
	return int((q.head - q.tail) & q.mask)
}

// Tail returns the index up to which the card has given the slots of the level back, as its
// register says now.
func (i *Interface) Tail(l Level) uint32 {
	return atomic.LoadUint32(i.send[l&1].tl) & i.send[l&1].mask
}

// Committed returns how many slots of the level were committed since the interface was made,
// whatever size the queue has had. The card has given back all of them but the last Unsent.
func (i *Interface) Committed(l Level) uint64 { return i.committed[l&1] }

// SendHead returns the index of the slot of the send queue that is sent next, below Slots.
func (i *Interface) SendHead(l Level) uint32 { return i.send[l&1].head }

// Heads returns a number that changes when something is committed, or a trigger or a line is
// stored. It may miss commits between two calls if a queue was filled and emptied in between.
func (i *Interface) Heads() uint32 {
	return i.send[Reply].head<<16 ^ i.send[Request].head ^ i.turn<<24 ^ i.lines<<8
}

// Receive returns the tail slot of the receive queue, or nil when the queue is
// empty. The slot is the process's until Release.
func (i *Interface) Receive(l Level) *Slot {
	q := &i.receive[l&1]
	if q.head == q.tail {
		q.head = atomic.LoadUint32(q.hd) & q.mask
		if q.head == q.tail {
			if (q.tail-q.told)&q.mask > q.mask>>4 {
				i.giveSlots(q)
			}
			return nil
		}
	}
	return &q.slots[q.tail&q.mask]
}

// SeemsEmpty reports whether Receive would have to read the card's register before it can
// say whether there is a message.
func (i *Interface) SeemsEmpty(l Level) bool {
	q := &i.receive[l&1]
	return q.head == q.tail
}

// ReceiveHead returns the head of the receive queue, as the card's register says now.
func (i *Interface) ReceiveHead(l Level) uint32 { return atomic.LoadUint32(i.receive[l&1].hd) }

// Arrived returns how many messages of the level wait to be received.
func (i *Interface) Arrived(l Level) int {
	q := &i.receive[l&1]
	return int((atomic.LoadUint32(q.hd) - q.tail) & q.mask)
}

// Release gives the slot that Receive returned back to the card. The register is not written for
// every packet (thesis 3.2.3). Release writes it for each half of the queue, so that the card has
// at least the other half to deliver into. Receive writes it when it finds the queue empty and more
// than a sixteenth of it can be given back.
func (i *Interface) Release(l Level) {
	q := &i.receive[l&1]
	q.tail = (q.tail + 1) & q.mask
	if q.tail&(q.mask>>1) == 0 {
		i.giveSlots(q)
	}
}

// giveSlots lets the card deliver into what was released.
func (i *Interface) giveSlots(q *receiveQueue) {
	q.told = q.tail
	atomic.StoreUint32(q.tl, q.tail)
	// else no ring: nothing waits for room in a context that sleeps
	if n := atomic.LoadUint32(&i.page[asleepWord]); n&threadSleeps != 0 {
		i.memory.rouse(n)
	}
}

// Returned is a packet that came back to its sender.
type Returned struct {
	Reason arctic.Reason
	Level  Level
	Header Header // as the process wrote it
	Word   uint32 // first payload word
}

// Returns reports whether the return ring has a returned packet.
func (i *Interface) Returns() bool { return i.returns != atomic.LoadUint32(&i.page[returnHead]) }

// NextReturn takes the oldest returned packet out of the return ring.
func (i *Interface) NextReturn() (Returned, bool) {
	if !i.Returns() {
		return Returned{}, false
	}
	e := i.page[returnRing+int(i.returns%ReturnSlots)*returnWords:]
	r := Returned{Reason: arctic.Reason(e[0]), Level: Level(e[1] & 1), Header: Header(e[2]), Word: e[3]}
	i.returns++
	atomic.StoreUint32(&i.page[returnTail], i.returns)
	return r, true
}

// ReturnsLost returns how many returned packets did not fit the return ring and
// were only counted. Lost says for which nodes.
func (i *Interface) ReturnsLost() uint32 { return atomic.LoadUint32(&i.page[returnsLost]) - i.lost }
