package rats_test

// This file runs the lower half over AF_XDP: two processes, as it were, with cards of their own in
// two network namespaces.

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
	"github.com/funet/funet/xdp"
)

// Rule: the same holds between real cards: a message is whole when its record comes, whatever its
// length, and a key that is revoked is good for nothing (doc.go).
func TestOverAFXDP(t *testing.T) {
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var peers []card.Peer
	for node, h := range l.Hosts() {
		peers = append(peers, card.Peer{Node: uint16(node), MAC: [6]byte(h.Interfaces[0].MAC)})
	}
	seeds, seen := make(chan rats.Seed, 2), make(chan int, 1)
	sizes := []int{0, 8, 64, 1000, 60000, 3}
	member := func(node int) (err error) {
		k, err := card.Open(card.Config{Interfaces: []string{"fu0"}, GID: 9, Node: uint16(node), Peers: peers,
			Attach: xdp.AttachGeneric, CPU: -1, Remote: remote})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, k.Close(2*time.Second)) }()
		e, err := rats.New(k.Interface(), node, rand.Reader)
		if err != nil {
			return err
		}
		until := func(what string, done func() bool) error {
			for end := time.Now().Add(30 * time.Second); !done(); e.Poll() {
				k.Drive()
				if time.Now().After(end) {
					return fmt.Errorf("node %d: not in time: %s", node, what)
				}
			}
			return nil
		}
		has := func(h rats.Handle, want rats.Status) error {
			return until(fmt.Sprintf("status %d", want), func() bool {
				s, _, err := e.Status(h)
				return err == nil && s == want
			})
		}
		base, rights := uint32(sourceBase), funi.Source
		if node == 1 {
			base, rights = keyedBase, funi.Keyed
		}
		memory, err := k.Segment(base, memorySize, rights)
		if err != nil {
			return err
		}
		if err := e.Use(funi.Segment{Base: base, Memory: memory, Rights: rights}); err != nil {
			return err
		}
		if node == 0 {
			var s rats.Seed
			if err := until("a seed", func() bool {
				select {
				case s = <-seeds:
					return true
				default:
					return false
				}
			}); err != nil {
				return err
			}
			for i, size := range sizes {
				for j := range memory[:size] {
					memory[j] = byte(i*31 + j)
				}
				h, err := e.SendMsg(s.Ticket, memory[:size], uint32(size))
				if err != nil {
					return err
				}
				if err := has(h, rats.Sent); err != nil {
					return err
				}
				if err := until("it was seen", func() bool { return len(seen) == 1 }); err != nil {
					return err
				}
				<-seen
			}
			if err := until("the key is revoked", func() bool { return len(seeds) == 1 }); err != nil {
				return err
			}
			h, err := e.SendMsg(s.Ticket, memory[:5000])
			if err != nil {
				return err
			}
			err = has(h, rats.Failed)
			seen <- 0
			return err
		}
		key, _, err := e.Expose(memory)
		if err != nil {
			return err
		}
		area, h, err := e.Open(key, 4, false)
		if err != nil {
			return err
		}
		if err := has(h, rats.Sent); err != nil {
			return err
		}
		s := e.Seed(key, area, memorySize, 0)
		seeds <- s
		want := make([]byte, memorySize)
		for i, size := range sizes {
			var r funi.Notification
			if err := until("a record", func() bool { return e.NextRecord(&r) }); err != nil {
				return err
			}
			for j := range want[:size] {
				want[j] = byte(i*31 + j)
			}
			if r.Words != 1 || r.Metadata[0] != uint32(size) || !bytes.Equal(want, memory) {
				return fmt.Errorf("message %d: record %+v, or the memory differs", i, r)
			}
			seen <- i
			if err := until("the sender goes on", func() bool { return len(seen) == 0 }); err != nil {
				return err
			}
		}
		if h, err = e.Revoke(key); err != nil {
			return err
		}
		if err := has(h, rats.Sent); err != nil {
			return err
		}
		seeds <- s
		if err := until("the sender has tried", func() bool { return len(seen) == 1 }); err != nil {
			return err
		}
		if !bytes.Equal(want, memory) {
			return errors.New("memory changed after its key was revoked")
		}
		return nil
	}
	ended := make(chan error)
	for node := range peers {
		go func() { ended <- l.Do(node, func() error { return member(node) }) }()
	}
	for range peers {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
