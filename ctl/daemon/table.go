package daemon

// This file follows a cluster's table in etcd (package registry), which stands in place of a peers
// file, and takes GIDs there for new jobs.
//
// What the table says is taken as what a changed peers file says (members.go), with two exceptions
// that keep jobs alive. A host that the table no longer has, or has elsewhere, stays where it was
// as long as its card answers hellos there: its lease may have ended while only etcd was out of
// reach. And a host with which a job shares a key keeps that key until the job ends.
//
// A job whose GID another job has taken meanwhile goes on, and no further process may join it.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/registry"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/port/hello"
)

const (
	// takeWithin is how long a new job waits for etcd.
	takeWithin = 3 * time.Second
	// takeCost is what a user pays for the work of etcd on a job, however long that takes. So one
	// user cannot keep etcd busy.
	takeCost = 2 * time.Millisecond
	// leaveWithin is how long the end of the daemon waits for etcd.
	leaveWithin = 500 * time.Millisecond
	// waitingSign is how long systemd believes that a funid which waits for etcd is alive: some
	// times as long as Join tries.
	waitingSign = time.Minute
	// takeTries is how many GIDs are tried for a job that does not say which.
	takeTries = 16
	// askedAtOnce is how many cards that the table has lost are asked at a time.
	askedAtOnce = 8
)

// JoinTable makes this host a member of the table that the configuration names, and takes the
// peers from there. Without such a table it does nothing. It waits for etcd until ctx ends. Call
// it before Open, which leaves the table when it fails. Errors wrap config.ErrConfig, or are those
// of package registry.
func JoinTable(ctx context.Context, cfg *Config) error {
	o, err := cfg.tableOptions()
	if err != nil || o == nil {
		return err
	}
	// Another funid of this host would lose its number to this one.
	if other, err := net.Dial(attach.Network, cfg.Socket); err == nil {
		other.Close()
		return fmt.Errorf("starting funid: socket %s: %w: another funid serves it; stop that one, or choose another socket",
			cfg.Socket, ErrSocket)
	}
	if cfg.Table, err = cfg.joined(ctx, *o); err != nil {
		return fmt.Errorf("starting funid: %w", err)
	}
	if cfg.Peers, err = cfg.fromTable(cfg.Table.Peers()); err != nil {
		return errors.Join(fmt.Errorf("starting funid: %w", err), leave(cfg.Table, false))
	}
	return nil
}

// joined joins a table, and waits as long as no etcd answers: after a power failure hosts and etcd
// start in any order. The daemon does not start before, so that direct jobs of one before it, which
// the helper has, find those of the other hosts.
func (c *Config) joined(ctx context.Context, o registry.Options) (*registry.Member, error) {
	for said := false; ; said = true {
		m, err := registry.Join(ctx, o)
		if ctx.Err() != nil || !errors.Is(err, registry.ErrSilent) {
			if said && err == nil {
				c.Logger.Info(fmt.Sprintf("%v: answers; funid starts", c.Etcd))
			}
			return m, err
		}
		if !said {
			c.Logger.Warn(fmt.Sprintf("starting funid: %v; it waits, and starts when etcd answers", err))
		}
		// systemd does not give up meanwhile (sd_notify(3)).
		notify(fmt.Sprintf("STATUS=waiting for %v\nEXTEND_TIMEOUT_USEC=%d", c.Etcd, waitingSign.Microseconds()))
	}
}

// leave leaves a table, within leaveWithin.
func leave(table *registry.Member, keep bool) error {
	ctx, stop := context.WithTimeout(context.Background(), leaveWithin)
	defer stop()
	return table.Leave(ctx, keep)
}

// LookAtTable takes the peers from the table that the configuration names, without joining it.
func LookAtTable(ctx context.Context, cfg *Config) error {
	o, err := cfg.tableOptions()
	if err != nil || o == nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, takeWithin)
	defer stop()
	p, err := registry.Look(ctx, *o)
	if err == nil {
		cfg.Peers, err = cfg.fromTable(p)
	}
	return err
}

