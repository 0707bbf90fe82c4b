package paths

// This file has the follower: its configuration, its goroutine and its results.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/port/encap"
)

const (
	// refresh is the time after which the follower looks again, even if the kernel reports no
	// change.
	refresh = time.Second
	// pause is the least time between two rounds. A storm of changes costs a tenth of that at most.
	pause = 100 * time.Millisecond
	// first is the most time that Open waits for neighbours. routed is the time that it waits for
	// routers to say that a datagram is too long for them.
	first  = 500 * time.Millisecond
	routed = 50 * time.Millisecond
)

// These errors are for callers' decisions.
var (
	// ErrAddress reports that no interface of this host has the own address.
	ErrAddress = errors.New("no interface has the address")
	// ErrPort reports that another process has one of the UDP ports.
	ErrPort   = errors.New("the UDP port is in use")
	ErrNoPath = errors.New("no path") // reports a peer to which there is no path at present
)

// Config configures a Follower.
type Config struct {
	Interface string
	Index     int        // of the interface
	Port      uint16     // UDP
	Local     netip.Addr // own address, as peers know it
	Peers     []encap.Peer
	Least     int // the MTU in bytes that FUNet's shortest frames need
	// Tell takes a line when the path to a peer is lost, found, or said to be of another length;
	// nil discards the lines.
	Tell    func(line string)
	Changed func() // Changed, if not nil, is called when States has changed
}

// State is the state of the way to a peer.
type State struct {
	Card    uint16 `json:"card"`
	Address string `json:"address"`
	Source  string `json:"source,omitempty"`
	Gateway string `json:"gateway,omitempty"` // none: the peer is on the interface's network
	MAC     string `json:"mac,omitempty"`     // of the gateway or the peer
	MTU     int    `json:"mtu_bytes,omitempty"`
	Missing string `json:"missing,omitempty"` // says why there is no path; "": there is one
	// Heard says that the path is too narrow for FUNet, and repeats the last ICMP error about the
	// peer within a minute. "" means that there is neither.
	Heard string `json:"icmp,omitempty"`
}

// Follower follows the kernel. Any goroutine may call its methods.
type Follower struct {
	c       Config
	handle  *netlink.Handle
	events  *nl.NetlinkSocket
	sources sources

	table  atomic.Pointer[encap.Table]
	states atomic.Pointer[[]State]
	own    func([]netip.Addr) error // tells the NIC program
	owned  []netip.Addr             // what it was told last

	ways  []way // These belong to the goroutine that makes rounds
	began bool  // changes are reported (Config.Tell)
	turn  int   // the last way asked for without a known change
	seen  *link // in the last round

	mu     sync.Mutex // guards what follows
	peers  []encap.Peer
	doubts doubts
	heard  map[netip.Addr]heard
	told   map[uint16]int // the last limit of a card
	news   map[uint16]int // of them, those that Limits has not returned yet

	isNews atomic.Bool // news is not empty

	wake chan struct{} // holds one: something has changed
	quit chan struct{}
	done sync.WaitGroup
	once sync.Once
}

// doubts are the paths that may have changed since the last round.
type doubts struct {
	peers    bool // SetPeers has set others
	all      bool // routes
	prefixes []netip.Prefix
	hosts    map[netip.Addr]bool
}

// mostPrefixes bounds the prefixes that are told apart.
const mostPrefixes = 64

