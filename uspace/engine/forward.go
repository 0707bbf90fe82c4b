package engine

// This file is the sign that a context leaves behind when it moves to another card, how other cards
// hear of the move, and how they act on it.
//
// A sign is a context without a process, in the place of the one that left. It rejects every packet
// for the process with ReasonMoved. The sender's card takes the packet back from the link, looks
// its route up anew, and sends it there (reroute). The packet has been delivered nowhere.
//
// A sign tells the cards that have nodes of its group, or signs. It tells the new home first, then
// the others, by a packet of KindForward in the name of its node, to any node of the group there. A
// card that is told changes its route table, if that puts the node on the card that tells. No other
// card can say where a node is. A card that did not hear of the move, or was restarted, tries the
// old home, and is then told where the process is by now: later homes tell the old one, too.
//
// The new home takes the word of any card about a node that is about to arrive there: a process of
// the job has asked for the arrival, and has the image. If no other node of the group is there, the
// new home has not heard of other nodes that have moved. So the sign tells it of these first. Such
// news may be out of date. About another node that is about to arrive there, the new home believes
// only the card that the node leaves. About a node that has left a sign there, it does not believe
// that the node is back.
//
// A sign has the lines that its context had, as long as it tells. Then its set of the cache is free
// for others. It costs its user a context.
//
// Long transfers. Parts that were accepted before the move are in the memory that moved; the others
// come to the new home. The last packet still goes to the home where the transfer began. Only that
// card knows whether the process that the first parts went to is the one that moved (life.go). Then
// the last packet goes on to the new home. Its First is then the number that the next frame to the
// new home had when this card was told: any other life there begins later. If the old home is gone
// by then, the transfer comes back.

import (
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funi"
)

const (
	// homes is how many former homes of a node a card remembers. A transfer that began at an
	// earlier one comes back.
	homes = 8
	// tellAgain is the time, in units of MaxHold, after which a card that was told is told again if
	// it still asks here.
	tellAgain = 4
)

// moves holds the signs of contexts that have moved to other cards.
type moves struct {
	core
	routes *routes
	table  *contexts
	bells  *doorbells
	out    *retrieval

	signs   []*Context
	tellers []*Context // signs that have something to tell
}

// forward is the state of a sign.
type forward struct {
	to uint16
	// targets lists news of other nodes first, then the new home, then other cards.
	targets []target
	// cards has, for each card, 1 + the index of the target that is to hear there of this node; 0:
	// there is none.
	cards   []int32
	others  map[uint16]int32 // by other node: 1 + the index of the target that is about it
	before  int              // targets about other nodes that have not been told
	home    int              // index in targets of the new home
	wanting []int            // indices in targets of those to tell next
	listed  bool             // on moves.tellers
	telling int              // packets under way
	left    int              // targets that have not been told
	// again is when the new home, and cards that were not there, are tried again; Never: at no
	// time.
	again int64
}

// target is a card to tell, the node there that is told, and the node that the news is about.
type target struct {
	card, node uint16
	about      uint16
	told       bool
	waits      bool // it is in wanting, or a packet is under way
	anew       bool // the news under way is out of date
	lost       bool // the card was not there when it was told
	at         int64
}

// moved is a group's record of a node that has moved.
type moved struct {
	to    uint16
	first [arctic.Levels]uint32 // First of a transfer that goes on to its new home
	from  [homes]uint16
	known int // how many homes were put into from, in all
}

// was reports whether a card was the node's home.
func (m *moved) was(card uint32) bool {
	for _, c := range m.from[:min(m.known, homes)] {
		if uint32(c) == card {
			return true
		}
	}
	return false
}

// movedFrom reports whether a node has moved from a card to the card where the table puts it.
func (g *group) movedFrom(node uint16, card uint32) bool {
	m := g.moved[node]
	return m != nil && g.routes[node] == uint32(m.to) && m.was(card)
}

// becomeForward turns a switched-out context into a sign.
func (m *moves) becomeForward(x *Context, to uint16) {
	x.saved, x.leaving = nil, false
	x.forward = &forward{to: to, again: Never}
	x.rejection, x.halted, x.owner.Halted = arctic.ReasonMoved, false, false
	x.iface = funi.NewCard(&funi.Memory{Page: new(funi.Page)}) // the process's is not ours
	m.bells.leave(x)
	m.bells.join(x, m.cfg.Doorbells, m.bells.far)
	x.segments, x.long, x.current, x.remote, x.answers, x.chains = funi.Segments{}, nil,
		[arctic.Levels]*transfer{}, nil, nil, nil
	for l := range x.fifo {
		x.fifo[l].entries, x.fifo[l].blocks = nil, nil
	}
	if !x.holdsSet { // SwitchOut has offered it to others
		x.holdsSet = m.table.takeSet() // if there is none free, the card has one more for a while
	}
	m.redirect(x.group, x.node, to)
	x.forward.aim(m, x)
	m.signs = append(m.signs, x)
	m.clock.more = true
}