// tableOptions describes this host for the table; nil: there is no table.
func (c *Config) tableOptions() (*registry.Options, error) {
	bad := func(format string, args ...any) (*registry.Options, error) {
		return nil, fmt.Errorf("peers %v: %s: %w", c.Etcd, fmt.Sprintf(format, args...), config.ErrConfig)
	}
	switch {
	case c.Etcd == nil:
		return nil, nil
	case c.FindCard:
		return bad("which card is this host? Give each host a number of its own, such as card: 0")
	case len(c.Interfaces) == 0:
		return bad("which interface leads to the others? Name it, such as interfaces: [eth1]")
	case c.Discover != "":
		return bad("discover %q finds hosts as well; use one of the two", c.Discover)
	}
	i, err := net.InterfaceByName(c.Interfaces[0])
	if err != nil {
		return bad("interface %s: %v", c.Interfaces[0], err)
	}
	addresses, err := i.Addrs()
	if err != nil {
		return nil, fmt.Errorf("reading the addresses of %s: %w", i.Name, err)
	}
	own := registry.Host{Node: c.Card, Name: hostName(), MAC: i.HardwareAddr, Iface: i.Name,
		Address: ReachedAt(addresses), Port: c.Port}
	if c.Encap != nil {
		own.Encap = *c.Encap
	}
	switch {
	case own.Encap == cluster.UDP && !own.Address.IsValid():
		return bad("interface %s has no IP address that other hosts reach, which encap: udp needs", i.Name)
	case own.Encap != cluster.UDP && own.MAC == nil:
		return bad("interface %s has no Ethernet address", i.Name)
	}
	c.defaults()
	return &registry.Options{Etcd: c.Etcd, Own: own, Interfaces: c.Interfaces,
		Log: func(line string) { c.Logger.Warn(line) }}, nil
}

// fromTable returns the peers file that a table stands for, with the key of its epoch.
func (c *Config) fromTable(p *registry.Peers) (*cluster.File, error) {
	if !strings.Contains(c.Key, config.KeyEpoch) {
		return p.File, nil
	}
	if p.Epoch == nil {
		return nil,
			fmt.Errorf("key %s, and %v says no epoch; `etcdctl put %sepoch '{\"number\":1,\"identity\":\"...\"}'` does: %w",
				c.Key, c.Etcd, c.Etcd.Prefix, config.ErrConfig)
	}
	p.File.Key = strings.ReplaceAll(c.Key, config.KeyEpoch, strconv.Itoa(p.Epoch.Number))
	k, err := c.keyRing().Load(p.File.Key)
	if err != nil {
		return nil, fmt.Errorf("epoch %d: %w: %w", p.Epoch.Number, err, config.ErrConfig)
	}
	if is := identity(k.Identity()); is != p.Epoch.Identity {
		return nil,
			fmt.Errorf("epoch %d: %s is key %s, and the epoch is that of key %s; copy the other hosts' file: %w",
				p.Epoch.Number, p.File.Key, is, p.Epoch.Identity, config.ErrConfig)
	}
	return p.File, nil
}

// tabled is what the goroutine that follows the peers knows of the table.
type tabled struct {
	asked   map[uint16]bool // cards that are being asked
	gone    map[uint16]bool // cards that are not in the table, and did not answer
	answers chan answer
	taken   time.Time // when the table was last taken
	refused []string  // that the log has
	told    time.Time // when the log was last told of refused keys
	wrong   string    // why the table could not be taken; the log has it
}

type answer struct {
	card  uint16
	there bool
}

// news returns the events of the table; nil: there is none.
func (d *Daemon) news() <-chan struct{} {
	if d.cfg.Table == nil {
		return nil
	}
	return d.cfg.Table.News()
}

