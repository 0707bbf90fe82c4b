package link

// This file is the stream: the lines of one context for one node that wait on a flow. The packets
// of a frame come from one stream. A flow sends from its streams in turn (turn.go). A transient
// reject holds off the stream whose node was full and no other (hold.go). So a stalled process
// costs the flow that it shares only its tries. A process whose frames are never answered costs the
// flow one place in its congestion window.
//
// Parts of long transfers have a stream of their own. They need no room in the node's queue, so
// they go on while other packets wait for some. A process that changes its queues takes nothing
// meanwhile, and waits only until its own parts are taken. So processes that do so at the same time
// do not wait for each other. Answers (Line.Answer) have a stream of their own, too.

type list uint8

const (
	nowhere list = iota // nothing waits, or limit frames are in flight
	onTurn              // may send
	onHold              // backs off
)

type stream struct {
	flow   *flow
	owner  *Owner
	turn   turn   // in its job's class on the flow
	payer  *class // the account's class, which contains the job's
	node   uint16
	sort   sort
	list   list
	seat   int32 // in the heap of holds
	index  int32 // in Owner.streams
	at     int32 // in flow.streams
	flying int32 // frames in flight or lost
	// most frames in flight, up to Window: Config.FirstWindow of a timed card, else 1, until the
	// node answers, and 1 after a transient reject
	limit   int32
	met     bool // the node's card has answered a frame
	yields  bool // its frame in flight is void because others wait for its number (defer.go)
	held    bool // its only frame in flight, heldSeq, was deferred (defer.go)
	heldSeq uint32
	waiting Lines
	hold    int64 // nothing new is sent before
	backoff int64 // length of the last hold
	// when a frame was first deferred; 0: none was
	deferredAt int64
}

type streamKey struct {
	owner *Owner
	node  uint16
	sort  sort
}

// sort says in which of the streams for its node a line is.
type sort uint8

const (
	packets sort = iota // need room in the node's queue
	parts               // see Line.Part
	answers             // see Line.Answer; answers+Chain: what members of chains send on

	chained sort = 128 // chained+Chain: what a process sends along a chain
	paths   sort = 255 // see Line.Path
)

func (ln *Line) sort() sort {
	switch {
	case ln.Answer:
		return answers + sort(ln.Chain)
	case ln.Chain > 0:
		return chained + sort(ln.Chain)
	case ln.Part:
		return parts
	case ln.Path:
		return paths
	}
	return packets
}

// sends reports whether the owner lets the stream send something new.
func (s *stream) sends() bool { return !s.owner.Halted || s.sort >= answers && s.sort < chained }

// stream returns the stream of a context for a node, made when it is first needed. A context has at
// most four streams for each node behind the peer, and two for each chain. In all it has not many
// more than twice as many streams as lines.
func (e *End) stream(f *flow, o *Owner, node uint16, of sort) *stream {
	if s := f.recent; s != nil && s.owner == o && s.node == node && s.sort == of {
		return s
	}
	s := f.find(o, node, of)
	if s == nil {
		e.thin(o)
		s = e.spare.streams.take()
		*s = stream{flow: f, owner: o, node: node, sort: of, index: int32(len(o.streams)), at: int32(len(f.streams))}
		job := e.classOf(f, o)
		job.parts++
		s.turn, s.payer = turn{of: &job.turn, stream: s}, job.of.class
		if s.limit = 1; e.cfg.Timed {
			s.limit = int32(e.cfg.FirstWindow)
		}
		if k := &f.peer.parked[f.level]; k.limit > 0 && k.node == node && k.gid == o.GID && of == packets {
			s.limit, s.met = int32(k.limit), true
			k.limit = 0
		}
		o.streams = append(o.streams, s)
		f.streams = append(f.streams, s)
		f.enter(s)
	}
	f.recent = s
	return s
}

// thinned is how many streams are looked at for each new one of a context that has more streams
// than lines. Of little more than twice as many streams as lines at most half are in use, so enough
// unused ones are found.
const thinned = 4

// thin forgets unused streams of a context that has many. A process may send to all nodes in turn,
// so that its flows are never quiet as a whole.
func (e *End) thin(o *Owner) {
	for i := 0; i < thinned && len(o.streams) > e.cfg.Lines; i++ {
		o.looked++
		s := o.streams[o.looked%len(o.streams)]
		if s.list == nowhere && s.waiting.head == nil && s.flying == 0 && s.hold <= e.now {
			s.flow.forget(s)
			e.giveStream(s)
		}
	}
}

// searched is the number of streams up to which a search one by one is faster than a map.
const searched = 8

// find returns the stream of a context for a node, or nil.
func (f *flow) find(o *Owner, node uint16, of sort) *stream {
	if len(f.streams) > searched {
		return f.byKey[streamKey{o, node, of}]
	}
	for _, s := range f.streams {
		if s.owner == o && s.node == node && s.sort == of {
			return s
		}
	}
	return nil
}

// enter puts a stream of a flow that has many into the map, the first time with the others.
func (f *flow) enter(s *stream) {
	switch n := len(f.streams); {
	case n <= searched:
		return
	case n > searched+1:
		f.byKey[streamKey{s.owner, s.node, s.sort}] = s
		return
	case f.byKey == nil:
		f.byKey = map[streamKey]*stream{}
	}
	for _, s := range f.streams {
		f.byKey[streamKey{s.owner, s.node, s.sort}] = s
	}
}

// forget removes a stream that has nothing waiting and nothing in flight.
func (f *flow) forget(s *stream) {
	delete(f.byKey, streamKey{s.owner, s.node, s.sort})
	f.recent = nil
	last := f.streams[len(f.streams)-1]
	f.streams[s.at], last.at = last, s.at
	f.streams[len(f.streams)-1] = nil
	f.streams = f.streams[:len(f.streams)-1]
}