// aim finds the cards to tell: each card of the group, by its lowest node or a sign.
func (f *forward) aim(m *moves, x *Context) {
	seen := make([]bool, m.link.Cards())
	seen[f.to], seen[m.cfg.Card] = true, true
	f.others = map[uint16]int32{}
	var others []target
	see := func(card uint32, node int) {
		if int(card) < len(seen) && !seen[card] {
			seen[card] = true
			others = append(others, target{card: uint16(card), node: uint16(node), about: x.node})
		}
	}
	for node, route := range x.group.routes {
		see(route, node)
		if was := x.group.moved[uint16(node)]; was != nil {
			for _, card := range was.from[:min(was.known, homes)] {
				see(uint32(card), node)
			}
			if node != int(x.node) && was.to != f.to {
				f.add(x, target{card: f.to, node: x.node, about: uint16(node)})
			}
		}
	}
	f.home = len(f.targets)
	f.add(x, target{card: f.to, node: x.node, about: x.node})
	for i := range others {
		f.add(x, others[i])
	}
	m.wantHome(x)
}

// add adds a target, and returns its index.
func (f *forward) add(x *Context, t target) int {
	f.targets = append(f.targets, t)
	n := int32(len(f.targets))
	if t.about != x.node {
		f.others[t.about] = n
	} else {
		for int(t.card) >= len(f.cards) {
			f.cards = append(f.cards, make([]int32, int(t.card)+1-len(f.cards))...)
		}
		f.cards[t.card] = n
	}
	if !t.told {
		f.owe(x, &f.targets[n-1])
	}
	return int(n) - 1
}

// owe counts a target that has yet to be told.
func (f *forward) owe(x *Context, t *target) {
	f.left++
	if t.about != x.node {
		f.before++
	}
}

// want puts a target of a sign on the list of those to tell.
func (m *moves) want(x *Context, i int) {
	f := x.forward
	if t := &f.targets[i]; !t.waits {
		t.waits = true
		f.wanting = append(f.wanting, i)
	}
	if !f.listed {
		f.listed = true
		m.tellers = append(m.tellers, x)
	}
	m.clock.more = true
}

// Told reports how many cards a sign has yet to tell where its process is, and whether the new home
// has been told. News of other nodes for the new home counts as well. A card without a process of
// the group counts as told. A context that has not left has no cards to tell.
func (x *Context) Told() (left int, home bool) {
	if x.forward == nil {
		return 0, false
	}
	return x.forward.left, x.forward.targets[x.forward.home].told
}

// lookAtSigns queues what signs have to tell again by now.
func (m *moves) lookAtSigns() {
	m.clock.set(signDue, Never)
	for _, x := range m.signs {
		if f := x.forward; f.again <= m.clock.now {
			f.again = Never
			m.wantHome(x)
			m.wantLost(x)
		} else {
			m.clock.by(signDue, f.again)
		}
	}
}

// tellSigns sends the news that signs have to tell.
func (m *moves) tellSigns() {
	waiting := m.tellers[:0]
	for _, x := range m.tellers {
		if !x.detached && m.tellTargets(x) {
			waiting = append(waiting, x)
		} else {
			x.forward.listed = false
		}
	}
	clear(m.tellers[len(waiting):])
	m.tellers = waiting
}

// wantHome queues the news that the new home has not been told, news of other nodes first.
func (m *moves) wantHome(x *Context) {
	f := x.forward
	for i := range f.targets {
		if t := &f.targets[i]; t.about != x.node && !t.told {
			m.want(x, i)
		}
	}
	if f.before == 0 && !f.targets[f.home].told {
		m.want(x, f.home)
	}
}

// wantLost queues the news for cards that were not there before.
func (m *moves) wantLost(x *Context) {
	for i := range x.forward.targets {
		if t := &x.forward.targets[i]; t.lost {
			t.lost = false
			m.want(x, i)
		}
	}
}

