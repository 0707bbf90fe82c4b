package daemon_test

// This file tests the administrator's commands, time sharing, and metrics.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// admin sends a command and reads the answer into v.
func (r *running) admin(t testing.TB, command string, v any) error {
	t.Helper()
	k := dial(t, r.socket)
	defer k.Close()
	message, err := attach.EncodeBody(attach.KindAdmin, []byte(command))
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := k.ask(message, 0)
	body, err := attach.DecodeBody(answer, attach.KindAdmin|attach.AnswerBit)
	if err == nil && v != nil {
		err = json.Unmarshal(body, v)
	}
	return err
}

// Rule: the administrator lists and ends groups, lists and changes routes.
func TestAdministration(t *testing.T) {
	b := newBed(t)
	d := b.start(0, nil)
	owners, nodes := group(t, []*running{d}, 0, 0)
	gid := nodes[0].Answer.GID
	var gids report.GIDs
	wantError(t, d.admin(t, `{"do": "gid-list"}`, &gids), nil)
	if len(gids.GIDs) != 1 || gids.GIDs[0].GID != gid || gids.GIDs[0].Attached != 2 ||
		gids.GIDs[0].PID != int32(os.Getpid()) {
		t.Errorf("groups %+v", gids)
	}
	var contexts report.Contexts
	wantError(t, d.admin(t, `{"do": "context-list"}`, &contexts), nil)
	if len(contexts.Contexts) != 2 || !contexts.Contexts[1].Active || contexts.Contexts[1].Node != 1 {
		t.Errorf("contexts %+v", contexts)
	}
	nodes[1].Close()
	until(t, "node 1 has ended", func() bool { return len(d.status(t).Contexts) == 1 })
	var routes report.Routes
	wantError(t, d.admin(t, fmt.Sprintf(`{"do": "route-set", "gid": %d, "node": 1, "card": 1}`, gid), &routes), nil)
	if len(routes.Cards) != 2 || routes.Cards[1] != 1 {
		t.Errorf("routes %+v", routes)
	}
	for command, want := range map[string]error{
		`{"do": "route-set", "gid": 5000, "node": 1, "card": 1}`: attach.ErrGroup,
		`{"do": "route-set", "gid": 77, "node": 1, "card": 1}`:   attach.ErrGroup,
		// attached here
		fmt.Sprintf(`{"do": "route-set", "gid": %d, "node": 0, "card": 1}`, gid): attach.ErrCommand,
		fmt.Sprintf(`{"do": "route-set", "gid": %d, "node": 2, "card": 1}`, gid): attach.ErrNode,
		fmt.Sprintf(`{"do": "route-set", "gid": %d, "node": 1, "card": 2}`, gid): attach.ErrRoute,
		fmt.Sprintf(`{"do": "route-set", "gid": %d, "node": 1}`, gid):            attach.ErrCommand,
		`{"do": "gid-end"}`:                                             attach.ErrCommand,
		`{"do": "route-list", "gid": 0}`:                                attach.ErrGroup,
		`{"do": "profile-set", "profile": "nosuch"}`:                    attach.ErrCommand,
		`{"do": "profile-set", "profile": "sbus-arctic"}`:               attach.ErrCommand,
		`{"do": "profile-set", "profile": "native"}`:                    attach.ErrBusy,
		`{"do": "profile-set"}`:                                         attach.ErrCommand,
		`{"do": "profile-set", "text": "name: x", "profile": "native"}`: attach.ErrCommand,
		// all are on the card
		`{"do": "context-switch", "context": 0}`:          attach.ErrCommand,
		`{"do": "context-switch", "context": 4294967295}`: attach.ErrCommand,
		`{"do": "fly"}`:                    attach.ErrCommand,
		`{"do": "gid-list", "why": "so"}`:  attach.ErrCommand,
		`{"do": "gid-list"} {"do": "x"}`:   attach.ErrCommand,
		``:                                 attach.ErrCommand,
		strings.Repeat(`{"do":`, 10000):    attach.ErrCommand,
		`{"do": 3}`:                        attach.ErrCommand,
		`{"do": "gid-list", "gid": "one"}`: attach.ErrCommand,
	} {
		if err := d.admin(t, command, nil); !errors.Is(err, want) {
			t.Errorf("%.60s: %v, want %v", command, err, want)
		}
	}
	wantError(t, d.admin(t, fmt.Sprintf(`{"do": "gid-end", "gid": %d}`, gid), nil), nil)
	owners[0].closed()
	nodes[0].until("it is told", nodes[0].Iface.Gone)
	var profile report.ProfileStatus
	wantError(t, d.admin(t, `{"do": "profile-set", "profile": "native"}`, &profile), nil)
	if profile.Profile != "native" {
		t.Errorf("profile %+v", profile)
	}
	_, nodes = group(t, []*running{d}, 0, 0) // on the new card
	pingPong(t, nodes, 3)
	wantError(t, d.admin(t, `{"do": "stop"}`, nil), nil)
	nodes[0].closed()
}

