// Command chain makes all nodes of a job one chain, 0, 1, 2 and so on. Each sends messages along it
// and writes into everybody's window, at the same time as the others; each message and each write
// comes to every node once, and its sender hears so. At last the last node leaves, and who sends
// along the chain hears who does not have it. uspace/funi/example/chain.c is the same in C, and
// nodes may be either.
//
//	go build -o chain ./uspace/rma/example/chain
//	funet run -n 3 ./chain
package main

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/funi/example/job"
	"github.com/funet/funet/uspace/rma"
)

// Types of messages, and what all programs know.
const (
	joinedType = 1 + iota // a node is a member
	keyType               // the key of everybody's window
	readyType             // a node has opened its
	beginType             // all may begin
	roundType             // a round of a node's
	doneType              // a node has done its part
	leaveType             // the last node is to leave
	leftType              // it has left
	endType

	base   = 0x10000
	rounds = 50 // of each node
	most   = 8  // nodes
	chain  = 5
)

// node is a node of the job.
type node struct {
	*job.Node
	end   *rma.Endpoint
	last  uint16
	table []byte // the window: a word of 64 bits for each round of each node
	key   rma.Key
	came  [most]uint32
}

func main() {
	job.Run("chain", funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: 16}, 2, most, run)
}

func run(j *job.Node) (err error) {
	n := &node{Node: j, last: uint16(j.Nodes() - 1)}
	if n.end, err = rma.New(n.Iface, rand.Reader, n.Step); err != nil {
		return err
	}
	if n.table, err = n.Segment(base, 8*rounds*most, funi.Keyed); err == nil {
		err = n.end.Use(funi.Segment{Base: base, Memory: n.table, Rights: funi.Keyed})
	}
	if err != nil {
		return err
	}
	if err := n.join(); err != nil {
		return err
	}
	if err := n.receive(beginType, nil); err != nil {
		return err
	}
	for round := range uint32(rounds) {
		if err := n.sendRound(round); err != nil {
			return err
		}
	}
	return n.leave()
}

// join makes the node a member, and opens its window; node 0 tells the key, and when all may begin.
func (n *node) join() error {
	c := funi.Chain{Number: chain, First: n.Number == 0}
	if !c.First {
		c.Parent = n.Number - 1
	}
	if n.Number < n.last {
		c.Next = []funi.Next{{Node: n.Number + 1, Members: n.last - n.Number}}
	}
	if err := n.end.Join(c); err != nil {
		return err
	}
	words := make([]uint32, 2)
	if n.Number > 0 {
		if err := errors.Join(n.tell(0, joinedType), n.receive(keyType, words)); err != nil {
			return err
		}
		n.key = rma.Key(words[0]) | rma.Key(words[1])<<32
		if _, err := n.end.Expose(n.table, rma.Options{Rights: funi.RightWrite, Key: n.key}); err != nil {
			return err
		}
		return n.tell(0, readyType)
	}
	if err := n.fromOthers(joinedType); err != nil {
		return err
	}
	w, err := n.end.Expose(n.table, rma.Options{Rights: funi.RightWrite})
	if err != nil {
		return err
	}
	n.key = w.Key
	if err := errors.Join(n.sendAlong(keyType, uint32(w.Key), uint32(w.Key>>32)), n.receive(keyType, words),
		n.fromOthers(readyType)); err != nil {
		return err
	}
	return n.sendAlong(beginType)
}

