package daemon_test

// This file tests remote memory of processes that are not one with their card (package rats;
// funi/remote.go).

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
)

var remote = funi.RemoteSizes{KeySlots: 4, Areas: 4, Notifications: 8}

// Rule: unprivileged processes expose memory and write there through their daemons as with cards of
// their own; what a process asks room for it gets, and a process that waits is woken by a
// notification.
func TestRemoteMemoryThroughDaemons(t *testing.T) {
	b := newBed(t)
	metrics := filepath.Join(b.dir, "metrics.sock")
	daemons := []*running{b.start(0, nil), b.start(1, func(c *daemon.Config) { c.Metrics = "unix:" + metrics })}
	token, gid := attach.NewToken(), uint16(0)
	for _, d := range daemons {
		got, err := dial(t, d.socket).Job(attach.JobRequest{GID: gid, Token: token, Cards: []uint16{0, 1}})
		if err != nil {
			t.Fatal(err)
		}
		gid = got
	}
	var clients [2]*attach.Client
	var ends [2]*rats.Endpoint
	var memory [2][]byte
	for node, d := range daemons {
		c, err := attach.Open(attach.Config{Socket: d.socket, GID: gid, Node: uint16(node), Slots: 64, Token: token,
			Remote: remote})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(0) }()
		if c.Interface().Remote() != remote || c.Answer().Remote != remote {
			t.Fatalf("asked for %+v and got %+v", remote, c.Interface().Remote())
		}
		e, err := rats.New(c.Interface(), node, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		s := funi.Segment{Base: 0x10000, Rights: []funi.Rights{funi.Source, funi.Keyed}[node]}
		if s.Memory, err = c.Segment(s.Base, 1<<16, s.Rights); err != nil {
			t.Fatal(err)
		}
		if err := e.Use(s); err != nil {
			t.Fatal(err)
		}
		clients[node], ends[node], memory[node] = c, e, s.Memory
	}
	wait := func(node int, what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(patience); !done(); ends[node].Poll() {
			if clients[node].Drive(); clients[node].Err() != nil || time.Now().After(end) {
				t.Fatalf("%s: not in time, %v", what, clients[node].Err())
			}
		}
	}
	is := func(node int, h rats.Handle, want rats.Status) {
		t.Helper()
		wait(node, "a status", func() bool { s, _, err := ends[node].Status(h); return err == nil && s == want })
	}
	key, _, err := ends[1].Expose(memory[1])
	if err != nil {
		t.Fatal(err)
	}
	area, h, err := ends[1].Open(key, 8, false)
	if err != nil {
		t.Fatal(err)
	}
	is(1, h, rats.Sent)
	seed := ends[1].Seed(key, area, 1<<16, 0)
	use := func() engine.RemoteUse {
		t.Helper()
		for _, x := range daemons[1].status(t).Contexts {
			if x.Remote != nil {
				return *x.Remote
			}
		}
		t.Fatal("no context has remote memory")
		return engine.RemoteUse{}
	}
	opened := engine.RemoteUse{KeySlots: 4, KeySlotsOpen: 1, Areas: 4, AreasOpen: 1, Notifications: 8, Credit: 8}
	if got := use(); got != opened {
		t.Fatalf("the status is %+v, want %+v", got, opened)
	}
	for i, size := range []int{8, 64, 5000, 1 << 16} {
		if _, err := rand.Read(memory[0][:size]); err != nil {
			t.Fatal(err)
		}
		h, err := ends[0].SendMsg(seed.Ticket, memory[0][:size], uint32(i))
		if err != nil {
			t.Fatal(err)
		}
		var r funi.Notification
		// its client sleeps now and then
		wait(1, "a record", func() bool { return ends[1].NextRecord(&r) })
		if r.Words != 1 || r.Metadata[0] != uint32(i) || !bytes.Equal(memory[0][:size], memory[1][:size]) {
			t.Fatalf("%d bytes: record %+v, or the memory differs", size, r)
		}
		is(0, h, rats.Sent)
	}
	client := http.Client{Timeout: patience,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", metrics)
		}}}
	defer client.CloseIdleConnections()
	answer, err := client.Get("http://funid/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	for _, want := range []string{`key_slots{state="asked"} 4`, `key_slots{state="open"} 1`, `areas{state="open"} 1`,
		`notifications{state="credit"} 8`} {
		if err != nil || !bytes.Contains(text, []byte("\nfunid_remote_"+want+"\n")) {
			t.Errorf("the metrics lack %s: %v", want, err)
		}
	}
	if h, err = ends[1].Revoke(key); err != nil {
		t.Fatal(err)
	}
	is(1, h, rats.Sent)
	if h, err = ends[0].SendMsg(seed.Ticket, nil); err != nil {
		t.Fatal(err)
	}
	is(0, h, rats.Failed)
	opened.KeySlotsOpen, opened.Notified, opened.Refused.KeySlot = 0, 4, 1
	if got := use(); got != opened {
		t.Fatalf("the status is %+v, want %+v", got, opened)
	}
}

// Rule: what a context's remote memory takes, shared and in the card, counts as its user's memory,
// and he gets it back.
func TestRemoteMemoryIsCounted(t *testing.T) {
	b := newBed(t)
	rule := config.DefaultRule()
	rule.Bytes = 1 << 20
	d := b.start(0, func(c *daemon.Config) { c.Rules = []config.Rule{rule} })
	token := attach.NewToken()
	gid, err := dial(t, d.socket).Job(attach.JobRequest{Token: token, Cards: []uint16{0}})
	if err != nil {
		t.Fatal(err)
	}
	k := dial(t, d.socket)
	r := attach.AttachRequest{GID: gid, Slots: 64, Token: token,
		Remote: funi.RemoteSizes{KeySlots: 1 << 16, Areas: 2, Notifications: 2}}
	if err := k.attach(r); !errors.Is(err, attach.ErrQuota) {
		t.Fatalf("65,536 key slots with a quota of 1 MiB: %v", err)
	}
	r.Remote = remote
	if err := k.attach(r); err != nil {
		t.Fatal(err)
	}
	const shared = funi.PageSize + 6*64*128 + (4+8)*64
	pages := func(bytes int64) int64 { return (bytes + funi.PageSize - 1) / funi.PageSize * funi.PageSize }
	if n, want := d.status(t).Bytes, pages(shared)+pages(engine.RemoteBytes(remote)); n != want {
		t.Errorf("%d bytes are counted, want %d", n, want)
	}
	k.Close()
	until(t, "its memory is given back", func() bool { return d.status(t).Bytes == 0 })
}
