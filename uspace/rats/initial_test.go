package rats_test

// This file holds the rules of initial requests (HPL-95-86, section 3.2), between processes of
// clusters in virtual time.

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
	"github.com/funet/funet/uspace/sim"
)

// Rule (3.2, initial request response): each request is shown to the server once and answered,
// however many there are at once and whatever the network does; nothing was reserved for them, and
// nothing is left.
func TestInitialRequests(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		words := rapid.SliceOfN(rapid.SliceOfN(rapid.Uint32(), 0, rats.MaxRequestWords), 1, 30).Draw(r, "requests")
		slow := int64(rapid.IntRange(0, 20000).Draw(r, "slow"))
		cfg := sim.EthernetConfig{Seed: rapid.Uint64().Draw(r, "seed")}
		if rapid.Bool().Draw(r, "faults") {
			cfg.Faults = sim.Faults{Loss: .05, Duplicate: .05, Reorder: .1, Corrupt: .01,
				HoldBack: 100 * time.Microsecond}
		}
		secret := sha256.Sum256([]byte("a token"))
		k := rats.KeyOf(secret[:])
		done := false
		manage(r, 1<<16, cfg, func(n *managed) error {
			if n.p.Context().Node() == 1 {
				s, err := n.Serve(k)
				if err != nil {
					return err
				}
				shown := 0
				if err := n.until("all requests", func() bool {
					for q, ok := s.Recv(); ok; q, ok = s.Recv() {
						if q.From != 0 || !slices.ContainsFunc(words, func(w []uint32) bool {
							return slices.Equal(w, q.Words)
						}) {
							err = fmt.Errorf("request %+v", q)
						}
						shown++
						answer := append([]uint32{uint32(len(q.Words))}, q.Words...)
						for !s.SendReply(&q, answer...) {
							n.Poll()
							n.p.Drive()
						}
						n.p.Pause(n.p.Now() + slow)
					}
					return done
				}); err != nil {
					return err
				}
				if shown != len(words) {
					return fmt.Errorf("%d of %d requests were shown", shown, len(words))
				}
				s.Close()
				return errors.Join(err, n.unused())
			}
			var asked []*rats.Inquiry
			for _, w := range words {
				var q *rats.Inquiry
				var err error
				if e := n.until("room", func() bool { q, err = n.Ask(1, k, w...); return err == nil }); e != nil {
					return errors.Join(e, err)
				}
				asked = append(asked, q)
			}
			for i, q := range asked {
				var got []uint32
				var err error
				if e := n.until("an answer", func() bool {
					var ok bool
					got, ok, _, err = q.RecvReply(n.p.Now())
					for _, later := range asked[i+1:] {
						_, _, _, _ = later.RecvReply(n.p.Now())
					}
					return ok || err != nil
				}); e != nil || err != nil {
					return errors.Join(e, err)
				}
				if want := append([]uint32{uint32(len(words[i]))}, words[i]...); !slices.Equal(got, want) {
					return fmt.Errorf("request %d was answered with %d, want %d", i, got, want)
				}
				q.Close()
			}
			done = true
			return n.unused()
		})
	})
}

// Rule: who asks where nobody serves, or with another key, hears that; a server is the first that a
// process opens.
func TestInitialRequestsRefused(t *testing.T) {
	secret := sha256.Sum256([]byte("a token"))
	done := false
	manage(t, 1<<16, sim.EthernetConfig{Seed: 1}, func(n *managed) error {
		if n.p.Context().Node() == 1 {
			s, err := n.Serve(rats.KeyOf(secret[:]))
			if err != nil {
				return err
			}
			if _, err := n.Serve(rats.KeyOf(secret[:])); !errors.Is(err, rats.ErrFull) {
				return fmt.Errorf("a second server: %v", err)
			}
			if err := n.until("done", func() bool { return done }); err != nil {
				return err
			}
			if q, ok := s.Recv(); ok {
				return fmt.Errorf("request %+v", q)
			}
			return nil
		}
		if _, err := n.Ask(1, 0, make([]uint32, rats.MaxRequestWords+1)...); !errors.Is(err, rats.ErrTooLong) {
			return fmt.Errorf("too many words: %v", err)
		}
		q, err := n.Ask(1, rats.KeyOf(secret[8:]), 1)
		if err != nil {
			return err
		}
		if e := n.until("refused", func() bool { _, _, _, err = q.RecvReply(n.p.Now()); return err != nil }); e != nil {
			return e
		}
		var f *rats.Failure
		if !errors.As(err, &f) || f.Reason != arctic.ReasonKeySlot {
			return fmt.Errorf("another key: %v", err)
		}
		q.Close()
		done = true
		return n.unused()
	})
}

// Rule (initial.go): of many requests at once to a node with a slow server, only as many are under
// way as its entry holds. So the card can tell of all that come back. Each request is answered, but
// for those that are closed before they had a turn.
func TestManyInitialRequestsAtOnce(t *testing.T) {
	const requests, first = 300, 30
	secret := sha256.Sum256([]byte("a token"))
	k := rats.KeyOf(secret[:])
	closes := func(i int) bool { return i >= first && i%3 == 0 }
	done := false
	manageWith(t, funi.RemoteSizes{KeySlots: 512, Areas: 512, Notifications: 1024}, 1<<17, sim.EthernetConfig{Seed: 1},
		func(n *managed) error {
			if n.p.Context().Node() == 1 {
				s, err := n.Serve(k)
				if err != nil {
					return err
				}
				shown := 0
				if err := n.until("the end", func() bool {
					if q, ok := s.Recv(); ok {
						shown++
						for !s.SendReply(&q, q.Words...) {
							n.Poll()
							n.p.Drive()
						}
						n.p.Pause(n.p.Now() + 100_000)
					}
					return done
				}); err != nil {
					return err
				}
				if want := requests - (requests-first)/3; shown != want {
					return fmt.Errorf("%d requests were shown, want %d", shown, want)
				}
				return nil
			}
			var asked []*rats.Inquiry
			for i := range requests {
				var q *rats.Inquiry
				var err error
				if e := n.until("room", func() bool { q, err = n.Ask(1, k, uint32(i)); return err == nil }); e != nil {
					return errors.Join(e, err)
				}
				if closes(i) {
					q.Close()
				} else {
					asked = append(asked, q)
				}
				if i == requests/2 {
					n.Poll()
					n.p.Pause(n.p.Now() + 5_000_000) // whatever comes back meanwhile is not read
					n.p.Drive()
				}
			}
			answered := 0
			if err := n.until("all answers", func() bool {
				for i, q := range asked {
					if q == nil {
						continue
					}
					words, ok, _, err := q.RecvReply(n.p.Now())
					if err != nil || ok && (len(words) != 1 || closes(int(words[0]))) {
						t.Errorf("request %d was answered with %d, %v", i, words, err)
					}
					if ok || err != nil {
						q.Close()
						asked[i] = nil
						answered++
					}
				}
				return answered == len(asked)
			}); err != nil {
				return err
			}
			done = true
			if lost := n.p.Interface().ReturnsLost(); lost != 0 {
				return fmt.Errorf("%d came back that the card could not tell of", lost)
			}
			return n.unused()
		})
}
