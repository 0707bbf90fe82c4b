package attack

// This file attacks with ranks: processes that use the provider for libfabric (uspace/ofi), as
// MPI's do. Most of them execute the program rank (uspace/ofi/testdata/rank.c). A rank that lies
// speaks the provider's protocol itself, so that it can say what the provider never says.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

// These are the files in Config.Ranks.
const (
	RankProgram  = "rank"
	RankProvider = "libfunet-fi.so"
)

// Ranks lists the attacks by ranks. Their groups are direct.
func Ranks() []Attack {
	all := []Attack{
		{Name: "ofi_flood", Does: "fi_tinject without end between two ranks"},
		{Name: "ofi_deaf", Does: "fi_tsend without end to a rank that never calls the provider again"},
		{Name: "ofi_lies", Does: "false lengths: of messages, their parts and pieces, reads, writes and atomics",
			take: (*player).openLiar, round: (*player).lie},
	}
	for i, mode := range []string{"flood", "deaf", "serve"} {
		all[i].Groups, all[i].Contexts, all[i].Direct, all[i].Rank = 1, 1, true, mode
	}
	return all
}

// become executes the program rank in place of this process, if the attack has one on this host. A
// rank that lies is on host 0, and the rank that it lies to on host 1.
func (a *Attack) become(c Config) error {
	if a.Rank == "" || a.round != nil && c.Host == 0 {
		return nil
	}
	return Rank(c.Ranks, a.Rank, c.Socket, c.Groups[0], c.First+uint16(c.Host))
}

// Rank executes the program rank in place of this process, as a node of two of a group. folder has
// RankProgram and RankProvider. It returns only if it cannot.
func Rank(folder, does, socket string, g Group, node uint16) error {
	path := filepath.Join(folder, RankProgram)
	return fmt.Errorf("executing %s: %w", path, syscall.Exec(path, []string{RankProgram, does}, []string{
		"FI_PROVIDER=funet", "FI_PROVIDER_PATH=" + folder, "HOME=/",
		attach.SocketVariable + "=" + socket, attach.GIDVariable + "=" + strconv.Itoa(int(g.GID)),
		attach.NodeVariable + "=" + strconv.Itoa(int(node)), attach.NodesVariable + "=2",
		attach.TokenVariable + "=" + g.Token}))
}

// These are what the program rank opens (rank.c).
const (
	rankKey    = 0x66756e657421<<16 | 7 // package ofi makes this key of the program's 7
	rankRegion = 4096
)

// These are packet types of package am, and forms and places of their words (wide.go, parts.go,
// pieces.go and bytes.go there).
const (
	typeReady, typeGrant, typeTagged, typeTold, typePiece = 20, 21, 26, 28, 29

	wideSpace, partsSpace                   = 2, 3
	formShort, formLong, formVoid, formPart = 0, 1, 2, 3
	toldGrant, toldAbort                    = 1, 2
	formShift, spaceShift, dataShift        = 16, 18, 26
	tagged                                  = 128 << 18 // the channel of tags to endpoint 0
	numberMask                              = 1<<30 - 1
	pieceBytes                              = 76
)

// liar is the state of a rank that lies.
type liar struct {
	k      funet.Carrier
	iface  *funi.Interface
	one    *rma.Endpoint
	memory []byte // the card may use it
	number uint32 // of the next message
	parted bool   // parts of it may have arrived
	offers int    // how many messages were offered in memory
	grants []grant
}

// grant is a receive of the other rank that asks for bytes of a message.
type grant struct{ receive, send, want uint32 }

// openLiar takes a place in the job, as a rank does.
func (p *player) openLiar(s *seat) error {
	token, err := attach.ParseToken(s.group.Token)
	if err != nil {
		return err
	}
	o := funet.Options{Attach: &attach.Config{Socket: p.c.Socket, GID: s.group.GID, Node: s.node, Token: token,
		Slots: 256, Remote: funi.RemoteSizes{KeySlots: 16, Areas: 1, Notifications: 1024}, Timeout: time.Minute}}
	l := &liar{}
	if l.k, _, err = o.Carrier(context.Background()); err != nil {
		return err
	}
	l.iface = l.k.Interface()
	rights := funi.Source | funi.Keyed
	if l.memory, err = l.k.Segment(segmentBase, 1<<20, rights); err != nil {
		return err
	}
	if l.one, err = rma.New(l.iface, rand.Reader, func() error { l.k.Drive(); return l.k.Err() }); err != nil {
		return err
	}
	p.liar = l
	return l.one.Use(funi.Segment{Base: segmentBase, Memory: l.memory, Rights: rights})
}

// lie sends false messages, answers requests for pieces with false ones, and starts operations
// beyond the other rank's region. It panics if one of those succeeds.
func (p *player) lie() (did int) {
	l := p.liar
	for len(l.grants) > 0 && l.room() {
		did += l.pieces(l.grants[0])
		l.grants = l.grants[1:]
	}
	for n := 0; n < burst && l.room(); n++ {
		l.message(l.iface.Reserve(funi.Request))
		l.iface.Commit(funi.Request)
		did++
	}
	did += l.beyond()
	for s := l.iface.Receive(funi.Request); s != nil; s = l.iface.Receive(funi.Request) {
		if _, typ, words := s.Message(); typ == typeTold && len(words) > 3 && words[1]>>formShift&3 == toldGrant {
			l.grants = append(l.grants, grant{words[0], words[2], words[3]})
		}
		l.iface.Release(funi.Request)
	}
	for l.iface.Receive(funi.Reply) != nil {
		l.iface.Release(funi.Reply)
	}
	l.one.Poll()
	for r := (rma.Result{}); l.one.Next(&r); {
		if r.Err == nil {
			panic("attack: an operation beyond a region has succeeded")
		}
	}
	if l.k.Drive(); l.k.Err() != nil {
		panic(l.k.Err())
	}
	return did
}

