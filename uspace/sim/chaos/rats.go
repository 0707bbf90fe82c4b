package chaos

// This file has what processes do with package rats while all other faults happen: sessions of
// every protocol, each between two members and, for groups, a third. Data is a function of the
// session and of a number. So the receiver can tell whether it is whole, came once, and came to the
// right place. conversation.go has the protocols.
//
// Seeds travel outside the network, in no time. A session ends early when one of its members dies,
// or by an error that a fault explains. All other sessions must be complete when the network has
// fallen silent. Then all members close everything: all memory, areas, credits, key slots and
// instances must be free again. No byte may have changed for which no key was given out.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
	"github.com/funet/funet/uspace/sim"
)

const (
	keyedBase  = 0x3000_0000
	guardBytes = 4096 // the length of the memory beside the shared parts that nothing may write to
	// readBytes is how much of a member others read, and partBytes how much of a part they write
	// to.
	readBytes      = 4096
	partBytes      = 1024
	parts          = 16
	sessionsAtOnce = 8 // how many sessions a member has at once in each role
	staleWrites    = 4 // how many writes with closed keys a member tries
	// leastSlots is the least initial size of send queues where rats is used: its servers open with
	// many requests at once.
	leastSlots = 32
)

// stage is the stage of the run, for sessions.
type stage uint8

const (
	talking stage = iota // sessions go on
	asking               // each asks whether the other end is still there
	closing              // everything is closed
)

// keyed is what a life of a member has of package rats.
type keyed struct {
	*rats.Manager
	m       *member
	p       *sim.Process
	all     []byte // the segment
	guard   []byte
	port    *rats.Port
	target  *rats.Target
	reads   *rats.ReadServer
	server  *rats.Server
	stage   stage
	asked   bool
	wanted  []*session // to be opened here
	opening []*session // whose keys the card has not opened yet
	mine    []*session // begun here
	serves  []*session // opened here
	helps   []*session // groups of others that wait for a part to be sent
	taken   [parts]bool
	held    []rats.Datagram
	pending []rats.Request // not answered yet
	stale   []rats.Handle  // of writes with keys that were closed
	due     int64          // when something is to be done; Never
	ends    []closer
}

// closer is an instance, which is closed, or asks whether the other end is there.
type closer interface {
	Close()
	Closed() bool
	Probe()
	Err() error
}

// remoteSizes is how much remote memory members have.
func (s *Scenario) remoteSizes() funi.RemoteSizes {
	switch {
	case s.Faults&remote == 0:
		return funi.RemoteSizes{}
	case s.Nodes > 64:
		return funi.RemoteSizes{KeySlots: 64, Areas: 128, Notifications: 256}
	}
	return funi.RemoteSizes{KeySlots: 256, Areas: 512, Notifications: 1024}
}

// keys is the source of randomness for the keys of a life.
type keys struct{ *rand.ChaCha8 }

func (m *member) newKeyed() {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], m.run.scenario.Seed)
	binary.LittleEndian.PutUint64(seed[8:], uint64(m.number)<<32|uint64(m.attached))
	e := must(rats.New(m.process.Interface(), int(m.node), keys{rand.NewChaCha8(seed)}))
	k := &keyed{m: m, p: m.process, all: make([]byte, max(128<<10, min(512<<10, 2*maxMemory/m.run.scenario.Nodes))),
		due: sim.Never}
	segment := funi.Segment{Base: keyedBase, Memory: k.all, Rights: funi.Keyed | funi.Source}
	succeed(m.process.Context().Register(segment))
	k.Manager = must(rats.Manage(e, segment))
	e.Others = func(b funi.Returned) {
		if !m.unsent(b) && !m.notCarriedOut(b) && (m.windows == nil || !m.windows.returned(b)) {
			m.run.oracle.returned(m, b)
		}
	}
	k.OtherNotes = m.noted
	m.keyed = k
	var err error
	if k.server, err = k.Serve(m.serverKey()); !errors.Is(err, rats.ErrFull) {
		succeed(err)
	}
	k.guard = must(k.Alloc(guardBytes))
	fill(k.guard, ^uint32(m.number), 0)
	k.port = must(k.NewPort(datagramBytes, 3))
	k.target = must(k.NewTarget(must(k.Alloc(parts*partBytes)), 4))
	readable := must(k.Alloc(readBytes))
	fill(readable, m.life(), 0)
	k.reads = must(k.NewReadServer(readable))
}

func must[T any](v T, err error) T {
	succeed(err)
	return v
}

func succeed(err error) {
	if err != nil {
		panic(err)
	}
}

func (m *member) life() uint32 { return uint32(m.number)<<16 | uint32(m.attached) }

// serverKey returns the key of the group's servers for initial requests.
func (m *member) serverKey() rats.Key { return rats.Key(uint64(m.gid)<<32|0x5ea1) << 16 }

// fill writes into b the data of number i of a session, from a place on.
func fill(b []byte, number uint32, i int) {
	x := number*2654435761 ^ uint32(i)*0x9e3779b9
	for j := range b {
		b[j] = byte(x>>(8*(j&3))) + byte(j)
	}
}

// holds reports whether b has the data that fill writes there.
func holds(b []byte, number uint32, i int) bool {
	want := make([]byte, len(b))
	fill(want, number, i)
	return bytes.Equal(b, want)
}

