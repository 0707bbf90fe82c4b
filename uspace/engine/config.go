package engine

// This file is the configuration of a card, and its limits.

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

const (
	// Window is the most frames of a flow between the oldest unanswered one and the newest.
	Window = link.Window
	// receiveBatch is the most frames taken from a port in one step.
	receiveBatch = 64
	// contendedReceive is the same while several accounts use the card: then what one of them
	// sends leaves before the next frames of another are taken.
	contendedReceive = 16
	// retrieveBatch is the most slots retrieved from a queue in one step.
	retrieveBatch = 256
	// Never is the time that Step returns when only a port or a process can give
	// the card something to do.
	Never = link.Never
	// latest is the last time at which a card that has peers may be stepped, and longest
	// the longest duration of a Config: no sum of both passes the end of int64.
	latest  = 1 << 62
	longest = 24 * time.Hour
)

// Peer tells a card about another card.
type Peer = link.Peer

// Config describes a card. Durations of zero take the defaults of
// Native; none is longer than a day.
type Config struct {
	Card uint16
	// Incarnation tells this life of the card from earlier ones; it is not zero
	// and no earlier life had it. Draw it at random.
	Incarnation uint32
	// Seed feeds the spread of back-offs.
	Seed uint64
	// Nonces draws the nonces of greetings, and what the proofs of multicasts come from. Whoever
	// foresees a nonce can echo it in a peer's name, so a card on a real network takes the numbers
	// of the operating system's generator, each when it is needed. nil: Seed feeds them, too; for
	// simulations.
	Nonces rand.Source
	Ports  []port.Port
	Peers  []Peer
	// Routes is the route table (thesis 3.3.1): index node, value the 30 route
	// bits, here the number of the card. NoRoute marks an absent entry.
	Routes []uint32

	// SystemEvent is called for each frame with packets for the system group (GID 0) that comes
	// while no context of the group is attached. It is also called for a frame that comes while the
	// context that the packets are for is switched out or in context-switch mode. The packets are
	// rejected for a transient reason, so that they come again (thesis 3.3.2). SystemEvent is
	// called within Step and must not call the card. Nil: the system group is like any other.
	SystemEvent func()
	// Moved is called when a card says that the process of a node of a group, which was there, is
	// on another card now; the card's route table has changed. It is called within Step and must
	// not call the card. nil: nobody wants to know.
	Moved func(gid, node, card uint16)
	// Fault is called when a table of the card has no entry for a packet, or forbids what it asks
	// for, and the card's owner counts it (Faults) or decides (Tokyo, sections 2.1, 3.1 and 3.3;
	// fault.go, routemiss.go). source is the node that the packet is from. With arctic.ReasonAbsent
	// it is the first packet that finds the window of the node not present since that is so, and
	// the result says nothing. With arctic.ReasonNoRoute the route table of the source, a node of
	// this card, has no entry for the node, and the packet waits for one, at most for
	// ConnectTimeout, if hold is true. Other reasons are those of refusals, one call for each
	// packet, and with hold the window is suspended whose key the packet has, if it has credit, by
	// which its process is told of the next miss. It is called within Step and must not call the
	// card. nil: nobody wants to know, nothing is suspended, and no packet waits for a route.
	Fault func(gid, node, source uint16, reason arctic.Reason) (hold bool)
	// Readable: what is sent to peers with a key need not be encrypted, only authenticated; it is
	// encrypted all the same to those who want it (Peer.Key).
	Readable bool
	// AnyGroup lets the card meet peers and answer them whatever the group of a frame, not
	// only for groups with a context here. A card whose groups come and go needs it: packets
	// for a group that has just ended are rejected for good, and so return to their sender at once.
	AnyGroup bool
	// Direct makes the card that of one node of one job, whose tag this is (arctic.JobTag). The
	// card's number is the node's, and the numbers of its peers are those of their nodes. Frames
	// are of arctic.VersionDirect, which is all that the two ends of a link need to agree about.
	// Contexts of other jobs and nodes are refused (ErrDirect). nil: a card of a host.
	Direct *uint64
	// Doubt is called when a peer of a direct card has been silent for half of PeerTimeout, once a
	// silence, with the incarnation that it had: the owner may know whether that lives (Card.Ended,
	// Card.Lives). It is called within Step and must not call the card. nil: nobody knows.
	Doubt func(card uint16, life uint32)
	// Doorbells is where processes ring whose contexts have no other page (Card.Doorbells); nil:
	// the card makes it, which is enough for processes that are one with it.
	Doorbells *funi.Doorbells

	Lines      int // lines of the undelivered packet cache per context
	ReplyLines int // how many of them only replies may use
	Sets       int // contexts of the cache (thesis 5.3: 32); 0 stands for funi.MaxContexts
	FIFO       int // packets that the receive FIFO of a context and level holds
	Train      int // most packets of a frame, at most arctic.MaxTrain
	// Blocks lets long transfers fill frames (design idea 7). Without, they travel as packets of 24
	// words, as on Arctic. With Timing they do that all the same, and so do operations on windows:
	// it is writes to areas that have blocks there, if Timing.Card says how long their packets take
	// (HPL-95-86, tables 4 and 5).
	Blocks bool
	// BlockBytes is the most bytes of a block of a write to an area, a multiple of 16: of Hamlyn
	// 512. 0: a frame has room for no more; but with Timing it is from 16 to MaxTimedBlock, and
	// each entry of a receive FIFO has room for as many.
	BlockBytes  int
	FirstWindow int // frames in flight before anything is known of the path

	// Timing is how long the units take; nil: no time.
	Timing *Timing

	// AckDelay bounds how long an acknowledgment waits for data to ride on.
	AckDelay time.Duration
	// TransferWords is the most data, in words, of a transfer of one packet that makes a notice: 16
	// (thesis 3.2.4) or, without an argument, 20 (conference paper 4.1.4); 0 stands for 16.
	TransferWords int
	// RemotePage is the number of bytes of a page of remote memory, a power of two from 64 to
	// 65,536. No packet of an operation on a window goes beyond the page that it begins in
	// (page.go). 0: there are no pages.
	RemotePage int
	// AckEvery is how many frames with trains, or four times as many with blocks, are
	// acknowledged at once at the latest.
	AckEvery int
	// FirstRTO, MinRTO and MaxRTO bound the retransmission time (RFC 6298).
	FirstRTO, MinRTO, MaxRTO time.Duration
	// MinHold and MaxHold bound the back-off after a reject, which grows (link/hold.go): a node
	// that was full for a while is tried again after a part of that.
	MinHold, MaxHold time.Duration
	// PeerTimeout is how long a peer may stay silent while something waits for
	// its answer; ConnectTimeout the same before it was ever heard, and how long packets
	// wait for a node that is expected (Expect).
	PeerTimeout, ConnectTimeout time.Duration
	// RaiseAfter is how long after the frames to a peer became shorter the card tries longer ones
	// (link/limit.go).
	RaiseAfter time.Duration
}

