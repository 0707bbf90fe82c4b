package link

// This file is the configuration of a card's end of its links.

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port"
)

const (
	// Window is the size of the sequence window: the most frames of a flow between the oldest
	// unanswered one and the newest. Receivers remember as many. A power of two.
	Window       = 256
	MostAckEvery = Window / 2 / blocksPerTrain // bounds Config.AckEvery
	Never        = math.MaxInt64               // the time of an event that does not come
)

// Peer tells a card about another card.
type Peer struct {
	Card    uint16  // card number, as routes name it
	Address [6]byte // Ethernet address
	Port    int     // index of the port that leads there
	Local   [6]byte // own Ethernet address on that port
	// Key authenticates the frames of the two cards; the peer has the same. nil: neither has one,
	// and any station that can send frames can send in the peer's name.
	Key *Key
}

// Config describes an End. Its owner has checked the values; engine.Config explains the fields.
type Config struct {
	Card        uint16
	Incarnation uint32
	Seed        uint64
	Nonces      rand.Source
	Readable    bool
	Ports       []port.Port
	Peers       []Peer

	// Direct is the tag of the one job whose nodes all cards are. Their frames say so
	// (arctic.VersionDirect), and other frames are dropped. nil: the cards are those of hosts.
	Direct *uint64
	// Doubt is called once a silence, when a peer of a direct card has been silent for half of
	// PeerTimeout (fate.go). nil: the owner is not asked.
	Doubt       func(card uint16, life uint32)
	AnyGroup    bool
	Defers      bool
	Train       int
	FirstWindow int
	Lines       int // of an owner
	// Dispatch and Transmit are how long a modelled machine takes for a packet and a frame
	// (timed.go); both 0: no time.
	Dispatch, Transmit time.Duration
	// Timed: packets have times of their own (Line.Takes), and acknowledgments take none. The first
	// packets of a stream do not wait for an acknowledgment either, because their receiver has room
	// for them (HPL-95-86, 2.2).
	Timed bool

	AckDelay                    time.Duration
	AckEvery                    int
	FirstRTO, MinRTO, MaxRTO    time.Duration
	MinHold, MaxHold            time.Duration
	PeerTimeout, ConnectTimeout time.Duration
	RaiseAfter                  time.Duration
}

// groups is a set of GIDs.
type groups [(arctic.MaxGID + 64) / 64]uint64

func (g *groups) has(gid uint16) bool { return g[gid&arctic.MaxGID/64]>>(gid%64)&1 != 0 }

func (g *groups) set(gid uint16, in bool) {
	if in {
		g[gid&arctic.MaxGID/64] |= 1 << (gid % 64)
	} else {
		g[gid&arctic.MaxGID/64] &^= 1 << (gid % 64)
	}
}

// after returns the next group of the set behind gid, wrapping around, or gid if there is no other.
func (g *groups) after(gid uint16) uint16 {
	at := (gid + 1) & arctic.MaxGID
	word := g[at/64] >> (at % 64) << (at % 64)
	for range len(g) + 1 {
		if word != 0 {
			return at/64*64 + uint16(bits.TrailingZeros64(word))
		}
		at = (at/64 + 1) * 64 & arctic.MaxGID
		word = g[at/64]
	}
	return gid
}
