package registry

// This file takes GIDs in the cluster, and gives them back.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// tries is how often a GID is tried to be taken that changes meanwhile.
	tries = 16
	// mostSharing is how many hosts of one job are looked at.
	mostSharing = 4096
	// mostDeletes is how many false keys go in one transaction; etcd's own limit is 128.
	mostDeletes = 64
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
		if !there || e.value != g.claim.Marshal() || g.lost != nil {
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
	for some := range slices.Chunk(gone, mostDeletes) {
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
func (m *Member) put(ctx context.Context, gid uint16, g *group) error {
	all := m.prefix + groupName(gid)
	own := m.prefix + hostName(m.o.Own.Node)
	end := clientv3.GetPrefixRangeEnd(all)
	for range tries {
		m.mu.Lock()
		lease := m.lease
		m.mu.Unlock()
		r, err := ask(ctx, func(ctx context.Context) (*clientv3.GetResponse, error) {
			return m.client.Get(ctx, all, clientv3.WithRange(end), clientv3.WithLimit(mostSharing))
		})
		if err != nil {
			return err
		}
		if err := m.same(r.Header.GetClusterId()); err != nil {
			return err
		}
		if r.More {
			return fmt.Errorf("more than %d keys below %s: %w", mostSharing, all, ErrTaken)
		}
		forged, err := m.forged(ctx, gid, g.claim.Job, r)
		if err != nil {
			return err
		}
		ops := []clientv3.Op{clientv3.OpPut(all+strconv.Itoa(int(m.o.Own.Node)), g.claim.Marshal(),
			clientv3.WithLease(lease))}
		for _, key := range forged[:min(len(forged), mostDeletes)] {
			ops = append(ops, clientv3.OpDelete(key))
		}
		t, err := ask(ctx, func(ctx context.Context) (*clientv3.TxnResponse, error) {
			return m.client.Txn(ctx).If(
				clientv3.Compare(clientv3.ModRevision(all).WithRange(end), "<", r.Header.Revision+1),
				clientv3.Compare(clientv3.LeaseValue(own), "=", lease)).
				Then(ops...).Else(clientv3.OpGet(own)).Commit()
		})
		if err != nil {
			return err
		}
		if t.Succeeded {
			m.mu.Lock()
			g.revision = t.Header.Revision
			m.mu.Unlock()
			return nil
		}
		if kvs := t.Responses[0].GetResponseRange().Kvs; len(kvs) != 1 || kvs[0].Lease != int64(lease) {
			return fmt.Errorf("%s is no longer this host's", own)
		}
	}
	return fmt.Errorf("%s changes all the time: %w", all, ErrTaken)
}

// forged returns the keys of a group that do not count. If one of another job counts, it returns
// ErrTaken.
func (m *Member) forged(ctx context.Context, gid uint16, job string, r *clientv3.GetResponse) (keys []string,
	err error) {
	type suspect struct {
		host        uint16
		key         string
		made, lease int64
	}
	var all []suspect
	for _, kv := range r.Kvs {
		key := string(kv.Key)
		k, _, host := readKey(strings.TrimPrefix(key, m.prefix))
		if k == claimKey && host == m.o.Own.Node {
			continue
		}
		e := entryOf(kv.Value, kv.CreateRevision, kv.ModRevision, kv.Lease)
		if c, err := ParseClaim(key, e.value); k == claimKey && err == nil && c.Job == job {
			continue
		}
		if k != claimKey || kv.Lease == 0 {
			keys = append(keys, key)
			continue
		}
		all = append(all, suspect{host, key, kv.CreateRevision, kv.Lease})
	}
	for some := range slices.Chunk(all, mostDeletes) {
		var ops []clientv3.Op
		for _, s := range some {
			ops = append(ops, clientv3.OpGet(m.prefix+hostName(s.host)))
		}
		h, err := ask(ctx, func(ctx context.Context) (*clientv3.TxnResponse, error) {
			return m.client.Txn(ctx).Then(ops...).Commit()
		})
		if err != nil {
			return nil, err
		}
		for i, s := range some {
			kvs := h.Responses[i].GetResponseRange().Kvs
			m.mu.Lock()
			counts := len(kvs) == 1 && kvs[0].Lease == s.lease && m.table.withinShare(s.host, s.made)
			m.mu.Unlock()
			if counts {
				return nil, fmt.Errorf("GID %d is that of a job with nodes on host %d: %w", gid, s.host, ErrTaken)
			}
			keys = append(keys, s.key)
		}
	}
	return keys, nil
}