// converse begins a session with a member of the group.
func (m *member) converse() {
	k, to := m.keyed, m.run.members[m.choose()]
	if len(k.mine) >= sessionsAtOnce || to.process == nil || to.keyed == nil {
		return
	}
	s := &session{number: uint32(len(m.run.sessions) + 1), kind: m.random.IntN(sessionKinds), from: m, to: to,
		fromLife: m.attached, toLife: to.attached,
		total: 1 + m.random.IntN(16), part: none}
	if s.kind == streamSession {
		s.total = 1 + m.random.IntN(6000<<m.random.IntN(4))
	}
	if third := m.run.members[m.choose()]; s.kind == groupSession && third.process != nil {
		s.third, s.thirdLife = third, third.attached
	}
	m.run.sessions = append(m.run.sessions, s)
	k.mine = append(k.mine, s)
	if s.kind == streamSession && m.random.IntN(2) == 0 {
		s.senderFirst = true // the client makes the seed, and then it is wanted
		return
	}
	to.keyed.wanted = append(to.keyed.wanted, s)
	to.process.Wake()
}

// none stands for no part of a target.
const none = -1

// step advances everything of a life as far as it can. It never waits.
func (k *keyed) step() {
	k.Poll()
	k.due = sim.Never
	k.open()
	k.receive()
	k.mine = slices.DeleteFunc(k.mine, k.client) // goes on with all, and forgets those over
	k.serves = slices.DeleteFunc(k.serves, k.serve)
	k.help()
	if k.stage == asking && !k.asked {
		k.asked = true
		for _, e := range k.ends {
			if _, asks := e.(*rats.Inquiry); !asks && !e.Closed() { // that is asked again as it is
				e.Probe()
			}
		}
		k.tryClosed()
	}
	if k.stage == closing {
		k.closeAll()
	}
	k.Poll() // what was begun leaves now
	k.ends = slices.DeleteFunc(k.ends, closer.Closed)
}

func (k *keyed) closeAll() {
	if k.port == nil {
		return
	}
	if k.server != nil {
		k.server.Close()
	}
	k.port.Close()
	k.target.Close()
	k.reads.Close()
	k.port, k.held = nil, nil
	for _, e := range k.ends {
		e.Close()
	}
}

// judge records that an end of a session has failed, and whether a fault explains that.
func (k *keyed) judge(s *session, end *error, err error) {
	if err == nil || *end != nil {
		return
	}
	*end = err
	r := k.m.run
	var f *rats.Failure
	switch {
	case k.stage == closing:
	case !errors.Is(err, rats.ErrAborted) && (!errors.As(err, &f) || !slices.Contains(explained, f.Reason)):
		r.damaged("%v: %v", s, err)
	case r.scenario.Faults&^calm == 0:
		r.lost("%v failed, and nothing was wrong: %v", s, err)
	}
}

// explained lists the reasons of failures that faults explain.
var explained = []arctic.Reason{arctic.ReasonNoContext, arctic.ReasonSilent, arctic.ReasonRestarted,
	arctic.ReasonDeparted, arctic.ReasonJob, arctic.ReasonResynchronised, rats.NoReason, arctic.ReasonReplaced,
	arctic.ReasonSourceNode, arctic.ReasonKeySlot, arctic.ReasonArea, arctic.ReasonKey}

// calm has the faults that explain no failure of a session.
const calm = remote | Transfer | Resize | Switch | Sizes | Dup | Reorder | Moves | Defer | Bundles

// settle ends all sessions on the fair and silent network. It checks that they were complete and
// that everything is free.
func (r *run) settle() bool {
	// The second time those hear it whose other end has closed only the first time.
	for i, next := range []stage{asking, asking, closing, asking} {
		for _, m := range r.members {
			m.keyed.stage, m.keyed.asked = next, false
			if m.inbox != nil {
				m.inbox.settles = true
			}
			m.process.Wake()
		}
		r.fair = r.world.Now()
		if !r.happen() {
			return false
		}
		if i != 1 {
			continue
		}
		for _, m := range r.members {
			for _, h := range m.keyed.stale {
				r.closedKeys++
				if st, _, err := m.keyed.Status(h); err != nil || st != rats.Failed {
					r.damaged("member %d wrote with a key that was closed, and the write has not come back: status %d, %v",
						m.number, st, err)
				}
			}
		}
		for _, s := range r.sessions {
			if why := s.missing(); why != "" {
				r.stuck("%v is not complete: %s", s, why)
			}
		}
	}
	r.settleLost()
	if r.scenario.Faults&RMA != 0 {
		r.settleWindows()
	}
	r.settleChains()
	r.settlePaths()
	if r.scenario.Faults&Sends != 0 {
		r.settleLetters()
	}
	for _, m := range r.members {
		k := m.keyed
		if !holds(k.guard, ^uint32(m.number), 0) {
			r.damaged("member %d: memory has changed that nobody had a key to", m.number)
		}
		k.Free(k.guard)
		if m.windows != nil {
			k.GiveKeySlot(m.windows.slot)
		}
		if left := k.InUse(); left != [5]int{} {
			r.stuck("member %d has closed everything, and has bytes, areas, credit, key slots and instances in use: %d",
				m.number, left)
		}
	}
	return r.result.Stuck == 0
}
