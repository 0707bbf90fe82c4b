package chaos

// This file has the multicasts that processes send along chains while all other faults happen
// (engine/chain.go). Each group has some chains. Each is a tree of its own over the same nodes, so
// they cross each other. Every life of a member joins them all; now and then it leaves one, and
// joins it again.
//
// No node gets a multicast twice, in any life. A multicast of a process that lives is complete
// once. Without a failure it has come to all members that have lived since it was sent. With a
// failure each member is counted once. Of the members counted as having it, each has it or has
// died. The members counted as not having it do not have it. Each node that is named is a member.

import (
	"math/rand/v2"
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	chainsOfGroup = 3
	// chainBit marks the numbers of multicasts, in their first words and in their cookies. The
	// numbers of messages and operations are below it.
	chainBit = 1 << 31
)

// tree is a chain of a group: the order of its members.
type tree struct {
	number  uint16
	members []int32 // the first one first
	parent  map[int32]int32
	next    map[int32][]int32
	size    map[int32]uint16 // members from there on
	joined  map[int32]bool   // of the present lives
}

type multicast struct {
	number   uint32
	from     *member
	deaths   uint16
	job      uint32
	tree     *tree
	words    int
	typ      uint16
	lives    map[int32]uint16 // of its members, when it was sent
	got      map[int32]bool
	complete bool
	reason   arctic.Reason
	told     funi.Delivery
}

func (r *run) plant(gid uint16, members []int32) {
	x := rand.New(rand.NewPCG(r.scenario.Seed, streamChains+uint64(gid)))
	for number := range uint16(chainsOfGroup) {
		t := &tree{number: number, parent: map[int32]int32{}, next: map[int32][]int32{}, size: map[int32]uint16{},
			joined: map[int32]bool{}}
		for _, i := range x.Perm(len(members)) {
			t.members = append(t.members, members[i])
		}
		t.members = t.members[:1+x.IntN(len(members))]
		long := x.IntN(2) == 0 // a chain in the word's sense
		for i, k := range t.members {
			if i == 0 {
				continue
			}
			parent := t.members[i-1]
			if p := t.members[x.IntN(i)]; !long && len(t.next[p]) < funi.MaxNext {
				parent = p
			}
			t.parent[k] = parent
			t.next[parent] = append(t.next[parent], k)
		}
		for i := len(t.members) - 1; i >= 0; i-- { // who is behind comes later in the list
			k := t.members[i]
			t.size[k]++
			if i > 0 {
				t.size[t.parent[k]] += t.size[k]
			}
		}
		r.trees[gid] = append(r.trees[gid], t)
	}
}

// join makes the member join the chain, if it is one of the tree, and reports whether there was a
// slot for that.
func (m *member) join(t *tree) bool {
	if _, ok := t.size[int32(m.number)]; !ok {
		return true
	}
	i := m.process.Interface()
	s := i.Reserve(funi.Request)
	if s == nil {
		return false
	}
	k := int32(m.number)
	set := funi.Chain{Number: t.number, First: k == t.members[0]}
	if !set.First {
		set.Parent = m.run.members[t.parent[k]].node
	}
	for _, n := range t.next[k] {
		set.Next = append(set.Next, funi.Next{Node: m.run.members[n].node, Members: t.size[n]})
	}
	s.SetChain(&set, chainBit)
	i.Commit(funi.Request)
	t.joined[k] = true
	return true
}

// leaves notes that a new life of the member has yet to join all chains.
func (m *member) leaves() {
	for _, t := range m.run.trees[m.gid] {
		t.joined[int32(m.number)] = false
	}
}

func (m *member) joins() {
	for _, t := range m.run.trees[m.gid] {
		if !t.joined[int32(m.number)] && !m.join(t) {
			return
		}
	}
}

