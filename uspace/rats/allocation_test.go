package rats_test

// This file says what short messages take from the heap: nothing. Both ends are on one card, and
// time is the test's.

import (
	"crypto/rand"
	"testing"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
)

// onOneCard returns managers of two processes of one card, and what lets the card and both of them
// run.
func onOneCard(t *testing.T) (ends [2]*rats.Manager, run func()) {
	t.Helper()
	cfg := engine.Native()
	cfg.Incarnation, cfg.Routes = 1, []uint32{0, 0}
	card, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for node := range ends {
		m, err := funi.NewMemory(256)
		if err == nil {
			err = m.AddRemote(funi.RemoteSizes{KeySlots: 16, Areas: 64, Notifications: 128})
		}
		if err != nil {
			t.Fatal(err)
		}
		i, err := funi.Initialize(m)
		if err != nil {
			t.Fatal(err)
		}
		x, err := card.Attach(m, 1, uint16(node), 0)
		if err != nil {
			t.Fatal(err)
		}
		s := funi.Segment{Base: 0x1000_0000, Memory: make([]byte, 1<<20), Rights: funi.Keyed | funi.Source}
		if err := x.Register(s); err != nil {
			t.Fatal(err)
		}
		e, err := rats.New(i, node, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if ends[node], err = rats.Manage(e, s); err != nil {
			t.Fatal(err)
		}
	}
	now := int64(0)
	return ends, func() {
		for range 4 {
			now += 1000
			card.Step(now)
			ends[0].Poll()
			ends[1].Poll()
		}
	}
}

// Rule (doc.go): what is sent again and again costs no garbage collection: tagged writes,
// datagrams, and simple datagrams that carry a ticket, with their credits.
func TestShortMessagesDoNotAllocate(t *testing.T) {
	ends, run := onOneCard(t)
	memory, err := ends[1].Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	target, err := ends[1].NewTarget(memory, 8)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := target.TaggedSeed()
	if err != nil {
		t.Fatal(err)
	}
	writer, err := ends[0].WriteTo(seed)
	if err != nil {
		t.Fatal(err)
	}
	port, err := ends[1].NewPort(64, 8)
	if err != nil {
		t.Fatal(err)
	}
	if seed, err = port.Seed(); err != nil {
		t.Fatal(err)
	}
	client, err := ends[0].SendDatagrams(seed)
	if err != nil {
		t.Fatal(err)
	}
	var simple [2]*rats.Simple
	for i := range simple {
		in, err := ends[i].Alloc(64)
		if err != nil {
			t.Fatal(err)
		}
		if simple[i], err = ends[i].NewSimple(in); err != nil {
			t.Fatal(err)
		}
	}
	run()
	data := make([]byte, 32)
	to := simple[1].Seed()
	var g rats.Message
	once := map[string]func() bool{
		"a tagged write": func() bool {
			if writer.WriteTag(0, data, 7) != nil {
				return false
			}
			run()
			got, ok := target.GetTag()
			return ok && got.Tag == 7
		},
		"a datagram": func() bool {
			if ok, err := client.Send(data); !ok || err != nil {
				return false
			}
			run()
			d, ok := port.Recv()
			if ok {
				port.Release(d)
			}
			return ok
		},
		"a simple datagram and its answer": func() bool {
			if _, err := to.Send(ends[0], data, simple[0].MetadataForSelf(1)); err != nil {
				return false
			}
			run()
			if ok, err := simple[1].Recv(&g); !ok || err != nil {
				return false
			}
			reply := g.Reply
			if _, err := reply.Send(ends[1], data, simple[1].MetadataForSelf(2)); err != nil {
				return false
			}
			run()
			ok, err := simple[0].Recv(&g)
			to = g.Reply
			return ok && err == nil
		},
	}
	for name, f := range once {
		for range 100 { // lists grow first
			if !f() {
				t.Fatalf("%s did not arrive", name)
			}
		}
		if n := testing.AllocsPerRun(200, func() {
			if !f() {
				t.Fatalf("%s did not arrive", name)
			}
		}); n != 0 {
			t.Errorf("%s allocates %v times, want 0", name, n)
		}
	}
}
