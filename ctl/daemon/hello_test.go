package daemon_test

// This file tests how daemons find and ask each other (hello.go), with real frames between
// namespaces.

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/port/hello"
)

// finder starts a daemon that nobody tells of peers.
func (b *bed) finder(host int, card uint16, log *journal, tune func(*daemon.Config)) *running {
	return b.start(host, func(c *daemon.Config) {
		c.Peers, c.Card, c.Discover, c.Interfaces = nil, card, "lab", []string{labInterface}
		c.Socket = filepath.Join(b.dir, fmt.Sprintf("card-%d-on-%d.sock", card, host))
		c.Log = log.add
		if tune != nil {
			tune(c)
		}
	})
}

// knows waits until a daemon has heard from a card, and returns what it says of it.
func knows(t *testing.T, r *running, card uint16) (found report.PeerStatus) {
	t.Helper()
	k := dial(t, r.socket)
	defer k.Close()
	eventually(t, fmt.Sprintf("%s: card %d is heard", r.socket, card), func() bool {
		s, err := askStatusOn(k)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Hello.Peers {
			if p.Card == card && p.HeardAgo >= 0 && p.Unanswered == 0 {
				found = p
				return true
			}
		}
		return false
	})
	return found
}

// forger is a socket on the interface of a host, for frames that no card sends.
type forger struct {
	t    *testing.T
	fd   int
	to   *unix.SockaddrLinklayer
	from [6]byte
}

func (b *bed) forger(t *testing.T, host int) *forger {
	t.Helper()
	f := &forger{t: t}
	b.do(host, func() (err error) {
		l, err := netlink.LinkByName(labInterface)
		if err != nil {
			return err
		}
		f.from = [6]byte(l.Attrs().HardwareAddr)
		f.to = &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index, Halen: 6}
		f.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	t.Cleanup(func() { unix.Close(f.fd) })
	return f
}

func (f *forger) send(m hello.Message, from [6]byte) {
	f.t.Helper()
	m.IsCard, m.Discovers, m.FrameSize = true, true, 1514
	b := make([]byte, hello.Size)
	m.Put(b, [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, from)
	for {
		err := unix.Sendto(f.fd, b, 0, f.to)
		if err == unix.ENOBUFS || err == unix.EINTR {
			continue
		}
		if err != nil {
			f.t.Fatal(err)
		}
		return
	}
}

// Rule: hosts on a segment that are told the cluster's name, and no address, find each other within
// seconds, and their programs talk. A host that comes back with another NIC is found again. A
// second host with the same number, and a host of another version or cluster, are named, and change
// nothing.
func TestHostsFindEachOther(t *testing.T) {
	b := newBedOf(t, lab.Options{Hosts: 4})
	var logs [4]journal
	daemons := []*running{b.finder(0, 0, &logs[0], nil), b.finder(1, 1, &logs[1], nil), b.finder(2, 5, &logs[2], nil)}
	for _, d := range daemons {
		for _, card := range []uint16{0, 1, 5} {
			if own := d.status(t).Card; own != card {
				if p := knows(t, d, card); !p.Found || p.RoundTrip <= 0 || p.Host == "" {
					t.Errorf("%+v", p)
				}
			}
		}
	}
	logs[0].says(t, "card 1 has joined")
	talk := func(cards ...uint16) {
		t.Helper()
		byCard := map[uint16]*running{0: daemons[0], 1: daemons[1], 5: daemons[2]}
		request := attach.JobRequest{Token: attach.NewToken(), Cards: cards}
		var err error
		nodes := make([]*client, len(cards))
		for _, card := range cards {
			k := dial(t, byCard[card].socket)
			defer k.Close()
			if request.GID, err = k.Job(request); err != nil {
				t.Fatal(err)
			}
		}
		for i, card := range cards {
			nodes[i], _ = member(t, byCard[card], 0, request.GID, uint16(i), request.Token)
			defer nodes[i].Close()
		}
		pingPong(t, nodes, 20)
	}
	talk(0, 1)
	talk(1, 5)

	// It stops, and comes back with another address.
	daemons[1].stop(t)
	logs[0].says(t, "card 1 has left")
	_, err := dial(t, daemons[0].socket).Job(attach.JobRequest{Token: attach.NewToken(), Cards: []uint16{0, 1}})
	wantError(t, err, attach.ErrRoute)
	other := net.HardwareAddr{2, 0x77, 0, 0, 0, 1}
	b.change(1, labInterface, func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, other) })
	daemons[1] = b.finder(1, 1, &logs[1], nil)
	logs[0].says(t, "card 1 has joined: "+other.String())
	knows(t, daemons[1], 0)
	talk(0, 1)

	// Another host has its number.
	twin := b.finder(3, 1, &logs[3], nil)
	for _, said := range []struct {
		log   *journal
		words string
	}{{&logs[0], "card 1 is " + other.String() + " and"}, {&logs[1], "card 1 is this host and"},
		{&logs[3], "card 1 is this host and"}} {
		said.log.says(t, said.words)
	}
	if p := knows(t, daemons[0], 1); p.Address != other.String() {
		t.Errorf("the number passed on to %+v", p)
	}
	if s := daemons[0].status(t); len(s.Hello.Faults) != 1 || !strings.Contains(s.Hello.Faults[0], "card 1 is") {
		t.Errorf("%q", s.Hello.Faults)
	}
	talk(0, 1)
	twin.stop(t)

	// Frames of a host whose FUNet is another, and of a cluster that is.
	f := b.forger(t, 3)
	f.send(hello.Message{Kind: hello.Announcement, Said: hello.Said{Card: 9, Frames: arctic.Version + 1, Cluster: "lab",
		Host: "newer"}}, f.from)
	logs[0].says(t, fmt.Sprintf("newer (%v), card 9, has frames of version %d, this host of version %d",
		net.HardwareAddr(f.from[:]), arctic.Version+1, arctic.Version))
	f.send(hello.Message{Kind: hello.Announcement, Said: hello.Said{Card: 9, Frames: arctic.Version, Cluster: "den",
		Host: "stranger"}}, f.from)
	logs[0].says(t, `of cluster "den", this host of "lab"`)

	// A flood in the names of many.
	before := len(logs[0].all())
	for i := range 20_000 {
		f.send(hello.Message{Kind: hello.Announcement,
			Said: hello.Said{Card: uint16(i), Frames: arctic.Version, Cluster: []string{"lab", "den"}[i%2],
				Host: "nobody"}},
			[6]byte{2, 0x99, 0, byte(i >> 16), byte(i >> 8), byte(i)})
	}
	talk(0, 1)
	if lines := logs[0].all(); len(lines)-before > 40 {
		t.Errorf("%d lines in the log: %q", len(lines)-before, lines)
	}
	if s := daemons[0].status(t); s.Hello.Known != 2 {
		t.Errorf("%+v", s.Hello)
	}
}

