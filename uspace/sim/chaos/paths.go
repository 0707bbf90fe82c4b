package chaos

// This file has the lines that processes send on ULTRA paths while all other faults happen
// (engine/ultra.go). A member opens an end that sends, and tells another, outside the network, to
// open the other end. Some are not told, or are dead. The two ends of a card and those of another
// are joined in the order in which they were opened, so a death may join ends that were not meant
// for each other: the first line of a path says whose it is.
//
// All lines of a path come from one end, to one end, once and in order, and whole. When the sender
// was told that the target has all its lines, the target gets them all, or dies. A line whose
// sender asked for it is acknowledged once. When all has been closed, no card has an end left.

import (
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
)

const (
	pathBase   = 0x7000_0000
	pathsOf    = 8 // ends of a member
	pathSlices = 32
	pathStride = 4096
	// pathBit marks the cookies of blocks that open and close ends.
	pathBit = 1 << 29
)

// paths is what a life of a member has for paths.
type paths struct {
	m       *member
	memory  []byte
	ends    [pathsOf]*pathSide
	invited []int32 // members that have opened an end which sends to this one
}

// pathSide is an end of a path.
type pathSide struct {
	of      *paths
	place   int
	path    *funi.Path
	slices  int   // 0: it sends
	until   int64 // when it is closed
	upTo    uint64
	closing bool
	// Of an end that sends.
	lines   *lines
	sender  funi.PathSender
	pending bool
	flags   funi.PathFlags
	// Of an end that receives; lines is nil until the first has come.
	receiver funi.PathReceiver
}

// lines is the record of a path's lines.
type lines struct {
	number    uint32
	from, to  *member
	deaths    [2]uint16 // of both, when it was opened
	job       uint32
	most      int
	taken     int // by the sender's card
	received  int
	side      *pathSide // that has got the first
	acks      []int     // lines that are to be acknowledged, and were not
	ended     bool      // the last line was stored, too
	delivered bool      // the sender was told that the target has all
}

func (m *member) newPaths() {
	p := &paths{m: m, memory: make([]byte, pathsOf*pathStride)}
	succeed(m.process.Context().Register(funi.Segment{Base: pathBase, Memory: p.memory, Rights: funi.Keyed}))
	m.process.Interface().Watch(true)
	m.paths = p
}

func (e *pathSide) address() uint32 { return pathBase + uint32(e.place*pathStride) }

// opens opens an end in a free place, or returns nil if there is none.
func (p *paths) opens(node uint16, slices int) *pathSide {
	for place := range p.ends {
		if p.ends[place] != nil {
			continue
		}
		memory := p.memory[place*pathStride : (place+1)*pathStride]
		clear(memory)
		e := &pathSide{of: p, place: place, slices: slices, path: must(funi.MapPath(memory, slices))}
		cookie := uint32(pathBit | place)
		if !e.of.m.command(funi.Request, &e.upTo, func(s *funi.Slot) { s.SetOpenPath(node, e.address(), slices, cookie) }) {
			return nil
		}
		e.until = p.m.run.world.Now() + 1 + p.m.random.Int64N(2*p.m.run.horizon)
		p.ends[place] = e
		return e
	}
	return nil
}

// opensPath opens an end that sends to a member of the group.
func (m *member) opensPath() {
	r := m.run
	to := r.members[m.choose()]
	e := m.paths.opens(to.node, 0)
	if e == nil {
		return
	}
	e.sender = m.process.Interface().SendsOn(e.path)
	e.lines = &lines{number: uint32(len(r.lines)), from: m, to: to, deaths: [2]uint16{m.deaths, to.deaths}, job: m.job,
		most: 1 + m.random.IntN(100)}
	r.lines = append(r.lines, e.lines)
	if to.paths != nil && to.process != nil && m.random.IntN(8) != 0 {
		to.paths.invited = append(to.paths.invited, int32(m.number))
		if to != m {
			to.process.Wake()
		}
	}
}

// step advances all ends.
func (p *paths) step() {
	for len(p.invited) > 0 && slices.Contains(p.ends[:], nil) {
		e := p.opens(p.m.run.members[p.invited[0]].node, pathSlices)
		if e == nil {
			break
		}
		p.invited = p.invited[1:]
		e.until += p.m.run.horizon / 2
		e.receiver = p.m.process.Interface().ReceivesOn(e.path)
	}
	for _, e := range p.ends {
		if e != nil {
			e.step()
		}
	}
}

func (e *pathSide) step() {
	r := e.of.m.run
	if e.of.m.carriedOut(funi.Request) < e.upTo {
		return
	}
	if e.closing {
		if e.pending {
			if status, ok := e.sender.Answer(); !ok || status != funi.PathTaken {
				e.forgo()
			}
		}
		if e.slices > 0 {
			e.receives() // what came until the card carried the block out
		}
		e.of.ends[e.place] = nil
		return
	}
	over := r.world.Now() >= e.until
	if e.slices > 0 {
		over = e.receives() || over
	} else {
		over = e.sends() || over
	}
	switch state, why := e.path.State(); {
	case state != funi.PathEnded:
	case (why.Doubtful() || why == arctic.ReasonNoContext) && r.scenario.Faults&^calm == 0:
		r.lost("member %d: a path has ended, and nothing was wrong: %v", e.of.m.number, why)
		over = true
	default:
		over = true
	}
	if over && e.of.m.command(funi.Request, &e.upTo, func(s *funi.Slot) { s.SetClosePath(e.address(), pathBit) }) {
		e.closing = true
	}
}

