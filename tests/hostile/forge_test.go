package hostile

// This file tests what a process can say that it is: nothing.

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// TestForgedHeaders: a process writes anything into headers, the word of the source, GID and the
// rest of its registers. Members of its own group still see that a message is from its node and for
// theirs. Nothing reaches another group, on the process's host or beyond (issue, "Done when").
func TestForgedHeaders(t *testing.T) {
	first := seed(t)
	r := rand.New(rand.NewPCG(first, first))
	b := newBed(t, nil, longSilence)
	join := func(g *group, node uint16) *client.Connection {
		t.Helper()
		k, err := client.Dial(b.sockets[g.cards[node]])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(k.Close)
		if err := k.Attach(attach.AttachRequest{GID: g.gid, Node: node, Slots: 64, Token: g.token}); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Segment(attach.SegmentRequest{Base: segmentBase, Bytes: segmentBytes,
			Rights: funi.Source | funi.Destination}); err != nil {
			t.Fatal(err)
		}
		if err := k.Start(); err != nil {
			t.Fatal(err)
		}
		return k
	}
	own := b.newGroup("own", enemyGID, 0, 0, 0, 1, 0)
	other := b.newGroup("other", acrossGID, 0, 0, 0, 1, 0)
	forger := join(own, 0)
	members := []*client.Connection{forger, join(own, 1), join(own, 2)}
	strangers := []*client.Connection{join(other, 0), join(other, 1), join(other, 2)}

	received, returned := 0, 0
	look := func() {
		for n, k := range members {
			for _, l := range []funi.Level{funi.Reply, funi.Request} {
				for s := k.Iface.Receive(l); s != nil; s = k.Iface.Receive(l) {
					received++
					if s[funi.SourceWord] != 0 || s.Header().Node() != uint16(n) {
						t.Errorf("node %d received a message for node %d from node %#x", n, s.Header().Node(),
							s[funi.SourceWord])
					}
					k.Iface.Release(l)
				}
			}
		}
		for _, more := forger.Iface.NextReturn(); more; _, more = forger.Iface.NextReturn() {
			returned++
		}
		forger.Wake()
	}
	const messages = 3000
	for n := range messages {
		l := funi.Level(r.IntN(2))
		var s *funi.Slot
		until(t, "a slot is free", func() bool { look(); s = forger.Iface.Reserve(l); return s != nil },
			func() string { return "" })
		for i := range s {
			s[i] = r.Uint32()
		}
		s[funi.SourceWord] = []uint32{1, 2, 0xffff, 1<<31 | 1}[r.IntN(4)]
		node := uint16(r.IntN(4))
		switch n % 3 {
		case 0:
			s.SetHeader(funi.NewHeader(node, uint16(r.IntN(funi.MaxType+1)), r.IntN(32)))
		case 1:
			s.SetTransfer(node, typeBlock, funi.Transfer{Source: segmentBase, Destination: segmentBase,
				Words: 4 * r.IntN(2000)})
		case 2:
			s.SetHeader(funi.NewHeader(node, typeRequest, funi.MaxPayloadWords))
		}
		page := forger.Memory.Page
		page.Store(funi.GID, acrossGID)
		page.Store(funi.Ticket, r.Uint32())
		forger.Iface.Commit(l)
	}
	until(t, "everything is sent", func() bool {
		look()
		return forger.Iface.Unsent(funi.Reply) == 0 && forger.Iface.Unsent(funi.Request) == 0
	}, func() string { return "" })
	// Honest traffic of the others behind it, to be sure that it has passed them.
	for i, k := range strangers {
		to := uint16((i + 1) % len(strangers))
		s := k.Iface.Reserve(funi.Request)
		s.SetHeader(funi.NewHeader(to, typeAnswer, 1))
		s[funi.PayloadWord] = uint32(i)
		k.Iface.Commit(funi.Request)
	}
	for i, k := range strangers {
		var s *funi.Slot
		until(t, "a message between others arrives", func() bool {
			look()
			s = k.Iface.Receive(funi.Request)
			return s != nil
		}, func() string { return "" })
		from := (i + len(strangers) - 1) % len(strangers)
		if s.Source() != uint16(from) || s.Header() != funi.NewHeader(uint16(i), typeAnswer, 1) ||
			s.Payload()[0] != uint32(from) {
			t.Errorf("node %d of the other group received %#x", i, s[:4])
		}
		k.Iface.Release(funi.Request)
	}
	<-time.After(50 * time.Millisecond) // what would be wrong could still come
	for i, k := range strangers {
		if k.Iface.Waiting() {
			t.Errorf("node %d of the other group has received something", i)
		}
		for _, w := range wordsOf(k.Maps[len(k.Maps)-1]) {
			if w != 0 {
				t.Fatalf("somebody has written into the segment of node %d of the other group", i)
			}
		}
	}
	if received == 0 || returned == 0 {
		t.Errorf("%d received, %d returned: nothing was tested", received, returned)
	}
	t.Logf("%d forged messages: %d received by the forger's own group, %d came back", messages, received, returned)
}
