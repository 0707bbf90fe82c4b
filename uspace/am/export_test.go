package am

// This file shows tests what the library keeps for messages.

// MemoryInUse returns how many bytes of memory for messages that arrive are in use, but for leases.
func MemoryInUse(e *Endpoint) int {
	l := e.bytes.landing
	used := l.longest
	for _, f := range l.free {
		used -= f.size
	}
	return used
}

// View returns the digest of all nodes' lives that a node with Rejoin has.
func View(e *Endpoint) uint64 { return e.member.view }

// WideKept returns how many wide messages of a node are kept, and how many blocks of memory those
// in parts have. It panics if what the endpoint counts does not agree with what it has.
func WideKept(e *Endpoint, node int) (kept, blocks int) {
	t := &e.tags
	p := t.pair(wideSpace, uint16(node))
	long := 0
	count := func(n *envelope) {
		if n == nil || n.pair != p {
			return
		}
		kept++
		if n.block != nil {
			blocks++
		}
		if n.form == formLong {
			long++
		}
	}
	for n := t.kept.first; n != nil; n = n.next {
		count(n)
	}
	for c := range t.claims.used {
		count(c.envelope)
	}
	if long != p.long {
		panic("long messages are miscounted")
	}
	for _, n := range p.early {
		count(n)
	}
	if blocks != p.parts {
		panic("blocks are miscounted")
	}
	posted, entries := 0, 0
	for i := range t.classes.all {
		posted += t.classes.all[i].posted
		entries += t.classes.all[i].entries
	}
	waiting := 0
	for r := range t.receives.used {
		if r.state == opWaiting {
			waiting++
		}
	}
	all := 0
	for n := t.kept.first; n != nil; n = n.next {
		for x := n.entries; x != nil; x = x.sibling {
			all++
		}
	}
	if posted != waiting || entries != posted+all {
		panic("entries of classes are miscounted")
	}
	return kept, blocks
}
