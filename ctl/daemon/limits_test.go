package daemon_test

// This file tests the limits of users: the user of a number, the total of a rule's users,
// the reserve that nobody alone can take, and admission.

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// Users that nobody else is.
const (
	alice     = 53001
	bob       = 53002
	ofAlice   = 600000 // her subordinate numbers
	someGroup = 53100
)

// dialIn connects as another user, in one group: the kernel notes who connects, which is
// what the thread is (unix(7), SO_PEERCRED).
func dialIn(t testing.TB, socket string, uid int, group int) (k *client) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and the goroutine ends with the thread
		groups := [1]uint32{uint32(group)}
		if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(&groups)), 0); e != 0 {
			t.Errorf("setting the groups: %v", e)
			return
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); e != 0 {
			t.Errorf("becoming user %d: %v", uid, e)
			return
		}
		k = dial(t, socket)
	}()
	<-done
	if k == nil {
		t.FailNow()
	}
	return k
}

// segmentOf makes a segment of the client's context.
func segmentOf(k *client, base uint32, bytes uint64) error {
	k.t.Helper()
	answer, fds := k.ask(attach.SegmentRequest{Base: base, Rights: funi.Source, Bytes: bytes}.Encode(), 1)
	attach.CloseDescriptors(fds)
	_, err := attach.DecodeSegmentAnswer(answer)
	return err
}

// logged collects what a daemon logs.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

// has reports whether a line has all parts.
func (l *logged) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) })
	})
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// subordinates gives the daemon a file of subordinate numbers.
func (b *bed) subordinates(c *daemon.Config, text string) (path string) {
	b.t.Helper()
	path = filepath.Join(b.dir, "subuid")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
	c.Subordinates = path
	return path
}

// Rule: what the subordinate numbers of a user have counts for him: connections, jobs,
// contexts and bytes. What he has he sees in the status, and others do not.
func TestSubordinateNumbersCountForTheirOwner(t *testing.T) {
	b := newBed(t)
	context, _ := funi.SharedSize(16)
	d := b.start(0, func(c *daemon.Config) {
		b.subordinates(c, fmt.Sprintf("%d:%d:65536\n", alice, ofAlice))
		c.Rules = []config.Rule{
			{Who: config.Who{Users: []uint32{alice, bob}}, Contexts: 3, Jobs: 2, Connections: 7,
				Bytes: int64(3*context + 8192)},
			{Who: config.Who{Users: []uint32{0}}},
		}
	})
	token := attach.NewToken()
	owner := dialIn(t, d.socket, alice, alice)
	gid, err := owner.Job(attach.JobRequest{Token: token, Cards: []uint16{0, 0, 0}})
	wantError(t, err, nil)
	_, err = dialIn(t, d.socket, ofAlice, ofAlice).Job(attach.JobRequest{Token: token, Cards: []uint16{0}})
	wantError(t, err, nil)
	third := dialIn(t, d.socket, ofAlice+1, ofAlice+1)
	_, err = third.Job(attach.JobRequest{Token: token, Cards: []uint16{0}})
	wantError(t, err, attach.ErrQuota) // of jobs
	wantError(t, third.attach(attach.AttachRequest{GID: gid, Slots: 16, Token: token}), nil)
	var nodes []*client
	for n := uint16(1); n < 3; n++ {
		k := dialIn(t, d.socket, ofAlice+2*int(n), ofAlice)
		wantError(t, k.attach(attach.AttachRequest{GID: gid, Node: n, Slots: 16, Token: token}), nil)
		nodes = append(nodes, k)
	}
	wantError(t, segmentOf(nodes[0], 16, 8192), nil)
	wantError(t, segmentOf(nodes[1], 16, 16), attach.ErrQuota) // of bytes
	wantError(t, dialIn(t, d.socket, ofAlice+65535, 1).attach(attach.AttachRequest{GID: gid, Node: 1, Slots: 16,
		Token: token}), attach.ErrTaken)
	seventh := dialIn(t, d.socket, ofAlice+9, 1)
	if _, err := seventh.Job(attach.JobRequest{Token: token, Cards: []uint16{0}}); err == nil {
		t.Error("one more job")
	}
	eighth := dialIn(t, d.socket, alice, alice)
	answer, _, err := attach.Receive(eighth.Conn, eighth.Buffer, 0)
	if h, _ := attach.DecodeHeader(answer); err != nil || h.Status != attach.ErrQuota {
		t.Errorf("an eighth connection: %v, %v", h.Status, err)
	}
	// Bob, and the number after hers, have their own.
	other := dialIn(t, d.socket, bob, bob)
	if _, err := other.Job(attach.JobRequest{Token: token, Cards: []uint16{0}}); err != nil {
		t.Error(err)
	}
	if s := statusOn(t, other); len(s.Contexts) != 0 || len(s.Jobs) != 1 {
		t.Errorf("bob sees %+v", s)
	}
	if s := statusOn(t, owner); len(s.Contexts) != 3 || len(s.Jobs) != 2 || s.Connections != 7 {
		t.Errorf("alice sees %+v", s)
	}
	_, err = dialIn(t, d.socket, ofAlice+65536, 1).Job(attach.JobRequest{Token: token, Cards: []uint16{0}})
	wantError(t, err, attach.ErrQuota) // no rule knows it
}

