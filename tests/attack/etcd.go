package attack

// This file writes to a cluster's table in etcd (package ctl/registry), as the root of one of its
// hosts may: garbage, GIDs in all hosts' names, and deletions of others' keys, without end, or
// all below one GID.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/funet/funet/uspace/arctic"
)

// Etcd lists the attacks on a cluster's table.
func Etcd() []Attack {
	return []Attack{{Name: "etcd_flood", Does: "a host that writes garbage, GIDs and deletions of others' to etcd",
		Foreign: true, begin: (*player).dialEtcd, round: (*player).scribbleTable},
		{Name: "etcd_gid", Does: "a host that writes below one GID in etcd, in all hosts' names and in none",
			Foreign: true, begin: (*player).dialEtcd, round: (*player).scribbleBelow}}
}

const (
	// tableWrites is how many keys a transaction writes. Etcd's own limit is 128.
	tableWrites = 100
	// tableWithin is how long one may take.
	tableWithin = 3 * time.Second
)

func (p *player) dialEtcd() (err error) {
	p.table, err = clientv3.New(clientv3.Config{Endpoints: []string{p.c.Etcd}, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("reaching etcd: %w", err)
	}
	return nil
}

// scribbleTable writes a transaction. Those that etcd refuses are lost.
func (p *player) scribbleTable() (done int) {
	ctx, stop := context.WithTimeout(context.Background(), tableWithin)
	defer stop()
	var ops []clientv3.Op
	written := map[string]bool{} // a transaction writes a key once
	for len(ops) < tableWrites {
		host, gid := rand.IntN(len(p.c.Places)), 1+rand.IntN(arctic.MaxGID)
		key := fmt.Sprintf("%sgroups/%d/%d", p.c.Prefix, gid, p.c.Host)
		write := func() clientv3.Op { return clientv3.OpPut(key, fmt.Sprint(rand.Uint64())) }
		switch rand.IntN(1000) {
		case 0: // a host's number
			key = fmt.Sprintf("%shosts/%d", p.c.Prefix, host)
			write = func() clientv3.Op { return clientv3.OpDelete(key) }
		case 1, 2, 3, 4: // hosts that there are not
			key = fmt.Sprintf("%shosts/%d", p.c.Prefix, len(p.c.Places)+rand.IntN(1000))
		case 5, 6, 7, 8: // keys of no form
			key = fmt.Sprintf("%s%d", p.c.Prefix, rand.Uint64())
			write = func() clientv3.Op { return clientv3.OpPut(key, string(make([]byte, rand.IntN(8192)))) }
		case 9:
			key = p.c.Prefix + "epoch"
		default:
			if rand.IntN(4) == 0 {
				key = fmt.Sprintf("%sgroups/%d/%d", p.c.Prefix, gid, host)
			}
			if rand.IntN(4) == 0 {
				write = func() clientv3.Op { return clientv3.OpDelete(key) }
			}
		}
		if !written[key] {
			written[key] = true
			ops = append(ops, write())
		}
	}
	return p.commit(ctx, ops)
}

func (p *player) commit(ctx context.Context, ops []clientv3.Op) (done int) {
	if _, err := p.table.Txn(ctx).Then(ops...).Commit(); err != nil {
		return 0
	}
	return len(ops)
}

// scribbleBelow writes a transaction below GID 1. Each host's name is in each, and others from a
// random one on.
func (p *player) scribbleBelow() (done int) {
	ctx, stop := context.WithTimeout(context.Background(), tableWithin)
	defer stop()
	var ops []clientv3.Op
	first := len(p.c.Places) + rand.IntN(1<<16)
	for n := range tableWrites {
		name := n
		if n >= len(p.c.Places) {
			name = first + n
		}
		ops = append(ops, clientv3.OpPut(fmt.Sprintf("%sgroups/1/%d", p.c.Prefix, name), fmt.Sprint(rand.Uint64())))
	}
	return p.commit(ctx, ops)
}
