package hostile

// This file is remote memory (package rats): members of a job, one of whom holds keys that it
// should not use so, or none, or lies, or changes what it shares with its card, or never reads.
// What it does comes back to it, changes no byte of others, and stops nobody: beside it the other
// members' messages and two other users' verified traffic go on.

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
)

const (
	remoteGID = 12 // of the members
	ownedSize = 1 << 16
)

var remoteSizes = funi.RemoteSizes{KeySlots: 16, Areas: 16, Notifications: 32}

// remoteMember is a node of the job with remote memory: a source and memory that it can give keys
// to.
type remoteMember struct {
	t      *testing.T
	name   string
	client *attach.Client
	iface  *funi.Interface
	end    *rats.Endpoint
	source []byte
	keyed  []byte
}

// newRemoteMember attaches one.
func (b *bed) newRemoteMember(t *testing.T, g *group, name string, node uint16, sizes funi.RemoteSizes) *remoteMember {
	t.Helper()
	c, err := attach.Open(attach.Config{Socket: b.sockets[g.cards[node]], GID: g.gid, Node: node, Token: g.token,
		Slots: 256, Remote: sizes, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(0) })
	m := &remoteMember{t: t, name: name, client: c, iface: c.Interface()}
	if sizes == (funi.RemoteSizes{}) {
		return m
	}
	if m.end, err = rats.New(m.iface, int(node), rand.Reader); err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		base   uint32
		rights funi.Rights
		to     *[]byte
	}{{0x100000, funi.Source, &m.source}, {0x200000, funi.Keyed, &m.keyed}} {
		if *s.to, err = c.Segment(s.base, ownedSize, s.rights); err == nil {
			err = m.end.Use(funi.Segment{Base: s.base, Memory: *s.to, Rights: s.rights})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, _ = rand.Read(m.source)
	_, _ = rand.Read(m.keyed)
	return m
}

// until drives the member until something is so.
func (m *remoteMember) until(what string, done func() bool) {
	m.t.Helper()
	for end := time.Now().Add(patience); !done(); m.end.Poll() {
		if m.client.Drive(); m.client.Err() != nil || time.Now().After(end) {
			m.t.Fatalf("%s: not in time: %s; %v", m.name, what, m.client.Err())
		}
	}
}

// ends waits until a request has been carried out, and returns why it came back.
func (m *remoteMember) ends(h rats.Handle, err error) (why arctic.Reason) {
	m.t.Helper()
	if err != nil {
		m.t.Fatalf("%s: %v", m.name, err)
	}
	m.until("a request ends", func() bool {
		s, reason, err := m.end.Status(h)
		why = reason
		return err != nil || s == rats.Failed || s == rats.Sent
	})
	return why
}

// comesBack waits until a message comes back, and returns why.
func (m *remoteMember) comesBack(h rats.Handle, err error) (why arctic.Reason) {
	m.t.Helper()
	if err != nil {
		m.t.Fatalf("%s: %v", m.name, err)
	}
	m.until("a message comes back", func() bool {
		s, reason, err := m.end.Status(h)
		why = reason
		return err != nil || s == rats.Failed
	})
	return why
}

// gives exposes part of the member's memory with an area, and returns the seed for it.
func (m *remoteMember) gives(at, size, credit int) (rats.Seed, rats.Key) {
	m.t.Helper()
	k, _, err := m.end.Expose(m.keyed[at : at+size])
	if err != nil {
		m.t.Fatal(err)
	}
	area, h, err := m.end.Open(k, credit, false)
	if why := m.ends(h, err); why != arctic.ReasonNone {
		m.t.Fatal(why)
	}
	return m.end.Seed(k, area, uint32(size), 0), k
}

// writes sends a message with a seed that is as it should be, which arrives whole; nobody else's
// comes before it.
func (m *remoteMember) writes(to *remoteMember, s rats.Seed, at, size int) {
	m.t.Helper()
	if why := m.ends(m.end.SendMsg(s.Ticket, m.source[:size], uint32(size))); why != arctic.ReasonNone {
		m.t.Fatalf("%s: its message came back: %v", m.name, why)
	}
	var n funi.Notification
	to.until("a record", func() bool { m.client.Drive(); return to.end.NextRecord(&n) })
	if n.Area != s.Area || n.Words != 1 || n.Metadata[0] != uint32(size) ||
		!bytes.Equal(to.keyed[at:at+size], m.source[:size]) {
		m.t.Fatalf("%s: %d bytes: the record is %+v, or the memory another", m.name, size, n)
	}
}

// traffic starts the verified traffic of two other users, and returns what ends and judges it.
func (b *bed) traffic(t *testing.T, l *ledger) (goOn func(when string), end func()) {
	t.Helper()
	_, _, _, goOn, end = b.trafficBeside(t, l)
	return goOn, end
}

// trafficBeside is traffic of groups that have more nodes, on the cards of these hosts. Those on
// host 0 lure the first of them from lure on. shared takes what they say of it.
func (b *bed) trafficBeside(t *testing.T, l *ledger,
	more ...uint16) (groups []*group, shared <-chan string, lure func(), goOn func(when string), end func()) {
	t.Helper()
	counts := make(chan string, 4)
	r := mathrand.New(mathrand.NewPCG(seed(t), 0))
	groups = []*group{b.newGroup("across", acrossGID, firstVictim, r.Uint32(), append([]uint16{0, 1}, more...)...),
		b.newGroup("within", withinGID, firstVictim+1, r.Uint32(), append([]uint16{0, 0}, more...)...)}
	var victims []*actor
	for _, g := range groups {
		for node := range uint16(2) {
			a := &actor{said: make(chan string, 1024)}
			a.process = b.victim(g, node, 1, false,
				options{hear: l.listener(fmt.Sprintf("%s %d", g.name, node), func(s string) {
					if text, ok := strings.CutPrefix(s, "shared "); ok {
						counts <- text
					}
					a.said <- s
				})})
			victims = append(victims, a)
		}
	}
	for _, a := range victims {
		a.await("attached")
	}
	for _, a := range victims {
		a.say("go")
	}
	lure = func() {
		for i, a := range victims {
			if groups[i/2].cards[i%2] == 0 {
				a.say("lure")
			}
		}
	}
	goOn = func(when string) {
		t.Helper()
		for _, a := range victims {
			before := l.total(a.Name)
			until(t, a.Name+" goes on "+when, func() bool { l.check(t); return l.total(a.Name) >= before+progress },
				func() string { return "" })
		}
	}
	return groups, counts, lure, goOn, func() {
		t.Helper()
		for _, word := range []string{"stop", "end"} {
			for _, a := range victims {
				a.say(word)
			}
			for _, a := range victims {
				a.await(map[string]string{"stop": "quiet", "end": "done"}[word])
			}
		}
		for _, a := range victims {
			if err := a.wait(); err != nil {
				t.Errorf("%s: %v\n%s", a.Name, err, a.Complaints())
			}
		}
		l.check(t)
		for _, g := range groups {
			g.end()
		}
	}
}

// TestRemoteMemory: see above, row by row.
func TestRemoteMemory(t *testing.T) {
	long.Test(t)
	b, l := newBed(t, rules(), longSilence), newLedger()
	goOn, end := b.traffic(t, l)
	g := b.newGroup("members", remoteGID, 0, 0, 1, 0, 0, 1, 0)
	owner := b.newRemoteMember(t, g, "the owner", 0, remoteSizes)
	honest := b.newRemoteMember(t, g, "the honest sender", 1, remoteSizes)
	thief := b.newRemoteMember(t, g, "the thief", 2, remoteSizes)
	without := b.newRemoteMember(t, g, "one without remote memory", 3, funi.RemoteSizes{})

	forHonest, _ := owner.gives(0x1000, 0x1000, 4)
	forThief, _ := owner.gives(0x3000, 1000, 4) // what lies before and behind it is others'
	stale, old := owner.gives(0x5000, 0x1000, 4)
	if why := owner.ends(owner.end.Revoke(old)); why != arctic.ReasonNone {
		t.Fatal(why)
	}
	before := bytes.Clone(owner.keyed)
	unchanged := func(what string) {
		t.Helper()
		owner.client.Drive()
		if n := (funi.Notification{}); owner.end.NextRecord(&n) {
			t.Fatalf("%s: the owner is told of %+v", what, n)
		}
		for i := range before {
			if in := i - 0x3000; (in < 0 || in >= 1000) && owner.keyed[i] != before[i] {
				t.Fatalf("%s: byte %#x of the owner's memory is another", what, i)
			}
		}
	}
	goOn("before there is a thief")

	with := func(s rats.Seed, change func(*rats.Ticket)) rats.Ticket {
		change(&s.Ticket)
		return s.Ticket
	}
	for _, row := range []struct {
		name string
		to   rats.Ticket
		size int
		want arctic.Reason
	}{
		{"a guessed key", with(forHonest, func(x *rats.Ticket) { x.Key ^= 1 << 40 }), 10, arctic.ReasonKeySlot},
		{"a guessed key, at length", with(forHonest, func(x *rats.Ticket) { x.Key ^= 1 << 16 }), 4000,
			arctic.ReasonKeySlot},
		{"the right secret of another key slot", with(forHonest, func(x *rats.Ticket) { x.Key += 1 }), 10,
			arctic.ReasonKeySlot},
		{"a key slot beyond the table", with(forHonest, func(x *rats.Ticket) { x.Key |= 0xffff }), 10,
			arctic.ReasonKeySlot},
		{"no key", with(forHonest, func(x *rats.Ticket) { x.Key = 0 }), 10, arctic.ReasonKeySlot},
		{"a stale key", stale.Ticket, 10, arctic.ReasonKeySlot},
		{"a stale key, at length", stale.Ticket, 4000, arctic.ReasonKeySlot},
		{"a byte beyond the end", with(forThief, func(x *rats.Ticket) { x.Size++ }), 1001, arctic.ReasonRange},
		{"a byte behind the end", with(forThief, func(x *rats.Ticket) { x.Offset = 1000 }), 1, arctic.ReasonRange},
		{"nothing behind the end", with(forThief, func(x *rats.Ticket) { x.Offset = 1001 }), 0, arctic.ReasonRange},
		{"the last byte there is", with(forThief, func(x *rats.Ticket) { x.Offset = 1<<32 - 1 }), 1,
			arctic.ReasonRange},
		{"beyond the last byte there is", with(forThief, func(x *rats.Ticket) { x.Offset = 1<<32 - 1 }),
			2, arctic.ReasonRange},
		{"beyond the last byte there is, at length", with(forThief, func(x *rats.Ticket) {
			x.Offset, x.Size = 1<<32-500, 1000
		}), 1000, arctic.ReasonRange},
		{"a seed that lies about its size", with(forThief, func(x *rats.Ticket) { x.Size = ownedSize }), 0x3000,
			arctic.ReasonRange},
		{"another's area", with(forThief, func(x *rats.Ticket) { x.Area = forHonest.Area }), 10, arctic.ReasonArea},
		{"another's area, at length", with(forThief, func(x *rats.Ticket) { x.Area = forHonest.Area }), 900,
			arctic.ReasonArea},
		{"an area that is not open", with(forThief, func(x *rats.Ticket) { x.Area = 15 }), 10, arctic.ReasonArea},
		{"an area beyond the table", with(forThief, func(x *rats.Ticket) { x.Area = 1 << 15 }), 10, arctic.ReasonArea},
		{"a node without remote memory", with(forThief, func(x *rats.Ticket) { x.Node = 3 }), 10, arctic.ReasonKeySlot},
		{"a node beyond the group", with(forThief, func(x *rats.Ticket) { x.Node = 999 }), 10, arctic.ReasonNoRoute},
	} {
		to := row.to
		to.Size = max(to.Size, uint32(row.size))
		if why := thief.comesBack(thief.end.SendMsg(to, thief.source[:row.size])); why != row.want {
			t.Errorf("%s: it came back: %v, want %v", row.name, why, row.want)
		}
		unchanged(row.name)
		honest.writes(owner, forHonest, 0x1000, 100+row.size%900)
		copy(before[0x1000:0x2000], owner.keyed[0x1000:0x2000])
	}
	goOn("beside wrong keys")

	// Forged seeds are none.
	raw := forHonest.Encode()
	for i := range raw {
		raw[i] ^= 4
		if _, err := rats.DecodeSeed(raw[:]); !errors.Is(err, rats.ErrSeed) {
			t.Errorf("a seed with another byte %d: %v", i, err)
		}
		raw[i] ^= 4
	}

	// A count that lies hurts the thief's own area alone.
	lie := with(forThief, func(x *rats.Ticket) { x.Count = 12345 })
	if why := thief.ends(thief.end.SendMsg(lie, thief.source[:10])); why != arctic.ReasonNone {
		t.Fatal(why)
	}
	unchanged("a count that lies")

	// Request blocks that change after they are committed.
	race(thief, forThief)
	unchanged("blocks that change")
	honest.writes(owner, forHonest, 0x1000, 0x1000)
	copy(before[0x1000:0x2000], owner.keyed[0x1000:0x2000])
	goOn("beside blocks that change")

	// Many guesses: only who guesses waits.
	guesses := with(forHonest, func(x *rats.Ticket) { x.Key ^= 1 << 33 })
	waits := func() bool { // the card holds up who guesses more than a thousand times in a second
		for _, x := range b.status(1).Contexts {
			if x.Remote != nil && x.Node == 0 && x.Remote.Refused.KeySlot >= 1000 && x.Remote.Refused.Guessing > 0 {
				return true
			}
		}
		return false
	}
	for until := time.Now().Add(time.Minute); !waits() && time.Now().Before(until); {
		for sent := 0; sent < 3000 && time.Now().Before(until); thief.end.Poll() {
			if _, err := thief.end.SendMsg(guesses, thief.source[:8]); err != nil {
				thief.client.Drive()
				continue
			}
			sent++
		}
	}
	honest.writes(owner, forHonest, 0x1000, 0x1000)
	copy(before[0x1000:0x2000], owner.keyed[0x1000:0x2000])
	unchanged("many guesses")
	goOn("beside many guesses")

	// A reader that stalls for ever, and one that scribbles its ring and says that it has read what
	// there is not.
	stalled := b.newScribbler(t, g, 4)
	for range 100 {
		if _, err := honest.end.SendMsg(stalled.seed.Ticket, honest.source[:60]); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		honest.writes(owner, forHonest, 0x1000, 0x1000)
	}
	// Nor does a long message to it hold the send queue: what follows are more than it has slots.
	if _, err := honest.end.SendMsg(stalled.seed.Ticket, honest.source[:50000]); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		honest.writes(owner, forHonest, 0x1000, 60)
	}
	stalled.scribble()
	for range 20 {
		honest.writes(owner, forHonest, 0x1000, 300)
	}
	goOn("beside a reader that stalls")
	for _, x := range b.status(1).Contexts {
		if u := x.Remote; u != nil && x.Node == 0 && (u.Refused.KeySlot < 1000 || u.Refused.Range == 0 ||
			u.Refused.Area == 0 || u.Refused.Guessing == 0) {
			t.Errorf("the status of the owner says that %+v was refused", u.Refused)
		}
	}
	for _, m := range []*remoteMember{owner, honest, thief, without} {
		_ = m.client.Close(0)
	}
	stalled.k.Close()
	end()
	g.end()
	b.empty()
	b.alive()
}

