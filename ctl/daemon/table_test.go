package daemon_test

// This file holds the rules of a cluster whose table is in etcd (table.go), with a real etcd and
// real frames.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/tests/etcd"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/keyfile"
)

// inTable starts a host's daemon with the table that etcd has.
func (b *bed) inTable(s *etcd.Server, host int, log *journal, tune func(*daemon.Config)) *running {
	b.t.Helper()
	return b.start(host, func(c *daemon.Config) {
		if err := b.join(s, host, log, c, tune); err != nil {
			b.t.Fatal(err)
		}
	})
}

// join joins the table with a host's configuration, which tune changes.
func (b *bed) join(s *etcd.Server, host int, log *journal, c *daemon.Config, tune func(*daemon.Config)) error {
	if err := b.configure(s, host, log, c, tune); err != nil {
		return err
	}
	return b.lab.Do(host, func() error { return daemon.JoinTable(b.t.Context(), c) })
}

// configure has a host's configuration name the table, and tune change it.
func (b *bed) configure(s *etcd.Server, host int, log *journal, c *daemon.Config, tune func(*daemon.Config)) error {
	own, encap := c.Peers.Peers[host], c.Peers.Encap
	c.Peers, c.Encap, c.Log = nil, &encap, log.add
	c.Etcd = &config.Etcd{Endpoints: []string{s.Endpoint}, Prefix: "/lab/", Lease: 2 * time.Second}
	return b.lab.Do(host, func() error {
		all, err := net.Interfaces()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(i net.Interface) bool {
			at, err := i.Addrs()
			return err == nil && (encap == cluster.UDP && daemon.ReachedAt(at) == own.Address ||
				encap != cluster.UDP && slices.Equal(i.HardwareAddr, own.MAC))
		})
		c.Interfaces = []string{all[i].Name}
		if tune != nil {
			tune(c)
		}
		return nil
	})
}

