package daemon

// This file says hello to other cards (package uspace/port/hello). It answers their hellos, and
// asks its peers in turn. If it is told to, it finds hosts on its segments (Config.Discover). It
// asks one card for an administrator. All hellos go through the card's thread and its ports.

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/uspace/port/hello"
)

// lonely returns a peers file without peers, for a card.
func lonely(card uint16) *cluster.File {
	f := &cluster.File{Peers: make([]cluster.Peer, max(int(card)+1, cluster.MinNodes))}
	for i := range f.Peers {
		f.Peers[i] = cluster.Peer{Node: uint16(i), Absent: i != int(card)}
	}
	return f
}

// badCluster returns an error that says what is wrong with the name of a cluster, or nil.
func badCluster(name string) error {
	if len(name) > hello.MaxName || slices.ContainsFunc([]byte(name), func(b byte) bool {
		return b <= ' ' || b > '~'
	}) {
		return fmt.Errorf("use a name of up to %d letters, digits or marks, such as lab-2", hello.MaxName)
	}
	return nil
}

// newStation makes the station that says hello, for the card's thread.
func (d *Daemon) newStation() *hello.Station {
	c := hello.Config{Discover: d.cfg.Discover != "",
		Self: hello.Said{Card: d.cfg.Card, Incarnation: d.incarnation.Load(), Frames: arctic.Version,
			Cluster: d.cfg.Discover, Host: hostName()}}
	if d.cfg.Peers.Encap == cluster.UDP {
		c.Self.Encap = 1
	}
	_, _ = rand.Read(c.Seed[:]) // it never fails
	if d.clock != nil {
		c.Clock = d.clock
	}
	for _, l := range d.links {
		address := l.mac
		if l.config.UDP != nil {
			address = encap.Address(d.cfg.Card)
		}
		c.Ports, c.Addresses = append(c.Ports, l.hello), append(c.Addresses, address)
	}
	s := hello.New(c)
	for port := range c.Ports {
		s.Prove(port)
	}
	for _, p := range d.cfg.engine().Peers {
		s.SetPeer(p.Card, p.Port, p.Address)
	}
	return s
}

// announce puts an event into a channel with room for one, unless it is there already.
func announce(event chan<- struct{}) {
	select {
	case event <- struct{}{}:
	default:
	}
}

// sayHello steps the station. The card's thread calls it.
func (l *loop) sayHello() {
	l.hello.Step(l.clock())
	if l.hello.News() {
		announce(l.heard)
	}
}

// members is the peers of a daemon, for the goroutine that follows them (members.go).
type members struct {
	file  *cluster.File           // as it was read
	found map[uint16]cluster.Peer // by announcements; never a card that the file has
}

// all returns the peers of the file together with those that were found.
func (m *members) all() *cluster.File {
	if len(m.found) == 0 {
		return m.file
	}
	f := *m.file
	last := len(f.Peers) - 1
	for card := range m.found {
		last = max(last, int(card))
	}
	f.Peers = slices.Clone(f.Peers)
	for i := len(f.Peers); i <= last; i++ {
		f.Peers = append(f.Peers, cluster.Peer{Node: uint16(i), Absent: true})
	}
	for card, p := range m.found {
		f.Peers[card] = p
	}
	return &f
}

// takeHeard takes the findings of the station, logs them and changes the peers accordingly.
func (d *Daemon) takeHeard() error {
	var changes []hello.Change
	var faults []hello.Fault
	var queues []hello.QueueNews
	more := false
	err := d.loop.do(func() {
		changes = d.loop.hello.TakeNews(changesAtOnce)
		faults = d.loop.hello.TakeFaults(d.loop.clock())
		queues = d.loop.hello.TakeQueueNews()
		more = d.loop.hello.News()
	})
	if err != nil {
		return err
	}
	for _, f := range faults {
		d.cfg.Logger.Warn(f.String())
	}
	for _, q := range queues {
		name := d.links[q.Port].configured
		if q.Left {
			d.cfg.Logger.Warn(fmt.Sprintf("interface %s: of %d hellos that left on queue %d none was answered, while those on others were; frames leave on the others. Look at the counters of its queues (`ethtool -S %s`)", name, q.Asked, q.Queue, name), "interface", name, "queue", q.Queue)
		} else {
			d.cfg.Logger.Info(fmt.Sprintf("interface %s: a hello that left on queue %d was answered; frames leave on it again", name, q.Queue), "interface", name, "queue", q.Queue)
		}
	}
	if len(changes) == 0 {
		return nil
	}
	for _, c := range changes {
		switch {
		case c.Gone:
			delete(d.members.found, c.Card)
		case present(d.members.file, int(c.Card)) == nil:
			if d.members.found == nil {
				d.members.found = map[uint16]cluster.Peer{}
			}
			d.members.found[c.Card] = cluster.Peer{Node: c.Card, MAC: net.HardwareAddr(slices.Clone(c.Address[:])),
				Iface: d.cfg.Interfaces[c.Port], Found: cmp.Or(c.Host, "a host without a name")}
		}
	}
	if more {
		announce(d.heard)
	}
	return d.changePeers(d.peers.Load(), d.members.all())
}

