package daemon_test

// This file tests life and death: of processes, jobs and daemons.

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
)

// two makes a job of two nodes on the two hosts and returns its GID and token.
func two(t testing.TB, daemons []*running, cards ...uint16) (gid uint16, token attach.Token, owners []*client) {
	t.Helper()
	token = attach.NewToken()
	for _, d := range daemons {
		k := dial(t, d.socket)
		got, err := k.Job(attach.JobRequest{GID: gid, Token: token, Cards: cards})
		if err != nil {
			t.Fatal(err)
		}
		gid = got
		owners = append(owners, k)
	}
	return gid, token, owners
}

// Rule: users without any privilege talk through daemons; when one is killed at any
// instruction, what is sent to it comes back with a reason, at once and not after a timeout,
// and everything that it held is free.
func TestKilledProcess(t *testing.T) {
	b := newBed(t)
	tune := func(c *daemon.Config) { c.PeerTimeout, c.ConnectTimeout = time.Hour, time.Hour }
	daemons := []*running{b.start(0, tune), b.start(1, tune)}
	gid, token, _ := two(t, daemons, 0, 1)
	k := dial(t, daemons[0].socket)
	if err := k.attach(attach.AttachRequest{GID: gid, Token: token}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c := b.run(1, role{Do: "answer", Socket: daemons[1].socket, GID: gid, Node: 1, Token: token.Text()})
		for i := range uint32(100) {
			k.send(1, i)
			if from, word := k.receive(); from != 1 || word != i {
				t.Fatalf("got %d from %d", word, from)
			}
		}
		c.kill()
		at, sent, back := time.Now(), 0, 0
		k.until("the peer's end is known", func() bool {
			if back == 0 { // before the daemon has noticed, messages go to the queue of the dead
				k.send(1, 9)
				sent++
			}
			for r, ok := k.Iface.NextReturn(); ok; r, ok = k.Iface.NextReturn() {
				if back++; r.Reason != arctic.ReasonNoContext || r.Header.Node() != 1 {
					t.Fatalf("it came back as %+v", r)
				}
			}
			return back > 0 && k.Iface.Unsent(0) == 0
		})
		t.Logf("after %v; %d messages went to the dead", time.Since(at), sent-back)
		k.until("everything is free", func() bool { return len(daemons[1].status(t).Contexts) == 0 })
	}
}

// Rule: a context ends with its process, also if another process still has the process's
// connection.
func TestEndOfTheProcess(t *testing.T) {
	b := newBed(t)
	d := b.start(0, nil)
	gid, token, _ := two(t, []*running{d}, 0)
	for range 2 { // node 0 is free again
		c := b.run(0, role{Do: "bequeath", Socket: d.socket, GID: gid, Token: token.Text()})
		if n := len(d.status(t).Contexts); n != 1 {
			t.Fatalf("%d contexts", n)
		}
		c.kill()
		for end := time.Now().Add(patience); len(d.status(t).Contexts) != 0; {
			if time.Now().After(end) {
				t.Fatal("the context is still there")
			}
		}
	}
}

// Rule: nothing of a job is left when it has ended, also if its members did not expect it:
// they are told.
func TestJobEnds(t *testing.T) {
	b := newBed(t)
	d := b.start(0, nil)
	owners, nodes := group(t, []*running{d}, 0, 0)
	pingPong(t, nodes, 3)
	owners[0].Close()
	for _, k := range nodes {
		k.until("it is told", k.Iface.Gone)
		if err := k.attach(attach.AttachRequest{GID: k.Answer.GID, Node: k.Answer.Node,
			Token: attach.NewToken()}); err == nil {
			t.Error("it attached to a group that has ended")
		}
		k.Close()
	}
	until(t, "all is free", func() bool {
		s := d.status(t)
		return len(s.Jobs) == 0 && len(s.Contexts) == 0 && s.Bytes == 0 && s.Connections == 1
	})
}

// Rule: what is sent to a member of a job that has not attached yet waits for it.
func TestMemberComesLater(t *testing.T) {
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	gid, token, _ := two(t, daemons, 0, 1, 0)
	first := dial(t, daemons[0].socket)
	if err := first.attach(attach.AttachRequest{GID: gid, Token: token}); err != nil {
		t.Fatal(err)
	}
	for to := uint16(1); to < 3; to++ {
		first.send(to, uint32(to))
	}
	for node := uint16(1); node < 3; node++ {
		k := dial(t, daemons[node%2].socket)
		if err := k.attach(attach.AttachRequest{GID: gid, Node: node, Token: token}); err != nil {
			t.Fatal(err)
		}
		if from, word := k.receive(); from != 0 || word != uint32(node) {
			t.Errorf("node %d got %d from %d", node, word, from)
		}
	}
	if _, ok := first.Iface.NextReturn(); ok {
		t.Error("something came back")
	}
}

// Rule: a daemon that is killed is seen by its clients at once; after its restart, with a
// new incarnation, they attach again.
func TestKilledDaemon(t *testing.T) {
	b := newBed(t)
	c := b.config(0)
	other := b.start(1, nil)
	incarnations := map[uint32]bool{}
	for range 2 {
		process := b.run(0, role{Do: "daemon", Config: &c})
		daemons := []*running{{socket: c.Socket}, other}
		owners, nodes := group(t, daemons, 0, 1)
		pingPong(t, nodes, 20)
		incarnations[nodes[0].Answer.Incarnation] = true
		process.kill()
		nodes[0].closed()
		owners[0].closed()
		for _, k := range append(owners, nodes...) {
			k.Close()
		}
	}
	if len(incarnations) != 2 {
		t.Errorf("incarnations %v", incarnations)
	}
	until(t, "the other daemon is free", func() bool { return len(other.status(t).Jobs) == 0 })
}