// Rule: what the peers file says of a card goes before what is heard of it; a number that the file
// frees is found, and one that it takes is the file's again.
func TestListedBeforeFound(t *testing.T) {
	b := newBed(t)
	path := filepath.Join(b.dir, "peers")
	write := func(change func(*cluster.File)) {
		t.Helper()
		p := b.lab.Peers(0)
		change(p)
		text, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		replaceFile(t, path, string(text))
	}
	write(func(f *cluster.File) { f.Peers[1].MAC = net.HardwareAddr{2, 1, 1, 1, 1, 1} })
	var log, other journal
	first := b.finder(0, 0, &log, func(c *daemon.Config) {
		var err error
		if c.Peers, err = cluster.Load(path); err != nil {
			t.Fatal(err)
		}
		c.PeersPath = path
	})
	b.finder(1, 1, &other, nil)
	log.says(t, "card 1 is listed at 02:01:01:01:01:01, where nobody answers")
	if s := first.status(t); len(s.Hello.Peers) != 1 || s.Hello.Peers[0].Found || s.Hello.Silent != 1 {
		t.Errorf("%+v", s.Hello)
	}
	write(func(f *cluster.File) { f.Peers[1] = cluster.Peer{Node: 1, Absent: true} })
	log.says(t, "card 1 has left")
	log.says(t, "card 1 has joined")
	if p := knows(t, first, 1); !p.Found {
		t.Errorf("%+v", p)
	}
	write(func(*cluster.File) {})
	log.says(t, "card 1 is in the peers file now")
	if p := knows(t, first, 1); p.Found {
		t.Errorf("%+v", p)
	}
}