// multicasts sends some multicasts along a chain of the group. Or the member leaves a chain, or
// rejoins those that it has left.
func (m *member) multicasts() {
	m.joins()
	t := m.run.trees[m.gid][m.random.IntN(chainsOfGroup)]
	if m.random.IntN(32) == 0 && t.joined[int32(m.number)] {
		if s := m.process.Interface().Reserve(funi.Request); s != nil {
			s.SetLeaveChain(t.number, chainBit)
			m.process.Interface().Commit(funi.Request)
			t.joined[int32(m.number)] = false
		}
		return
	}
	for range 1 + m.random.IntN(12) {
		words, typ := 1+m.random.IntN(arctic.MaxMulticastWords), m.typ()
		s := m.slot(m.process, funi.Request)
		if s == nil {
			return
		}
		o := &multicast{number: chainBit | uint32(len(m.run.multicasts)), from: m, deaths: m.deaths, job: m.job,
			tree: t, words: words, typ: typ,
			lives: map[int32]uint16{}, got: map[int32]bool{}}
		for _, k := range t.members {
			o.lives[k] = m.run.members[k].deaths
		}
		var data [arctic.MaxMulticastWords * arctic.WordSize]byte
		all := make([]uint32, words)
		for k := range all {
			all[k] = m.run.oracle.word(o.number, k)
		}
		all[0] = o.number
		arctic.PutWords(data[:], all)
		s.SetMulticast(m.run.members[t.members[0]].node,
			&funi.MulticastRequest{Chain: t.number, Members: uint16(len(t.members)), Cookie: o.number, Message: typ,
				Data: data[:words*arctic.WordSize]})
		m.run.multicasts = append(m.run.multicasts, o)
		m.commit(funi.Request)
	}
}

// copied checks a message that may be a multicast's, and reports whether it is one.
func (m *member) copied(l funi.Level, s *funi.Slot) bool {
	r := m.run
	number, h := s[funi.PayloadWord], s.Header()
	if h.Transfer() || h.Length() == 0 || number&chainBit == 0 || int(number&^chainBit) >= len(r.multicasts) {
		return false
	}
	o, k := r.multicasts[number&^chainBit], int32(m.number)
	r.oracle.progress = r.world.Now()
	switch _, member := o.tree.size[k]; {
	case !member || m.gid != o.from.gid || m.job != o.job || s.Source() != o.from.node:
		r.misdelivered("multicast %d of member %d in job %d has come to member %d in job %d, from node %d", number&^chainBit,
			o.from.number, o.job, m.number, m.job, s.Source())
	case h.Length() != o.words || h.Type() != o.typ || l != funi.Request:
		r.damaged("multicast %d of %d words has come to member %d as %#x at level %v",
			number&^chainBit, o.words, m.number, h, l)
	case o.got[k]:
		r.duplicated("multicast %d of member %d has come to member %d again", number&^chainBit,
			o.from.number, m.number)
	}
	for i := 1; i < min(h.Length(), o.words); i++ {
		if s[funi.PayloadWord+i] != r.oracle.word(number, i) {
			r.damaged("multicast %d has come to member %d with another word %d", number&^chainBit, m.number, i)
			break
		}
	}
	o.got[k] = true
	r.copies++
	return true
}

// notCarriedOut takes a block of chains that the card gave back, and reports whether it is one.
func (m *member) notCarriedOut(b funi.Returned) bool {
	op := b.Header.Operation()
	if b.Header.Remote() && (op == funi.OpenPath || op == funi.ClosePath) {
		m.paths.returned(b)
		return true
	}
	if !b.Header.Remote() || op != funi.Multicast && op != funi.SetChain {
		return false
	}
	r := m.run
	if op != funi.Multicast || b.Reason != arctic.ReasonNoBuffer || int(b.Word&^chainBit) >= len(r.multicasts) {
		r.damaged("member %d: a block of chains came back: %d, %v", m.number, op, b.Reason)
		return true
	}
	m.told(b.Word, arctic.ReasonNoBuffer, funi.Delivery{})
	return true
}

