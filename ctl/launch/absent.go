package launch

// This file tells the user of nodes that ended well before they attached while other nodes wait for
// them. A program may have left one node too early, or was started with another number of nodes.
// The waiting nodes notice only much later that they get no answer.
//
// The daemons know the nodes that have attached. The launcher asks them some time after such an
// end: a job whose nodes all end needs no answer. It asks again, at ever longer intervals, until it
// has something to tell.

import (
	"slices"
	"time"
)

// firstLook is the time from the end of a node to the first question to the daemons. Each later
// wait is twice as long as the one before it.
const firstLook = time.Second

// absence tracks nodes that ended before they attached.
type absence struct {
	ended []int // nodes that ended well while others ran
	look  <-chan time.Time
	after time.Duration // wait before the last look
	found chan []int
	over  bool // the user was told, or no daemon can be asked
}

// endedWell notes the end of a node, for a look at whether it had attached.
func (j *running) endedWell(node int) {
	a := &j.absence
	if a.over || j.ending || j.o.Once || j.alive == 0 {
		return
	}
	a.ended = append(a.ended, node)
	if a.found == nil {
		a.found, a.after = make(chan []int, 1), firstLook
		a.look = time.After(a.after)
	}
}

// lookForAbsent asks the daemons in the background, so that signals and ends are still served.
func (j *running) lookForAbsent() {
	a := &j.absence
	a.look = nil
	ended := slices.Clone(a.ended)
	go func() { a.found <- unattached(j.jobHosts, ended) }()
}

// foundAbsent tells of the nodes, or looks again later.
func (j *running) foundAbsent(nodes []int) {
	a := &j.absence
	if len(nodes) == 0 {
		a.after *= 2
		a.look = time.After(a.after)
		return
	}
	a.over = true
	if !j.ending && j.alive > 0 {
		j.say("nodes %v ended with exit code 0 before they attached to their daemons, and other nodes are attached and may wait for them", nodes[:min(len(nodes), mostNamed)])
	}
}

// unattached returns those of the ended nodes that had not attached, if other nodes are attached.
func unattached(hosts []host, ended []int) (missing []int) {
	others := 0
	for _, h := range hosts {
		absent, attached, err := h.absent()
		if err != nil {
			return nil // a host that was lost is told elsewhere
		}
		others += attached
		for _, n := range absent {
			if slices.Contains(ended, n) {
				missing = append(missing, n)
			}
		}
	}
	if others == 0 {
		return nil
	}
	slices.Sort(missing)
	return missing
}