// Rule: the file of subordinate numbers is read again when it has changed, and what is wrong in
// it is logged.
func TestSubordinateNumbersAreReadAgain(t *testing.T) {
	b := newBed(t)
	var log logged
	var path string
	d := b.start(0, func(c *daemon.Config) {
		path = b.subordinates(c, "wrong\n")
		c.Log = log.add
		c.Rules = []config.Rule{{Who: config.Who{Users: []uint32{alice}}, Jobs: 1},
			{Who: config.Who{Users: []uint32{0}}}}
	})
	if !log.has(path + ":1:") {
		t.Errorf("logged: %q", log.lines)
	}
	token := attach.NewToken()
	job := func() error {
		k := dialIn(t, d.socket, ofAlice, 1)
		defer k.Close()
		_, err := k.Job(attach.JobRequest{Token: token, Cards: []uint16{0}})
		return err
	}
	wantError(t, job(), attach.ErrQuota) // no rule knows it
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d:%d:1\n:::\n", alice, ofAlice), 0o644); err != nil {
		t.Fatal(err)
	}
	until(t, "the file is read again", func() bool { return job() == nil })
	if !log.has(path + ":2:") {
		t.Errorf("logged: %q", log.lines)
	}
}

// Rule: all users of a rule together have at most its total, and other rules have theirs.
func TestTotalOfARule(t *testing.T) {
	b := newBed(t)
	d := b.start(0, func(c *daemon.Config) {
		c.Rules = []config.Rule{{Who: config.Who{Groups: []uint32{someGroup}}, Jobs: 2, Total: config.Amounts{Jobs: 3}},
			{Jobs: 2}}
	})
	token := attach.NewToken()
	job := func(uid, group int) (*client, error) {
		k := dialIn(t, d.socket, uid, group)
		_, err := k.Job(attach.JobRequest{Token: token, Cards: []uint16{0}})
		return k, err
	}
	var last *client
	for n, want := range []error{nil, nil, attach.ErrQuota} {
		k, err := job(alice, someGroup)
		if wantError(t, err, want); n == 1 {
			last = k
		}
	}
	_, err := job(bob, someGroup)
	wantError(t, err, nil)
	_, err = job(bob+1, someGroup)
	wantError(t, err, attach.ErrQuota) // the group has three
	for range 2 {
		_, err = job(bob+2, 1)
		wantError(t, err, nil)
	}
	last.Close()
	until(t, "there is room again", func() bool {
		k, err := job(bob+1, someGroup)
		if err != nil {
			k.Close()
		}
		return err == nil
	})
}

// Rule: of the card's memory a user gets no more than leaves something for others, whatever his
// rule says.
func TestReserveOfMemory(t *testing.T) {
	b := newBed(t)
	d := b.start(0, func(c *daemon.Config) { c.MostMemory = 1 << 20 })
	_, nodes := group(t, []*running{d}, 0)
	var err error
	made := 0
	for base := uint32(1 << 12); err == nil && made < 64; base += 1 << 15 {
		if err = segmentOf(nodes[0], base, 1<<15); err == nil {
			made++
		}
	}
	wantError(t, err, attach.ErrQuota)
	if used := d.status(t).Bytes; used > 3<<18 || used < 1<<19 {
		t.Errorf("one has %d bytes of %d", used, 1<<20)
	}
	k := dialIn(t, d.socket, bob, bob)
	token := attach.NewToken()
	gid, err := k.Job(attach.JobRequest{Token: token, Cards: []uint16{0}})
	wantError(t, err, nil)
	k = dialIn(t, d.socket, bob, bob)
	wantError(t, k.attach(attach.AttachRequest{GID: gid, Slots: 16, Token: token}), nil)
	wantError(t, segmentOf(k, 16, 1<<16), nil)
}

