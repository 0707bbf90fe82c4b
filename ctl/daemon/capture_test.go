package daemon_test

// This file tests what an administrator captures of a daemon, and what becomes of it.

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/funet/funet/ctl/capture"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/xdp"
)

// Rule: a capture sees the frames of both directions as the counters count them, goes on when the
// card is replaced by one of another profile, and ends with the daemon.
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
			k.Close()
		}
	}
	converse()
	until(t, "frames are seen", func() bool { return sent.Load() >= 20 && received.Load() >= 20 })
	n := daemons[0].status(t).Counters
	if sent.Load() > n.FramesSent || received.Load() > n.FramesReceived {
		t.Errorf("%d and %d frames seen, %d and %d counted", sent.Load(), received.Load(), n.FramesSent,
			n.FramesReceived)
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

// Rule (capturedirect.go): a capture sees the frames of direct ports as their switch counts them,
// with addresses of hosts. It sees both directions, and frames between ports of this host, and says
// which interface they take. A frame that a process sends in another's name is shown with the node
// of the process that sent it.
func TestCaptureOfDirectFrames(t *testing.T) {
	for name, mode := range map[string]xdp.AttachMode{"generic": xdp.AttachGeneric, "native": xdp.AttachNative} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.tune = func(c *daemon.Config) { c.Attach = mode }
			captureDirectFrames(t, b)
		})
	}
}

func captureDirectFrames(t *testing.T, b *bed) {
	daemons := []*running{b.direct(0), b.direct(1)}
	gid, token, _ := directJob(t, daemons, 0, 1)
	var sent, received, begun, lost atomic.Uint64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- capture.Follow(ctx, daemons[0].socket, capture.Request{},
			func(begin *capture.Begin) error {
				if len(begin.Interfaces) != 2 || begin.Interfaces[1] != "direct ports" || begin.Ports != 0 {
					t.Errorf("%+v", begin)
				}
				return nil
			},
			func(r *capture.Record) error {
				if !r.Direct {
					return nil // a greeting of daemons
				}
				f, err := arctic.Parse(r.Data)
				if err != nil || r.Length != len(r.Data) || time.Since(time.Unix(0, r.Time)).Abs() > time.Hour {
					t.Errorf("%+v: %v", r, err)
					return nil
				}
				h := f.Header()
				if out := !r.Verdict.Arrived(); r.Interface != 0 || h.GID != gid || (h.SourceCard == 0) != out ||
					out && (r.GID != gid || r.Node != 0) ||
					r.Verdict.Dropped() != "" || r.Verdict.Local() || h.From == ([6]byte{}) || h.To == ([6]byte{}) {
					t.Errorf("%+v, which is %+v", r, h)
				} else if out {
					sent.Add(1)
				} else {
					received.Add(1)
				}
				return nil
			}, func(n []capture.Counts) {
				begun.Add(1)
				lost.Store(n[1].Lost)
			})
	}()
	until(t, "the capture has begun", func() bool { return begun.Load() > 0 })
	patient, done := context.WithTimeout(t.Context(), patience)
	defer done()
	var nodes []*funet.Endpoint
	for node, d := range daemons {
		e, err := funet.Open(patient, funet.Options{Attach: &attach.Config{Socket: d.socket, GID: gid,
			Node: uint16(node), Token: token}})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close(patient)
		nodes = append(nodes, e)
	}
	if err := nodes[1].Serve(1, func(m *funet.Message) ([]byte, error) { return m.Bytes, nil }); err != nil {
		t.Fatal(err)
	}
	served, serve := context.WithCancel(patient)
	serving := make(chan error, 1)
	go func() { serving <- nodes[1].Run(served) }()
	defer func() { serve(); <-serving }()
	for range 50 {
		if _, err := nodes[0].Call(patient, 1, 1, make([]byte, 500)); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all frames are seen, as they are counted", func() bool {
		s := portsOf(t, daemons[0])
		n, in := s.Ports[0].Frames, s.Links[0].Direct
		return n.Sent >= 50 && in.Handed >= 50 && n.Sent == sent.Load() && in.Handed == received.Load()
	})
	if n := lost.Load(); n != 0 {
		t.Errorf("%d frames are lost", n)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// Nobody captures now, and somebody may again.
	until(t, "another may capture", func() bool {
		k := dial(t, daemons[0].socket)
		defer k.Close()
		answer, _ := k.ask(must(attach.EncodeBody(attach.KindCapture, []byte(`{}`))), 0)
		_, err := attach.DecodeBody(answer, attach.KindCapture|attach.AnswerBit)
		return err == nil
	})
}

// Rule (helper.go): a capture ends with the daemon that has begun it.
func TestCaptureEndsWithTheDaemon(t *testing.T) {
	long.Test(t)
	b := newBed(t)
	connect := b.helper(0)
	first := connect()
	if _, _, err := first.Held(); err != nil {
		t.Fatal(err)
	}
	c, ok, err := first.StartCapture(100)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	defer c.Close()
	first.Close()
	b.tune = func(c *daemon.Config) { c.ConnectTimeout = time.Second } // so long nobody is greeted
	d := b.directWith(0, connect)
	gid, token, _ := directJob(t, []*running{d}, 0, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e, err := funet.Open(ctx, funet.Options{Attach: &attach.Config{Socket: d.socket, GID: gid, Token: token}})
	if err != nil {
		t.Fatal(err)
	}
	calling, hangUp := context.WithCancel(ctx)
	called := make(chan error, 1)
	go func() {
		_, err := e.Call(calling, 1, 1, []byte("to nobody")) // who is greeted
		called <- err
	}()
	until(t, "a frame passes the guard", func() bool { return portsOf(t, d).Ports[0].Frames.Sent > 0 })
	hangUp()
	<-called
	_ = e.Close(ctx)
	if s, ok, err := c.Next(); ok || err != nil {
		t.Errorf("it goes on: %+v, %v", s, err)
	}
}

// Rule: a process that captures and does not read keeps neither the daemon nor its end waiting, and
// one that says something more captures no longer.
func TestCaptureThatIsNotRead(t *testing.T) {
	long.Test(t)
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	ask := func(body string) *client {
		k := dial(t, daemons[0].socket)
		message, err := attach.EncodeBody(attach.KindCapture, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if err := attach.Send(k.Conn, message); err != nil {
			t.Fatal(err)
		}
		return k
	}
	begins := func(k *client) error {
		answer, _, err := attach.Receive(k.Conn, make([]byte, attach.MaxMessage), 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = attach.DecodeBody(answer, attach.KindCapture|attach.AnswerBit)
		return err
	}
	for body, want := range map[string]error{``: attach.ErrCommand, `{"snap_bytes": -1}`: attach.ErrCommand,
		`{"snap_bytes": 1000000}`: attach.ErrCommand, `{"x": 1}`: attach.ErrCommand, `[`: attach.ErrCommand} {
		wantError(t, begins(ask(body)), want)
	}
	talkative := ask(`{}`)
	wantError(t, begins(talkative), nil)
	wantError(t, begins(ask(`{}`)), attach.ErrTaken)
	if err := attach.Send(talkative.Conn, []byte("something")); err != nil {
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