func (m *member) noted(n *funi.Notification) {
	switch {
	case n.Kind == funi.NotePath:
		m.paths.noted(n)
	case m.lettered(n):
	case n.Cookie&chainBit != 0 && n.Kind == funi.NoteCompletion && n.Operation == arctic.RemoteMulticast:
		m.told(n.Cookie, n.Reason, n.Delivery())
	case m.windows != nil:
		m.windows.note(n)
	default:
		m.run.damaged("member %d has a notification of nothing: %+v", m.number, n)
	}
}

func (m *member) told(number uint32, reason arctic.Reason, d funi.Delivery) {
	r := m.run
	r.oracle.progress = r.world.Now()
	if int(number&^chainBit) >= len(r.multicasts) {
		r.damaged("member %d has a notification that is of no multicast", m.number)
		return
	}
	o := r.multicasts[number&^chainBit]
	if o.complete || o.from != m || o.deaths != m.deaths {
		r.duplicated("multicast %d of member %d is complete twice, or for another: member %d",
			number&^chainBit, o.from.number, m.number)
		return
	}
	o.complete, o.reason, o.told = true, reason, d
	known := d.Delivered + d.Failed
	switch {
	case reason == arctic.ReasonNoBuffer:
		return
	case known+d.Doubtful != len(o.tree.members), (reason == arctic.ReasonNone) != (d.Delivered == len(o.tree.members)),
		d.Doubtful > 0 && d.Failed == 0 && !reason.Doubtful(),
		d.Failed > 0 && d.Named == 0, d.Named > d.Failed+d.Doubtful:
		r.damaged("multicast %d to %d members: %v, %+v", number&^chainBit, len(o.tree.members), reason, d)
	case reason == arctic.ReasonNone:
		r.carried++
		return
	}
	for _, b := range d.Broken[:min(d.Named, funi.MaxNamed)] {
		if !o.tree.has(r, b.Node) {
			r.damaged("multicast %d failed at node %d, which is no member", number&^chainBit, b.Node)
		}
		o.mayBreak(r, b.Reason)
	}
	o.mayBreak(r, reason)
}

func (t *tree) has(r *run, node uint16) bool {
	return slices.ContainsFunc(t.members, func(k int32) bool { return r.members[k].node == node })
}

func (o *multicast) mayBreak(r *run, reason arctic.Reason) {
	switch {
	case reason == arctic.ReasonChain: // a member has left, or not joined yet
	case reason.Doubtful(), reason == arctic.ReasonNoContext, reason == arctic.ReasonJob,
		reason == arctic.ReasonNoRoute,
		reason == arctic.ReasonSourceNode: // out of reach when a member moved
		if r.scenario.Faults&^calm == 0 {
			r.lost("multicast %d failed, and nothing was wrong: %v, %+v", o.number&^chainBit, reason, o.told)
		}
	default:
		r.damaged("multicast %d: %v, %+v", o.number&^chainBit, reason, o.told)
	}
}

// settleChains checks the outcomes of multicasts, when nothing is under way any more.
func (r *run) settleChains() {
	for _, o := range r.multicasts {
		number := o.number &^ chainBit
		if !o.complete {
			continue // nobody was left to hear of it, or settleLost counts it
		}
		have, got := 0, 0 // or have died; have it
		for _, k := range o.tree.members {
			if o.got[k] {
				got++
			}
			switch {
			case o.got[k] || r.members[k].deaths != o.lives[k]:
				have++
			case o.reason == arctic.ReasonNone:
				r.lost("multicast %d of member %d is complete, and has not come to member %d",
					number, o.from.number, k)
			}
		}
		if have < o.told.Delivered {
			r.lost("multicast %d of member %d has come to %d members of %d that are said to have it", number,
				o.from.number, have, o.told.Delivered)
		}
		if got+o.told.Failed > len(o.tree.members) {
			r.damaged("multicast %d of member %d has come to %d members of %d, and %d are said not to have it", number,
				o.from.number, got, len(o.tree.members), o.told.Failed)
		}
	}
}
