package registry

// This file tests how hosts are found among keys that are nobody's.

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/funet/funet/tests/etcd"
	"github.com/funet/funet/uspace/cluster"
)

// Rule: the numbers of hosts are in the order of their keys, and each is there once.
func TestInOrder(t *testing.T) {
	all := inOrder()
	if !slices.IsSortedFunc(all, func(a, b uint16) int { return strings.Compare(hostName(a), hostName(b)) }) ||
		len(all) != cluster.MaxNodes || len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("%d numbers, %v...", len(all), all[:20])
	}
}

// Rule: all hosts are found, and only in the revision that is asked for, however few pages are read
// before names are asked for one by one.
func TestReadHosts(t *testing.T) {
	s := etcd.Start(t)
	m := &Member{client: s.Client, prefix: "/lab/"}
	want := []uint16{0, 1, 10, 11, 65535, 7, 9999}
	slices.SortFunc(want, func(a, b uint16) int { return strings.Compare(hostName(a), hostName(b)) })
	for i, host := range want {
		var ops []clientv3.Op
		for n := range 100 {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("/lab/%s/%d", hostName(host), n), ""),
				clientv3.OpPut(fmt.Sprintf("/lab/hosts/0%d-%d", i, n), "")) // of no host
		}
		ops = append(ops[:120], clientv3.OpPut("/lab/"+hostName(host), fmt.Sprint(host)))
		if _, err := s.Client.Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.Client.Get(t.Context(), "/lab/hosts/7")
	if err != nil {
		t.Fatal(err)
	}
	s.Put("/lab/hosts/8", "later")
	for _, most := range []int{0, 1, 2, mostPages} {
		for _, only := range []bool{true, false} {
			var got []uint16
			at, err := m.readHosts(t.Context(), r.Header.Revision, most, only, func(kv *mvccpb.KeyValue) {
				if k, _, host := readKey(strings.TrimPrefix(string(kv.Key), m.prefix)); k == hostKey {
					got = append(got, host)
					if string(kv.Value) != fmt.Sprint(host) != only {
						t.Errorf("%s: %q", kv.Key, kv.Value)
					}
				}
			})
			if err != nil || at != r.Header.Revision || !slices.Equal(got, want) {
				t.Errorf("%d pages: hosts %v in revision %d, %v; want %v in %d", most, got, at, err, want,
					r.Header.Revision)
			}
		}
	}
}
