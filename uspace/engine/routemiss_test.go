package engine_test

// This file holds the rules of packets for nodes without a route (Tokyo, sections 2.1 and 3.3;
// routemiss.go).

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// noRouteFault is what the owner of card 0 hears of a packet of its node.
func noRouteFault(node int) string {
	return fmt.Sprintf("card 0: node %d of group %d, from 0: %v", node, gid, arctic.ReasonNoRoute)
}

// routeTo gives card 0 a route to a node, or takes it away, in the table that the name says.
func (r *remoteBed) routeTo(table string, node int, route uint32) {
	r.t.Helper()
	err := error(nil)
	if table == "card" {
		err = r.cards[0].SetRoute(uint16(node), route)
	} else {
		routes := make([]uint32, 0, len(r.route))
		for n, at := range r.route {
			if n == node {
				at = route
			}
			routes = append(routes, at)
		}
		err = r.cards[0].SetGroupRoutes(gid, routes)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// Rule: while its owner has it so, what a process sends to a node without a route waits, and is
// carried out once, in its order, when there is a route; what it sends elsewhere goes on. So it is
// with each kind of packet that waits, with both tables, where the route leads back to this card,
// and on a modelled machine, whose units have done their part when a packet begins to wait.
func TestPacketsWaitForARoute(t *testing.T) {
	onTimedToo(t, packetsWaitForARoute)
}

func packetsWaitForARoute(t *testing.T, tune func(*engine.Config)) {
	for name, row := range map[string]struct {
		asks func(r *remoteBed, to int)
		done func(r *remoteBed, to int)
	}{
		"messages": {func(r *remoteBed, to int) {
			for i := range uint32(4) {
				r.mustSend(0, funi.Request, to, i)
			}
		}, func(r *remoteBed, to int) {
			for i := range uint32(4) {
				r.until(time.Second, "a message", func() bool {
					m, ok := take(r.proc[to], funi.Request)
					if ok && m.Payload()[0] != i {
						t.Fatalf("message %d came as number %d", m.Payload()[0], i)
					}
					return ok
				})
			}
		}},
		"replies": {func(r *remoteBed, to int) { r.mustSend(0, funi.Reply, to, 9) }, func(r *remoteBed, to int) {
			r.until(time.Second, "a reply", func() bool {
				m, ok := take(r.proc[to], funi.Reply)
				return ok && m.Payload()[0] == 9
			})
		}},
		"add": {func(r *remoteBed, to int) { r.asks(0, to, operation(arctic.RemoteAdd, windowAt, 5)) }, completesOnce},
		"get": {func(r *remoteBed, to int) {
			r.asks(0, to, funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet, Key: theKey,
				Address: windowAt}, Length: 8})
		}, completesOnce},
		"multicast": {func(r *remoteBed, to int) {
			r.chains(1, uint16(to), tree{}, r.byNode)
			r.block(0, funi.Request, func(s *funi.Slot) {
				s.SetMulticast(uint16(to), &funi.MulticastRequest{Chain: 1, Members: 1, Message: 7, Data: word(3)})
			})
		}, completesOnce},
	} {
		for _, table := range []string{"card", "group"} {
			for to := range 2 {
				t.Run(fmt.Sprintf("%s to %d by the table of the %s", name, to, table), func(t *testing.T) {
					f := faults{suspend: true}
					r := newRemoteBed(t, setup{cards: 3, remote: moreRemote, net: near, tune: func(c *engine.Config) {
						f.tune(c)
						tune(c)
					}})
					r.exposes(to, funi.Window{Key: theKey, Bytes: 64, Address: windowAt, Rights: allRights})
					r.routeTo(table, to, engine.NoRoute)
					was := bytes.Clone(r.keyed[to])
					row.asks(r, to)
					r.mustSend(0, funi.Request, 2, 77)
					r.until(time.Second, "what goes elsewhere", func() bool {
						m, ok := take(r.proc[2], funi.Request)
						return ok && m.Payload()[0] == 77
					})
					r.pass(patience / 2)
					r.silent(0)
					if back, ok := r.proc[0].NextReturn(); ok || !bytes.Equal(was, r.keyed[to]) || len(f.heard) == 0 ||
						f.heard[0] != noRouteFault(to) {
						t.Fatalf("before there is a route: %+v came back, the owner heard %q", back, f.heard)
					}
					if r.ctx[0].Idle() {
						t.Error("a context is idle while a packet waits for a route")
					}
					r.routeTo(table, to, uint32(to))
					row.done(r, to)
					r.ends()
				})
			}
		}
	}
}

// completesOnce waits until node 0's one operation is complete.
func completesOnce(r *remoteBed, _ int) {
	r.t.Helper()
	if n := r.notified(0); n.Kind != funi.NoteCompletion || n.Reason != arctic.ReasonNone {
		r.t.Fatalf("when there is a route: %+v", n)
	}
	r.silent(0)
}