// sends stores the next line, if the card has answered the last, and reports whether the end has
// done all it was opened for.
func (e *pathSide) sends() (over bool) {
	l := e.lines
	if status, ok := e.sender.Answer(); e.pending && ok {
		switch status {
		case funi.PathTaken:
			if l.ended = l.taken == l.most; !l.ended {
				l.taken++
			}
			e.pending = false
		case funi.PathFull, funi.PathClosed:
			e.forgo()
		default:
			e.of.m.run.damaged("member %d: a good line was answered: %v", e.of.m.number, status)
		}
	}
	if state, _ := e.path.State(); state != funi.PathOpen || e.pending {
		return false
	}
	if l.ended {
		l.delivered = e.sender.Read() == uint32(l.most+1)
		return l.delivered
	}
	e.flags = 0
	if l.taken < l.most && e.of.m.random.IntN(4) == 0 {
		e.flags = funi.PathAck
		l.acks = append(l.acks, l.taken)
	}
	e.sender.Send(e.flags, e.of.m.run.line(l, l.taken))
	e.pending = true
	return false
}

// forgo notes that the card has not taken the last line.
func (e *pathSide) forgo() {
	if l := e.lines; e.flags&funi.PathAck != 0 {
		l.acks = l.acks[:len(l.acks)-1]
	}
	e.pending = false
}

// line returns the words of a path's line. The line behind the last has none.
func (r *run) line(l *lines, n int) []uint64 {
	if n == l.most {
		return nil
	}
	w := make([]uint64, 1+(n+int(l.number))%arctic.MaxPathWords)
	for i := range w {
		w[i] = uint64(r.oracle.word(l.number, n*arctic.MaxPathWords+i))
	}
	w[0] = uint64(l.number)<<32 | uint64(n)
	return w
}

// receives takes what has arrived, and reports whether the last line has.
func (e *pathSide) receives() (over bool) {
	m, r := e.of.m, e.of.m.run
	var w [arctic.MaxPathWords]uint64
	for n, ok := e.receiver.Receive(&w); ok; n, ok = e.receiver.Receive(&w) {
		r.oracle.progress = r.world.Now()
		if n == 0 {
			return true // of a path without lines nobody knows whose it is
		}
		number, index := w[0]>>32, int(uint32(w[0]))
		if number >= uint64(len(r.lines)) {
			r.damaged("member %d has a line of no path: %x", m.number, w[:n])
			return true
		}
		l := r.lines[number]
		switch {
		case l.to.gid != m.gid || l.to.node != m.node || l.job != m.job:
			r.misdelivered("a line of member %d in job %d for member %d has come to member %d in job %d", l.from.number,
				l.job, l.to.number, m.number, m.job)
		case e.lines != nil && e.lines != l, l.side != nil && l.side != e:
			r.misdelivered("member %d: lines of two paths have come on one, or those of one on two", m.number)
		case index < l.received:
			r.duplicated("line %d of path %d has come again", index, number)
		case index > l.received:
			r.lost("line %d of path %d has come, and not line %d", index, number, l.received)
		case !slices.Equal(w[:n], r.line(l, index)):
			r.damaged("line %d of path %d has come as %x", index, number, w[:n])
		}
		e.lines, l.side, l.received = l, e, index+1
		r.linesReceived++
	}
	return false
}

// due returns when something is to be done.
func (p *paths) due() int64 {
	due := int64(sim.Never)
	for _, e := range p.ends {
		if e != nil && !e.closing {
			due = min(due, e.until)
		}
	}
	return max(due, p.m.run.world.Now()+1)
}

// returned takes a block that the card gave back: there was no room for the end, or it has ended.
func (p *paths) returned(b funi.Returned) {
	if b.Reason != arctic.ReasonNotOpened {
		p.m.run.damaged("member %d: a block of a path came back: %v", p.m.number, b.Reason)
	}
	if b.Header.Operation() == funi.OpenPath && int(b.Word&^pathBit) < pathsOf {
		if e := p.ends[b.Word&^pathBit]; e != nil && !e.closing {
			p.ends[e.place] = nil
		}
	}
}

// noted takes the notification of a line.
func (p *paths) noted(n *funi.Notification) {
	r, number, index := p.m.run, n.Tag>>32, int(uint32(n.Tag))
	if number >= uint64(len(r.lines)) || r.lines[number].from != p.m {
		r.damaged("member %d has a notification of no line: %+v", p.m.number, n)
		return
	}
	l := r.lines[number]
	at := slices.Index(l.acks, index)
	if at < 0 {
		r.duplicated("line %d of path %d is acknowledged twice, or was not to be", index, number)
		return
	}
	l.acks = slices.Delete(l.acks, at, at+1)
}

// settlePaths checks what is left of paths, when nothing is under way any more.
func (r *run) settlePaths() {
	for _, l := range r.lines {
		lives := [2]bool{l.from.deaths == l.deaths[0], l.to.deaths == l.deaths[1]}
		if lives[0] && len(l.acks) > 0 {
			r.lost("path %d: lines %v were not acknowledged", l.number, l.acks)
		}
		if l.delivered && lives[1] && l.received != l.most {
			r.lost("path %d: the sender was told that the target has all %d lines, it got %d", l.number, l.most, l.received)
		}
	}
	for _, m := range r.members {
		if m.paths == nil {
			continue
		}
		for _, e := range m.paths.ends {
			if e != nil {
				r.stuck("member %d: an end of a path is not closed", m.number)
			}
		}
		if use, ok := m.process.Context().Remote(); ok && use.Paths > 0 {
			r.stuck("member %d has closed all ends of paths, and its card has %d", m.number, use.Paths)
		}
	}
}
