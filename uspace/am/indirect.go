package am

// This file implements indirect messages (cmam_indirect_4, cmam_indirect_n and their replies of
// thesis appendix A). The message names an object of the receiver, which determines the handler and
// is passed to it.
//
// In C the message carried a pointer to a pointer to the handler, so any sender could make a node
// jump anywhere. Here it carries a reference that the receiver has handed out: the object's place
// in a table, and a number that changes when the place is reused. So a late message finds no
// object.

import (
	"errors"
	"fmt"
)

// MaxObjects is the largest number of objects of an endpoint at a time.
const MaxObjects = 1 << 16

// ErrObject reports an object that does not exist, or that there is no room for another.
var ErrObject = errors.New("am: an endpoint has at most 65536 objects, each known from AddObject to RemoveObject")

// Object receives indirect messages. Receive is the handler: a request handler or a reply handler,
// depending on the message, with the same rules.
type Object interface {
	Receive(m *Message)
}

// objects is the table of objects. A reference is a place in its lower 16 bits, and above them the
// number of the object in it, never 0.
type objects struct {
	table []place
	free  []uint16
}

type place struct {
	object Object
	number uint16
}

// AddObject makes an object known, and returns the reference by which messages name it. The
// reference is valid on this node only, until RemoveObject. ErrObject reports a 65537th object or a
// nil one. Any context; it sends nothing.
func (e *Endpoint) AddObject(o Object) (uint32, error) {
	t := &e.objects
	if o == nil || len(t.free) == 0 && len(t.table) == MaxObjects {
		return 0, fmt.Errorf("adding an object to %d: %w", len(t.table)-len(t.free), ErrObject)
	}
	if len(t.free) == 0 {
		t.free = append(t.free, uint16(len(t.table)))
		t.table = append(t.table, place{})
	}
	i := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	p := &t.table[i]
	p.object = o
	p.number = max(p.number+1, 1)
	return uint32(p.number)<<16 | uint32(i), nil
}

// RemoveObject removes an object. Messages that still arrive for it are dropped and counted by
// Unknown. ErrObject reports an unknown reference. Any context; it sends nothing.
func (e *Endpoint) RemoveObject(reference uint32) error {
	if e.objects.find(reference) == nil {
		return fmt.Errorf("removing object %#x: %w", reference, ErrObject)
	}
	e.objects.table[uint16(reference)].object = nil
	e.objects.free = append(e.objects.free, uint16(reference))
	return nil
}

// find returns the object of a reference, or nil.
func (t *objects) find(reference uint32) Object {
	i := reference & 0xffff
	if int(i) >= len(t.table) || uint32(t.table[i].number) != reference>>16 {
		return nil
	}
	return t.table[i].object
}

// RequestIndirect4 runs an object of a node on four words, at request priority. It is
// otherwise like Request4.
func (e *Endpoint) RequestIndirect4(node int, object, w0, w1, w2, w3 uint32) error {
	if err := e.post4(node, typeIndirectFour, object, w0, w1, w2, w3); err != nil {
		return err
	}
	e.drive()
	return nil
}

// RequestIndirect runs an object of a node on up to MaxWords words, which are copied, at
// request priority. It is otherwise like Request.
func (e *Endpoint) RequestIndirect(node int, object uint32, words ...uint32) error {
	if err := e.post(node, typeIndirectN, object, words); err != nil {
		return err
	}
	e.drive()
	return nil
}

// ReplyIndirect4 runs an object of the node that sent the request, on four words, at
// reply priority. It is otherwise like Reply4.
func (m *Message) ReplyIndirect4(object, w0, w1, w2, w3 uint32) error {
	return m.reply4(typeIndirectFour, object, w0, w1, w2, w3)
}

// ReplyIndirect is ReplyIndirect4 with up to MaxWords words, which are copied.
func (m *Message) ReplyIndirect(object uint32, words ...uint32) error {
	return m.reply(typeIndirectN, object, words)
}
