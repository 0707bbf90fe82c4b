package am

// This file accesses single values in a node's memory: read and write, which wait, and put, which
// does not.

import (
	"encoding/binary"
	"math"
)

// ReadInt32 returns the integer, one word, at an address of a node's memory. The address is a
// multiple of 4 in a region that the node has shared with the right Source (ErrAddress). The
// question travels at request priority and the answer at reply priority. The call polls until the
// answer has arrived. Main program only.
//
// Errors are ErrAddress and those of Request. Like any wait it ends with an Undelivered error when
// the node is gone, or another message has come back; then it can be called again.
func (e *Endpoint) ReadInt32(node int, address uint32) (int32, error) {
	bits, err := e.calls.read(node, address, 1)
	return int32(bits), err
}

// ReadFloat64 is ReadInt32 for a double, two words at a multiple of 4.
func (e *Endpoint) ReadFloat64(node int, address uint32) (float64, error) {
	bits, err := e.calls.read(node, address, 2)
	return math.Float64frombits(bits), err
}

// WriteInt32 writes an integer, one word, to an address of a node's memory, and waits until it is
// there. The address is a multiple of 4 in a region that the node has shared with the right
// Destination. Priorities, contexts and errors are those of ReadInt32. After an error other than
// ErrAddress the value may have been written.
func (e *Endpoint) WriteInt32(node int, address uint32, value int32) error {
	return e.calls.write(node, address, uint64(uint32(value)), 1)
}

// WriteFloat64 is WriteInt32 for a double, two words at a multiple of 4.
func (e *Endpoint) WriteFloat64(node int, address uint32, value float64) error {
	return e.calls.write(node, address, math.Float64bits(value), 2)
}

// PutInt32 is WriteInt32 that does not wait; it adds one to the counter when the value is there.
// Put describes the rest.
func (e *Endpoint) PutInt32(node int, address uint32, value int32, c *Counter) error {
	_, err := e.calls.putValue(node, address, uint64(uint32(value)), 1, c)
	return err
}

// PutFloat64 is PutInt32 for a double, two words.
func (e *Endpoint) PutFloat64(node int, address uint32, value float64, c *Counter) error {
	_, err := e.calls.putValue(node, address, math.Float64bits(value), 2, c)
	return err
}

// single is the state of a call that waits; there is one at a time.
type single struct {
	counter Counter
	value   [8]byte
}

// read returns a word or two.
func (t *calls) read(node int, address uint32, words int) (uint64, error) {
	if err := checkRemote(node, address, words); err != nil {
		return 0, err
	}
	x := &t.single
	x.counter, x.value = Counter{}, [8]byte{}
	ticket, err := t.begin(node, 1, x.value[:4*words], &x.counter)
	if err != nil {
		return 0, err
	}
	if err = t.post4(node, typeGet, ticket, address, uint32(words), 0, 0); err == nil {
		err = t.e.WaitCounter(&x.counter, 1)
	}
	if err != nil {
		t.giveUp(ticket)
		return 0, err
	}
	return binary.LittleEndian.Uint64(x.value[:]), nil
}

// write writes a word or two and waits.
func (t *calls) write(node int, address uint32, bits uint64, words int) error {
	x := &t.single
	x.counter = Counter{}
	ticket, err := t.putValue(node, address, bits, words, &x.counter)
	if err != nil {
		return err
	}
	if err = t.e.WaitCounter(&x.counter, 1); err != nil {
		t.giveUp(ticket)
	}
	return err
}

// putValue asks a node to put a word or two at an address.
func (t *calls) putValue(node int, address uint32, bits uint64, words int, c *Counter) (ticket uint32, err error) {
	if err := checkRemote(node, address, words); err != nil {
		return 0, err
	}
	if ticket, err = t.begin(node, 1, nil, c); err != nil {
		return 0, err
	}
	if err := t.post4(node, typePutOne, ticket, address, uint32(words), uint32(bits), uint32(bits>>32)); err != nil {
		t.giveUp(ticket)
		return 0, err
	}
	return ticket, nil
}
