package rats_test

// This file holds the rules of the lower half (doc.go; HPL-95-86, section 3.1), between processes
// of clusters in virtual time.

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
	"github.com/funet/funet/uspace/sim"
)

const (
	sourceBase, keyedBase = 0x10000, 0x100000
	memorySize            = 1 << 16
)

// node is a process of a cluster, with memory to send from and to expose.
type node struct {
	*rats.Endpoint
	p             *sim.Process
	source, keyed []byte
}

// random is randomness of virtual time.
type random struct{ *rand.ChaCha8 }

func chacha(p *sim.Process) *rand.ChaCha8 {
	return rand.NewChaCha8([32]byte{byte(p.Context().Node())})
}

// newNode makes the process's end.
func newNode(p *sim.Process) (*node, error) {
	e, err := rats.New(p.Interface(), int(p.Context().Node()), random{chacha(p)})
	if err != nil {
		return nil, err
	}
	n := &node{Endpoint: e, p: p}
	for _, s := range []struct {
		to     *[]byte
		base   uint32
		rights funi.Rights
	}{{&n.source, sourceBase, funi.Source}, {&n.keyed, keyedBase, funi.Keyed}} {
		if *s.to, err = p.Segment(s.base, memorySize, s.rights); err != nil {
			return nil, err
		}
		if err := n.Use(funi.Segment{Base: s.base, Memory: *s.to, Rights: s.rights}); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// until drives the card until done, for at most a second of virtual time.
func (n *node) until(what string, done func() bool) error {
	for end := n.p.Now() + int64(10*time.Second); !done(); n.p.Drive() {
		n.Poll()
		if n.p.Now() > end {
			return fmt.Errorf("node %d: not in time: %s", n.p.Context().Node(), what)
		}
	}
	return nil
}

// record waits for a record.
func (n *node) record() (r funi.Notification, err error) {
	return r, n.until("a record", func() bool { return n.NextRecord(&r) })
}

// sent waits until a message has a status.
func (n *node) status(h rats.Handle, want rats.Status) (why arctic.Reason, err error) {
	err = n.until(fmt.Sprintf("status %d", want), func() bool {
		s, r, err := n.Status(h)
		why = r
		return err == nil && s == want
	})
	return why, err
}

var remote = funi.RemoteSizes{KeySlots: 64, Areas: 64, Notifications: 64}

// remote4 is enough for 32 clients of a port with 4 buffers each.
var remote4 = funi.RemoteSizes{KeySlots: 64, Areas: 256, Notifications: 512}

// run runs a program on each node of a cluster.
func run(t *testing.T, nodes int, net sim.EthernetConfig, program func(n *node) error) *sim.Cluster {
	t.Helper()
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: remote}, Nodes: nodes, Net: net},
		func(p *sim.Process) error {
			n, err := newNode(p)
			if err != nil {
				return err
			}
			return program(n)
		})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	if err := k.Finish(time.Minute); err != nil {
		t.Fatal(err)
	}
	return k
}

// Rule: a message of any length lies where its seed says when its record comes, with its metadata;
// the handle tells the sender how far it is (3.1).
func TestSendMsg(t *testing.T) {
	var seed string
	seen := 0
	sizes := []int{0, 1, 64, 65, 1000, 30000}
	run(t, 2, sim.EthernetConfig{Seed: 1}, func(n *node) error {
		if n.p.Context().Node() == 1 {
			k, _, err := n.Expose(n.keyed[100:])
			if err != nil {
				return err
			}
			area, h, err := n.Open(k, 1, false)
			if err != nil {
				return err
			}
			if _, err := n.status(h, rats.Sent); err != nil {
				return err
			}
			s := n.Seed(k, area, memorySize-100, 7)
			seed = s.String()
			for i, size := range sizes {
				r, err := n.record()
				if err != nil {
					return err
				}
				if r.Words != 2 || r.Metadata[0] != uint32(i) || r.Metadata[1] != uint32(size) || r.Source != 0 ||
					r.Area != area {
					return fmt.Errorf("record %+v of message %d", r, i)
				}
				for j, b := range n.keyed[100 : 100+size] {
					if b != byte(i+j*7) {
						return fmt.Errorf("message %d, byte %d is %d", i, j, b)
					}
				}
				seen++
			}
			return nil
		}
		if err := n.until("the seed", func() bool { return seed != "" }); err != nil {
			return err
		}
		s, err := rats.ParseSeed(seed)
		if err != nil || s.Protocol != 7 || s.Node != 1 {
			return fmt.Errorf("seed %+v: %w", s, err)
		}
		for i, size := range sizes {
			data := n.source[:size]
			for j := range data {
				data[j] = byte(i + j*7)
			}
			h, err := n.SendMsg(s.Ticket, data, uint32(i), uint32(size))
			if err != nil {
				return err
			}
			now, _, err := n.Status(h)
			if want := []rats.Status{rats.Copied, rats.Pending}[min(1, size/57)]; err != nil || now != want {
				return fmt.Errorf("%d bytes: status %d when it was sent, %w", size, now, err)
			}
			if _, err := n.status(h, rats.Sent); err != nil {
				return err
			}
			if err := n.until("the receiver is done with the memory", func() bool { return seen > i }); err != nil {
				return err
			}
		}
		return nil
	})
}