// Rule: a packet waits for a route for ConnectTimeout and no longer, and then comes back with the
// reason that it has where nothing waits. That holds however many packets wait. What an owner does
// not hold comes back at once, and so do long transfers, which have their route when they begin.
func TestRouteThatNeverComes(t *testing.T) {
	f := faults{suspend: true}
	r := newRemoteBed(t, setup{cards: 2, slots: 1024, remote: moreRemote, net: near, tune: f.tune})
	r.routeTo("card", 1, engine.NoRoute)
	returns := func(want int) (took time.Duration) {
		t.Helper()
		begun, got := r.now, 0
		r.until(2*patience, "all come back", func() bool {
			for back, ok := r.proc[0].NextReturn(); ok; back, ok = r.proc[0].NextReturn() {
				if got++; back.Reason != arctic.ReasonNoRoute {
					t.Fatalf("came back with %v", back.Reason)
				}
			}
			return got+int(r.proc[0].ReturnsLost()) >= want
		})
		return time.Duration(r.now - begun)
	}
	const many = 700 // more than a step returns
	for i := range uint32(many) {
		r.mustSend(0, funi.Request, 1, i)
	}
	if took := returns(many); took < patience || took > patience+patience/10 {
		t.Errorf("they came back after %v, want %v", took, patience)
	}
	r.idle(time.Second)
	r.asks(0, 1, funi.Operation{WindowRequest: arctic.WindowRequest{Key: theKey, Address: windowAt, Ack: true},
		Source: sources, Length: 5000})
	if n := r.notified(0); n.Reason != arctic.ReasonNoRoute {
		t.Errorf("a long put: %+v", n)
	}
	f.suspend = false
	before := r.now
	r.asks(0, 1, operation(arctic.RemoteAdd, windowAt, 5))
	if n := r.notified(0); n.Reason != arctic.ReasonNoRoute || r.now-before > int64(patience/4) {
		t.Errorf("what is not held: %+v after %v", n, time.Duration(r.now-before))
	}
	r.ends()
}

// Rule: what waits for a route ends with its context, and comes back when its process takes back
// what is undelivered; nothing of it is sent when there is a route.
func TestPacketsThatWaitForARouteAreGivenUp(t *testing.T) {
	for name, ends := range map[string]func(r *remoteBed){
		"detached": func(r *remoteBed) { r.cards[0].Detach(r.ctx[0]) },
		"reset": func(r *remoteBed) {
			if err := r.ctx[0].Store(funi.Control, funi.RESET); err != nil {
				r.t.Fatal(err)
			}
		},
		"taken back": func(r *remoteBed) {
			for _, write := range []struct {
				register funi.Register
				value    uint32
			}{{funi.Control, funi.CTXM}, {funi.Ticket, 0xffffffff}, {funi.Control, 0}} {
				if err := r.ctx[0].Store(write.register, write.value); err != nil {
					r.t.Fatal(err)
				}
			}
			r.wake[0] = 0
			r.comesBack(time.Second, r.proc[0], funi.Returned{Reason: arctic.ReasonGivenUp, Level: funi.Request,
				Header: funi.NewHeader(1, 5, 1), Word: 3})
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := faults{suspend: true}
			r := newRemoteBed(t, setup{cards: 2, net: near, tune: f.tune})
			r.routeTo("card", 1, engine.NoRoute)
			r.mustSend(0, funi.Request, 1, 3)
			r.pass(patience / 8)
			ends(r)
			r.routeTo("card", 1, 1)
			r.pass(2 * patience)
			if m, ok := take(r.proc[1], funi.Request); ok {
				t.Errorf("%#x has come", m[:2])
			}
			if err := r.cards[0].Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Rule: what waits for a route waits on while its context is switched out, and leaves when both are
// there.
func TestPacketsThatWaitForARouteOutliveASwitch(t *testing.T) {
	f := faults{suspend: true}
	r := newRemoteBed(t, setup{cards: 2, net: near, tune: f.tune})
	r.routeTo("card", 1, engine.NoRoute)
	r.mustSend(0, funi.Request, 1, 3)
	r.pass(patience / 8)
	s, err := r.cards[0].SwitchOut(r.ctx[0], false)
	if err != nil {
		t.Fatal(err)
	}
	r.routeTo("card", 1, 1)
	r.pass(patience / 8)
	if err := r.cards[0].SwitchIn(s); err != nil {
		t.Fatal(err)
	}
	r.until(time.Second, "it comes", func() bool {
		m, ok := take(r.proc[1], funi.Request)
		return ok && m.Payload()[0] == 3
	})
	r.ends()
}
