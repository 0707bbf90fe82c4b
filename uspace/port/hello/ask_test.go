package hello

// This file tests questions: to peers by turns, and for somebody who waits.

import (
	"testing"
)

// Rule: whoever asks knows within a second whether the card answers, and too many questions are
// refused.
func TestAsk(t *testing.T) {
	s := newSegment(t, 8)
	a, b := s.add(0, 1, func(c *Config) { c.Discover = false }), s.add(1, 2, func(c *Config) { c.Discover = false })
	var got []Reply
	take := func(r Reply) { got = append(got, r) }
	if err := a.Ask(s.now, 0, b.mac, 1, take); err != nil {
		t.Fatal(err)
	}
	s.run(second, func() bool { return len(got) == 1 })
	if r := got[0]; !r.Answered || r.Said.Host != "host-2" || r.Arrived != 3 || r.Queue != 3 ||
		r.From != b.mac || r.Tries != 1 {
		t.Errorf("%+v", r)
	}
	b.off = true
	for i := range most[asked] {
		if err := a.Ask(s.now, 0, b.mac, uint16(i), take); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Ask(s.now, 0, b.mac, 1, take); err != ErrBusy {
		t.Error(err)
	}
	s.run(second, func() bool { return len(got) == 1+most[asked] })
	if r := got[1]; r.Answered || r.Tries != mostTries {
		t.Errorf("%+v", r)
	}
}

// Rule: questions by turns cost the same however many peers there are, and each peer has its turn.
func TestTurns(t *testing.T) {
	s := newSegment(t, 9)
	a := s.add(0, 1, func(c *Config) { c.Discover = false })
	const peers = 2000
	asked := map[[6]byte]int{}
	s.see = func(b []byte) { asked[[6]byte(b)]++ }
	for i := range peers {
		a.SetPeer(uint16(i+1), 0, [6]byte{2, 8, 0, 0, byte(i >> 8), byte(i)})
	}
	s.run(peers*second/turnsPerSecond+5*second, nil)
	if len(asked) != peers {
		t.Errorf("%d of %d peers were asked", len(asked), peers)
	}
	if n := a.Counters().Questions; n > 3*peers+3*turnsPerSecond*5 {
		t.Errorf("%d questions", n)
	}
	for i := range peers {
		a.RemovePeer(uint16(i + 1))
	}
	if len(a.order) != 0 || len(a.byCard) != 0 {
		t.Error("some are left")
	}
	s.run(20*second, nil)
}

// Rule: a peer that is set is asked at once, however many others there are.
func TestSetPeersAreAskedAtOnce(t *testing.T) {
	s := newSegment(t, 13)
	a, b := s.add(0, 1, func(c *Config) { c.Discover = false }), s.add(1, 2, func(c *Config) { c.Discover = false })
	for i := range 500 {
		a.SetPeer(uint16(i+2), 0, [6]byte{2, 8, 0, 0, byte(i >> 8), byte(i)})
	}
	s.run(500*second/turnsPerSecond+5*second, nil)
	a.SetPeer(1, 0, b.mac)
	s.run(second/10, func() bool { return a.knows(1, b) })
}

// Rule: only the answer with the nonce of a question, from the address that it went to, is one.
func TestForgedAnswers(t *testing.T) {
	s := newSegment(t, 11)
	a, b := s.add(0, 1, func(c *Config) { c.Discover = false }), s.add(1, 2, nil)
	b.off = true
	var nonces []uint64
	s.see = func(f []byte) {
		if m, _, err := Parse(f); err == nil && m.Kind == Question {
			nonces = append(nonces, m.Nonce)
		}
	}
	forge := func(nonce uint64, from [6]byte) {
		f := make([]byte, Size)
		(&Message{Kind: Answer, Nonce: nonce, Said: b.c.Self}).Put(f, a.mac, from)
		s.carry(nil, f)
	}
	ask := func(forge func(nonce uint64)) (got Reply) {
		t.Helper()
		nonces = nil
		done := false
		if err := a.Ask(s.now, 0, b.mac, 1, func(r Reply) { got, done = r, true }); err != nil {
			t.Fatal(err)
		}
		forge(nonces[0])
		s.run(2*second, func() bool { return done })
		return got
	}
	for what, f := range map[string]func(uint64){
		"another nonce":         func(n uint64) { forge(n^1<<40, b.mac) },
		"a try that was not":    func(n uint64) { forge(n|3, b.mac) },
		"another address":       func(n uint64) { forge(n, [6]byte{2, 7}) },
		"an answer from itself": func(n uint64) { forge(n, a.mac) },
	} {
		if r := ask(f); r.Answered {
			t.Errorf("%s: %+v", what, r)
		}
	}
	if r := ask(func(n uint64) { forge(n, b.mac) }); !r.Answered {
		t.Error("nor is the right one")
	}
}