// followTable takes the table as it is now, at most once each lookPeers unless again.
func (d *Daemon) followTable(t *tabled, again bool) {
	if d.cfg.Table == nil || !again && time.Since(t.taken) < lookPeers {
		return // the next tick does it
	}
	t.taken = time.Now()
	d.tellLost()
	p := d.cfg.Table.Peers()
	if !slices.Equal(p.Refused, t.refused) && time.Since(t.told) > tellEvery {
		t.refused, t.told = p.Refused, time.Now()
		for _, why := range p.Refused {
			d.cfg.Logger.Warn("not taken from the table: " + why)
		}
	}
	to, err := d.cfg.fromTable(p)
	if err == nil {
		held := d.hold(t, to)
		if err = d.takePeers(d.cfg.Etcd.String(), to); err == nil {
			d.askHeld(t, held)
		}
	}
	wrong := ""
	if err != nil {
		wrong = err.Error()
	}
	if wrong != "" && wrong != t.wrong && !errors.Is(err, ErrEnded) {
		d.cfg.Logger.Warn(fmt.Sprintf("the table in etcd has changed: %v; the peers stay as they were", err))
	}
	t.wrong = wrong
}

// hold keeps hosts where they were that answer there, and keys that jobs use. It returns the hosts
// that are to be asked.
func (d *Daemon) hold(t *tabled, to *cluster.File) (held []uint16) {
	from := d.members.file
	places := map[string]bool{}
	for i := range to.Peers {
		if p := present(to, i); p != nil {
			places[where(to, p)] = true
		}
	}
	used := d.cardsInUse()
	contested := map[uint16]string{}
	for i := range from.Peers {
		card, was := uint16(i), present(from, i)
		if was == nil || card == d.cfg.Card {
			continue
		}
		is := present(to, i)
		old := *was
		if used[card] {
			old.Key = d.cfg.keyOf(from, was)
		}
		switch {
		case is != nil && where(to, is) == where(from, was) && is.Iface == was.Iface:
			delete(t.gone, card)
			if used[card] && old.Key != d.cfg.keyOf(to, is) {
				is.Key = old.Key
			}
			continue
		case t.gone[card] || is == nil && places[where(from, was)]:
			continue
		case is != nil:
			contested[card] = fmt.Sprintf("number %d is that of a host at %s, and the one at %s still answers",
				card, where(to, is), where(from, was))
		}
		for len(to.Peers) <= i {
			to.Peers = append(to.Peers, cluster.Peer{Node: uint16(len(to.Peers)), Absent: true})
		}
		to.Peers[i] = old
		held = append(held, card)
	}
	for card := range t.gone {
		if present(from, int(card)) == nil { // it was taken out
			delete(t.gone, card)
		}
	}
	d.mu.Lock()
	d.contested = contested
	d.mu.Unlock()
	return held
}

// cardsInUse returns the cards on which jobs of this host have nodes.
func (d *Daemon) cardsInUse() map[uint16]bool {
	d.mu.Lock()
	jobs := slices.Collect(maps.Values(d.jobs))
	d.mu.Unlock()
	used := map[uint16]bool{}
	for _, j := range jobs {
		for _, card := range j.cards { // they never change
			used[card] = true
		}
	}
	return used
}

// askHeld asks some cards that the table does not have whether they are there.
func (d *Daemon) askHeld(t *tabled, held []uint16) {
	for _, card := range held {
		if len(t.asked) >= askedAtOnce {
			return
		}
		if t.asked[card] {
			continue
		}
		var err error
		ended := d.loop.do(func() {
			p, ok := d.loop.hello.Peer(card)
			if !ok {
				err = attach.ErrRoute
				return
			}
			err = d.loop.hello.Ask(d.loop.clock(), p.Port, p.Address, card, func(r hello.Reply) {
				// There is room for all.
				t.answers <- answer{card, r.Answered && r.Said.Card == card}
			})
		})
		if ended != nil || errors.Is(err, hello.ErrBusy) {
			return // it is asked in the next round
		}
		if t.asked[card] = true; err != nil {
			t.answers <- answer{card, false}
		}
	}
}

