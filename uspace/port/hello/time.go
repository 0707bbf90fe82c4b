package hello

// This file tells the time by which groups take turns, and hears it (package turns). The time goes
// to one peer after the other, so that it also reaches peers on other segments.

const (
	// timesPerSecond bounds how often the time is told. Where there are few peers, each is told
	// once a timeGap.
	timesPerSecond = 500
	timeGap        = second / 10
)

// Clock is a clock that hosts share.
type Clock interface {
	// Tell returns the time, and false unless it is for this card to tell it.
	Tell(now int64) (time uint64, ok bool)
	Heard(now int64, card uint16, time uint64) // takes the time that another card has told
}

// tellTime tells the next peer the time when it is due, unless the peer is silent, and returns when
// it is due again.
func (s *Station) tellTime(now int64) (next int64) {
	if s.c.Clock == nil || len(s.order) == 0 {
		return Never
	}
	if s.telling > now {
		return s.telling
	}
	time, ok := s.c.Clock.Tell(now)
	if s.telling = now + timeGap; !ok {
		return s.telling
	}
	s.telling = now + max(second/timesPerSecond, timeGap/int64(len(s.order)))
	s.teller = (s.teller + 1) % len(s.order)
	if p := s.order[s.teller]; !p.silent() {
		m := Message{Kind: Announcement, To: p.Card, Nonce: s.random.Uint64(), Arrived: NoQueue, Time: max(time, 1)}
		s.send(p.Port, p.Address, &m, 0)
	}
	return s.telling
}

// hearTime passes on the time that a peer tells.
func (s *Station) hearTime(now int64, v view) {
	time := v.time()
	if p := s.byCard[v.card()]; s.c.Clock != nil && time != 0 && v.isCard() && p != nil && p.Address == v.source() {
		s.c.Clock.Heard(now, p.Card, time)
	}
}
