package rats_test

// This file holds the rules of the protocols other than Stream (HPL-95-86, section 3.2), between
// processes of clusters in virtual time.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
	"github.com/funet/funet/uspace/sim"
)

// nodes runs a program on each of some nodes, over a network that loses, doubles and reorders.
func nodes(t interface {
	Helper()
	Fatal(...any)
}, n, memory int, net sim.EthernetConfig, program func(n *managed, me int) error) *sim.Cluster {
	t.Helper()
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: remote}, Nodes: n, Net: net},
		func(p *sim.Process) error {
			n, err := newManaged(p, memory)
			if err != nil {
				return err
			}
			return program(n, int(p.Context().Node()))
		})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Finish(2 * time.Minute); err != nil {
		t.Fatal(err)
	}
	return k
}

func drawNet(r *rapid.T) sim.EthernetConfig {
	cfg := sim.EthernetConfig{Seed: rapid.Uint64().Draw(r, "seed")}
	if rapid.Bool().Draw(r, "faults") {
		cfg.Faults = sim.Faults{Loss: .03, Duplicate: .03, Reorder: .2, Corrupt: .01, HoldBack: 200 * time.Microsecond}
	}
	return cfg
}

// Rule (3.2, tagged remote write): the data that a tag tells of is there when the tag is got. Each
// tag comes once, from its writer. A specific tag can be got before older ones. Writers that send
// faster than tags are got wait, also while they close. Then nothing is in use.
func TestTaggedWrites(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		writers, window := rapid.IntRange(1, 4).Draw(r, "writers"), rapid.IntRange(1, 9).Draw(r, "window")
		writes := rapid.IntRange(0, 40).Draw(r, "writes")
		specific := rapid.Bool().Draw(r, "specific")
		stall := rapid.IntRange(0, 2000).Draw(r, "stall")
		const part = 4096
		var seeds []rats.Seed
		closed := false
		nodes(r, writers+1, 1<<16, drawNet(r), func(n *managed, me int) error {
			if me > 0 {
				if err := n.until("a seed", func() bool { return len(seeds) == writers }); err != nil {
					return err
				}
				w, err := n.WriteTo(seeds[me-1])
				if err != nil {
					return err
				}
				for i := range writes {
					data := bytes.Repeat([]byte{byte(i + me)}, 1+(i*7)%rats.MaxTagged)
					var err error
					if e := n.until("a tag can be written", func() bool {
						err = w.WriteTag(uint32(me*part-part+i*rats.MaxTagged), data, uint32(me<<16|i))
						return !errors.Is(err, rats.ErrFull)
					}); e != nil || err != nil {
						return errors.Join(e, err)
					}
				}
				w.Close()
				if err := n.unused(); err != nil {
					return err
				}
				return n.until("all tags are got", func() bool { return closed })
			}
			memory, err := n.Alloc(writers * part)
			if err != nil {
				return err
			}
			target, err := n.NewTarget(memory, window)
			if err != nil {
				return err
			}
			for range writers {
				s, err := target.TaggedSeed()
				if err != nil {
					return err
				}
				seeds = append(seeds, s)
			}
			n.p.Sleep(int64(stall) * 1000)
			got := map[uint32]bool{}
			for k := range writers * writes {
				var g rats.Tag
				if err := n.until(fmt.Sprintf("tag %d of %d", k, writers*writes), func() (ok bool) {
					if specific && writes > 0 && !got[1<<16|uint32(writes-1)] && len(got) ==
						writes*(writers-1) && writers > 1 {
						g, ok = target.GetSpecificTag(1<<16 | uint32(writes-1))
					}
					if !ok {
						g, ok = target.GetTag()
					}
					return ok
				}); err != nil {
					return err
				}
				i, from := int(g.Tag&0xffff), int(g.Tag>>16)
				if got[g.Tag] || from != int(g.From) || i >= writes {
					return fmt.Errorf("tag %#x of node %d is doubled or never was", g.Tag, g.From)
				}
				got[g.Tag] = true
				at := from*part - part + i*rats.MaxTagged
				if want := bytes.Repeat([]byte{byte(i + from)},
					1+(i*7)%rats.MaxTagged); !bytes.Equal(memory[at:at+len(want)], want) {
					return fmt.Errorf("tag %#x came before its data", g.Tag)
				}
			}
			if err := n.until("writers are closed", func() bool { return n.InUse()[3] == 0 }); err != nil {
				return err
			}
			closed = true
			target.Close()
			return n.unused()
		})
	})
}

