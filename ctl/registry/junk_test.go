package registry_test

// This file tests members beside keys that are nobody's, in any number and of any length.

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/funet/funet/ctl/registry"
	"github.com/funet/funet/tests/etcd"
)

// junk writes keys.
func junk(t *testing.T, s *etcd.Server, n int, key func(i int) string) {
	t.Helper()
	for i := 0; i < n; {
		var ops []clientv3.Op
		for ; i < n && len(ops) < 128; i++ {
			ops = append(ops, clientv3.OpPut(key(i), ""))
		}
		if _, err := s.Client.Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
}

var asked = regexp.MustCompile(`(?m)^grpc_server_started_total\{grpc_method="(?:Range|Txn)",.* (\d+)$`)

// questions returns how many questions etcd was asked until now.
func questions(t *testing.T, s *etcd.Server) (n int) {
	t.Helper()
	r, err := http.Get("http://" + s.Endpoint + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	all := asked.FindAllStringSubmatch(string(text), -1)
	if len(all) != 2 {
		t.Fatalf("etcd counts %q", all)
	}
	for _, one := range all {
		if f, err := strconv.Atoi(one[1]); err == nil {
			n += f
		}
	}
	return n
}

// Rule: keys below hosts/ that are no host's, however many, make no job wait: a GID with more keys
// than can be read is taken once, by hosts with such keys between them, with few questions.
func TestJunkAmongHosts(t *testing.T) {
	s := etcd.Start(t)
	low, high := join(t, options(s, 3)), join(t, options(s, 41))
	junk(t, s, 5000, func(i int) string { return fmt.Sprint("/lab/groups/7/", 10000+i) })
	// They come before hosts/41.
	junk(t, s, 60000, func(i int) string { return fmt.Sprintf("/lab/hosts/4/%d", i) })
	await(t, "the flood is over", func() bool { return high.State().Up && low.State().Up })
	before := questions(t, s)
	if err := high.take(7, tokens[0], 41); err != nil {
		t.Fatal(err)
	}
	if err := low.take(7, tokens[1], 3); !errors.Is(err, registry.ErrTaken) {
		t.Errorf("of another job: %v", err)
	}
	if n := questions(t, s) - before; n > 60 {
		t.Errorf("etcd was asked %d times", n)
	}
}

// Rule: keys and values that are longer than all that can be read at once keep no host from the
// table, and no job from a GID.
func TestLongJunk(t *testing.T) {
	s := etcd.Start(t)
	a := join(t, options(s, 0))
	long := strings.Repeat("x", 1<<20)
	for i := range 9 { // of 8 MiB
		s.Put(fmt.Sprint("/lab/hosts/", 100+i), long)
		s.Put(fmt.Sprint("/lab/groups/7/", i, long), "")
		s.Put(fmt.Sprint("/lab/z/", i, long), "")
	}
	for i := range 2 { // they can be read
		s.Put(fmt.Sprint("/lab/groups/8/", i, long), "")
	}
	b := join(t, options(s, 1))
	a.sees(0, 1)
	b.sees(0, 1)
	for gid := 7; gid <= 8; gid++ {
		if err := a.take(gid, tokens[0], 0); err != nil {
			t.Error(err)
		}
		if err := b.take(gid, tokens[1], 1); !errors.Is(err, registry.ErrTaken) {
			t.Errorf("of another job: %v", err)
		}
	}
}