// Rule: of more connections than a user may have, at once, as many as he may have are served, the
// rest is told or closed, and what the daemon has for them is bounded; others are served meanwhile.
func TestManyConnections(t *testing.T) {
	b := newBed(t)
	const allowed, many = 100, 400
	d := b.start(0, func(c *daemon.Config) { c.Rules = []config.Rule{{Connections: allowed}} })
	info, err := attach.EncodeBody(attach.KindInfo, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.status(t)
	before := runtime.NumGoroutine()
	var all []*client
	for range many {
		k := dialIn(t, d.socket, alice, alice)
		_ = attach.Send(k.Conn, info)
		all = append(all, k)
	}
	if s := d.status(t); s.Connections > allowed+1 {
		t.Errorf("%d connections", s.Connections)
	}
	if n := runtime.NumGoroutine() - before; n > allowed+20 {
		t.Errorf("%d goroutines for %d connections", n, allowed)
	}
	served, told, closed := 0, 0, 0
	for _, k := range all {
		answer, _, err := attach.Receive(k.Conn, k.Buffer, 0)
		h, _ := attach.DecodeHeader(answer)
		switch {
		case err != nil:
			closed++
		case h.Status == attach.Done:
			served++
		case h.Status == attach.ErrQuota:
			told++
		default:
			t.Fatalf("answered with %v", h.Status)
		}
	}
	if served != allowed || told == 0 || served+told+closed != many {
		t.Errorf("%d are served, %d told that they are too many, %d closed", served, told, closed)
	}
}

// Rule: a stream to a host where its group is not present waits for it, and holds up nobody. All of
// it arrives once when the group appears. The cards would wait an hour for an answer.
func TestAbsentGroupHoldsUpNobody(t *testing.T) {
	b := newBed(t)
	var daemons []*running
	for host := range 2 {
		daemons = append(daemons, b.start(host, func(c *daemon.Config) {
			c.PeerTimeout, c.ConnectTimeout = 3600e9, 3600e9
		}))
	}
	token := attach.NewToken()
	k := dialIn(t, daemons[0].socket, alice, alice)
	gid, err := k.Job(attach.JobRequest{GID: 700, Token: token, Cards: []uint16{0, 1}})
	wantError(t, err, nil)
	sender := dialIn(t, daemons[0].socket, alice, alice)
	if err := sender.attach(attach.AttachRequest{GID: gid, Slots: 64, Token: token}); err != nil {
		t.Fatal(err)
	}
	_, nodes := group(t, daemons, 0, 1)
	const messages = 60
	for i := range uint32(messages) {
		sender.send(1, i)
	}
	// more than the window that the two cards share
	for i := range uint32(600) {
		nodes[0].send(1, i)
		if from, word := nodes[1].receive(); from != 0 || word != i {
			t.Fatalf("got %d from node %d, want %d", word, from, i)
		}
	}
	if daemons[1].status(t).Links[0].Deferred == 0 {
		t.Error("the NIC program has answered nothing")
	}
	k = dialIn(t, daemons[1].socket, alice, alice)
	_, err = k.Job(attach.JobRequest{GID: gid, Token: token, Cards: []uint16{0, 1}})
	wantError(t, err, nil)
	late := dialIn(t, daemons[1].socket, alice, alice)
	if err := late.attach(attach.AttachRequest{GID: gid, Node: 1, Slots: 64, Token: token}); err != nil {
		t.Fatal(err)
	}
	got := map[uint32]int{}
	for range messages {
		_, word := late.receive()
		got[word]++
	}
	if r, back := sender.Iface.NextReturn(); back || len(got) != messages {
		t.Errorf("%d of %d messages arrived once; one came back: %t, %+v", len(got), messages, back, r)
	}
}
