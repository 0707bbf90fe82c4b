package rats_test

// This file holds the rules of what the streams to a node share (lane.go).

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
	"github.com/funet/funet/uspace/sim"
)

// Rule: streams that always have something to say get even shares of the way to a node, whatever
// their rings and whoever writes most eagerly: between two looks none sends two messages more than
// another. The card holds four messages of theirs at most. That holds too where what they write
// never ends where their rings end.
func TestStreamsTakeTurns(t *testing.T) {
	for _, c := range []struct {
		name    string
		streams int
		ahead   int // bytes that a stream writes first, times its number
	}{{"few", 6, 0}, {"unaligned", 6, 1001}, {"many", 64, 101}} {
		t.Run(c.name, func(t *testing.T) { streamsTakeTurns(t, c.streams, c.ahead) })
	}
}

func streamsTakeTurns(t *testing.T, streams, ahead int) {
	const message = 32 << 10
	begin, end := streams*message*42, streams*message*128 // bytes of all
	var seeds []string
	over := false
	manageWith(t, funi.RemoteSizes{KeySlots: 128, Areas: 1024, Notifications: 4096}, 128<<20,
		sim.EthernetConfig{Seed: 1}, func(n *managed) error {
			if n.p.Context().Node() == 0 {
				var all []*rats.Sender
				for range streams {
					var s *rats.Sender
					var err error
					if err := n.until("room for a sender", func() bool {
						s, err = n.NewSender()
						return !errors.Is(err, rats.ErrFull)
					}); err != nil {
						return err
					}
					if err != nil {
						return err
					}
					all = append(all, s)
					seed := s.Seed()
					seeds = append(seeds, seed.String())
				}
				b := make([]byte, 2*message)
				for i, s := range all {
					if k, err := s.WriteBytes(b[:i*ahead]); err != nil || k != i*ahead {
						return fmt.Errorf("writing the first %d bytes: %d, %w", i*ahead, k, err)
					}
				}
				if err := n.until("the end", func() bool {
					for _, s := range all { // the first takes what it can get before the others
						for {
							if k, err := s.WriteBytes(b); err != nil || k == 0 {
								break
							}
						}
					}
					// four messages, and what is said about credit and the longer rings
					if got := n.Unsent(); got > 4+2*streams {
						t.Errorf("%d requests wait in the send queue", got)
					}
					return over
				}); err != nil {
					return err
				}
				for _, s := range all {
					s.Close()
				}
				return n.unused()
			}
			if err := n.until("seeds", func() bool { return len(seeds) == streams }); err != nil {
				return err
			}
			var all []*rats.Receiver
			for i, text := range seeds {
				seed, err := rats.ParseSeed(text)
				if err != nil {
					return err
				}
				var r *rats.Receiver
				if err := n.until("room for a receiver", func() bool {
					r, err = n.ReceiveFrom(seed, 16<<10<<(i%3), 1<<20)
					return !errors.Is(err, rats.ErrFull)
				}); err != nil {
					return err
				}
				if err != nil {
					return err
				}
				all = append(all, r)
			}
			counts, before := make([]int, streams), []int(nil)
			b := make([]byte, message)
			if err := n.until("enough", func() bool {
				total := 0
				for i, r := range all {
					for {
						k, err := r.Read(b)
						if k == 0 || err != nil {
							break
						}
						counts[i] += k
					}
					total += counts[i]
				}
				if total >= begin && before == nil {
					before = slices.Clone(counts)
				}
				return total >= end
			}); err != nil {
				return err
			}
			for i := range counts {
				counts[i] -= before[i]
			}
			if most, least := slices.Max(counts), slices.Min(counts); most-least > 4*message {
				t.Errorf("shares are from %d to %d bytes: %v", least, most, counts)
			}
			over = true
			for _, r := range all {
				r.Close()
			}
			return n.unused()
		})
}

// Rule: instances have seven long messages on their way to a node at most, so a node that is silent
// does not hold all eight of the card's records; an eighth is sent when one of them is retired.
// Short ones are not held up.
func TestFewLongMessagesToANode(t *testing.T) {
	var text string
	over := false
	manage(t, 1<<20, sim.EthernetConfig{Seed: 1}, func(n *managed) error {
		if n.p.Context().Node() == 1 {
			memory, err := n.Alloc(64 << 10)
			if err != nil {
				return err
			}
			s, err := n.NewSimple(memory)
			if err != nil {
				return err
			}
			seed := s.Seed()
			text = seed.String()
			if err := n.until("the end", func() bool {
				var m rats.Message
				_, _ = s.Recv(&m)
				return over
			}); err != nil {
				return err
			}
			s.Close()
			return n.unused()
		}
		if err := n.until("a seed", func() bool { return text != "" }); err != nil {
			return err
		}
		to, err := rats.ParseSeed(text)
		if err != nil {
			return err
		}
		mine, err := n.Alloc(256)
		if err != nil {
			return err
		}
		s, err := n.NewSimple(mine)
		if err != nil {
			return err
		}
		data, err := n.Alloc(8 << 10)
		if err != nil {
			return err
		}
		send := func(b []byte, most int) (sent int, err error) {
			for ok := true; ok && sent < most; sent++ {
				if ok, err = s.Send(to, b, rats.Metadata{}); err != nil || !ok {
					return sent, err
				}
			}
			return sent, nil
		}
		for range 5 {
			if err := n.until("nothing is on its way", n.Settled); err != nil {
				return err
			}
			n.Poll()
			if sent, err := send(data, 10); err != nil || sent != 7 {
				t.Errorf("%d long messages were sent at once: %v", sent, err)
			}
			if sent, err := send(data[:16], 3); err != nil || sent != 3 {
				t.Errorf("%d short messages were sent behind them: %v", sent, err)
			}
		}
		if err := n.until("nothing is on its way", n.Settled); err != nil {
			return err
		}
		over = true
		s.Close()
		n.Free(data)
		return n.unused()
	})
}
