package daemon

// This file follows hosts that join the cluster, leave it or get another NIC while the daemon runs.
// It looks at the peers file each second, or follows a table in etcd (table.go), hears of hosts
// that were found (hello.go), and tells the card the changes. The file takes precedence over what
// was heard about a card.
//
// A file that is not a valid peers file, or that gives this host's number to another host, changes
// nothing but the log. Nor does a half-written file, until it is whole. Packets to removed hosts
// return to their senders with arctic.ReasonDeparted (engine.Card.RemovePeer). Jobs without nodes
// on those cards go on.

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/uspace/cluster"
)

const (
	lookPeers     = time.Second // how often the peers file is looked at
	changesAtOnce = 64          // how many peers are changed between two steps of the card
	tellPeers     = 16          // how many changes of one file are logged one by one
)

// followPeers applies changes of the peers file, if there is one, and of the hosts that were found,
// until the daemon ends.
func (d *Daemon) followPeers() {
	was := fileState{there: true} // of no file: it may have changed since Load
	var told toldKeys
	t := time.NewTicker(lookPeers)
	defer t.Stop()
	table := &tabled{asked: map[uint16]bool{}, gone: map[uint16]bool{}, answers: make(chan answer, askedAtOnce)}
	for {
		now, _ := stateOf(d.cfg.PeersPath) // reading will say what is wrong
		if now != was && d.cfg.PeersPath != "" {
			was = now
			if err := d.readPeers(); err != nil {
				d.cfg.Logger.Warn(fmt.Sprintf("the peers file has changed: %v; the peers stay as they were", err))
			}
		}
		d.tellKeys(&told)
		select {
		case <-t.C:
			d.followTable(table, true)
		case <-d.news():
			d.followTable(table, false)
		case a := <-table.answers:
			d.answered(table, a)
		case <-d.heard:
			if err := d.takeHeard(); err != nil && !errors.Is(err, ErrEnded) {
				d.cfg.Logger.Warn(fmt.Sprintf("taking who was found for peers: %v", err))
			}
		case <-d.quit:
			return
		}
	}
}

// introductions are the times at which the daemon introduces itself to peers that it has not met
// yet: at its start, and again in case the way was not known then, or the greeting was lost.
var introductions = []time.Duration{0, time.Second, 4 * time.Second}

// introduce tells peers that knew a previous daemon, which was killed, that this is another one
// (engine.Card.Introduce). So jobs that are made from now on are not affected by the change.
func (d *Daemon) introduce() {
	for _, after := range introductions {
		if after > 0 && !d.sleep(after) {
			return
		}
		for at := 0; at >= 0; {
			was := at
			if d.loop.do(func() { at = d.loop.card.Introduce(at) }) != nil {
				return
			}
			if at == was && !d.sleep(time.Millisecond) { // the transmit ring is full
				return
			}
		}
	}
}

// readPeers reads the file and changes the card's peers.
func (d *Daemon) readPeers() error {
	to, err := cluster.Load(d.cfg.PeersPath)
	if err != nil {
		return err
	}
	return d.takePeers(d.cfg.PeersPath, to)
}

// takePeers changes the card's peers to those of a file, or of a table in etcd; name stands for it
// in errors.
func (d *Daemon) takePeers(name string, to *cluster.File) (err error) {
	d.mu.Lock()
	c := d.cfg
	d.mu.Unlock()
	c.Peers = to
	if c, err = c.complete(); err != nil {
		return err
	}
	to = c.Peers
	from := d.members.file
	own, was := to.Peers[c.Card], from.Peers[c.Card]
	switch {
	case to.Encap != from.Encap || to.Port != from.Port:
		return fmt.Errorf("%s: another encapsulation or port; restart funid on all hosts for that: %w",
			name, config.ErrConfig)
	case to.Encap != cluster.UDP && !slices.Equal(own.MAC, was.MAC):
		return fmt.Errorf("%s: node %d is this host, and has another mac; restart funid for that: %w", name,
			c.Card, config.ErrConfig)
	case to.Encap == cluster.UDP && own.Address != was.Address:
		return fmt.Errorf("%s: node %d is this host, and has another address; restart funid for that: %w",
			name, c.Card, config.ErrConfig)
	}
	d.members.file = to
	for card := range d.members.found {
		if present(to, int(card)) != nil {
			delete(d.members.found, card)
		}
	}
	return d.changePeers(d.peers.Load(), d.members.all())
}

type change struct {
	card  uint16
	to    *cluster.Peer // nil: the number is now unused
	heard bool          // of an announced host, which the station knows
	words string
}

