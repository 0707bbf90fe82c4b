package daemon_test

// This file tests what an administrator captures of a daemon, and what becomes of it.

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/funet/funet/ctl/capture"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
)

// Rule: a capture sees the frames of both directions as the counters count them, goes on when the card is replaced by one
// of another profile, and ends with the daemon.
func TestCapture(t *testing.T) {
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	var sent, received, begun atomic.Uint64
	ended := make(chan error, 1)
	go func() {
		ended <- capture.Follow(context.Background(), daemons[0].socket, capture.Request{},
			func(begin *capture.Begin) error {
				if begin.Card != 0 || len(begin.Interfaces) != 1 || begin.Snap != capture.MaxSnap {
					t.Errorf("%+v", begin)
				}
				return nil
			},
			func(r *capture.Record) error {
				f, err := arctic.Parse(r.Data)
				if err != nil || r.Length != len(r.Data) || time.Since(time.Unix(0, r.Time)).Abs() > time.Hour {
					t.Errorf("%+v: %v", r, err)
					return nil
				}
				if card := f.Header().SourceCard; (card == 0) != (r.Fate.Outcome == engine.Sent) {
					t.Errorf("a frame of card %d is %v", card, r.Fate)
				}
				if r.Fate.Outcome == engine.Sent {
					sent.Add(1)
				} else {
					received.Add(1)
				}
				return nil
			}, func([]capture.Counts) { begun.Add(1) })
	}()
	until(t, "the capture has begun", func() bool { return begun.Load() > 0 })
	converse := func() {
		owners, nodes := group(t, daemons, 0, 1)
		pingPong(t, nodes, 20)
		for _, k := range append(owners, nodes...) {
			k.close()
		}
	}
	converse()
	until(t, "frames are seen", func() bool { return sent.Load() >= 20 && received.Load() >= 20 })
	n := daemons[0].status(t).Counters
	if sent.Load() > n.FramesSent || received.Load() > n.FramesReceived {
		t.Errorf("%d and %d frames seen, %d and %d counted", sent.Load(), received.Load(), n.FramesSent, n.FramesReceived)
	}
	until(t, "the groups are gone", func() bool { return len(daemons[0].status(t).Jobs) == 0 })
	wantError(t, daemons[0].admin(t, `{"do": "profile-set", "profile": "native"}`, nil), nil)
	before := sent.Load()
	converse()
	until(t, "frames of the new card are seen", func() bool { return sent.Load() >= before+20 })
	daemons[0].stop(t)
	select {
	case err := <-ended:
		if !errors.Is(err, attach.ErrLost) {
			t.Errorf("the end of the daemon was %v", err)
		}
	case <-time.After(patience):
		t.Error("the capture does not end with the daemon")
	}
}

// Rule: a process that captures and does not read keeps neither the daemon nor its end waiting, and one that says something more
// captures no longer.
func TestCaptureThatIsNotRead(t *testing.T) {
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	ask := func(body string) *client {
		k := dial(t, daemons[0].socket)
		message, err := attach.EncodeBody(attach.KindCapture, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if err := attach.Send(k.conn, message); err != nil {
			t.Fatal(err)
		}
		return k
	}
	begins := func(k *client) error {
		answer, _, err := attach.Receive(k.conn, make([]byte, attach.MaxMessage), 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = attach.DecodeBody(answer, attach.KindCapture|attach.AnswerBit)
		return err
	}
	for body, want := range map[string]error{``: attach.ErrCommand, `{"snap_bytes": -1}`: attach.ErrCommand, `{"snap_bytes": 1000000}`: attach.ErrCommand, `{"x": 1}`: attach.ErrCommand, `[`: attach.ErrCommand} {
		wantError(t, begins(ask(body)), want)
	}
	talkative := ask(`{}`)
	wantError(t, begins(talkative), nil)
	wantError(t, begins(ask(`{}`)), attach.ErrTaken)
	if err := attach.Send(talkative.conn, []byte("something")); err != nil {
		t.Fatal(err)
	}
	var silent *client
	until(t, "another may capture", func() bool {
		silent = ask(`{}`)
		return begins(silent) == nil
	})
	_, nodes := group(t, daemons, 0, 1)
	pingPong(t, nodes, 2000)
	daemons[0].stop(t)
}
