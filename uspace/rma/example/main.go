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

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/funi/example/job"
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
	*job.Node
	end *rma.Endpoint
}

func main() {
	job.Run("structures", funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: 16}, 2, most, run)
}

func run(j *job.Node) (err error) {
	n := &node{Node: j}
	if n.end, err = rma.New(n.Iface, rand.Reader, n.Step); err != nil {
		return err
	}
	if n.Number == 0 {
		return n.own()
	}
	return n.use()
}

// own is node 0: it exposes the memory, tells everybody the key, and looks at the structures when
// all have done their part.
func (n *node) own() error {
	s := funi.Segment{Base: base, Rights: funi.Keyed}
	var err error
	if s.Memory, err = n.Segment(s.Base, queueBytes+tableBytes, s.Rights); err != nil {
		return err
	}
	if err := n.end.Use(s); err != nil {
		return err
	}
	w, err := n.end.Expose(s.Memory, rma.Options{})
	if err != nil {
		return err
	}
	others := n.Nodes() - 1
	for to := range others {
		if err := n.Tell(funi.Request, to+1, keyType, uint32(w.Key), uint32(w.Key>>32)); err != nil {
			return err
		}
	}
	for range others {
		if err := n.Hear(funi.Request, doneType, nil); err != nil {
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
		if err := n.Tell(funi.Request, to+1, doneType); err != nil {
			return err
		}
	}
	for range others {
		if err := n.Hear(funi.Request, doneType, nil); err != nil {
			return err
		}
	}
	fmt.Printf("%d nodes have put %d numbers into the queue; each was taken once\n", others, others*numbers)
	return nil
}

// number returns number i of a node. It is not 0.
func number(node, i int) uint32 { return uint32(node)<<16 | uint32(i) }

// structure is one in a window of another's.
type structure struct {
	at  rma.Target
	end *rma.Endpoint
}

func (n *node) structures(owner uint16, key rma.Key) (queue, table) {
	at := rma.Target{Node: owner, Key: key}
	return queue{structure{at, n.end}}, table{structure{at.At(queueBytes), n.end}}
}

// wait waits for an operation that was issued.
func (s structure) wait(id rma.ID, err error) (rma.Result, error) {
	if err != nil {
		return rma.Result{}, err
	}
	return s.end.Wait(id)
}

// use is every other node.
func (n *node) use() error {
	words := make([]uint32, 2)
	if err := n.Hear(funi.Request, keyType, words); err != nil {
		return err
	}
	key := rma.Key(words[0]) | rma.Key(words[1])<<32
	q, t := n.structures(0, key)
	var last [most]uint32
	for in, out := 0, 0; in < numbers || out < numbers; {
		if in < numbers {
			done, err := q.put(number(int(n.Number), in))
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
	if err := errors.Join(n.Tell(funi.Request, 0, doneType), n.Hear(funi.Request, doneType, nil)); err != nil {
		return err
	}
	if _, err := n.end.Add(rma.Target{Key: key}, 1); err != nil {
		return err
	}
	var r rma.Result
	if err := n.Until("an answer", func() bool { return n.end.Next(&r) }); err != nil {
		return err
	}
	if !errors.Is(r.Err, rma.ErrKey) {
		return fmt.Errorf("with a key that was revoked: %v", r.Err)
	}
	return n.Tell(funi.Request, 0, doneType)
}
