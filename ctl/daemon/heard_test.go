package daemon_test

// This file tests that a refusal is heard: the kernel gives a process whose message was
// not read when the socket was closed ECONNRESET instead of what is there to be read
// (unix_release_sock in net/unix/af_unix.c).

import (
	"errors"
	"testing"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/uspace/attach"
)

// Rule: a process with too many connections is told so, even if it has asked for something
// meanwhile, as is a process that sends a malformed message and others behind it.
func TestRefusalIsHeard(t *testing.T) {
	b := newBed(t)
	d := b.start(0, func(c *daemon.Config) { c.Rules = []config.Rule{{Connections: 1}} })
	k := dial(t, d.socket)
	info, err := attach.EncodeBody(attach.KindInfo, nil)
	if err != nil {
		t.Fatal(err)
	}
	k.ask(info, 0) // it is served
	for range 200 {
		_, err := attach.Open(attach.Config{Socket: d.socket, GID: 1})
		if !errors.Is(err, attach.ErrQuota) {
			t.Fatalf("a second connection: %v, want %v", err, attach.ErrQuota)
		}
	}
	none := append([]byte{}, info...)
	none[0] = 0
	for range 4 {
		if err := attach.Send(k.Conn, none); err != nil {
			break // it has been closed
		}
	}
	_ = k.Conn.SetReadDeadline(time.Now().Add(patience))
	answer, _, err := attach.Receive(k.Conn, k.Buffer, 0)
	if h, _ := attach.DecodeHeader(answer); err != nil || h.Status != attach.ErrMalformed {
		t.Errorf("a message that is none is answered with %v, %v", h.Status, err)
	}
}
