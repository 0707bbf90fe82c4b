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
	// contendedReceive is the same while several accounts use the card. So packets that one account
	// sends leave before the next frames of another are taken.
	contendedReceive = 16
	// retrieveBatch is the most slots retrieved from a queue in one step.
	retrieveBatch = 256
	// Never is the time that Step returns when only a port or a process can give
	// the card something to do.
	Never = link.Never
	// latest is the last time at which a card that has peers may be stepped. longest is the longest
	// duration of a Config. No sum of the two passes the end of int64.
	latest  = 1 << 62
	longest = 24 * time.Hour
)

// Peer tells a card about another card.
type Peer = link.Peer

// Config describes a card. Durations of zero take the defaults of Native. No duration is longer
// than a day.
type Config struct {
	Card uint16
	// Incarnation tells this life of the card from earlier ones. It is not zero, and no earlier
	// life had the same. Draw it at random.
	Incarnation uint32
	// Seed feeds the spread of back-offs.
	Seed uint64
	// Nonces draws the nonces of greetings, and the numbers that seed the proofs of multicasts. An
	// attacker that foresees a nonce can echo it in a peer's name. So a card on a real network
	// takes the numbers from the operating system's generator, each when it is needed. nil: Seed
	// feeds them, too; for simulations.
	Nonces rand.Source
	Ports  []port.Port
	Peers  []Peer
	// Routes is the route table (thesis 3.3.1): index node, value the 30 route
	// bits, here the number of the card. NoRoute marks an absent entry.
	Routes []uint32
	// NodesAreCards puts a node beyond the end of its route table on the card with the number of
	// the node, if that is this card or a peer. So cards whose groups have node i on card i need no
	// tables, which would take 256 KiB for each card of 65,536.
	NodesAreCards bool

	// SystemEvent is called for each frame with packets for the system group (GID 0) that have to
	// wait: no context of the group is attached, or the context that they are for is switched out
	// or in context-switch mode. The packets are rejected for a transient reason, so that they come
	// again (thesis 3.3.2). SystemEvent is called within Step and must not call the card. nil: the
	// system group is like any other.
	SystemEvent func()
	// Moved is called when another card says that the process of a node of a group is on card now.
	// The route table has changed by then. Moved is called within Step and must not call the card.
	// nil: moves are not reported.
	Moved func(gid, node, card uint16)
	// Fault is called when a table of the card has no entry for a packet, or forbids what the
	// packet asks for. The card's owner counts the call (Faults) or decides (Tokyo, sections 2.1,
	// 3.1 and 3.3; fault.go, routemiss.go). source is the node that the packet is from. The reasons
	// are:
	//
	//   - arctic.ReasonAbsent: the packet is the first that finds the window of the node not
	//     present since it became so. The result is ignored.
	//   - arctic.ReasonNoRoute: source is a node of this card, and its route table has no entry for
	//     the node. If hold is true, the packet waits for an entry, at most for ConnectTimeout.
	//   - Others are those of refusals, with one call for each packet. If hold is true, the window
	//     whose key the packet has is suspended. A window without credit is not: its process would
	//     not be told of the next miss.
	//
	// Fault is called within Step and must not call the card. nil: faults are not reported, no
	// window is suspended, and no packet waits for a route.
	Fault func(gid, node, source uint16, reason arctic.Reason) (hold bool)
	// Readable allows packets to peers with a key to be authenticated only, not encrypted. They are
	// encrypted all the same to peers that want it (Peer.Key).
	Readable bool
	// AnyGroup lets the card meet peers and answer them whatever the group of a frame. Without it,
	// the card does so only for groups with a context here. A card whose groups come and go needs
	// it: packets for a group that has just ended are rejected for good, and so return to their
	// sender at once.
	AnyGroup bool
	// Defers lets switches answer the first frames for a node, while its group is absent behind
	// them, and takes such frames from others (bpf.Load.Defers; link/defer.go). Such packets wait
	// for ConnectTimeout. It is for the frames of cards without keys, and not for modelled cards.
	Defers bool
	// Direct makes the card that of one node of one job, and is the job's tag (arctic.JobTag). The
	// card's number is the node's, and the numbers of its peers are those of their nodes. Frames
	// are of arctic.VersionDirect, and the two ends of a link need to agree about nothing else.
	// Contexts of other jobs and nodes are refused (ErrDirect). nil: a card of a host.
	Direct *uint64
	// Doubt is called when a peer of a direct card has been silent for half of PeerTimeout, once
	// for each silence. life is the incarnation that the peer had. The owner may know whether that
	// lives (Card.Ended, Card.Lives). Doubt is called within Step and must not call the card. nil:
	// the owner is not asked.
	Doubt func(card uint16, life uint32)
	// Doorbells is the page that processes ring at whose contexts have no other page
	// (Card.Doorbells). nil: the card makes it. That is enough for processes within the card's own
	// process.
	Doorbells *funi.Doorbells

	Lines      int // lines of the undelivered packet cache per context
	ReplyLines int // how many of them only replies may use
	Sets       int // contexts with lines in the cache (thesis 5.3: 32); 0: funi.MaxContexts
	FIFO       int // packets that the receive FIFO of a context and level holds
	Train      int // most packets of a frame, at most arctic.MaxTrain
	// Blocks lets long transfers fill frames (design idea 7). Without it they travel as packets of
	// 24 words, as on Arctic. With Timing, long transfers and operations on windows travel so even
	// if Blocks is set. There only writes to areas have blocks, and only if Timing.Card says how
	// long their packets take (HPL-95-86, tables 4 and 5).
	Blocks bool
	// BlockBytes is the most bytes of a block of a write to an area, a multiple of 16. Hamlyn's is
	// 512. 0: as many as a frame has room for. With Timing and Blocks it is from 16 to
	// MaxTimedBlock, and each entry of a receive FIFO has room for that many.
	BlockBytes  int
	FirstWindow int // congestion window, in frames, before anything is known of the path

	// Timing is how long the units of a modelled machine take; nil: no time.
	Timing *Timing

	// AckDelay bounds how long an acknowledgment waits for data to ride on.
	AckDelay time.Duration
	// TransferWords is the most data, in words, of a one-packet transfer that makes a notice. It is
	// 16 (thesis 3.2.4) or, without an argument, 20 (conference paper 4.1.4); 0 stands for 16.
	TransferWords int
	// RemotePage is the number of bytes of a page of remote memory, a power of two from 64 to
	// 65,536. No packet of an operation on a window goes beyond the page that it begins in
	// (page.go). 0: remote memory has no pages.
	RemotePage int
	// AckEvery is how many frames with trains may come until they are acknowledged at once; of
	// frames with blocks, four times as many.
	AckEvery int
	// FirstRTO, MinRTO and MaxRTO bound the retransmission time (RFC 6298).
	FirstRTO, MinRTO, MaxRTO time.Duration
	// MinHold and MaxHold bound the back-off after a reject, which grows (link/hold.go). A node
	// that was full for a while is tried again after a part of that while.
	MinHold, MaxHold time.Duration
	// PeerTimeout is how long a peer may stay silent while something waits for its answer.
	// ConnectTimeout is the same for a peer that was never heard, and how long packets wait for a
	// node that is expected (Expect).
	PeerTimeout, ConnectTimeout time.Duration
	// RaiseAfter is how long the card waits, after the frames to a peer became shorter, before it
	// tries longer ones (link/limit.go).
	RaiseAfter time.Duration
}

