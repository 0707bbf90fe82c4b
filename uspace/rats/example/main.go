// Command example is uspace/funi/example/keyed.c in Go: two processes of a job, of which node 1
// gives a key to its memory, and node 0 writes there. Either of the two may be the program in C.
//
//	go build -o keyed ./uspace/rats/example
//	funet run -n 2 ./keyed
package main

import (
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/funi/example/job"
	"github.com/funet/funet/uspace/rats"
)

// Types of messages, and what both programs know.
const (
	seedType = 1
	nextType = 2
	endType  = 3

	bytes = 256 << 10
	base  = 0x10000
	parts = 4000 // bytes of the message in two parts
	first = 1000 // of the first
)

var sizes = []int{0, 13, 64, 1000, 200000}

// node is a node of the job.
type node struct {
	*job.Node
	end    *rats.Endpoint
	memory []byte
}

func main() {
	job.Run("keyed", funi.RemoteSizes{KeySlots: 4, Areas: 4, Notifications: 16}, 2, 2, run)
}

func run(j *job.Node) (err error) {
	n := &node{Node: j}
	if n.end, err = rats.New(n.Iface, int(n.Number), rand.Reader); err != nil {
		return err
	}
	s := funi.Segment{Base: base, Rights: []funi.Rights{funi.Source, funi.Keyed}[n.Number]}
	if s.Memory, err = n.Segment(s.Base, bytes, s.Rights); err != nil {
		return err
	}
	if err := n.end.Use(s); err != nil {
		return err
	}
	n.memory = s.Memory
	if n.Number == 0 {
		return n.write()
	}
	return n.own()
}

// until lets the card run until something is so.
func (n *node) until(what string, done func() bool) error {
	return n.Until(what, func() bool { n.end.Poll(); return done() })
}

func (n *node) reaches(h rats.Handle, want rats.Status) (reason arctic.Reason, err error) {
	var is rats.Status
	err = n.until("a request is carried out", func() bool {
		is, reason, err = n.end.Status(h)
		return err != nil || is == want || is == rats.Failed
	})
	if err == nil && is != want {
		err = fmt.Errorf("a request was refused: %s", reason)
	}
	return reason, err
}

// content is byte i of a message of that size.
func content(i, size int) byte { return byte(i*131>>4 ^ size) }

// send sends bytes of memory with a ticket, the size of the whole message beside them.
func (n *node) send(t rats.Ticket, data []byte, size int) error {
	h, err := n.end.SendMsg(t, data, uint32(size))
	if err == nil {
		_, err = n.reaches(h, rats.Sent)
	}
	return err
}

// write is node 0: it has a seed, and writes.
func (n *node) write() error {
	words := make([]uint32, rats.SeedSize/4)
	if err := n.Hear(funi.Request, seedType, words); err != nil {
		return err
	}
	seed, err := rats.DecodeSeed(funi.Bytes(words))
	if err != nil {
		return err
	}
	for _, size := range sizes {
		for i := range size {
			n.memory[i] = content(i, size)
		}
		if err := errors.Join(n.send(seed.Ticket, n.memory[:size], size),
			n.Hear(funi.Reply, nextType, nil)); err != nil {
			return err
		}
	}
	for i := range parts {
		n.memory[i] = content(i, parts)
	}
	part, err := seed.Split(first)
	if err != nil {
		return err
	}
	if err := errors.Join(n.send(seed.Ticket, n.memory[first:parts], parts),
		n.send(part.Ticket, n.memory[:first], parts), n.Hear(funi.Reply, nextType, nil)); err != nil {
		return err
	}
	h, err := n.end.SendMsg(seed.Ticket, nil)
	if err != nil {
		return err
	}
	if reason, err := n.reaches(h, rats.Failed); err != nil || reason != arctic.ReasonKeySlot {
		return fmt.Errorf("with a key that was taken back: %s, %w", reason, err)
	}
	fmt.Printf("%d messages of up to %d bytes, and one of two parts; then the key was taken back\n", len(sizes),
		sizes[len(sizes)-1])
	return n.Tell(funi.Request, 1, endType)
}

// got waits for the record of a message and looks at it.
func (n *node) got(size int, area uint16) error {
	var r funi.Notification
	if err := n.until("a record", func() bool { return n.end.NextRecord(&r) }); err != nil {
		return err
	}
	if r.Area != area || r.Source != 1-n.Number || r.Words != 1 || r.Metadata[0] != uint32(size) {
		return fmt.Errorf("the record %+v is of something else than %d bytes", r, size)
	}
	for i, b := range n.memory[:size] {
		if b != content(i, size) {
			return fmt.Errorf("byte %d of %d is wrong", i, size)
		}
	}
	return nil
}

// own is node 1: the memory is its.
func (n *node) own() error {
	key, _, err := n.end.Expose(n.memory)
	if err != nil {
		return err
	}
	area, h, err := n.end.Open(key, 4, false)
	if err != nil {
		return err
	}
	if _, err := n.reaches(h, rats.Sent); err != nil {
		return err
	}
	seed := n.end.Seed(key, area, bytes, 0)
	b := seed.Encode()
	words := make([]uint32, len(b)/4)
	copy(funi.Bytes(words), b[:])
	if err := n.Tell(funi.Request, 0, seedType, words...); err != nil {
		return err
	}
	for _, size := range sizes {
		if err := n.got(size, area); err != nil {
			return err
		}
		if err := n.Tell(funi.Reply, 0, nextType); err != nil {
			return err
		}
	}
	if err := n.got(parts, area); err != nil {
		return err
	}
	if _, err = n.end.Close(area); err != nil {
		return err
	}
	if h, err = n.end.Revoke(key); err != nil {
		return err
	}
	if _, err := n.reaches(h, rats.Sent); err != nil {
		return err
	}
	return errors.Join(n.Tell(funi.Reply, 0, nextType), n.Hear(funi.Request, endType, nil))
}
