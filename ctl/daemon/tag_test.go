package daemon_test

// This file tests that a job is its owner's on all hosts: somebody who makes the same GID on
// another host is a stranger to it.

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// Users that nobody on the machine is.
const (
	userA = 52101
	userB = 52102
)

// as does something as a user without privileges, as the kernel tells the daemon.
func as(t testing.TB, uid int, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	set := func(effective int) {
		// Of this thread alone: the function of the library changes all.
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(effective), ^uintptr(0)); e != 0 {
			t.Fatalf("becoming user %d: %v", effective, e)
		}
	}
	set(uid)
	defer set(0)
	do()
}

// dialAs is dial as a user.
func dialAs(t testing.TB, socket string, uid int) (k *client) {
	t.Helper()
	as(t, uid, func() { k = dial(t, socket) })
	return k
}

// base is the address where the nodes' segments start.
const base = 1 << 20

// member attaches a node as a user, with a segment that others may write, whose memory it returns.
func member(t testing.TB, d *running, uid int, gid, node uint16, token attach.Token) (*client, []byte) {
	t.Helper()
	k := dialAs(t, d.socket, uid)
	if err := k.attach(attach.AttachRequest{GID: gid, Node: node, Slots: 64, Token: token}); err != nil {
		t.Fatal(err)
	}
	const size = 1 << 16
	answer, fds := k.ask(attach.SegmentRequest{Base: base, Rights: funi.Source | funi.Destination,
		Bytes: size}.Encode(), 1)
	if _, err := attach.DecodeSegmentAnswer(answer); err != nil || len(fds) != 1 {
		t.Fatal(err, fds)
	}
	m, err := unix.Mmap(fds[0], 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	attach.CloseDescriptors(fds)
	if err != nil {
		t.Fatal(err)
	}
	k.Maps = append(k.Maps, m)
	return k, m
}

// comesBack waits for what the node sent to come back, and checks why.
func (k *client) comesBack(what string, word uint32) {
	k.t.Helper()
	var r funi.Returned
	k.until(what+" comes back", func() (ok bool) { r, ok = k.Iface.NextReturn(); return ok })
	if r.Reason != arctic.ReasonJob || r.Word != word {
		k.t.Fatalf("%s came back as %+v (%v)", what, r, r.Reason)
	}
}

// write asks to write the given number of words of the node's segment into another's.
func (k *client) write(to uint16, words int, argument uint32) {
	k.t.Helper()
	s := k.Iface.Reserve(funi.Request)
	s.SetTransfer(to, 5, funi.Transfer{Source: base, Destination: base, Argument: argument, Words: words})
	k.Iface.Commit(funi.Request)
	k.Wake()
}

// triesAll sends a message, a short transfer and a long one. All must come back.
func (k *client) triesAll(to uint16) {
	k.t.Helper()
	k.send(to, 71)
	k.comesBack("a message", 71)
	k.write(to, 16, 72)
	k.comesBack("a transfer of one packet", 72)
	k.write(to, 1<<12, 73)
	k.comesBack("a transfer of blocks", 73)
}

// gotNothing checks that nobody has sent to the node or written into its memory.
func (k *client) gotNothing(memory []byte, want byte) {
	k.t.Helper()
	for _, l := range []funi.Level{funi.Reply, funi.Request} {
		if s := k.Iface.Receive(l); s != nil {
			k.t.Errorf("context %+v got %#x", k.Answer, s[:8])
		}
	}
	if !bytes.Equal(memory, bytes.Repeat([]byte{want}, len(memory))) {
		k.t.Errorf("somebody has written into the memory of context %+v", k.Answer)
	}
}

// Rule: when half of a user's job has ended, another user may make its GID on that host with a
// token of his own, for the same cards. He gets nothing that the first job sends, and can neither
// send to it nor write its memory; both users hear why. His own job works, and the first user may
// have his half again when it is gone (arctic.Header.Tag).
func TestGroupTakenOverOnAnotherHost(t *testing.T) {
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	cards := []uint16{0, 1, 1}
	makeJob := func(d *running, uid int, gid uint16, token attach.Token) (*client, uint16) {
		t.Helper()
		k := dialAs(t, d.socket, uid)
		gid, err := k.Job(attach.JobRequest{GID: gid, Token: token, Cards: cards})
		if err != nil {
			t.Fatal(err)
		}
		return k, gid
	}
	gone := func(d *running) {
		t.Helper()
		until(t, "the job has ended", func() bool { return len(d.status(t).Jobs) == 0 })
	}

	tokenA, tokenB := attach.NewToken(), attach.NewToken()
	_, gid := makeJob(daemons[0], userA, 0, tokenA)
	halfA, _ := makeJob(daemons[1], userA, gid, tokenA)
	a0, memoryA := member(t, daemons[0], userA, gid, 0, tokenA)
	a1, _ := member(t, daemons[1], userA, gid, 1, tokenA)
	for i := range memoryA {
		memoryA[i] = 0xaa
	}
	pingPong(t, []*client{a0, a1}, 20)
	halfA.Close()
	a1.Close()
	gone(daemons[1])

	halfB, _ := makeJob(daemons[1], userB, gid, tokenB)
	a0.triesAll(1) // B's node is expected
	b1, memoryB := member(t, daemons[1], userB, gid, 1, tokenB)
	b2, memoryB2 := member(t, daemons[1], userB, gid, 2, tokenB)
	if s := daemons[1].status(t); len(s.Jobs) != 1 || s.Jobs[0].UID != userB {
		t.Fatalf("jobs %+v", s.Jobs)
	}
	for i := range memoryB {
		memoryB[i], memoryB2[i] = 0xbb, 0xbb
	}
	for range 3 {
		a0.triesAll(1)
		a0.triesAll(2)
		b1.triesAll(0)
		b2.triesAll(0)
	}
	b1.send(2, 5)
	if from, word := b2.receive(); from != 1 || word != 5 {
		t.Errorf("B's own message: %d from node %d", word, from)
	}
	for i, d := range daemons {
		if n := d.status(t).Counters.ForeignJob; n == 0 {
			t.Errorf("daemon %d has counted no frame of another job", i)
		}
	}

	// A program hears why.
	x := attach.Config{Socket: daemons[0].socket, GID: gid, Node: 0, Slots: 64, Token: tokenA}
	a0.gotNothing(memoryA, 0xaa)
	a0.Close()
	until(t, "the node is free", func() bool { return len(daemons[0].status(t).Contexts) == 0 })
	as(t, userA, func() {
		c, err := attach.Open(x)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(0)
		e, err := am.New(c.Interface(), 0, c.Nodes(), c.Drive, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Request4(1, 7, 1, 2, 3, 4); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); err == nil; _, err = e.Poll() {
			if time.Now().After(end) {
				t.Fatal("no error")
			}
		}
		if !strings.Contains(err.Error(), "node 1") ||
			!strings.Contains(err.Error(), "another job has this GID there") {
			t.Errorf("the error is %q", err)
		}
	})

	b1.gotNothing(memoryB, 0xbb)
	b2.gotNothing(memoryB2, 0xbb)
	for _, k := range []*client{b1, b2, halfB} {
		k.Close()
	}
	gone(daemons[1])
	_, _ = makeJob(daemons[1], userA, gid, tokenA)
	until(t, "node 0 is free", func() bool { return len(daemons[0].status(t).Contexts) == 0 })
	a0, _ = member(t, daemons[0], userA, gid, 0, tokenA)
	a1, _ = member(t, daemons[1], userA, gid, 1, tokenA)
	pingPong(t, []*client{a0, a1}, 20)
}

// Rule: a job without a token of its own is refused, by the daemon and by whoever would ask
// it: everybody could name it.
func TestJobNeedsAToken(t *testing.T) {
	b := newBed(t)
	d := b.start(0, nil)
	_, err := attach.JobRequest{Cards: []uint16{0}}.Encode()
	wantError(t, err, attach.ErrNoToken)
	message, err := attach.JobRequest{GID: 5, Token: attach.Token{1}, Cards: []uint16{0}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	clear(message[24:56])
	k := dial(t, d.socket)
	answer, _ := k.ask(message, 0)
	_, err = attach.DecodeJobAnswer(answer)
	wantError(t, err, attach.ErrNoToken)
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "draw one at random") {
		t.Errorf("the error is %q", err)
	}
	if s := d.status(t); len(s.Jobs) != 0 {
		t.Errorf("jobs %+v", s.Jobs)
	}
	for i := range attach.TokenSize { // one bit is enough to be no zero
		var token attach.Token
		token[i] = 1
		k := dial(t, d.socket)
		if _, err := k.Job(attach.JobRequest{GID: 5, Token: token, Cards: []uint16{0}}); err != nil {
			t.Fatal(err)
		}
		k.Close()
		until(t, "the job has ended", func() bool { return len(d.status(t).Jobs) == 0 })
	}
}