// Rule: root is an administrator unless the configuration says otherwise, and then who it names
// still is.
func TestRootMayBeNoAdministrator(t *testing.T) {
	b := newBed(t)
	for _, c := range []struct {
		who  config.Who
		want error
	}{{config.Who{}, attach.ErrForbidden}, {config.Who{Users: []uint32{0}}, nil},
		{config.Who{Users: []uint32{7}}, attach.ErrForbidden}} {
		d := b.start(0, func(f *daemon.Config) { f.NotRoot, f.Administrators = true, c.who })
		if err := d.admin(t, `{"do": "gid-list"}`, nil); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("administrators %+v: %v, want %v", c.who, err, c.want)
		}
		d.stop(t)
	}
}

// Rule: the daemon opens no file for an administrator, who may be somebody who cannot read it, or
// names one that blocks whoever opens it: profiles come by name or in full.
func TestProfileComesInFull(t *testing.T) {
	b := newBed(t)
	d := b.start(0, nil)
	fifo, file := filepath.Join(b.dir, "fifo.yaml"), filepath.Join(b.dir, "few.yaml")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := few(t, 2).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	ask := func(m report.Command) (report.ProfileStatus, error) {
		body, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var p report.ProfileStatus
		return p, d.admin(t, string(body), &p)
	}
	for _, path := range []string{fifo, file, "/etc/shadow", "./native", "../native"} {
		_, err := ask(report.Command{Do: "profile-set", Profile: path})
		wantError(t, err, attach.ErrCommand)
		if !strings.Contains(err.Error(), "unknown profile") {
			t.Errorf("%s: %v", path, err)
		}
	}
	_, err = ask(report.Command{Do: "profile-set", Text: "root:x:0"})
	wantError(t, err, attach.ErrCommand)
	p, err := ask(report.Command{Do: "profile-set", Text: string(text)})
	if err != nil || p.Contexts != 2 {
		t.Errorf("the profile in full: %+v, %v", p, err)
	}
}

// few is a profile with room for the given number of groups.
func few(t testing.TB, contexts int) *hwprofiles.Profile {
	t.Helper()
	p, err := hwprofiles.Load("native")
	if err != nil {
		t.Fatal(err)
	}
	p.Card.Contexts = contexts
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return p
}

