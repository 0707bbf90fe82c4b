package registry

// This file takes GIDs in the cluster, and gives them back.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// tries is how often a GID is tried to be taken while others try that, at most yields apart.
	tries, yields = 16, 20 * time.Millisecond
	// mostSharing is how many keys below a GID are read at once.
	mostSharing = 4096
	// mostOps is how many keys go in one transaction; etcd's own limit is 128.
	mostOps = 64
	// mostKey is how many bytes a key has that is deleted because its host did not write it: so
	// many that mostOps of them go in one transaction.
	mostKey = 256
)

// group is a GID that this host has, or wants to have again.
type group struct {
	claim    Claim
	revision int64 // of this host's key; 0: it is about to be written
	lost     error // why another job has the GID now
}

// Taken reports whether a job of the cluster has a GID, as far as is known here. Take decides.
func (m *Member) Taken(gid uint16, job string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, taken := m.table.takenBy(gid, job, m.o.Own.Node)
	return taken
}

// Take takes a GID for a job's nodes on this host, together with the other hosts of the job. It
// waits for etcd until the context ends. Release gives the GID back. Errors: ErrTaken, ErrAway,
// ErrNumber, ErrOther.
func (m *Member) Take(ctx context.Context, gid uint16, c Claim) error {
	err := m.take(ctx, gid, c)
	if err == nil {
		return nil
	}
	m.Release(gid) // etcd may have carried out what it has not answered
	if !errors.Is(err, ErrTaken) {
		err = away(err)
	}
	return fmt.Errorf("taking GID %d in the cluster: %w", gid, err)
}

func (m *Member) take(ctx context.Context, gid uint16, c Claim) error {
	g := &group{claim: c}
	if err := m.free(ctx, gid); err != nil {
		return err
	}
	m.mu.Lock()
	m.wanted[gid] = g
	m.mu.Unlock()
	for {
		m.mu.Lock()
		up, since := m.up, m.since
		m.mu.Unlock()
		select {
		case <-up:
		case <-ctx.Done():
			return fmt.Errorf("no new jobs since %s: %w", since.Format("15:04:05"), m.State().Why)
		}
		if err := m.admitting(ctx); err != nil {
			return err
		}
		err := m.put(ctx, gid, g)
		if err == nil || errors.Is(err, ErrTaken) || ctx.Err() != nil {
			return err
		}
		select { // the session finds out what is wrong
		case <-time.After(leastPause):
		case <-ctx.Done():
			return err
		}
	}
}

// admitting waits until GIDs are taken again, after etcd was restored.
func (m *Member) admitting(ctx context.Context) error {
	m.mu.Lock()
	from := m.admits
	m.mu.Unlock()
	if !time.Now().Before(from) {
		return nil
	}
	select {
	case <-time.After(time.Until(from)):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("etcd was restored from a copy; new jobs from %s on", from.Format("15:04:05"))
	}
}

// free waits until a GID that was given back is no longer in etcd.
func (m *Member) free(ctx context.Context, gid uint16) error {
	for {
		m.mu.Lock()
		_, busy := m.back[gid]
		settled, why := m.settled, m.why
		m.mu.Unlock()
		if !busy {
			return nil
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return fmt.Errorf("its last job is still to be taken out: %w", cmp.Or(why, ctx.Err()))
		}
	}
}

// Release gives a GID back, soon. If etcd is away it is given back when etcd answers.
func (m *Member) Release(gid uint16) {
	m.mu.Lock()
	delete(m.wanted, gid)
	m.back[gid] = true
	m.mu.Unlock()
	m.nudge()
}

// Sweep gives back the groups of a daemon before this one that this one has not taken.
func (m *Member) Sweep() {
	m.mu.Lock()
	m.swept = true
	m.unwanted()
	m.mu.Unlock()
	m.nudge()
}

// unwanted notes this host's groups that it does not want. The caller holds mu.
func (m *Member) unwanted() {
	for gid, of := range m.table.groups {
		if _, mine := of[m.o.Own.Node]; mine && m.wanted[gid] == nil && m.swept {
			m.back[gid] = true
		}
	}
}

func (m *Member) nudge() {
	select {
	case m.nudged <- struct{}{}:
	default:
	}
}