// Rule: a message that its receiver's card refuses has failed, with the reason; one that cannot be
// is not sent at all (doc.go).
func TestMessagesFail(t *testing.T) {
	run(t, 1, sim.EthernetConfig{}, func(n *node) error {
		k, _, err := n.Expose(n.keyed[:1000])
		if err != nil {
			return err
		}
		area, _, err := n.Open(k, 1, true)
		if err != nil {
			return err
		}
		s := n.Seed(k, area, 1000, 0)
		fails := func(what string, tk rats.Ticket, want arctic.Reason) error {
			h, err := n.SendMsg(tk, []byte{1})
			if err != nil {
				return err
			}
			if why, err := n.status(h, rats.Failed); err != nil || why != want {
				return fmt.Errorf("%s: %v, %w", what, why, err)
			}
			return nil
		}
		guess, other, far := s.Ticket, s.Ticket, s.Ticket
		guess.Key ^= 1 << 20
		other.Area++
		far.Offset = 1000
		for _, c := range []struct {
			what string
			tk   rats.Ticket
			want arctic.Reason
		}{{"another key", guess, arctic.ReasonKeySlot}, {"another area", other, arctic.ReasonArea},
			{"beyond the end", far, arctic.ReasonRange}} {
			if err := fails(c.what, c.tk, c.want); err != nil {
				return err
			}
		}
		if n.keyed[0] != 0 {
			return errors.New("something was written")
		}
		if _, err := n.SendMsg(s.Ticket, nil); err != nil {
			return err
		}
		if err := fails("no credit", s.Ticket, arctic.ReasonNoBuffer); err != nil {
			return err
		}
		if _, err := n.record(); err != nil {
			return err
		}
		for _, c := range []struct {
			what string
			err  error
			want error
		}{
			{"longer than the ticket", second(n.SendMsg(s.Ticket, n.source[:1001])), rats.ErrTooLong},
			{"twelve words", second(n.SendMsg(s.Ticket, nil, make([]uint32, 12)...)), rats.ErrTooLong},
			{"a write beyond the end", second(n.Write(s.Ticket, 1000, []byte{1})), rats.ErrTooLong},
			{"long, from nowhere", second(n.SendMsg(s.Ticket, make([]byte, 100))), rats.ErrMemory},
			{"long, from memory with another right", second(n.SendMsg(s.Ticket, n.keyed[:100])), rats.ErrMemory},
			{"revoking twice", func() error {
				h, err := n.Revoke(k)
				if err != nil {
					return err
				}
				if _, err := n.status(h, rats.Sent); err != nil {
					return err
				}
				return second(n.Revoke(k))
			}(), rats.ErrHandle},
			{"no handle", func() error { _, _, err := n.Status(0); return err }(), rats.ErrHandle},
		} {
			if !errors.Is(c.err, c.want) {
				return fmt.Errorf("%s: %v, want %v", c.what, c.err, c.want)
			}
		}
		if err := fails("revoked", s.Ticket, arctic.ReasonKeySlot); err != nil {
			return err
		}
		if _, _, err := n.Expose(n.source); !errors.Is(err, rats.ErrMemory) {
			return fmt.Errorf("exposing memory without the right: %v", err)
		}
		_, h, err := n.Open(k, 1, false)
		if err != nil {
			return err
		}
		if why, err := n.status(h, rats.Failed); err != nil || why != arctic.ReasonNotOpened {
			return fmt.Errorf("an area of a key that was revoked: %v, %w", why, err)
		}
		return nil
	})
	if _, err := rats.New(mustInitialize(t), 0, random{}); !errors.Is(err, rats.ErrNone) {
		t.Errorf("without remote memory: %v", err)
	}
}