// tellTargets sends the news that a sign has queued, and reports whether some of it waits for a
// line.
func (m *moves) tellTargets(x *Context) bool {
	f := x.forward
	for len(f.wanting) > 0 {
		ln := x.take(arctic.Request)
		if ln == nil {
			return true
		}
		i := f.wanting[0]
		f.wanting = f.wanting[1:]
		t := &f.targets[i]
		f.telling++
		ln.Node, ln.typ, ln.argument, ln.Part, ln.asked = t.node, 0, uint32(i), true, true
		words := arctic.PutForward(ln.Data[arctic.PacketHeaderSize:],
			&arctic.Forward{Node: t.about, Card: f.whereIs(m, x, i)})
		m.out.compose(x, arctic.Request, ln, arctic.KindForward, words, uint32(t.card))
		m.link.Queue(t.card, arctic.Request, &ln.Line)
	}
	return false
}

// whereIs returns where the node that a sign tells a target about is, as far as this card has
// heard. So a card that has missed several moves learns of the last.
func (f *forward) whereIs(m *moves, x *Context, i int) uint16 {
	node := f.targets[i].about
	route := m.routes.of(x.group, node)
	if node == x.node && (i == f.home || route == NoRoute || route == uint32(m.cfg.Card)) {
		return f.to
	}
	return uint16(route)
}

// answered notes how the packet in a line of a sign ended.
func (f *forward) answered(x *Context, ln *line, reason arctic.Reason) {
	m := &x.card.move
	i := int(ln.argument)
	x.free(ln)
	t := &f.targets[i]
	t.waits, t.at = false, m.clock.now
	f.telling--
	if x.detached {
		return
	}
	if t.anew {
		t.anew = false
		m.want(x, i)
		return
	}
	switch home := i == f.home; {
	case t.about != x.node && reason != arctic.ReasonNone:
		f.tryAgain(m)
	case t.about != x.node:
		if f.tell(x, t); f.before == 0 && !f.targets[f.home].told {
			m.want(x, f.home)
		}
	case reason == arctic.ReasonNone, reason == arctic.ReasonPath && !home:
		// Or its table puts the node elsewhere: it has been told already, or has a say of its own.
		f.tell(x, t)
		for i := range f.targets {
			if home && !f.targets[i].told {
				m.want(x, i)
			}
		}
	case home:
		f.tryAgain(m)
	case reason >= arctic.ReasonLocal:
		// The card is not there. It will ask if it comes back and sends first; else it is told
		// then.
		f.tell(x, t)
		t.lost = true
		f.againAt(m, m.clock.now+int64(m.cfg.PeerTimeout))
	default:
		if next, ok := x.group.nodeAfter(t.card, t.node); ok {
			t.node = next
			m.want(x, i)
		} else {
			f.tell(x, t) // nobody of the group is there
		}
	}
	if f.telling == 0 && len(f.wanting) == 0 && f.targets[f.home].told {
		m.offerLines(x)
	}
}

// tryAgain has the sign look at its targets again after MaxHold.
func (f *forward) tryAgain(m *moves) {
	f.againAt(m, m.clock.now+int64(m.cfg.MaxHold))
}

// againAt has the sign look at its targets again at a time.
func (f *forward) againAt(m *moves, at int64) {
	f.again = min(f.again, at)
	m.clock.by(signDue, f.again)
}

// tell notes that a target has been told, or need not be told any more.
func (f *forward) tell(x *Context, t *target) {
	if t.told {
		return
	}
	t.told = true
	f.left--
	if t.about != x.node {
		f.before--
	}
}

// learns notes that another node has moved while a sign tells. That node's card may not have been
// among the cards to tell, and the news that the new home has heard may be out of date.
func (m *moves) learns(x *Context, node, to uint16) {
	f := x.forward
	if f.left == 0 || node == x.node {
		return
	}
	if to != f.to && to != m.cfg.Card {
		if i := f.at(to); i < 0 {
			i = f.add(x, target{card: to, node: node, about: x.node})
			if f.targets[f.home].told {
				m.want(x, i)
			}
		}
	}
	if to == f.to {
		return // it hears of it from where that node was
	}
	i := int(f.others[node]) - 1
	if i < 0 {
		i = f.add(x, target{card: f.to, node: x.node, about: node})
	}
	t := &f.targets[i]
	if t.told {
		t.told = false
		f.owe(x, t)
	}
	t.anew = t.waits
	m.want(x, i)
}

