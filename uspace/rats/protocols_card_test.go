package rats_test

// This file runs the protocols over AF_XDP: two processes, as it were, with cards of their own in
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

// Rule: tagged writes, datagrams, simple datagrams both ways and reads do between real cards what
// they do in virtual time (protocols_test.go), and everything is free in the end.
func TestProtocolsOverAFXDP(t *testing.T) {
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var peers []card.Peer
	for node, h := range l.Hosts() {
		peers = append(peers, card.Peer{Node: uint16(node), MAC: [6]byte(h.Interfaces[0].MAC)})
	}
	const messages, size = 50, 3000
	seeds, ended := make(chan [4]rats.Seed, 1), make(chan error)
	over := make(chan struct{})
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
		memory, err := k.Segment(managedBase, 1<<18, funi.Keyed|funi.Source)
		if err != nil {
			return err
		}
		m, err := rats.Manage(e, funi.Segment{Base: managedBase, Memory: memory, Rights: funi.Keyed | funi.Source})
		if err != nil {
			return err
		}
		until := func(what string, done func() bool) error {
			for end := time.Now().Add(60 * time.Second); !done(); m.Poll() {
				k.Drive()
				if time.Now().After(end) {
					return fmt.Errorf("node %d: not in time: %s", node, what)
				}
			}
			return nil
		}
		unused := func() error { return until("nothing is in use", func() bool { return m.InUse() == [5]int{} }) }
		simple, err := m.NewSimple(must(m.Alloc(size)))
		if err != nil {
			return err
		}
		out := must(m.Alloc(size))
		var g rats.Message
		say := func(to rats.Seed, i int) error {
			for j := range out {
				out[j] = byte(i + j)
			}
			h, err := to.Send(m, out, simple.MetadataForSelf(uint32(i)))
			if err != nil {
				return err
			}
			return until("a message is sent", func() bool {
				s, _, err := m.Status(h)
				return err == nil && s == rats.Sent
			})
		}
		hear := func(i int) error {
			var failed error
			if err := until("a message", func() bool {
				ok, err := simple.Recv(&g)
				failed = err
				return ok || err != nil
			}); err != nil || failed != nil {
				return errors.Join(err, failed)
			}
			for j, b := range simple.Memory() {
				if b != byte(i+j) || g.Own[0] != uint32(i) {
					return fmt.Errorf("message %d: %+v, byte %d is %d", i, g, j, b)
				}
			}
			return nil
		}
		if node == 1 {
			target, err := m.NewTarget(must(m.Alloc(messages*rats.MaxTagged)), 8)
			if err != nil {
				return err
			}
			port, err := m.NewPort(size, 4)
			if err != nil {
				return err
			}
			server, err := m.NewReadServer(must(m.Alloc(size)))
			if err != nil {
				return err
			}
			for i := range server.Memory() {
				server.Memory()[i] = byte(i * 3)
			}
			given := [4]rats.Seed{3: simple.Seed()}
			for i, makeSeed := range []func() (rats.Seed, error){target.TaggedSeed, port.Seed, server.Seed} {
				if given[i], err = makeSeed(); err != nil {
					return err
				}
			}
			if err := until("the keys are open", m.Settled); err != nil {
				return err
			}
			seeds <- given
			tags, datagrams := 0, 0
			var wrong error
			if err := until("tags and datagrams", func() bool {
				if tag, ok := target.GetTag(); ok {
					at := int(tag.Tag) * rats.MaxTagged
					if !bytes.Equal(target.Memory()[at:at+rats.MaxTagged],
						bytes.Repeat([]byte{byte(tag.Tag)}, rats.MaxTagged)) {
						wrong = fmt.Errorf("tag %d came before its data", tag.Tag)
					}
					tags++
				}
				if d, ok := port.Recv(); ok {
					if !bytes.Equal(d.Bytes, bytes.Repeat([]byte{d.Bytes[0]}, 1+int(d.Bytes[0])*59)) {
						wrong = fmt.Errorf("datagram %d of %d bytes", d.Bytes[0], len(d.Bytes))
					}
					port.Release(d)
					datagrams++
				}
				return wrong != nil || tags == messages && datagrams == messages
			}); err != nil || wrong != nil {
				return errors.Join(err, wrong)
			}
			for i := range messages {
				if err := hear(i); err != nil {
					return err
				}
				if err := say(g.Reply, i); err != nil {
					return err
				}
			}
			if err := until("the other process ends", func() bool {
				select {
				case <-over:
					return true
				default:
					return false
				}
			}); err != nil {
				return err
			}
			target.Close()
			port.Close()
			server.Close()
			simple.Close()
			m.Free(out)
			return unused()
		}
		var to [4]rats.Seed
		if err := until("seeds", func() bool {
			select {
			case to = <-seeds:
				return true
			default:
				return false
			}
		}); err != nil {
			return err
		}
		defer close(over)
		writer, err := m.WriteTo(to[0])
		if err != nil {
			return err
		}
		client, err := m.SendDatagrams(to[1])
		if err != nil {
			return err
		}
		reader, err := m.ReadFrom(to[2], size)
		if err != nil {
			return err
		}
		for i := range messages {
			var failed error
			if err := until("a tag is written", func() bool {
				failed = writer.WriteTag(uint32(i*rats.MaxTagged),
					bytes.Repeat([]byte{byte(i)}, rats.MaxTagged), uint32(i))
				return !errors.Is(failed, rats.ErrFull)
			}); err != nil || failed != nil {
				return errors.Join(err, failed)
			}
			if err := until("a datagram is sent", func() (ok bool) {
				ok, failed = client.Send(bytes.Repeat([]byte{byte(i)}, 1+i*59))
				return ok || failed != nil
			}); err != nil || failed != nil {
				return errors.Join(err, failed)
			}
		}
		b, err := reader.RemoteRead(100, size-100, func() error {
			k.Drive()
			m.Poll()
			return nil
		})
		if err != nil {
			return err
		}
		for i := range b {
			if b[i] != byte((100+i)*3) {
				return fmt.Errorf("byte %d of what was read is %d", i, b[i])
			}
		}
		for i, reply := 0, to[3]; i < messages; i, reply = i+1, g.Reply {
			if err := say(reply, i); err != nil {
				return err
			}
			if err := hear(i); err != nil {
				return err
			}
		}
		writer.Close()
		client.Close()
		reader.Close()
		simple.Close()
		m.Free(out)
		return unused()
	}
	for node := range peers {
		go func() { ended <- l.Do(node, func() error { return member(node) }) }()
	}
	for range peers {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