// peerLook bounds the peers that are searched for an answer to the status, because the card's
// thread does it. An answer has room for peerRoom peers, at less than 350 bytes each, and for
// faultRoom lines, at less than 400.
const (
	peerLook  = 1024
	peerRoom  = 32
	faultRoom = 8
)

// helloStatus describes the peers.
func (c *connection) helloStatus() report.HelloStatus {
	d := c.d
	s := report.HelloStatus{Cluster: d.cfg.Discover, Peers: []report.PeerStatus{}, Faults: []string{}}
	peers := d.peers.Load()
	var some []hello.Peer
	var keys map[uint16]report.PeerKey
	var now int64
	_ = c.onCard(nil, func() { // there are none after the end
		now = d.loop.clock()
		some = d.loop.hello.Peers(peerRoom, peerLook)
		keys = make(map[uint16]report.PeerKey, len(some))
		for _, p := range some {
			if state, ok := d.loop.card.PeerState(p.Card); ok {
				keys[p.Card] = keyOfPeer(&state)
			}
		}
		s.Known, s.Silent = d.loop.hello.Known()
		for _, f := range d.loop.hello.Faults(now) {
			if len(s.Faults) < faultRoom {
				s.Faults = append(s.Faults, f.String())
			}
		}
	})
	s.LeftOut = s.Known - len(some)
	slices.SortFunc(some, func(a, b hello.Peer) int {
		return cmp.Or(cmp.Compare(b.Silent, a.Silent), cmp.Compare(a.Card, b.Card))
	})
	for _, p := range some {
		x := report.PeerStatus{Card: p.Card, Address: net.HardwareAddr(p.Address[:]).String(), Found: p.Found,
			Host: p.Host, HeardAgo: -1, RoundTrip: -1, Unanswered: p.Silent, Key: keys[p.Card]}
		if l := present(peers, int(p.Card)); l != nil {
			x.Address = where(peers, l)
		}
		if p.Heard != hello.Never {
			x.HeardAgo, x.RoundTrip = time.Duration(now-p.Heard).Seconds(), float64(p.RoundTrip)/1e3
		}
		s.Peers = append(s.Peers, x)
	}
	return s
}

// hello asks a peer of this card whether it is there.
func (d *Daemon) hello(m *report.Command) (*report.HelloAnswer, error) {
	if (m.Card == nil) == (m.Address == "") {
		return nil, fmt.Errorf("which card? say card, or address: %w", attach.ErrCommand)
	}
	a := &report.HelloAnswer{Own: d.cfg.Discover, Encap: d.cfg.Peers.Encap.String(), Faults: []string{}}
	if m.Card != nil {
		a.Card = *m.Card
	} else {
		peers := d.peers.Load()
		i := slices.IndexFunc(peers.Peers, func(p cluster.Peer) bool {
			return !p.Absent && strings.EqualFold(where(peers, &p), m.Address)
		})
		if i < 0 {
			return nil, fmt.Errorf("a card at %q: %w", m.Address, attach.ErrRoute)
		}
		a.Card = uint16(i)
	}
	replied := make(chan hello.Reply, 1)
	err := d.loop.ask(func() error {
		p, ok := d.loop.hello.Peer(a.Card)
		if !ok {
			return fmt.Errorf("card %d: %w", a.Card, attach.ErrRoute)
		}
		if peers := d.peers.Load(); present(peers, int(a.Card)) != nil {
			a.Address = where(peers, present(peers, int(a.Card)))
		}
		a.Interface = d.links[p.Port].state().Interface
		err := d.loop.hello.Ask(d.loop.clock(), p.Port, p.Address, a.Card, func(r hello.Reply) { replied <- r })
		if errors.Is(err, hello.ErrBusy) {
			err = fmt.Errorf("%w: %w", err, attach.ErrBusy)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	select {
	case r := <-replied:
		a.Answered, a.RoundTrip, a.Tries = r.Answered, float64(r.RoundTrip)/1e3, r.Tries
		a.Said, a.Host, a.Cluster, a.Frames = r.Said.Card, r.Said.Host, r.Said.Cluster, r.Said.Frames
		a.FrameSize, a.Incarnation = int(r.Said.FrameSize), r.Said.Incarnation
	case <-d.loop.ended:
		return nil, ErrEnded
	}
	if a.Answered {
		if err := d.askKey(a); err != nil {
			return nil, err
		}
	}
	err = d.loop.do(func() {
		for _, f := range d.loop.hello.Faults(d.loop.clock()) {
			if (f.Card == a.Card || f.Said.Card == a.Card || f.Card == d.cfg.Card) && len(a.Faults) < faultRoom {
				a.Faults = append(a.Faults, f.String())
			}
		}
	})
	return a, err
}
