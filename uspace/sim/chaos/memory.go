package chaos

// This file has the memory that cards read and write for transfers. The oracle checks that the data
// is where it belongs, and that nothing else has changed.
//
// A word of a destination that belongs to no transfer is a canary, a function of its address. A
// word that belongs to a transfer is a canary or a word of that transfer. At the notice it must be
// the latter; from then on it is a canary again.

import (
	"encoding/binary"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// The addresses where the segments of every process begin: one of sources, and two of destinations.
// The two have the same size and lie one behind the other; a transfer must not lie across them.
const (
	sourceBase = 0x1000_0000
	targetBase = 0x2000_0000
)

// memory has the segments of one life of a member.
type memory struct {
	source, target []byte
	patrol         int // where the target is looked at next
}

// pending is a transfer whose source the card has not taken yet.
type pending struct {
	sent   uint64 // how many messages of its level the member had sent with it
	source uint32
}

func (m *member) newMemory() {
	size := uint32(m.run.segment)
	m.memory = &memory{source: make([]byte, size), target: make([]byte, size)}
	m.memory.scribble(sourceBase, sourceBase+size)
	m.memory.clean(targetBase, targetBase+size)
	m.sources = arena{first: sourceBase, end: sourceBase + size}
	m.pending = [arctic.Levels][]pending{}
	for _, s := range []funi.Segment{
		{Base: sourceBase, Memory: m.memory.source, Rights: funi.Source},
		{Base: targetBase, Memory: m.memory.target[:size/2], Rights: funi.Destination},
		{Base: targetBase + size/2, Memory: m.memory.target[size/2:], Rights: funi.Destination},
	} {
		succeed(m.process.Context().Register(s))
	}
}

func canary(address uint32) uint32 { return address*2654435761 ^ 0xca9a21e5 }

// clean puts canaries into part of the target.
func (y *memory) clean(first, end uint32) {
	for at := first; at < end; at += arctic.WordSize {
		binary.LittleEndian.PutUint32(y.target[at-targetBase:], canary(at))
	}
}

// scribble overwrites part of the source with other data.
func (y *memory) scribble(first, end uint32) {
	for at := first; at < end; at += arctic.WordSize {
		binary.LittleEndian.PutUint32(y.source[at-sourceBase:], ^canary(at))
	}
}

func (y *memory) compose(o *oracle, at, number uint32, words int) {
	for k := range uint32(words) {
		binary.LittleEndian.PutUint32(y.source[at-sourceBase+arctic.WordSize*k:], o.word(number, int(k)+1))
	}
}

// retired overwrites the sources of transfers that the card has taken: the card says that it has
// read them, and must not read them again.
func (m *member) retired() {
	for l := range m.pending {
		q := m.pending[l]
		if len(q) == 0 {
			continue
		}
		n, done := 0, m.carriedOut(funi.Level(l))
		for ; n < len(q) && q[n].sent <= done; n++ {
			s := m.sources.give(q[n].source)
			m.memory.scribble(s.first, s.end)
		}
		m.pending[l] = q[:copy(q, q[n:])]
	}
}

// moved checks that all of a transfer is in the memory of member at, and frees the memory for other
// transfers. It also checks a transfer that was under way when the member died and was attached
// again: that comes back unless the member has got all of it.
func (o *oracle) moved(at *member, number uint32, t *transfer) {
	b := at.memory.target[t.address-targetBase:]
	for k := range t.words {
		if got, want := binary.LittleEndian.Uint32(b[arctic.WordSize*k:]), o.word(number, k+1); got != want {
			o.fail(&o.result.Damaged,
				"transfer %d of %d words to %#x of member %d is noticed with word %d %#x instead of %#x",
				number, t.words, t.address, at.number, k, got, want)
			break
		}
	}
	at.memory.clean(t.address, t.address+sizeOf(t.words))
	at.targets.give(t.address)
}

// intact checks size bytes of the member's target from an offset on. It reports each fault once.
func (o *oracle) intact(m *member, offset, size int) {
	y := m.memory
	i := m.targets.find(targetBase + uint32(offset))
	for ; size > 0 && offset < len(y.target); offset, size = offset+arctic.WordSize, size-arctic.WordSize {
		at := targetBase + uint32(offset)
		got := binary.LittleEndian.Uint32(y.target[offset:])
		for i < len(m.targets.taken) && m.targets.taken[i].end <= at {
			i++
		}
		if got == canary(at) {
			continue
		}
		number := uint32(0)
		if i < len(m.targets.taken) && m.targets.taken[i].first <= at {
			s := &m.targets.taken[i]
			if number = s.number; got == o.word(number, int(at-s.first)/arctic.WordSize+1) {
				if job := o.messages[number-1].job; job != m.job {
					o.fail(&o.result.Misdelivered,
						"transfer %d of job %d has written the word at %#x of member %d, which is in job %d", number,
						job, at, m.number, m.job)
					y.clean(at, at+arctic.WordSize)
				}
				continue
			}
		}
		o.fail(&o.result.Damaged, "the word at %#x of member %d was changed to %#x; it belongs to transfer %d", at,
			m.number, got, number)
		y.clean(at, at+arctic.WordSize)
	}
}

// patrolled is how many bytes of a process's target are looked at after every event.
const patrolled = 64

// watchMemory checks what is due after every event of the member's card.
func (m *member) watchMemory() {
	if m.process != nil {
		m.retired()
	}
	m.run.oracle.intact(m, m.memory.patrol, patrolled)
	m.memory.patrol = (m.memory.patrol + patrolled) % len(m.memory.target)
}

// bury removes the memory of a life that the card must no longer touch.
func (m *member) bury() {
	y := m.memory
	if y == nil {
		return
	}
	m.run.oracle.intact(m, 0, len(y.target))
	y.clean(targetBase, targetBase+uint32(len(y.target)))
	y.scribble(sourceBase, sourceBase+uint32(len(y.source)))
	m.graves, m.memory = append(m.graves, y), nil
}

// remember checks all memory once nothing can happen any more.
func (o *oracle) remember() {
	for _, m := range o.members {
		if m.memory != nil {
			o.intact(m, 0, len(m.memory.target))
		}
		m.targets.taken = nil
		for _, m.memory = range m.graves {
			o.intact(m, 0, len(m.memory.target))
		}
	}
}