// NoRoute marks an absent entry of the route table.
const NoRoute = math.MaxUint32

// Native is the configuration that lifts the limits of the papers' hardware. Losses are
// found by what overtakes them; MinRTO is for the last frames of a burst, and longer than
// a process is commonly kept from running.
func Native() Config {
	return Config{
		Lines: 1024, ReplyLines: 256, FIFO: 10, Train: arctic.MaxTrain, Blocks: true, FirstWindow: 32,
		AckDelay: 50 * time.Microsecond, AckEvery: 16,
		FirstRTO: 10 * time.Millisecond, MinRTO: 5 * time.Millisecond, MaxRTO: 100 * time.Millisecond,
		MinHold: 10 * time.Microsecond, MaxHold: 100 * time.Millisecond,
		PeerTimeout: 5 * time.Second, ConnectTimeout: 30 * time.Second, RaiseAfter: 10 * time.Second,
	}
}

// ErrConfig is wrapped by every error of New.
var ErrConfig = errors.New("engine: invalid configuration")

// check fills in defaults and refuses what the card could not work with.
func (c *Config) check() error {
	d := Native()
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	if c.Sets == 0 {
		c.Sets = funi.MaxContexts
	}
	if c.Doorbells == nil {
		c.Doorbells = new(funi.Doorbells)
	}
	def(&c.AckDelay, d.AckDelay)
	def(&c.FirstRTO, d.FirstRTO)
	def(&c.MinRTO, d.MinRTO)
	def(&c.MaxRTO, d.MaxRTO)
	def(&c.MinHold, d.MinHold)
	def(&c.MaxHold, d.MaxHold)
	def(&c.PeerTimeout, d.PeerTimeout)
	def(&c.ConnectTimeout, d.ConnectTimeout)
	def(&c.RaiseAfter, d.RaiseAfter)
	switch {
	case c.Incarnation == 0:
		return fmt.Errorf("%w: incarnation is zero; draw a random one", ErrConfig)
	case c.Lines < 2 || c.Lines > maxLines || c.ReplyLines < 1 || c.ReplyLines >= c.Lines:
		return fmt.Errorf("%w: %d lines, %d for replies; use 2 to %d and at least one for each level", ErrConfig,
			c.Lines, c.ReplyLines, maxLines)
	case c.Sets < 0 || c.Sets > funi.MaxContexts:
		return fmt.Errorf("%w: %d sets of the packet cache; use 1 to %d", ErrConfig, c.Sets, funi.MaxContexts)
	case c.Train < 1 || c.Train > arctic.MaxTrain:
		return fmt.Errorf("%w: trains of %d packets; use 1 to %d", ErrConfig, c.Train, arctic.MaxTrain)
	case c.FIFO < 1:
		return fmt.Errorf("%w: receive FIFO of %d packets; use at least 1", ErrConfig, c.FIFO)
	case c.BlockBytes < 0 || c.BlockBytes%arctic.TransferAlign != 0:
		return fmt.Errorf("%w: blocks of %d bytes; use a multiple of %d, or 0 for what a frame has room for", ErrConfig,
			c.BlockBytes, arctic.TransferAlign)
	case c.Timing != nil && c.Blocks && (c.Timing.Card == nil || c.BlockBytes == 0 || c.BlockBytes > MaxTimedBlock):
		return fmt.Errorf("%w: units that take time cannot send blocks of %d bytes; use Timing.Card and %d to %d bytes, or no Blocks",
			ErrConfig, c.BlockBytes, arctic.TransferAlign, MaxTimedBlock)
	case c.Timing != nil && c.Timing.check() != nil:
		return fmt.Errorf("%w: %w", ErrConfig, c.Timing.check())
	case c.FirstWindow < 1 || c.FirstWindow > Window:
		return fmt.Errorf("%w: first window of %d frames; use 1 to %d", ErrConfig, c.FirstWindow, Window)
	case c.TransferWords < 0 || c.TransferWords > arctic.MaxPartWords || c.TransferWords%4 != 0:
		return fmt.Errorf("%w: transfers of %d words in a packet; use a multiple of 4 up to %d", ErrConfig,
			c.TransferWords, arctic.MaxPartWords)
	case c.RemotePage != 0 && (c.RemotePage < arctic.MaxRemoteBytes || c.RemotePage > 1<<16 ||
		c.RemotePage&(c.RemotePage-1) != 0):
		return fmt.Errorf("%w: pages of %d bytes; use a power of two from %d to 65536, or 0 for none", ErrConfig,
			c.RemotePage, arctic.MaxRemoteBytes)
	case c.AckEvery < 1 || c.AckEvery > link.MostAckEvery:
		return fmt.Errorf("%w: acknowledging every %d frames; use 1 to %d", ErrConfig, c.AckEvery, link.MostAckEvery)
	case max(c.AckDelay, c.FirstRTO, c.MinRTO, c.MaxRTO, c.MinHold, c.MaxHold, c.PeerTimeout, c.ConnectTimeout,
		c.RaiseAfter) > longest:
		return fmt.Errorf("%w: a duration is longer than %v", ErrConfig, longest)
	case min(c.AckDelay, c.FirstRTO, c.MinRTO, c.MaxRTO, c.MinHold, c.MaxHold, c.PeerTimeout, c.ConnectTimeout,
		c.RaiseAfter) < 0 ||
		c.MinRTO > c.MaxRTO || c.MinHold > c.MaxHold:
		return fmt.Errorf("%w: a duration is negative or a minimum above its maximum", ErrConfig)
	case c.frameSize() < arctic.EthernetSize+arctic.MinMTU:
		return fmt.Errorf("%w: a port sends frames of %d bytes; FUNet's need %d", ErrConfig, c.frameSize(),
			arctic.EthernetSize+arctic.MinMTU)
	case len(c.Ports) == 0 && len(c.Peers) != 0:
		return fmt.Errorf("%w: peers but no port", ErrConfig)
	case c.Direct != nil && (c.AnyGroup || c.SystemEvent != nil):
		return fmt.Errorf("%w: a card of one job has no other groups", ErrConfig)
	case len(c.Routes) > 1<<16:
		return fmt.Errorf("%w: route table of %d entries; nodes are 16 bits", ErrConfig, len(c.Routes))
	}
	seen := map[uint16]bool{c.Card: true}
	for _, p := range c.Peers {
		if seen[p.Card] {
			return fmt.Errorf("%w: card %d appears twice", ErrConfig, p.Card)
		}
		if err := c.checkPort(p); err != nil {
			return err
		}
		seen[p.Card] = true
	}
	for node, r := range c.Routes {
		if r != NoRoute && (r > math.MaxUint16 || !seen[uint16(r)]) {
			return fmt.Errorf("%w: route of node %d leads to card %d, which is not a peer", ErrConfig, node, r)
		}
	}
	return nil
}