// Rule: a daemon that is new expects the members of a job that is made on it, but one that
// died with the daemon before for no longer than connect_timeout: then what is sent to it
// comes back. One that attaches late is a member all the same.
func TestMemberDiedWithTheDaemon(t *testing.T) {
	b := newBed(t)
	c := b.config(0)
	c.PeerTimeout, c.ConnectTimeout = time.Second, time.Second
	other := b.start(1, func(c *daemon.Config) { c.PeerTimeout, c.ConnectTimeout = time.Second, time.Second })
	process := b.run(0, role{Do: "daemon", Config: &c})
	daemons := []*running{{socket: c.Socket}, other}
	gid, token, owners := two(t, daemons, 0, 1, 1)
	var nodes []*client
	for node, card := range []uint16{0, 1, 1} {
		k := dial(t, daemons[card].socket)
		if err := k.attach(attach.AttachRequest{GID: gid, Node: uint16(node), Slots: 64, Token: token}); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, k)
	}
	pingPong(t, nodes[:2], 3)
	process.kill()
	nodes[0].closed()
	owners[0].Close()
	b.run(0, role{Do: "daemon", Config: &c})
	if _, err := dial(t, c.Socket).Job(attach.JobRequest{GID: gid, Token: token, Cards: []uint16{0, 1, 1}}); err !=
		nil {
		t.Fatal(err)
	}
	nodes[1].send(0, 9)
	nodes[1].until("the new daemon says that nobody is there", func() bool {
		r, ok := nodes[1].Iface.NextReturn()
		if ok && r.Reason != arctic.ReasonNoContext { // the old one is silent
			nodes[1].send(0, 9)
		}
		return ok && r.Reason == arctic.ReasonNoContext
	})
	late := dial(t, c.Socket)
	if err := late.attach(attach.AttachRequest{GID: gid, Slots: 64, Token: token}); err != nil {
		t.Fatal(err)
	}
	nodes[2].send(0, 5)
	if from, word := late.receive(); from != 2 || word != 5 {
		t.Errorf("got %d from %d", word, from)
	}
}

// Rule: a daemon that is stopped lets what is under way arrive, tells its clients, and
// leaves nothing behind: another can start.
func TestStop(t *testing.T) {
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	_, nodes := group(t, daemons, 0, 1)
	pingPong(t, nodes, 3)
	const n = 50
	for i := range uint32(n) {
		nodes[0].send(1, i)
	}
	daemons[0].stop(t)
	if !nodes[0].Iface.Gone() {
		t.Error("the process was not told")
	}
	nodes[0].closed()
	got := map[uint32]bool{}
	for range n {
		_, word := nodes[1].receive()
		got[word] = true
	}
	if len(got) != n {
		t.Errorf("%d of %d messages arrived", len(got), n)
	}
	b.start(0, nil)
}

// Rule: two daemons cannot have one socket.
func TestSocketTaken(t *testing.T) {
	b := newBed(t)
	b.start(0, nil)
	err := b.lab.Do(0, func() error {
		_, err := daemon.Open(b.config(0))
		return err
	})
	wantError(t, err, daemon.ErrSocket)
}

// Rule: processes that are killed while they send leave nothing behind, no descriptor and
// no memory, and what others exchange meanwhile is complete.
func TestKillsWhileSending(t *testing.T) {
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	_, others := group(t, daemons, 0, 1)
	pingPong(t, others, 3)
	descriptors := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before := -1
	for i := range 12 {
		gid, token, owners := two(t, daemons, 0, 1, 0)
		k := dial(t, daemons[1].socket)
		if err := k.attach(attach.AttachRequest{GID: gid, Node: 1, Token: token, Slots: 16}); err != nil {
			t.Fatal(err)
		}
		var children []*child
		for _, node := range []uint16{0, 2} {
			children = append(children, b.run(0, role{Do: "flood", Socket: daemons[0].socket, GID: gid, Node: node,
				Token: token.Text(), To: 1}))
		}
		for range 10 * i {
			k.receive()
		}
		pingPong(t, others, 20)
		for _, c := range children {
			c.kill()
		}
		pingPong(t, others, 20)
		if i%2 == 0 { // sometimes the launcher goes first
			k.Close()
		}
		for _, o := range owners {
			o.Close()
		}
		k.Close()
		for _, d := range daemons {
			until(t, "all is free", func() bool {
				s := d.status(t)
				return len(s.Jobs) == 1 && len(s.Contexts) == 1 && s.Connections == 3
			})
		}
		if i == 0 {
			before = descriptors()
		}
	}
	until(t, "the descriptors are closed", func() bool { return descriptors() <= before })
}

// Rule: the folders that a daemon makes for its socket let everybody through, whatever the
// umask of who started it: who may do what is not the file's mode's business.
func TestSocketFolders(t *testing.T) {
	b := newBed(t)
	was := unix.Umask(0o077)
	d := b.start(0, func(c *daemon.Config) { c.Socket = filepath.Join(b.dir, "run", "lab", "host.sock") })
	unix.Umask(was)
	for path, want := range map[string]os.FileMode{d.socket: 0o666, filepath.Dir(d.socket): 0o755,
		filepath.Dir(filepath.Dir(d.socket)): 0o755} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, not %o", path, info.Mode().Perm(), want)
		}
	}
}