// Rule (3.2, tagged remote write): of the tags that are there, the one that is asked for is got,
// and others keep their order.
func TestGetSpecificTag(t *testing.T) {
	var seed rats.Seed
	nodes(t, 2, 1<<16, sim.EthernetConfig{}, func(n *managed, me int) error {
		if me == 1 {
			if err := n.until("a seed", func() bool { return seed.Key != 0 }); err != nil {
				return err
			}
			w, err := n.WriteTo(seed)
			if err != nil {
				return err
			}
			for i := range uint32(4) {
				if err := n.until("a write", func() bool {
					err = w.WriteTag(0, nil, i)
					return !errors.Is(err, rats.ErrFull)
				}); err != nil {
					return err
				}
				n.p.Sleep(1e6)
			}
			long := w.WriteTag(0, make([]byte, rats.MaxTagged+1), 0)
			far := w.WriteTag(1000, []byte{1}, 0)
			_, nowhere := w.Write(0, make([]byte, 500))
			if !errors.Is(long, rats.ErrTooLong) || !errors.Is(far, rats.ErrTooLong) ||
				!errors.Is(nowhere, rats.ErrMemory) {
				return fmt.Errorf("too long: %v; beyond the end: %v; from anywhere: %v", long, far, nowhere)
			}
			var f error
			if err := n.until("the seed is revoked", func() bool { f = w.Err(); return f != nil }); err != nil {
				return err
			}
			if err := w.WriteTag(0, nil, 1); !errors.Is(err, rats.ErrAborted) {
				return fmt.Errorf("a write behind the end: %v", err)
			}
			w.Close()
			return n.unused()
		}
		if _, err := n.NewTarget(make([]byte, 100), 1); !errors.Is(err, rats.ErrMemory) {
			return fmt.Errorf("a target anywhere: %v", err)
		}
		memory, err := n.Alloc(1000)
		if err != nil {
			return err
		}
		target, err := n.NewTarget(memory, 8)
		if err != nil {
			return err
		}
		if seed, err = target.TaggedSeed(); err != nil {
			return err
		}
		if err := n.until("four tags", func() bool { n.p.Sleep(1e6); return n.p.Now() > 30e6 }); err != nil {
			return err
		}
		if _, ok := target.GetSpecificTag(9); ok {
			return errors.New("a tag that was not written")
		}
		for i, want := range []uint32{2, 0, 1, 3} {
			g, ok := rats.Tag{}, false
			if i == 0 {
				g, ok = target.GetSpecificTag(want)
			} else {
				g, ok = target.GetTag()
			}
			if !ok || g.Tag != want {
				return fmt.Errorf("tag %d, want %d", g.Tag, want)
			}
		}
		if target.Revoke(rats.Seed{}) || !target.Revoke(seed) {
			return errors.New("what is revoked is not what was made")
		}
		target.Close()
		return n.unused()
	})
}

