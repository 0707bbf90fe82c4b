package registry

// This file follows the table: a goroutine has sessions with etcd, one after the other. A session
// reads everything, takes this host's keys, and watches from that revision on.

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/funet/funet/ctl/config"
)

const (
	// askWithin is how long etcd may take for one answer, and joinWithin for all that Join asks.
	askWithin, joinWithin = 3 * time.Second, 10 * time.Second
	// leastPause and mostPause bound the time between two sessions, or two tries to connect.
	leastPause, mostPause = 100 * time.Millisecond, 3 * time.Second
	// mostEvents is how many events, and KiB of their values, are followed in an eventsGap. If
	// there are more, the watch ends, and the table is read anew after a calm: at least leastCalm,
	// at most mostCalm, and shareOfReads times as long as the last reading took. So floods cost a
	// host little. The log has floods, at most once a floodsGap.
	mostEvents, eventsGap = 1000, time.Second
	leastCalm, mostCalm   = time.Second, 30 * time.Second
	shareOfReads          = 20
	floodsGap             = time.Minute
)

// Errors that callers can tell apart.
var (
	// ErrAway reports that etcd does not answer, or not for this host.
	ErrAway = errors.New("etcd is away")
	// ErrSilent is wrapped beside ErrAway if no etcd answers at all. It may come.
	ErrSilent = errors.New("no answer")
	// ErrNumber reports that another host has this host's number.
	ErrNumber = errors.New("another host has this number")
	// ErrTaken reports that another job has the GID, on any host.
	ErrTaken = errors.New("another job of the cluster has the GID")
	// ErrOther reports an etcd with another cluster ID than before.
	ErrOther = errors.New("another etcd cluster")
)

// errAgain ends a session that is to be followed by another at once.
var errAgain = errors.New("the table is read anew")

// Options is what Join needs.
type Options struct {
	Etcd       *config.Etcd
	Own        Host     // Life is drawn by Join
	Interfaces []string // of this host
	Log        func(line string)
}

// Member is a host's part in a table.
type Member struct {
	o      Options
	client *clientv3.Client
	breaks *breaks
	prefix string
	cancel context.CancelFunc
	ended  chan struct{}
	news   chan struct{} // has one: the table, or a group that is lost
	cache  hostCache     // used by the goroutine that calls Peers

	mu      sync.Mutex
	table   *table
	cluster uint64 // etcd's; 0: not known yet
	lease   clientv3.LeaseID
	up      chan struct{} // closed while etcd answers and this host has its number
	isUp    bool
	why     error     // why it is not up
	since   time.Time // of the last change of isUp
	// admits is when this host takes GIDs again after etcd was restored: then all hosts have
	// written theirs. Until then it takes over what a daemon of its own before it has there.
	admits time.Time
	// heeds is until when this member heeds a note that etcd was restored: those from before it
	// had read the table. It does not need later ones.
	heeds  time.Time
	wanted map[uint16]*group
	// back has the GIDs whose keys are to be looked at: written if they are wanted, else deleted.
	// settled is closed when one has been, nudged has one if there is a new one, and swept says
	// that groups which are not wanted are those of nobody.
	back    map[uint16]bool
	settled chan struct{}
	nudged  chan struct{}
	swept   bool
	floods  int

	begun bool          // Join has begun the session; used by the goroutine of sessions
	took  time.Duration // how long the last reading took; the same
	flood time.Time     // when the log was last told of one; the same
}