// leave ends the rounds. The last node leaves the chain, and node 0 sends along it once more.
func (n *node) leave() error {
	var err error
	if n.Number == 0 {
		err = errors.Join(n.fromOthers(doneType), n.sendAlong(leaveType))
	} else {
		err = n.tell(0, doneType)
	}
	if err = errors.Join(err, n.receive(leaveType, nil)); err != nil {
		return err
	}
	for node, came := range n.came[:n.last+1] { // all rounds were delivered before
		if came != rounds {
			return fmt.Errorf("of node %d %d rounds have come", node, came)
		}
	}
	switch n.Number {
	case n.last:
		return errors.Join(n.end.Leave(chain), n.tell(0, leftType), n.receive(endType, nil))
	case 0:
	default:
		return n.receive(endType, nil)
	}
	if err := n.receive(leftType, nil); err != nil {
		return err
	}
	d, err := n.multicast(endType)
	var why *rma.Error
	if !errors.As(err, &why) || why.Reason != arctic.ReasonChain || d.Delivered != int(n.last) || d.Failed != 1 ||
		d.Named != 1 || d.Broken[0].Node != n.last {
		return fmt.Errorf("the last node has left: %+v, %w", d, err)
	}
	if err := errors.Join(n.receive(endType, nil), n.tell(n.last, endType)); err != nil {
		return err
	}
	fmt.Printf("%d nodes have each sent %d messages and as many writes along a chain; each came to all of them once\n",
		n.last+1, rounds)
	return nil
}

// value is what a round of a node writes.
func value(node, round uint32) uint64 { return uint64(node)<<32 | uint64(round+1) }

// sendRound writes a round of this node into everybody's window, and tells everybody.
func (n *node) sendRound(round uint32) error {
	d, err := n.end.Multicast(0, funi.MulticastRequest{Chain: chain, Members: n.last + 1, Put: true, Key: uint64(n.key),
		Address: 8 * uint64(uint32(n.Number)*rounds+round),
		Data:    binary.LittleEndian.AppendUint64(nil, value(uint32(n.Number), round))})
	if err == nil && d.Delivered != int(n.last)+1 {
		err = fmt.Errorf("a write has come to %+v", d)
	}
	if err != nil {
		return err
	}
	return n.sendAlong(roundType, uint32(n.Number), round)
}

// check checks a round that has come: it is the next of that node, and what it has written is
// there.
func (n *node) check(s *funi.Slot) error {
	from, round := s[funi.PayloadWord], s[funi.PayloadWord+1]
	if from >= most || uint32(s.Source()) != from || round != n.came[from] {
		return fmt.Errorf("round %d of node %d has come from node %d", round, from, s.Source())
	}
	n.came[from]++
	if v := binary.LittleEndian.Uint64(n.table[8*(from*rounds+round):]); v != value(from, round) {
		return fmt.Errorf("round %d of node %d has come, and %#x is there", round, from, v)
	}
	return nil
}

// multicast sends a message along the chain.
func (n *node) multicast(typ uint16, words ...uint32) (funi.Delivery, error) {
	data := make([]byte, len(words)*arctic.WordSize)
	arctic.PutWords(data, words)
	return n.end.Multicast(0, funi.MulticastRequest{Chain: chain, Members: n.last + 1, Message: typ, Data: data})
}

// sendAlong does so, and everybody has it then.
func (n *node) sendAlong(typ uint16, words ...uint32) error {
	d, err := n.multicast(typ, words...)
	if err == nil && d.Delivered != int(n.last)+1 {
		err = fmt.Errorf("a message has come to %+v", d)
	}
	return err
}

// fromOthers waits for a message of each other node.
func (n *node) fromOthers(typ uint16) error {
	for range n.last {
		if err := n.receive(typ, nil); err != nil {
			return err
		}
	}
	return nil
}

// tell sends a message without words to a node.
func (n *node) tell(to, typ uint16) error { return n.Tell(funi.Request, int(to), typ) }

// receive waits for a message of a type, and takes rounds meanwhile.
func (n *node) receive(typ uint16, words []uint32) error {
	for {
		s, err := n.Next(funi.Request)
		if err != nil {
			return err
		}
		h := s.Header()
		switch {
		case h.Type() == roundType:
			err = n.check(s)
		case h.Type() != typ || h.Length() != len(words):
			err = fmt.Errorf("a message of type %d, not %d", h.Type(), typ)
		default:
			copy(words, s[funi.PayloadWord:])
		}
		n.Iface.Release(funi.Request)
		if err != nil || h.Type() == typ {
			return err
		}
	}
}
