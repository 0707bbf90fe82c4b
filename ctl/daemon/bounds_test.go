package daemon_test

// This file tests that what processes can have the daemon hold, or wait for, is bounded.

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// mappings counts the mappings of this process that are of contexts and segments.
func mappings(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(data), "memfd:funet-")
}

// Rule: of contexts that ended with their jobs a connection keeps the memory of one, and
// it counts as a context: else one connection could use up the mappings that the kernel lets
// the daemon have, and so end it.
func TestKeptMemoryIsBounded(t *testing.T) {
	b := newBed(t)
	d := b.start(0, func(c *daemon.Config) { c.Rules = []config.Rule{{Contexts: 2}} })
	token := attach.NewToken()
	member := dial(t, d.socket)
	var most int
	for range 20 {
		owner := dial(t, d.socket)
		gid, err := owner.Job(attach.JobRequest{Token: token, Cards: []uint16{0}})
		if err != nil {
			t.Fatal(err)
		}
		if err := member.attach(attach.AttachRequest{GID: gid, Slots: 16, Token: token}); err != nil {
			t.Fatal(err)
		}
		page := member.Iface
		owner.Close()
		member.until("the context ends", page.Gone)
		attach.CloseDescriptors(member.FDs)
		for _, m := range member.Maps {
			_ = unix.Munmap(m)
		}
		member.FDs, member.Maps = nil, nil
		most = max(most, mappings(t))
	}
	if most > 4 { // the daemon's doorbells, what is kept, and what replaces it
		t.Errorf("%d mappings are there at a time", most)
	}
	other := dial(t, d.socket)
	gid, err := other.Job(attach.JobRequest{Token: token, Cards: []uint16{0, 0}})
	if err != nil {
		t.Fatal(err)
	}
	if err := dial(t, d.socket).attach(attach.AttachRequest{GID: gid, Slots: 16, Token: token}); err != nil {
		t.Fatal(err)
	}
	err = dial(t, d.socket).attach(attach.AttachRequest{GID: gid, Node: 1, Slots: 16, Token: token})
	wantError(t, err, attach.ErrQuota) // the kept one is the second
	member.Close()
	until(t, "the kept context is free", func() bool {
		return dial(t, d.socket).attach(attach.AttachRequest{GID: gid, Node: 1, Slots: 16, Token: token}) == nil
	})
}

// Rule: a segment counts as the pages that it takes, however short it is.
func TestSegmentsCountAsPages(t *testing.T) {
	b := newBed(t)
	d := b.start(0, nil)
	_, nodes := group(t, []*running{d}, 0)
	before := d.status(t).Bytes
	_, fds := nodes[0].ask(attach.SegmentRequest{Base: 16, Rights: funi.Source, Bytes: 16}.Encode(),
		attach.SegmentDescriptors)
	attach.CloseDescriptors(fds)
	if n := d.status(t).Bytes - before; n != funi.PageSize {
		t.Errorf("a segment of 16 bytes counts as %d, not as a page", n)
	}
	nodes[0].ask(attach.UnsegmentRequest{Base: 16}.Encode(), 0)
	if n := d.status(t).Bytes; n != before {
		t.Errorf("%d bytes are counted after its end, %d before", n, before)
	}
}

// lingering returns a socket whose last close takes a minute: SO_LINGER with something to
// send for which the other end has no room (socket(7)).
func lingering(t *testing.T) *os.File {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() }) // unread data resets the connection
	tcp := c.(*net.TCPConn)
	if err := tcp.SetLinger(60); err != nil {
		t.Fatal(err)
	}
	_ = tcp.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	junk := make([]byte, 1<<20)
	for err == nil {
		_, err = tcp.Write(junk)
	}
	f, err := tcp.File()
	if err != nil {
		t.Fatal(err)
	}
	tcp.Close() // not the last
	return f
}

// Rule: a descriptor that takes long to be closed keeps nobody from connecting, wherever
// the kernel closes it: a process with too many connections sends one while it is refused.
func TestSlowDescriptorsStopNobody(t *testing.T) {
	b := newBed(t)
	d := b.start(0, func(c *daemon.Config) { c.Rules = []config.Rule{{Connections: 2}} })
	first := dial(t, d.socket)
	dial(t, d.socket)
	info, err := attach.EncodeBody(attach.KindInfo, nil)
	if err != nil {
		t.Fatal(err)
	}
	slow := lingering(t)
	for range 100 {
		c := connect(t, d.socket)
		_ = attach.Send(c, info, int(slow.Fd())) // it may be closed already
		c.Close()
	}
	go slow.Close() // which takes long, if it is the last
	first.Close()
	answered := make(chan error, 1)
	go func() {
		for {
			_, err := attach.Open(attach.Config{Socket: d.socket, GID: 1})
			if !errors.Is(err, attach.ErrQuota) && !errors.Is(err, attach.ErrLost) {
				answered <- err
				return
			}
		}
	}()
	select {
	case err := <-answered:
		wantError(t, err, attach.ErrGroup)
	case <-time.After(patience / 2):
		t.Error("nobody is answered any more")
	}
}

// Rule: metrics take the path of a socket that a dead daemon left, and of nothing else.
func TestMetricsLeaveFilesAlone(t *testing.T) {
	b := newBed(t)
	path := filepath.Join(b.dir, "file")
	if err := os.WriteFile(path, []byte("something"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := b.config(0)
	c.Metrics = "unix:" + path
	err := b.lab.Do(0, func() error {
		d, err := daemon.Open(c)
		if err == nil {
			err = errors.Join(errors.New("it was opened"), d.Abandon())
		}
		return err
	})
	wantError(t, err, unix.EADDRINUSE)
	if data, err := os.ReadFile(path); err != nil || string(data) != "something" {
		t.Errorf("the file is gone: %q, %v", data, err)
	}
}

// Rule: nobody waits for a process that takes no answer: while the daemon waits for room
// for one, the answer is that of the present.
func TestStatusDoesNotWait(t *testing.T) {
	b := newBed(t)
	d := b.start(0, nil)
	// The daemon waits for a second. If status waited, too, no second answer would come within it,
	// ever. A machine that is busy may take longer for several, now and then.
	const enough, tries = 3, 20
	for try := range tries {
		answers := d.answersBesideStuck(t, enough)
		if answers == enough {
			return
		}
		t.Logf("try %d: %d answers came before the daemon waited no more", try, answers)
	}
	t.Fatalf("%d answers never came", enough)
}

// answersBesideStuck counts answers to the question for the status, up to most, while the daemon
// waits for a process that takes none.
func (r *running) answersBesideStuck(t *testing.T, most int) (n int) {
	t.Helper()
	owners, nodes := group(t, []*running{r}, 0)
	defer closeAll(nodes, owners)
	stuck := false
	for i := 0; i < 5000 && !stuck; i++ {
		message := attach.SegmentRequest{Base: 4096, Rights: funi.Source, Bytes: 4096}.Encode()
		if i%2 == 1 {
			message = attach.UnsegmentRequest{Base: 4096}.Encode()
		}
		_ = nodes[0].Conn.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		stuck = attach.Send(nodes[0].Conn, message) != nil // no room for another request
	}
	if !stuck {
		t.Fatal("the daemon goes on without room for answers")
	}
	for n < most && len(r.status(t).Contexts) > 0 {
		n++
	}
	return n
}
