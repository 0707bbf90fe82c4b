package registry_test

// This file tests members with a real etcd: hosts and groups by lease, and etcd away.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/registry"
	"github.com/funet/funet/tests/etcd"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
)

// patience bounds every wait, and is far longer than any wait takes.
const patience = time.Minute

func options(s *etcd.Server, node int) registry.Options {
	return registry.Options{
		Etcd: &config.Etcd{Endpoints: []string{s.Endpoint}, Prefix: "/lab/", Lease: 2 * time.Second},
		Own: registry.Host{Node: uint16(node), Name: fmt.Sprintf("host-%d", node), Iface: "eth1",
			MAC: net.HardwareAddr{2, 0, 0, 0, byte(node >> 8), byte(node)}},
		Interfaces: []string{"eth1"}}
}

// member is a member whose table can be waited for.
type member struct {
	*registry.Member
	t testing.TB
}

func join(t testing.TB, o registry.Options) *member {
	t.Helper()
	m, err := registry.Join(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	k := &member{m, t}
	t.Cleanup(func() { _ = k.leave(false) }) // the test may have left before
	return k
}

func (m *member) leave(keep bool) error {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	return m.Leave(ctx, keep)
}

// sees waits until the table has these hosts, and only these.
func (m *member) sees(nodes ...int) *registry.Peers {
	m.t.Helper()
	return m.until(fmt.Sprintf("hosts %v", nodes), func(p *registry.Peers) bool {
		return slices.Equal(present(p), nodes)
	})
}

func present(p *registry.Peers) (nodes []int) {
	for i, x := range p.File.Peers {
		if !x.Absent {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

func (m *member) until(what string, so func(*registry.Peers) bool) *registry.Peers {
	m.t.Helper()
	end := time.After(patience)
	for {
		p := m.Peers()
		if so(p) {
			return p
		}
		select {
		case <-m.News():
		case <-end:
			m.t.Fatalf("waited in vain for %s: hosts %v, refused %v, state %+v", what, present(p), p.Refused, m.State())
		}
	}
}

// await waits for something that has no event.
func await(t testing.TB, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !so(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

var tokens = func() (t [3]attach.Token) {
	for i := range t {
		t[i] = attach.NewToken()
	}
	return t
}()

func (m *member) take(gid int, token attach.Token, node int) error {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	return m.Take(ctx, uint16(gid), registry.ClaimOf(uint16(gid), token, 0, []uint16{0, 1, 2}, uint16(node)))
}

// Rule: a host is in the table of all while its daemon is there, and goes when it leaves. The
// numbers of the others stay as they are.
func TestHostsComeAndGo(t *testing.T) {
	s := etcd.Start(t)
	a, b, c := join(t, options(s, 0)), join(t, options(s, 1)), join(t, options(s, 2))
	for _, m := range []*member{a, b, c} {
		p := m.sees(0, 1, 2)
		if err := p.File.Validate(); err != nil || p.File.Peers[2].MAC.String() != "02:00:00:00:00:02" ||
			p.Names[1] != "host-1" {
			t.Errorf("%+v, %v", p, err)
		}
	}
	if err := b.leave(false); err != nil {
		t.Error(err)
	}
	a.sees(0, 2)
	if p := c.sees(0, 2); len(p.File.Peers) != 3 || !p.File.Peers[1].Absent {
		t.Errorf("%+v", p.File)
	}
}

// Rule: a host whose daemon was killed goes when its lease ends, and so do its groups. A daemon
// that starts before that takes over number and groups, and Sweep gives back those that it does not
// want.
func TestLeasesEnd(t *testing.T) {
	s := etcd.Start(t)
	a := join(t, options(s, 0))
	o := options(s, 1)
	o.Etcd.Lease = 6 * time.Second // in which another life must begin
	killed := join(t, o)
	if err := killed.take(5, tokens[0], 1); err != nil {
		t.Fatal(err)
	}
	if err := killed.leave(true); err != nil { // as a kill leaves it
		t.Fatal(err)
	}
	again := join(t, o)
	if err := a.take(5, tokens[1], 0); !errors.Is(err, registry.ErrTaken) {
		t.Errorf("the group of a job that may come back: %v", err)
	}
	again.Sweep()
	await(t, "GID 5 is free", func() bool { return a.take(5, tokens[1], 0) == nil })
	if err := again.leave(true); err != nil {
		t.Fatal(err)
	}
	a.sees(0)
}

// Rule: a GID is one job's, on all hosts, until it is given back on all of them.
func TestGroupsAreTakenOnce(t *testing.T) {
	s := etcd.Start(t)
	a, b, c := join(t, options(s, 0)), join(t, options(s, 1)), join(t, options(s, 2))
	if err := errors.Join(a.take(7, tokens[0], 0), b.take(7, tokens[0], 1)); err != nil {
		t.Fatal(err)
	}
	if err := c.take(7, tokens[1], 2); !errors.Is(err, registry.ErrTaken) {
		t.Errorf("of another job: %v", err)
	}
	if err := c.take(8, tokens[1], 2); err != nil {
		t.Error(err)
	}
	a.Release(7)
	await(t, "one key less", func() bool { return len(s.Keys("/lab/groups/7/")) == 1 })
	if err := c.take(7, tokens[1], 2); !errors.Is(err, registry.ErrTaken) {
		t.Errorf("of another job that still has a host: %v", err)
	}
	b.Release(7)
	await(t, "no key", func() bool { return len(s.Keys("/lab/groups/7/")) == 0 })
	if err := c.take(7, tokens[1], 2); err != nil {
		t.Error(err)
	}
	for key, value := range s.Keys("/lab/") {
		for _, token := range tokens {
			if strings.Contains(value, token.Text()) {
				t.Errorf("%s has a token: %s", key, value)
			}
		}
	}
}

// Rule: a host that writes as fast as it can has members read the table now and then, instead of
// following each change. Meanwhile hosts come, and GIDs are taken once. After it they follow
// changes again.
func TestFlood(t *testing.T) {
	s := etcd.Start(t)
	a := join(t, options(s, 0))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ctx.Err() == nil; n++ {
			var ops []clientv3.Op
			for i := range 100 {
				ops = append(ops, clientv3.OpPut(fmt.Sprintf("/lab/groups/%d/9", 1000+i), fmt.Sprint(n)))
			}
			_, _ = s.Client.Txn(ctx).Then(ops...).Commit() // it ends in the middle of one
		}
	}()
	await(t, "a flood is noticed", func() bool { return a.State().Floods > 0 })
	b := join(t, options(s, 1))
	a.sees(0, 1)
	b.sees(0, 1)
	if err := errors.Join(a.take(7, tokens[0], 0), b.take(7, tokens[0], 1)); err != nil {
		t.Error(err)
	}
	if err := b.take(7, tokens[1], 1); !errors.Is(err, registry.ErrTaken) {
		t.Errorf("of another job: %v", err)
	}
	before := a.State().Floods
	await(t, "floods go on", func() bool { return a.State().Floods > before })
	stop()
	<-ended
	c := join(t, options(s, 2))
	a.sees(0, 1, 2)
	c.sees(0, 1, 2)
}

// Rule: a host that writes below one GID as fast as it can keeps no job from it: garbage of any
// length, in the names of all hosts and of none, and also the keys of those that take the GID. It
// is taken once all the same, if not those.
func TestFloodBelowOneGID(t *testing.T) {
	s := etcd.Start(t)
	const node = 7 // the first; their keys come after those that can be read
	var all []*member
	for i := range 3 {
		all = append(all, join(t, options(s, node+i)))
	}
	take := func(i int, token attach.Token) error {
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		return all[i].Take(ctx, 7, registry.ClaimOf(7, token, 0, []uint16{node, node + 1, node + 2}, uint16(node+i)))
	}
	lease, err := s.Client.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan int, 1)
	var over atomic.Bool
	over.Store(true)
	var writers sync.WaitGroup
	for writer := range 2 {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				var ops []clientv3.Op
				for i := range 96 {
					// More than are read at once.
					key := fmt.Sprintf("/lab/groups/7/%d", 10+96*(n%60)+i)
					switch {
					case i < 3 && writer == 0 && over.Load():
						key = fmt.Sprint("/lab/groups/7/", node+i)
					case i%8 == 7:
						key += strings.Repeat("x", i)
					}
					if i%2 > 0 {
						ops = append(ops, clientv3.OpPut(key, fmt.Sprint(n)))
					} else {
						ops = append(ops, clientv3.OpPut(key, "", clientv3.WithLease(lease.ID)))
					}
				}
				if _, err := s.Client.Txn(ctx).Then(ops...).Commit(); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				if n == 100 && writer == 0 {
					written <- n
				}
			}
		})
	}
	<-written
	for round := range 4 {
		over.Store(round < 2)
		if err := errors.Join(take(0, tokens[0]), take(1, tokens[0])); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		if err := take(2, tokens[1]); round == 3 && !errors.Is(err, registry.ErrTaken) {
			t.Errorf("round %d: of another job: %v", round, err)
		}
		all[0].Release(7)
		all[1].Release(7)
		all[2].Release(7)
		await(t, "the other job has given it back, if it had it", func() bool {
			r, err := s.Client.Get(t.Context(), fmt.Sprint("/lab/groups/7/", node+2))
			return err == nil && (len(r.Kvs) == 0 || !strings.Contains(string(r.Kvs[0].Value), "job"))
		})
	}
	stop()
	writers.Wait()
}

// Rule: of an etcd of three members one at a time may be killed, also the one that leads. GIDs are
// taken all the while, and each once. Those that were taken stay so.
func TestMembersOfEtcd(t *testing.T) {
	servers := etcd.Members(t, 3)
	own := func(node int) registry.Options {
		o := options(servers[0], node)
		o.Etcd.Lease = 10 * time.Second
		for _, s := range servers[1:] {
			o.Etcd.Endpoints = append(o.Etcd.Endpoints, s.Endpoint)
		}
		return o
	}
	all := []*member{join(t, own(0)), join(t, own(1))}
	const first, kills = 25, 2
	for gid := 1; gid <= first; gid++ {
		if err := errors.Join(all[0].take(gid, tokens[0], 0), all[1].take(gid, tokens[0], 1)); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	winners := map[int]int{} // by GID, from first+1 on
	ctx, stop := context.WithCancel(t.Context())
	var takers sync.WaitGroup
	for i, m := range all {
		takers.Go(func() {
			for gid := first + 1; gid < 1000 && ctx.Err() == nil; gid++ {
				err := m.take(gid, tokens[i+1], i)
				mu.Lock()
				if err == nil {
					winners[gid]++
				} else if !errors.Is(err, registry.ErrTaken) {
					t.Errorf("GID %d: %v", gid, err)
				}
				mu.Unlock()
			}
		})
	}
	taken := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(winners)
	}
	more := func(when string) {
		t.Helper()
		before := taken()
		await(t, "GIDs are taken "+when, func() bool { return taken() >= before+5 })
	}
	for range kills {
		more("at first")
		i := slices.IndexFunc(servers, (*etcd.Server).Leads)
		if i < 0 {
			t.Fatal("no member leads")
		}
		servers[i].Kill()
		more("by two members")
		servers[i].Restart()
	}
	more("by all")
	stop()
	takers.Wait()
	mu.Lock()
	defer mu.Unlock()
	for gid, n := range winners {
		if n != 1 {
			t.Errorf("GID %d is that of %d jobs", gid, n)
		}
	}
	for i, m := range all {
		await(t, "all groups are in etcd", func() bool {
			n := 0
			for key := range servers[0].Keys("/lab/groups/") {
				if gid := 0; strings.HasSuffix(key, fmt.Sprint("/", i)) {
					if _, err := fmt.Sscanf(key, "/lab/groups/%d/", &gid); err == nil && gid <= first {
						n++
					}
				}
			}
			return n == first
		})
		if lost := m.Lost(); len(lost) > 0 || !m.State().Up {
			t.Errorf("lost %v, %+v", lost, m.State())
		}
	}
}

// Rule: when etcd is restored from a copy, members say so, and write again what is missing there,
// with the leases that they have. GIDs that were taken after the copy was made are not given to
// others meanwhile, also not by a host that starts then. It does not matter how far the restored
// etcd has come before members see it.
func TestRestored(t *testing.T) {
	far := []int{0, 200}
	if long.Short() {
		far = far[1:]
	}
	for _, far := range far {
		t.Run(fmt.Sprint(far), func(t *testing.T) {
			s := etcd.Start(t)
			var mu sync.Mutex
			var lines []string
			enter := func(node int) *member {
				o := options(s, node)
				o.Etcd.Lease = 20 * time.Second // in which the test looks at what is refused
				o.Log = func(line string) {
					mu.Lock()
					lines = append(lines, line)
					mu.Unlock()
				}
				return join(t, o)
			}
			told := func() (n int) {
				mu.Lock()
				defer mu.Unlock()
				for _, line := range lines {
					if strings.Contains(line, "was restored from a copy: it is at") && !strings.Contains(line, "\n") {
						n++
					}
				}
				return n
			}
			all := []*member{enter(0), enter(1)}
			all[1].Sweep() // what it does not want goes
			ours := func(gid int) {
				t.Helper()
				if err := errors.Join(all[0].take(gid, tokens[0], 0), all[1].take(gid, tokens[0], 1)); err != nil {
					t.Fatal(err)
				}
			}
			ours(1)
			ours(2)
			s.Kill()
			s.Copy()
			s.Restart()
			await(t, "both are back", func() bool { return all[0].State().Up && all[1].State().Up })
			// A lease ends, so that the one in the copy is nobody's.
			r, err := s.Client.Get(t.Context(), "/lab/hosts/1")
			if err == nil {
				_, err = s.Client.Revoke(t.Context(), clientv3.LeaseID(r.Kvs[0].Lease))
			}
			if err != nil {
				t.Fatal(err)
			}
			await(t, "all is back", func() bool {
				return len(s.Keys("/lab/groups/")) == 4 && len(s.Keys("/lab/hosts/")) == 2
			})
			all = append(all, enter(2))
			all[1].Release(2)
			ours(3)
			if err := all[2].take(4, tokens[0], 2); err != nil {
				t.Fatal(err)
			}
			all[0].sees(0, 1, 2)
			all[1].sees(0, 1, 2)
			if told() > 0 {
				t.Fatalf("told too early: %q", lines)
			}
			s.Kill()
			s.Restore()
			at := s.Endpoint
			if far > 0 { // where members do not see it
				s.Endpoint = etcd.Free(t)
				s.Restart()
				life := `{"host":"x","life":"0123456789abcdef","iface":"eth1",` +
					`"mac":"02:00:00:00:00:77","encap":"ethernet"}`
				for n := range far {
					s.Put(fmt.Sprint("/lab/hosts/", 100+n), life)
				}
				s.Kill()
				s.Endpoint = at
			}
			s.Restart()
			// What others try at once is refused, or waits.
			try := func(node, gid int) error {
				ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer stop()
				return all[node].Take(ctx, uint16(gid), registry.ClaimOf(uint16(gid), tokens[1], 0, []uint16{0, 1, 2},
					uint16(node)))
			}
			for range 3 {
				for gid := 1; gid <= 3; gid++ {
					if err := try(2, gid); err == nil {
						t.Errorf("GID %d was given to another job", gid)
					}
				}
				if err := try(1, 4); err == nil {
					t.Error("GID 4 was given to another job")
				}
			}
			await(t, "each has told it", func() bool { return told() == len(all) })
			all = append(all, enter(3)) // it was told
			for node := range all {
				err := try(node, 9)
				if err == nil || !strings.Contains(err.Error(), "restored from a copy; new jobs from") {
					t.Errorf("host %d takes a GID before all have written theirs: %v", node, err)
				}
			}
			await(t, "all is there with the leases of hosts", func() bool {
				r, err := s.Client.Get(t.Context(), "/lab/", clientv3.WithPrefix())
				if err != nil {
					t.Fatal(err)
				}
				of := map[string]int64{}
				for _, kv := range r.Kvs {
					of[strings.TrimPrefix(string(kv.Key), "/lab/")] = kv.Lease
				}
				for key, host := range map[string]string{"groups/1/0": "0", "groups/1/1": "1", "groups/2/0": "0",
					"groups/3/0": "0", "groups/3/1": "1", "groups/4/2": "2"} {
					if of[key] == 0 || of[key] != of["hosts/"+host] {
						return false
					}
				}
				_, stale := of["groups/2/1"]
				return !stale
			})
			for node, m := range all {
				if lost := m.Lost(); len(lost) > 0 {
					t.Errorf("host %d has lost %v", node, lost)
				}
			}
		})
	}
}

// Rule: of jobs that take a GID at once one gets it.
func TestGroupsAtOnce(t *testing.T) {
	s := etcd.Start(t)
	var all []*member
	for i := range 3 {
		all = append(all, join(t, options(s, i)))
	}
	for gid := range 40 {
		var got sync.Map
		var racing sync.WaitGroup
		for i, m := range all {
			racing.Go(func() {
				if err := m.take(gid+1, tokens[i], i); err == nil {
					got.Store(i, true)
				} else if !errors.Is(err, registry.ErrTaken) {
					t.Error(err)
				}
			})
		}
		racing.Wait()
		n := 0
		got.Range(func(_, _ any) bool { n++; return true })
		if n != 1 {
			t.Fatalf("GID %d was taken by %d jobs", gid+1, n)
		}
	}
}

// Rule: a second host with a number is refused, and told which host has it. The first goes on.
func TestOneNumberTwice(t *testing.T) {
	s := etcd.Start(t)
	a := join(t, options(s, 0))
	o := options(s, 0)
	o.Own.Name, o.Own.MAC = "other", net.HardwareAddr{2, 9, 9, 9, 9, 9}
	_, err := registry.Join(t.Context(), o)
	if !errors.Is(err, registry.ErrNumber) || !strings.Contains(err.Error(), "host-0 at 02:00:00:00:00:00") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
	if p := a.sees(0); p.Names[0] != "host-0" {
		t.Errorf("%v", p.Names)
	}
}

// Rule: a host that contradicts an earlier one, or has a value that is no host's, is not in the
// table, and is told with its key. All others are in it.
func TestLies(t *testing.T) {
	s := etcd.Start(t)
	a, b := join(t, options(s, 0)), join(t, options(s, 1))
	if err := b.take(3, tokens[0], 1); err != nil {
		t.Fatal(err)
	}
	life := `"host":"x","life":"0123456789abcdef","iface":"eth1"`
	lies := map[string]string{
		"hosts/2":     `{` + life + `,"mac":"02:00:00:00:00:01","encap":"ethernet"}`, // host 1's
		"hosts/3":     `{` + life + `,"mac":"02:00:00:00:00:03","encap":"ethernet","port":5}`,
		"hosts/4":     `{` + life + `,"address":"192.0.2.1","encap":"udp"}`,
		"hosts/5":     "\x00\xff garbage",
		"hosts/6":     `{` + life + `,"mac":"ff:ff:ff:ff:ff:ff","encap":"ethernet"}`,
		"hosts/7":     strings.Repeat("a", registry.MaxValue+1),
		"hosts/07":    `{}`,
		"hosts/65536": `{}`,
		"epoch":       `{"number":0,"identity":"x"}`,
	}
	for key, value := range lies {
		s.Put("/lab/"+key, value)
	}
	s.Put("/other/hosts/9", "not ours")
	p := a.until("all lies are refused", func(p *registry.Peers) bool { return len(p.Refused) == len(lies) })
	if !slices.Equal(present(p), []int{0, 1}) {
		t.Errorf("hosts %v", present(p))
	}
	for key := range lies {
		if !slices.ContainsFunc(p.Refused, func(s string) bool { return strings.Contains(s, key) }) {
			t.Errorf("nothing about %s in %q", key, p.Refused)
		}
	}
	// A key of a group that its host did not write does not keep others from the GID, nor does one
	// without a lease.
	s.Put("/lab/groups/21/9", "garbage")
	lease, err := s.Client.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"1", "9"} { // of another lease, and of no host
		if _, err := s.Client.Put(t.Context(), "/lab/groups/20/"+host,
			`{"job":"0123456789abcdef0123456789abcdef","uid":0,"nodes":1}`, clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
	}
	s.Put("/lab/groups/21/1", `{"job":"0123456789abcdef0123456789abcdef","uid":0,"nodes":1}`)
	if err := errors.Join(a.take(20, tokens[1], 0), a.take(21, tokens[1], 0)); err != nil {
		t.Error(err)
	}
	// The GID of a living job whose key is deleted, or replaced, is its job's again.
	for range 3 {
		s.Delete("/lab/groups/3/1")
		await(t, "the key is back", func() bool { return len(s.Keys("/lab/groups/3/1")) == 1 })
		s.Put("/lab/groups/3/1", "garbage")
		await(t, "the value is back",
			func() bool { return strings.Contains(s.Keys("/lab/groups/3/1")["/lab/groups/3/1"], "job") })
	}
	if err := a.take(3, tokens[1], 0); !errors.Is(err, registry.ErrTaken) {
		t.Errorf("%v", err)
	}
}

// Rule: a host has its share of GIDs; its keys beyond do not count.
func TestShareOfGroups(t *testing.T) {
	s := etcd.Start(t)
	a, liar := join(t, options(s, 0)), join(t, options(s, 1))
	if err := liar.take(1, tokens[0], 1); err != nil {
		t.Fatal(err)
	}
	r, err := s.Client.Get(t.Context(), "/lab/hosts/1")
	if err != nil {
		t.Fatal(err)
	}
	lease := clientv3.LeaseID(r.Kvs[0].Lease)
	value := s.Keys("/lab/groups/1/")["/lab/groups/1/1"]
	for gid := 2; gid <= 1100; gid++ {
		if _, err := s.Client.Put(t.Context(), fmt.Sprintf("/lab/groups/%d/1", gid), value,
			clientv3.WithLease(lease)); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "all keys", func() bool { return a.Peers().Groups == 1100 })
	if err := a.take(1000, tokens[1], 0); !errors.Is(err, registry.ErrTaken) {
		t.Errorf("within the share: %v", err)
	}
	if err := a.take(1050, tokens[1], 0); err != nil {
		t.Errorf("beyond the share: %v", err)
	}
}

// Rule: etcd killed, restarted, compacted, slow, or with an empty folder: hosts and groups are as
// they were, no GID is another job's, and what is asked meanwhile waits.
func TestEtcdAway(t *testing.T) {
	long.Test(t)
	s := etcd.Start(t)
	a, b := join(t, options(s, 0)), join(t, options(s, 1))
	const jobs = 100
	for gid := 1; gid <= jobs; gid++ {
		if err := errors.Join(a.take(gid, tokens[0], 0), b.take(gid, tokens[0], 1)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		c := join(t, options(s, 2))
		a.sees(0, 1, 2)
		b.sees(0, 1, 2)
		await(t, "all groups are in etcd "+when, func() bool { return len(s.Keys("/lab/groups/")) == 2*jobs })
		for gid := 1; gid <= jobs; gid++ {
			if err := c.take(gid, tokens[1], 2); !errors.Is(err, registry.ErrTaken) {
				t.Fatalf("%s: GID %d for a second job: %v", when, gid, err)
			}
		}
		if lost := maps.Clone(a.Lost()); len(lost) > 0 || len(b.Lost()) > 0 {
			t.Fatalf("%s: lost %v and %v", when, lost, b.Lost())
		}
		if err := c.leave(false); err != nil {
			t.Error(err)
		}
		a.sees(0, 1)
		b.sees(0, 1)
	}
	check("at first")
	s.Compact()
	check("compacted")
	s.Kill()
	await(t, "both notice", func() bool { return !a.State().Up && !b.State().Up })
	if got := present(a.Peers()); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("away: hosts %v", got)
	}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	err := a.Take(ctx, 200, registry.ClaimOf(200, tokens[0], 0, []uint16{0}, 0))
	if stop(); !errors.Is(err, registry.ErrAway) || strings.Contains(err.Error(), "\n") {
		t.Errorf("away: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- a.take(201, tokens[0], 0) }()
	s.Restart()
	if err := <-waited; err != nil {
		t.Errorf("a job that waited: %v", err)
	}
	a.Release(201)
	check("killed and restarted")
	s.Pause(true)
	await(t, "both notice", func() bool { return !a.State().Up && !b.State().Up })
	s.Pause(false)
	check("slow")
	s.Kill()
	s.Forget()
	s.Restart()
	await(t, "hosts are back", func() bool { return len(s.Keys("/lab/hosts/")) == 2 })
	check("with an empty folder")
}

// Rule: a job whose GID another took while this host's lease had ended is told so. It has the GID
// again when the other ends. The same goes for numbers.
func TestTakenMeanwhile(t *testing.T) {
	s := etcd.Start(t)
	a := join(t, options(s, 0))
	if err := a.take(9, tokens[0], 0); err != nil {
		t.Fatal(err)
	}
	// What etcd has when this host's lease has ended, and another was quicker.
	number := `{"host":"quick","life":"0123456789abcdef","iface":"eth1","mac":"02:00:00:00:00:99","encap":"ethernet"}`
	lease, err := s.Client.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.Txn(t.Context()).Then(
		clientv3.OpPut("/lab/hosts/0", number, clientv3.WithLease(lease.ID)),
		clientv3.OpDelete("/lab/groups/9/0"),
		clientv3.OpPut("/lab/hosts/5", strings.ReplaceAll(number, ":99", ":55"), clientv3.WithLease(lease.ID)),
		clientv3.OpPut("/lab/groups/9/5", `{"job":"0123456789abcdef0123456789abcdef","uid":0,"nodes":1}`,
			clientv3.WithLease(lease.ID))).Commit(); err != nil {
		t.Fatal(err)
	}
	await(t, "the number is lost", func() bool { return errors.Is(a.State().Why, registry.ErrNumber) })
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	if err := a.Take(ctx, 10, registry.ClaimOf(10, tokens[0], 0, []uint16{0}, 0)); !errors.Is(err, registry.ErrNumber) {
		t.Errorf("%v", err)
	}
	stop()
	s.Delete("/lab/hosts/0")
	await(t, "the number is back", func() bool { return a.State().Up })
	await(t, "the group is lost", func() bool { return errors.Is(a.Lost()[9], registry.ErrTaken) })
	s.Delete("/lab/groups/9/5")
	await(t, "the group is back", func() bool { return len(a.Lost()) == 0 && len(s.Keys("/lab/groups/9/0")) == 1 })
}

// Rule: a thousand hosts see the same table, while a tenth of them leaves and comes back.
func TestThousandHosts(t *testing.T) {
	s := etcd.Start(t)
	hosts := 1000
	if long.Short() {
		hosts = 100
	}
	all := make([]*member, hosts)
	var each sync.WaitGroup
	forAll := func(from, step int, do func(int)) {
		room := make(chan struct{}, 8)
		for i := from; i < hosts; i += step {
			each.Go(func() {
				room <- struct{}{}
				do(i)
				<-room
			})
		}
		each.Wait()
	}
	enter := func(i int) {
		o := options(s, i)
		o.Etcd.Lease = time.Minute
		m, err := registry.Join(t.Context(), o)
		if err != nil {
			t.Error(err)
			return
		}
		all[i] = &member{m, t}
	}
	t.Cleanup(func() {
		forAll(0, 1, func(i int) {
			if all[i] != nil {
				_ = all[i].leave(true) // etcd ends, too
			}
		})
	})
	forAll(0, 1, enter)
	if t.Failed() {
		t.FailNow()
	}
	numbers := make([]int, hosts)
	for i := range numbers {
		numbers[i] = i
	}
	same := func(from, step int, want []int) {
		t.Helper()
		for i := from; i < hosts; i += step {
			all[i].sees(want...)
		}
	}
	same(0, 1, numbers)
	forAll(1, 10, func(i int) {
		if err := all[i].leave(false); err != nil {
			t.Error(err)
		}
	})
	rest := slices.DeleteFunc(slices.Clone(numbers), func(i int) bool { return i%10 == 1 })
	same(0, 10, rest)
	forAll(1, 10, enter)
	same(0, 1, numbers)
}
