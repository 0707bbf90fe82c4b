package chaos

// This file has what processes do to each other's windows while all other faults happen: adds,
// swaps, compare-and-swaps, puts, gets, locks and signals. Meanwhile the owners close their windows
// and open them with other keys. Keys travel outside the network, in no time.
//
// Operands are random numbers of 64 bits. So the answers of the operations on a word force an
// order: each operation finds what the one before has left. In that order no operation may come
// before another that was complete when it was issued. The order must end with what is in memory.
// An operation of unknown outcome may be in the order, or not (Herlihy and Wing, 1990:
// linearizability). A put goes to its sender's own part, where a get must find what the last put
// has left. No two members have a lock at once. While a window is closed, or not present, no byte
// of it changes, nor do its counts; bytes beside it never change. One window in eight is opened
// before it is present. Half of the operations ask to be counted. In the end the counts are those
// of the operations that were carried out, and at most those of unknown outcome.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
)

const (
	windowBase = 0x5000_0000
	// The memory of a member has the words and, for each sender, a part. Behind the window are a
	// guard, its counts, and the memory where senders keep what they put and get.
	windowWords   = 8
	signalWord    = windowWords // which signals add to, and nothing else
	windowParts   = 32
	windowPart    = 1024
	windowBytes   = (windowWords+1)*8 + windowParts*windowPart
	windowGuard   = 1024
	windowStages  = 8
	windowCounts  = windowBytes + windowGuard
	stageAt       = windowCounts + funi.CountsBytes // a multiple of 16
	windowSegment = stageAt + 2*windowStages*windowPart
	windowAddress = 0x1234_5678_9a00
	commandBit    = 1 << 30 // marks the cookies of blocks that are not operations
)

// phase is the phase of a member's window.
type phase uint8

const (
	opening phase = iota
	absent        // open, and not present: what comes waits
	open
	shutting
	shut
)

// windows is what a life of a member has for operations.
type windows struct {
	m        *member
	memory   []byte
	slot     uint16
	key      uint64
	phase    phase
	absent   bool   // it is opened absent
	upTo     uint64 // the position in the send queue at which the phase ends
	reopens  int64
	snapshot []byte // of a window that is shut or absent
	busy     [windowStages]bool
	mine     map[*windows]*part // by the window of another: this member's part of it
	parts    int                // of this window that are taken
	locker   *operation         // the holder of the lock, as far as is known
	calls    []*operation       // of this member, under way
}

// part is a sender's part of a window.
type part struct {
	at      int
	busy    bool
	unknown bool   // a put may or may not have been carried out
	holds   []byte // what it must hold
}

type operation struct {
	number     uint32
	from, to   *windows
	life       uint16
	kind       arctic.Operation
	word       int
	a, b       uint64
	key        uint64
	part       *part
	stage      int
	size       int
	signal     uint64
	counts     bool
	begun      int64
	ended      int64 // 0: it is under way
	reason     arctic.Reason
	was        uint64 // the value that it answered
	doubtful   bool   // it may have been carried out
	openBefore bool   // the window was open with that key when it was issued
	// unsure marks a lock that an unlock of the same member may have ended: both were under way at
	// once, in no order
	unsure bool
}

func (o *operation) String() string {
	return fmt.Sprintf("operation %d of members %d and %d", o.number, o.from.m.number, o.to.m.number)
}

// carriedOut reports whether the operation was carried out, as far as is known.
func (o *operation) carriedOut() bool { return o.ended != 0 && o.reason == arctic.ReasonNone }

func (m *member) newWindows() {
	w := &windows{m: m, memory: make([]byte, windowSegment), mine: map[*windows]*part{}}
	succeed(m.process.Context().Register(funi.Segment{Base: windowBase, Memory: w.memory,
		Rights: funi.Keyed | funi.Source}))
	n, ok := m.keyed.TakeKeySlot()
	if !ok {
		return // it has none to give
	}
	w.slot = n
	fill(w.memory[windowBytes:windowBytes+windowGuard], ^m.life(), 7)
	m.windows = w
	m.run.windows = append(m.run.windows, w)
	w.opens()
}

// command commits a block that is not an operation, and returns false if there is no slot for it.
// upTo is then the number of slots that are retired when the block was carried out.
func (m *member) command(l funi.Level, upTo *uint64, compose func(s *funi.Slot)) bool {
	i := m.process.Interface()
	s := i.Reserve(l)
	if s == nil {
		return false
	}
	compose(s)
	i.Commit(l)
	*upTo = i.Committed(l)
	return true
}