// Rule (3.2, remote write): what is written is there, at any offset, in one part or several, of any
// length; of it nobody hears.
func TestRemoteWrites(t *testing.T) {
	var seed rats.Seed
	done := 0
	nodes(t, 3, 1<<18, sim.EthernetConfig{Seed: 1, Faults: sim.Faults{Loss: .02, Reorder: .2}},
		func(n *managed, me int) error {
			const each = 40000
			if me > 0 {
				if err := n.until("a seed", func() bool { return seed.Key != 0 }); err != nil {
					return err
				}
				w, err := n.WriteTo(seed)
				if err != nil {
					return err
				}
				b, err := n.Alloc(each)
				if err != nil {
					return err
				}
				for i := range b {
					b[i] = byte(me * i)
				}
				base := uint32(each * (me - 1))
				if _, err := w.Write(base, b[:17]); err != nil {
					return err
				}
				h, err := w.WriteParts(rats.Part{Offset: base + 17, Data: b[17:20000]},
					rats.Part{Offset: base + 30000, Data: b[30000:]},
					rats.Part{Offset: base + 20000, Data: b[20000:30000]})
				if err != nil {
					return err
				}
				if err := n.until("it is sent", func() bool {
					s, _, err := n.Status(h)
					return err == nil && s == rats.Sent
				}); err != nil {
					return err
				}
				if _, err := w.WriteParts(rats.Part{Data: b}, rats.Part{Offset: 2 * each, Data: b[:1]}); !errors.Is(err,
					rats.ErrTooLong) {
					return fmt.Errorf("a part beyond the end: %v", err)
				}
				n.p.Sleep(1e8)
				done++
				w.Close()
				n.Free(b)
				return n.unused()
			}
			memory, err := n.Alloc(2 * each)
			if err != nil {
				return err
			}
			target, err := n.NewTarget(memory, 8)
			if err != nil {
				return err
			}
			if seed, err = target.Seed(); err != nil {
				return err
			}
			if err := n.until("all is written", func() bool { return done == 2 }); err != nil {
				return err
			}
			for i, b := range memory {
				if b != byte((1+i/each)*(i%each)) {
					return fmt.Errorf("byte %d is %d", i, b)
				}
			}
			if _, ok := target.GetTag(); ok {
				return errors.New("a tag")
			}
			target.Close()
			return n.unused()
		})
}

// Rule (3.2, datagram): each datagram comes once and whole, from its client, however slowly and in
// whatever order they are released, of any length; those sent before closing come too. Then nothing
// is in use.
func TestDatagrams(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		clients, buffers := rapid.IntRange(1, 4).Draw(r, "clients"), rapid.IntRange(1, 8).Draw(r, "buffers")
		size := rapid.SampledFrom([]int{1, 8, 61, 300, 5000}).Draw(r, "size")
		each := rapid.IntRange(0, 40).Draw(r, "each")
		hold := rapid.IntRange(0, buffers*clients-1).Draw(r, "hold")
		memory := rapid.SampledFrom([]int{1 << 19, 1 << 20}).Draw(r, "memory")
		var seeds []rats.Seed
		gone := false
		nodes(r, clients+1, memory, drawNet(r), func(n *managed, me int) error {
			if me > 0 {
				if err := n.until("a seed", func() bool { return len(seeds) == clients }); err != nil {
					return err
				}
				c, err := n.SendDatagrams(seeds[me-1])
				if err != nil {
					return err
				}
				for i := range each {
					b := bytes.Repeat([]byte{byte(i)}, 1+(i*37)%size)
					b[0] = byte(i)
					var ok bool
					if e := n.until(fmt.Sprintf("datagram %d can be sent", i), func() bool {
						ok, err = c.Send(b)
						return ok || err != nil
					}); e != nil || err != nil {
						return errors.Join(e, err)
					}
				}
				if _, err := c.Send(make([]byte, size+1)); !errors.Is(err, rats.ErrTooLong) {
					return fmt.Errorf("longer than a buffer: %v", err)
				}
				c.Close()
				if err := n.unused(); err != nil {
					return err
				}
				return n.until("all datagrams are received", func() bool { return gone })
			}
			p, err := n.NewPort(size, buffers)
			if err != nil {
				return err
			}
			for range clients {
				s, err := p.Seed()
				if err != nil {
					return err
				}
				seeds = append(seeds, s)
			}
			var held []rats.Datagram
			got := map[[2]int]bool{}
			for k := range clients * each {
				var d rats.Datagram
				if err := n.until(fmt.Sprintf("datagram %d of %d", k, clients*each), func() (ok bool) {
					if d, ok = p.Recv(); !ok && len(held) > 0 {
						p.Release(held[len(held)/2])
						held = append(held[:len(held)/2], held[len(held)/2+1:]...)
					}
					return ok
				}); err != nil {
					return err
				}
				i := int(d.Bytes[0])
				if at := [2]int{int(d.From), i}; got[at] || i >= each {
					return fmt.Errorf("datagram %d of node %d is doubled or never was", i, d.From)
				} else {
					got[at] = true
				}
				if want := bytes.Repeat([]byte{byte(i)}, 1+(i*37)%size); !bytes.Equal(d.Bytes, want) {
					return fmt.Errorf("datagram %d of node %d is %d bytes", i, d.From, len(d.Bytes))
				}
				if held = append(held, d); len(held) > hold {
					p.Release(held[0])
					held = held[1:]
				}
			}
			for _, d := range held {
				p.Release(d)
			}
			if err := n.until("clients have closed", func() bool { return n.InUse()[3] == 0 }); err != nil {
				return fmt.Errorf("%w: %v", err, n.InUse())
			}
			gone = true
			p.Close()
			return n.unused()
		})
	})
}