func (c *Config) checkPort(p Peer) error {
	if p.Port < 0 || p.Port >= len(c.Ports) {
		return fmt.Errorf("%w: card %d is behind port %d of %d", ErrConfig, p.Card, p.Port, len(c.Ports))
	}
	return nil
}

// frameSize returns the longest frame that all ports send.
func (c *Config) frameSize() int {
	size := math.MaxInt
	for _, p := range c.Ports {
		size = min(size, p.FrameSize())
	}
	return size
}

// link returns what the card's end of its links is made from.
func (c *Config) link() link.Config {
	n := link.Config{
		Card: c.Card, Incarnation: c.Incarnation, Seed: c.Seed, Nonces: c.Nonces, Readable: c.Readable,
		Ports: c.Ports, Peers: c.Peers,
		AnyGroup: c.AnyGroup, Direct: c.Direct, Doubt: c.Doubt, Train: c.Train, FirstWindow: c.FirstWindow,
		Lines:    c.Lines,
		AckDelay: c.AckDelay, AckEvery: c.AckEvery, FirstRTO: c.FirstRTO, MinRTO: c.MinRTO, MaxRTO: c.MaxRTO,
		MinHold: c.MinHold, MaxHold: c.MaxHold, PeerTimeout: c.PeerTimeout, ConnectTimeout: c.ConnectTimeout,
		RaiseAfter: c.RaiseAfter,
	}
	if t := c.Timing; t != nil {
		n.Dispatch, n.Transmit, n.Timed = t.Dispatch, t.Transmit, t.Card != nil
	}
	return n
}