func second(_ rats.Handle, err error) error { return err }

func mustInitialize(t *testing.T) *funi.Interface {
	t.Helper()
	m, err := funi.NewMemory(2)
	if err != nil {
		t.Fatal(err)
	}
	i, err := funi.Initialize(m)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// Rule: a group's messages, to the parts of a split seed, make one record when all are there, over
// a network that loses and reorders (2.5, group receive; 3.2, split_seed); and writes beside them
// make none.
func TestGroupOfSplitSeeds(t *testing.T) {
	const members, rounds, uncounted = 8, 10, 10
	for seed := range uint64(5) {
		var seeds [members + 1]rats.Seed
		round := 0
		run(t, members+1, sim.EthernetConfig{Seed: seed, Faults: sim.Faults{Loss: 0.02, Reorder: 0.1}},
			func(n *node) error {
				me := int(n.p.Context().Node())
				if me == 0 {
					k, _, err := n.Expose(n.keyed)
					if err != nil {
						return err
					}
					area, h, err := n.Open(k, 1, false)
					if err != nil {
						return err
					}
					if _, err := n.status(h, rats.Sent); err != nil {
						return err
					}
					whole := n.Seed(k, area, memorySize, 0)
					for i := 1; i < members; i++ {
						if seeds[i], err = whole.Split(uint32(200 * i)); err != nil {
							return err
						}
					}
					seeds[members] = whole
					for round = 1; round <= rounds; round++ {
						if _, err := n.record(); err != nil {
							return fmt.Errorf("round %d: %w", round, err)
						}
						for i := 1; i <= members; i++ {
							s := &seeds[i]
							// The first bytes may be an earlier round's: a write that is not
							// counted comes at any time.
							if want := bytes.Repeat([]byte{byte(16*round + i)},
								200*i); !bytes.Equal(n.keyed[s.Offset:][uncounted:200*i], want[uncounted:]) {
								return fmt.Errorf("round %d: not all of member %d is there", round, i)
							}
						}
					}
					return nil
				}
				for r := 1; r <= rounds; r++ {
					if err := n.until("the next round", func() bool { return round >= r }); err != nil {
						return err
					}
					data := n.source[r*4000:][:200*me]
					for i := range data {
						data[i] = byte(16*r + me)
					}
					if _, err := n.Write(seeds[me].Ticket, 0, data[:uncounted]); err != nil {
						return err
					}
					h, err := n.SendMsg(seeds[me].Ticket, data)
					if err != nil {
						return err
					}
					if _, err := n.status(h, rats.Sent); err != nil {
						return err
					}
				}
				return nil
			})
	}
}

// Rule: a receiver that stalls is never overrun: each of many senders has an area with a credit,
// sends within it, and none of its packets is rejected, retried or lost (HPL-95-86, 2.2).
func TestStalledReaderIsNotOverrun(t *testing.T) {
	const senders = 32
	var seeds [senders + 1]rats.Seed
	ready, got := false, 0
	k := run(t, senders+1, sim.EthernetConfig{Seed: 3}, func(n *node) error {
		me := int(n.p.Context().Node())
		if me > 0 {
			if err := n.until("seeds", func() bool { return ready }); err != nil {
				return err
			}
			for i := range 2 {
				h, err := n.SendMsg(seeds[me].Ticket, n.source[:1000], uint32(i))
				if err != nil {
					return err
				}
				if _, err := n.status(h, rats.Sent); err != nil {
					return err
				}
			}
			return n.until("all is read", func() bool { return got == 2*senders })
		}
		for i := 1; i <= senders; i++ {
			k, _, err := n.Expose(n.keyed[(i-1)*1000:][:1000])
			if err != nil {
				return err
			}
			area, h, err := n.Open(k, 2, false)
			if err != nil {
				return err
			}
			if _, err := n.status(h, rats.Sent); err != nil {
				return err
			}
			seeds[i] = n.Seed(k, area, 1000, 0)
		}
		ready = true
		n.p.Sleep(int64(100 * time.Millisecond))
		for ; got < 2*senders; got++ {
			if _, err := n.record(); err != nil {
				return err
			}
		}
		return nil
	})
	for i, p := range k.Processes {
		if tr := p.Context().Traffic(); tr.Retried != 0 || tr.Returned != 0 || tr.Refused != 0 {
			t.Errorf("node %d: %+v", i, tr)
		}
	}
}
