package am

// This file holds the common part of reduction and broadcast; the barrier uses its call numbers.
//
// The journey: a node waits for the messages of all its children in the tree, which say that their
// subtrees have called. Then it tells its parent, with the contribution of its own subtree (up).
// When the root has heard from all its children, the result goes down the same way. A node that has
// passed the result on has finished.
//
// A node that has finished may begin the next call while others still pass on the result of this
// one, but cannot end the next call without them. So a message up is at most one call ahead. At
// that time all nodes have collected the messages up of this call, so one entry for each child is
// enough. A message down is never ahead, and its words go straight to their destination. Everything
// is at request priority.
//
// The words of a message up are the call number, the kind of call, the child's index, and 64 bits.
// Those of a message down are the call number, offset, length of the whole, and data.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// downWords is how many words of a result go into one message.
const downWords = MaxWords - 2

// kind is the kind of a call: an operation on a type, or one of the constants below.
type kind uint8

const (
	barrierKind   kind = 0 // see barrier.go
	broadcastKind kind = 1
	int64Kind     kind = 0x10 // and the operation
	float64Kind   kind = 0x20
)

// reduces reports whether the call has a result of 64 bits that the root computes.
func (k kind) reduces() bool { return k >= int64Kind }

// ErrCollective reports that the nodes do not call the same operation, or not with the same root.
var ErrCollective = errors.New("am: all nodes must call the same barriers, reductions and broadcasts in the same order, with the same operation, root and length")

// collective is the state of a node's collective calls.
type collective struct {
	number   uint32 // of the call under way, or the last
	open     bool   // a call is under way, maybe one that ended with an error
	gathered bool   // all children have called, and the parent has been told
	value    uint64 // the subtree's contribution, if gathered
	unpassed int    // children that the result has yet to be sent to
	sent     int    // words sent to the next of them; -1: nothing yet
	what     uint32 // the kind of the call, and the root
	result   []uint32
	came     int  // words of the result that have arrived
	wrong    bool // another node calls something else
	ups      [maxChildren]upward
	pair     [2]uint32 // a result of 64 bits
}

// upward is a child's message to its parent.
type upward struct {
	number uint32 // of its call; an old number: it has not called yet
	what   uint32
	value  uint64
}

// enter begins a call, or continues one that ended with an error.
func (e *Endpoint) enter(t *tree, what uint32, result []uint32) error {
	c := &e.collective
	if err := e.together(); err != nil {
		return err
	}
	if c.open && (c.what != what || len(c.result) != len(result)) {
		return fmt.Errorf("calling something else than before an error: %w", ErrCollective)
	}
	if err := e.tellRoundsAgain(); err != nil {
		return err
	}
	c.result = result
	if !c.open {
		c.number++
		c.open, c.gathered, c.what, c.came = true, false, what, 0
		c.unpassed, c.sent = t.children(), -1
		c.wrong = c.wrong || e.calledElse(what)
	}
	return nil
}

// calledElse reports whether a node that called earlier called something else.
func (e *Endpoint) calledElse(what uint32) bool {
	c := &e.collective
	for k := range maxRounds {
		if u := &c.ups[k]; u.number == c.number && u.what != what {
			return true
		}
		if h := &e.rounds.heard[k][c.number&1]; h.number == c.number && h.what != what {
			return true
		}
	}
	return false
}

// collect carries out a call. It combines the values of all nodes at the root, stores a reduction's
// result there in c.pair, and copies result to all nodes. After an error the same call continues
// where it stopped.
func (e *Endpoint) collect(root int, kind kind, value uint64, combine func(a, b uint64) uint64, result []uint32) error {
	if err := e.refusal(root, 0); err != nil {
		return err
	}
	c := &e.collective
	t := tree{root: root, node: e.node, nodes: e.nodes}
	if err := e.enter(&t, uint32(kind)|uint32(root)<<8, result); err != nil {
		return err
	}
	value, err := e.gather(&t, value, combine)
	if err != nil {
		return err
	}
	if kind.reduces() && e.node == root {
		c.pair = [2]uint32{uint32(value), uint32(value >> 32)}
	}
	if err := e.spread(&t); err != nil {
		return err
	}
	c.open, c.result = false, nil
	return nil
}

