package hello

// This file is discovery: the card's own announcements, and the reaction to those of others.

const (
	// soon are the times between the first announcements after the start, and often is the time
	// between later ones while there are few peers. Each time is shortened or lengthened by up to a
	// quarter, at random. All cards of a segment together make about allAnnouncements a second.
	often            = 2 * second
	allAnnouncements = 100
)

var soon = [...]int64{second / 10, second / 4, second / 2, second}

var broadcast = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// announceSelf announces the card when it is time, and returns the time of the next announcement.
func (s *Station) announceSelf(now int64) (next int64) {
	if s.announce > now {
		return s.announce
	}
	if s.announced > 0 {
		s.toAll(Announcement)
	}
	gap := max(often, int64(s.found)*second/allAnnouncements)
	if s.announced < len(soon) {
		gap = soon[s.announced]
	}
	s.announced++
	s.announce = now + gap*3/4 + s.random.Int64N(gap/2)
	return s.announce
}

// toAll broadcasts a hello on the segments of all ports.
func (s *Station) toAll(kind Kind) {
	for port := range s.c.Ports {
		m := Message{Kind: kind, Nonce: s.random.Uint64(), Arrived: NoQueue}
		s.send(port, broadcast, &m, 0)
	}
}

// Leave says goodbye to stations that may have found the card, and ends the station.
func (s *Station) Leave() {
	s.done = true
	if s.c.Discover {
		s.toAll(Goodbye)
	}
	for _, p := range s.c.Ports {
		p.Flush()
	}
}

// meet notes an unsolicited hello of a card. It believes nothing of it, but may ask that card, or
// the known owner of its number.
func (s *Station) meet(now int64, port int, v view) {
	if !v.isCard() || !s.judge(now, port, v) {
		return
	}
	card, from := v.card(), v.source()
	if from[0]&1 != 0 || card == s.c.Self.Card {
		return
	}
	switch p := s.byCard[card]; {
	case p == nil && s.c.Discover && v.discovers() && from != ([6]byte{}) && string(v.cluster()) == s.c.Self.Cluster:
		if !s.asks(newcomer, from) && s.mayCause(now, newcomer, from, nil) {
			s.ask(now, newcomer, port, 0, from, card)
		}
	case p == nil || p.Address == from:
	// the same card by another of its interfaces
	case p.Incarnation != 0 && p.Incarnation == v.incarnation():
	case !s.asks(owner, p.Address) && s.mayCause(now, owner, from, p):
		if q := s.askLater(now+s.spread(), owner, p.Port, p.Address, card); q != nil {
			q.rival.address, q.rival.port, q.rival.said = from, port, v.said()
		}
	}
}

// leaving handles a goodbye. It asks the peer, because anybody can forge a goodbye in the peer's
// name.
func (s *Station) leaving(now int64, port int, v view) {
	p := s.byCard[v.card()]
	if v.isCard() && p != nil && p.Found && p.Address == v.source() && p.Port == port && !s.asks(parted, p.Address) &&
		s.mayCause(now, parted, p.Address, p) {
		s.askLater(now+s.spread(), parted, p.Port, p.Address, p.Card)
	}
}
