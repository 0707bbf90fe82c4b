package afxdp

// This file is a port whose frames travel in UDP datagrams (Config.UDP).

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/uspace/port/paths"
	"github.com/funet/funet/xdp"
)

// UDP holds the addresses of a port whose frames travel in UDP datagrams. The card knows its peers
// by the addresses that encap.Address makes of their numbers.
type UDP struct {
	Port  uint16     // 0: encap.DefaultPort; the same on all hosts
	Local netip.Addr // of this card, as the peers know it
	Peers []encap.Peer
	// Tell takes a line when the way to a peer is lost or found, from any goroutine; nil: no lines
	// are wanted.
	Tell    func(line string)
	Changed func() // called when Path has other answers, from any goroutine; nil: no call is wanted
}

// Datagrams are counters of a port of datagrams.
type Datagrams struct {
	Unsent  uint64 `json:"unsent"`  // frames without a path
	Refused uint64 `json:"refused"` // dropped: damaged datagrams, and frames that are not datagrams
}

// udp is the state of a port whose frames travel in datagrams.
type udp struct {
	paths *paths.Follower
	n     Datagrams

	// The number of merged datagrams that Watch has reported, and the time of the report.
	told   uint64
	toldAt time.Time
}

// leastMTU is the MTU that FUNet needs in datagrams to an address.
func leastMTU(a netip.Addr) int { return arctic.MinMTU + encap.Overhead(a) }

// complete returns the configuration with its UDP port.
func (u UDP) complete() UDP {
	if u.Port == 0 {
		u.Port = encap.DefaultPort
	}
	return u
}

// openPaths begins to follow the paths to the peers.
func (p *Port) openPaths(c *UDP, ifc *net.Interface) (err error) {
	f, err := paths.Open(paths.Config{Interface: ifc.Name, Index: ifc.Index, Port: c.Port,
		Local: c.Local, Peers: c.Peers,
		Least: leastMTU(c.Local), Tell: c.Tell, Changed: c.Changed})
	if err != nil {
		return err
	}
	p.udp = &udp{paths: f}
	return nil
}

// merging returns which interfaces below merge datagrams, and how to stop that; "" if none is
// known.
func (p *Port) merging() string {
	if p.udp == nil || p.info.XDPMode != xdp.AttachGeneric {
		return ""
	}
	all, _ := xdp.Mergers(p.info.Interface) // without an answer the program's counter still tells
	var said []string
	for _, m := range all {
		said = append(said, fmt.Sprintf("GRO of %s merges datagrams (%s), and merged frames are lost: `%s` mends it",
			m.Name, strings.Join(m.Features, ", "), m.Cure()))
	}
	return strings.Join(said, "; ")
}

// tellMerged returns a line when merged datagrams came since the last line, at most one line each
// mergedEvery.
func (p *Port) tellMerged(s *sample) string {
	p.mu.Lock()
	p.info.Merged = s.merged
	p.mu.Unlock()
	if p.udp == nil || s.merged == p.udp.told || s.at.Sub(p.udp.toldAt) < mergedEvery {
		return ""
	}
	p.udp.told, p.udp.toldAt = s.merged, s.at
	why := p.merging()
	if why == "" {
		why = "see `ethtool -k` of the interfaces that frames come through on this host: " +
			strings.Join(xdp.Merging, " and ") + " are to be off"
	}
	return fmt.Sprintf("interface %s: frames were lost because the kernel merged datagrams (%d so far); %s",
		p.info.Interface, s.merged, why)
}

// mergedEvery is the least time between two lines about merged datagrams.
const mergedEvery = time.Minute

// follow begins to follow the kernel, and lets datagrams in. A program that was loaded before must
// be one for datagrams to the same UDP port (Config.NIC).
func (p *Port) follow() error {
	if p.udp == nil {
		return nil
	}
	if err := p.udp.paths.Follow(p.nic.SetAddresses); err != nil {
		return fmt.Errorf("opening interface %s: %w", p.info.Interface, err)
	}
	return nil
}

// wrap makes a datagram from the frame of n bytes behind the room in b. ok is false if the frame
// cannot be sent.
func (u *udp) wrap(b []byte, n int) (start, end int, ok bool) {
	if path := u.paths.Table().To(b[encap.Room:]); path != nil {
		start, end, ok = path.Wrap(b, n)
	}
	if !ok {
		u.n.Unsent++
	}
	return start, end, ok
}

// unwrap replaces datagrams by the frames in them and returns the number of frames.
func (u *udp) unwrap(frames [][]byte) int {
	t := u.paths.Table()
	k := 0
	for _, b := range frames {
		f, ok := t.Unwrap(b)
		if !ok {
			u.n.Refused++
			continue
		}
		frames[k] = f
		k++
	}
	return k
}

// SetPeers replaces the peers of Config.UDP. Any goroutine may call it until Close.
func (p *Port) SetPeers(peers []encap.Peer) {
	if p.udp != nil {
		p.udp.paths.SetPeers(peers)
	}
}

// Limits returns the lengths of the longest frames to cards, as far as the kernel knows. The first
// call returns those of all cards, later calls those that have changed since the last call. It
// returns nil without Config.UDP. It is for the port's goroutine.
func (p *Port) Limits() []paths.Limit {
	if p.udp == nil {
		return nil
	}
	return p.udp.paths.Limits()
}

// Remind has the next call of Limits return the limits of all cards. Any goroutine may call it
// until Close.
func (p *Port) Remind() {
	if p.udp != nil {
		p.udp.paths.Remind()
	}
}

// Datagrams returns the counters: zero without Config.UDP. It is for the port's goroutine.
func (p *Port) Datagrams() Datagrams {
	if p.udp == nil {
		return Datagrams{}
	}
	return p.udp.n
}

// Paths returns the ways to the peers, nil without Config.UDP. Any goroutine may call it until
// Close, and must not change the result.
func (p *Port) Paths() []paths.State {
	if p.udp == nil {
		return nil
	}
	return p.udp.paths.States()
}

// Path returns the way to a card; nil: there is none at present, or no Config.UDP. Any goroutine
// may call it.
func (p *Port) Path(card uint16) *encap.Path {
	if p.udp == nil {
		return nil
	}
	return p.udp.paths.Table().ToCard(card)
}

// Fault returns a known problem of the way to a card, nil if there is none or without Config.UDP.
// It wraps paths.ErrNoPath if there is no way. Any goroutine may call it until Close.
func (p *Port) Fault(card uint16) error {
	if p.udp == nil {
		return nil
	}
	return p.udp.paths.Fault(card)
}
