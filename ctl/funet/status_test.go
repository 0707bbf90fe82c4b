package main

// This file tests what `funet status` shows of other cards.

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/xdp"
)

// Rule: `funet status` shows the peers of a real daemon, from where they are known, and when each
// was heard.
func TestStatusShowsPeers(t *testing.T) {
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var sockets [2]string
	for host := range sockets {
		c := daemon.Config{File: config.File{Socket: filepath.Join(t.TempDir(), "s"), Card: uint16(host),
			Discover: "den", Interfaces: []string{"fu0"}, Attach: xdp.AttachGeneric, CPU: -1}}
		var d *daemon.Daemon
		if err := l.Do(host, func() (err error) { d, err = daemon.Open(c); return err }); err != nil {
			t.Fatal(err)
		}
		ready, ended := make(chan struct{}), make(chan error, 1)
		go func() { ended <- d.Run(context.Background(), func() { close(ready) }) }()
		<-ready
		defer func() { d.Stop(); <-ended }()
		sockets[host] = c.Socket
	}
	var r serviceStatus
	for len(r.Hello.Peers) == 0 || r.Hello.Peers[0].HeardAgo < 0 {
		if err := (&service{socket: sockets[0]}).ask(attach.KindStatus, nil, &r); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"knows 1 peer, finds those of cluster den; silent: 0\n",
		l.Hosts()[1].Interfaces[0].MAC.String(), "hello", " ago", " us"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
}

// Rule: `funet status` says how this host stands with a table in etcd, and nothing without one.
func TestStatusShowsTable(t *testing.T) {
	for _, c := range []struct {
		table *report.TableStatus
		want  string
	}{
		{nil, ""},
		{&report.TableStatus{Name: "etcd://a:1/lab", Answers: true, Since: 61, Hosts: 2},
			"table etcd://a:1/lab answers, for 1m1s; 2 hosts\n"},
		{&report.TableStatus{Name: "etcd://a:1/lab", Since: 3, Why: "why", Lost: []uint16{7}},
			"table etcd://a:1/lab does not answer, for 3s; new jobs wait\nwhy\n" +
				"job 7 has lost its GID to another job; no process may join it\n"},
	} {
		var out strings.Builder
		(&serviceStatus{report.Status{Table: c.table}}).writeTable(&out)
		if out.String() != c.want {
			t.Errorf("%+v: %q", c.table, &out)
		}
	}
}

// Rule: `funet status` says in one line what daemons have told each other of processes with direct
// ports, and nothing where they have told nothing.
func TestStatusShowsNotices(t *testing.T) {
	for _, c := range []struct {
		n    *report.NoticeCounters
		want string
	}{
		{nil, ""},
		{new(report.NoticeCounters), ""},
		{&report.NoticeCounters{Sent: 9, Returned: 8, Heard: 7, Strange: 6, Late: 5, Refused: 4,
			Unheard: 3, Doubtful: 1},
			"  ends and returns of processes: 9 told to other hosts, 8 did not arrive; 7 heard, 6 of other jobs, 5 late, 4 refused; 3 lost; 1 question of processes here\n"},
	} {
		var out strings.Builder
		(&serviceStatus{report.Status{Notices: c.n}}).writeNotices(&out)
		if out.String() != c.want {
			t.Errorf("%+v: %q", c.n, &out)
		}
	}
}