// Join makes a host a member of a table. It fails if etcd cannot be reached, or another host has
// the number. Errors wrap config.ErrConfig, ErrAway, with ErrSilent or without, or ErrNumber.
func Join(ctx context.Context, o Options) (*Member, error) {
	if err := o.Etcd.Check(); err != nil {
		return nil, err
	}
	var random [lifeSize / 2]byte
	_, _ = rand.Read(random[:]) // it never fails
	o.Own.Life = hex.EncodeToString(random[:])
	if _, err := ParseHost(hostName(o.Own.Node), o.Own.Node, o.Own.Marshal()); err != nil {
		return nil, fmt.Errorf("joining %v: %w: %w", o.Etcd, err, config.ErrConfig)
	}
	b := newBreaks()
	client, err := dial(o.Etcd, b)
	if err != nil {
		return nil, err
	}
	m := &Member{o: o, client: client, breaks: b, prefix: o.Etcd.Prefix, ended: make(chan struct{}),
		news: make(chan struct{}, 1), cache: hostCache{}, table: newTable(), up: make(chan struct{}), since: time.Now(),
		wanted: map[uint16]*group{}, back: map[uint16]bool{}, settled: make(chan struct{}),
		nudged: make(chan struct{}, 1), why: ErrAway, heeds: time.Now().Add(o.Etcd.Lease + mostPause)}
	within, stop := context.WithTimeout(ctx, joinWithin)
	defer stop()
	for {
		wrong := m.begin(within, true)
		if wrong == nil || err == nil || within.Err() == nil {
			err = wrong // else the last one that was not for want of time
		}
		if err == nil || errors.Is(err, ErrNumber) || within.Err() != nil {
			break
		}
		select {
		case <-time.After(leastPause):
		case <-within.Done():
		}
	}
	if err != nil {
		_ = client.Close() // it has nothing left to do
		silent := status.Code(err) == codes.Unavailable || errors.Is(err, context.DeadlineExceeded)
		if err = fmt.Errorf("joining %v: %w", o.Etcd, away(err)); silent {
			err = fmt.Errorf("%w: %w", err, ErrSilent)
		}
		return nil, err
	}
	living, cancel := context.WithCancel(context.Background())
	m.cancel, m.begun = cancel, true
	go m.life(living)
	return m, nil
}

// quiet drops the error of a client that was closed on the way.
func quiet(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Leave ends the membership. Unless keep, all keys of this host go at once, if etcd answers before
// the context ends; with keep they stay until their lease ends, for the next daemon of this host.
func (m *Member) Leave(ctx context.Context, keep bool) error {
	m.cancel()
	<-m.ended
	m.mu.Lock()
	lease, up := m.lease, m.isUp
	m.mu.Unlock()
	var err error
	if !keep && up { // without the lock, so that nobody waits for etcd
		if _, err = m.client.Revoke(ctx, lease); errors.Is(err, rpctypes.ErrLeaseNotFound) {
			err = nil
		}
	}
	if err = errors.Join(err, quiet(m.client.Close())); err != nil {
		return fmt.Errorf("leaving %v: %w; its keys go when the lease ends", m.o.Etcd, plain(err))
	}
	return nil
}

// News has an event when the table may have changed, or a group was lost or found again.
func (m *Member) News() <-chan struct{} { return m.news }

func (m *Member) tell() {
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// Peers returns the table as it is now. Only one goroutine may call it.
func (m *Member) Peers() *Peers {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.peers(&m.o.Own, m.o.Interfaces, m.cache)
}

// State is how a member stands with etcd.
type State struct {
	Up    bool
	Since time.Time // of the last change of Up
	Why   error     // why it is not up
	// Floods is how often the table changed so fast that it was not followed, but read anew.
	Floods int
}

// State returns the state.
func (m *Member) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return State{m.isUp, m.since, m.why, m.floods}
}

// stand changes the state; why is nil if etcd answers and this host has its number.
func (m *Member) stand(why error) {
	m.mu.Lock()
	was, told := m.isUp, m.why
	if m.isUp = why == nil; m.isUp != was {
		m.since = time.Now()
	}
	switch m.why = why; {
	case m.isUp && !was:
		close(m.up)
	case !m.isUp && was:
		m.up = make(chan struct{})
	}
	m.mu.Unlock()
	switch {
	case why != nil && (was || told == nil || told.Error() != why.Error()):
		m.log(fmt.Sprintf("%v; what runs goes on, and new jobs wait", why))
	case why == nil && !was:
		m.log("answers")
	}
}

// life has sessions until the context ends.
func (m *Member) life(ctx context.Context) {
	defer close(m.ended)
	for pause := leastPause; ctx.Err() == nil; {
		began := time.Now()
		err := m.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, errAgain) {
			m.stand(away(err))
		}
		if pause = min(2*pause, mostPause); time.Since(began) > mostPause {
			pause = leastPause
		}
		select {
		case <-time.After(pause/2 + mathrand.N(pause/2)): // not all hosts at once
		case <-ctx.Done():
		}
	}
}

// away makes an error one of those that callers can tell apart.
func away(err error) error {
	if errors.Is(err, ErrNumber) || errors.Is(err, ErrOther) {
		return err
	}
	return fmt.Errorf("%w: %w", plain(err), ErrAway)
}