func statusOf(t *testing.T, d *running) report.Status {
	t.Helper()
	s, err := askStatusOn(d.asker(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// paired starts an etcd and two daemons in its table, and makes a job of two nodes on them.
func paired(t *testing.T) (s *etcd.Server, logs *[2]journal, daemons []*running, nodes []*client) {
	t.Helper()
	b := newBed(t)
	s, logs = etcd.Start(t), new([2]journal)
	daemons = []*running{b.inTable(s, 0, &logs[0], nil), b.inTable(s, 1, &logs[1], nil)}
	logs[0].says(t, "card 1 has joined")
	_, nodes = group(t, daemons, 0, 1)
	return s, logs, daemons, nodes
}

// exchange has the two nodes of a job send each other a word.
func exchange(t *testing.T, nodes []*client) {
	t.Helper()
	for from, to := range []int{1, 0} {
		nodes[from].send(uint16(to), 77)
		if _, word := nodes[to].receive(); word != 77 {
			t.Fatalf("node %d received %d", to, word)
		}
	}
}

// Rule: hosts whose frames travel in datagrams find each other's addresses in the table.
func TestDatagramsByTable(t *testing.T) {
	b := newBedOf(t, lab.Options{Hosts: 2, Topology: lab.Router})
	s, logs := etcd.Start(t), new([2]journal)
	const secret = 0xbadcab1e
	_, seen := b.listen(secret)
	daemons := []*running{b.inTable(s, 0, &logs[0], nil), b.inTable(s, 1, &logs[1], nil)}
	logs[0].says(t, "card 1 has joined: "+b.address(1))
	at := s.Keys("/lab/hosts/1")["/lab/hosts/1"]
	if !strings.Contains(at, b.address(1)) || !strings.Contains(at, `"udp"`) {
		t.Errorf("host 1 is in the table as %s", at)
	}
	_, nodes := group(t, daemons, 0, 1)
	const messages = 20
	for i := range messages {
		from, to := i%2, 1-i%2
		nodes[from].send(uint16(to), secret)
		if source, word := nodes[to].receive(); source != uint16(from) || word != secret {
			t.Fatalf("message %d: got %x from node %d", i, word, source)
		}
	}
	eventually(t, "the router has seen the datagrams", func() bool { return seen.Load() >= messages })
	daemons[1].stop(t)
	logs[0].says(t, "card 1 has left: "+b.address(1))
}

// Rule: while the member that leads etcd is killed and comes back, no job ends, messages pass, and
// jobs are made: each with a GID of its own.
func TestLeaderOfEtcdKilled(t *testing.T) {
	long.Test(t)
	b := newBed(t)
	servers := etcd.Members(t, 3)
	const jobs, more = 20, 5
	tune := func(c *daemon.Config) {
		c.Etcd.Lease = 10 * time.Second
		for _, s := range servers[1:] {
			c.Etcd.Endpoints = append(c.Etcd.Endpoints, s.Endpoint)
		}
		c.Rules = []config.Rule{{Contexts: 4 * jobs, Jobs: 4 * jobs, Connections: 20 * jobs, Bytes: 1 << 30}}
	}
	var logs [2]journal
	daemons := []*running{b.inTable(servers[0], 0, &logs[0], tune), b.inTable(servers[0], 1, &logs[1], tune)}
	logs[0].says(t, "card 1 has joined")
	var all [][]*client
	gids := map[uint16]bool{}
	for range jobs {
		gid, _, nodes := numbered(t, daemons, 0, 1)
		gids[gid] = true
		all = append(all, nodes)
	}
	start := func() {
		t.Helper()
		for range more {
			until(t, "a job is made", func() bool {
				k := dial(t, daemons[0].socket)
				gid, err := k.Job(attach.JobRequest{Token: attach.NewToken(), Cards: []uint16{0, 1}})
				if err != nil {
					if !errors.Is(err, attach.ErrCluster) {
						t.Fatal(err)
					}
					k.Close()
					return false
				}
				if gids[gid] {
					t.Fatalf("GID %d is that of two jobs", gid)
				}
				gids[gid] = true
				return true
			})
		}
		for _, nodes := range all {
			exchange(t, nodes)
		}
	}
	leader := servers[slices.IndexFunc(servers, (*etcd.Server).Leads)]
	leader.Kill()
	start()
	leader.Restart()
	start()
	until(t, "all groups are in etcd", func() bool { return len(leader.Keys("/lab/groups/")) == 2*jobs+2*more })
}

// Rule: hosts find each other through the table. etcd killed, restarted, compacted, restored, with
// an empty folder: no job ends, and none is admitted twice. While etcd is away a new job is refused
// in one line, and everything that runs goes on. When a lease ends under a living job, its host
// stays.
func TestClusterInEtcd(t *testing.T) {
	long.Test(t)
	b := newBed(t)
	s := etcd.Start(t)
	var logs [2]journal
	const jobs = 100
	many := func(c *daemon.Config) {
		c.Rules = []config.Rule{{Contexts: 2 * jobs, Jobs: 2 * jobs, Connections: 5 * jobs, Bytes: 1 << 30}}
	}
	daemons := []*running{b.inTable(s, 0, &logs[0], many), b.inTable(s, 1, &logs[1], many)}
	logs[0].says(t, "card 1 has joined")
	var all [][]*client
	gids := map[uint16]bool{}
	for i := range jobs {
		if i == jobs/2 {
			s.Kill()
			s.Copy()
			s.Restart()
			for _, d := range daemons {
				until(t, "etcd is back", func() bool { return statusOf(t, d).Table.Answers })
			}
		}
		gid, _, nodes := numbered(t, daemons, 0, 1)
		gids[gid] = true
		all = append(all, nodes)
	}
	if len(gids) != jobs {
		t.Fatalf("%d jobs have %d GIDs", jobs, len(gids))
	}
	check := func(when string) {
		t.Helper()
		for _, nodes := range all {
			exchange(t, nodes)
		}
		until(t, "all groups are in etcd "+when, func() bool { return len(s.Keys("/lab/groups/")) == 2*jobs })
		for gid := range gids {
			until(t, "a GID is refused "+when, func() bool {
				k := dial(t, daemons[1].socket)
				defer k.Close()
				_, err := k.Job(attach.JobRequest{GID: gid, Token: attach.NewToken(), Cards: []uint16{1, 0}})
				if !errors.Is(err, attach.ErrTaken) && !errors.Is(err, attach.ErrCluster) {
					t.Fatalf("%s: GID %d for another job: %v", when, gid, err)
				}
				return errors.Is(err, attach.ErrTaken)
			})
		}
	}
	check("at first")
	s.Compact()
	check("compacted")
	s.Kill()
	logs[0].says(t, "what runs goes on")
	logs[1].says(t, "what runs goes on")
	for _, nodes := range all {
		exchange(t, nodes)
	}
	second := b.config(0) // another funid of the host takes nothing from the first
	if err := b.join(s, 0, new(journal), &second, nil); !errors.Is(err, daemon.ErrSocket) {
		t.Errorf("a second funid: %v", err)
	}
	k := dial(t, daemons[0].socket)
	_, err := k.Job(attach.JobRequest{Token: attach.NewToken(), Cards: []uint16{0, 1}})
	if !errors.Is(err, attach.ErrCluster) || strings.Contains(err.Error(), "\n") {
		t.Errorf("a new job without etcd: %v", err)
	}
	s.Restart()
	logs[0].says(t, "answers")
	logs[1].says(t, "answers")
	check("killed and restarted")
	s.Kill()
	s.Restore()
	s.Restart()
	logs[0].says(t, "was restored from a copy")
	logs[1].says(t, "was restored from a copy")
	check("restored")
	s.Kill()
	s.Forget()
	s.Restart()
	until(t, "the hosts are back", func() bool { return len(s.Keys("/lab/hosts/")) == 2 })
	check("with an empty folder")
	// The lease of host 1 ends, as when only that host cannot reach etcd.
	r, err := s.Client.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range r.Leases {
		if _, err := s.Client.Revoke(t.Context(), l.ID); err != nil {
			t.Fatal(err)
		}
	}
	check("leases ended")
	for _, log := range []*journal{&logs[0], &logs[1]} {
		for _, line := range log.all() {
			if strings.Contains(line, "has left") {
				t.Errorf("a living host has left: %s", line)
			}
		}
	}
	// A host that is stopped goes.
	daemons[1].stop(t)
	logs[0].says(t, "card 1 has left")
}

// Rule: a host that lies to etcd ends no job and takes no place of others: the daemon holds a host
// where it answers, tells what is wrong with its key's name, and refuses jobs with a number that
// two hosts have.
func TestLiesInEtcd(t *testing.T) {
	s, logs, daemons, nodes := paired(t)
	exchange(t, nodes)
	host := func(n int) string {
		return fmt.Sprintf(`{"host":"liar","life":"0123456789abcdef","iface":"eth1","mac":"02:66:66:66:66:%02x","encap":"ethernet"}`, n)
	}
	s.Put("/lab/hosts/2", "garbage")
	logs[0].says(t, "hosts/2")
	s.Put("/lab/hosts/1", host(1))
	logs[1].says(t, "another host has this number")
	until(t, "host 0 knows that number 1 is contested", func() bool {
		k := dial(t, daemons[0].socket)
		defer k.Close()
		_, err := k.Job(attach.JobRequest{Token: attach.NewToken(), Cards: []uint16{0, 1}})
		return errors.Is(err, attach.ErrRoute)
	})
	exchange(t, nodes)
	s.Delete("/lab/hosts/1")
	logs[1].says(t, "answers")
	exchange(t, nodes)
	until(t, "jobs are made again", func() bool {
		k := dial(t, daemons[0].socket)
		defer k.Close()
		_, err := k.Job(attach.JobRequest{Token: attach.NewToken(), Cards: []uint16{0, 1}})
		return err == nil
	})
}

// Rule: a daemon that cannot join says why in one line: no number, no etcd, another host's number.
func TestJoinRefuses(t *testing.T) {
	b := newBed(t)
	s := etcd.Start(t)
	var log journal
	b.inTable(s, 0, &log, nil)
	for want, tune := range map[string]func(*daemon.Config){
		"Give each host a number of its own": func(c *daemon.Config) { c.FindCard = true },
		"which interface":                    func(c *daemon.Config) { c.Interfaces = nil },
		"use one of the two":                 func(c *daemon.Config) { c.Discover = "lab" },
		"number 0 is that of host":           func(c *daemon.Config) { c.Card = 0 },
		"says no epoch":                      func(c *daemon.Config) { c.Key = "/nowhere/key-{epoch}" },
	} {
		c := b.config(1)
		err := b.join(s, 1, &log, &c, tune)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Rule: a daemon that starts while no etcd answers says so in one line, and starts when one does.
// It gives up at once when it is to end.
func TestJoinWaits(t *testing.T) {
	long.Test(t)
	b := newBed(t)
	s := etcd.Start(t)
	s.Kill()
	var log journal
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	join := func(host int) <-chan error {
		c, ended := b.config(host), make(chan error, 1)
		if err := b.configure(s, host, &log, &c, nil); err != nil {
			t.Fatal(err)
		}
		go func() {
			err := b.lab.Do(host, func() error { return daemon.JoinTable(ctx, &c) })
			if err == nil {
				err = c.Table.Leave(t.Context(), false)
			}
			ended <- err
		}()
		return ended
	}
	first := join(0)
	log.says(t, "it waits, and starts when etcd answers")
	s.Restart()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	log.says(t, "answers; funid starts")
	s.Kill()
	second := join(1)
	log.says(t, "it waits, and starts when etcd answers")
	stop()
	if err := <-second; err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("told to end: %v", err)
	}
	if n := len(log.all()); n > 0 {
		t.Errorf("%d lines besides: %v", n, log.all())
	}
}

// Rule: the table tells which key is in use. A new epoch holds for hosts that no job of this host
// uses; a job keeps its key until it ends, and loses nothing. An epoch whose file is missing, or is
// another key, changes nothing and is told.
func TestEpochsInEtcd(t *testing.T) {
	long.Test(t)
	b := newBed(t)
	s := etcd.Start(t)
	identities := map[int]string{}
	for epoch := 1; epoch <= 2; epoch++ {
		k, err := keyfile.New(filepath.Join(b.dir, fmt.Sprintf("key-%d", epoch)))
		if err != nil {
			t.Fatal(err)
		}
		identities[epoch] = fmt.Sprintf("%08x", k.Identity())
	}
	epoch := func(n int, identity string) {
		s.Put("/lab/epoch", fmt.Sprintf(`{"number":%d,"identity":%q}`, n, identity))
	}
	epoch(1, identities[1])
	var logs [2]journal
	keyed := func(c *daemon.Config) { c.Key = filepath.Join(b.dir, "key-{epoch}") }
	daemons := []*running{b.inTable(s, 0, &logs[0], keyed), b.inTable(s, 1, &logs[1], keyed)}
	logs[0].says(t, "card 1 has joined")
	owners, nodes := group(t, daemons, 0, 1)
	exchange(t, nodes)
	epoch(3, identities[1])
	logs[0].says(t, "the peers stay as they were")
	epoch(2, identities[1])
	logs[0].says(t, "copy the other hosts' file")
	epoch(2, identities[2])
	for _, d := range daemons {
		until(t, "the new key is that of hosts to come", func() bool {
			return slices.ContainsFunc(statusOf(t, d).Keys,
				func(k report.KeyStatus) bool { return k.Identity == identities[2] })
		})
		for _, k := range statusOf(t, d).Keys {
			if k.Identity == identities[1] && k.Peers != 1 {
				t.Errorf("the job's key: %+v", k)
			}
		}
	}
	exchange(t, nodes)
	closeAll(owners, nodes)
	logs[0].says(t, "card 1 has another key")
	logs[1].says(t, "card 0 has another key")
	until(t, "a job with the new key", func() bool {
		var made []*client
		defer func() { closeAll(made) }()
		token, gid := attach.NewToken(), uint16(0)
		for _, d := range daemons {
			k := dial(t, d.socket)
			made = append(made, k)
			var err error
			if gid, err = k.Job(attach.JobRequest{GID: gid, Token: token, Cards: []uint16{0, 1}}); err != nil {
				return false
			}
		}
		return true
	})
	_, nodes = group(t, daemons, 0, 1)
	exchange(t, nodes)
}

// Rule: while etcd does not answer, only what asks it waits: other users' requests and messages go
// on. What waits ends with the daemon, or with its time.
func TestSlowEtcd(t *testing.T) {
	s, _, daemons, nodes := paired(t)
	s.Pause(true)
	waiting := make(chan error, 1)
	k := dial(t, daemons[0].socket)
	go func() {
		_, err := k.Job(attach.JobRequest{Token: attach.NewToken(), Cards: []uint16{0, 1}})
		waiting <- err
	}()
	until(t, "a job waits for etcd", func() bool { return daemons[0].Waiting() == 1 })
	exchange(t, nodes)
	if got := statusOf(t, daemons[0]); len(got.Jobs) != 2 {
		t.Errorf("%d jobs", len(got.Jobs))
	}
	if daemons[0].Waiting() != 1 {
		t.Error("the job did not wait")
	}
	s.Pause(false)
	if err := <-waiting; err != nil && !errors.Is(err, attach.ErrCluster) {
		t.Errorf("the job that waited: %v", err)
	}
	s.Pause(true)
	k = dial(t, daemons[0].socket)
	go func() {
		_, err := k.Job(attach.JobRequest{Token: attach.NewToken(), Cards: []uint16{0, 1}})
		waiting <- err
	}()
	until(t, "a job waits for etcd", func() bool { return daemons[0].Waiting() == 1 })
	daemons[0].stop(t)
	if err := <-waiting; err == nil {
		t.Error("a job of a daemon that has ended")
	}
	s.Pause(false)
}

// Rule: a direct job goes on while its daemon is started again, and its GID stays its own in the
// cluster meanwhile and afterwards.
func TestDirectJobsKeepGIDs(t *testing.T) {
	b := newBed(t)
	s := etcd.Start(t)
	var log journal
	lasting := func(c *daemon.Config) { c.Etcd.Lease = time.Minute }
	other := b.inTable(s, 1, &log, lasting)
	connect := b.helper(0)
	b.tune = func(c *daemon.Config) {
		if err := b.join(s, 0, new(journal), c, lasting); err != nil {
			t.Fatal(err)
		}
	}
	d := b.directWith(0, connect)
	gid, token, _ := directJob(t, []*running{d}, 0, 0)
	taken := func(when string) {
		t.Helper()
		_, err := dial(t, other.socket).Job(attach.JobRequest{GID: gid, Token: attach.NewToken(), Cards: []uint16{1}})
		if !errors.Is(err, attach.ErrTaken) {
			t.Errorf("%s: another job with the GID: %v", when, err)
		}
	}
	taken("at first")
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	talk := &talkers{t: t, ctx: ctx}
	talk.open(d, gid, token, 0, 0)
	talk.open(d, gid, token, 1, 0)
	d.stop(t)
	taken("without a daemon")
	d = b.directWith(0, connect)
	taken("with the next daemon")
	k := dial(t, d.socket)
	if _, err := k.Job(attach.JobRequest{GID: gid, Direct: true, Token: token, Cards: []uint16{0, 0}}); err != nil {
		t.Fatal(err)
	}
	talk.until("both go on", func() bool { return len(portsOf(t, d).Ports) == 2 })
	taken("taken over")
	k.Close()
	until(t, "the GID is free", func() bool { return len(s.Keys("/lab/groups/")) == 0 })
}
