package am

// This file finds, for a message, the first receive that takes it, and for a receive the first
// message that it takes, however many wait.
//
// A class is all receives that ignore the same bits of the tag, and either all name their source or
// all take any. Within a class a receive takes exactly the messages of one key: channel, source and
// origin unless any, and the tag without the ignored bits. So a class is a hash table. It has the
// entries of its receives that wait for a message, and one entry of each message that waits for a
// receive. A receive looks for a message in its own class. A message looks for a receive in each
// class that has some, and takes the one that was started first. No message waits while a receive
// of its key does. So the first entry of a key says which of the two wait.
//
// The limit: there are eight classes, and MPI libraries use four or five. A ninth takes the place
// of one without receives, which costs a look at each message that waits. If all have receives, the
// others are in one that is no hash table, but a list.

import "math/rand/v2"

const (
	mostClasses = 9 // with unhashed
	// unhashed is the class of receives that no other has room for. All of it has one key.
	unhashed = 0
	// narrow is the channel of tags of 32 bits; those of wide messages are below it.
	narrow = 1 << 8
	// firstBuckets is the size of a new table.
	firstBuckets = 8
)

// pattern is what a receive accepts.
type pattern struct {
	source      int   // or AnySource
	origin      uint8 // if source is a node
	channel     uint16
	tag, ignore uint64
}

// space returns the space of the messages that a pattern accepts.
func (w *pattern) space() uint32 {
	if w.channel != narrow {
		return wideSpace
	}
	return uint32(w.tag >> 31)
}

// takes reports whether a pattern accepts a message.
func (w *pattern) takes(n *envelope) bool {
	return w.channel == n.channel && (w.tag^n.tag)&^w.ignore == 0 && (w.source == AnySource ||
		w.source == int(n.pair.node) && w.origin == n.origin)
}

// key is what the messages have in common that a receive of a class takes.
type key struct {
	tag   uint64
	place uint64 // channel, source and origin
}

// entry is a receive or a message in a class.
type entry struct {
	previous, next *entry // in a bucket
	key
	class    uint8
	receive  *tagReceive
	envelope *envelope
	sibling  *entry // the same message's in another class
}

// class is a hash table of entries. Those of one key are in order.
type class struct {
	used    bool
	any     bool // of receives from AnySource
	ignore  uint64
	posted  int // receives
	entries int
	buckets []bucket // a power of two
	shift   uint8
	place   uint8 // in classes
}

type bucket struct{ first, last *entry }

// classes is all classes of an endpoint.
type classes struct {
	all    [mostClasses]class
	count  int // those from this index on were never used
	victim int // class that a new one is tried on first
	order  uint64
	mix    [2]uint64 // random and odd, so that no sender knows what falls into one bucket
	spare  *entry
}

// make prepares the classes.
func (x *classes) make(seed uint64) {
	var random rand.PCG
	random.Seed(seed, 7)
	x.mix = [2]uint64{random.Uint64() | 1, random.Uint64() | 1}
	for i := range x.all {
		x.all[i].place = uint8(i)
	}
}

// key returns the key of a channel, source and tag.
func (c *class) key(channel, source uint16, origin uint8, tag uint64) key {
	switch {
	case c.place == unhashed:
		return key{}
	case c.any:
		return key{tag &^ c.ignore, uint64(channel) << 24}
	}
	return key{tag &^ c.ignore, uint64(channel)<<24 | uint64(source)<<8 | uint64(origin)}
}

// bucket returns the bucket of a key.
func (x *classes) bucket(c *class, k key) *bucket {
	return &c.buckets[(k.tag*x.mix[0]+k.place*x.mix[1])>>c.shift]
}

// add appends an entry, whose key is set, to a class.
func (x *classes) add(c *class, e *entry) {
	if c.entries++; c.entries > len(c.buckets) && c.place != unhashed {
		x.enlarge(c)
	}
	e.class = c.place
	x.bucket(c, e.key).add(e)
}

// enlarge doubles a table. Entries of one key stay in order.
func (x *classes) enlarge(c *class) {
	old := c.buckets
	c.buckets = make([]bucket, 2*len(old))
	c.shift--
	for _, b := range old {
		for e := b.first; e != nil; {
			next := e.next
			x.bucket(c, e.key).add(e)
			e = next
		}
	}
}

func (b *bucket) add(e *entry) {
	e.previous, e.next = b.last, nil
	if b.last == nil {
		b.first = e
	} else {
		b.last.next = e
	}
	b.last = e
}

// remove removes an entry from its class.
func (x *classes) remove(e *entry) {
	c := &x.all[e.class]
	c.entries--
	b := x.bucket(c, e.key)
	if e.previous == nil {
		b.first = e.next
	} else {
		e.previous.next = e.next
	}
	if e.next == nil {
		b.last = e.previous
	} else {
		e.next.previous = e.previous
	}
	e.previous, e.next = nil, nil
}

