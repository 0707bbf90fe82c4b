package link

// This file is the timers: one a peer, in a binary heap by time.
//
// A peer's timer is only ever moved earlier; when it fires and nothing is due, it
// is set to what is next due. So an acknowledgment that rides on data, which is
// the common case, costs no heap operation.

type timers struct{ heap[*peer] }

func (p *peer) when() int64   { return p.wake }
func (p *peer) place() *int32 { return &p.timer }

// set makes sure that the peer's timer fires at the given time or earlier.
func (t *timers) set(p *peer, at int64) {
	if p.timer == notTimed {
		p.wake = at
		t.push(p)
	} else if at < p.wake {
		p.wake = at
		t.put(p, int(p.timer))
	}
}

// expire runs the timers that are due.
func (e *End) expire() {
	for len(e.timers.of) > 0 && e.timers.first <= e.now {
		p := e.timers.of[0]
		e.timers.remove(p)
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
		if len(e.timers.of) == 0 || e.timers.first <= e.now {
			return
		}
		p := e.timers.of[0]
		at := p.nextDue()
		if at <= p.wake {
			return
		}
		e.timers.remove(p)
		if at != Never {
			e.timers.set(p, at)
		}
	}
}
