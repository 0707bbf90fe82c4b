package rats_test

// This file is what a holder of keys can do with metadata of its own making.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
	"github.com/funet/funet/uspace/sim"
)

// serverKey is the key of the victim's server, which everybody in the job can compute.
const serverKey = rats.Key(0x1234 << 16)

// clients is how many of the victim's instances have the forger as their server.
const clients = 5

// goal is where the forger can write.
type goal struct {
	key  uint64
	area uint16
}

// forged takes the next message from the fuzzer's input: the goal, a byte of choices, then the
// words, 4 bytes each. The byte has the number of words (3:0), the distance of the area from the
// goal's (5:4), and whether there is data (6). Bit 7 puts the forger's own key where the protocol
// wants a key.
func forged(in []byte, goals []goal, own goal) (t rats.Ticket, words []uint32, data, rest []byte) {
	at := in[1]
	g := goals[int(in[0])%len(goals)]
	t = rats.Ticket{Node: 0, Key: g.key, Area: g.area + uint16(at>>4&3), Size: 1 << 16}
	words = make([]uint32, int(at&15)%(arctic.MaxRemoteMetadata+1))
	in = in[2:]
	for i := range words {
		if len(in) >= 4 {
			words[i] = binary.LittleEndian.Uint32(in)
			in = in[4:]
		}
	}
	if at>>6&1 != 0 {
		data = make([]byte, min(16, arctic.MaxRemoteBytes-4*len(words)))
	}
	if at>>7 != 0 && len(words) >= 4 {
		key := words[1:]
		if words[0]>>28 == 5 { // a ring
			key = words[2:]
		}
		key[0], key[1] = uint32(own.key), uint32(own.key>>32)
		if len(key) > 2 {
			key[2] = uint32(own.area)
		}
	}
	return t, words, data, in
}

// forger sends what the fuzzer says to everything that it has a key for.
func forger(p *sim.Process, in []byte, goals *[]goal, seeds *[]rats.Seed, ready, sent, over *bool) error {
	n, err := newNode(p)
	if err != nil {
		return err
	}
	k, _, err := n.Expose(n.keyed)
	if err != nil {
		return err
	}
	var own goal
	protocols := [clients]uint8{7, 3, 2, 5, 0} // stream, datagrams, tags, reads, and a server
	areas := map[uint16]int{}
	for i, protocol := range protocols {
		area, _, err := n.Open(k, 16, true)
		if err != nil {
			return err
		}
		areas[area] = i
		s := n.Seed(k, area, memorySize, protocol)
		switch protocol {
		case 2:
			s.Count = 4 // tags that may be unread
		case 3:
			s.Size = 64 // bytes of a datagram
		}
		*seeds = append(*seeds, s)
		own = goal{uint64(k), area}
	}
	var heard [clients]goal
	count := 0
	drive := func(what string, done func() bool) error {
		return n.until(what, func() bool {
			for r := (funi.Notification{}); n.NextRecord(&r); {
				i, ok := areas[r.Area]
				// a request, which comes to the entry of the victim's node, area 0
				if r.Metadata[0]>>28 == 8 {
					i, ok = clients-1, true
				}
				if ok && heard[i].key == 0 && r.Words >= 4 {
					heard[i] = goal{uint64(r.Metadata[1]) | uint64(r.Metadata[2])<<32, uint16(r.Metadata[3])}
					count++
				}
			}
			return done()
		})
	}
	if err := drive("the victim's clients have said hello", func() bool {
		return *ready && count == clients
	}); err != nil {
		return fmt.Errorf("%w: heard %v", err, heard)
	}
	all := append(*goals, heard[:]...)
	for i := 0; len(in) >= 2 && i < 48; i++ {
		var t rats.Ticket
		var words []uint32
		var data []byte
		t, words, data, in = forged(in, all, own)
		var err error
		if e := drive("a message can be sent", func() bool {
			_, err = n.SendMsg(t, data, words...)
			return !errors.Is(err, rats.ErrFull)
		}); e != nil || err != nil {
			return errors.Join(e, err)
		}
	}
	h, err := n.Revoke(k) // behind what was sent: now its clients hear that it is gone
	if err != nil {
		return err
	}
	if err := drive("all is sent", func() bool {
		s, _, err := n.Status(h)
		return err != nil || s == rats.Sent
	}); err != nil {
		return err
	}
	*sent = true
	return drive("the victim has closed", func() bool { return *over })
}

