package rats

// This file implements the manager (HPL-95-86, section 3.2). It administers memory that other
// processes may write to, and keys and areas for the instances of protocols. It gives each instance
// the messages that arrive for it.
//
// An instance is one end of one protocol. The manager takes back everything that an instance opens.
// A key or an area is free again when the card has carried out the closing and all earlier records
// have been read. So late messages cannot reach the next holder of the key or area.

import (
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// MaxInstances is the largest number of instances of a manager.
const MaxInstances = 1 << 16

// protocol is an instance, as the manager sees it. None of its methods waits.
type protocol interface {
	// arrived handles a record of one of the instance's areas (3.2, process_arrival).
	arrived(n *funi.Notification)
	// returned handles a returned message of the instance.
	returned(r funi.Returned)
	turn() bool // sends what could not be sent before. It returns false if there is more.
	// suspect reports that requests were returned and the card had no room to say of which nodes.
	suspect(l *funi.Lost)
}

type instance struct {
	m       *Manager
	number  uint16
	waits   bool // it is in Manager.waiting
	told    bool // it is in Manager.ready
	what    protocol
	Context any // for the user of the instance; the manager does not look at it
}

// place is a place in the manager's table. The generation keeps returns for its last instance from
// the next.
type place struct {
	what       *instance
	generation uint16 // 15 bits
}

// owner identifies the instance that an area belongs to.
type owner struct {
	what   *instance // nil: none
	credit int
}

// later is an action for when the slots up to at are retired and all records have been read.
type later struct {
	at     uint64
	memory []byte // to be freed
	area   int    // its number may be used again; none
	credit int    // and its credit
	key    int    // likewise, a key slot
}

// Manager administers an endpoint. It belongs to the endpoint's goroutine.
type Manager struct {
	*Endpoint
	heap    heap
	nothing []byte // memory of ends to which no data is written
	places  []place
	vacant  []uint16
	owners  []owner // of areas
	credit  int     // that areas have
	later   []later // in the order of at
	lanes   map[uint16]*lane
	onLanes []onLane    // in the order of at
	waiting []*instance // have something to send; the first has waited longest
	turns   []*instance // those of the Poll under way
	ready   []*instance // something has happened to them
	looked  int         // at how many of these NextReady has
	asked   uint32      // inquiries so far
	record  funi.Notification
}

// Manage returns a manager of an endpoint. The segment has the rights Keyed and Source, and the
// manager hands its memory out. All of the endpoint's records and returns belong to the manager
// from now on. Errors are those of Use.
func Manage(e *Endpoint, s funi.Segment) (*Manager, error) {
	if err := e.Use(s); err != nil {
		return nil, fmt.Errorf("managing memory for messages: %w", err)
	}
	if s.Rights&(funi.Keyed|funi.Source) != funi.Keyed|funi.Source {
		return nil, fmt.Errorf("managing a segment with rights %d: %w", s.Rights, ErrMemory)
	}
	m := &Manager{Endpoint: e, lanes: map[uint16]*lane{}, owners: make([]owner, e.iface.Remote().Areas)}
	m.heap.fill(s.Memory)
	if m.nothing = m.heap.alloc(leastBlock); m.nothing == nil {
		return nil, fmt.Errorf("managing %d bytes: %w", len(s.Memory), ErrFull)
	}
	e.owned, e.suspect = m.cameBack, m.suspects
	return m, nil
}

// Alloc returns memory that can be exposed, and from which messages can be sent without a copy. It
// has the given number of bytes and begins on a multiple of 256. Its contents are arbitrary. It
// returns ErrFull.
func (m *Manager) Alloc(bytes int) ([]byte, error) {
	b := m.heap.alloc(bytes)
	if b == nil {
		return nil, fmt.Errorf("allocating %d bytes of %d that are free: %w", bytes, m.heap.unused, ErrFull)
	}
	return b, nil
}

// Free takes back memory that Alloc returned. By then no process may have a key to it, and nothing
// may be in flight from it.
func (m *Manager) Free(b []byte) { m.heap.release(b) }

// InUse returns how many bytes of memory, areas, credit of theirs, key slots and instances are in
// use, in this order.
func (m *Manager) InUse() [5]int {
	whole := len(m.heap.order)*leastBlock - leastBlock // but for what nobody writes to
	return [5]int{whole - m.heap.unused, len(m.owners) - m.areas.n, m.credit, len(m.keys) - m.keySlots.n,
		len(m.places) - len(m.vacant)}
}

// Room returns how many requests the send queue has room for.
func (m *Manager) Room() int { return m.iface.Slots() - 1 - m.iface.Unsent(funi.Request) }

// Settled reports whether the card has carried out all requests so far. A seed sent on the request
// level is valid when it arrives, because the card opens its key before. A seed that travels some
// other way, perhaps faster, is valid once Settled has returned true.
func (m *Manager) Settled() bool { return m.iface.Unsent(funi.Request) == 0 }

// Unused returns how many bytes of memory are free; they need not be contiguous.
func (m *Manager) Unused() int { return m.heap.unused }

// Poll reads returns and records, gives them to their instances, and lets instances send what they
// could not send before. It returns whether there was anything. NextReady then returns the
// instances that something has happened to.
func (m *Manager) Poll() (some bool) {
	// as mostly, while somebody waits
	if len(m.waiting)+len(m.later)+len(m.onLanes) == 0 && !m.iface.Brought(m.lost) {
		m.looksInVain()
		return len(m.ready) > m.looked
	}
	return m.poll()
}

func (m *Manager) poll() (some bool) {
	m.look()
	retired := m.sent.retired
	m.Endpoint.Poll()
	n := &m.record
	// whoever sends all the time does not keep the process here
	left := m.iface.Remote().Notifications
	for ; left > 0 && m.NextRecord(n); left-- {
		if i := m.owners[int(n.Area)%len(m.owners)].what; i != nil {
			m.takes(i.what, !some)
		}
		some = true
		// the card's word, bounded all the same
		if i := m.owners[int(n.Area)%len(m.owners)].what; i != nil {
			i.what.arrived(n)
		}
	}
	if left > 0 {
		m.free(retired)
	}
	if !some {
		m.looksInVain()
	}
	m.clearLanes(retired)
	m.waiting, m.turns = m.turns[:0], m.waiting
	for _, i := range m.turns {
		i.waits = false
		if !i.what.turn() {
			m.await(i)
		}
	}
	return some || len(m.ready) > m.looked
}

// NextReady returns the Context of the next instance that something has happened to since it was
// last returned: messages have arrived, there is room to send, or it has failed (3.2, next_ready).
// It returns false if there is none. Instances without a Context are not returned.
func (m *Manager) NextReady() (context any, ok bool) {
	for m.looked < len(m.ready) {
		i := m.ready[m.looked]
		m.looked++
		i.told = false
		if i.Context != nil {
			return i.Context, true
		}
	}
	m.ready, m.looked = m.ready[:0], 0
	return nil, false
}

// room reports whether an instance with the given needs can be opened. It needs one request for
// each area and one more, one key slot, and credit.
func (m *Manager) room(areas, credit int) bool {
	return m.Room() > areas && m.keySlots.n > 0 && m.areas.n >= areas &&
		m.credit+credit <= m.iface.Remote().Notifications
}

// freeLater frees memory when the card has taken everything that was committed so far.
func (m *Manager) freeLater(memory []byte) {
	m.later = append(m.later, later{at: m.iface.Committed(funi.Request), memory: memory, area: none, key: none})
}

// await lets an instance have a turn at the next Poll.
func (m *Manager) await(i *instance) {
	if !i.waits {
		i.waits = true
		m.waiting = append(m.waiting, i)
	}
}

func (m *Manager) tell(i *instance) {
	if !i.told {
		i.told = true
		m.ready = append(m.ready, i)
	}
}

func (m *Manager) add(i *instance, what protocol) error {
	i.m, i.what = m, what
	if n := len(m.vacant); n > 0 {
		i.number = m.vacant[n-1]
		m.vacant = m.vacant[:n-1]
		m.places[i.number].what = i
		return nil
	}
	if len(m.places) == MaxInstances {
		return fmt.Errorf("one instance more than %d: %w", MaxInstances, ErrFull)
	}
	i.number = uint16(len(m.places))
	m.places = append(m.places, place{what: i})
	return nil
}

// drop removes an instance. Its later returns are ignored.
func (m *Manager) drop(i *instance) {
	p := &m.places[i.number]
	*p = place{generation: (p.generation + 1) & 0x7fff}
	m.vacant = append(m.vacant, i.number)
	i.what = gone{}
}

// gone is an instance that was closed and is still in a list.
type gone struct{}

func (gone) arrived(*funi.Notification) {}
func (gone) returned(funi.Returned)     {}
func (gone) turn() bool                 { return true }
func (gone) suspect(*funi.Lost)         {}

func (i *instance) cookie() uint32 {
	return ownerCookie | uint32(i.m.places[i.number].generation)<<16 | uint32(i.number)
}

func (m *Manager) cameBack(r funi.Returned) {
	n := int(r.Word & 0xffff)
	if n >= len(m.places) || m.places[n].what == nil || m.places[n].generation != uint16(r.Word>>16&0x7fff) {
		return
	}
	m.places[n].what.what.returned(r)
}

// suspects tells all instances for which nodes returns were lost.
func (m *Manager) suspects(l *funi.Lost) {
	for i := range m.places {
		if what := m.places[i].what; what != nil {
			what.what.suspect(l)
		}
	}
}

// send launches a message of an instance. It returns false if the send queue is full; the message
// must be one that SendMsg takes.
func (i *instance) send(t Ticket, offset uint32, data []byte, metadata []uint32, counted bool) bool {
	source, err := i.m.source(&t, offset, data, len(metadata))
	if err != nil {
		panic(fmt.Sprintf("rats: an instance sends what cannot be sent: %v", err))
	}
	i.m.Endpoint.sends(i.what, source == 0, len(data), len(metadata)*arctic.WordSize)
	i.m.look()
	s := i.m.iface.Reserve(funi.Request)
	if s == nil {
		return false
	}
	p := t.put(offset, source, data, metadata, counted)
	p.Cookie = i.cookie()
	s.SetPut(t.Node, &p)
	i.m.iface.Commit(funi.Request)
	return true
}

// expose gives a key to memory that Alloc returned.
func (i *instance) expose(memory []byte) (Key, error) {
	k, address, err := i.m.draw(memory)
	if err != nil {
		return 0, err
	}
	if _, ok := i.m.commit(i.cookie(), func(s *funi.Slot, cookie uint32) {
		s.SetOpenKeySlot(uint64(k), address, uint32(len(memory)), cookie)
	}); !ok {
		return 0, ErrFull
	}
	i.m.opened(k)
	return k, nil
}

func (i *instance) open(k Key, credit int, returns bool) (uint16, error) {
	area, ok := i.m.areas.next()
	if !ok || i.m.credit+credit > i.m.iface.Remote().Notifications {
		return 0, fmt.Errorf("opening an area: %w", ErrFull)
	}
	if _, ok := i.m.commit(i.cookie(), func(s *funi.Slot, cookie uint32) {
		s.SetOpenArea(area, uint64(k), credit, returns, cookie)
	}); !ok {
		return 0, fmt.Errorf("opening an area: %w", ErrFull)
	}
	i.m.areas.take()
	i.m.owners[area] = owner{i, credit}
	i.m.credit += credit
	return area, nil
}

// shut closes an area; it returns false if the send queue is full.
func (i *instance) shut(area uint16) bool {
	at, ok := i.m.commit(i.cookie(), func(s *funi.Slot, cookie uint32) { s.SetCloseArea(area, cookie) })
	if ok {
		i.m.later = append(i.m.later, later{at: at, area: int(area), credit: i.m.owners[area].credit, key: none})
		i.m.owners[area] = owner{}
	}
	return ok
}

// revoke takes a key back, and then frees its memory unless that is nil. It returns false if the
// send queue is full.
func (i *instance) revoke(k Key, memory []byte) bool {
	at, ok := i.m.commit(i.cookie(), func(s *funi.Slot, cookie uint32) { s.SetCloseKeySlot(uint64(k), cookie) })
	if ok {
		i.m.keys[uint16(k)].open = false
		i.m.later = append(i.m.later, later{at: at, memory: memory, area: none, key: int(uint16(k))})
	}
	return ok
}

// replace puts other memory behind a key. Both requests have room in the send queue.
func (i *instance) replace(k Key, memory []byte) bool {
	address, ok := i.m.segments.Address(memory, funi.Keyed)
	if !ok {
		return false
	}
	_, closed := i.m.commit(i.cookie(), func(s *funi.Slot, cookie uint32) { s.SetCloseKeySlot(uint64(k), cookie) })
	_, opened := i.m.commit(i.cookie(), func(s *funi.Slot, cookie uint32) {
		s.SetOpenKeySlot(uint64(k), address, uint32(len(memory)), cookie)
	})
	return closed && opened
}

// free does what was to be done when slots were retired.
func (m *Manager) free(retired uint64) {
	n := 0
	for ; n < len(m.later) && m.later[n].at <= retired; n++ {
		l := &m.later[n]
		if l.memory != nil {
			m.heap.release(l.memory)
		}
		if l.area != none {
			m.areas.give(uint16(l.area))
			m.credit -= l.credit
		}
		if l.key != none {
			m.keySlots.give(uint16(l.key))
		}
	}
	if n > 0 {
		m.later = append(m.later[:0], m.later[n:]...)
	}
}