// Rule (doc.go): a receiver that stalls is never overrun: 32 senders of datagrams have not one
// packet rejected or sent again, on a network that loses nothing.
func TestStalledPortIsNotOverrun(t *testing.T) {
	const senders, each = 32, 8
	var seeds []rats.Seed
	sent := 0
	net := sim.EthernetConfig{Seed: 4}
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: remote4}, Nodes: senders + 1, Net: net},
		func(p *sim.Process) error {
			n, err := newManaged(p, 1<<20)
			if err != nil {
				return err
			}
			if me := int(p.Context().Node()); me > 0 {
				if err := n.until("a seed", func() bool { return len(seeds) == senders }); err != nil {
					return err
				}
				c, err := n.SendDatagrams(seeds[me-1])
				if err != nil {
					return err
				}
				for range each {
					var ok bool
					if e := n.until("a datagram can be sent", func() bool {
						ok, err = c.Send(make([]byte, 1000))
						return ok || err != nil
					}); e != nil || err != nil {
						return errors.Join(e, err)
					}
					sent++
				}
				return n.until("all is released", c.Idle)
			}
			port, err := n.NewPort(1000, 4)
			if err != nil {
				return err
			}
			for range senders {
				var s rats.Seed
				if e := n.until("a seed can be made", func() bool {
					s, err = port.Seed()
					return err == nil
				}); e != nil {
					return errors.Join(e, err)
				}
				seeds = append(seeds, s)
			}
			if err := n.until("clients are known and stopped", func() bool { return sent == 4*senders }); err != nil {
				return err
			}
			n.p.Sleep(int64(100 * time.Millisecond))
			for range senders * each {
				var d rats.Datagram
				if err := n.until("a datagram", func() (ok bool) { d, ok = port.Recv(); return ok }); err != nil {
					return err
				}
				port.Release(d)
			}
			return n.until("all credit is sent", n.Settled)
		})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Finish(time.Minute); err != nil {
		t.Fatal(err)
	}
	for i, p := range k.Processes {
		if tr := p.Context().Traffic(); tr.Retried != 0 || tr.Returned != 0 || tr.Refused != 0 {
			t.Errorf("node %d: %+v", i, tr)
		}
	}
}

// Rule (3.2, simple datagram): two send a message back and forth, each with the ticket for the
// reply, and words of their own; both buffers are free at the end.
func TestSimplePingPong(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rounds, size := rapid.IntRange(1, 20).Draw(r, "rounds"), rapid.IntRange(1, 3000).Draw(r, "size")
		var first rats.Seed
		nodes(r, 2, 1<<16, drawNet(r), func(n *managed, me int) error {
			in, err := n.Alloc(size)
			if err != nil {
				return err
			}
			out, err := n.Alloc(size)
			if err != nil {
				return err
			}
			s, err := n.NewSimple(in)
			if err != nil {
				return err
			}
			var to rats.Seed
			if me == 1 {
				first = s.Seed()
			} else {
				if err := n.until("a seed", func() bool { return first.Key != 0 }); err != nil {
					return err
				}
				to = first
			}
			for i := 0; i < rounds; i++ {
				var g rats.Message
				if me == 1 || i > 0 {
					var ok bool
					if e := n.until("a message", func() bool { ok, err = s.Recv(&g); return ok || err != nil }); e !=
						nil || err != nil {
						return errors.Join(e, err)
					}
					want := uint32(i)
					if me == 0 {
						want--
					}
					if g.Words != 2 || g.Own[0] != want || !g.HasReply || int(g.Own[1]) != g.Length ||
						g.From != uint16(1-me) {
						return fmt.Errorf("node %d, round %d: %+v", me, i, g)
					}
					for j, b := range s.Memory()[:g.Length] {
						if b != byte(int(want)*3+j) {
							return fmt.Errorf("round %d: byte %d is %d", i, j, b)
						}
					}
					to = g.Reply
				}
				length := (i*977 + 13) % (size + 1)
				for j := range out[:length] {
					out[j] = byte(i*3 + j)
				}
				h, err := to.Send(n.Manager, out[:length], s.MetadataForSelf(uint32(i), uint32(length)))
				if err != nil {
					return err
				}
				if err := n.until("it is sent", func() bool {
					st, _, err := n.Status(h)
					return err == nil && st == rats.Sent
				}); err != nil {
					return err
				}
			}
			if me == 0 { // the answer of the last round
				var g rats.Message
				if err := n.until("the last message", func() bool { ok, _ := s.Recv(&g); return ok }); err != nil {
					return err
				}
			}
			s.Close()
			n.Free(out)
			return n.unused()
		})
	})
}