// carriedOut returns how many slots the card has retired.
func (m *member) carriedOut(l funi.Level) uint64 {
	i := m.process.Interface()
	return i.Committed(l) - uint64(i.Unsent(l))
}

func (w *windows) opens() {
	key := w.m.random.Uint64()&^0xffff | uint64(w.slot)
	w.absent = w.m.random.IntN(8) == 0
	if w.m.command(funi.Request, &w.upTo, func(s *funi.Slot) {
		s.SetOpenWindow(&funi.Window{Key: key, Base: windowBase, Bytes: windowBytes, Address: windowAddress,
			Rights: funi.RightRead | funi.RightWrite | funi.RightAtomic, Absent: w.absent,
			Counts: windowBase + windowCounts}, commandBit)
	}) {
		w.key, w.phase = key, opening
	}
}

// content returns what does not change while the window is shut or absent.
func (w *windows) content() []byte {
	return append(bytes.Clone(w.memory[:windowBytes]), w.memory[windowCounts:stageAt]...)
}

// step advances the window to its next phase.
func (w *windows) step() {
	now := w.m.run.world.Now()
	done := w.m.carriedOut(funi.Request) >= w.upTo
	switch {
	case w.phase == opening && done && w.absent:
		w.phase, w.reopens = absent, now+w.m.idle()
		w.snapshot = w.content()
	case w.phase == absent && now >= w.reopens:
		if !bytes.Equal(w.snapshot, w.content()) {
			w.m.run.damaged("member %d: its window has changed while it was not present", w.m.number)
		}
		if w.m.command(funi.Request, &w.upTo, func(s *funi.Slot) { s.SetResumeWindow(w.key, commandBit) }) {
			w.phase, w.absent = opening, false
		}
	case w.phase == opening && done:
		w.phase, w.reopens = open, now+int64(1+w.m.random.IntN(40))*w.m.idle()
	case w.phase == open && now >= w.reopens && w.m.run.quota() && w.m.random.IntN(4) == 0:
		if w.m.command(funi.Request, &w.upTo, func(s *funi.Slot) { s.SetCloseKeySlot(w.key, commandBit) }) {
			w.phase = shutting
		}
	case w.phase == shutting && done:
		w.phase, w.reopens = shut, now+w.m.idle()
		w.snapshot = w.content()
		w.locker = nil
	case w.phase == shut && now >= w.reopens:
		if !bytes.Equal(w.snapshot, w.content()) {
			w.m.run.damaged("member %d: its window has changed after it was closed", w.m.number)
		}
		w.opens()
	}
}

// operate begins some operations on the window of a member of the group.
func (m *member) operate() {
	w := m.windows
	if w == nil {
		return
	}
	to := m.run.members[m.choose()].windows
	if to == nil || to.m.process == nil || to.phase != open && m.random.IntN(8) != 0 {
		return
	}
	for range 1 + m.random.IntN(24) {
		o := &operation{number: uint32(len(m.run.operations)), from: w, to: to, life: to.m.attached, key: to.key,
			openBefore: to.phase == open, stage: none}
		if !w.draw(o) {
			continue
		}
		s := m.slot(m.process, funi.Request)
		if s == nil || m.windows != w {
			return
		}
		if o.part != nil {
			o.part.busy = true
		}
		if o.stage != none {
			w.busy[o.stage] = true
		}
		c := o.compose()
		s.SetOperation(to.m.node, &c)
		// others may have begun some while this one waited for a slot
		o.number = uint32(len(m.run.operations))
		s[funi.RemoteCookieWord] = o.number
		o.begun = m.run.world.Now()
		m.run.operations = append(m.run.operations, o)
		if l := to.locker; o.kind == arctic.RemoteUnlock && l != nil && l.from == w {
			to.locker = nil // another may have it before this member hears that it has not
		}
		for _, c := range w.calls {
			if c.to == to && c.kind == arctic.RemoteLock && o.kind == arctic.RemoteUnlock {
				c.unsure = true
			}
			if c.to == to && c.kind == arctic.RemoteUnlock && o.kind == arctic.RemoteLock {
				o.unsure = true
			}
		}
		w.calls = append(w.calls, o)
		m.commit(funi.Request)
	}
}

