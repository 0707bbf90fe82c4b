package daemon

// This file tells stories of links that lose their carrier near the time when the NIC program comes
// or goes.

import (
	"strings"
	"testing"
	"time"
)

// Rule: an outage that begins while the program comes or goes, or within a second of that, is the
// driver's, until the link is back or has been away for longer than links negotiate. Every other is
// not.
func TestResets(t *testing.T) {
	const second = time.Second
	type look struct {
		at      time.Duration // since the program began to come, which took a second
		carrier bool
		losses  uint32
		outage  bool   // the link without a carrier is said to be reset
		said    string // part of it
	}
	for name, story := range map[string]struct {
		carrier bool   // before; the carrier had been lost seven times
		after   uint32 // times, when the program had come
		looks   []look
	}{
		"igb: the link goes while the program comes": {true, 8, []look{
			{second, false, 8, true, ""}, {2 * second, false, 8, true, ""},
			{3100 * time.Millisecond, true, 8, false, "back after 3.1 s"}, {4 * second, true, 8, false, ""},
			{5 * second, false, 9, false, ""}}},
		"nobody looked for a while": {true, 8,
			[]look{{9 * second, false, 8, true, ""}, {10 * second, true, 8, false, "back after 10.0 s"}}},
		"it was back before anybody looked": {true, 8,
			[]look{{1100 * time.Millisecond, true, 8, false, "back after 1.1 s"}}},
		"the link goes soon after": {true, 7,
			[]look{{1500 * time.Millisecond, true, 7, false, ""}, {2 * second, false, 8, true, ""},
				{4 * second, true, 8, false, "back after 4.0 s"}}},
		"the link goes later, which is not it": {true, 7,
			[]look{{1500 * time.Millisecond, true, 7, false, ""}, {3 * second, false, 8, false, ""},
				{4 * second, true, 8, false, ""}}},
		"it does not come back": {true, 8,
			[]look{{2 * second, false, 8, true, ""}, {16 * second, false, 8, false, ""},
				{17 * second, true, 8, false, ""}}},
		"there was no link": {false, 7,
			[]look{{2 * second, false, 7, false, ""}, {3 * second, true, 7, false, ""}}},
		"nothing happens": {true, 7,
			[]look{{2 * second, true, 7, false, ""}, {30 * second, true, 7, false, ""}}},
	} {
		begin := time.Unix(1000, 0)
		var r reset
		r.begin(begin, story.carrier, 7)
		r.end(begin.Add(second), story.after)
		for _, l := range story.looks {
			said := r.look(begin.Add(l.at), &seen{name: "eth0", up: true, carrier: l.carrier, losses: l.losses})
			if outage := r.outage(); outage != l.outage || (said == "") != (l.said == "") ||
				!strings.Contains(said, l.said) {
				t.Errorf("%s: after %v: outage %v, said %q", name, l.at, outage, said)
			}
		}
	}
}

// Rule: an interface that is set down meanwhile is no outage of the driver's.
func TestSetDownIsNoReset(t *testing.T) {
	begin := time.Unix(1000, 0)
	var r reset
	r.begin(begin, true, 7)
	r.end(begin, 7)
	r.look(begin.Add(time.Millisecond), &seen{losses: 8})
	if r.outage() {
		t.Error("it is")
	}
}

// Rule: a program that goes and comes again, as an interface is opened anew, makes one outage; at
// the end of the daemon, who sees no link come back, the last time is a hint.
func TestResetTwice(t *testing.T) {
	at := func(seconds float64) time.Time { return time.Unix(1000, int64(seconds*1e9)) }
	var r reset
	r.begin(at(0), true, 7)
	r.end(at(1), 8)
	r.begin(at(1), false, 8)
	r.end(at(2), 8)
	if said := r.look(at(4), &seen{name: "eth0", up: true, carrier: true, losses: 8}); !strings.Contains(said,
		"after 4.0 s") {
		t.Errorf("said %q", said)
	}
	if said := r.parting("eth0"); !strings.Contains(said,
		"because the NIC program is gone; last time it was back after 4.0 s") {
		t.Errorf("said %q", said)
	}
}