// race commits requests of the thief's and changes them while the card reads them, whatever comes
// back.
func race(m *remoteMember, s rats.Seed) {
	m.t.Helper()
	r := mathrand.New(mathrand.NewPCG(1, 1))
	for range 20000 {
		slot := m.iface.Reserve(funi.Request)
		if slot == nil {
			for back, ok := m.iface.NextReturn(); ok; back, ok = m.iface.NextReturn() {
				_ = back
			}
			m.client.Drive()
			continue
		}
		size := r.IntN(2000)
		slot.SetPut(s.Node, &funi.Put{Key: s.Key, Area: s.Area, Counted: true, Count: 1, Source: 0x100000, Length: size,
			Offset: uint32(r.IntN(1000))})
		m.iface.Commit(funi.Request)
		for range r.IntN(20) {
			atomic.StoreUint32(&slot[[]int{funi.RemoteOffsetWord, funi.RemoteLengthWord, funi.RemoteSourceWord,
				funi.RemoteAreaWord, funi.RemoteKeyWord}[r.IntN(5)]], r.Uint32()>>r.IntN(32))
		}
	}
	m.until("all is taken", func() bool { m.iface.NextReturn(); return m.iface.Unsent(funi.Request) == 0 })
}

// scribbler is a member that opens memory with an area of credit 1, never reads a record, and
// writes anything over its notification ring.
type scribbler struct {
	k     *client.Connection
	words []uint32
	seed  rats.Seed
}

