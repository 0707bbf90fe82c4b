package rats_test

// This file holds the rules of Streams (HPL-95-86, section 3.2), between processes of clusters in
// virtual time.

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
	"github.com/funet/funet/uspace/sim"
)

// managed is a process with a manager.
type managed struct {
	*rats.Manager
	p *sim.Process
}

const managedBase = 0x1000000

func newManaged(p *sim.Process, memory int) (*managed, error) {
	e, err := rats.New(p.Interface(), int(p.Context().Node()), random{chacha(p)})
	if err != nil {
		return nil, err
	}
	b, err := p.Segment(managedBase, memory, funi.Keyed|funi.Source)
	if err != nil {
		return nil, err
	}
	m, err := rats.Manage(e, funi.Segment{Base: managedBase, Memory: b, Rights: funi.Keyed | funi.Source})
	if err != nil {
		return nil, err
	}
	return &managed{m, p}, nil
}

// until drives the card until done, for at most some seconds of virtual time.
func (n *managed) until(what string, done func() bool) error {
	for end := n.p.Now() + int64(20*time.Second); !done(); n.p.Drive() {
		n.Poll()
		for _, ok := n.NextReady(); ok; _, ok = n.NextReady() {
		}
		if n.p.Now() > end {
			return fmt.Errorf("node %d: not in time: %s", n.p.Context().Node(), what)
		}
	}
	return nil
}

// unused waits until everything that was opened is closed.
func (n *managed) unused() error {
	err := n.until("nothing is in use", func() bool { return n.InUse() == [5]int{} })
	if err != nil {
		err = fmt.Errorf("%w: bytes, areas, credit, key slots, instances: %d", err, n.InUse())
	}
	return err
}

// manage runs a program on each of two nodes.
func manage(t interface {
	Helper()
	Fatal(...any)
	Cleanup(func())
}, memory int, net sim.EthernetConfig, program func(n *managed) error) {
	t.Helper()
	manageWith(t, remote, memory, net, program)
}

// manageWith does so with tables of other sizes.
func manageWith(t interface {
	Helper()
	Fatal(...any)
	Cleanup(func())
}, sizes funi.RemoteSizes, memory int, net sim.EthernetConfig, program func(n *managed) error) {
	t.Helper()
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: sizes}, Nodes: 2, Net: net},
		func(p *sim.Process) error {
			n, err := newManaged(p, memory)
			if err != nil {
				return err
			}
			return program(n)
		})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Finish(2 * time.Minute); err != nil {
		t.Fatal(err)
	}
}

