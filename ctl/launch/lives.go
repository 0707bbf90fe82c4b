package launch

// This file starts nodes again after they have failed (Options.Restarts).
//
// The steps: a process ends by a signal or with an exit code other than 0 (running.wait). Its node
// rests, longer after each failure. Then one goroutine (running.starter) starts the next process of
// each node. It is a goroutine of its own because a host behind ssh may answer slowly, and signals
// must not wait for that. A job that is being ended starts nothing: resting nodes stay dead, and
// the host kills a process whose start is under way (local.signal).

import (
	"fmt"
	"syscall"
	"time"
)

const (
	MaxRestarts = 65535 // the most that Options.Restarts may be

	// A node rests firstRest before its first restart, and twice as long before each later one, up
	// to longestRest. After a life of at least soundLife it rests firstRest again.
	firstRest   = 100 * time.Millisecond
	longestRest = 5 * time.Second
	soundLife   = 10 * time.Second
)

// lives counts the restarts of a job's nodes.
type lives struct {
	of      []life
	pausing int      // nodes that rest
	rested  chan int // nodes whose rest is over; has room for all
	start   chan int // nodes to start now; nil: no node was started again yet
	started chan startedAgain
}

// life is the life of a node that runs or ended last.
type life struct {
	number int
	since  time.Time
	rest   time.Duration // before this life; 0: it is the first
}

// startedAgain is the outcome of starting a node's next process.
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

// rest lets a failed node rest before its next start. It returns false if the node has no restart
// left, or the job is being ended.
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

// starter starts nodes until stop closes the channel.
func (j *running) starter() {
	for i := range j.lives.start {
		j.lives.started <- startedAgain{i, j.startNode(i, j.lives.of[i].number)}
	}
}

// stop ends the starter. No start may be under way.
func (l *lives) stop() {
	if l.start != nil {
		close(l.start)
	}
}

// startedAgain ends the job if the next process of a node could not be started. A lost host is no
// such error: it was reported as the node's end.
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

// usedUp returns a remark that a node was started again before, and how often, or "".
func (l *lives) usedUp(node int) string {
	if n := l.of[node].number; n > 0 {
		return fmt.Sprintf(", after %d restarts", n)
	}
	return ""
}