// newScribbler attaches one.
func (b *bed) newScribbler(t *testing.T, g *group, node uint16) *scribbler {
	t.Helper()
	k, err := client.Dial(b.sockets[g.cards[node]])
	if err == nil {
		err = k.Attach(attach.AttachRequest{GID: g.gid, Node: node, Slots: 64, Remote: remoteSizes, Token: g.token})
	}
	if err == nil {
		_, err = k.Segment(attach.SegmentRequest{Base: 0x200000, Bytes: ownedSize, Rights: funi.Keyed})
	}
	if err == nil {
		err = k.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	const key = 0x1234567 << 16
	for _, compose := range []func(*funi.Slot){
		func(s *funi.Slot) { s.SetOpenKeySlot(key, 0x200000, ownedSize, 0) },
		func(s *funi.Slot) { s.SetOpenArea(0, key, 1, false, 0) },
	} {
		compose(k.Iface.Reserve(funi.Request))
		k.Iface.Commit(funi.Request)
	}
	k.Wake()
	until(t, "the scribbler's memory is open", func() bool {
		return k.Iface.Unsent(funi.Request) == 0
	}, func() string { return "" })
	return &scribbler{k: k, words: wordsOf(k.Maps[0]),
		seed: rats.Seed{Ticket: rats.Ticket{Node: node, Key: key, Size: ownedSize}}}
}

// scribble writes over the indices and the sizes, and over the ring and what the card keeps behind
// it.
func (s *scribbler) scribble() {
	r := mathrand.New(mathrand.NewPCG(2, 2))
	ring := remoteSizes.Bytes() / 4
	for range 100000 {
		at := []int{0x600 / 4, 0x640 / 4, 0x640 / 4, 0x680 / 4, 0x688 / 4, 0x690 / 4,
			len(s.words) - 1 - r.IntN(ring)}[r.IntN(7)]
		atomic.StoreUint32(&s.words[at], r.Uint32()>>r.IntN(32))
	}
}