// Rule (2.5, 3.2): a seed may be split, and its parts by those who have them (dynamic group
// receive), who may send several parts (scatter-gather): Recv returns once, when all is there.
func TestSimpleGroups(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		members := rapid.IntRange(1, 5).Draw(r, "members")
		rounds := rapid.IntRange(1, 4).Draw(r, "rounds")
		const each = 3000
		size := each * members
		parts := make([]rats.Seed, members)
		round := 0
		nodes(r, members+1, 1<<17, drawNet(r), func(n *managed, me int) error {
			if me > 0 {
				b, err := n.Alloc(each)
				if err != nil {
					return err
				}
				for k := 1; k <= rounds; k++ {
					if err := n.until("a part", func() bool { return round == k && parts[me-1].Key != 0 }); err != nil {
						return err
					}
					mine := parts[me-1]
					for i := range b {
						b[i] = byte(me*k + i)
					}
					if me < members { // the rest is for the next one to do
						all := mine
						if mine, err = all.Split(each); err != nil {
							return err
						}
						parts[me] = all
					}
					whole := mine
					head, err := whole.Split(uint32(1 + 100*me))
					if err != nil {
						return err
					}
					cut := 1 + 100*me
					for _, part := range []struct {
						s rats.Seed
						b []byte
					}{{whole, b[cut:]}, {head, b[:cut]}} {
						h, err := part.s.Send(n.Manager, part.b, rats.Metadata{Own: []uint32{uint32(k)}})
						if err != nil {
							return err
						}
						if err := n.until("it is sent", func() bool {
							st, _, err := n.Status(h)
							return err == nil && st == rats.Sent
						}); err != nil {
							return err
						}
					}
				}
				n.Free(b)
				return n.unused()
			}
			memory, err := n.Alloc(size)
			if err != nil {
				return err
			}
			s, err := n.NewSimple(memory)
			if err != nil {
				return err
			}
			for k := 1; k <= rounds; k++ {
				clear(parts)
				clear(memory)
				parts[0], round = s.Seed(), k
				var g rats.Message
				var ok bool
				if e := n.until("the group", func() bool { ok, err = s.Recv(&g); return ok || err != nil }); e !=
					nil || err != nil {
					return errors.Join(e, err)
				}
				if g.Own[0] != uint32(k) {
					return fmt.Errorf("round %d: %+v", k, g)
				}
				for i, b := range memory {
					if b != byte((1+i/each)*k+i%each) {
						return fmt.Errorf("round %d: byte %d was not there", k, i)
					}
				}
			}
			s.Close()
			return n.unused()
		})
	})
}

