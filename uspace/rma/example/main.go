// Command example is a lock-free queue and a hash table in the memory of node 0, which all other
// nodes of a job use at once. Each node puts numbers into the queue, takes as many out, and counts
// in the table what it has taken. At last everybody's numbers were each taken once. Node 0 only
// exposes the memory: the cards do everything else. uspace/funi/example/structures.c is the same in
// C, and nodes may be either.
//
//	go build -o structures ./uspace/rma/example
//	funet run -n 3 ./structures
package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

// Types of messages, and what all programs know.
const (
	keyType  = 1 // where the structures are: the key of the window
	doneType = 2 // a node has done its part

	base    = 0x10000
	numbers = 500 // of each node
	most    = 8   // nodes
)

// node is a node of the job.
type node struct {
	client *attach.Client
	iface  *funi.Interface
	end    *rma.Endpoint
	number int
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "structures:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	config, err := attach.Environment()
	if err != nil {
		return err
	}
	config.Remote = funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: 16}
	n := &node{number: int(config.Node)}
	if n.client, err = attach.Open(config); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.client.Close(10*time.Second)) }()
	if nodes := n.client.Nodes(); nodes < 2 || nodes > most {
		return fmt.Errorf("run 2 to %d nodes", most)
	}
	n.iface = n.client.Interface()
	if n.end, err = rma.New(n.iface, rand.Reader, n.drive); err != nil {
		return err
	}
	if n.number == 0 {
		return n.own()
	}
	return n.use()
}

// drive lets the card run, or this process sleep until there is something.
func (n *node) drive() error {
	n.client.Drive()
	return n.client.Err()
}

// own is node 0: it exposes the memory, tells everybody the key, and looks at the structures when
// all have done their part.
func (n *node) own() error {
	s := funi.Segment{Base: base, Rights: funi.Keyed}
	var err error
	if s.Memory, err = n.client.Segment(s.Base, queueBytes+tableBytes, s.Rights); err != nil {
		return err
	}
	if err := n.end.Use(s); err != nil {
		return err
	}
	w, err := n.end.Expose(s.Memory, rma.Options{})
	if err != nil {
		return err
	}
	others := n.client.Nodes() - 1
	for to := range others {
		if err := n.tell(to+1, keyType, uint32(w.Key), uint32(w.Key>>32)); err != nil {
			return err
		}
	}
	for range others {
		if err := n.receive(doneType, nil); err != nil {
			return err
		}
	}
	// The structures are this process's own memory, but it looks at them as the others do.
	q, t := n.structures(0, w.Key)
	if v, some, err := q.take(); err != nil || some {
		return errors.Join(err, fmt.Errorf("the queue has %#x, or cannot be read", v))
	}
	for i := range others * numbers {
		key := number(1+i/numbers, i%numbers)
		if c, err := t.count(uint64(key)); err != nil || c != 1 {
			return errors.Join(err, fmt.Errorf("%#x was taken %d times", key, c))
		}
	}
	if err := n.end.Revoke(w); err != nil {
		return err
	}
	for to := range others {
		if err := n.tell(to+1, doneType); err != nil {
			return err
		}
	}
	for range others {
		if err := n.receive(doneType, nil); err != nil {
			return err
		}
	}
	fmt.Printf("%d nodes have put %d numbers into the queue; each was taken once\n", others, others*numbers)
	return nil
}

// number returns number i of a node. It is not 0.
func number(node, i int) uint32 { return uint32(node)<<16 | uint32(i) }

func (n *node) structures(owner uint16, key rma.Key) (queue, table) {
	at := rma.Target{Node: owner, Key: key}
	return queue{at, n.end}, table{at.At(queueBytes), n.end}
}

// use is every other node.
func (n *node) use() error {
	words := make([]uint32, 2)
	if err := n.receive(keyType, words); err != nil {
		return err
	}
	key := rma.Key(words[0]) | rma.Key(words[1])<<32
	q, t := n.structures(0, key)
	var last [most]uint32
	for in, out := 0, 0; in < numbers || out < numbers; {
		if in < numbers {
			done, err := q.put(number(n.number, in))
			if err != nil {
				return err
			}
			if done {
				in++
			}
		}
		if out == numbers {
			continue
		}
		v, some, err := q.take()
		if err != nil {
			return err
		}
		if !some {
			continue
		}
		out++
		if from := v >> 16; from >= most || v < last[from] {
			return fmt.Errorf("%#x came out after %#x, which was put in later", v, last[from%most])
		} else {
			last[from] = v
		}
		if err := t.add(uint64(v), 1); err != nil {
			return err
		}
	}
	if err := errors.Join(n.tell(0, doneType), n.receive(doneType, nil)); err != nil {
		return err
	}
	if _, err := n.end.Add(rma.Target{Key: key}, 1); err != nil {
		return err
	}
	var r rma.Result
	if err := n.until("an answer", func() bool { return n.end.Next(&r) }); err != nil {
		return err
	}
	if !errors.Is(r.Err, rma.ErrKey) {
		return fmt.Errorf("with a key that was revoked: %v", r.Err)
	}
	return n.tell(0, doneType)
}

// until lets the card run until something is so.
func (n *node) until(what string, done func() bool) error {
	for end := time.Now().Add(30 * time.Second); !done(); {
		if err := n.drive(); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("waited 30 s in vain: %s", what)
		}
	}
	return nil
}

func (n *node) tell(to int, typ uint16, words ...uint32) error {
	var s *funi.Slot
	err := n.until("a free slot", func() bool { s = n.iface.Reserve(funi.Request); return s != nil })
	if err == nil {
		s.SetHeader(funi.NewHeader(uint16(to), typ, len(words)))
		copy(s[funi.PayloadWord:], words)
		n.iface.Commit(funi.Request)
	}
	return err
}

func (n *node) receive(typ uint16, words []uint32) error {
	var s *funi.Slot
	if err := n.until("a message", func() bool { s = n.iface.Receive(funi.Request); return s != nil }); err != nil {
		return err
	}
	if h := s.Header(); h.Type() != typ || h.Words() != len(words) {
		return fmt.Errorf("a message of type %d with %d words, not %d with %d", h.Type(), h.Words(), typ, len(words))
	}
	copy(words, s[funi.PayloadWord:])
	n.iface.Release(funi.Request)
	return nil
}