// at returns the index of the target that stands for news of the sign's own node to a card, or -1.
func (f *forward) at(card uint16) int {
	if int(card) >= len(f.cards) {
		return -1
	}
	return int(f.cards[card]) - 1
}

// offerLines gives back the lines of a sign that has told all cards.
func (m *moves) offerLines(x *Context) {
	if x.holdsSet {
		m.table.offerSet(x)
	} else {
		x.shelves = nil
	}
}

// nodeAfter returns the next node of the group on a card.
func (g *group) nodeAfter(card, node uint16) (uint16, bool) {
	for n := int(node) + 1; n < len(g.routes); n++ {
		if g.routes[n] == uint32(card) {
			return uint16(n), true
		}
	}
	return 0, false
}

// asked notes that a packet for the process that has moved came from a node. The node's card has
// not heard of the move, or only recently.
func (f *forward) asked(m *moves, x *Context, card, node uint16) {
	again := tellAgain * int64(m.cfg.MaxHold)
	i := f.at(card)
	if i < 0 {
		i = f.add(x, target{card: card, about: x.node, told: true, at: m.clock.now - again})
	}
	t := &f.targets[i]
	if t.waits || i != f.home && !f.targets[f.home].told || t.told && m.clock.now-t.at < again {
		return
	}
	if i != f.home {
		t.node = node
	}
	if !x.holdsSet && !m.table.takeSet() {
		return // it will ask again
	}
	x.holdsSet = true
	m.want(x, i)
}

// rejectMoved rejects a packet for a process that has moved. The packet came in the frame of train
// t; nil: from this card.
func (m *moves) rejectMoved(x *Context, t *link.Train, p arctic.Packet, h *arctic.PacketHeader) arctic.Reason {
	if h.Kind == arctic.KindForward {
		return m.acceptForward(x.group, x, t, p, h)
	}
	var last arctic.Transfer
	if h.Kind == arctic.KindTransfer && p.Transfer(&last) && last.Form == arctic.Last && m.table.torn(x, t, &last) {
		return arctic.ReasonReplaced
	}
	if t != nil {
		x.forward.asked(m, x, t.Header.SourceCard, h.Source)
	}
	return arctic.ReasonMoved
}

// acceptForward takes news of where a node of the group is now, or returns the reason of a reject.
// x is the context that the news came to; nil: there is none.
func (m *moves) acceptForward(g *group, x *Context, t *link.Train, p arctic.Packet,
	h *arctic.PacketHeader) arctic.Reason {
	var f arctic.Forward
	if !p.Forward(h, &f) || h.Level != arctic.Request {
		return arctic.ReasonRemoteForm
	}
	from, gid := uint32(NoRoute), uint16(0)
	if t != nil && g != nil {
		from, gid = uint32(t.Header.SourceCard), t.Header.GID
	}
	arrives := x != nil && x.arriving && h.Source == x.node
	switch {
	case from == NoRoute:
	case arrives && f.Node != x.node:
		// else this card has heard of it from where the node was
		if g.mayBeAt(f.Node, f.Card, m.cfg.Card) && g.allArrive() && m.routes.of(g, f.Node) != NoRoute &&
			m.link.IsPeer(f.Card) {
			m.redirectTo(g, gid, f.Node, f.Card)
		}
		return arctic.ReasonNone
	case arrives && f.Card == m.cfg.Card:
		if m.routes.of(g, x.node) != from {
			g.places(m.routes, x.node, from)
		}
		m.redirectTo(g, gid, x.node, f.Card)
		return arctic.ReasonNone
	case f.Node == h.Source && m.routes.of(g, h.Source) == from && m.link.IsPeer(f.Card):
		m.redirectTo(g, gid, h.Source, f.Card)
		return arctic.ReasonNone
	}
	m.counters.ForwardsRefused++
	return arctic.ReasonPath
}

// mayBeAt reports whether a node of the group may be on a card, as far as the contexts of this card
// tell. A node that is about to arrive here is not elsewhere, and a node that left a sign here is
// not here.
func (g *group) mayBeAt(node, card, here uint16) bool {
	x := g.nodes[node]
	return x == nil || x.forward != nil && card != here
}

// allArrive reports whether all contexts of the group on this card are arriving or are signs. Cards
// that tell of moves may not know of these.
func (g *group) allArrive() bool {
	for _, x := range g.nodes {
		if !x.arriving && x.forward == nil {
			return false
		}
	}
	return true
}