// Lost returns the jobs of this host whose GIDs other jobs have taken while etcd was away, with the
// reason of each.
func (m *Member) Lost() map[uint16]error {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[uint16]error{}
	for gid, g := range m.wanted {
		if g.lost != nil {
			all[gid] = g.lost
		}
	}
	return all
}

// retake finds out which of this host's groups are no longer in etcd, and which should not be.
func (m *Member) retake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for gid, g := range m.wanted {
		e, there := m.table.groups[gid][m.o.Own.Node]
		there = there && e.lease == int64(m.lease) && e.value == g.claim.Marshal()
		if g.revision = e.modified; !there || g.lost != nil {
			m.back[gid] = true
		}
	}
	m.unwanted()
}

// settle writes the groups of this host that are missing, and deletes those that it has given back.
// A group that another job has is lost.
func (m *Member) settle(ctx context.Context) error {
	m.mu.Lock()
	var gone []uint16
	missing := map[uint16]*group{}
	for gid := range m.back {
		if g := m.wanted[gid]; g != nil {
			missing[gid] = g
		} else {
			gone = append(gone, gid)
		}
	}
	m.mu.Unlock()
	for some := range slices.Chunk(gone, mostOps) {
		var ops []clientv3.Op
		for _, gid := range some {
			ops = append(ops, clientv3.OpDelete(m.prefix+claimName(gid, m.o.Own.Node)))
		}
		_, err := ask(ctx, func(ctx context.Context) (*clientv3.TxnResponse, error) {
			return m.client.Txn(ctx).Then(ops...).Commit()
		})
		if err != nil {
			return err
		}
		m.settledAre(some...)
	}
	for gid, g := range missing {
		err := m.put(ctx, gid, g)
		if err != nil && !errors.Is(err, ErrTaken) {
			return err
		}
		m.mu.Lock()
		told := g.lost == nil && err == nil
		g.lost = err
		m.mu.Unlock()
		m.settledAre(gid)
		if !told {
			m.tell()
		}
	}
	return nil
}

func (m *Member) settledAre(gids ...uint16) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, gid := range gids {
		delete(m.back, gid)
	}
	close(m.settled)
	m.settled = make(chan struct{})
}

// put writes this host's key of a group, unless another job has the group. Errors: ErrTaken, and
// those of etcd.
//
// It looks before it writes, and again at the revision in which it wrote. Of two jobs that write at
// once the second then sees the first. What others write meanwhile does not matter, so nobody can
// keep a GID from jobs by writing below it, unless as the claim of a host's own.
func (m *Member) put(ctx context.Context, gid uint16, g *group) error {
	own := m.prefix + hostName(m.o.Own.Node)
	key := m.prefix + claimName(gid, m.o.Own.Node)
	for range tries {
		found, err := m.look(ctx, gid, g.claim.Job, 0)
		if err != nil {
			return err
		}
		switch {
		case found.rival != nil && !found.ours:
			return fmt.Errorf("GID %d is that of a job with nodes on host %d: %w", gid, found.rival.host, ErrTaken)
		case found.rival != nil: // one of the two jobs gives way
			if err := yield(ctx); err != nil {
				return err
			}
			continue
		}
		m.mu.Lock()
		lease := m.lease
		m.mu.Unlock()
		ops := []clientv3.Op{clientv3.OpPut(key, g.claim.Marshal(), clientv3.WithLease(lease))}
		for _, f := range found.forged {
			if len(f.key) > mostKey || len(ops) > mostOps {
				continue
			}
			same := clientv3.Compare(clientv3.ModRevision(f.key), "=", f.modified)
			ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{same}, []clientv3.Op{clientv3.OpDelete(f.key)}, nil))
		}
		t, err := ask(ctx, func(ctx context.Context) (*clientv3.TxnResponse, error) {
			return m.client.Txn(ctx).If(clientv3.Compare(clientv3.LeaseValue(own), "=", lease)).
				Then(ops...).Else(clientv3.OpGet(own, clientv3.WithKeysOnly())).Commit()
		})
		switch {
		case err != nil:
			return err
		case !t.Succeeded:
			return fmt.Errorf("%s is no longer this host's", own)
		}
		found, err = m.look(ctx, gid, g.claim.Job, t.Header.Revision)
		if err == nil && found.rival == nil {
			m.mu.Lock()
			g.revision = t.Header.Revision
			m.mu.Unlock()
			return nil
		}
		// Another job was first, or is about to give way to this one.
		_, gone := ask(ctx, func(ctx context.Context) (*clientv3.DeleteResponse, error) {
			return m.client.Delete(ctx, key)
		})
		if err = errors.Join(err, gone); err != nil {
			return err
		}
		if err := yield(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("others try to take GID %d all the time: %w", gid, ErrTaken)
}