// NoRoute marks an absent entry of the route table.
const NoRoute = math.MaxUint32

// Native is the configuration that lifts the limits of the papers' hardware. A loss is found by the
// frames that overtake the lost one; MinRTO is for the last frames of a burst. It is longer than a
// process is commonly kept from running.
func Native() Config {
	return Config{
		Lines: 1024, ReplyLines: 256, FIFO: 10, Train: arctic.MaxTrain, Blocks: true, FirstWindow: 32,
		AckDelay: 50 * time.Microsecond, AckEvery: 16,
		FirstRTO: 10 * time.Millisecond, MinRTO: 5 * time.Millisecond, MaxRTO: 100 * time.Millisecond,
		MinHold: 10 * time.Microsecond, MaxHold: 100 * time.Millisecond,
		PeerTimeout: 5 * time.Second, ConnectTimeout: 30 * time.Second, RaiseAfter: 10 * time.Second,
	}
}

// ErrConfig reports a configuration that no card can have. Every error of New wraps it.
var ErrConfig = errors.New("engine: invalid configuration")

// check fills in defaults and refuses values that the card could not work with.
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

// blocks returns the most bytes of a block of a transfer, and of a write that areas may count. 0:
// none travels so.
func (c *Config) blocks() (transfers, writes int) {
	if !c.Blocks {
		return 0, 0
	}
	writes = min(arctic.MaxBlock(c.frameSize()), arctic.MaxTransferWords*arctic.WordSize)
	if c.Timing == nil {
		transfers = writes
	}
	if c.BlockBytes > 0 {
		writes = min(writes, c.BlockBytes)
	}
	return transfers, writes
}

// link returns the configuration of the card's end of its links.
func (c *Config) link() link.Config {
	n := link.Config{
		Card: c.Card, Incarnation: c.Incarnation, Seed: c.Seed, Nonces: c.Nonces, Readable: c.Readable,
		Ports: c.Ports, Peers: c.Peers,
		AnyGroup: c.AnyGroup, Defers: c.Defers && c.Direct == nil && c.Timing == nil,
		Direct: c.Direct, Doubt: c.Doubt, Train: c.Train, FirstWindow: c.FirstWindow,
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
