package link

// This file is the timers: one a peer, in a binary heap by time.
//
// A peer's timer is only ever moved earlier; when it fires and nothing is due, it
// is set to what is next due. So an acknowledgment that rides on data, which is
// the common case, costs no heap operation.

// notTimed marks a peer that is not in the heap.
const notTimed = -1

type timers struct {
	heap  []*peer
	first int64 // heap[0].wake, or Never
}

func (t *timers) next() int64 { return t.first }

// noteFirst keeps the earliest time in first, where every step looks.
func (t *timers) noteFirst() {
	t.first = Never
	if len(t.heap) > 0 {
		t.first = t.heap[0].wake
	}
}

// earliest returns the peer whose timer is the earliest, or nil.
func (t *timers) earliest() *peer {
	if len(t.heap) == 0 {
		return nil
	}
	return t.heap[0]
}

// set makes sure that the peer's timer fires at the given time or earlier.
func (t *timers) set(p *peer, at int64) {
	if p.timer == notTimed {
		p.timer, p.wake = int32(len(t.heap)), at
		t.heap = append(t.heap, p)
		t.up(int(p.timer))
	} else if at < p.wake {
		p.wake = at
		t.up(int(p.timer))
	} else {
		return
	}
	t.noteFirst()
}

// pop removes and returns the earliest timer's peer.
func (t *timers) pop() *peer {
	p := t.heap[0]
	n := len(t.heap) - 1
	t.put(t.heap[n], 0)
	t.heap = t.heap[:n]
	if n > 0 {
		t.down(0)
	}
	t.noteFirst()
	p.timer = notTimed
	return p
}

func (t *timers) put(p *peer, i int) { t.heap[i] = p; p.timer = int32(i) }

func (t *timers) up(i int) {
	p := t.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if t.heap[parent].wake <= p.wake {
			break
		}
		t.put(t.heap[parent], i)
		i = parent
	}
	t.put(p, i)
}

func (t *timers) down(i int) {
	p := t.heap[i]
	for {
		child := 2*i + 1
		if child >= len(t.heap) {
			break
		}
		if child+1 < len(t.heap) && t.heap[child+1].wake < t.heap[child].wake {
			child++
		}
		if p.wake <= t.heap[child].wake {
			break
		}
		t.put(t.heap[child], i)
		i = child
	}
	t.put(p, i)
}

// expire runs the timers that are due.
func (e *End) expire() {
	for len(e.timers.heap) > 0 && e.timers.next() <= e.now {
		p := e.timers.pop()
		if at := e.due(p); at != Never {
			e.timers.set(p, max(at, e.now+1))
		}
	}
}

const (
	retimed = 4 // how many timers Retime looks at
	// asleepLook is how late, in nanoseconds, a card that sleeps looks at a peer's flows, which
	// only gives memory back (park.go). It is longer than a pause between the probes of a program
	// that is idle (package socket). So the card is not woken twice more after each probe.
	asleepLook = 1e9
)

// Retime sets the earliest timers to what is next due, for a card that is about to sleep and would
// otherwise wake up in vain. What is due now stays due.
func (e *End) Retime() {
	for range retimed {
		p := e.timers.earliest()
		if p == nil || p.wake <= e.now {
			return
		}
		at := p.nextDue()
		if at <= p.wake {
			return
		}
		e.timers.pop()
		if at != Never {
			e.timers.set(p, at)
		}
	}
}
