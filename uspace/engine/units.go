package engine

// This file is the time that the Retrieval and the Delivery Unit take (thesis 5.2) when
// the card is that of a modelled machine: Config.Timing.
//
// A unit works on one packet at a time. It asks for the bus burst by burst; between two
// of its bursts the processor and then the other unit may go first. The packet moves when
// the last burst has ended: only then is its line taken, is the slot retired, does the
// receive queue grow. What the burst would have read is read then, too: a process that
// changes a slot that it has sent sends one or the other, as with the hardware.
//
// Accepted packets go by way of the receive FIFO, always, and wait there for the Delivery
// Unit. A full FIFO rejects. Dispatch, acknowledgments and everything of the network's
// side take the time of the port's link and no other.
//
// Bursts (5.2.2): the first four words of a slot are one burst, which tells what the
// packet is; the rest, and the data of XFER, follow in the longest bursts that do not
// exceed it, and what is then left in the shortest that holds it. A delivery ends with the
// word of the cached head register, so that the processor's copy is invalidated (5.2.3).

import (
	"fmt"
	"slices"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/timing"
)

// Timing is what a card's units take. Its bus is shared with the processor, and with no
// other card.
type Timing struct {
	Bus *timing.Bus
	// Bursts are how many words a transaction of the card may have, rising from 1 to at
	// most 16.
	Bursts []int
	// Retrieval and Delivery are how long the units are busy with a packet before its first
	// transaction.
	Retrieval, Delivery time.Duration
}

// check refuses what no unit could work with.
func (t *Timing) check() error {
	if t.Bus == nil || len(t.Bursts) == 0 || t.Bursts[0] != 1 || !slices.IsSorted(t.Bursts) || t.Bursts[len(t.Bursts)-1] > 16 ||
		min(t.Retrieval, t.Delivery) < 0 {
		return fmt.Errorf("timing needs a bus, bursts that rise from 1 to at most 16 words, and durations that are not negative")
	}
	return nil
}

// maxBursts is the most transactions of a packet: the words of a request block and of its
// data one by one, and the head register.
const maxBursts = funi.DataWord + 1 + arctic.MaxPartWords + 1

// unit is the Retrieval or the Delivery Unit.
type unit struct {
	x      *Context // whose packet it works on; nil: none
	level  arctic.Level
	bursts [maxBursts]uint8 // words of its transactions
	n      int              // of them
	done   int              // of them
	until  int64            // busy until then; 0: waits for the bus
	setup  int64            // before the first transaction
}

// units is both of them.
type units struct {
	bus      *timing.Bus
	sizes    []int
	retrieve unit
	deliver  unit
	second   bool  // the Delivery Unit asks for the bus first
	turn     int   // of the contexts
	next     int64 // when one of them next has something to do, or Never
}

func newUnits(t *Timing) *units {
	return &units{bus: t.Bus, sizes: t.Bursts, retrieve: unit{setup: int64(t.Retrieval)}, deliver: unit{setup: int64(t.Delivery)}, next: Never}
}

// runUnits ends what has ended by now and starts what a free unit can start.
func (c *Card) runUnits() {
	u := c.units
	for again := true; again; {
		u.next = Never
		if u.second {
			again = c.runUnit(&u.deliver)
			again = c.runUnit(&u.retrieve) || again
		} else {
			again = c.runUnit(&u.retrieve)
			again = c.runUnit(&u.deliver) || again
		}
		if again {
			for _, x := range c.awake {
				c.loopback(x) // into FIFOs that may have room now
			}
		}
	}
}

// runUnit lets a unit go on and reports whether it has moved a packet: then there may be
// work for either.
func (c *Card) runUnit(w *unit) (moved bool) {
	u := c.units
	for {
		if w.until > c.now {
			u.next = min(u.next, w.until)
			return moved
		}
		if w.until != 0 && w.done == w.n {
			w.until = 0
			c.move(w)
			u.second = w == &u.retrieve // the other may go first now
			moved = true
		}
		w.until = 0
		if w.x == nil {
			if !c.assign(w) {
				return moved
			}
			if w.setup > 0 {
				w.until = c.now + w.setup
				continue
			}
		}
		at, granted := u.bus.Card(c.now, int(w.bursts[w.done]))
		if !granted {
			u.next = min(u.next, at)
			return moved
		}
		w.done++
		w.until = at
		u.second = w == &u.retrieve
	}
}

