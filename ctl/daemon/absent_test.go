package daemon_test

// This file tests groups that are absent on a host: the NIC program there answers for them, and
// their senders wait.

import (
	"testing"
	"time"

	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/xdp"
)

// half makes a job with a node on each of two hosts, on one of them, and attaches its node there.
func half(t testing.TB, d *running, gid, node uint16, token attach.Token) (*client, *client, uint16) {
	t.Helper()
	owner := dial(t, d.socket)
	gid, err := owner.Job(attach.JobRequest{GID: gid, Token: token, Cards: []uint16{0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	k := dial(t, d.socket)
	if err := k.attach(attach.AttachRequest{GID: gid, Node: node, Slots: 64, Token: token}); err != nil {
		t.Fatal(err)
	}
	return owner, k, gid
}

// Rule: what a node sends to a group that is not yet on the other host waits there for it, without
// the other card; when the group appears it arrives once, in generic mode and in native mode. When
// the group has gone again, what is sent to it comes back at once.
func TestAbsentGroup(t *testing.T) {
	for name, mode := range map[string]xdp.AttachMode{"generic": xdp.AttachGeneric, "native": xdp.AttachNative} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			tune := func(c *daemon.Config) { c.Attach, c.ConnectTimeout = mode, 10*patience }
			daemons := []*running{b.start(0, tune), b.start(1, tune)}
			token := attach.NewToken()
			_, _ = group(t, daemons, 0, 1) // another, so that the cards have met
			_, sender, gid := half(t, daemons[0], 0, 0, token)
			sender.send(1, 77)
			until(t, "the frame is deferred some times", func() bool {
				return daemons[0].status(t).Counters.Deferred >= 8
			})
			before := daemons[1].status(t)
			until(t, "it is deferred again", func() bool {
				return daemons[1].status(t).Links[0].Deferred >= before.Links[0].Deferred+3
			})
			if after := daemons[1].status(t); after.Counters.FramesReceived != before.Counters.FramesReceived {
				t.Errorf("the card of the absent group got %d frames meanwhile",
					after.Counters.FramesReceived-before.Counters.FramesReceived)
			}

			// Others are not held up, though numbers are shared.
			_, nodes := group(t, daemons, 0, 1)
			pingPong(t, nodes, 500)

			owner, receiver, _ := half(t, daemons[1], gid, 1, token)
			if from, word := receiver.receive(); from != 0 || word != 77 {
				t.Errorf("got %d from node %d", word, from)
			}
			sender.send(1, 78)
			if from, word := receiver.receive(); from != 0 || word != 78 {
				t.Errorf("got %d from node %d behind the first", word, from)
			}
			if r, back := sender.Iface.NextReturn(); back {
				t.Errorf("a message came back: %+v", r)
			}

			owner.Close()
			receiver.Close()
			until(t, "the job has ended", func() bool { return len(daemons[1].status(t).Jobs) == 2 })
			sender.send(1, 79)
			var r funi.Returned
			sender.until("the message comes back", func() (ok bool) { r, ok = sender.Iface.NextReturn(); return ok })
			if r.Reason != arctic.ReasonNoContext || r.Word != 79 {
				t.Errorf("it came back as %+v", r)
			}
		})
	}
}

// Rule: a message for a group that does not appear within connect_timeout comes back with the other
// card's word, and a group whose job has ended is absent after connect_timeout.
func TestAbsentForEver(t *testing.T) {
	b := newBed(t)
	tune := func(c *daemon.Config) { c.ConnectTimeout = 400 * time.Millisecond }
	daemons := []*running{b.start(0, tune), b.start(1, tune)}
	token := attach.NewToken()
	_, sender, gid := half(t, daemons[0], 0, 0, token)
	lost := func(word uint32) {
		t.Helper()
		before := daemons[1].status(t).Links[0].Deferred
		sender.send(1, word)
		var r funi.Returned
		sender.until("the message comes back", func() (ok bool) { r, ok = sender.Iface.NextReturn(); return ok })
		if r.Reason != arctic.ReasonNoContext || r.Word != word {
			t.Errorf("it came back as %+v", r)
		}
		if daemons[1].status(t).Links[0].Deferred == before {
			t.Error("the NIC program has answered nothing")
		}
	}
	lost(81)
	owner, _, _ := half(t, daemons[1], gid, 1, token)
	owner.Close()
	until(t, "the job has ended", func() bool { return len(daemons[1].status(t).Jobs) == 0 })
	until(t, "the group is absent", func() bool { return !daemons[1].Departing(gid) })
	// A stream that was met is forgotten while it is quiet.
	_, other, _ := half(t, daemons[0], 0, 0, attach.NewToken())
	sender = other
	lost(82)
}
