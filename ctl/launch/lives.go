package launch

// This file is nodes that are started again after they have failed (Options.Restarts): when, how
// often, and by whom.
//
// The journey: a process ends by a signal or with an exit code other than 0 (running.wait). Its
// node rests, longer after each failure. Then the one goroutine that starts nodes (running.starter)
// starts the next process. A host behind ssh may be slow to answer, and signals must not wait for
// that. A job that is being ended starts nothing: nodes that rest stay dead, and the host kills a
// process whose start is under way (local.signal).

import (
	"fmt"
	"syscall"
	"time"
)

const (
	// MaxRestarts is the most that Options.Restarts may be.
	MaxRestarts = 65535

	// A node rests firstRest before it is started again, and each time twice as long, up to
	// longestRest; after a life of at least soundLife firstRest again.
	firstRest   = 100 * time.Millisecond
	longestRest = 5 * time.Second
	soundLife   = 10 * time.Second
)

// lives are how often the nodes of a job were started again.
type lives struct {
	of      []life
	pausing int      // nodes that rest
	rested  chan int // nodes whose rest is over; has room for all
	start   chan int // nodes to start now; nil: none was yet
	started chan startedAgain
}

// life is which life of a node runs, or ended last.
type life struct {
	number int
	since  time.Time
	rest   time.Duration // before it; 0: it is the first
}

// startedAgain is how the start of a node's next process ended.
type startedAgain struct {
	node int
	err  error
}

func newLives(nodes int) lives {
	l := lives{of: make([]life, nodes), rested: make(chan int, nodes), started: make(chan startedAgain, nodes)}
	for i := range l.of {
		l.of[i].since = time.Now()
	}
	return l
}

// rest has a node that has failed rest before it is started again, unless that has been done too
// often or the job is being ended.
func (j *running) rest(e end) bool {
	n := &j.lives.of[e.node]
	if j.ending || n.number >= j.o.Restarts || j.unwritten() != nil {
		return false
	}
	n.rest = min(2*n.rest, longestRest)
	if n.rest == 0 || time.Since(n.since) >= soundLife {
		n.rest = firstRest
	}
	n.number++
	j.say("node %d with %v: %v; starting it again (%d of %d)", e.node, j.on(e.node), e.status, n.number, j.o.Restarts)
	j.lives.pausing++
	time.AfterFunc(n.rest, func() { j.lives.rested <- e.node })
	return true
}

// again starts a node whose rest is over, unless the job is being ended.
func (j *running) again(i int) {
	l := &j.lives
	l.pausing--
	if j.ending {
		return
	}
	if l.start == nil {
		l.start = make(chan int, len(l.of))
		go j.starter()
	}
	j.alive++
	l.of[i].since = time.Now()
	l.start <- i
}

// starter starts nodes until there will be no more.
func (j *running) starter() {
	for i := range j.lives.start {
		j.lives.started <- startedAgain{i, j.startNode(i, j.lives.of[i].number)}
	}
}

// stop ends the starter. No start is under way.
func (l *lives) stop() {
	if l.start != nil {
		close(l.start)
	}
}

// startedAgain ends the job where a node cannot be started any more. A host that was lost has said
// so already.
func (j *running) startedAgain(s startedAgain) {
	if s.err == nil {
		return // it may have ended already
	}
	j.alive--
	if j.ending {
		return
	}
	j.code = 1
	j.say("%v%s", s.err, j.others())
	j.end(syscall.SIGTERM)
}

// usedUp says that a node will not be started again, if it was before.
func (l *lives) usedUp(node int) string {
	if n := l.of[node].number; n > 0 {
		return fmt.Sprintf(", after %d restarts", n)
	}
	return ""
}