// Rule: groups that a card has no room for at once take turns, and none loses a message
// (thesis 4.2).
func TestGroupsTakeTurns(t *testing.T) {
	for _, room := range []int{1, 2} {
		b := newBed(t)
		var daemons []*running
		for host := range 2 {
			daemons = append(daemons, b.start(host, func(c *daemon.Config) { c.Profile = few(t, room) }))
		}
		var groups [][]*client
		for range 3 {
			_, nodes := group(t, daemons, 0, 1, 0)
			groups = append(groups, nodes)
		}
		const n = 60
		var sent, received [3][3]uint32
		end := func() bool {
			done := true
			for g, nodes := range groups {
				for node, k := range nodes {
					to := (node + 1) % len(nodes)
					if s := k.Iface.Receive(0); s != nil {
						if s.Payload()[0]>>8 != uint32(g) {
							t.Fatalf("group %d got %#x", g, s.Payload()[0])
						}
						received[g][node]++
						k.Iface.Release(0)
					}
					if sent[g][node] < n {
						if s := k.Iface.Reserve(0); s != nil {
							s.SetHeader(funi.NewHeader(uint16(to), 5, 1))
							s[1] = uint32(g)<<8 | sent[g][node]
							k.Iface.Commit(0)
							sent[g][node]++
							k.Wake()
						}
					}
					if r, ok := k.Iface.NextReturn(); ok {
						t.Fatalf("it came back: %+v", r)
					}
					done = done && received[g][node] == n
				}
			}
			return done
		}
		groups[0][0].until("all messages of all groups", end)
		out := 0
		for _, x := range daemons[0].status(t).Contexts {
			if !x.Active {
				out++
			}
		}
		if most := 2 * (3 - room); out > 2*3 || out < most-2 {
			t.Errorf("room for %d groups: %d contexts are out", room, out)
		}
		gid := groups[1][0].Answer.GID
		wantError(t, daemons[0].admin(t, fmt.Sprintf(`{"do": "context-switch", "gid": %d}`, gid), nil), nil)
		wantError(t, daemons[0].admin(t, `{"do": "context-switch", "gid": 2047}`, nil), attach.ErrCommand)
		until(t, "the group has its turn", func() bool {
			for _, x := range daemons[0].status(t).Contexts {
				if x.GID == gid && x.Active {
					return true
				}
			}
			return false
		})
		for _, k := range groups[0] { // one that is out may be detached as well
			k.Close()
		}
		until(t, "its contexts have ended", func() bool { return len(daemons[0].status(t).Contexts) == 4 })
	}
}

// metrics is where a host's daemon serves metrics, if it is told to.
func (b *bed) metrics(card uint16) string {
	return filepath.Join(b.dir, fmt.Sprintf("metrics-%d.sock", card))
}

// scrape returns the metrics that a daemon serves at a socket.
func scrape(t *testing.T, path string) string {
	t.Helper()
	client := http.Client{Timeout: patience,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}}
	defer client.CloseIdleConnections()
	r, err := client.Get("http://funid/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", r.Status, err)
	}
	return string(text)
}

// Rule: metrics are served at a loopback address or a Unix socket, and nowhere else.
func TestMetrics(t *testing.T) {
	b := newBed(t)
	path := b.metrics(0)
	d := b.start(0, func(c *daemon.Config) { c.Metrics = "unix:" + path })
	_, nodes := group(t, []*running{d}, 0, 0)
	pingPong(t, nodes, 3)
	text := scrape(t, path)
	for _, want := range []string{"funid_contexts 2\n", "funid_jobs 1\n", "funid_card_packets_to_own_card_total 6\n",
		"# TYPE funid_port_sends gauge\nfunid_port_sends{interface=\"fu0\"} 1\n",
		"funid_interface_state{interface=\"fu0\",state=\"up\"} 1\n",
		"funid_interface_state{interface=\"fu0\",state=\"gone\"} 0\n",
		"funid_interface_reopened_total{interface=\"fu0\"} 0\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "# TYPE") && seen[line] {
			t.Errorf("twice: %s", line)
		}
		seen[line] = true
	}
	for _, bad := range []string{"0.0.0.0:1", "10.0.0.1:80", ":9464", "unix:relative", "localhost:1"} {
		c := b.config(1)
		c.Metrics = bad
		wantError(t, c.Check(), config.ErrConfig)
	}
}
