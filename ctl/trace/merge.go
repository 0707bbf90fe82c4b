package trace

// This file joins the records of two or more hosts about the same packets.

import (
	"fmt"
	"slices"

	"github.com/funet/funet/uspace/engine"
)

// place identifies a packet at both ends.
type place struct {
	from, to uint16
	session  uint16
	sequence uint32
	level    uint8
	index    uint8
}

func placeOf(r *engine.Trace) place {
	return place{r.FromCard, r.ToCard, r.Session, r.Sequence, uint8(r.Level), r.Index}
}

// Merge aligns the clocks of the hosts with the first one's, by setting Shift, and returns a table
// that includes the stages between two hosts. Two traces of one card, or traces of different Every,
// give ErrMalformed.
func Merge(hosts []Host) (*Table, error) {
	cards := map[uint16]bool{}
	var all []engine.Trace
	for i := range hosts {
		h := &hosts[i]
		if cards[h.Begin.Card] {
			return nil, fmt.Errorf("two traces of card %d: %w", h.Begin.Card, ErrMalformed)
		}
		if cards[h.Begin.Card] = true; h.Begin.Every != hosts[0].Begin.Every {
			return nil,
				fmt.Errorf("card %d traced one packet of %d, and card %d one of %d, which are others: trace them with the same --every: %w",
					hosts[0].Begin.Card, hosts[0].Begin.Every, h.Begin.Card, h.Begin.Every, ErrMalformed)
		}
		all = append(all, h.Records...)
	}
	t := Stages(all, 0)
	t.Aligned = len(hosts) > 1
	for i := 1; i < len(hosts); i++ {
		shift, within, aligned := align(&hosts[0], &hosts[i])
		t.Aligned = t.Aligned && aligned
		hosts[i].Shift = shift
		if within >= t.ClocksWithin {
			t.ClocksOff, t.ClocksWithin = shift, within
		}
	}
	type sent struct {
		r *engine.Trace
		h *Host
	}
	from := map[place]sent{}
	for i := range hosts {
		for j := range hosts[i].Records {
			if r := &hosts[i].Records[j]; r.Arrived == 0 {
				from[placeOf(r)] = sent{r, &hosts[i]}
			}
		}
	}
	var wire, back []int64
	for i := range hosts {
		for j := range hosts[i].Records {
			r := &hosts[i].Records[j]
			s, ok := from[placeOf(r)]
			if r.Arrived == 0 || !ok {
				continue
			}
			t.Both++
			if s.r.Sent > 0 {
				wire = append(wire, hosts[i].at(r.Arrived)-s.h.at(s.r.Sent))
			}
			if s.r.End == engine.Acknowledged && r.End != engine.Refused {
				back = append(back, s.h.at(s.r.Answered)-hosts[i].at(r.Arrived))
			}
		}
	}
	if t.Aligned {
		t.add("wire", "sent first, until it arrived", wire)
		t.add("back", "arrived, until the sender knew", back)
	}
	return t, nil
}

// align returns what to add to the times of b, besides its clock, to have them on a's, and how far
// that may be off. Let ab be the usual time from a to b, and ba that from b to a, both measured on
// two clocks. If both ways take equally long, b is ahead by (ab-ba)/2. The error is at most
// (ab+ba)/2 (RFC 5905 section 8). The usual time is the median, not the shortest: if a card's
// thread loses its processor within a step, the clock reading of that step is too early. So no
// packet may really have taken the shortest time.
func align(a, b *Host) (shift, within int64, aligned bool) {
	ab, there := usual(a, b)
	ba, back := usual(b, a)
	if !there || !back {
		return 0, 0, false
	}
	return -(ab - ba) / 2, max(ab+ba, 0) / 2, true
}

// usual returns the median time from the sending of a packet at a to its arrival at b, each on its
// own clock.
func usual(a, b *Host) (ns int64, some bool) {
	sent := map[place]int64{}
	for i := range a.Records {
		if r := &a.Records[i]; r.Arrived == 0 && r.Sent > 0 {
			sent[placeOf(r)] = a.Begin.Clock + r.Sent
		}
	}
	var took []int64
	for i := range b.Records {
		if r := &b.Records[i]; r.Arrived > 0 {
			if at, ok := sent[placeOf(r)]; ok {
				took = append(took, b.Begin.Clock+r.Arrived-at)
			}
		}
	}
	if len(took) == 0 {
		return 0, false
	}
	slices.Sort(took)
	return took[len(took)/2], true
}
