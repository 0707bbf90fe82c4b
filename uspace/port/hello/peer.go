package hello

// This file keeps the peers, both the listed and the found ones.

// mostFound bounds the peers that are found. Further ones are only counted (Counters.Crowded).
const mostFound = 4096

// Peer is a card that is asked by turns.
type Peer struct {
	Card    uint16
	Port    int
	Address [6]byte
	Found   bool // by discovery; otherwise it was set (SetPeer)
	// Heard is the time of its last answer, or Never. RoundTrip is that answer's round trip in
	// nanoseconds. Silent counts the questions without an answer since then.
	Heard, RoundTrip int64
	Silent           int
	Incarnation      uint32 // of its last answer; 0: none yet
	Host             string // name that it has stated; "": none
}

type peer struct {
	Peer
	host      [MaxName]byte
	nHost     int
	answers   bucket
	questions bucket // bounds those that others cause (cause.go)
	at        int    // in order
	// another peer at the same place: at most one of them is found, the others are listed
	beside *peer
	gone   bool
	new    bool // among the news
}

type place struct {
	port    int
	address [6]byte
}

func (p *peer) heard(s *Station, now int64, v view, trip int64) {
	if p.Silent > 0 {
		s.silent--
	}
	p.Heard, p.RoundTrip, p.Silent, p.Incarnation = now, trip, 0, v.incarnation()
	p.nHost = copy(p.host[:], v.host())
}

func (p *peer) unheard(s *Station) {
	if p.Silent == 0 {
		s.silent++
	}
	p.Silent++
}

// silent reports whether the peer did not answer when it was last asked, or was not asked yet.
func (p *peer) silent() bool { return p.Silent > 0 || p.Heard == Never }

// SetPeer sets the place of a listed card. It replaces a found peer of that number.
func (s *Station) SetPeer(card uint16, port int, address [6]byte) {
	if p := s.byCard[card]; p != nil {
		if p.Port == port && p.Address == address && !p.Found {
			return
		}
		s.remove(p)
	}
	s.fresh = append(s.fresh, s.add(card, port, address))
	s.next, s.Due = 0, 0 // the peer has its turn soon
}

// RemovePeer forgets a card, listed or found.
func (s *Station) RemovePeer(card uint16) {
	if p := s.byCard[card]; p != nil {
		s.remove(p)
	}
}

func (s *Station) add(card uint16, port int, address [6]byte) *peer {
	p := &peer{Peer: Peer{Card: card, Port: port, Address: address, Heard: Never}, at: len(s.order)}
	s.byCard[card] = p
	s.order = append(s.order, p)
	here := place{port, address}
	p.beside, s.at[here] = s.at[here], p
	return p
}

func (s *Station) remove(p *peer) {
	last := s.order[len(s.order)-1]
	s.order[p.at], last.at = last, p.at
	s.order = s.order[:len(s.order)-1]
	p.gone = true
	if p.Silent > 0 {
		s.silent--
	}
	delete(s.byCard, p.Card)
	here := place{p.Port, p.Address}
	switch first := s.at[here]; {
	case first != p:
		for first.beside != p {
			first = first.beside
		}
		first.beside = p.beside
	case p.beside != nil:
		s.at[here] = p.beside
	default:
		delete(s.at, here)
	}
	p.beside = nil
	if p.Found {
		s.found--
	}
}

// admit makes a peer of a card that has answered, or moves a peer to its new place.
func (s *Station) admit(now int64, port int, v view, trip int64) {
	card, from := v.card(), v.source()
	var before *peer // a host with another number than before; only one is found at a place
	for p := s.at[place{port, from}]; p != nil; p = p.beside {
		switch {
		case p.Card == card:
		case !p.Found:
			s.fault(now, WrongCard, port, v, p.Card, p.Address)
			return
		default:
			before = p
		}
	}
	if before != nil {
		s.drop(before)
	}
	if p := s.byCard[card]; p != nil {
		if !p.Found {
			return // it has been listed meanwhile
		}
		s.remove(p)
	}
	if s.found == mostFound {
		s.n.Crowded++
		return
	}
	p := s.add(card, port, from)
	p.Found = true
	s.found++
	p.heard(s, now, v, trip)
	s.proofs[port].peer = p
	s.tell(p)
}

// drop forgets a peer that was found, and puts that among the news.
func (s *Station) drop(p *peer) {
	s.remove(p)
	s.tell(p)
}

func (s *Station) tell(p *peer) {
	if !p.new {
		p.new = true
		s.news = append(s.news, p)
	}
}

// News reports whether TakeNews, TakeFaults or TakeQueueNews has something to return.
func (s *Station) News() bool { return len(s.news) > 0 || !s.told || len(s.left) > 0 }

// TakeNews returns at most the given number of changes of found peers, in the order in which they
// happened. A peer was added or moved, or is gone.
func (s *Station) TakeNews(most int) (all []Change) {
	n := min(most, len(s.news))
	for _, p := range s.news[:n] {
		p.new = false
		all = append(all, Change{p.public(), p.gone})
	}
	s.news = append(s.news[:0], s.news[n:]...)
	return all
}

// Change is news of a peer that was found.
type Change struct {
	Peer
	Gone bool
}

// Peers returns at most the given number of peers, silent ones first and otherwise in no order. It
// looks at no more than the given number of them.
func (s *Station) Peers(most, look int) (all []Peer) {
	some := s.order[:min(look, len(s.order))]
	for _, silent := range []bool{true, false} {
		for _, p := range some {
			if p.silent() == silent && len(all) < most {
				all = append(all, p.public())
			}
		}
	}
	return all
}

// Known returns how many peers there are, and how many of them did not answer when they were last
// asked.
func (s *Station) Known() (peers, silent int) { return len(s.order), s.silent }

// Peer returns a peer.
func (s *Station) Peer(card uint16) (Peer, bool) {
	p := s.byCard[card]
	if p == nil {
		return Peer{}, false
	}
	return p.public(), true
}

func (p *peer) public() Peer {
	q := p.Peer
	q.Host = printable(p.host[:p.nHost])
	return q
}
