package daemon

// This file tests what fits into an answer about traffic, however much there is.

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
)

// Rule: the longest answer about traffic fits into a message (traffic.go).
func TestTrafficFits(t *testing.T) {
	var most engine.Traffic
	for _, n := range []*uint64{&most.Sent, &most.SentBytes, &most.Received, &most.ReceivedBytes, &most.Retried,
		&most.Returned, &most.Refused} {
		*n = math.MaxUint64
	}
	big := report.Traffic{Time: time.Now(), Incarnation: math.MaxUint32, LeftOut: math.MaxInt}
	var names map[string]uint64
	b, err := json.Marshal(big.Card)
	if err == nil {
		err = json.Unmarshal(b, &names)
	}
	for name := range names {
		names[name] = math.MaxUint64
	}
	if err == nil {
		b, err = json.Marshal(names)
	}
	if err == nil {
		err = json.Unmarshal(b, &big.Card)
	}
	if err != nil {
		t.Fatal(err)
	}
	big.Rejected = rejections(new(engine.Rejections))
	for i := range big.Rejected {
		big.Rejected[i].Packets = math.MaxUint64
	}
	big.RejectedThem = big.Rejected
	big.Peers = report.Peers{Known: 1 << 16, Established: 1 << 16, Sealed: 1 << 16, Readable: 1 << 16, Refused: 1 << 16,
		Measured: 1 << 16, Shortest: math.MaxInt64, Median: math.MaxInt64, P99: math.MaxInt64, Longest: math.MaxInt64,
		KeyFault: "card 65535: no key there"}
	for range trafficJobs {
		big.Jobs = append(big.Jobs, report.JobTraffic{GID: math.MaxUint16, Traffic: most})
	}
	for range trafficContexts {
		big.Contexts = append(big.Contexts, report.ContextTraffic{Context: math.MaxUint16, GID: math.MaxUint16,
			Node: math.MaxUint16, PID: math.MaxInt32, Traffic: most})
	}
	for range trafficPeers {
		big.RoundTrips = append(big.RoundTrips, report.RoundTrip{Card: math.MaxUint16, RoundTrip: math.MaxInt64,
			Variation: math.MaxInt64, InFlight: 2 * engine.Window})
	}
	if b, err = json.Marshal(big); err == nil {
		_, err = attach.EncodeBody(attach.KindTraffic|attach.AnswerBit, b)
	}
	if err != nil {
		t.Error(err)
	}
}

// Rule: the quantiles are of all peers, in their order, and the peers that are listed are as many
// as there is room for, those that owe answers first, then the slowest.
func TestPeersAreSummarized(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 4*trafficPeers).Draw(t, "n")
		var all []report.RoundTrip
		owe := 0
		for card := range n {
			r := report.RoundTrip{Card: uint16(card), RoundTrip: rapid.Int64Range(1, 1000).Draw(t, "ns"),
				InFlight: rapid.IntRange(0, 2).Draw(t, "flying")}
			owe += min(r.InFlight, 1)
			all = append(all, r)
		}
		var l peersLook
		l.summarize(all)
		if l.Measured != n || len(l.first) != min(n, trafficPeers) ||
			n > 0 && (l.Shortest < 1 || l.Shortest > l.Median || l.Median > l.P99 || l.P99 > l.Longest) {
			t.Fatalf("%+v", l)
		}
		for i, r := range l.first {
			if (r.InFlight > 0) != (i < owe) {
				t.Fatalf("peer %d of %d that owe: %+v", i, owe, r)
			}
			if i > 0 && i != owe && r.RoundTrip > l.first[i-1].RoundTrip {
				t.Fatalf("%+v after %+v", r, l.first[i-1])
			}
		}
	})
}
