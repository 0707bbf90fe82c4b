package daemon_test

// This file tests that a panic ends the context or the connection whose it is, and nothing else
// (fault.go).

import (
	"strings"
	"sync"
	"testing"

	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// provocations are what makes funid panic for the process torn, by name.
var provocations = map[string]func(t *testing.T, d *running, torn, other *client){
	"work for a context": func(t *testing.T, d *running, torn, other *client) {
		if err := d.Fault(torn.Answer.GID, 0, false, true); err != nil {
			t.Fatal(err)
		}
		s := other.Iface.Reserve(funi.Request)
		s.SetHeader(funi.NewHeader(0, 5, 1))
		other.Iface.Commit(funi.Request)
		other.Wake()
	},
	"command": func(t *testing.T, d *running, torn, _ *client) {
		if err := d.PanicOnCard(torn.Answer.GID, 0); err == nil {
			t.Error("the asker hears of no error")
		}
	},
	"request": func(t *testing.T, d *running, torn, _ *client) {
		d.PanicInNextSegment(torn.Answer.GID, 0)
		if err := attach.Send(torn.Conn, attach.SegmentRequest{Base: 4096, Rights: funi.Source,
			Bytes: 4096}.Encode()); err != nil {
			t.Fatal(err)
		}
	},
}

// Rule: whatever an unprivileged process makes the card do costs that user and nobody else. A panic
// of the card's thread in the work for a context, or in a command, and a panic of a connection's
// goroutine end that context and that connection. The daemon goes on, with everybody else's
// contexts; it counts the panic and logs it with its stack.
func TestPanicEndsOneConnection(t *testing.T) {
	for name, provoke := range provocations {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			var mu sync.Mutex
			var log []string
			daemons := []*running{b.start(0, func(c *daemon.Config) {
				c.Log = func(line string) {
					mu.Lock()
					defer mu.Unlock()
					log = append(log, line)
				}
			}), b.start(1, nil)}
			_, nodes := group(t, daemons, 0, 0, 0, 1)
			_, victims := group(t, daemons, 0, 1)
			provoke(t, daemons[0], nodes[0], nodes[1])
			until(t, "the connection ends", func() bool { return len(daemons[0].status(t).Contexts) == 3 })
			for i := range uint32(50) {
				for _, from := range []uint16{1, 3} { // of this host and of the other
					nodes[from].send(2, i)
					if source, word := nodes[2].receive(); source != from || word != i {
						t.Fatalf("message %d of node %d: got %d from node %d", i, from, word, source)
					}
				}
			}
			pingPong(t, victims, 50)
			s := daemons[0].status(t)
			faults := uint64(0)
			if strings.HasPrefix(name, "memory") {
				faults = 1 // the card may find it as well, when the connection ends
			}
			if s.Panics != 1 || s.MemoryFaults > faults {
				t.Errorf("%d panics and %d memory faults are counted, not 1 and at most %d", s.Panics,
					s.MemoryFaults, faults)
			}
			until(t, "the panic is logged", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return strings.Count(strings.Join(log, "\n"), "panic in ") == 1
			})
		})
	}
}