// Rule (3.2, stream): what is written is read, in order, once, whole, with the ends of records
// where they were written; whichever end was made first; whatever the network does; and however
// little memory there is. Then nothing is in use at either end.
func TestStream(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		type write struct {
			size   int
			record bool
		}
		writes := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) write {
			return write{rapid.OneOf(rapid.IntRange(1, 130), rapid.IntRange(1, 5000), rapid.IntRange(1, 150000)).Draw(r,
				"size"), rapid.Bool().Draw(r, "record")}
		}), 0, 40).Draw(r, "writes")
		receiverFirst := rapid.Bool().Draw(r, "receiver first")
		copies := rapid.Bool().Draw(r, "copies")
		bytes, most := 1<<rapid.IntRange(10, 14).Draw(r, "ring"), 1<<rapid.IntRange(10, 18).Draw(r, "most")
		memory := rapid.SampledFrom([]int{2*bytes + 4096, 1 << 20}).Draw(r, "memory")
		cfg := sim.EthernetConfig{Seed: rapid.Uint64().Draw(r, "seed")}
		if rapid.Bool().Draw(r, "faults") {
			cfg.Faults = sim.Faults{Loss: .02, Duplicate: .02, Reorder: .1, Corrupt: .01,
				HoldBack: 100 * time.Microsecond}
		}
		var ends []int
		total := 0
		for _, w := range writes {
			total += w.size
			if w.record {
				ends = append(ends, total)
			}
		}
		pauses := rapid.IntRange(0, 20).Draw(r, "pauses")
		var text string
		manage(r, memory, cfg, func(n *managed) (err error) {
			if n.p.Context().Node() == 0 {
				var s *rats.Sender
				if receiverFirst {
					if err := n.until("a seed", func() bool { return text != "" }); err != nil {
						return err
					}
					seed, err := rats.ParseSeed(text)
					if err != nil {
						return err
					}
					if s, err = n.SendTo(seed); err != nil {
						return err
					}
				} else {
					if s, err = n.NewSender(); err != nil {
						return err
					}
					seed := s.Seed()
					text = seed.String()
				}
				at := 0
				buffer := make([]byte, 150000)
				for i, w := range writes {
					b := buffer[:w.size]
					for j := range b {
						b[j] = byte((at + j) * 7 >> 3)
					}
					at += w.size
					if err := n.until(fmt.Sprintf("write %d", i), func() bool {
						k, e := 0, error(nil)
						if w.record {
							k, e = s.WriteRecord(b)
						} else {
							k, e = s.WriteBytes(b)
						}
						b, err = b[k:], e
						return len(b) == 0 || e != nil
					}); err != nil {
						return err
					}
					if err != nil {
						return err
					}
				}
				s.CloseWrite()
				if _, err := s.WriteBytes([]byte{1}); !errors.Is(err, rats.ErrClosed) {
					return fmt.Errorf("a write behind the end: %v", err)
				}
				if err := n.until("the end is there", func() bool { return s.Done() || s.Err() != nil }); err != nil ||
					s.Err() != nil {
					return errors.Join(err, s.Err())
				}
				s.Close()
				return n.unused()
			}
			var rec *rats.Receiver
			if receiverFirst {
				if rec, err = n.NewReceiver(bytes, max(bytes, most)); err != nil {
					return err
				}
				seed := rec.Seed()
				text = seed.String()
			} else {
				if err := n.until("a seed", func() bool { return text != "" }); err != nil {
					return err
				}
				seed, err := rats.ParseSeed(text)
				if err != nil {
					return err
				}
				if rec, err = n.ReceiveFrom(seed, bytes, max(bytes, most)); err != nil {
					return err
				}
			}
			at := 0
			var got []int
			check := func(b []byte) error {
				for _, c := range b {
					if c != byte(at*7>>3) {
						return fmt.Errorf("byte %d of the stream is %d", at, c)
					}
					at++
				}
				return nil
			}
			var held rats.Piece
			buffer := make([]byte, 3000)
			for k := 0; ; k++ {
				var err error
				some := false
				if copies {
					var c int
					c, err = rec.Read(buffer)
					if e := check(buffer[:c]); e != nil {
						return e
					}
					some = c > 0
				} else {
					var p rats.Piece
					p, err = rec.ReadBytes()
					if e := check(p.Bytes); e != nil {
						return e
					}
					if p.EndOfRecord {
						got = append(got, at)
					}
					if some = len(p.Bytes) > 0; some {
						held = p
					}
					if k%3 != 1 || !some { // else the sender may wait for what this one holds
						rec.Release(held)
					}
				}
				if err == io.EOF {
					break
				}
				if err != nil {
					return err
				}
				if !some || k%20 < pauses {
					n.Poll()
					n.p.Drive()
				}
				if n.p.Now() > int64(100*time.Second) {
					return fmt.Errorf("the reader has read %d of %d bytes", at, total)
				}
			}
			if at != total || !copies && fmt.Sprint(got) != fmt.Sprint(ends) {
				return fmt.Errorf("%d bytes of %d, records end at %d, not at %d", at, total, got, ends)
			}
			rec.Close()
			return n.unused()
		})
	})
}

// pair makes both ends of a Stream, the receiver's first.
func (n *managed) pair(text *string) (*rats.Sender, *rats.Receiver, error) {
	if n.p.Context().Node() == 1 {
		r, err := n.NewReceiver(4096, 8192)
		if err != nil {
			return nil, nil, err
		}
		seed := r.Seed()
		*text = seed.String()
		return nil, r, nil
	}
	if err := n.until("a seed", func() bool { return *text != "" }); err != nil {
		return nil, nil, err
	}
	seed, err := rats.ParseSeed(*text)
	if err != nil {
		return nil, nil, err
	}
	s, err := n.SendTo(seed)
	return s, nil, err
}