// plain shortens an error of etcd's client to one line of bounded length.
func plain(err error) error {
	s := strings.ReplaceAll(err.Error(), "\n", "; ")
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return errors.New(s)
}

// begin reads the table, and takes this host's keys.
func (m *Member) begin(ctx context.Context, first bool) error {
	began := time.Now()
	t, err := m.read(ctx)
	if err != nil {
		return err
	}
	m.took = time.Since(began)
	m.mu.Lock()
	old := m.table
	restored := !t.follows(old)
	if restored {
		m.admits = time.Now().Add(m.o.Etcd.Lease + mostPause)
		m.heeds = time.Time{}
	}
	m.table = t
	m.mu.Unlock()
	m.heed()
	m.mu.Lock()
	first = first || time.Now().Before(m.admits)
	m.mu.Unlock()
	if restored {
		m.log(fmt.Sprintf("was restored from a copy: it is at revision %d, and this host has seen %d; "+
			"what runs goes on, hosts write again what is missing, and new jobs wait for %v", t.revision,
			old.revision, m.o.Etcd.Lease+mostPause))
		if err := m.note(ctx, t); err != nil {
			m.log(fmt.Sprintf("hosts that start now cannot be told that it was restored: %v", plain(err)))
		}
	}
	m.tell() // hosts are followed even without a number
	if err := m.keepLease(ctx, t, first); err != nil {
		return err
	}
	return m.sit(ctx, t, first)
}

// note tells hosts that start in the time in which no GIDs are taken that etcd was restored.
func (m *Member) note(ctx context.Context, t *table) error {
	if t.note.lease != 0 {
		return nil // another host has
	}
	key := m.prefix + noteName
	g, err := ask(ctx, func(ctx context.Context) (*clientv3.LeaseGrantResponse, error) {
		return m.client.Grant(ctx, int64((m.o.Etcd.Lease+mostPause)/time.Second))
	})
	if err != nil {
		return err
	}
	// If it has changed meanwhile another host was quicker.
	_, err = ask(ctx, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return m.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", t.note.modified)).
			Then(clientv3.OpPut(key, hostName(m.o.Own.Node), clientv3.WithLease(g.ID))).Commit()
	})
	return err
}

// heed has this member wait as the others do if a note says that etcd was restored before it had
// read the table; once, so that a host that writes notes without end costs no more.
func (m *Member) heed() {
	m.mu.Lock()
	now, note := time.Now(), m.table.note
	heeds := note.lease != 0 && now.Before(m.heeds)
	if heeds {
		m.admits, m.heeds = now.Add(m.o.Etcd.Lease+mostPause), time.Time{}
	}
	m.mu.Unlock()
	if heeds {
		m.log(fmt.Sprintf("was restored from a copy a moment ago, as %.80q says; new jobs wait for %v", note.value,
			m.o.Etcd.Lease+mostPause))
	}
}

// log writes a line about etcd, if there is a log.
func (m *Member) log(line string) {
	if m.o.Log != nil {
		m.o.Log(fmt.Sprintf("%v: %s", m.o.Etcd, line))
	}
}

// enter reads the table and takes this host's keys, unless Join has. It returns the first revision
// that it has not seen.
func (m *Member) enter(ctx context.Context) (from int64, err error) {
	if !m.begun {
		err = m.begin(ctx, false)
	}
	if m.begun = false; err != nil && !errors.Is(err, ErrNumber) {
		return 0, err
	}
	if err == nil {
		m.retake()
		if err := m.settle(ctx); err != nil {
			return 0, err
		}
	}
	m.stand(err)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.revision + 1, nil
}

// watch watches the table from a revision on, until stop is called.
func (m *Member) watch(ctx context.Context, from int64) (events clientv3.WatchChan, stop func()) {
	ctx, stop = context.WithCancel(clientv3.WithRequireLeader(ctx))
	return m.client.Watch(ctx, m.prefix, clientv3.WithPrefix(), clientv3.WithRev(from)), stop
}

