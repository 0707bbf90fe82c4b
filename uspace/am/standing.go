package am

// This file is memory that a receiver grants ahead, a standing grant: a sender whose long message has been taken will
// probably send another as long. The memory of the one then stays the sender's, and the next message to fit into it
// leaves at once, without the round trip for its grant. So the receiver's program need not run before the bytes move.
//
//	sender                                          receiver
//	typeReady ... (with the bit ahead)       ->
//	                                         <-     typeTaken id, status, key, address
//	typeReady ..., key                       ->     ties the message to the grant
//	transfers, argument: key                 ->     as with any grant
//
// Standing grants have at most a quarter of the memory together, and are the first to go: while a message waits for memory
// none is given, and their senders are asked to give theirs back (typeRevoke), now and then until they have. A sender answers with
// typeAbort, unless a message that uses the grant is under way, or it has yet to hear of the grant.

import (
	"slices"

	"github.com/funet/funet/uspace/funi"
)

const (
	// aheadBit in the word behind the id says that the sender takes standing grants.
	aheadBit = 1 << 20
	// mostStanding is the most bytes of one standing grant, and mostAhead how many a sender keeps of a receiver.
	mostStanding = 1 << 20
	mostAhead    = mostAsked
	// revokeAgain is how many polls of a program whose senders wait pass before it asks again.
	revokeAgain = 1 << 12
)

// standing is memory at a receiver for a message to come.
type standing struct {
	key, address uint32
	size         int // bytes
}

// stand grants the memory of a message that was taken ahead, or returns nil: it is for others. At a grant that stands, left is
// the words that the memory has room for, less those that have arrived.
func (e *Endpoint) stand(was *grant) *grant {
	x := &e.bytes
	size := was.size
	if was.second&aheadBit == 0 || kindOf(was.second) == kindTagged || len(x.waiting) > 0 ||
		size > mostStanding || x.standing+size > x.landing.longest/4 || len(x.free) == 0 && !x.moreGrants(e.seed) {
		return nil
	}
	g := x.place()
	*g = grant{key: g.key, open: true, stands: true, node: was.node, id: was.id, left: size / 4, extent: was.extent}
	x.standing += size
	return g
}

// bind ties a message to the standing grant of a key, and reports false if there is none for it.
func (e *Endpoint) bind(m *Message, a *asking, key uint32) bool {
	x := &e.bytes
	g := x.receiving.find(m.Source, key)
	if g == nil || !g.stands || a.bytes > g.size {
		return false
	}
	words := (a.bytes+15)/16*4 - (g.size/4 - g.left) // that have yet to arrive
	if words < 0 {
		return false // the sender breaks the rules; the grant stays as it is
	}
	x.standing -= g.size
	*g = grant{key, true, false, false, a.node, a.id, a.second, a.words, a.bytes, words, g.extent}
	if words == 0 {
		e.arrivedWhole(m, g)
	}
	return true
}

// toldAhead is what the sender of a message that was taken is told, with its standing grant.
func (g *grant) toldAhead(e *Endpoint) control {
	return control{node: g.node, typ: typeTaken, n: 4, words: [6]uint32{g.id, statusDone, g.key, e.bytes.landing.base + uint32(g.at)}}
}

// revoke asks the senders that have standing grants to give them back, each once; or again.
func (e *Endpoint) revoke(again bool) {
	x := &e.bytes
	for i := range x.grants {
		if g := &x.grants[i]; g.open && g.stands && (again || !g.revoked) {
			g.revoked = true
			e.sendControl(nil, control{node: g.node, typ: typeRevoke, n: 1, words: [6]uint32{g.key}})
		}
	}
}

// unstand frees a standing grant that its sender has given back, or whose sender is gone.
func (e *Endpoint) unstand(g *grant, givenBack bool) {
	x := &e.bytes
	x.standing -= g.size
	if givenBack && g.left == g.size/4 {
		x.landing.give(g.extent) // nothing has been written, or will be
	} else {
		x.landing.close(g.extent, &x.landing.extents)
	}
	x.end(g)
	x.busy = true
}

// keep notes a standing grant of a node, that has come with what became of a message; nil: which is not known.
func (e *Endpoint) keep(node int, of *send, key, address uint32) {
	p := e.peer(node)
	switch {
	case e.bytes.sendOf(uint16(node), key) != nil || slices.ContainsFunc(p.ahead, func(g standing) bool { return g.key == key }):
		// It is known already: the message came twice.
	case of != nil && int(of.node) == node && of.state == sendGone && key != 0 && key&partBit == 0 && address%grain == 0 && len(p.ahead) < mostAhead:
		p.ahead = append(p.ahead, standing{key, address, (of.size + grain - 1) &^ (grain - 1)})
	default:
		e.giveBack(node, key)
	}
}

// giveBack tells a node that a standing grant of its is not wanted.
func (e *Endpoint) giveBack(node int, key uint32) {
	e.sendControl(nil, control{node: uint16(node), typ: typeAbort, n: 1, words: [6]uint32{key}})
}

// useStanding has a message use a standing grant of its receiver, if one is large enough and no other message waits.
func (e *Endpoint) useStanding(s *send, p *bytePeer) bool {
	x := &e.bytes
	if len(p.held) > 0 || len(p.ahead) == 0 {
		return false
	}
	i := slices.IndexFunc(p.ahead, func(g standing) bool { return s.size <= g.size })
	if i < 0 {
		return false
	}
	g := p.ahead[i]
	p.ahead = slices.Delete(p.ahead, i, i+1)
	s.state, s.key, s.address, s.stood = sendGranted, g.key, g.address, true
	c := s.ready()
	c.n, c.words[5] = 6, g.key
	e.sendControl(nil, c)
	x.granted = append(x.granted, s.id)
	x.busy = true
	return true
}

// revoked gives a standing grant back, if it is here and no message uses it.
func (e *Endpoint) revoked(m *Message, key uint32) {
	if len(m.Words) != 0 || m.level != funi.Request || e.bytes.peers == nil {
		e.unknown++
		return
	}
	p := e.peer(m.Source)
	if i := slices.IndexFunc(p.ahead, func(g standing) bool { return g.key == key }); i >= 0 {
		p.ahead = slices.Delete(p.ahead, i, i+1)
		e.giveBack(m.Source, key)
	}
}
