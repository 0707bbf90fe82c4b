package daemon_test

// This file holds the rules of hosts that join, leave and move while the daemon runs
// (members.go), with real frames.

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/funi"
)

// journal is a daemon's log.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// all returns the lines.
func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// says waits for a line with the words, and forgets what was logged before.
func (j *journal) says(t *testing.T, words string) {
	t.Helper()
	until(t, "the log says "+words, func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		for i, line := range j.lines {
			if strings.Contains(line, words) {
				j.lines = j.lines[i+1:]
				return true
			}
		}
		return false
	})
}

// replaceFile replaces a file as a whole, as editors do.
func replaceFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Rule: a host that joins the peers file can be talked to without restarting the daemon. A host
// that leaves is gone at once for programs that talk to it. A host that moves is found again. A
// file that is no peers file, or that gives this host another address, changes nothing and is
// reported (members.go).
func TestPeersFileIsFollowed(t *testing.T) {
	long.Test(t)
	peersFileIsFollowed(t, lab.Options{Hosts: 2}, func(p *cluster.Peer) {
		p.MAC = net.HardwareAddr{2, 1, 1, 1, 1, 1}
	}, map[string]string{
		"peers:\n  - {node: 0, mac: \"02:00:00:00:00:01\"}\n  - {node: 1, absent: true}\n": "another mac",
		"encap: udp\npeers: [{node: 0, address: 198.18.0.1}, {node: 1, absent: true}]\n":   "another encapsulation",
	})
}

// Rule: so it is where frames travel in datagrams, over a router.
func TestPeersFileIsFollowedOverRouters(t *testing.T) {
	long.Test(t)
	peersFileIsFollowed(t, lab.Options{Hosts: 2, Topology: lab.Router}, func(p *cluster.Peer) {
		p.Address = p.Address.Next()
	}, map[string]string{
		"encap: udp\npeers: [{node: 0, address: 198.18.100.3}, {node: 1, absent: true}]\n":               "another address",
		"encap: udp\nport: 4000\npeers: [{node: 0, address: 198.18.100.2}, {node: 1, absent: true}]\n":   "another encapsulation or port",
		"peers: [{node: 0, mac: 02:00:00:00:00:01, address: 198.18.100.2}, {node: 1, absent: true}]\n":   "another encapsulation",
		"encap: udp\npeers: [{node: 0, address: 198.18.100.2}, {node: 1, address: \"2001:2:0:2::2\"}]\n": "IPv4 and IPv6 mixed",
	})
}

// peersFileIsFollowed is either: elsewhere changes where a peer is, and refused are files that
// change nothing, with what is said about them.
func peersFileIsFollowed(t *testing.T, o lab.Options, elsewhere func(*cluster.Peer), refused map[string]string) {
	b := newBedOf(t, o)
	path := filepath.Join(b.dir, "peers")
	write := func(change func(*cluster.File)) {
		t.Helper()
		f := b.lab.Peers(0)
		change(f)
		text, err := f.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		replaceFile(t, path, string(text))
	}
	without := func(f *cluster.File) { f.Peers[1] = cluster.Peer{Node: 1, Absent: true} }
	write(without)
	var log journal
	daemons := []*running{b.start(0, func(c *daemon.Config) {
		var err error
		if c.Peers, err = cluster.Load(path); err != nil {
			t.Fatal(err)
		}
		c.PeersPath, c.Log = path, log.add
		c.Interfaces = []string{"fu0"}
	}), b.start(1, nil)}

	request := attach.JobRequest{Token: attach.NewToken(), Cards: []uint16{0, 1}}
	_, err := dial(t, daemons[0].socket).Job(request)
	wantError(t, err, attach.ErrRoute)

	write(func(*cluster.File) {})
	log.says(t, "card 1 has joined")
	makers := []*client{dial(t, daemons[0].socket), dial(t, daemons[1].socket)}
	for _, k := range makers {
		if request.GID, err = k.Job(request); err != nil {
			t.Fatal(err)
		}
	}
	nodes := make([]*client, 2)
	for i := range nodes {
		nodes[i], _ = member(t, daemons[i], 0, request.GID, uint16(i), request.Token)
	}
	pingPong(t, nodes, 20)

	refused["peers: ["] = "peers:1"
	refused[strings.Repeat("#", cluster.MaxBytes+1)] = "too large"
	refused["peers:\n  - {node: 0, absent: true}\n  - {node: 1, mac: \"02:00:00:00:00:01\"}\n"] = "this host"
	for text, want := range refused {
		replaceFile(t, path, text)
		log.says(t, want)
		pingPong(t, nodes, 20)
	}

	departed := func(word uint32) {
		t.Helper()
		var r funi.Returned
		nodes[0].send(1, word)
		nodes[0].until("it comes back", func() (ok bool) { r, ok = nodes[0].Iface.NextReturn(); return ok })
		if r.Reason != arctic.ReasonDeparted || r.Word != word {
			t.Fatalf("came back as %+v (%v)", r, r.Reason)
		}
	}
	write(without)
	log.says(t, "card 1 has left")
	departed(7)
	_, err = dial(t, daemons[0].socket).Job(attach.JobRequest{Token: attach.NewToken(), Cards: []uint16{0, 1}})
	wantError(t, err, attach.ErrRoute)

	write(func(f *cluster.File) { elsewhere(&f.Peers[1]) })
	log.says(t, "card 1 has joined")
	write(func(*cluster.File) {})
	log.says(t, "card 1 has moved")
	pingPong(t, nodes, 20)
}

