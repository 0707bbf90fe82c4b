package main

// This file runs everything beside the victim: the lab with its daemons, the groups, and the
// processes that compute or attack.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/funet/funet/ctl/lab"
	document "github.com/funet/funet/ctl/report"
	"github.com/funet/funet/ctl/scratch"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/tests/attack"
	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
)

// These are the numbers of users that exist nowhere else. The computing processes belong to the
// enemy.
const (
	victimUser  = 52001
	enemyUser   = 52666
	rowUser     = 52667 // the enemy in attacks with rows
	firstDozing = 52700
)

// rules returns rules that let the launcher, which is root, make large groups, and rowUser attach
// rows. All other users have what the daemon's default rule gives.
func rules() string {
	return fmt.Sprintf("rules: [{users: [0], contexts: 2048, jobs: 1024, connections: 1024},"+
		" {users: [%d], contexts: %d}, {gids: [1-2047]}]\n", rowUser, attack.RowContexts)
}

// bed is the lab and the daemons.
type bed struct {
	lab     *lab.Lab
	victims []int    // hosts of the victim's nodes 0 and 1
	sockets []string // of the victim's hosts
	all     []string // of all hosts
	enemies []int    // hosts of the enemy
	nextGID uint16
	quiet   []int           // connections to each daemon while only the victim is there
	ranks   *scratch.Folder // of rankFiles, for other users; nil: nothing asks for them
	profile *scratch.Folder // of the daemons' profile; nil: they have the default
	etcd    etcd
}

// rankFiles are the files that attacks by ranks need.
var rankFiles = []string{attack.RankProgram, attack.RankProvider}