// yield waits for a moment, so that another job can give way.
func yield(ctx context.Context) error {
	select {
	case <-time.After(mathrand.N(yields)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sight is what others have below a GID.
type sight struct {
	ours   bool    // another host says that it has nodes of the job
	rival  *theirs // a claim of another job that counts; nil: there is none
	forged []theirs
}

// theirs is another's key below a GID.
type theirs struct {
	host                  uint16
	key, value            string
	made, modified, lease int64
}

// theirsOf is a key of a host below a GID as etcd has it; nil: it is not there.
func theirsOf(host uint16, key string, kv *mvccpb.KeyValue) theirs {
	return theirs{host, key, entryOf(kv.GetValue(), 0, 0, 0).value, kv.GetCreateRevision(), kv.GetModRevision(),
		kv.GetLease()}
}

// look finds out what others have below a GID in a revision; 0: now.
func (m *Member) look(ctx context.Context, gid uint16, job string, at int64) (found sight, err error) {
	all := m.prefix + groupName(gid)
	r, err := m.get(ctx, all, clientv3.WithPrefix(), clientv3.WithLimit(mostSharing), clientv3.WithRev(at))
	if tooLong(err) || err == nil && r.More {
		return m.lookClosely(ctx, gid, job, at)
	}
	if err != nil {
		return found, err
	}
	var some []theirs
	for _, kv := range r.Kvs {
		key := string(kv.Key)
		k, _, host := readKey(strings.TrimPrefix(key, m.prefix))
		if k == claimKey && host == m.o.Own.Node {
			continue
		}
		x := theirsOf(host, key, kv)
		switch c, err := ParseClaim(key, x.value); {
		case k != claimKey || x.lease == 0:
			found.forged = append(found.forged, x)
		case err == nil && c.Job == job:
			found.ours = true
		default:
			some = append(some, x)
		}
	}
	var names []string
	for i := range some {
		names = append(names, m.prefix+hostName(some[i].host))
	}
	hosts, err := m.keys(ctx, names, r.Header.Revision, true)
	for i := range hosts {
		switch x := &some[i]; {
		case !m.valid(x, hosts[i].GetLease()):
			found.forged = append(found.forged, *x)
		case found.rival == nil:
			found.rival = x
		}
	}
	return found, err
}

// lookClosely looks at no other keys than those that hosts of the table may have below a GID. It
// finds the same where others have written more than can be looked at, except what is forged. What
// others write below hosts/ makes it longer by mostPages pages, and as many questions as all names
// of hosts need, at most (readHosts).
func (m *Member) lookClosely(ctx context.Context, gid uint16, job string, at int64) (found sight, err error) {
	var hosts []theirs
	var names []string
	at, err = m.readHosts(ctx, at, mostPages, true, func(kv *mvccpb.KeyValue) {
		k, _, host := readKey(strings.TrimPrefix(string(kv.Key), m.prefix))
		if k == hostKey && host != m.o.Own.Node && kv.Lease != 0 {
			hosts = append(hosts, theirs{host: host, lease: kv.Lease})
			names = append(names, m.prefix+claimName(gid, host))
		}
	})
	if err != nil {
		return found, err
	}
	claims, err := m.keys(ctx, names, at, true)
	if err != nil {
		return found, err
	}
	var some []theirs
	var counting []string
	for i := range claims {
		if x := theirsOf(hosts[i].host, names[i], claims[i]); m.valid(&x, hosts[i].lease) {
			some, counting = append(some, x), append(counting, names[i])
		}
	}
	values, err := m.keys(ctx, counting, at, false)
	for i := range values {
		c, err := ParseClaim(some[i].key, entryOf(values[i].GetValue(), 0, 0, 0).value)
		if err == nil && c.Job == job {
			found.ours = true
		} else if found.rival == nil {
			found.rival = &some[i]
		}
	}
	return found, err
}

// valid reports whether a claim counts, whose host has a lease.
func (m *Member) valid(x *theirs, lease int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return lease != 0 && x.lease == lease && m.table.withinShare(x.host, x.made)
}