// class returns the class of the receives of a pattern.
func (t *tags) class(w *pattern) *class {
	for i := 1; i < t.classes.count; i++ {
		if c := &t.classes.all[i]; c.used && c.ignore == w.ignore && c.any == (w.source == AnySource) {
			return c
		}
	}
	return t.newClass(w)
}

// newClass makes a class for a pattern in the place of an unused one or of one without receives.
func (t *tags) newClass(w *pattern) *class {
	x := &t.classes
	c := &x.all[unhashed]
	for range mostClasses - 1 {
		victim := &x.all[1+x.victim]
		x.victim = (x.victim + 1) % (mostClasses - 1)
		if victim.posted == 0 {
			c = victim
			break
		}
	}
	if c.place == unhashed && c.used {
		return c
	}
	if c.used {
		for n := t.kept.first; n != nil; n = n.next {
			t.leave(n, c)
		}
	}
	x.count = max(x.count, int(c.place)+1)
	c.used, c.any, c.ignore = true, w.source == AnySource, w.ignore
	if c.buckets == nil {
		c.buckets, c.shift = make([]bucket, firstBuckets), 64-3
	}
	if c.place == unhashed {
		c.shift = 64 // all in one bucket
	}
	for n := t.kept.first; n != nil; n = n.next {
		t.enter(n, c)
	}
	return c
}

// enter makes an entry of a message in a class.
func (t *tags) enter(n *envelope, c *class) {
	e := t.classes.spare
	if e == nil {
		e = new(entry)
	} else {
		t.classes.spare = e.sibling
	}
	e.key, e.envelope = c.key(n.channel, n.pair.node, n.origin, n.tag), n
	e.sibling, n.entries = n.entries, e
	t.classes.add(c, e)
}

// leave removes the entry of a message in a class.
func (t *tags) leave(n *envelope, c *class) {
	for at := &n.entries; *at != nil; at = &(*at).sibling {
		if e := *at; e.class == c.place {
			*at = e.sibling
			t.drop(e)
			return
		}
	}
}

// drop removes an entry of a message, and frees it.
func (t *tags) drop(e *entry) {
	t.classes.remove(e)
	e.envelope = nil
	e.sibling, t.classes.spare = t.classes.spare, e
}

// keep keeps a message until a receive takes it.
func (t *tags) keep(n *envelope) {
	t.kept.add(n)
	if n.form == formLong {
		n.pair.long++
	}
	for i := range t.classes.count {
		if c := &t.classes.all[i]; c.used {
			t.enter(n, c)
		}
	}
}

// unkeep ends keep.
func (t *tags) unkeep(n *envelope) {
	t.kept.remove(n)
	if n.form == formLong {
		n.pair.long--
	}
	for e := n.entries; e != nil; e = n.entries {
		n.entries = e.sibling
		t.drop(e)
	}
}

// first returns the first message that waits and that a receive of a class and a pattern takes, or
// nil.
func (t *tags) first(c *class, w *pattern) *envelope {
	if c.entries == c.posted {
		return nil
	}
	k := c.key(w.channel, uint16(w.source), w.origin, w.tag)
	for e := t.classes.bucket(c, k).first; e != nil; e = e.next {
		if e.key == k && (c.place != unhashed || e.envelope != nil && w.takes(e.envelope)) {
			return e.envelope // nil: receives of this key wait already
		}
	}
	return nil
}

// post lets a receive wait for a message.
func (t *tags) post(c *class, r *tagReceive) {
	x := &t.classes
	x.order++
	r.order, r.entry.receive = x.order, r
	r.entry.key = c.key(r.pattern.channel, uint16(r.pattern.source), r.pattern.origin, r.pattern.tag)
	c.posted++
	x.add(c, &r.entry)
}

// unpost ends post.
func (t *tags) unpost(r *tagReceive) {
	t.classes.all[r.entry.class].posted--
	t.classes.remove(&r.entry)
}

// receiver returns the receive that was started first of those that take a message, or nil.
func (t *tags) receiver(n *envelope) *tagReceive {
	var found *tagReceive
	for i := range t.classes.count {
		c := &t.classes.all[i]
		if c.posted == 0 {
			continue
		}
		k := c.key(n.channel, n.pair.node, n.origin, n.tag)
		for e := t.classes.bucket(c, k).first; e != nil; e = e.next {
			if e.key != k || c.place == unhashed && (e.receive == nil || !e.receive.pattern.takes(n)) {
				continue
			}
			if e.receive != nil && (found == nil || e.receive.order < found.order) {
				found = e.receive
			}
			break
		}
	}
	return found
}