// gather waits until all children have called, combines their values with the node's own, always in
// the same order, and tells the parent.
func (e *Endpoint) gather(t *tree, value uint64, combine func(a, b uint64) uint64) (uint64, error) {
	c := &e.collective
	if c.gathered {
		return c.value, nil
	}
	for k := range t.children() {
		u := &c.ups[k]
		if err := e.waitTogether(t.child(k), func() bool { return u.number == c.number || c.wrong }); err != nil {
			return 0, err
		}
		if c.wrong || u.what != c.what {
			return 0, fmt.Errorf("hearing from node %d: %w", t.child(k), ErrCollective)
		}
		value = combine(value, u.value)
	}
	if t.relative() != 0 {
		if err := e.tellParent(t, value); err != nil {
			return 0, err
		}
	}
	c.gathered, c.value = true, value
	return value, nil
}

// tellParent sends the subtree's contribution to the parent.
func (e *Endpoint) tellParent(t *tree, value uint64) error {
	node, k := t.parent()
	s, err := e.reserve(node, 4)
	if err != nil {
		return err
	}
	s.SetHeader(funi.NewHeader(uint16(node), typeUp, 5))
	s[1], s[2], s[3], s[4], s[5] = e.collective.number, e.collective.what, uint32(k), uint32(value), uint32(value>>32)
	e.commit(funi.Request, s)
	e.drive()
	return nil
}

// spread waits for the result, unless the node is the root, and passes it on, first to the largest
// subtree.
func (e *Endpoint) spread(t *tree) error {
	c := &e.collective
	if t.relative() != 0 {
		node, _ := t.parent()
		// The message of a result without words counts as one.
		if err := e.waitTogether(node, func() bool { return c.came >= max(len(c.result), 1) || c.wrong }); err != nil {
			return err
		}
		if c.wrong {
			return fmt.Errorf("hearing from node %d: %w", node, ErrCollective)
		}
	}
	for c.unpassed > 0 {
		if err := e.pass(t.child(c.unpassed - 1)); err != nil {
			return err
		}
		c.unpassed--
		c.sent = -1
	}
	e.drive()
	return nil
}

// pass sends a child the part of the result that it lacks, which is at least one message.
func (e *Endpoint) pass(child int) error {
	c := &e.collective
	for c.sent < len(c.result) {
		s, err := e.reserve(child, 0)
		if err != nil {
			return err
		}
		at := max(c.sent, 0)
		n := copy(s[4:4+downWords], c.result[at:])
		s.SetHeader(funi.NewHeader(uint16(child), typeDown, 3+n))
		s[1], s[2], s[3] = c.number, uint32(at), uint32(len(c.result))
		e.commit(funi.Request, s)
		c.sent = at + n
	}
	return nil
}

// up notes that a child has called.
func (c *collective) up(e *Endpoint, m *Message, number uint32) {
	if len(m.Words) != 4 || m.Words[1] >= maxChildren || !e.timely(number) ||
		int32(number-c.ups[m.Words[1]].number) < 0 {
		e.unknown++
		return
	}
	w := m.Words
	c.wrong = c.wrong || c.open && number == c.number && w[0] != c.what
	c.ups[w[1]] = upward{number: number, what: w[0], value: uint64(w[2]) | uint64(w[3])<<32}
}

// down takes a part of the result.
func (c *collective) down(e *Endpoint, m *Message, number uint32) {
	if len(m.Words) < 2 || number != c.number || !c.open {
		e.unknown++
		return
	}
	at, total, data := m.Words[0], m.Words[1], m.Words[2:]
	if total != uint32(len(c.result)) || uint64(at)+uint64(len(data)) > uint64(total) {
		c.wrong = true
		return
	}
	copy(c.result[at:], data)
	c.came += max(len(data), 1)
}