// draw draws an operation, or returns false if it may not be issued now.
func (w *windows) draw(o *operation) bool {
	r := w.m.random
	o.word, o.a, o.b = r.IntN(windowWords), r.Uint64(), r.Uint64()
	o.counts = o.b&1 == 0
	switch r.IntN(8) {
	case 0, 1:
		o.kind = arctic.RemoteAdd
	case 2:
		o.kind = arctic.RemoteSwap
	case 3: // with what it once was, as far as this member knows
		o.kind = arctic.RemoteCompareSwap
		o.a = o.to.last(o.word, r)
	case 4:
		o.kind = arctic.RemoteRead
	case 5:
		o.kind = arctic.RemoteLock
		if l := o.to.locker; l != nil && l.from == w {
			o.kind = arctic.RemoteUnlock
		}
		o.counts = false
	default:
		p := w.mine[o.to]
		if p == nil && o.to.parts < windowParts {
			p = &part{at: (windowWords+1)*8 + o.to.parts*windowPart, holds: make([]byte, windowPart)}
			o.to.parts++
			w.mine[o.to] = p
		}
		for i := range w.busy {
			if !w.busy[i] {
				o.stage = i
			}
		}
		if p == nil || p.busy || o.stage == none {
			return false
		}
		o.kind, o.part, o.size = arctic.RemotePut, p, 1+r.IntN(windowPart)
		if r.IntN(2) == 0 {
			o.kind = arctic.RemoteGet
		} else if r.IntN(4) == 0 {
			o.signal = o.a
		}
	}
	return true
}

// last draws a value that was or is in a word.
func (w *windows) last(word int, r *rand.Rand) uint64 {
	if r.IntN(4) == 0 {
		return r.Uint64()
	}
	return binary.LittleEndian.Uint64(w.memory[8*word:])
}

// staged returns the memory of the member for the data that an operation puts or gets.
func (o *operation) staged() []byte {
	at := stageAt + 2*o.stage*windowPart
	return o.from.memory[at : at+o.size]
}

func (o *operation) compose() (c funi.Operation) {
	c.WindowRequest = arctic.WindowRequest{Operation: o.kind, Element: arctic.Uint64, Key: o.key,
		Address: windowAddress + uint64(8*o.word), Bytes: 8, Fetch: true, Counts: o.counts}
	number := func(v uint64) { c.Operands = binary.LittleEndian.AppendUint64(c.Operands, v) }
	switch o.kind {
	case arctic.RemoteRead:
		c.Fetch = false
	case arctic.RemoteAdd, arctic.RemoteSwap:
		number(o.a)
	case arctic.RemoteCompareSwap:
		number(o.a)
		number(o.b)
	case arctic.RemoteLock, arctic.RemoteUnlock:
		c.Fetch, c.Ack, c.Element, c.Bytes, c.Address = false, true, 0, 0, 0
		c.Operands = binary.LittleEndian.AppendUint32(nil, o.from.m.life())
	default:
		c.Element, c.Fetch, c.Address, c.Bytes = 0, false, windowAddress+uint64(o.part.at), 0
		c.Source, c.Length = windowBase+uint32(stageAt+2*o.stage*windowPart), o.size
		if o.kind == arctic.RemotePut {
			fill(o.staged(), o.number*31+o.from.m.life(), o.size)
			if c.Ack = true; o.signal != 0 {
				c.Trailer = arctic.Trailer{Add: true, Key: o.key, Address: windowAddress + 8*signalWord,
					Value: o.signal}
			}
		}
	}
	return c
}

func (w *windows) note(n *funi.Notification) {
	if n.Kind != funi.NoteCompletion || int(n.Cookie) >= len(w.m.run.operations) {
		w.m.run.damaged("member %d has a notification that is of no operation: %+v", w.m.number, n)
		return
	}
	o := w.m.run.operations[n.Cookie]
	w.end(o, n.Reason)
	if o.carriedOut() {
		w.carriedOut(o, n)
	}
}

// returned takes an operation that the card gave back, and reports whether it is one.
func (w *windows) returned(b funi.Returned) bool {
	_, op := b.Header.WindowOperation()
	if !b.Header.Remote() || !op && b.Word != commandBit {
		return false
	}
	if !op || b.Reason != arctic.ReasonNoBuffer {
		w.m.run.damaged("member %d: a block came back: %v", w.m.number, b.Reason)
	}
	if op {
		w.end(w.m.run.operations[b.Word], b.Reason)
	}
	return true
}

