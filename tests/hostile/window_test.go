package hostile

// This file is windows (package rma). One member of a job uses its key for what the key does not
// permit, guesses other keys, and changes what it has committed. It floods the owner with gets, or
// never reads its notifications. What it does comes back to it, changes no byte of others, and
// stops no other member.

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	mathrand "math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

const (
	windowGID  = 13 // of the members
	windowBase = 0x200000
	// windowAddress is that of the first byte of windows.
	windowAddress = 0x7fff_0000_0000
)

var windowSizes = funi.RemoteSizes{KeySlots: 8, Areas: 1, Notifications: 256}

// windowMember is a node of the job.
type windowMember struct {
	*rma.Endpoint
	t      *testing.T
	name   string
	node   uint16
	client *attach.Client
	memory []byte
}

// newWindowMember attaches one.
func (b *bed) newWindowMember(t *testing.T, g *group, name string, node uint16) *windowMember {
	t.Helper()
	c, err := attach.Open(attach.Config{Socket: b.sockets[g.cards[node]], GID: g.gid, Node: node, Token: g.token,
		Slots: 256, Remote: windowSizes, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(0) })
	m := &windowMember{t: t, name: name, node: node, client: c}
	if m.memory, err = c.Segment(windowBase, ownedSize, funi.Keyed|funi.Source); err == nil {
		end := time.Time{}
		m.Endpoint, err = rma.New(c.Interface(), rand.Reader, func() error {
			if c.Drive(); end.IsZero() {
				end = time.Now().Add(20 * patience)
			}
			if time.Now().After(end) {
				return errors.New("not in time")
			}
			return c.Err()
		})
	}
	if err == nil {
		err = m.Use(funi.Segment{Base: windowBase, Memory: m.memory, Rights: funi.Keyed | funi.Source})
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _ = rand.Read(m.memory)
	return m
}

// exposes opens a window over part of the member's memory, and returns the target of its first
// byte.
func (m *windowMember) exposes(at, size int, o rma.Options) (*rma.Window, rma.Target) {
	m.t.Helper()
	o.Address = windowAddress
	w, err := m.Expose(m.memory[at:at+size], o)
	if err != nil {
		m.t.Fatalf("%s: %v", m.name, err)
	}
	return w, w.Target(m.node)
}

// reason waits for an operation, and returns why it failed.
func (m *windowMember) reason(id rma.ID, err error) arctic.Reason {
	m.t.Helper()
	if err == nil {
		_, err = m.Wait(id)
	}
	var e *rma.Error
	switch {
	case err == nil:
		return arctic.ReasonNone
	case !errors.As(err, &e):
		m.t.Fatalf("%s: %v", m.name, err)
	}
	return e.Reason
}

// adds has the honest member add some times, and checks that each add is there once.
func (m *windowMember) adds(to rma.Target, times int) {
	m.t.Helper()
	last := uint64(0)
	for i := range times {
		id, err := m.Add(to, 1)
		if err != nil {
			m.t.Fatalf("%s: %v", m.name, err)
		}
		r, err := m.Wait(id)
		if err != nil || i > 0 && r.Uint64() != last+1 {
			m.t.Fatalf("%s: add %d answers %d after %d: %v", m.name, i, r.Uint64(), last, err)
		}
		last = r.Uint64()
	}
}

// TestWindows: see above, row by row.
func TestWindows(t *testing.T) {
	long.Test(t)
	b, l := newBed(t, rules(), longSilence), newLedger()
	goOn, end := b.traffic(t, l)
	g := b.newGroup("members", windowGID, 0, 0, 1, 0, 0, 1)
	owner := b.newWindowMember(t, g, "the owner", 0)
	honest := b.newWindowMember(t, g, "the honest one", 1)
	thief := b.newWindowMember(t, g, "the thief", 2)

	_, forHonest := owner.exposes(0x1000, 64, rma.Options{})
	readable, forThief := owner.exposes(0x3000, 0x8000, rma.Options{Rights: funi.RightRead})
	old, stale := owner.exposes(0xc000, 64, rma.Options{})
	if err := owner.Revoke(old); err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(owner.memory)
	unchanged := func(what string) {
		t.Helper()
		for i := range before {
			if (i < 0x1000 || i >= 0x1008) && owner.memory[i] != before[i] {
				t.Fatalf("%s: byte %#x of the owner's memory is another", what, i)
			}
		}
	}
	with := func(to rma.Target, key rma.Key, address uint64) rma.Target {
		to.Key ^= key
		to.Address += address
		return to
	}
	word := word64(1)
	for _, row := range []struct {
		name string
		to   rma.Target
		op   arctic.Operation
		size int
		want arctic.Reason
	}{
		{"a guessed key", with(forHonest, 1<<40, 0), arctic.RemoteAdd, 8, arctic.ReasonKeySlot},
		{"a neighbour's number", with(forHonest, 1, 0), arctic.RemoteGet, 8, arctic.ReasonKeySlot},
		{"a number beyond the table", with(forHonest, 0xfff0, 0), arctic.RemotePut, 8, arctic.ReasonKeySlot},
		{"a stale key", stale, arctic.RemotePut, 8, arctic.ReasonKeySlot},
		{"a stale key, at length", stale, arctic.RemotePut, 5000, arctic.ReasonKeySlot},
		{"writing where one may read", forThief, arctic.RemotePut, 8, arctic.ReasonRights},
		{"writing where one may read, at length", forThief, arctic.RemotePut, 5000, arctic.ReasonRights},
		{"adding where one may read", forThief, arctic.RemoteAdd, 8, arctic.ReasonRights},
		{"a lock where one may read", forThief, arctic.RemoteLock, 0, arctic.ReasonRights},
		{"before the window", with(forThief, 0, 1<<64-8), arctic.RemoteGet, 8, arctic.ReasonRange},
		{"behind the window", with(forThief, 0, 0x8000), arctic.RemoteGet, 1, arctic.ReasonRange},
		{"across its end", with(forThief, 0, 0x7ff8), arctic.RemoteGet, 9, arctic.ReasonRange},
		{"across its end, at length", with(forThief, 0, 0x4000), arctic.RemoteGet, 0x4001, arctic.ReasonRange},
		{"an address that wraps", rma.Target{Node: 0, Key: forThief.Key, Address: arctic.MaxAddress}, arctic.RemoteGet,
			64, arctic.ReasonRange},
		{"an address that wraps, at length", rma.Target{Node: 0, Key: forThief.Key, Address: arctic.MaxAddress - 100},
			arctic.RemoteGet, 5000, arctic.ReasonRange},
		{"misaligned", with(forThief, 0, 4), arctic.RemoteRead, 8, arctic.ReasonAlignment},
		{"nobody's node", rma.Target{Node: 999, Key: forThief.Key}, arctic.RemoteRead, 8, arctic.ReasonNoRoute},
	} {
		var why arctic.Reason
		switch row.op {
		case arctic.RemoteGet:
			why = thief.reason(thief.Get(row.to, thief.memory[:row.size], rma.With{}))
		case arctic.RemotePut:
			why = thief.reason(thief.Put(row.to, thief.memory[:row.size], rma.With{Ack: true}))
		case arctic.RemoteRead:
			why = thief.reason(thief.Read(row.to))
		case arctic.RemoteLock:
			_, err := thief.TryLock(row.to)
			why = thief.reason(0, err)
		default:
			why = thief.reason(thief.Apply(row.to, row.op, arctic.Uint64, word, 0, rma.With{}))
		}
		if why != row.want {
			t.Errorf("%s: %v, want %v", row.name, why, row.want)
		}
		unchanged(row.name)
		honest.adds(forHonest, 3)
	}
	goOn("beside forbidden operations")

	// Blocks that change after they are committed.
	raceOperations(thief, forThief)
	unchanged("blocks that change")
	honest.adds(forHonest, 100)
	goOn("beside blocks that change")

	// A flood of gets, whose window is closed meanwhile.
	flood := make(chan bool)
	var got, refused atomic.Int64
	go func() {
		defer close(flood)
		for refused.Load() < 100 {
			id, err := thief.Get(forThief, thief.memory[:0x8000], rma.With{})
			if err == nil {
				_, err = thief.Wait(id)
			}
			switch {
			case err == nil:
				got.Add(1)
			case errors.Is(err, rma.ErrKey):
				refused.Add(1)
			default:
				t.Errorf("the flood: %v", err)
				return
			}
		}
	}()
	until(t, "the flood runs", func() bool { honest.adds(forHonest, 20); return got.Load() > 50 },
		func() string { return "" })
	goOn("beside a flood of gets")
	if err := owner.Revoke(readable); err != nil {
		t.Fatal(err)
	}
	clear(owner.memory[0x3000:0xb000])
	copy(before[0x3000:0xb000], owner.memory[0x3000:0xb000])
	until(t, "the flood is refused", func() bool { honest.adds(forHonest, 20); return refused.Load() >= 100 },
		func() string { return "" })
	<-flood
	unchanged("a window that was revoked")

	// One that is notified and never reads: those who notify it wait, and for nothing else.
	_, deaf := thief.exposes(0, 64, rma.Options{Notifications: 1})
	for range 30 {
		if _, err := honest.Put(deaf, word, rma.With{Notify: true}); err != nil {
			t.Fatal(err)
		}
	}
	honest.adds(forHonest, 200)
	goOn("beside one that reads no notification")
	for _, x := range b.status(0).Contexts {
		if u := x.Remote; u != nil && x.GID == windowGID && x.Node == 0 &&
			(u.Refused.Rights == 0 || u.Refused.Operand == 0 || u.Refused.Range == 0 || u.Operations == 0) {
			t.Errorf("the status of the owner says %+v", u)
		}
	}
	for _, m := range []*windowMember{thief, honest, owner} {
		_ = m.client.Close(0)
	}
	end()
	g.end()
	b.empty()
	b.alive()
}

func word64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// raceOperations commits operations of the thief's and changes them while the card reads them,
// whatever comes back. All name a window that it may only read, so nothing of the owner's changes.
func raceOperations(m *windowMember, to rma.Target) {
	m.t.Helper()
	r := mathrand.New(mathrand.NewPCG(3, 3))
	iface := m.client.Interface()
	var n funi.Notification
	take := func() {
		for _, ok := iface.NextReturn(); ok; _, ok = iface.NextReturn() {
		}
		for iface.NextNotification(&n) {
		}
	}
	for range 20000 {
		slot := iface.Reserve(funi.Request)
		if slot == nil {
			take()
			m.client.Drive()
			continue
		}
		o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.Operation(r.IntN(16)),
			Element: arctic.Uint64, Key: uint64(to.Key), Address: to.Address + uint64(r.IntN(0x9000)), Bytes: 8,
			Fetch: true, Operands: word64(1)}}
		if r.IntN(2) == 0 {
			o.Operation, o.Source, o.Length, o.Fetch, o.Element = arctic.Operation(r.IntN(2)), windowBase,
				r.IntN(5000), false, 0
			o.Operands = nil
		}
		slot.SetOperation(to.Node, &o)
		iface.Commit(funi.Request)
		for range r.IntN(20) {
			at := []int{1, 3, funi.RemoteKeyWord, funi.RemoteOffsetWord, funi.RemoteSourceWord, funi.RemoteLengthWord,
				funi.RemoteDataWord, funi.RemoteDataWord + 1}[r.IntN(8)]
			atomic.StoreUint32(&slot[at], r.Uint32()>>r.IntN(32))
		}
		take()
	}
	until(m.t, "all is taken", func() bool { m.client.Drive(); take(); return iface.Unsent(funi.Request) == 0 },
		func() string { return "" })
	// What was asked for is answered or given up before the library counts its own again.
	quiet := time.Now().Add(200 * time.Millisecond)
	for time.Now().Before(quiet) {
		m.client.Drive()
		take()
	}
}
