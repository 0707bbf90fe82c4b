package hostile

// This file tests what is on the way to a process that is just attaching. The storm found
// that it was lost.

import (
	"testing"
	"time"

	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// TestMessagesBeforeTheStart: a message for a node that is attached and has not yet written
// its queue registers (thesis 3.2.1) waits until it has. The context begins with CSQM and
// CRQM set, as one that was powered up does.
func TestMessagesBeforeTheStart(t *testing.T) {
	b := newBed(t, nil, longSilence)
	g := b.newGroup("early", acrossGID, 0, 0, 0, 0)
	var nodes [2]*client.Connection
	for n := range nodes {
		k, err := client.Dial(b.sockets[0])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(k.Close)
		nodes[n] = k
	}
	join := func(n uint16) {
		t.Helper()
		if err := nodes[n].Attach(attach.AttachRequest{GID: g.gid, Node: n, Slots: 64, Token: g.token}); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(n uint16) {
		t.Helper()
		if err := nodes[n].Start(); err != nil {
			t.Fatal(err)
		}
	}
	join(0)
	begin(0)
	join(1)
	const messages = 20
	sent := nodes[0].Iface
	for i := range uint32(messages) {
		s := sent.Reserve(funi.Request)
		s.SetHeader(funi.NewHeader(1, 5, 1))
		s[funi.PayloadWord] = i
		sent.Commit(funi.Request)
	}
	until(t, "the card takes the messages", func() bool { return sent.Unsent(funi.Request) == 0 },
		func() string { return "" })
	for range 20 { // the card's thread answers each of them between two steps
		b.status(0)
	}
	begin(1)
	seen := map[uint32]bool{}
	for end := time.Now().Add(patience); len(seen) < messages && time.Now().Before(end); {
		if s := nodes[1].Iface.Receive(funi.Request); s != nil {
			seen[s.Payload()[0]] = true
			nodes[1].Iface.Release(funi.Request)
		}
	}
	if len(seen) != messages {
		t.Errorf("%d of %d messages arrived that were sent before the start", len(seen), messages)
	}
}