func (w *windows) end(o *operation, reason arctic.Reason) {
	r := w.m.run
	if o.from != w || o.ended != 0 {
		r.duplicated("operation %d is complete twice, or for another: member %d", o.number, w.m.number)
		return
	}
	o.ended, o.reason = r.world.Now(), reason
	w.calls = slices.DeleteFunc(w.calls, func(c *operation) bool { return c == o })
	if o.stage != none {
		w.busy[o.stage] = false
	}
	if o.part != nil {
		o.part.busy = false
	}
	if reason == arctic.ReasonNone || reason == arctic.ReasonNoBuffer {
		return
	}
	if o.kind == arctic.RemotePut {
		o.part.unknown = true // some packets of it may have come before
	}
	switch reason {
	case arctic.ReasonSilent, arctic.ReasonRestarted, arctic.ReasonDeparted, arctic.ReasonResynchronised,
		arctic.ReasonReplaced:
		o.doubtful = true // a put of several packets may have been carried out in part, too
		if o.part != nil {
			o.part.unknown = true
		}
		if r.scenario.Faults&^calm == 0 {
			r.lost("%v failed, and nothing was wrong: %v", o, reason)
		}
	case arctic.ReasonKeySlot, arctic.ReasonNoContext, arctic.ReasonSourceNode, arctic.ReasonJob, arctic.ReasonNoRoute,
		arctic.ReasonKey:
		if reason == arctic.ReasonSourceNode && r.scenario.Faults&^calm == 0 {
			r.lost("%v failed, and every card was told: %v", o, reason)
		}
	case arctic.ReasonWithheld: // its owner has taken longer than the card lets others wait
		if o.openBefore { // what is present is so until it is closed
			r.damaged("%v: the window was present, and is said to have been suspended", o)
		}
	case arctic.ReasonLocked:
		if o.kind != arctic.RemoteLock && o.kind != arctic.RemoteUnlock && !o.to.everLocked() {
			r.damaged("%v: the window is locked, and nobody has locked it", o)
		}
	default:
		r.damaged("%v (%d): %v", o, o.kind, reason)
	}
}

func (w *windows) everLocked() bool {
	for _, o := range w.m.run.operations {
		if o.to == w && o.kind == arctic.RemoteLock {
			return true
		}
	}
	return false
}

func (w *windows) carriedOut(o *operation, n *funi.Notification) {
	r := w.m.run
	switch o.kind {
	case arctic.RemotePut:
		copy(o.part.holds, o.staged())
		if o.size == windowPart {
			o.part.unknown = false // all of it is new
		}
		r.puts++
	case arctic.RemoteGet:
		if !o.part.unknown && !bytes.Equal(o.staged(), o.part.holds[:o.size]) {
			r.damaged("%v got %d bytes that nobody has put there", o, o.size)
		}
		r.gets++
	case arctic.RemoteLock:
		if o.key != o.to.key {
			return // the window was closed meanwhile, and locked perhaps under another key
		}
		if l := o.to.locker; l != nil && l.key == o.key && l.from.m.process != nil && l.from.m.windows ==
			l.from && l.from != w {
			r.damaged("members %d and %d both have the lock of %d", l.from.m.number, w.m.number, o.to.m.number)
		}
		if o.to.locker = o; o.unsure {
			o.to.locker = nil
		}
		r.locks++
	case arctic.RemoteUnlock:
	default:
		o.was = binary.LittleEndian.Uint64(n.Answer[:])
	}
}

// settleLost checks the operations and multicasts of living processes that are not complete. They
// must be as many as came back when the return ring had no room for them. Messages into receive
// rings count there as well, and their senders may not know which of them they were (letters.go).
func (r *run) settleLost() {
	open := map[*member]int{}
	for _, o := range r.multicasts {
		if !o.complete && o.deaths == o.from.deaths {
			open[o.from]++
		}
	}
	for _, m := range r.members {
		if m.process == nil {
			continue
		}
		if m.windows != nil {
			open[m] += len(m.windows.calls)
		}
		switch lost := int(m.process.Interface().OperationsLost()); {
		case open[m] > lost:
			r.stuck("member %d: %d operations and multicasts are not complete, and the card counted %d of them",
				m.number, open[m], lost)
		case open[m] < lost && r.scenario.Faults&Sends == 0:
			r.duplicated("member %d: %d operations and multicasts are not complete, and the card says that %d have come back",
				m.number, open[m], lost)
		}
	}
}

