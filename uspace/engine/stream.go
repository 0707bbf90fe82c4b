package engine

// This file is the stream: the lines of one context for one node that wait on a
// flow. The packets of a frame come from one stream. A flow sends from its streams
// in turn, and a transient reject holds off the stream whose node was full and no
// other: a stalled process costs the flow that it shares nothing but its tries,
// and one whose frames are never answered one place in its window.
//
// Parts of long transfers have a stream of their own: they need no room in the node's
// queue, so they go on while other packets wait for some. A process that changes its
// queues, and takes nothing meanwhile, waits for no more than that its parts are taken;
// so processes that do so at the same time do not wait for each other.

// place says on which list of its flow a stream is.
type place uint8

const (
	nowhere place = iota // nothing waits, or limit frames are in flight
	onTurn               // may send
	onHold               // backs off
)

type stream struct {
	flow    *flow
	ctx     *Context
	node    uint16
	part    bool // see line.part
	place   place
	next    *stream // on the list
	index   int     // in Context.streams
	at      int     // in flow.streams
	waiting lines
	flying  int   // frames in flight or lost
	limit   int   // most of them, to Window: 1 until the node answers and after a transient reject
	hold    int64 // nothing new is sent before
	backoff int64 // length of the last hold
}

// streams is a FIFO of streams, linked through next.
type streams struct {
	head, tail *stream
}

func (q *streams) push(s *stream, p place) {
	s.next, s.place = nil, p
	if q.head == nil {
		q.head = s
	} else {
		q.tail.next = s
	}
	q.tail = s
}

// pop takes the first stream; the list must not be empty.
func (q *streams) pop() *stream {
	s := q.head
	q.head = s.next
	s.next, s.place = nil, nowhere
	return s
}

// streamKey names a stream of a flow.
type streamKey struct {
	ctx  *Context
	node uint16
	part bool
}

// stream returns the stream of a context for a node, made when it is first
// needed: there are at most two for each context and node behind the peer, and of a context
// not many more than twice as many as it has lines.
func (c *Card) stream(f *flow, x *Context, node uint16, part bool) *stream {
	if s := f.recent; s != nil && s.ctx == x && s.node == node && s.part == part {
		return s
	}
	s := f.find(x, node, part)
	if s == nil {
		c.thin(x)
		s = c.takeStream(f, x, node, part)
		s.at = len(f.streams)
		f.streams = append(f.streams, s)
		f.enter(s)
	}
	f.recent = s
	return s
}

// thinned is how many streams are looked at for each that is made, in a context that has
// more than lines: then at most half of some more than twice as many are in use.
const thinned = 4

// thin forgets streams that are not in use of a context that has many: a process may
// send to all nodes in turn, and its flows be never quiet as a whole.
func (c *Card) thin(x *Context) {
	for i := 0; i < thinned && len(x.streams) > c.cfg.Lines; i++ {
		x.looked++
		s := x.streams[x.looked%len(x.streams)]
		if s.place == nowhere && s.waiting.head == nil && s.flying == 0 && s.hold <= c.now {
			s.flow.forget(s)
			c.giveStream(s)
		}
	}
}

// searched is how many streams are found faster one by one than by a map.
const searched = 8

// find returns the stream of a context for a node, or nil.
func (f *flow) find(x *Context, node uint16, part bool) *stream {
	if len(f.streams) > searched {
		return f.byKey[streamKey{x, node, part}]
	}
	for _, s := range f.streams {
		if s.ctx == x && s.node == node && s.part == part {
			return s
		}
	}
	return nil
}

// enter puts a stream that is one of many into the map, and the others with it.
func (f *flow) enter(s *stream) {
	switch n := len(f.streams); {
	case n <= searched:
		return
	case n > searched+1:
		f.byKey[streamKey{s.ctx, s.node, s.part}] = s
		return
	case f.byKey == nil:
		f.byKey = map[streamKey]*stream{}
	}
	for _, s := range f.streams {
		f.byKey[streamKey{s.ctx, s.node, s.part}] = s
	}
}

// rename gives a stream to another context.
func (f *flow) rename(s *stream, x *Context) {
	delete(f.byKey, streamKey{s.ctx, s.node, s.part})
	s.ctx = x
	if len(f.streams) > searched {
		f.byKey[streamKey{x, s.node, s.part}] = s
	}
}

// forget removes a stream of which nothing waits and nothing is in flight.
func (f *flow) forget(s *stream) {
	delete(f.byKey, streamKey{s.ctx, s.node, s.part})
	f.recent = nil
	last := f.streams[len(f.streams)-1]
	f.streams[s.at], last.at = last, s.at
	f.streams[len(f.streams)-1] = nil
	f.streams = f.streams[:len(f.streams)-1]
	switch s.place {
	case onTurn:
		f.turn.remove(s)
	case onHold:
		f.held.remove(s)
	}
}

// remove takes a stream off its list.
func (q *streams) remove(s *stream) {
	var before *stream
	for o := q.head; o != s; o = o.next {
		before = o
	}
	if before == nil {
		q.head = s.next
	} else {
		before.next = s.next
	}
	if q.tail == s {
		q.tail = before
	}
	s.next, s.place = nil, nowhere
}

// mayGo puts a stream with waiting lines on turn unless it is on a list.
func (f *flow) mayGo(s *stream) {
	if s.place == nowhere && s.waiting.head != nil {
		f.turn.push(s, onTurn)
	}
}

// holdOff starts or lengthens the back-off after a transient reject.
func (s *stream) holdOff(now int64, cfg *Config, random uint64) {
	if s.hold > now {
		return // other frames of the same moment have been rejected already
	}
	s.backoff = min(max(2*s.backoff, int64(cfg.MinHold)), int64(cfg.MaxHold))
	// Up to a quarter more, so that rejected senders do not return together.
	s.hold = now + s.backoff + int64(random%uint64(s.backoff/4+1))
	s.limit = 1
}

// unhold puts the streams whose back-off has ended on turn and returns when that
// of another ends, or Never.
func (f *flow) unhold(now int64) int64 {
	next := int64(Never)
	held := f.held
	f.held = streams{}
	for held.head != nil {
		s := held.pop()
		if s.hold <= now {
			f.mayGo(s)
		} else {
			f.held.push(s, onHold)
			next = min(next, s.hold)
		}
	}
	return next
}

// forgive forgets what is in flight and how the node answered.
func (s *stream) forgive() {
	s.flying, s.limit, s.hold, s.backoff = 0, 1, 0, 0
}