// newBed starts the lab and the daemons.
func newBed(o *options) (b *bed, err error) {
	b = &bed{victims: []int{0, 1}, enemies: []int{0, 1}}
	l := lab.Options{Hosts: 2, MTU: o.MTU}
	if o.Hub != "" {
		l.Hosts, l.Topology, b.enemies = 4, lab.Topology(o.Hub), []int{2, 3}
	}
	if o.Etcd {
		l.Hosts, b.enemies = 4, []int{etcdHost}
	}
	if o.Gangs { // of four hosts that tell their time the first lies
		b.victims, b.enemies = []int{1, 2}, []int{0}
	}
	if b.lab, err = lab.Up(l); err != nil {
		return nil, err
	}
	d := lab.DaemonOptions{Program: o.Funid, XDP: o.XDP, Jumbo: o.MTU > lab.DefaultMTU, More: rules()}
	if o.direct() {
		d.More += "carriage: direct\n"
	}
	if o.Etcd {
		d.Peers, err = b.startEtcd()
	}
	if o.Gangs {
		var profile string
		profile, err = b.few()
		d.More += fmt.Sprintf("turns: together\nprofile: %s\n", profile)
	}
	if err == nil {
		err = b.lab.StartDaemons(d)
	}
	if err == nil {
		if b.all, err = b.lab.Sockets(); err == nil {
			for _, host := range b.victims {
				b.sockets = append(b.sockets, b.all[host])
			}
			if o.Etcd {
				err = errors.Join(b.findQuiet(b.all[quietHost]), b.allKnown())
			}
		}
	}
	if err == nil && o.noRanks == "" && (o.Card == cardOFI ||
		slices.ContainsFunc(o.attacks, func(a attack.Attack) bool { return a.Rank != "" })) {
		err = b.copyRanks(o.Ranks)
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// few writes a profile of cards with room for one group, and returns its path.
func (b *bed) few() (path string, err error) {
	p, err := hwprofiles.Load("native")
	if err != nil {
		return "", err
	}
	p.Name, p.Card.Contexts = "one-group", 1
	if b.profile, err = scratch.Make(os.TempDir(), "funet-share-"); err != nil {
		return "", err
	}
	text, err := p.Marshal()
	if err != nil {
		return "", err
	}
	path = filepath.Join(b.profile.Path(), "one-group.yaml")
	return path, os.WriteFile(path, text, 0o600)
}

// together waits until the victim's hosts take their turns together.
func (b *bed) together(ctx context.Context) error {
	return within(ctx, func() error {
		for host := range b.sockets {
			s, err := b.status(host)
			if err != nil {
				return err
			}
			if s.Turns == nil || !s.Turns.Coordinated {
				return fmt.Errorf("host %d does not take its turns together with others", b.victims[host])
			}
		}
		return nil
	})
}

// copyRanks copies the files for attacks by ranks to where other users may read them.
func (b *bed) copyRanks(from string) (err error) {
	if b.ranks, err = scratch.Make(os.TempDir(), "funet-share-"); err != nil {
		return err
	}
	err = os.Chmod(b.ranks.Path(), 0o755)
	for _, name := range rankFiles {
		text, failed := os.ReadFile(filepath.Join(from, name))
		to := filepath.Join(b.ranks.Path(), name)
		// whatever the umask is
		if err = errors.Join(err, failed, os.WriteFile(to, text, 0o755), os.Chmod(to, 0o755)); err != nil {
			return fmt.Errorf("copying %s for attacks by ranks: %w", name, err)
		}
	}
	return nil
}

// close ends the lab and everything in it at once. No process is left that would wait for a
// message.
func (b *bed) close() error {
	err := b.lab.Close()
	for _, f := range []*scratch.Folder{b.ranks, b.profile, b.etcd.data} {
		if f != nil {
			err = errors.Join(err, f.Remove())
		}
	}
	return err
}

// group is a job on both daemons.
type group struct {
	attack.Group
	jobs []*client.Connection
}

// found makes a group whose nodes are on the given cards. It uses the GIDs in turn.
func (b *bed) found(cards []uint16, direct bool) (*group, error) {
	return b.foundAt(b.sockets, cards, direct)
}

// foundAt does that at some of the daemons.
func (b *bed) foundAt(sockets []string, cards []uint16, direct bool) (g *group, err error) {
	b.nextGID = b.nextGID%arctic.MaxGID + 1
	token := attach.NewToken()
	g = &group{Group: attack.Group{GID: b.nextGID, Token: token.Text()}}
	for _, socket := range sockets {
		k, err := client.Dial(socket)
		if err == nil {
			g.jobs = append(g.jobs, k)
			_, err = k.Job(attach.JobRequest{GID: g.GID, Direct: direct, Token: token, Cards: cards})
		}
		if err != nil {
			g.end()
			return nil, fmt.Errorf("making group %d at %s: %w", g.GID, socket, err)
		}
	}
	return g, nil
}

// end ends the group.
func (g *group) end() {
	for _, k := range g.jobs {
		k.Close()
	}
}

// beside starts processes beside the victim. It returns them as a company, whose method end ends
// them.
type beside func(context.Context) (*company, error)

// company is everything that runs beside the victim.
type company struct {
	b         *bed
	processes []*process // those that attack or compute
	others    []*process
	groups    []*group
}

// burners starts a computing process on each host.
func (b *bed) burners(ctx context.Context) (_ *company, err error) {
	c := &company{b: b}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.end(ctx))
		}
	}()
	for _, host := range b.enemies {
		p, err := start(b.lab, host, "burner", roleBurner, enemyUser, false, nil)
		if err != nil {
			return nil, err
		}
		c.processes = append(c.processes, p)
	}
	return c, c.ready(ctx)
}

// nobody starts nothing.
func (b *bed) nobody(context.Context) (*company, error) { return &company{b: b}, nil }

