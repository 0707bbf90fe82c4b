package launch

// This file is how the launcher notices that a host has died: its agent says that it lives, each
// beatEvery, whatever else it does, and who hears nothing from it for Options.HostTimeout gives
// the host up. That works through ssh or any other transport; ssh's own keep-alive (remote.go) does
// as much before the agent is there.
//
// Time counts only while the launcher reads. While it is stopped (Ctrl-Z), or whoever reads the
// nodes' output does not, the host's words wait with it, and it is not the host that is silent.

import (
	"io"
	"sync/atomic"
	"time"
)

const (
	// beatEvery is the time between two signs of life of an agent.
	beatEvery = 500 * time.Millisecond
	// looksAtPulse is how often the launcher looks for one within HostTimeout.
	looksAtPulse = 10
	// ShortestHostTimeout is some signs of life long: one may be late.
	ShortestHostTimeout = 4 * beatEvery
	// DefaultHostTimeout leaves half of 10 s to the nodes that are ended because of it.
	DefaultHostTimeout = 5 * time.Second
)

// beat says that the agent lives, until it ends.
func (a *agent) beat(ended <-chan struct{}) {
	t := time.NewTicker(beatEvery)
	defer t.Stop()
	for a.speaker.say(word{Alive: true}) == nil {
		select {
		case <-t.C:
		case <-ended:
			return
		}
	}
}

// pulse is what comes from a host, and when.
type pulse struct {
	from    io.Reader
	waiting atomic.Bool // for the host's next byte
	heard   atomic.Uint64
}

// Read reads what the host says.
func (p *pulse) Read(b []byte) (int, error) {
	p.waiting.Store(true)
	n, err := p.from.Read(b)
	p.waiting.Store(false)
	p.heard.Add(1)
	return n, err
}

// watch calls silent, once, when the host has said nothing for so long, until ended. Each look at
// a ticker counts as one, however late it is: what the host said meanwhile may not have been read.
func (p *pulse) watch(timeout time.Duration, ended <-chan struct{}, silent func()) {
	t := time.NewTicker(timeout / looksAtPulse)
	defer t.Stop()
	last := p.heard.Load()
	for missed := 0; missed < looksAtPulse; missed++ {
		select {
		case <-t.C:
		case <-ended:
			return
		}
		if now := p.heard.Load(); now != last || !p.waiting.Load() {
			missed, last = -1, now
		}
	}
	silent()
}