// of reports whether the route to an address may have changed.
func (d *doubts) of(a netip.Addr) bool {
	return d.hosts[a] || slices.ContainsFunc(d.prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

type heard struct {
	text string
	at   time.Time
}

// Open opens the sockets, and makes the first table. It must run in the network namespace of the
// interface, and returns within a second. Errors wrap ErrAddress or ErrPort, or are the kernel's.
func Open(c Config) (_ *Follower, err error) {
	if c.Tell == nil {
		c.Tell = func(string) {}
	}
	f := &Follower{c: c, peers: slices.Clone(c.Peers), heard: map[netip.Addr]heard{}, told: map[uint16]int{},
		news: map[uint16]int{},
		wake: make(chan struct{}, 1), quit: make(chan struct{})}
	defer func() {
		if err != nil {
			f.Close()
			err = fmt.Errorf("following routes on %s: %w", c.Interface, err)
		}
	}()
	if f.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, err
	}
	if err := f.handle.SetSocketTimeout(5 * time.Second); err != nil {
		return nil, err
	}
	f.events, err = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
		unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE)
	if err != nil {
		return nil, err
	}
	if err := f.sources.open(&c); err != nil {
		return nil, err
	}
	r, err := f.whole()
	if err != nil {
		return nil, err
	}
	if !r.local {
		return nil, fmt.Errorf("%w %v, which the peers file says is this card's; `ip address` lists those there are",
			ErrAddress, c.Local)
	}
	f.sources.probe(r.states, c.Peers, r.mtu)
	for end := time.Now().Add(first); ; {
		// Neighbours answer, and routers say what is too long for them, while this waits.
		wait := routed
		if r.unresolved > 0 {
			wait = min(time.Until(end), pause/10)
		} else if !r.gateways {
			wait = 0
		}
		time.Sleep(max(wait, 0))
		missing := r.unresolved > 0
		last := !missing || time.Now().After(end)
		f.mu.Lock()
		f.doubts.all = last && r.gateways // routers may have said something
		f.mu.Unlock()
		if r, err = f.whole(); err != nil {
			return nil, err
		}
		if last {
			break
		}
		if r.unresolved == 0 && r.gateways {
			f.sources.probe(r.states, c.Peers, r.mtu)
		}
	}
	return f, nil
}

// whole makes rounds until no route is left to be asked for.
func (f *Follower) whole() (r round, err error) {
	for r.left = true; r.left && err == nil; {
		r, err = f.round()
	}
	return r, err
}

// Table returns the newest table.
func (f *Follower) Table() *encap.Table { return f.table.Load() }

// States returns the ways to the peers, in the order of Config.Peers. The slice is shared: do not
// change it.
func (f *Follower) States() []State { return *f.states.Load() }

// Fault returns a known fault of the way to a card, or nil. An error that wraps ErrNoPath means
// that there is no path. Another repeats what a router or the peer has answered of late, or says
// that the path is too narrow.
func (f *Follower) Fault(card uint16) error {
	for _, s := range f.States() {
		switch {
		case s.Card != card:
		case s.Missing != "":
			return fmt.Errorf("%w to card %d at %s: %s", ErrNoPath, card, s.Address, s.Missing)
		case s.Heard != "":
			return fmt.Errorf("on the way to card %d at %s: %s", card, s.Address, s.Heard)
		}
	}
	return nil
}

// Limit is the length in bytes of the longest frames to a card, as far as the kernel knows. The
// kernel believes routers' answers to anybody's packets, and anybody can forge these answers.
type Limit struct {
	Card  uint16
	Frame int
}

// Limits returns the limits that have changed since the last call. It costs next to nothing when
// none has. The first call returns the limits of all cards with a path. Limits are never below
// Config.Least, as a frame.
func (f *Follower) Limits() (changed []Limit) {
	if !f.isNews.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for card, frame := range f.news {
		changed = append(changed, Limit{card, frame})
	}
	clear(f.news)
	f.isNews.Store(false)
	return changed
}

// Remind has the next call of Limits return the limits of all cards. A caller uses it when it knows
// new cards.
func (f *Follower) Remind() {
	f.mu.Lock()
	clear(f.told)
	f.mu.Unlock()
	f.limit(f.States())
}

// mostNarrow bounds the changed paths that are reported at once.
const mostNarrow = 8