// attackers starts a process of the attack on each host, and the sleeping contexts that it asks
// for.
func (b *bed) attackers(a attack.Attack) beside {
	return func(ctx context.Context) (_ *company, err error) {
		c := &company{b: b}
		defer func() {
			if err != nil {
				err = errors.Join(err, c.end(ctx))
			}
		}()
		for n := range a.Sleepers {
			g, err := c.found(b.sockets, attack.SleepersCards(), false)
			if err != nil {
				return nil, err
			}
			if err := c.play(&c.others, attack.Sleepers, uint32(firstDozing+n), g); err != nil {
				return nil, err
			}
		}
		var groups []attack.Group
		for range a.Groups {
			sockets := b.sockets
			if a.Hosts > len(sockets) {
				sockets = b.all
			}
			g, err := c.found(sockets, a.Cards(), a.Direct)
			if err != nil {
				return nil, err
			}
			groups = append(groups, g)
		}
		user := uint32(enemyUser)
		if a.Row {
			user = rowUser
		}
		if a.Foreign {
			user = 0
		}
		if err := c.play(&c.processes, a.Name, user, groups...); err != nil {
			return nil, err
		}
		return c, c.ready(ctx)
	}
}

// found makes a group that ends with the company.
func (c *company) found(sockets []string, cards []uint16, direct bool) (attack.Group, error) {
	g, err := c.b.foundAt(sockets, cards, direct)
	if err != nil {
		return attack.Group{}, err
	}
	c.groups = append(c.groups, g)
	return g.Group, nil
}

// play starts a process on each host.
func (c *company) play(to *[]*process, name string, user uint32, groups ...attack.Group) error {
	config := attack.Config{Attack: name, Groups: groups, Etcd: c.b.etcd.endpoint, Prefix: etcdPrefix}
	for _, h := range c.b.lab.Hosts() {
		at := h.Interfaces[0]
		config.Places = append(config.Places, attack.Place{Address: at.Addr.Addr().String(), MAC: at.MAC.String()})
	}
	if c.b.ranks != nil {
		config.Ranks = c.b.ranks.Path()
	}
	for _, host := range c.b.enemies {
		config.Host, config.Socket = host, c.b.all[host]
		p, err := start(c.b.lab, host, name, roleAttack, user, false, config)
		if err != nil {
			return err
		}
		*to = append(*to, p)
	}
	return nil
}

// ready waits until all processes have begun.
func (c *company) ready(ctx context.Context) error {
	for _, p := range append(c.others, c.processes...) {
		if _, err := p.Next(ctx, "ready", patience); err != nil {
			return err
		}
	}
	return nil
}

// did returns how much the attack has done so far.
func (c *company) did() (n int64) {
	for _, p := range c.processes {
		n += p.did.Load()
	}
	return n
}

// alive returns an error that names a process of the company that has ended too early.
func (c *company) alive() error {
	for _, p := range c.processes {
		if !p.Running() {
			return fmt.Errorf("%s ended: %v: %s", p.Name, p.Err, p.Complaints())
		}
	}
	return nil
}

// end ends the company, and waits until the daemons have forgotten its connections.
func (c *company) end(ctx context.Context) error {
	killAll(append(c.processes, c.others...))
	for _, g := range c.groups {
		g.end()
	}
	if c.b.quiet == nil || ctx.Err() != nil {
		return nil
	}
	for host := range c.b.sockets {
		err := within(ctx, func() error {
			n, err := c.b.connections(host)
			if err == nil && n > c.b.quiet[host] {
				err = fmt.Errorf("the daemon of host %d has %d connections after an attack, not %d", host, n,
					c.b.quiet[host])
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// within repeats something until it succeeds, for patience at most.
func within(ctx context.Context, do func() error) error {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := do()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %v: %w", patience, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// connections asks a daemon for the number of its connections.
func (b *bed) connections(host int) (int, error) {
	s, err := b.status(host)
	return s.Connections, err
}

// status asks a daemon for its status.
func (b *bed) status(host int) (s document.Status, err error) {
	k, err := client.Dial(b.sockets[host])
	if err != nil {
		return s, err
	}
	defer k.Close()
	err = k.Status(&s)
	return s, err
}
