package daemon

// This file shares a card that has room for few groups among many. The profile's figure
// card.contexts is how many groups are on the card at once. The others are switched out (thesis
// 4.2) and take their turns.
//
// A turn lasts slice. Then the groups that have something to do and are not on the card are
// switched in, in turn, and as many others out as room requires. If no group waits, the turn goes
// on. Contexts of one group are always together, so that they can answer each other. Packets in
// flight are answered first (CTXR1), at most for patient; then the switch goes on without the
// answers, and the engine keeps them when they come. A group that comes to a full card waits for
// its turn. With room for all groups there are no switches.
//
// Packets for a group that is out wait at their senders, who try again; its own stay in the engine.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
)

const (
	slice   = int64(10 * time.Millisecond)  // the length of a turn in nanoseconds
	patient = int64(100 * time.Millisecond) // how long a switch waits for acknowledgments
)

// sharing manages the turns of groups. It belongs to the card's thread.
type sharing struct {
	room   int // number of groups on the card at once
	groups []*shared
	first  int     // group that is next, in groups
	until  int64   // end of the turn
	out    bool    // a switch is under way
	since  int64   // beginning of the switch
	asked  *shared // the group that an administrator wants on the card; nil: none
}

// shared is a group's contexts on this card.
type shared struct {
	gid     uint16
	members []*attachment
	on      bool
	next    bool // it will be on the card after the switch
}

// enter adds a newly attached context to its group. It switches the context out if the group is not
// on the card and there is no room for it.
func (s *sharing) enter(l *loop, a *attachment) {
	i := slices.IndexFunc(s.groups, func(g *shared) bool { return g.gid == a.job.gid })
	if i < 0 {
		i = len(s.groups)
		s.groups = append(s.groups, &shared{gid: a.job.gid, on: s.onCard() < s.room})
		if s.until == 0 || len(s.groups) == s.room+1 {
			s.until = l.now + slice
		}
	}
	g := s.groups[i]
	g.members = append(g.members, a)
	if !g.on || s.out {
		g.switchOut(l.card, a, true) // nothing of it is in flight yet
	}
}

// leave takes a context out of its group before it is detached.
func (s *sharing) leave(a *attachment) {
	for i, g := range s.groups {
		if at := slices.Index(g.members, a); at >= 0 {
			g.members = slices.Delete(g.members, at, at+1)
			if len(g.members) == 0 {
				s.groups = slices.Delete(s.groups, i, i+1)
				if s.asked == g {
					s.asked = nil
				}
				if s.first > i {
					s.first--
				}
			}
			return
		}
	}
}

func (s *sharing) onCard() (n int) {
	for _, g := range s.groups {
		if g.on {
			n++
		}
	}
	return n
}

// turn switches groups when it is time to, and returns when it wants to be called again.
func (s *sharing) turn(l *loop) int64 {
	if !s.out && (len(s.groups) == 0 || s.onCard() == len(s.groups)) {
		return math.MaxInt64
	}
	free := s.onCard() < min(s.room, len(s.groups))
	if !s.out && !free && l.now < s.until {
		return s.until
	}
	if !s.out {
		if !s.choose() && !free {
			s.until = l.now + slice
			return s.until
		}
		s.out, s.since = true, l.now
	}
	for _, g := range s.groups {
		if !g.on || g.next {
			continue
		}
		for _, a := range g.members {
			if a.saved == nil && !g.switchOut(l.card, a, l.now-s.since > patient) {
				return l.now // packets are in flight
			}
		}
	}
	for _, g := range s.groups {
		if g.on = g.next; !g.on {
			continue
		}
		for _, a := range g.members {
			g.switchIn(l.card, a)
		}
	}
	s.out, s.until = false, l.now+slice
	return l.now
}

// choose marks the groups that are on the card next: first those that wait, in turn, then those
// that are on it, then others. It reports whether a group waits.
func (s *sharing) choose() (some bool) {
	room, last := s.room, 0
	pick := func(which func(*shared) bool) {
		for n := range s.groups {
			g := s.groups[(s.first+n)%len(s.groups)]
			if room > 0 && !g.next && which(g) {
				g.next = true
				last = max(last, n+1)
				room--
			}
		}
	}
	for _, g := range s.groups {
		g.next = false
	}
	if s.asked != nil {
		s.asked.next, some = true, true
		s.asked = nil
		room--
	}
	pick(func(g *shared) bool { return !g.on && g.waits() })
	some = some || room < s.room
	turn := s.first + last
	pick(func(g *shared) bool { return g.on })
	pick(func(*shared) bool { return true })
	s.first = turn % len(s.groups)
	return some
}

// waits reports whether a context of the group, which is out, has something to do on the card.
func (g *shared) waits() bool {
	return slices.ContainsFunc(g.members, func(a *attachment) bool { return a.saved != nil && a.saved.Waits() })
}

// switchOut takes a context off the card, and reports false as long as that has to wait.
func (g *shared) switchOut(card *engine.Card, a *attachment, unacknowledged bool) bool {
	if a.saved != nil {
		return true
	}
	saved, err := card.SwitchOut(a.ctx, unacknowledged)
	if errors.Is(err, engine.ErrNotReady) {
		return false
	}
	if err == nil {
		saved.Live = true
		a.saved = saved
		a.active.Store(false)
	}
	return true
}

// switchIn puts a context back. The cache has a set for each context, so the engine accepts it.
func (g *shared) switchIn(card *engine.Card, a *attachment) {
	if a.saved != nil && card.SwitchIn(a.saved) == nil {
		a.saved = nil
		a.active.Store(true)
	}
}

// next starts the turn of a group at once.
func (s *sharing) next(gid uint16) error {
	i := slices.IndexFunc(s.groups, func(g *shared) bool { return g.gid == gid })
	if i < 0 {
		return fmt.Errorf("group %d has no context here: %w", gid, attach.ErrCommand)
	}
	if !s.groups[i].on {
		s.asked, s.until = s.groups[i], 0
	}
	return nil
}