// Rule (3.2): a simple datagram that cannot be is not sent; one without a ticket ends the instance;
// of one that was sent for a ticket that has been renewed nothing is written.
func TestSimpleRefused(t *testing.T) {
	nodes(t, 1, 1<<16, sim.EthernetConfig{}, func(n *managed, me int) error {
		memory, err := n.Alloc(1000)
		if err != nil {
			return err
		}
		s, err := n.NewSimple(memory)
		if err != nil {
			return err
		}
		seed := s.Seed()
		m := n.Manager
		other := seed
		other.Protocol = 9
		for what, c := range map[string]struct{ err, want error }{
			"11 own words":     {second(seed.Send(m, nil, rats.Metadata{Own: make([]uint32, 11)})), rats.ErrTooLong},
			"5 beside a reply": {second(seed.Send(m, nil, s.MetadataForSelf(1, 2, 3, 4, 5))), rats.ErrTooLong},
			"1001 bytes":       {second(seed.Send(m, make([]byte, 1001), rats.Metadata{})), rats.ErrTooLong},
			"another protocol": {second(other.Send(m, nil, rats.Metadata{})), rats.ErrSeed},
			"memory anywhere": {func() error { _, err := n.NewSimple(make([]byte, 10)); return err }(),
				rats.ErrMemory},
			"a writer": {func() error { _, err := n.WriteTo(seed); return err }(), rats.ErrSeed},
			"a client": {func() error { _, err := n.SendDatagrams(seed); return err }(), rats.ErrSeed},
			"a reader": {func() error { _, err := n.ReadFrom(seed, 10); return err }(), rats.ErrSeed},
		} {
			if !errors.Is(c.err, c.want) {
				return fmt.Errorf("%s: %v, want %v", what, c.err, c.want)
			}
		}
		var err2 error
		if e := n.until("it can be renewed", func() bool { err2 = s.Renew(); return err2 == nil }); e != nil {
			return errors.Join(e, err2)
		}
		h, err := seed.Send(m, []byte{1}, rats.Metadata{})
		if err != nil {
			return err
		}
		if err := n.until("it comes back", func() bool {
			st, why, _ := n.Status(h)
			return st == rats.Failed && why == arctic.ReasonKeySlot
		}); err != nil {
			return err
		}
		seed = s.Seed()
		for range 2 {
			if _, err := seed.Send(m, nil, rats.Metadata{}); err != nil {
				return err
			}
		}
		if err := n.until("it has failed", func() bool { return s.Err() != nil }); err != nil ||
			!errors.Is(s.Err(), rats.ErrProtocol) {
			return errors.Join(err, s.Err())
		}
		s.Close()
		return n.unused()
	})
}

// Rule (3.2, remote read): a read returns the bytes that it asks for, without the server's program;
// one can be in flight; what is beyond the memory is refused, and the reader goes on. Then nothing
// is in use.
func TestRemoteRead(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		readers, reads := rapid.IntRange(1, 3).Draw(r, "readers"), rapid.IntRange(1, 20).Draw(r, "reads")
		size := rapid.SampledFrom([]int{1, 200, 20000}).Draw(r, "size")
		var seeds []rats.Seed
		gone := 0
		nodes(r, readers+1, 1<<17, drawNet(r), func(n *managed, me int) error {
			if me > 0 {
				if err := n.until("a seed", func() bool { return len(seeds) == readers }); err != nil {
					return err
				}
				c, err := n.ReadFrom(seeds[me-1], size)
				if err != nil {
					return err
				}
				for i := range reads {
					offset := (i * 991) % size
					length := (i * 77) % (size - offset + 1)
					b, err := c.RemoteRead(uint32(offset), length, func() error {
						if err := c.AsyncRemoteRead(0, 1); !errors.Is(err, rats.ErrInFlight) {
							return fmt.Errorf("a second read: %v", err)
						}
						n.p.Drive()
						n.Poll()
						if n.p.Now() > 20e9 {
							return errors.New("not in time")
						}
						return nil
					})
					if err != nil {
						return fmt.Errorf("read %d: %w", i, err)
					}
					for j, x := range b {
						if x != byte((offset+j)*13) {
							return fmt.Errorf("read %d: byte %d is %d", i, j, x)
						}
					}
					if len(b) != length {
						return fmt.Errorf("read %d: %d bytes, want %d", i, len(b), length)
					}
					if err := c.AsyncRemoteRead(uint32(size), 1); err != nil {
						return err
					}
					if e := n.until("it is refused", func() bool { _, _, err = c.Ready(); return err != nil }); e !=
						nil || !errors.Is(err, rats.ErrRange) {
						return errors.Join(e, err)
					}
				}
				if err := c.AsyncRemoteRead(0, size+1); !errors.Is(err, rats.ErrTooLong) {
					return fmt.Errorf("more than the buffer: %v", err)
				}
				if err := c.AsyncRemoteRead(0, size); err != nil {
					return err
				}
				c.Close()
				gone++
				return n.unused()
			}
			memory, err := n.Alloc(size)
			if err != nil {
				return err
			}
			for i := range memory {
				memory[i] = byte(i * 13)
			}
			s, err := n.NewReadServer(memory)
			if err != nil {
				return err
			}
			for range readers {
				seed, err := s.Seed()
				if err != nil {
					return err
				}
				seeds = append(seeds, seed)
			}
			if err := n.until("readers have gone", func() bool { return gone == readers }); err != nil {
				return err
			}
			s.Close()
			return n.unused()
		})
	})
}

