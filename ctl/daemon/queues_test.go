package daemon_test

// This file tests daemons whose interfaces have several queues.

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/xdp"
)

// Rule: status, log and metrics tell which queues are proven: by frames that came through them, and by peers'
// acknowledgments of what left on them; and a queue that carries nothing is no fault.
func TestQueuesAreProven(t *testing.T) {
	b := newBedOf(t, lab.Options{Hosts: 2, Queues: 3})
	var log logged
	metrics := filepath.Join(b.dir, "metrics.sock")
	native := func(c *daemon.Config) { c.Attach = xdp.AttachNative }
	daemons := []*running{b.start(0, func(c *daemon.Config) {
		native(c)
		c.Log, c.Metrics = log.add, "unix:"+metrics
	}), b.start(1, native)}
	if s := linkOf(t, daemons[0]); s.Queues != 3 || !strings.Contains(s.QueuesWhy, "to 0 to 2; nothing was sent on 0 to 2") {
		t.Errorf("at first: %+v", s)
	}
	_, nodes := group(t, daemons, 0, 1)
	pingPong(t, nodes, 200)
	// Of cards 0 and 1 requests leave on queue 1; on queue 2 replies would.
	until(t, "queue 1 is proven", func() bool {
		why := linkOf(t, daemons[0]).QueuesWhy
		return strings.Contains(why, "frames came on queue 1") && strings.Contains(why, "none were steered to 0") &&
			strings.Contains(why, "peers got what left on 1") && strings.Contains(why, "nothing was sent on 0")
	})
	until(t, "the log says so", func() bool { return log.has("interface fu0, 3 queues: frames came on queue") })
	client := http.Client{Timeout: patience, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", metrics)
	}}}
	defer client.CloseIdleConnections()
	r, err := client.Get("http://funid/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`funid_port_queue_proven{direction="receive",interface="fu0",queue="1"} 1`,
		`funid_port_queue_proven{direction="send",interface="fu0",queue="1"} 1`,
		`funid_port_queue_proven{direction="receive",interface="fu0",queue="0"} 0`,
		`funid_port_queue_sent_total{interface="fu0",queue="0"} 0`,
	} {
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("the metrics have no line %s", line)
		}
	}
}
