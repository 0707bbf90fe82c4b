package program

// This file tests what a program on a daemon's card says of a node that is silent.

import (
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/tests/fake"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funet"
)

// tells is a socket at which somebody answers each request for the status so.
func tells(t *testing.T, h report.HelloStatus) (socket string) {
	return fake.Daemon(t, t.TempDir(), func(c *net.UnixConn, _ []byte) {
		b, _ := json.Marshal(report.Status{Hello: h})
		m, _ := attach.EncodeBody(attach.KindStatus|attach.AnswerBit, b)
		_ = attach.Send(c, m)
	})
}

// well is a card that nothing is wrong with.
type well struct{ funet.Carrier }

func (well) Err() error { return nil }

// Rule: if a daemon has the card, the error that a node is silent names what the daemon has heard.
// This is other versions, clusters and numbers, and the peers that do not answer. If there is
// nothing to say, or no daemon, the error is unchanged.
func TestSilentCards(t *testing.T) {
	silent := &am.Undelivered{Node: 1, Reason: arctic.ReasonSilent}
	for _, c := range []struct {
		h     report.HelloStatus
		words []string
	}{
		{report.HelloStatus{}, nil},
		{report.HelloStatus{Faults: []string{"b, card 1, has frames of version 4, this host of version 3; run the same"}},
			[]string{"funid: b, card 1, has frames of version 4"}},
		{report.HelloStatus{Peers: []report.PeerStatus{{Card: 1, Address: "02:00:00:00:00:01", HeardAgo: 9,
			Unanswered: 2}, {Card: 2, HeardAgo: 1}, {Card: 3, Address: "x", HeardAgo: -1}}},
			[]string{"not answered by card 1 at 02:00:00:00:00:01, card 3 at x: see that funid runs there"}},
	} {
		err := (&Node{Carrier: well{}, socket: tells(t, c.h)}).explain(silent)
		if !errors.Is(err, silent) || len(c.words) == 0 && err.Error() != silent.Error() {
			t.Errorf("%v", err)
		}
		for _, w := range c.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v does not say %q", err, w)
			}
		}
	}
	if err := (&Node{Carrier: well{}, socket: filepath.Join(t.TempDir(), "none")}).explain(silent); err.Error() !=
		silent.Error() {
		t.Error(err)
	}
}