// victim is a process with one instance of each protocol that the forger has a key for, and one for
// the bystander.
type victim struct {
	*managed
	receiver *rats.Receiver
	sender   *rats.Sender
	port     *rats.Port
	target   *rats.Target
	reads    *rats.ReadServer
	simple   *rats.Simple
	server   *rats.Server
	to       *rats.Sender
	client   *rats.Client
	writer   *rats.Writer
	reader   *rats.Reader
	inquiry  *rats.Inquiry
	honest   *rats.Target
}

// open opens the instances, and returns where the forger can write and the bystander's seed.
func (v *victim) open(forger []rats.Seed) (goals []goal, bystander rats.Seed, err error) {
	var errs []error
	check := func(err error) { errs = append(errs, err) }
	memory := func(bytes int) []byte {
		b, err := v.Alloc(bytes)
		check(err)
		return b
	}
	seed := func(s rats.Seed, err error) {
		check(err)
		goals = append(goals, goal{s.Key, s.Area})
	}
	v.server, err = v.Serve(serverKey)
	check(err)
	v.receiver, err = v.NewReceiver(1<<12, 1<<13)
	check(err)
	v.sender, err = v.NewSender()
	check(err)
	v.port, err = v.NewPort(64, 4)
	check(err)
	v.target, err = v.NewTarget(memory(4096), 4)
	check(err)
	v.reads, err = v.NewReadServer(memory(4096))
	check(err)
	v.simple, err = v.NewSimple(memory(256))
	check(err)
	v.honest, err = v.NewTarget(memory(4096), 4)
	check(err)
	v.to, err = v.SendTo(forger[0])
	check(err)
	v.client, err = v.SendDatagrams(forger[1])
	check(err)
	v.writer, err = v.WriteTo(forger[2])
	check(err)
	v.reader, err = v.ReadFrom(forger[3], 64)
	check(err)
	v.inquiry, err = v.Ask(1, rats.Key(forger[4].Key), 1, 2, 3)
	check(err)
	if err := errors.Join(errs...); err != nil {
		return nil, bystander, err
	}
	check(v.reader.AsyncRemoteRead(0, 10))
	seed(v.receiver.Seed(), nil)
	seed(v.sender.Seed(), nil)
	seed(v.port.Seed())
	seed(v.target.TaggedSeed())
	seed(v.target.Seed())
	seed(v.reads.Seed())
	seed(v.simple.Seed(), nil)
	seed(rats.Seed{Ticket: rats.Ticket{Key: uint64(serverKey)}}, nil)
	bystander, err = v.honest.TaggedSeed()
	check(err)
	return goals, bystander, errors.Join(errs...)
}

// use does with the instances what their users do. Errors are theirs to see.
func (v *victim) use() {
	var b [100]byte
	_, _ = v.receiver.Read(b[:])
	_, _ = v.sender.WriteBytes(b[:])
	_, _ = v.to.WriteBytes(b[:])
	for d, ok := v.port.Recv(); ok; d, ok = v.port.Recv() {
		v.port.Release(d)
	}
	for _, ok := v.target.GetTag(); ok; _, ok = v.target.GetTag() {
	}
	var g rats.Message
	_, _ = v.simple.Recv(&g)
	for r, ok := v.server.Recv(); ok; r, ok = v.server.Recv() {
		v.server.SendReply(&r, 1)
	}
	_, _ = v.client.Send(b[:8])
	_ = v.writer.WriteTag(0, b[:8], 7)
	_, _, _ = v.reader.Ready()
	_, _, _, _ = v.inquiry.RecvReply(v.p.Now())
}

func (v *victim) close() {
	for _, i := range []interface{ Close() }{v.receiver, v.sender, v.port, v.target, v.reads, v.simple,
		v.server, v.to, v.client,
		v.writer, v.reader, v.inquiry, v.honest} {
		i.Close()
	}
}

// probe asks whether the forger is there.
func (v *victim) probe() {
	if v.Settled() {
		for _, i := range []interface{ Probe() }{v.to, v.client, v.writer, v.reader} {
			i.Probe()
		}
	}
}

