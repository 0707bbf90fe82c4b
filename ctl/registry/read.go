package registry

// This file reads what is in etcd, page by page, however much others have written there.

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/funet/funet/uspace/cluster"
)

const (
	// page is how many keys are read at once; mostKeys is how many are read below groups/.
	page, mostKeys = 1000, 1 << 20
	// mostPages is how many pages are read below hosts/, twice as many as all possible hosts need.
	// Names behind them are asked for one by one, mostOps at once (readHosts).
	mostPages = 2 * cluster.MaxNodes / page
)

// read reads the whole table, at one revision.
func (m *Member) read(ctx context.Context) (*table, error) {
	t, keys := newTable(), 0
	enter := func(kv *mvccpb.KeyValue) {
		e := entryOf(kv.Value, kv.CreateRevision, kv.ModRevision, kv.Lease)
		t.set(strings.TrimPrefix(string(kv.Key), m.prefix), &e)
	}
	// Hosts come first, since groups count only with them.
	at, err := m.readHosts(ctx, 0, mostPages, false, enter)
	if err != nil {
		return nil, err
	}
	t.revision = at
	groups := m.prefix + "groups/"
	_, _, err = m.scan(ctx, groups, behind(groups), at, -1, false, func(some []*mvccpb.KeyValue) (string, error) {
		for _, kv := range some {
			enter(kv)
		}
		if keys += len(some); keys > mostKeys {
			return "", fmt.Errorf("more than %d keys below %s; remove those of others: %w", mostKeys, groups, ErrValue)
		}
		return lastOf(some) + "\x00", nil
	})
	if err != nil {
		return nil, err
	}
	return t, m.readRest(ctx, t, enter)
}

// readRest reads the epoch, and others' keys beside hosts and groups: as many as are told.
func (m *Member) readRest(ctx context.Context, t *table, enter func(*mvccpb.KeyValue)) error {
	groups, hosts := m.prefix+"groups/", m.prefix+"hosts/"
	ops := []clientv3.Op{clientv3.OpGet(m.prefix+"epoch", clientv3.WithRev(t.revision))}
	for _, part := range [][2]string{{m.prefix, groups}, {behind(groups), hosts}, {behind(hosts), behind(m.prefix)}} {
		ops = append(ops, clientv3.OpGet(part[0], clientv3.WithRange(part[1]), clientv3.WithRev(t.revision),
			clientv3.WithLimit(mostStrangers), clientv3.WithKeysOnly()))
	}
	commit := func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return m.client.Txn(ctx).Then(ops...).Commit()
	}
	r, err := ask(ctx, commit)
	if tooLong(err) {
		t.strangers["keys that are too long to be read"] = true
		ops = ops[:1]
		r, err = ask(ctx, commit)
	}
	if err != nil {
		return err
	}
	for i, answer := range r.Responses {
		for _, kv := range answer.GetResponseRange().Kvs {
			if i == 0 || string(kv.Key) != m.prefix+"epoch" {
				enter(kv)
			}
		}
	}
	return nil
}

// behind returns the first key behind those with a prefix.
func behind(prefix string) string { return clientv3.GetPrefixRangeEnd(prefix) }

// lastOf returns the key of the last of some keys. There must be one.
func lastOf(some []*mvccpb.KeyValue) string { return string(some[len(some)-1].Key) }

// get asks etcd for a key, or more, and refuses another etcd.
func (m *Member) get(ctx context.Context, key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	r, err := ask(ctx, func(ctx context.Context) (*clientv3.GetResponse, error) { return m.client.Get(ctx, key, o...) })
	if err == nil {
		err = m.same(r.Header.GetClusterId())
	}
	return r, err
}

// tooLong reports whether etcd's answer was longer than mostAnswer.
func tooLong(err error) bool { return status.Code(err) == codes.ResourceExhausted }

