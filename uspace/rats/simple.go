package rats

// This file implements the protocol Simple datagram (HPL-95-86, section 3.2). An instance has one
// buffer and one ticket for it. A message carries words of the program's own, and a seed for the
// reply, so that two processes may send one message back and forth. A ticket is required to send;
// no other limit is needed. A client needs no instance: it sends to a seed (Seed.Send).
//
// The seed may be split (Seed.Split), and its parts again by their holders. Recv then returns when
// messages have been sent to all parts (2.5, static and dynamic group receive), by several senders
// or by one (scatter-gather).
//
// Words: kind in bits 31:28, own words 27:24, length 23:0; for a reply seed 6 words more: key, 2
// words; node 31:16 and area; offset; size; share of the count; then the own words.

import (
	"fmt"
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	kindSimple = 11 // and no seed
	kindReply  = 12 // and a seed

	seedWords = 6
	// MaxOwnWords is the most words of the program's own in a message; with a seed seedWords fewer.
	MaxOwnWords = arctic.MaxRemoteMetadata - 1
	// MaxOwnWordsWithSeed is the most words of the program's own beside a reply seed.
	MaxOwnWordsWithSeed = MaxOwnWords - seedWords
)

// Simple receives simple datagrams. It belongs to the goroutine of its manager.
type Simple struct {
	end
	memory  []byte
	has     bool // a message that was not received
	message Message
	sentTo  []uint16 // nodes, each once
}

// Message is a simple datagram, or the last of a group.
type Message struct {
	From     uint16 // node
	Length   int    // bytes, from the offset of the seed that it was sent to
	Own      [MaxOwnWords]uint32
	Words    int  // own words
	Reply    Seed // if HasReply
	HasReply bool // says that the message brought a seed for the reply
}

// NewSimple returns an instance that receives in memory that Alloc returned. The memory belongs to
// the instance until it is closed, and is freed then. Errors are ErrMemory and ErrFull.
func (m *Manager) NewSimple(memory []byte) (*Simple, error) {
	if !m.heap.allocated(memory) {
		return nil, fmt.Errorf("receiving in %d bytes: %w", len(memory), ErrMemory)
	}
	s := &Simple{memory: memory}
	if err := s.begin(m, s, memory, 1, 0); err != nil {
		s.memory = nil
		return nil, fmt.Errorf("receiving simple datagrams: %w", err)
	}
	return s, nil
}

// Seed returns the seed for one message.
func (s *Simple) Seed() Seed {
	if s.key == 0 {
		return Seed{}
	}
	return s.m.Seed(s.key, s.areas[0], uint32(len(s.memory)), protocolSimple)
}

// Memory is where messages come.
func (s *Simple) Memory() []byte { return s.memory }

// Recv stores the message that has arrived in g, or returns false if there is none. The memory then
// belongs to the program until it passes its seed on again. ErrProtocol reports a second message
// for the ticket.
func (s *Simple) Recv(g *Message) (bool, error) {
	if s.err != nil || !s.has {
		return false, s.err
	}
	s.has, *g = false, s.message
	return true, nil
}

// MetadataForSelf returns the metadata with which a message carries this instance's ticket for the
// reply (Seed.Send), and words of the program's own.
func (s *Simple) MetadataForSelf(own ...uint32) Metadata {
	return Metadata{Reply: s.Seed(), HasReply: true, Own: own}
}

// Renew assigns another key and area to the memory, for a group of which a member has died.
// Messages sent with the earlier seed write nothing any more. It returns ErrFull, and then changes
// nothing.
func (s *Simple) Renew() error {
	if s.closing || !s.m.room(4, 1) {
		return fmt.Errorf("renewing the ticket for simple datagrams: %w", ErrFull)
	}
	s.shutAll()
	if s.key != 0 {
		s.revoke(s.key, nil)
	}
	s.has, s.key = false, 0
	return s.openKey(s.memory, 1, 0)
}

// Close closes the instance and frees its memory.
func (s *Simple) Close() {
	if !s.closing {
		s.closing = true
		s.m.await(&s.instance)
	}
}

func (s *Simple) arrived(n *funi.Notification) {
	if s.closing || s.err != nil {
		return
	}
	w := n.Metadata[:n.Words]
	if !s.message.parse(w) || s.message.Length > len(s.memory) || s.has {
		s.fail(fmt.Errorf("node %d sends %d words, or without a ticket: %w", n.Source, n.Words, ErrProtocol))
		return
	}
	s.message.From, s.has = n.Source, true
	s.m.tell(&s.instance)
}

