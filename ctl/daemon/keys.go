package daemon

// This file reports the keys of this host: their files, and the peers that share them. Of a key it
// tells only the identity, which distinguishes keys.

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
)

const (
	// keyRoom is the number of keys that an answer has room for, and keyName the longest name of a
	// file there, in bytes.
	keyRoom = 4
	keyName = 900
)

// keyStatus lists keys, those shared with most peers first, and counts those that had no room.
func (d *Daemon) keyStatus() (keys []report.KeyStatus, leftOut int) {
	in := d.peers.Load()
	peers := map[string]int{}
	if all := cmp.Or(in.Key, d.cfg.Key); all != "" {
		peers[all] = 0 // of hosts that are to come
	}
	for i := range in.Peers {
		if p := &in.Peers[i]; p.Node != d.cfg.Card && !p.Absent {
			if file := d.cfg.keyOf(in, p); file != "" {
				peers[file]++
			}
		}
	}
	keys = []report.KeyStatus{}
	for file, n := range peers {
		k, err := d.cfg.keys.Load(file) // it was read when the peer became one
		if err != nil || len(file) > keyName {
			leftOut++
			continue
		}
		keys = append(keys, report.KeyStatus{File: file, Identity: identity(k.Identity()), Peers: n})
	}
	slices.SortFunc(keys, func(a, b report.KeyStatus) int {
		return cmp.Or(cmp.Compare(b.Peers, a.Peers), cmp.Compare(a.File, b.File))
	})
	some := min(len(keys), keyRoom)
	return keys[:some], leftOut + len(keys) - some
}

func identity(n uint32) string { return fmt.Sprintf("%08x", n) }

// keyOfPeer returns the PeerKey of a peer's state.
func keyOfPeer(s *engine.PeerState) report.PeerKey {
	k := report.PeerKey{State: s.Key.String(), Refused: s.Key.Refused(), Met: s.Established}
	switch {
	case s.Key == engine.Sealed && s.Readable:
		k.State = report.KeyAuthenticates
	case s.Key == engine.Sealed:
		k.State = report.KeyEncrypts
	}
	if s.Doubt != engine.Unkeyed {
		k.Doubt = s.Doubt.String()
	}
	return k
}

const (
	// keyPatience is how long a peer that answers hellos may take to answer a greeting. keyLook is
	// the time between two looks whether it has answered.
	keyPatience = 500 * time.Millisecond
	keyLook     = 5 * time.Millisecond
)

// toldKeys records which peers the log has reported as refused for their keys.
type toldKeys struct {
	greetings uint64 // refused greetings at the last look
	again     bool   // that look may have been a moment old
	of        map[uint16]engine.KeyState
}

// tellKeys logs peers that are refused for their keys, each once until that changes. It looks at
// them only if a greeting has been refused since. So a sender of forged greetings makes it look
// once a second, and no more.
func (d *Daemon) tellKeys(told *toldKeys) {
	var refused uint64
	if d.loop.do(func() { refused = d.loop.card.Counters().DroppedKey }) != nil ||
		refused == told.greetings && !told.again {
		return
	}
	look, err := d.lookAtPeers()
	if err != nil {
		return
	}
	for card, state := range look.refused {
		if told.of[card] != state {
			d.cfg.Logger.Warn(fmt.Sprintf("card %d%s: %v: the two exchange nothing; `funet doctor %d` says what to do",
				card, d.named(card), state, card), "card", card)
		}
	}
	told.greetings, told.again, told.of = refused, refused != told.greetings, look.refused
}

// agreed refuses a job with a node on a card that exchanges nothing with this one because of their
// keys: attach.ErrKey. The last findings may be old. So it asks each such card again, one after the
// other, until one is still refused.
func (c *connection) agreed(cards []uint16) error {
	d := c.d
	var refused []uint16
	for some := range slices.Chunk(cards, peersAtOnce) {
		err := c.onCard(nil, func() {
			for _, card := range some {
				if s, ok := d.loop.card.PeerState(card); ok && s.Key.Refused() {
					refused = append(refused, card)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	slices.Sort(refused)
	for _, card := range slices.Compact(refused) {
		a := &report.HelloAnswer{Card: card}
		c.exit() // the answer takes its time
		if err := d.askKey(a); err != nil {
			return err
		}
		if err := c.enter(); err != nil {
			return err
		}
		if a.Key.Refused {
			return fmt.Errorf("card %d%s: %s: %w", card, d.named(card), a.Key.State, attach.ErrKey)
		}
	}
	return nil
}

// named returns words that identify the host of a card, as far as its name and address are known.
func (d *Daemon) named(card uint16) (words string) {
	if peers := d.peers.Load(); present(peers, int(card)) != nil {
		words = " at " + where(peers, present(peers, int(card)))
	}
	_ = d.loop.do(func() { // it has a name only while the card lives
		if p, ok := d.loop.hello.Peer(card); ok && p.Host != "" {
			words = ", host " + p.Host + words
		}
	})
	return words
}

// askKey greets a peer that has answered a hello, and records what its answer says of its key. The
// entry of a peer that does not answer stays unchanged.
func (d *Daemon) askKey(a *report.HelloAnswer) error {
	var before, now engine.PeerState
	greeted := false
	for end := time.Now().Add(keyPatience); now.Replies == before.Replies && time.Now().Before(end); {
		err := d.loop.do(func() {
			if !greeted {
				before, _ = d.loop.card.PeerState(a.Card)
				greeted = d.loop.card.Greet(a.Card)
			}
			now, _ = d.loop.card.PeerState(a.Card)
		})
		if err != nil {
			return err
		}
		time.Sleep(keyLook)
	}
	a.Key = keyOfPeer(&now)
	if now.Identity != 0 {
		a.OwnKey = identity(now.Identity)
	}
	return nil
}