// flooded notes that too much has changed, and returns how long nothing is to be read.
func (m *Member) flooded() time.Duration {
	calm := min(max(leastCalm, shareOfReads*m.took), mostCalm)
	m.mu.Lock()
	m.floods++
	m.mu.Unlock()
	if time.Since(m.flood) > floodsGap {
		m.flood = time.Now()
		m.log(fmt.Sprintf("more than %d changes in %v; the table is read once in %v until there are fewer",
			mostEvents, eventsGap, calm))
	}
	return calm
}

// session is one session: it returns when etcd has to be asked for everything anew.
func (m *Member) session(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	select {
	case <-m.breaks.mended: // what follows is asked anew
	default:
	}
	from, err := m.enter(ctx)
	if err != nil {
		return err
	}
	watch, stopWatch := m.watch(ctx, from)
	defer func() { stopWatch() }()
	alive, err := m.client.KeepAlive(ctx, m.lease)
	if err != nil {
		return err
	}
	patience := m.o.Etcd.Lease * 2 / 3 // etcd is asked twice in that time
	silent := time.NewTimer(patience)
	defer silent.Stop()
	var calm <-chan time.Time // while the watch is ended
	events, since := 0, time.Now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-silent.C:
			return fmt.Errorf("no answer for %v", patience)
		case <-m.breaks.mended:
			return fmt.Errorf("a connection was made again: %w", errAgain)
		case <-m.nudged:
			if m.State().Up {
				if err := m.settle(ctx); err != nil {
					return err
				}
			}
		case a, ok := <-alive:
			if !ok || a.TTL <= 0 {
				return fmt.Errorf("the lease of this host has ended: %w", errAgain)
			}
			if err := m.same(a.ResponseHeader.GetClusterId()); err != nil {
				return err
			}
			if a.ResponseHeader.GetRevision() < from-1 {
				return fmt.Errorf("it is at revision %d, and was at %d: %w", a.ResponseHeader.GetRevision(), from-1,
					errAgain)
			}
			silent.Reset(patience)
		case w, ok := <-watch:
			switch {
			case !ok:
				return fmt.Errorf("the watch has ended: %w", errAgain)
			case w.CompactRevision != 0:
				return fmt.Errorf("revision %d was compacted: %w", from, errAgain)
			case tooLong(w.Err()): // at once
				stopWatch()
				watch, calm = nil, time.After(m.flooded())
				continue
			case w.Err() != nil:
				return w.Err()
			}
			from = max(from, w.Header.Revision+1)
			if m.apply(w.Events) {
				return errAgain
			}
			m.heed()
			if time.Since(since) > eventsGap {
				events, since = 0, time.Now()
			}
			for _, e := range w.Events {
				events += 1 + len(e.Kv.Value)>>10
			}
			if events > mostEvents {
				stopWatch()
				watch, calm = nil, time.After(m.flooded())
			}
		case <-calm:
			if from, err = m.enter(ctx); err != nil {
				return err
			}
			watch, stopWatch = m.watch(ctx, from)
			events, since, calm = 0, time.Now(), nil
			silent.Reset(patience)
		}
	}
}

// apply enters events into the table. It reports whether a key of this host has changed otherwise
// than by this member.
func (m *Member) apply(events []*clientv3.Event) (robbed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := false
	for _, e := range events {
		m.table.revision = max(m.table.revision, e.Kv.ModRevision)
		key := strings.TrimPrefix(string(e.Kv.Key), m.prefix)
		k, gid, host := readKey(key)
		changed = changed || k != claimKey
		if e.Type == clientv3.EventTypeDelete {
			m.table.set(key, nil)
			robbed = robbed || k == hostKey && host == m.o.Own.Node
		} else {
			x := entryOf(e.Kv.Value, e.Kv.CreateRevision, e.Kv.ModRevision, e.Kv.Lease)
			m.table.set(key, &x)
			robbed = robbed || k == hostKey && host == m.o.Own.Node && x.lease != int64(m.lease)
		}
		g := m.wanted[gid]
		if k != claimKey || g == nil {
			continue
		}
		switch {
		case host != m.o.Own.Node && g.lost != nil: // perhaps it is free again
		case host == m.o.Own.Node && g.revision != 0 && e.Kv.ModRevision > g.revision &&
			m.table.groups[gid][host].value != g.claim.Marshal(): // not this member's doing
		default:
			continue
		}
		m.back[gid] = true
		m.nudge()
	}
	if changed {
		m.tell()
	}
	return robbed
}

