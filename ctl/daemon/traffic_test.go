package daemon_test

// This file tests who sees which traffic.

import (
	"encoding/json"
	"testing"

	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/attach"
)

func trafficOn(t testing.TB, k *client) (v report.Traffic) {
	t.Helper()
	message, err := attach.EncodeBody(attach.KindTraffic, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := k.ask(message, 0)
	body, err := attach.DecodeBody(answer, attach.KindTraffic|attach.AnswerBit)
	if err == nil {
		err = json.Unmarshal(body, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Rule: an administrator sees what each context has moved and how each peer answers; an ordinary
// user sees the card's sums and the peers' times, and of contexts only his own (traffic.go).
func TestTraffic(t *testing.T) {
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	_, nodes := group(t, daemons, 0, 1)
	const turns = 100
	pingPong(t, nodes, turns)
	root := dial(t, daemons[0].socket)
	got := trafficOn(t, root)
	if len(got.Contexts) != 1 || len(got.Jobs) != 1 || got.Jobs[0].Traffic != got.Contexts[0].Traffic ||
		got.Jobs[0].GID != nodes[0].Answer.GID {
		t.Fatalf("%+v", got)
	}
	if x := got.Contexts[0]; x.Sent < turns || x.Received < turns || x.SentBytes < 4*turns ||
		x.Context != nodes[0].Answer.Context {
		t.Errorf("%+v", x)
	}
	if n := got.Card; n.PacketsSent < turns || n.TrainsSent == 0 || n.TrainsSent > n.PacketsSent ||
		n.FrameBytesSent < 60*n.TrainsSent {
		t.Errorf("%+v", n)
	}
	var trips []report.RoundTrip
	until(t, "the peer's round trip is known", func() bool {
		trips = trafficOn(t, root).RoundTrips
		return len(trips) == 1
	})
	if trips[0].Card != 1 || trips[0].RoundTrip <= 0 {
		t.Errorf("%+v", trips)
	}
	stranger := trafficOn(t, dialIn(t, daemons[0].socket, bob, bob))
	if len(stranger.Contexts) != 0 || len(stranger.Jobs) != 0 || stranger.Card.PacketsSent < turns ||
		len(stranger.RoundTrips) != 1 || stranger.Peers.Known != 1 ||
		stranger.Peers.Median != trips[0].RoundTrip && stranger.Peers.Median <= 0 {
		t.Errorf("bob sees %+v", stranger)
	}
	if s := daemons[0].status(t); s.Peers == nil || s.Peers.Established != 1 || s.Peers.Measured != 1 {
		t.Errorf("%+v", s.Peers)
	}
}

// Rule: the status says what each job has moved since it was made, its processes that have ended
// included, to its owner and to administrators.
func TestTrafficOfJobs(t *testing.T) {
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	_, nodes := group(t, daemons, 0, 1)
	const turns = 100
	pingPong(t, nodes, turns)
	s := daemons[0].status(t)
	if len(s.Jobs) != 1 || s.Jobs[0].GID != nodes[0].Answer.GID || s.Jobs[0].Traffic.Sent < turns ||
		s.Jobs[0].Traffic.Received < turns {
		t.Fatalf("%+v", s.Jobs)
	}
	was := s.Jobs[0].Traffic
	nodes[0].Conn.Close()
	until(t, "the process has left its job", func() bool {
		s = daemons[0].status(t)
		return len(s.Contexts) == 0 && len(s.Jobs) == 1 && s.Jobs[0].Attached == 0
	})
	if s.Jobs[0].Traffic.Sent < was.Sent || s.Jobs[0].Traffic.Received < was.Received ||
		s.Jobs[0].Traffic.SentBytes < was.SentBytes {
		t.Errorf("after the process's end: %+v, before %+v", s.Jobs, was)
	}
	if s := statusOn(t, dialIn(t, daemons[0].socket, bob, bob)); len(s.Jobs) != 0 {
		t.Errorf("bob sees %+v", s.Jobs)
	}
}