// Rule (doc.go): an end whose other end closes hears that, in each protocol; a seed that was
// revoked fails; and everything is free.
func TestOtherEndCloses(t *testing.T) {
	var seeds [3]rats.Seed
	ready := 0
	nodes(t, 2, 1<<17, sim.EthernetConfig{Seed: 2}, func(n *managed, me int) error {
		if me == 1 {
			if err := n.until("seeds", func() bool { return seeds[2].Key != 0 }); err != nil {
				return err
			}
			w, err := n.WriteTo(seeds[0])
			if err != nil {
				return err
			}
			c, err := n.SendDatagrams(seeds[1])
			if err != nil {
				return err
			}
			r, err := n.ReadFrom(seeds[2], 100)
			if err != nil {
				return err
			}
			written, sent := false, false
			if err := r.AsyncRemoteRead(0, 100); err != nil {
				return err
			}
			if err := n.until("they work", func() bool {
				e1 := w.WriteTag(0, nil, 1)
				ok, e2 := c.Send(nil)
				_, read, e3 := r.Ready()
				err = errors.Join(e2, e3)
				written, sent = written || e1 == nil, sent || ok
				return err != nil || written && sent && read
			}); err != nil {
				return err
			}
			if err != nil {
				return err
			}
			ready = 1
			if err := n.until("they fail", func() bool {
				w.Probe()
				c.Probe()
				r.Probe()
				return w.Err() != nil && c.Err() != nil && r.Err() != nil
			}); err != nil {
				return err
			}
			if _, err := c.Send(nil); err == nil {
				return errors.New("a datagram to a port that is closed")
			}
			w.Close()
			c.Close()
			r.Close()
			return n.unused()
		}
		target, err := n.NewTarget(must(n.Alloc(100)), 4)
		if err != nil {
			return err
		}
		port, err := n.NewPort(100, 4)
		if err != nil {
			return err
		}
		server, err := n.NewReadServer(must(n.Alloc(100)))
		if err != nil {
			return err
		}
		for i, make := range []func() (rats.Seed, error){target.TaggedSeed, port.Seed, server.Seed} {
			if seeds[i], err = make(); err != nil {
				return err
			}
		}
		if err := n.until("the other end is ready", func() bool { return ready == 1 }); err != nil {
			return err
		}
		if !server.Revoke(seeds[2]) || server.Revoke(rats.Seed{}) || port.Revoke(seeds[0]) || target.Revoke(seeds[1]) {
			return errors.New("what is revoked is not what was made")
		}
		target.Close()
		port.Close()
		server.Close()
		if _, err := target.TaggedSeed(); !errors.Is(err, rats.ErrClosed) {
			return fmt.Errorf("a seed of what is closed: %v", err)
		}
		return n.unused()
	})
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	binary.LittleEndian.PutUint16(b, 0)
	return b
}

// Rule (doc.go): when more comes back than the card has room to tell of, everything to those nodes
// fails, and nothing to others, also where their numbers are the same modulo funi.LostNodes.
func TestLostReturnsFailWhatWentThere(t *testing.T) {
	for _, other := range []int{2, 1 + funi.LostNodes} {
		t.Run(fmt.Sprint(other), func(t *testing.T) { lostReturnsFail(t, other) })
	}
}