func entryOf(value []byte, made, modified, lease int64) entry {
	e := entry{made: made, modified: modified, lease: lease}
	if len(value) <= MaxValue {
		e.value = string(value)
	}
	return e
}

// ask bounds the time of one question.
func ask[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	ctx, stop := context.WithTimeout(ctx, askWithin)
	defer stop()
	return do(ctx)
}

// same refuses an etcd of another cluster ID than before.
func (m *Member) same(cluster uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cluster == 0 {
		m.cluster = cluster
	}
	if cluster != m.cluster {
		return fmt.Errorf("its cluster ID is %x, and was %x: %w; restart funid if that is meant", cluster,
			m.cluster, ErrOther)
	}
	return nil
}

// keepLease makes sure that this member has a lease. At its start it takes over that of a daemon
// before it, with everything that hangs on it.
func (m *Member) keepLease(ctx context.Context, t *table, first bool) error {
	lease := m.lease
	if e, ok := t.hosts[m.o.Own.Node]; first && ok {
		if h, err := ParseHost("", m.o.Own.Node, e.value); err == nil && m.mine(h) {
			lease = clientv3.LeaseID(e.lease)
		}
	}
	if lease != 0 {
		_, err := ask(ctx, func(ctx context.Context) (*clientv3.LeaseKeepAliveResponse, error) {
			return m.client.KeepAliveOnce(ctx, lease)
		})
		if err == nil {
			m.mu.Lock()
			m.lease = lease
			m.mu.Unlock()
			return nil
		}
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return err
		}
	}
	g, err := ask(ctx, func(ctx context.Context) (*clientv3.LeaseGrantResponse, error) {
		return m.client.Grant(ctx, int64(m.o.Etcd.Lease/time.Second))
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.lease = g.ID
	m.mu.Unlock()
	return nil
}

// mine reports whether an entry is of a daemon on this host.
func (m *Member) mine(h *Host) bool {
	return h.Name == m.o.Own.Name && h.Encap == m.o.Own.Encap && h.place() == m.o.Own.place()
}

// sit takes hosts/N for this host. Errors: ErrNumber.
func (m *Member) sit(ctx context.Context, t *table, first bool) error {
	key := m.prefix + hostName(m.o.Own.Node)
	e, there := t.hosts[m.o.Own.Node]
	if there {
		h, err := ParseHost(hostName(m.o.Own.Node), m.o.Own.Node, e.value)
		switch {
		case err == nil && h.Life == m.o.Own.Life && e.lease == int64(m.lease):
			return nil
		case err == nil && h.Life == m.o.Own.Life, err == nil && first && m.mine(h):
		case err == nil:
			return fmt.Errorf("number %d is that of host %s at %s: %w; give one of the two hosts another, or wait until that host's lease has ended",
				m.o.Own.Node, h.Name, h.place(), ErrNumber)
		default:
			return fmt.Errorf("number %d is taken, with a value that is no host's: %w: %w; `etcdctl del %s` if no host has it",
				m.o.Own.Node, plain(err), ErrNumber, key)
		}
	}
	value := m.o.Own.Marshal()
	r, err := ask(ctx, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return m.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", e.modified)).
			Then(clientv3.OpPut(key, value, clientv3.WithLease(m.lease))).Commit()
	})
	switch {
	case err != nil:
		return err
	case !r.Succeeded:
		return fmt.Errorf("%s has changed meanwhile: %w", key, errAgain)
	}
	own := entry{value: value, made: r.Header.Revision, modified: r.Header.Revision, lease: int64(m.lease)}
	m.mu.Lock()
	m.table.set(hostName(m.o.Own.Node), &own)
	m.mu.Unlock()
	return nil
}

// Look reads a table once, for a look at it.
func Look(ctx context.Context, o Options) (*Peers, error) {
	b := newBreaks()
	client, err := dial(o.Etcd, b)
	if err != nil {
		return nil, err
	}
	m := &Member{o: o, client: client, breaks: b, prefix: o.Etcd.Prefix}
	t, err := m.read(ctx)
	if err = errors.Join(err, quiet(client.Close())); err != nil {
		return nil, fmt.Errorf("reading %v: %w", o.Etcd, away(err))
	}
	return t.peers(&o.Own, slices.Clone(o.Interfaces), hostCache{}), nil
}