// move moves the packet whose transactions have ended, unless its context has left or
// halted meanwhile.
func (c *Card) move(w *unit) {
	x := w.x
	w.x = nil
	switch {
	case x.away:
	case w == &c.units.deliver:
		if x.fifo[w.level].n > 0 {
			c.drainOne(x, w.level)
		}
	case !x.halted:
		more := c.more
		c.retrieveLevel(x, w.level, 1)
		c.more = more // the unit itself sees what else is pending
	}
}

// assign gives an idle unit its next packet: replies first, contexts in turn.
func (c *Card) assign(w *unit) bool {
	u := c.units
	for i := range c.awake {
		x := c.awake[(u.turn+i)%len(c.awake)]
		for l := arctic.Reply; l <= arctic.Reply; l-- {
			w.n, w.done = 0, 0
			if w == &u.retrieve && c.retrievable(x, l) || w == &u.deliver && c.deliverable(x, l) {
				w.x, w.level = x, l
				u.turn += i + 1
				return true
			}
		}
	}
	return false
}

// retrievable notes the transactions of the next packet of a send queue. It returns false
// if there is none, or no line for it.
func (c *Card) retrievable(x *Context, l arctic.Level) bool {
	u := c.units
	w := &u.retrieve
	if x.halted {
		return false
	}
	last := x.long != nil && x.long.due[l].head != nil
	pending := x.current[l] != nil || x.iface.Pending(l) > x.taken[l] && !x.closing
	if !last && !pending {
		return false
	}
	if !x.ticket.any(l) {
		if !x.starved {
			c.counters.SendQueueNoTicket++
		}
		x.starved = true // the line that comes free makes the card step again
		return false
	}
	switch t := x.current[l]; {
	case last:
		u.split(w, arctic.MaxSingleWords)
	case t != nil:
		u.split(w, min(arctic.MaxPartWords, len(t.source)/arctic.WordSize))
	default:
		s := x.iface.Slot(l, x.taken[l])
		h := funi.Header(s.Load(0))
		switch {
		case h.Many() && h.Words() == 0:
			if x.long != nil && x.long.free[l].head == nil {
				return false // settle makes the card step again when a record comes free
			}
			u.slot(w, funi.DataWord+1)
			u.split(w, arctic.MaxPartWords)
		case h.Transfer():
			u.slot(w, funi.DataWord)
			u.split(w, min(h.Words(), arctic.MaxPartWords))
		default:
			u.slot(w, funi.PayloadWord+h.Length())
		}
	}
	return w.n > 0
}

// deliverable notes the transactions of the next packet of a receive FIFO. It returns
// false if there is none, or no slot for it.
func (c *Card) deliverable(x *Context, l arctic.Level) bool {
	u := c.units
	q := &x.fifo[l]
	if x.away || q.n == 0 {
		return false
	}
	p := arctic.Packet(q.slots[q.first][:])
	h := p.Header()
	room := x.iface.Vacant(l) != nil
	switch {
	case h.Kind != arctic.KindTransfer:
		u.slot(&u.deliver, funi.PayloadWord+int(h.Length))
	default:
		var t arctic.Transfer
		p[:arctic.PacketHeaderSize+int(h.Length)*arctic.WordSize].Transfer(&t)
		if t.Form == arctic.Part && !x.drain {
			u.split(&u.deliver, len(t.Data)/arctic.WordSize)
			return u.deliver.n > 0
		}
		u.slot(&u.deliver, funi.DataWord)
		u.split(&u.deliver, len(t.Data)/arctic.WordSize)
	}
	u.add(&u.deliver, 1) // the head register
	return room
}

// slot notes the transactions of the first words of a slot.
func (u *units) slot(w *unit, words int) {
	first := min(words, funi.DataWord)
	u.split(w, first)
	u.split(w, words-first)
}

// split notes the transactions of so many words.
func (u *units) split(w *unit, words int) {
	for words > 0 {
		size := u.holds(words)
		for _, s := range u.sizes {
			if s > 2 && s <= words { // two single words take longer than a burst
				size = s
			}
		}
		u.add(w, size)
		words -= size
	}
}

// holds returns the shortest burst that holds so many words, or else the longest.
func (u *units) holds(words int) int {
	for _, s := range u.sizes {
		if s >= words {
			return s
		}
	}
	return u.sizes[len(u.sizes)-1]
}

func (u *units) add(w *unit, words int) {
	w.bursts[w.n] = uint8(words)
	w.n++
}