// room reports whether the send queue has room for what pieces sends.
func (l *liar) room() bool { return l.iface.Slots()-1-l.iface.Unsent(funi.Request) >= 16 }

// node returns the other rank, and at times a node that there is not.
func (l *liar) node() uint16 {
	if mathrand.IntN(32) == 0 {
		return uint16(mathrand.Uint32())
	}
	return 1
}

// any32 returns a number of any size.
func any32() uint32 { return mathrand.Uint32() >> mathrand.IntN(32) }

// message composes a wide message, or something else about messages, with false lengths. Some
// are right, so that those behind them take their turn.
func (l *liar) message(s *funi.Slot) {
	for i := range funi.MaxPayloadWords {
		s[1+i] = any32()
	}
	words, typ, node := 3+mathrand.IntN(funi.MaxPayloadWords-2), uint16(typeTagged), l.node()
	switch kind := mathrand.IntN(8); {
	case kind < 3 && l.parted: // nothing else ends a message that lacks parts
		words, node, l.parted = 3, 1, false
		s[1], s[3] = l.number<<2|partsSpace, formVoid<<formShift
		l.number = (l.number + 1) & numberMask
	case kind < 2:
		words, node = 8, 1
		s[1], s[3] = l.number<<2|wideSpace, tagged|formShort<<formShift
		l.number = (l.number + 1) & numberMask
	case kind == 2: // longer than anything
		s[1], s[3], words, node = l.number<<2|wideSpace, tagged|formLong<<formShift, 6, 1
		l.number = (l.number + 1) & numberMask
		if l.offers < mostOffers {
			l.offers++
			words++
		}
	case kind == 3: // with data, and too short for it
		s[1], s[3] = l.number<<2|wideSpace, tagged|1<<dataShift|uint32(mathrand.IntN(4))<<formShift
	case kind == 4: // a first part, with the length of all of them
		s[1], s[3] = l.number<<2|partsSpace, tagged|formShort<<formShift
		l.parted = true
	case kind == 5: // another part: length and index
		s[1], s[2], s[3] = l.number<<2|partsSpace, uint32(mathrand.IntN(2048))|any32()<<formShift, formPart<<formShift
		l.parted = true
	case kind == 6:
		typ = typeTold
		s[2] = uint32(mathrand.IntN(4))<<formShift | wideSpace<<spaceShift
	default:
		typ = []uint16{typeReady, typeGrant, typePiece, typeTagged}[mathrand.IntN(4)]
	}
	s.SetHeader(funi.NewHeader(node, typ, words))
}

// pieces answers a receive that asks for bytes of a message: with pieces from elsewhere, of other
// lengths, and at last with the right one, or with the news that there is none.
func (l *liar) pieces(a grant) (sent int) {
	say := func(typ uint16, words ...uint32) {
		if s := l.iface.Reserve(funi.Request); s != nil {
			copy(s[1:], words)
			s.SetHeader(funi.NewHeader(1, typ, len(words)))
			l.iface.Commit(funi.Request)
			sent++
		}
	}
	say(typePiece, a.receive, any32()/pieceBytes*pieceBytes, 1, 2, 3)
	say(typePiece, a.receive, a.want, 1)
	say(typePiece, a.receive, 0)
	if mathrand.IntN(2) == 0 {
		say(typeTold, a.receive, toldAbort<<formShift|wideSpace<<spaceShift, a.send, a.want, 0, 0)
		return sent
	}
	for at := uint32(0); at < a.want; at += pieceBytes {
		say(typePiece, append([]uint32{a.receive, at}, make([]uint32, pieceBytes/4)...)...)
	}
	return sent
}

const (
	// most is how many operations are under way at a time.
	most = 256
	// mostOffers is how many messages are offered in memory. Each takes a receive for good.
	mostOffers = 64
)

// beyond starts operations that begin in the other rank's region and end behind it, or begin there.
func (l *liar) beyond() (did int) {
	for l.one.Pending() < most && did < burst {
		t := rma.Target{Node: 1, Key: rankKey, Address: uint64(rankRegion - mathrand.IntN(8))}
		if mathrand.IntN(4) == 0 {
			t.Address = mathrand.Uint64()>>16 | rankRegion
		}
		var err error
		switch mathrand.IntN(4) {
		case 0:
			_, err = l.one.PutNow(t, l.memory[:8+mathrand.IntN(32)], rma.With{Ack: true})
		case 1:
			_, err = l.one.Put(t, l.memory[:8+mathrand.IntN(len(l.memory)-8)], rma.With{Ack: true})
		case 2:
			_, err = l.one.Get(t, l.memory[:8+mathrand.IntN(len(l.memory)-8)], rma.With{})
		default:
			_, err = l.one.Apply(t, arctic.RemoteAdd, arctic.Uint64, l.memory[:32], 32, rma.With{})
		}
		if err != nil {
			panic(errors.Join(errors.New("attack: starting an operation"), err))
		}
		did++
	}
	return did
}