// redirectTo changes the home of a node because another card says so.
func (m *moves) redirectTo(g *group, gid, node, to uint16) {
	if m.routes.of(g, node) == uint32(to) {
		return
	}
	m.redirect(g, node, to)
	if m.cfg.Moved != nil {
		m.cfg.Moved(gid, node, to)
	}
}

// places puts a node of the group on a card, in a route table of the group's own.
func (g *group) places(r *routes, node uint16, route uint32) {
	if g.routes == nil {
		g.routes = slices.Clone(r.common)
		for i := len(g.routes); r.cfg.NodesAreCards && i < r.link.Cards(); i++ {
			g.routes = append(g.routes, r.beyond(uint16(i)))
		}
	}
	for int(node) >= len(g.routes) {
		g.routes = append(g.routes, r.beyond(uint16(len(g.routes))))
	}
	g.routes[node] = route
}

// redirect changes the home of a node of the group. Packets that wait for the node at the old home
// are tried at once; the old home rejects them with ReasonMoved.
func (m *moves) redirect(g *group, node, to uint16) {
	from := uint16(m.routes.of(g, node))
	g.places(m.routes, node, uint32(to))
	m.out.routed()
	if g.moved == nil {
		g.moved = map[uint16]*moved{}
	}
	record := g.moved[node]
	if record == nil {
		record = new(moved)
		g.moved[node] = record
	}
	record.from[record.known%homes] = from
	record.known++
	record.to = to
	for l := range arctic.Level(arctic.Levels) {
		record.first[l] = uint32(m.table.lives)
		if to != m.cfg.Card {
			record.first[l] = m.link.Sequence(to, l) - 1
		}
	}
	m.routes.moved = true
	for _, x := range m.signs {
		if x.group == g {
			m.learns(x, node, to)
		}
	}
	for _, x := range m.table.all {
		if x.group == g {
			m.link.TryNode(x.owner, from, node)
			x.loopHold, x.calm = 0, false
		}
	}
	m.counters.Redirected++
	m.clock.more = true
}

// forgetMoves forgets the moves of nodes that a new route table puts elsewhere.
func (g *group) forgetMoves() {
	for node, m := range g.moved {
		if int(node) >= len(g.routes) || g.routes[node] != uint32(m.to) {
			delete(g.moved, node)
		}
	}
}

// reroute sends on a packet that was rejected because its receiver has moved. It also sends on the
// packets that wait for the same node behind the same card.
func (x *Context) reroute(ln *line) {
	c := x.card
	from, node := arctic.Packet(ln.Data[:ln.Size]).Header().Route, ln.Node
	x.sendAfter(ln)
	if x.group == nil || x.forward != nil || from == c.routes.of(x.group, node) {
		return
	}
	var rest link.Lines
	c.link.TakeBack(x.owner, uint16(from), node, rest.Push)
	for rest.Head() != nil {
		x.sendAfter(c.table.lineOf(rest.Pop()))
	}
}

// sendAfter sends a packet to the card where its receiver is now.
func (x *Context) sendAfter(ln *line) {
	c := x.card
	p := arctic.Packet(ln.Data[:ln.Size])
	h := p.Header()
	t := ln.transfer
	switch {
	case x.forward != nil:
		x.forward.answered(x, ln, arctic.ReasonMoved)
		return
	case x.detached || x.group == nil:
		c.counters.Discarded++
		x.free(ln)
		return
	case t != nil && t.failed != arctic.ReasonNone:
		x.free(ln)
		return
	}
	c.counters.Rerouted++
	route := c.routes.of(x.group, ln.Node)
	if t != nil && t.needsHome(ln) {
		// it has moved too often, or somebody else is the node now
		if route != t.route && !x.group.movedFrom(ln.Node, t.route) {
			x.failTransfer(t, arctic.ReasonReplaced)
			x.free(ln)
			return
		}
		if x.group.movedFrom(ln.Node, t.route) {
			t.first = x.group.moved[ln.Node].first[t.level]
			c.out.opened.remove(t)
			t.route = route
			c.out.opened.add(t)
		}
		c.out.loadOf(x, ln, t, t.notice())
	} else {
		h.Route = route & arctic.MaxRoute
		h.Encode(ln.Data[:])
		ln.Whole()
		c.out.send(x, h.Level, ln, route)
	}
	if c.clock.more = true; x.looping {
		x.stir() // it is for a context of this card now, and this one may be asleep
	}
}

// needsHome reports whether the packet of a line goes to the home where its transfer began: whether
// it is the notice.
func (t *transfer) needsHome(ln *line) bool { return !ln.Part && t.put == nil }