// changePeers tells the card the differences between from and to, a few peers at a time. A card
// that replaces this one meanwhile already has all of them (replaceCard), and is told twice.
func (d *Daemon) changePeers(from, to *cluster.File) error {
	d.tellGroups(from, to)
	changes := d.changes(from, to)
	if len(changes) == 0 {
		d.peers.Store(to) // groups may be others
		return nil
	}
	err := d.loop.do(func() {
		d.peers.Store(to)
		for _, l := range d.links {
			d.setPaths(l)
		}
	})
	if err != nil {
		return err
	}
	for some := range slices.Chunk(changes, changesAtOnce) {
		err := d.loop.ask(func() (refused error) {
			for _, ch := range some {
				if ch.to == nil {
					d.loop.card.RemovePeer(ch.card)
					if !ch.heard {
						d.loop.hello.RemovePeer(ch.card)
					}
					continue
				}
				p := d.cfg.peer(to, ch.to)
				p.Local = d.links[p.Port].mac
				if !ch.heard {
					d.loop.hello.SetPeer(p.Card, p.Port, p.Address)
				}
				refused = errors.Join(refused, d.loop.card.SetPeer(p))
			}
			return refused
		})
		if err != nil {
			return err
		}
	}
	_ = d.loop.do(func() { // the card knows them now
		if d.loop.post != nil {
			_ = routeDaemons(d.loop.card, d.cfg.Card, to) // it does
		}
		for _, l := range d.links {
			if l.plugged != nil {
				l.plugged.Remind()
			}
		}
	})
	d.placeJobs()
	for i, ch := range changes {
		if i == tellPeers {
			d.cfg.Logger.Info(fmt.Sprintf("and %d more peers", len(changes)-i))
			break
		}
		d.cfg.Logger.Info(ch.words, "card", ch.card)
	}
	return nil
}

// tellGroups logs peers whose groups have changed.
func (d *Daemon) tellGroups(from, to *cluster.File) {
	told := 0
	for i := range min(len(from.Peers), len(to.Peers)) {
		was, is := present(from, i), present(to, i)
		if was == nil || is == nil || slices.Equal(was.Groups, is.Groups) {
			continue
		}
		if told++; told > tellPeers {
			d.cfg.Logger.Info("and groups of more cards")
			return
		}
		groups := "all"
		if is.Groups != nil {
			groups = fmt.Sprint(is.Groups)
		}
		d.cfg.Logger.Info(fmt.Sprintf("groups that may live on card %d: %s; jobs that are there stay", i, groups),
			"card", i)
	}
}

// changes lists the differences between two peers files, in the order of the numbers.
func (d *Daemon) changes(from, to *cluster.File) (all []change) {
	for i := range max(len(from.Peers), len(to.Peers)) {
		card := uint16(i)
		if card == d.cfg.Card {
			continue
		}
		was, is := present(from, i), present(to, i)
		switch {
		case was == nil && is != nil:
			all = append(all, change{card, is, is.Found != "",
				fmt.Sprintf("card %d has joined: %s", card, where(to, is)) + foundAs(is)})
		case was != nil && is == nil:
			all = append(all, change{card, nil, was.Found != "",
				fmt.Sprintf("card %d has left: %s", card, where(from, was)) + foundAs(was)})
		case was != nil && cmp.Or(was.Key, from.Key) != cmp.Or(is.Key, to.Key):
			all = append(all, change{card, is, is.Found != "",
				fmt.Sprintf("card %d has another key", card) + foundAs(is)})
		case was != nil && (where(to, is) != where(from, was) || was.Iface != is.Iface):
			all = append(all, change{card, is, is.Found != "",
				fmt.Sprintf("card %d has moved: %s, before %s", card, where(to, is), where(from, was)) + foundAs(is)})
		case was != nil && was.Found != "" && is.Found == "":
			all = append(all, change{card, is, false,
				fmt.Sprintf("card %d is in the peers file now, where it was found", card)})
		}
	}
	return all
}

// foundAs describes a host that was found; "" for a listed one.
func foundAs(p *cluster.Peer) string {
	if p.Found == "" {
		return ""
	}
	return fmt.Sprintf(", %s, found on %s", p.Found, p.Iface)
}

// where returns the address of a peer that the encapsulation uses: IP for UDP, else Ethernet.
func where(f *cluster.File, p *cluster.Peer) string {
	if f.Encap == cluster.UDP {
		return p.Address.String()
	}
	return p.MAC.String()
}

// setPaths gives the addresses of the peers to an interface's port, if it sends datagrams. The
// card's thread calls it.
func (d *Daemon) setPaths(l *link) {
	if l.plugged == nil || l.config.UDP == nil {
		return
	}
	l.plugged.SetPeers(d.cfg.datagrams(d.peers.Load(), l.at).Peers)
}

// present returns the peer of a number; nil: no host has the number.
func present(f *cluster.File, i int) *cluster.Peer {
	if i < len(f.Peers) && !f.Peers[i].Absent {
		return &f.Peers[i]
	}
	return nil
}