// answered takes the answer of a card that was asked.
func (d *Daemon) answered(t *tabled, a answer) {
	delete(t.asked, a.card)
	if !a.there {
		t.gone[a.card] = true
		d.followTable(t, true)
	}
}

// tellLost tells jobs that their GIDs are others' now, or theirs again.
func (d *Daemon) tellLost() {
	lost := d.cfg.Table.Lost()
	var lines []func()
	d.mu.Lock()
	for gid, j := range d.jobs {
		why := lost[gid]
		if (why != nil) == (j.lost != nil) {
			continue
		}
		j.lost = why
		line := fmt.Sprintf("job %d has its GID again", gid)
		if why != nil {
			line = fmt.Sprintf("job %d: %v; its processes go on, and no other may join it", gid, why)
		}
		lines = append(lines, func() { d.userLine(j.peer, line, "job", gid) })
	}
	d.mu.Unlock()
	for _, tell := range lines {
		tell()
	}
}

// uncontested refuses a job with a node on a card whose number two hosts have.
func (d *Daemon) uncontested(cards []uint16) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, card := range cards {
		if why := d.contested[card]; why != "" {
			return fmt.Errorf("card %d: %s: %w", card, why, attach.ErrRoute)
		}
	}
	return nil
}

// enlist takes the job's GID in the cluster's table, if there is one. Other requests of the account
// go on while it waits for etcd. If the job does not say which GID, others are tried.
func (c *connection) enlist(j *job, gid uint16, lives *places) error {
	d := c.d
	if d.cfg.Table == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), takeWithin)
	defer stop()
	go func() {
		select {
		case <-d.quit:
			stop()
		case <-ctx.Done():
		}
	}()
	for try := 1; ; try++ {
		c.spent += takeCost
		c.exit()
		err := d.cfg.Table.Take(ctx, j.gid, registry.ClaimOf(j.gid, j.token, c.peer.uid, j.cards, d.cfg.Card))
		if gone := c.enter(); gone != nil && err == nil {
			d.cfg.Table.Release(j.gid)
			err = gone
		}
		if err == nil {
			return nil
		}
		d.mu.Lock()
		delete(d.jobs, j.gid)
		d.depart(j.gid)
		d.mu.Unlock()
		taken := errors.Is(err, registry.ErrTaken)
		switch {
		case taken && gid == 0 && try < takeTries:
			if err := d.reserve(j, 0, lives); err != nil {
				return err
			}
			continue
		case taken:
			return fmt.Errorf("making a job: %w: %w", err, attach.ErrTaken)
		}
		return fmt.Errorf("making a job: %w: %w", err, attach.ErrCluster)
	}
}

// takenElsewhere reports whether another host's job is known to have a GID.
func (d *Daemon) takenElsewhere(j *job, gid uint16) bool {
	return d.cfg.Table != nil && d.cfg.Table.Taken(gid, registry.Fingerprint(gid, j.token))
}

// delist gives the GID of a job back, unless the next daemon is to have the job.
func (d *Daemon) delist(j *job) {
	if d.cfg.Table != nil && !(j.direct && d.stopping.Load()) {
		d.cfg.Table.Release(j.gid)
	}
}

// tableStatus describes the table; nil: there is none.
func (d *Daemon) tableStatus() *report.TableStatus {
	if d.cfg.Table == nil {
		return nil
	}
	s := d.cfg.Table.State()
	r := &report.TableStatus{Name: d.cfg.Etcd.String(), Answers: s.Up, Since: time.Since(s.Since).Seconds(),
		Lost: []uint16{}}
	if s.Why != nil {
		r.Why = s.Why.Error()
	}
	for i := range d.peers.Load().Peers {
		if present(d.peers.Load(), i) != nil {
			r.Hosts++
		}
	}
	for _, gid := range slices.Sorted(maps.Keys(d.cfg.Table.Lost())) {
		if len(r.Lost) < mostAbsent {
			r.Lost = append(r.Lost, gid)
		}
	}
	return r
}
