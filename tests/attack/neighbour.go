package attack

// This file writes over the memory that a process shares with its neighbours: nodes of the same
// job, user and host (package port/shared). The process has a real card. The neighbours meet it and
// send messages to it, so that they take the memory into use. Every neighbour copies frames out of
// this memory and checks the copies, while it talks to other nodes.

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/uspace/port/shared"
)

// These are offsets of words and records in each of the two rings (package port/shared).
const (
	readerAt, tailAt, recordsAt = 0, 64, 4096
	recordLine, inRecord        = 64, 8
	ringBytes                   = shared.Size / 2
)

// shareAgain is how long after a refusal memory is asked for again.
const shareAgain = 20 * time.Millisecond

// Neighbour returns the attack. Its process is node Config.First of a job, beside other nodes of
// its user.
func Neighbour() Attack {
	return Attack{Name: "ports_neighbour", Does: "memory that neighbours share, written over while they read it",
		Groups: 1, Contexts: 1, Direct: true, take: (*player).openNear, round: (*player).smear}
}

// near is the state of the process: its place in the job, its card, and the shared memory.
type near struct {
	place  *attach.Port
	card   *card.Card
	tag    uint64
	seat   *seat
	nodes  []uint16          // its neighbours
	memory map[uint16][]byte // shared with each of them
	askAt  time.Time
}

// openNear takes the port of a seat, and opens a card on it.
func (p *player) openNear(s *seat) error {
	place, token, err := p.askPort(s)
	if err != nil {
		return err
	}
	defer place.Memory.Close() // the card has mapped it
	a := place.Answer
	c := card.Config{GID: s.group.GID, Token: token, Node: s.node, Slots: 64, CPU: -1, Direct: &card.Direct{
		Direct: afxdp.Direct{FD: place.Socket, Memory: place.Memory, Geometry: a.Geometry, MTU: int(a.MTU),
			Generic: a.Generic, Sums: a.Sums}, Close: place.Close,
		Incarnation: a.Ticket.Incarnation(), PeerTimeout: a.PeerTimeout, ConnectTimeout: a.ConnectTimeout}}
	for node := range a.Nodes {
		c.Peers = append(c.Peers, card.Peer{Node: uint16(node)})
	}
	k, err := card.Open(c)
	if err != nil {
		place.Close()
		return err
	}
	go place.Watch(k.Lose, func(attach.Fate) {})
	n := &near{place: place, card: k, tag: arctic.JobTag(token[:], s.group.GID), seat: s, memory: map[uint16][]byte{}}
	if n.nodes, err = place.Neighbours(); err == nil && len(n.nodes) == 0 {
		err = fmt.Errorf("it has no neighbour: %w", attach.ErrNode)
	}
	p.near = n
	return err
}

// smear lets the card run, takes the messages that arrived, asks for memory that is still missing,
// and writes over the memory that it has.
func (p *player) smear() (did int) {
	n := p.near
	n.card.Look()
	for i := n.card.Interface(); i.Receive(funi.Request) != nil; {
		i.Release(funi.Request)
	}
	if len(n.memory) < len(n.nodes) && time.Now().After(n.askAt) {
		n.share()
	}
	for _, node := range n.nodes {
		if m := n.memory[node]; m != nil {
			did += n.write(m, node)
		}
	}
	return did
}

// share asks for the memory shared with each neighbour that is there.
func (n *near) share() {
	n.askAt = time.Now().Add(shareAgain)
	for _, node := range n.nodes {
		if n.memory[node] != nil {
			continue
		}
		f, err := n.place.Share(node, shared.Size)
		if err != nil {
			continue // the neighbour is not there yet
		}
		if b, err := attach.MapMemory(int(f.Fd()), shared.Size); err == nil {
			n.memory[node] = b
		}
		f.Close()
	}
}

// write writes over the memory shared with a neighbour. It writes whole laps of forged frames, and
// words and lengths that cannot be valid.
func (n *near) write(m []byte, node uint16) (did int) {
	le := binary.LittleEndian
	ring := m[rand.IntN(2)*ringBytes:][:ringBytes]
	if rand.IntN(8) == 0 {
		span := (floodFrame + inRecord + recordLine - 1) &^ (recordLine - 1)
		for at := recordsAt; at+span <= ringBytes; at += span {
			n.forge(ring[at+inRecord:], node)
			le.PutUint32(ring[at:], floodFrame)
			did++
		}
		// nobody has read it: so a neighbour that has let go of it takes it again
		le.PutUint32(ring[readerAt:], 0)
	}
	for range burst {
		line := ring[recordsAt+rand.IntN((ringBytes-recordsAt)/recordLine)*recordLine:]
		switch rand.IntN(8) {
		case 0:
			le.PutUint32(ring[readerAt:], rand.Uint32N(5))
		case 1:
			le.PutUint64(ring[tailAt:], rand.Uint64()>>rand.IntN(64))
		case 2:
			le.PutUint32(line, rand.Uint32()>>rand.IntN(32)) // a length
		case 3:
			le.PutUint32(line, ^uint32(0)) // go on at the beginning
		default:
			le.PutUint64(ring[rand.IntN(ringBytes/8)*8:], rand.Uint64())
		}
		did++
	}
	return did
}

// forge composes a frame that may be false: from or to another node, or of another job, version or
// length.
func (n *near) forge(b []byte, node uint16) {
	others := slices.DeleteFunc([]uint16{0, 1, 2, 3}, func(o uint16) bool { return o == n.seat.node })
	h := arctic.Header{Direct: true, GID: n.seat.group.GID, Tag: n.tag, SourceCard: n.seat.node, DestinationCard: node,
		Epoch: rand.Uint64()}
	switch rand.IntN(5) {
	case 0:
		h.SourceCard = others[rand.IntN(len(others))]
	case 1:
		h.DestinationCard = others[rand.IntN(len(others))]
	case 2:
		h.Tag = rand.Uint64()
	case 3:
		h.Direct = false
	}
	h.Encode(b[:floodFrame])
	arctic.Seal(b[:floodFrame], floodFrame)
	if rand.IntN(5) == 0 {
		binary.LittleEndian.PutUint16(b[lengthAt:], uint16(rand.Uint32()))
	}
}