// Rule (3.2: a release frees a buffer and those that arrived earlier): what was not read stays as
// it is, however much the sender has to write.
func TestReleaseOfAPart(t *testing.T) {
	text, released, checked := "", false, false
	manage(t, 1<<16, sim.EthernetConfig{Seed: 1}, func(n *managed) error {
		s, r, err := n.pair(&text)
		if err != nil {
			return err
		}
		record := func(k byte) []byte {
			b := make([]byte, 1200)
			for i := range b {
				b[i] = k
			}
			return b
		}
		if s != nil {
			for k := range byte(2) {
				b := record(k)
				if e := n.until("a record", func() bool {
					c, e := s.WriteRecord(b)
					b, err = b[c:], e
					return len(b) == 0 || e != nil
				}); e != nil || err != nil {
					return errors.Join(e, err)
				}
			}
			if err := n.until("the first is released", func() bool { return released }); err != nil {
				return err
			}
			rest := record(2)
			if err := n.until("the second was looked at", func() bool {
				if !checked { // as much as there is room for, again and again
					_, err = s.WriteBytes(rest)
				}
				return checked || err != nil
			}); err != nil {
				return err
			}
			s.Close()
			return err
		}
		var one, two rats.Piece
		if err := n.until("two records", func() bool {
			if len(one.Bytes) == 0 {
				one, err = r.ReadBytes()
			} else if len(two.Bytes) == 0 {
				two, err = r.ReadBytes()
			}
			return len(two.Bytes) > 0 || err != nil
		}); err != nil {
			return err
		}
		r.Release(one)
		released = true
		for end := n.p.Now() + int64(time.Millisecond); n.p.Now() < end; n.p.Drive() {
			n.Poll()
		}
		checked = true
		for i, c := range two.Bytes {
			if c != 1 {
				return fmt.Errorf("byte %d of the second record is %d", i, c)
			}
		}
		r.Close()
		return nil
	})
}

// Rule (doc.go): an end that is closed before the end of the stream tells the other, which reads
// what has come by then and ErrAborted, or writes no more; and nothing is in use any more.
func TestStreamAborted(t *testing.T) {
	for _, first := range []string{"sender", "receiver"} {
		text, closed := "", false
		manage(t, 1<<16, sim.EthernetConfig{Seed: 1}, func(n *managed) error {
			s, r, err := n.pair(&text)
			if err != nil {
				return err
			}
			got := 0
			buffer := make([]byte, 3000)
			if s != nil {
				k, err := s.WriteBytes(buffer)
				if k != len(buffer) || err != nil {
					return fmt.Errorf("%d bytes written, %w", k, err)
				}
				if err := n.until("sent", func() bool { return s.Flush() }); err != nil {
					return err
				}
				if first == "sender" {
					s.Close()
					closed = true
				} else if err := n.until("aborted", func() bool { return s.Err() != nil }); err != nil {
					return err
				} else if _, err := s.WriteBytes(buffer); !errors.Is(err, rats.ErrAborted) {
					return fmt.Errorf("a write to a receiver that was closed: %v", err)
				}
				s.Close()
				return n.unused()
			}
			for err = nil; err == nil && (got == 0 || first == "sender"); {
				var k int
				k, err = r.Read(buffer[:100])
				got += k
				n.Poll()
				n.p.Drive()
				if n.p.Now() > int64(10*time.Second) {
					return fmt.Errorf("%d bytes were read, and nothing more happens", got)
				}
			}
			if first == "sender" && !errors.Is(err, rats.ErrAborted) {
				return fmt.Errorf("%d bytes of a stream that was aborted, then %w", got, err)
			}
			r.Close()
			if _, err := r.Read(buffer); first == "receiver" && !errors.Is(err, rats.ErrClosed) {
				return fmt.Errorf("reading from a closed stream: %w", err)
			}
			return n.unused()
		})
		if first == "sender" != closed {
			t.Errorf("%s closes first: %v", first, closed)
		}
	}
}

// Rule (doc.go): a peer whose process has gone is found out by Probe, or by anything else that is
// sent to it; and an end whose seed nobody has any more gives everything back.
func TestStreamPeerGone(t *testing.T) {
	text := ""
	gone := false
	manage(t, 1<<16, sim.EthernetConfig{Seed: 1}, func(n *managed) error {
		s, r, err := n.pair(&text)
		if err != nil {
			return err
		}
		if r != nil {
			if err := n.until("the sender is there", func() bool {
				_, err := r.Read(make([]byte, 10))
				return err != nil || r.Heard()
			}); err != nil {
				return err
			}
			h, err := n.Revoke(rats.Key(r.Seed().Key)) // as its card does when a process ends
			if err != nil {
				return err
			}
			err = n.until("the key is revoked", func() bool {
				s, _, err := n.Status(h)
				return err == nil && s == rats.Sent
			})
			gone = true
			return err
		}
		if err := n.until("a process ends", func() bool { return gone }); err != nil {
			return err
		}
		probed := int64(0)
		if err := n.until("the stream fails", func() bool {
			if now := n.p.Now(); now-probed > int64(time.Millisecond) {
				probed = now
				s.Probe()
			}
			return s.Err() != nil
		}); err != nil {
			return err
		}
		var f *rats.Failure
		if !errors.As(s.Err(), &f) || f.Node != 1 {
			return fmt.Errorf("the stream failed with %w", s.Err())
		}
		s.Close()
		return n.unused()
	})
}
