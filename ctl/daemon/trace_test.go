package daemon_test

// This file tests which packets each user may trace.

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/trace"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
)

// tracing asks for a trace, and returns how it begins.
func tracing(t testing.TB, k *client, body string) (trace.Begin, error) {
	t.Helper()
	message, err := attach.EncodeBody(attach.KindTrace, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := k.ask(message, 0)
	body2, err := attach.DecodeBody(answer, attach.KindTrace|attach.AnswerBit)
	var b trace.Begin
	if err == nil {
		err = json.Unmarshal(body2, &b)
	}
	return b, err
}

// ends says that it is enough, and reads up to the end.
func ends(t testing.TB, k *client) (all []engine.Trace) {
	t.Helper()
	message, err := attach.EncodeBody(attach.KindTrace, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for answer, _ := k.ask(message, 0); ; {
		body, err := attach.DecodeBody(answer, attach.KindTrace|attach.AnswerBit)
		var b trace.Batch
		if err == nil {
			err = json.Unmarshal(body, &b)
		}
		if err != nil || b.Lost > 0 {
			t.Fatalf("%v, %d lost", err, b.Lost)
		}
		all = append(all, b.Records...)
		if b.End {
			return all
		}
		if answer, _, err = attach.Receive(k.Conn, k.Buffer, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// Rule: root traces the packets of all users, and an ordinary user those of his own contexts,
// before and after they are attached. A trace has each packet in its stages at both ends. When a
// trace has ended the connection goes on, and contexts are free for another trace.
func TestTrace(t *testing.T) {
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	of := func(uid, host int) *client { return dialIn(t, daemons[host].socket, uid, uid) }
	talk := func(uid int, n uint32) (gid uint16, nodes []*client) {
		token := attach.NewToken()
		for host := range 2 {
			r := attach.JobRequest{GID: gid, Token: token, Cards: []uint16{0, 1}}
			k := of(uid, host)
			var err error
			gid, err = k.Job(r)
			wantError(t, err, nil)
		}
		for node := range 2 {
			k := of(uid, node)
			wantError(t, k.attach(attach.AttachRequest{GID: gid, Node: uint16(node), Slots: 64, Token: token}), nil)
			nodes = append(nodes, k)
		}
		pingPong(t, nodes, n)
		return gid, nodes
	}
	const turns = 20
	gidOfAlice, ofAlice := talk(alice, 1)
	here, there := dial(t, daemons[0].socket), dial(t, daemons[1].socket)
	for _, k := range []*client{here, there} {
		begin, err := tracing(t, k, `{"every": 1}`)
		wantError(t, err, nil)
		if begin.Contexts != 1 || begin.Others != 0 || begin.Every != 1 || begin.Clock == 0 {
			t.Errorf("%+v", begin)
		}
	}
	bobs := of(bob, 0)
	begin, err := tracing(t, bobs, `{"every": 1}`)
	wantError(t, err, nil)
	if begin.Contexts != 0 || begin.Others != 0 {
		t.Errorf("bob traces %+v", begin)
	}
	gidOfBob, _ := talk(bob, turns) // root's trace was there first
	pingPong(t, ofAlice, turns)
	if all := ends(t, bobs); len(all) != 0 {
		t.Errorf("bob traces %+v", all)
	}
	byGID := map[uint16]int{}
	sent, arrived := 0, 0
	for _, r := range ends(t, here) {
		byGID[r.GID]++
		switch {
		case r.End == engine.Delivered && r.FromCard == 1 && r.Arrived > 0:
			arrived++
		case r.FromCard == 0 && r.Sent >= r.Seen && r.Seen > 0 &&
			(r.End == engine.Acknowledged && r.Answered >= r.Sent || r.End == engine.Unfinished):
			sent++
		default:
			t.Errorf("%+v", r)
		}
	}
	if byGID[gidOfAlice] < 2*turns || byGID[gidOfBob] < 2*turns || sent < 2*turns || arrived < 2*turns {
		t.Errorf("root traces %v; %d were sent, %d arrived", byGID, sent, arrived)
	}
	ends(t, there)
	if s := statusOn(t, here); s.Card != 0 { // the connection goes on
		t.Errorf("%+v", s)
	}

	begin, err = tracing(t, bobs, fmt.Sprintf(`{"every": 1, "gid": %d}`, gidOfBob))
	wantError(t, err, nil)
	pingPong(t, ofAlice, turns)
	if all := ends(t, bobs); begin.Contexts != 1 || len(all) != 0 {
		t.Errorf("bob traces %+v, %+v", begin, all)
	}
	_, err = tracing(t, bobs, `{"every": 1}`)
	wantError(t, err, nil)
	_, again := talk(bob, turns)
	for _, r := range ends(t, bobs) {
		if r.GID == gidOfAlice || r.Context != again[0].Answer.Context {
			t.Errorf("bob traces %+v", r)
		}
	}
}

// Rule: a request for something that is no trace, for another user's group, or for a second trace
// is refused, and a process that traces and goes away, or does not read, keeps neither the daemon
// nor others waiting.
func TestTraceRefused(t *testing.T) {
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	_, nodes := group(t, daemons, 0, 1) // root's
	for body, want := range map[string]error{``: attach.ErrCommand, `{"every": 0}`: attach.ErrCommand,
		`{"every": 1000000001}`: attach.ErrCommand, `{"x": 1}`: attach.ErrCommand, `[`: attach.ErrCommand,
		fmt.Sprintf(`{"every": 1, "gid": %d}`, nodes[0].Answer.GID): attach.ErrForbidden,
		`{"every": 1, "gid": 2000}`:                                 attach.ErrForbidden} {
		_, err := tracing(t, dialIn(t, daemons[0].socket, bob, bob), body)
		wantError(t, err, want)
	}
	_, err := tracing(t, dial(t, daemons[0].socket), `{"every": 1, "gid": 2000}`)
	wantError(t, err, attach.ErrGroup)
	for round := range 3 { // one goes away, the next may
		silent := dialIn(t, daemons[0].socket, bob, bob)
		until(t, "bob may trace", func() bool { _, err := tracing(t, silent, `{"every": 1}`); return err == nil })
		_, err := tracing(t, dialIn(t, daemons[0].socket, bob, bob), `{"every": 1}`)
		wantError(t, err, attach.ErrTaken)
		if round < 2 {
			silent.Close()
		}
	}
	if _, err := tracing(t, dial(t, daemons[0].socket), `{"every": 1}`); err != nil {
		t.Fatal(err)
	}
	pingPong(t, nodes, 3000) // which nobody reads
	daemons[0].stop(t)
	_, err = trace.Follow(context.Background(), daemons[0].socket, trace.Request{Every: 1}, func(*trace.Begin) error {
		return nil
	}, func(*engine.Trace) error { return nil })
	wantError(t, err, attach.ErrNoDaemon)
}

// Rule: how many others trace is nothing to a user, and what his trace takes counts as his memory,
// and no trace begins beyond the quota (trace.go).
func TestTracesCountForTheirUser(t *testing.T) {
	b := newBed(t)
	poor := config.DefaultRule()
	poor.Users, poor.Bytes = []uint32{alice}, engine.TracerBytes/2
	d := b.start(0, func(c *daemon.Config) { c.Rules = []config.Rule{poor, config.DefaultRule()} })
	for i := range 10 {
		if _, err := tracing(t, dialIn(t, d.socket, bob+i, bob+i), `{"every": 1}`); err != nil {
			t.Fatalf("user %d of 10: %v", i+1, err)
		}
	}
	_, err := tracing(t, dialIn(t, d.socket, alice, alice), `{"every": 1}`)
	wantError(t, err, attach.ErrQuota)
}