// settleWindows checks the effects of operations, when nothing is under way any more.
func (r *run) settleWindows() {
	byWindow := map[*windows][]*operation{}
	for _, o := range r.operations {
		byWindow[o.to] = append(byWindow[o.to], o)
	}
	for _, w := range r.windows { // not in the order of the map: a run is the same each time
		alive := w.m.process != nil && w.m.windows == w
		if alive && !holds(w.memory[windowBytes:windowBytes+windowGuard], ^w.m.life(), 7) {
			r.damaged("member %d: memory behind its window has changed", w.m.number)
		}
		for word := range windowWords {
			r.orders += linearize(r, w, word, byWindow[w], alive)
		}
		if sum, sure := signals(byWindow[w]); alive && sure && sum !=
			binary.LittleEndian.Uint64(w.memory[8*signalWord:]) {
			r.damaged("member %d: its signal is not the sum of those that came", w.m.number)
		}
		least, more := counts(byWindow[w])
		for kind := range least {
			if n := binary.LittleEndian.Uint64(w.memory[windowCounts+8*kind:]); alive &&
				(n < least[kind] || n > least[kind]+more[kind]) {
				r.damaged("member %d: its window counted %d operations of kind %d, want %d, or up to %d more", w.m.number, n,
					kind, least[kind], more[kind])
			}
		}
	}
}

// counts returns how many operations a window has counted at least, by kind, and how many more it
// may have.
func counts(all []*operation) (least, more [funi.CountsBytes / 8]uint64) {
	for _, o := range all {
		kind := funi.CountFetches
		switch o.kind {
		case arctic.RemotePut:
			kind = funi.CountWrites
		case arctic.RemoteGet, arctic.RemoteRead:
			kind = funi.CountReads
		}
		switch {
		case !o.counts:
		case o.carriedOut():
			least[kind]++
		case o.doubtful || o.ended == 0:
			more[kind]++
		}
	}
	return least, more
}

// signals returns the sum of all signals of a window that were carried out, and whether the sum is
// known.
func signals(all []*operation) (sum uint64, sure bool) {
	sure = true
	for _, o := range all {
		if o.signal == 0 {
			continue
		}
		if o.carriedOut() {
			sum += o.signal
		} else if o.doubtful || o.ended == 0 {
			sure = false
		}
	}
	return sum, sure
}

// linearize checks that there is an order of the operations on a word, and returns how many were in
// it.
func linearize(r *run, w *windows, word int, all []*operation, alive bool) (n int) {
	var known, unknown []*operation
	for _, o := range all {
		if o.word != word || o.kind < arctic.RemoteAdd && o.kind != arctic.RemoteRead || o.kind == arctic.RemoteLock ||
			o.kind == arctic.RemoteUnlock {
			continue
		}
		switch {
		case o.carriedOut():
			known = append(known, o)
		case (o.doubtful || o.ended == 0) && o.kind != arctic.RemoteRead:
			unknown = append(unknown, o)
		}
	}
	holds := binary.LittleEndian.Uint64(w.memory[8*word:])
	switch found, left, end := linearizable(known, unknown, alive, holds, mostStates); found {
	case impossible:
		r.damaged("word %d of member %d: %d of %d operations fit no order; it has come to %#x and holds %#x, %d are not known", word, w.m.number, left, len(known), end,
			holds, len(unknown))
	case undecided:
		r.result.Undecided++
	}
	return len(known)
}

// becomes returns the value of the word after an operation that was carried out.
func (o *operation) becomes() uint64 { return o.after(o.was) }

// after returns the value of the word after the operation if it held v before.
func (o *operation) after(v uint64) uint64 {
	switch {
	case o.kind == arctic.RemoteAdd:
		return v + o.a
	case o.kind == arctic.RemoteSwap:
		return o.a
	case o.kind == arctic.RemoteCompareSwap && v == o.a:
		return o.b
	}
	return v
}

func (w *windows) due() int64 {
	if w.phase == open && !w.m.run.quota() {
		return sim.Never
	}
	return max(w.reopens, w.m.run.world.Now()+1)
}