// limit notes how long frames on the paths may be, and reports the paths that became narrower or
// wider.
func (f *Follower) limit(states []State) {
	var lines []string
	f.mu.Lock()
	for i := range states {
		s := &states[i]
		frame := max(s.MTU, f.c.Least) - encap.Overhead(f.c.Local) + ethernetSize
		was := f.told[s.Card]
		if s.Missing != "" || was == frame {
			continue
		}
		f.told[s.Card], f.news[s.Card] = frame, frame
		if was != 0 && len(lines) < mostNarrow {
			lines = append(lines,
				fmt.Sprintf("the path to card %d at %s is said to take packets of %d bytes now; frames are at most %d bytes, before %d", s.Card, s.Address, s.MTU, frame, was))
		}
	}
	f.isNews.Store(len(f.news) > 0)
	f.mu.Unlock()
	for _, line := range lines {
		f.c.Tell(line)
	}
}

const ethernetSize = 14

// SetPeers replaces the peers.
func (f *Follower) SetPeers(peers []encap.Peer) {
	f.mu.Lock()
	f.peers = slices.Clone(peers)
	clear(f.heard) // also of those who are no peers any more
	f.doubts.peers = true
	clear(f.told) // a card that is elsewhere now knows nothing of the way there
	clear(f.news)
	f.mu.Unlock()
	f.changed()
}

// Follow begins to follow. It calls own with the addresses for which datagrams are to be taken, at
// once and when they have changed. It is called once.
func (f *Follower) Follow(own func([]netip.Addr) error) error {
	f.own = own
	if _, err := f.whole(); err != nil {
		return fmt.Errorf("following routes on %s: %w", f.c.Interface, err)
	}
	f.began = true
	f.tell(nil) // which ways there are not
	f.done.Go(f.listen)
	f.done.Go(f.follow)
	f.sources.listen(f)
	return nil
}

func (f *Follower) changed() {
	select {
	case f.wake <- struct{}{}:
	default: // one is asked for
	}
}

// listen wakes the follower when the kernel reports a change, and notes the routes that it may
// concern. These are all routes if reports were lost because there were too many (ENOBUFS).
func (f *Follower) listen() {
	for {
		messages, _, err := f.events.Receive()
		if err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR) {
			return // closed
		}
		f.mu.Lock()
		f.doubts.all = f.doubts.all || err != nil
		for i := range messages {
			f.doubts.note(&messages[i])
		}
		f.mu.Unlock()
		f.changed()
		select {
		case <-f.quit:
			return
		case <-time.After(pause / 10): // a storm ends in one round
		}
	}
}

// note notes the routes that a change concerns. Addresses and links need no note: each round looks
// at them, and their changes come with those of routes.
func (d *doubts) note(m *syscall.NetlinkMessage) {
	switch m.Header.Type {
	// neighbours are looked at in each round
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH, unix.RTM_GETNEIGH:
		return
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
	default:
		d.all = true
		return
	}
	if len(d.prefixes) >= mostPrefixes || len(m.Data) < unix.SizeofRtMsg {
		d.all = true
		return
	}
	attributes, err := nl.ParseRouteAttr(m.Data[unix.SizeofRtMsg:])
	for _, a := range attributes {
		if to, ok := netip.AddrFromSlice(a.Value); ok && a.Attr.Type == unix.RTA_DST && err == nil {
			if p, err := to.Prefix(int(m.Data[1])); err == nil { // rtm_dst_len
				d.prefixes = append(d.prefixes, p)
				return
			}
		}
	}
	d.all = true // a default route
}

// follow makes tables until Close.
func (f *Follower) follow() {
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	failed := ""
	for {
		select {
		case <-f.quit:
			return
		case <-f.wake:
		case <-tick.C:
		}
		r, err := f.round()
		if r.left {
			f.changed()
		}
		if err != nil && err.Error() != failed {
			failed = err.Error()
			f.c.Tell(fmt.Sprintf("following routes on %s: %v; the ways that were known are used until that works again",
				f.c.Interface, err))
		} else if err == nil {
			failed = ""
		}
		select {
		case <-f.quit:
			return
		case <-time.After(pause):
		}
	}
}

// Close ends the goroutines and closes the sockets. It may be called twice.
func (f *Follower) Close() {
	f.once.Do(func() {
		close(f.quit)
		f.sources.close()
		if f.events != nil {
			f.events.Close()
		}
		f.done.Wait()
		if f.handle != nil {
			f.handle.Close()
		}
	})
}