func (s *Simple) turn() bool {
	if s.closing && s.key == 0 && s.memory != nil { // Renew has failed
		s.m.freeLater(s.memory)
		s.memory = nil
	}
	return s.finish(s.memory)
}

// Metadata is what goes beside a simple datagram.
type Metadata struct {
	Reply    Seed
	HasReply bool
	Own      []uint32 // up to MaxOwnWords, or MaxOwnWordsWithSeed with a reply seed
}

// Send sends a simple datagram to where the seed says; m is whose manager sends it. Data that does
// not fit a packet with its metadata lies in m's memory (Alloc) and stays unchanged until the
// handle's Status is Sent. Errors are ErrSeed, ErrTooLong, ErrMemory and ErrFull.
func (s *Seed) Send(m *Manager, data []byte, with Metadata) (Handle, error) {
	var words metadataWords
	w, err := with.words(&words, s, len(data))
	if err != nil {
		return 0, err
	}
	return m.SendMsg(s.Ticket, data, w...)
}

// Send is Seed.Send for an instance: if the message comes back the instance fails (Err), and so it
// does when Probe finds that its receiver is not there any more. It returns false if the send queue
// is full. Errors are ErrSeed, ErrTooLong, ErrMemory, ErrClosed, and why the instance failed.
func (s *Simple) Send(to Seed, data []byte, with Metadata) (bool, error) {
	if s.closing && s.err == nil {
		return false, ErrClosed
	}
	if s.err != nil {
		return false, s.err
	}
	var words metadataWords
	w, err := with.words(&words, &to, len(data))
	if err == nil {
		_, err = s.m.source(&to.Ticket, 0, data, len(w))
	}
	if err != nil || !s.sendAny(to.Ticket, data, w) {
		return false, err
	}
	s.peer = to.Ticket
	if !slices.Contains(s.sentTo, to.Node) {
		s.sentTo = append(s.sentTo, to.Node)
	}
	return true, nil
}

// suspect fails the instance if one of its messages may have come back, to whichever node.
func (s *Simple) suspect(l *funi.Lost) {
	if i := slices.IndexFunc(s.sentTo, l.To); i >= 0 {
		s.fail(&Failure{Node: s.sentTo[i]})
		s.m.await(&s.instance)
	}
}

type metadataWords [arctic.MaxRemoteMetadata]uint32

// words are a message's metadata, in the caller's words.
func (with *Metadata) words(to *metadataWords, s *Seed, bytes int) ([]uint32, error) {
	if s.Protocol != protocolSimple || s.Key == 0 || with.HasReply && with.Reply.Protocol != protocolSimple {
		return nil, fmt.Errorf("sending a simple datagram: %w", ErrSeed)
	}
	most := MaxOwnWords
	if with.HasReply {
		most = MaxOwnWordsWithSeed
	}
	if len(with.Own) > most || bytes > lengthMax {
		return nil, fmt.Errorf("sending a simple datagram of %d bytes and %d words: %w", bytes,
			len(with.Own), ErrTooLong)
	}
	w := to[:1]
	w[0] = uint32(kindSimple<<kindShift | len(with.Own)<<24 | bytes)
	if r := &with.Reply; with.HasReply {
		w[0] = uint32(kindReply<<kindShift | len(with.Own)<<24 | bytes)
		w = append(w, uint32(r.Key), uint32(r.Key>>32), uint32(r.Node)<<16|uint32(r.Area), r.Offset, r.Size, r.Count)
	}
	return append(w, with.Own...), nil
}

// parse takes a message's words. It returns false if they are none.
func (g *Message) parse(w []uint32) bool {
	if len(w) == 0 || w[0]>>kindShift != kindSimple && w[0]>>kindShift != kindReply {
		return false
	}
	g.HasReply = w[0]>>kindShift == kindReply
	g.Words, g.Length = int(w[0]>>24&0xf), int(w[0]&lengthMax)
	w = w[1:]
	g.Reply = Seed{}
	if g.HasReply {
		if len(w) < seedWords || w[0]|w[1] == 0 || uint64(w[3])+uint64(w[4]) > 1<<32 {
			return false
		}
		g.Reply = Seed{Protocol: protocolSimple, Ticket: Ticket{Key: uint64(w[0]) | uint64(w[1])<<32,
			Node: uint16(w[2] >> 16), Area: uint16(w[2]), Offset: w[3], Size: w[4], Count: w[5]}}
		w = w[seedWords:]
	}
	if len(w) != g.Words {
		return false
	}
	copy(g.Own[:], w)
	return true
}