// Rule: a job is made only of a GID that may live on all hosts that have a node of it. The peers
// file lists such GIDs for each host (groups). A GID that is free is chosen among those. Another
// list counts for the jobs that are made later.
func TestGroupsByHost(t *testing.T) {
	b := newBed(t)
	path := filepath.Join(b.dir, "peers")
	write := func(here, there []cluster.Range) {
		t.Helper()
		f := b.lab.Peers(0)
		f.Peers[0].Groups, f.Peers[1].Groups = here, there
		text, err := f.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		replaceFile(t, path, string(text))
	}
	write([]cluster.Range{{First: 5, Last: 9}, {First: 100, Last: 100}}, []cluster.Range{{First: 9, Last: 100}})
	var log journal
	d := b.start(0, func(c *daemon.Config) {
		var err error
		if c.Peers, err = cluster.Load(path); err != nil {
			t.Fatal(err)
		}
		c.PeersPath, c.Log = path, log.add
		c.Rules = []config.Rule{{GIDs: []config.Range{{First: 1, Last: 99}}}}
	})
	token := attach.NewToken()
	refused := func(gid uint16, words string, cards ...uint16) {
		t.Helper()
		_, err := dial(t, d.socket).Job(attach.JobRequest{GID: gid, Token: token, Cards: cards})
		wantError(t, err, attach.ErrHost)
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v does not say %q", err, words)
		}
	}
	refused(4, "a node on card 0, whose groups are [5-9 100]", 0)
	refused(10, "a node on card 0, whose groups are [5-9 100]", 0, 1)
	refused(5, "a node on card 1, whose groups are [9-100]", 0, 1)
	_, err := dial(t, d.socket).Job(attach.JobRequest{GID: 100, Token: token, Cards: []uint16{0}})
	wantError(t, err, attach.ErrForbidden) // which his rule says
	if _, err := dial(t, d.socket).Job(attach.JobRequest{GID: 5, Token: token, Cards: []uint16{0}}); err != nil {
		t.Error(err)
	}
	k := dial(t, d.socket)
	if gid, err := k.Job(attach.JobRequest{Token: token, Cards: []uint16{0, 1}}); err != nil || gid != 9 {
		t.Errorf("GID %d, %v; want 9, which alone may live on both", gid, err)
	}
	if _, err = dial(t, d.socket).Job(attach.JobRequest{Token: token, Cards: []uint16{1, 0}}); !errors.Is(err,
		attach.ErrTaken) {
		t.Errorf("a second where there is room for one: %v", err)
	}
	write([]cluster.Range{{First: 20, Last: 20}}, []cluster.Range{{First: 21, Last: 21}})
	log.says(t, "groups that may live on card 0: [20]")
	refused(0, "none of whose GIDs may live on all", 0, 1)
	node := dial(t, d.socket) // the job stays
	if err := node.attach(attach.AttachRequest{GID: 9, Node: 0, Slots: 64, Token: token}); err != nil {
		t.Error(err)
	}
	wantError(t, d.admin(t, `{"do":"route-set","gid":9,"node":1,"card":1}`, nil), attach.ErrHost)
	write(nil, nil)
	log.says(t, "groups that may live on card 0: all")
	if _, err := dial(t, d.socket).Job(attach.JobRequest{GID: 4, Token: token, Cards: []uint16{0, 1}}); err != nil {
		t.Error(err)
	}
}