// scan reads keys in a revision, without their values if only, page by page: each page goes to
// each, which returns the key that is to be read next. A page that is too long is cut. After most
// pages, those that were too long among them, it returns the key at which it has stopped; else "".
// -1: no limit. It also returns the revision; 0: now.
func (m *Member) scan(ctx context.Context, from, end string, at int64, most int, only bool,
	each func([]*mvccpb.KeyValue) (from string, err error)) (rest string, revision int64, err error) {
	limit := int64(page)
	for pages := 0; from < end; pages++ {
		if pages == most {
			return from, at, nil
		}
		o := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(limit), clientv3.WithRev(at)}
		if only {
			o = append(o, clientv3.WithKeysOnly())
		}
		r, err := m.get(ctx, from, o...)
		if tooLong(err) && limit > 1 {
			limit = max(limit/4, 1)
			continue
		}
		if err != nil {
			return "", at, err
		}
		limit, at = min(2*limit, page), cmp.Or(at, r.Header.Revision)
		if len(r.Kvs) == 0 {
			break
		}
		if from, err = each(r.Kvs); err != nil || !r.More {
			return "", at, err
		}
	}
	return "", at, nil
}

// inOrder are the numbers of hosts in the order of their keys.
var inOrder = sync.OnceValue(func() (all []uint16) {
	var enter func(first, last int)
	enter = func(first, last int) {
		for n := first; n <= last && n < cluster.MaxNodes; n++ {
			if all = append(all, uint16(n)); n > 0 {
				enter(10*n, 10*n+9)
			}
		}
	}
	enter(0, 9)
	return all
})

// readHosts reads the keys of hosts in a revision, without their values if only, and returns the
// revision; 0: now. Others may have written any number of keys among them, of any length. So each
// page begins at a key that a host may have, and behind most pages the rest of such keys is asked
// for one by one: then what others have written is not read at all. found is also told some of it.
func (m *Member) readHosts(ctx context.Context, at int64, most int, only bool, found func(*mvccpb.KeyValue)) (int64,
	error) {
	name := func(host uint16) string { return m.prefix + hostName(host) }
	hosts, end := inOrder(), behind(m.prefix+"hosts/")
	rest, at, err := m.scan(ctx, name(hosts[0]), end, at, most, only, func(some []*mvccpb.KeyValue) (string, error) {
		for _, kv := range some {
			found(kv)
		}
		i, _ := slices.BinarySearchFunc(hosts, lastOf(some)+"\x00", func(host uint16, key string) int {
			return strings.Compare(name(host), key)
		})
		if hosts = hosts[i:]; len(hosts) == 0 {
			return end, nil
		}
		return name(hosts[0]), nil
	})
	if rest == "" || err != nil {
		return at, err
	}
	for some := range slices.Chunk(hosts, mostOps) {
		var keys []string
		for _, host := range some {
			keys = append(keys, name(host))
		}
		there, err := m.keys(ctx, keys, at, only)
		if err != nil {
			return at, err
		}
		for _, kv := range there {
			if kv != nil {
				found(kv)
			}
		}
	}
	return at, nil
}

// keys reads some keys in a revision, without their values if only: at most mostOps at once, and
// fewer if the answer is too long. A key that is not there is nil.
func (m *Member) keys(ctx context.Context, of []string, at int64, only bool) (all []*mvccpb.KeyValue, err error) {
	for len(of) > 0 {
		some := of[:min(len(of), mostOps)]
		for {
			var ops []clientv3.Op
			for _, key := range some {
				o := []clientv3.OpOption{clientv3.WithRev(at)}
				if only {
					o = append(o, clientv3.WithKeysOnly())
				}
				ops = append(ops, clientv3.OpGet(key, o...))
			}
			r, err := ask(ctx, func(ctx context.Context) (*clientv3.TxnResponse, error) {
				return m.client.Txn(ctx).Then(ops...).Commit()
			})
			if tooLong(err) && len(some) > 1 {
				some = some[:len(some)/2]
				continue
			}
			if err != nil {
				return nil, err
			}
			for _, answer := range r.Responses {
				var is *mvccpb.KeyValue
				for _, kv := range answer.GetResponseRange().Kvs { // one, or none
					is = kv
				}
				all = append(all, is)
			}
			break
		}
		of = of[len(some):]
	}
	return all, nil
}