// lostReturnsFail has what went to node 1 come back, and nothing of what went to another.
func lostReturnsFail(t *testing.T, other int) {
	var to [3]rats.Seed
	done := false
	nodes(t, other+1, 1<<17, sim.EthernetConfig{Seed: 1}, func(n *managed, me int) error {
		switch me {
		case 0, 1:
		case other:
			me = 2
		default:
			return nil
		}
		if me > 0 {
			target, err := n.NewTarget(must(n.Alloc(100)), 4)
			if err != nil {
				return err
			}
			seed, err := target.TaggedSeed()
			if err != nil {
				return err
			}
			if err := n.until("the key is open", n.Settled); err != nil {
				return err
			}
			to[me] = seed
			return n.until("done", func() bool { return done })
		}
		if err := n.until("seeds", func() bool { return to[1].Key != 0 && to[2].Key != 0 }); err != nil {
			return err
		}
		var w [3]*rats.Writer
		for i := 1; i < 3; i++ {
			var err error
			if w[i], err = n.WriteTo(to[i]); err != nil {
				return err
			}
			if err := n.until("a tag is written", func() bool { return w[i].WriteTag(0, nil, 1) == nil }); err != nil {
				return err
			}
		}
		good, err := n.Write(to[2].Ticket, 0, nil)
		if err != nil {
			return err
		}
		guess := to[1].Ticket
		guess.Key ^= 1 << 30
		var first rats.Handle
		for i := range 3 * funi.ReturnSlots { // nothing is polled, so the ring overflows
			var h rats.Handle
			for end := n.p.Now() + 1e9; ; n.p.Drive() {
				if h, err = n.Write(guess, 0, nil); err == nil {
					break
				}
				if !errors.Is(err, rats.ErrFull) || n.p.Now() > end {
					return err
				}
			}
			if i == 0 {
				first = h
			}
		}
		n.p.Sleep(1e7)
		if n.p.Interface().ReturnsLost() == 0 {
			return errors.New("the card had room for all that came back")
		}
		if err := n.until("it fails", func() bool { return w[1].Err() != nil }); err != nil {
			return err
		}
		if st, _, err := n.Status(first); err != nil || st != rats.Failed {
			return fmt.Errorf("the first of what came back: status %d, %v", st, err)
		}
		if st, why, err := n.Status(good); err != nil || st != rats.Sent || w[2].Err() != nil {
			return fmt.Errorf("what went to another node: status %d, %v, %v, %v", st, why, err, w[2].Err())
		}
		done = true
		return nil
	})
}

// Rule (3.2, initial request response): a request that its program holds for long is asked again,
// and is shown and answered once.
func TestSlowAnswer(t *testing.T) {
	secret := make([]byte, 32)
	secret[3] = 9
	ready, done := false, false
	nodes(t, 2, 1<<16, sim.EthernetConfig{Seed: 1}, func(n *managed, me int) error {
		if me == 1 {
			s, err := n.Serve(rats.KeyOf(secret))
			if err != nil {
				return err
			}
			if err := n.until("the key is open", n.Settled); err != nil {
				return err
			}
			ready = true
			var q rats.Request
			if err := n.until("a request", func() (ok bool) { q, ok = s.Recv(); return ok }); err != nil {
				return err
			}
			end := n.p.Now() + int64(2*time.Second)
			if err := n.until("a long time", func() bool { return n.p.Now() > end }); err != nil {
				return err
			}
			if _, again := s.Recv(); again {
				return errors.New("the request is shown again")
			}
			if !s.SendReply(&q, q.Words[0]+1) {
				return errors.New("no room to answer")
			}
			return n.until("done", func() bool { return done })
		}
		if err := n.until("the server", func() bool { return ready }); err != nil {
			return err
		}
		q, err := n.Ask(1, rats.KeyOf(secret), 41)
		if err != nil {
			return err
		}
		var words []uint32
		if e := n.until("an answer", func() (ok bool) {
			words, ok, _, err = q.RecvReply(n.p.Now())
			return ok || err != nil
		}); e != nil || err != nil {
			return errors.Join(e, err)
		}
		if len(words) != 1 || words[0] != 42 {
			return fmt.Errorf("answer %d", words)
		}
		q.Close()
		done = true
		return n.unused()
	})
}