// Rule: an administrator has a card asked, whether it answers or not, over Ethernet and in
// datagrams; nobody else does, and cards that there are not are refused.
func TestHello(t *testing.T) {
	for name, o := range map[string]lab.Options{"Ethernet": {Hosts: 2}, "datagrams": {Hosts: 2, Topology: lab.Router}} {
		t.Run(name, func(t *testing.T) {
			b := newBedOf(t, o)
			daemons := []*running{b.start(0, nil), b.start(1, nil)}
			ask := func() (a report.HelloAnswer) {
				t.Helper()
				if err := daemons[0].admin(t, `{"do":"hello","card":1}`, &a); err != nil {
					t.Fatal(err)
				}
				return a
			}
			var a report.HelloAnswer
			until(t, "it answers", func() bool { a = ask(); return a.Answered })
			if a.Said != 1 || a.Frames != arctic.Version || a.RoundTrip <= 0 || a.FrameSize == 0 || len(a.Faults) > 0 {
				t.Errorf("%+v", a)
			}
			if p := knows(t, daemons[0], 1); p.Found || p.Address != b.address(1) {
				t.Errorf("%+v", p)
			}
			daemons[1].stop(t)
			if a := ask(); a.Answered || a.Tries < 2 {
				t.Errorf("%+v", a)
			}
			until(t, "it is silent", func() bool { return daemons[0].status(t).Hello.Silent == 1 })
			for command, want := range map[string]error{`{"do":"hello"}`: attach.ErrCommand,
				`{"do":"hello","card":7}`: attach.ErrRoute, `{"do":"hello","card":0}`: attach.ErrRoute} {
				wantError(t, daemons[0].admin(t, command, nil), want)
			}
			k := dialAs(t, daemons[0].socket, 1000)
			message, err := attach.EncodeBody(attach.KindAdmin, []byte(`{"do":"hello","card":1}`))
			if err != nil {
				t.Fatal(err)
			}
			answer, _ := k.ask(message, 0)
			_, err = attach.DecodeBody(answer, attach.KindAdmin|attach.AnswerBit)
			wantError(t, err, attach.ErrForbidden)
		})
	}
}

// address is a host's address in the peers file.
func (b *bed) address(host int) string {
	f := b.lab.Peers(0)
	if f.Encap == cluster.UDP {
		return f.Peers[host].Address.String()
	}
	return f.Peers[host].MAC.String()
}

// Rule: what is asked of discovery and cannot be is refused, with the cure.
func TestDiscoveryRefused(t *testing.T) {
	udp := cluster.UDP
	for words, f := range map[string]config.File{
		"letters, digits or marks": {Discover: "two words", Interfaces: []string{"x"}},
		"up to 32":                 {Discover: strings.Repeat("x", 33), Interfaces: []string{"x"}},
		"on a segment only":        {Discover: "lab", Interfaces: []string{"x"}, Encap: &udp},
		"no interface":             {Discover: "lab"},
		"no peers":                 {Interfaces: []string{"x"}},
		"say which card":           {Discover: "lab", FindCard: true, Interfaces: []string{"x"}},
	} {
		err := daemon.Config{File: f}.Check()
		wantError(t, err, config.ErrConfig)
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v does not say %q", err, words)
		}
	}
	alone := config.File{Discover: "lab", Card: 65535, Interfaces: []string{"x", "y"}}
	if err := (daemon.Config{File: alone}).Check(); err != nil {
		t.Error(err)
	}
}

// Rule: metrics count peers and those that are silent, and have the round trips of all of them
// together, however many there are.
func TestHelloMetrics(t *testing.T) {
	long.Test(t)
	b := newBed(t)
	metrics := filepath.Join(b.dir, "metrics.sock")
	d := b.start(0, func(c *daemon.Config) { c.Metrics = "unix:" + metrics })
	other := b.start(1, nil)
	knows(t, d, 1)
	client := http.Client{Timeout: patience,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", metrics)
		}}}
	defer client.CloseIdleConnections()
	var text string // of the last scrape
	scrape := func() {
		text = ""
		r, err := client.Get("http://funid/metrics")
		if err != nil {
			return // the next time, or in the end the test has waited in vain
		}
		defer r.Body.Close()
		if b, err := io.ReadAll(r.Body); err == nil {
			text = string(b)
		}
	}
	says := func(lines ...string) bool {
		return !slices.ContainsFunc(lines, func(l string) bool { return !strings.Contains(text, l) })
	}
	eventually(t, "the metrics have the peer", func() bool {
		scrape()
		return says("\nfunid_peers 1\n", "\nfunid_peers_silent 0\n",
			"\nfunid_hello_round_trip_seconds_bucket{le=\"+Inf\"} ", "\nfunid_hello_answers_total ")
	})
	if says("\nfunid_hello_round_trip_seconds_count 0\n") {
		t.Error("no round trip is counted")
	}
	other.stop(t)
	eventually(t, "the peer is silent", func() bool {
		scrape()
		return says("\nfunid_peers_silent 1\n") && !says("\nfunid_hello_unanswered_total 0\n")
	})
}