// word is a message as forged reads it.
func word(goal, at byte, words ...uint32) []byte {
	b := []byte{goal, at | byte(len(words))}
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// Rule (uspace/rats/stream.go): the process goes on, whatever words a holder of keys writes beside
// its messages to each end of each protocol. Messages of another node to the process still come,
// once and in order. When the process has closed its instances nothing is in use.
func FuzzForeignMetadata(f *testing.F) {
	const own, beyond, data = 0x80, 0x10, 0x40
	// every kind with some numbers of words, small and beyond every bound
	for goal := range byte(8 + clients) {
		for kind := range uint32(16) {
			for _, n := range []int{0, 1, 2, 4, 7, 9} {
				small, large := make([]uint32, n), slices.Repeat([]uint32{^uint32(0)}, n)
				if n > 0 {
					small[0], large[0] = kind<<28|1, kind<<28|1<<28-1
				}
				f.Add(append(word(goal, own|data, small...), word(goal, 0, large...)...))
			}
		}
	}
	hello := word(0, own, 2<<28, 0, 0, 0)
	// of a length that leaves one byte of the ring
	f.Add(append(hello, word(0, data, 1<<28|0xfff, 0)...))
	// and over its end
	f.Add(append(hello, append(word(0, data, 1<<28|0xfff, 0), word(0, data, 1<<28|2, 0xfff)...)...))
	// out of order
	f.Add(append(hello, append(word(0, data, 1<<28|16, 16), word(0, data, 1<<28|16, 0)...)...))
	// a longer ring
	f.Add(append(hello, append(word(0, 0, 3<<28, 0), word(0, beyond|data, 1<<28|16, 0)...)...))
	// credit for what was not sent
	f.Add(append(word(8, own, 5<<28, 4096, 0, 0, 0, 0, 0, 0), word(8, 0, 6<<28, 4097, 3, 0)...))
	f.Add(append(word(9, 0, 5<<28|4, 0, 0), word(9, 0, 6<<28|1, ^uint32(0))...))
	f.Add(word(5, own, 13<<28|1, 0, 0, 0, ^uint32(0), 2))
	f.Fuzz(func(t *testing.T, in []byte) { foreign(t, in) })
}

func foreign(t *testing.T, in []byte) {
	const tags = 12
	var seeds []rats.Seed
	var goals []goal
	var bystander rats.Seed
	var ready, sent, over bool
	sizes := funi.RemoteSizes{KeySlots: 64, Areas: 256, Notifications: 1024}
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: sizes}, Nodes: 3},
		func(p *sim.Process) error {
			if p.Context().Node() == 1 {
				return forger(p, in, &goals, &seeds, &ready, &sent, &over)
			}
			n, err := newManaged(p, 1<<16)
			if err != nil {
				return err
			}
			if p.Context().Node() == 2 {
				if err := n.until("a seed", func() bool { return ready }); err != nil {
					return err
				}
				w, err := n.WriteTo(bystander)
				if err != nil {
					return err
				}
				for i := range uint32(tags) {
					if e := n.until("a tag can be written", func() bool {
						err = w.WriteTag(0, nil, i)
						return !errors.Is(err, rats.ErrFull)
					}); e != nil || err != nil {
						return errors.Join(e, err)
					}
				}
				return n.until("the victim has closed", func() bool { return over })
			}
			v := &victim{managed: n}
			if err := n.until("seeds", func() bool { return len(seeds) == clients }); err != nil {
				return err
			}
			if goals, bystander, err = v.open(seeds); err != nil {
				return err
			}
			ready = true
			next := uint32(0)
			if err := n.until("all tags have come", func() bool {
				v.use()
				for g, ok := v.honest.GetTag(); ok; g, ok = v.honest.GetTag() {
					if g.Tag != next || g.From != 2 {
						err = fmt.Errorf("tag %d of node %d came instead of %d", g.Tag, g.From, next)
					}
					next++
				}
				return err != nil || sent && next == tags
			}); err != nil {
				return fmt.Errorf("%w: %d have; sent %v", err, next, sent)
			}
			if err != nil {
				return err
			}
			v.close()
			err = n.until("nothing is in use", func() bool { v.probe(); return n.InUse() == [5]int{} })
			if over = true; err != nil {
				return fmt.Errorf("%w: bytes, areas, credit, key slots, instances: %d", err, n.InUse())
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Finish(2 * time.Minute); err != nil {
		t.Fatal(err)
	}
}
