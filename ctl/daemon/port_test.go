package daemon_test

// This file tests direct ports: what a process gets, and what it costs whom, until it is gone.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/xdp"
)

// helper starts a helper on a host, as funid does, in a thread instead of a process, and returns
// what connects to it.
func (b *bed) helper(host int) (connect func() *ports.Client) {
	b.t.Helper()
	conns := b.helperOf(host)
	return func() *ports.Client {
		mine, its := b.pair()
		conns <- its
		c := ports.NewClient(mine)
		b.t.Cleanup(func() { c.Close() })
		return c
	}
}

// helperOf starts a helper on a host, which serves these connections.
func (b *bed) helperOf(host int) chan<- *net.UnixConn {
	b.t.Helper()
	conns, ended := make(chan *net.UnixConn, 8), make(chan error, 1)
	err := b.lab.Do(host, func() error {
		made, err := ports.New(8, nil)
		if err != nil {
			return err
		}
		here, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return errors.Join(err, made.Close())
		}
		go func() {
			runtime.LockOSThread() // which ends
			defer here.Close()
			err := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET)
			h := ports.NewHelper(made, func(err error) { b.t.Error(err) })
			for c := range conns {
				err = errors.Join(err, h.Serve(c))
				if h.Quit() {
					break
				}
			}
			ended <- errors.Join(err, h.Close())
		}()
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		close(conns)
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	})
	return conns
}

// pair is a connection between a daemon and its helper.
func (b *bed) pair() (_, _ *net.UnixConn) {
	b.t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "ports")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			b.t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
	}
	return ends[0], ends[1]
}

// direct starts a daemon that gives direct ports, with rules.
func (b *bed) direct(host int, rules ...config.Rule) *running {
	b.t.Helper()
	return b.directWith(host, b.helper(host), rules...)
}

// directWith starts one with a helper that there is.
func (b *bed) directWith(host int, connect func() *ports.Client, rules ...config.Rule) *running {
	b.t.Helper()
	return b.start(host, func(cfg *daemon.Config) {
		cfg.Carriage, cfg.Ports, cfg.Rules = config.DirectCarriage, connect(), rules
		if b.tune != nil {
			b.tune(cfg)
		}
	})
}

// directJob makes a job of direct ports.
func directJob(t testing.TB, daemons []*running, cards ...uint16) (gid uint16, token attach.Token, owners []*client) {
	t.Helper()
	token = attach.NewToken()
	for _, d := range daemons {
		k := dial(t, d.socket)
		got, err := k.Job(attach.JobRequest{GID: gid, Direct: true, Token: token, Cards: cards})
		if err != nil {
			t.Fatal(err)
		}
		gid, owners = got, append(owners, k)
	}
	return gid, token, owners
}

// portsOf returns what the status says of ports, and the bytes of their memory.
func portsOf(t testing.TB, d *running) (s report.Status) {
	t.Helper()
	k := d.asker(t)
	answer, _ := k.ask(must(attach.EncodeBody(attach.KindStatus, nil)), 0)
	body, err := attach.DecodeBody(answer, attach.KindStatus|attach.AnswerBit)
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Bytes -= int64(len(s.Jobs)) * funi.PageSize // small jobs' parts of the switch's table
	return s
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// Rule: the processes of a direct job, on two hosts and on one, have cards of their own, which the
// status shows; nothing goes through the daemon's card, and nothing stays counted. Where the hosts
// have a key the job has one of its own, which seals its frames.
func TestDirectJob(t *testing.T) {
	long.Test(t)
	udp := cluster.UDP
	native := func(c *daemon.Config) { c.Attach = xdp.AttachNative }
	for name, form := range map[string]struct {
		lab  lab.Options
		tune func(*daemon.Config)
	}{
		"generic":               {},
		"native":                {tune: native},
		"with a VLAN":           {tune: func(c *daemon.Config) { c.VLAN = 5 }},
		"with a VLAN, native":   {tune: func(c *daemon.Config) { c.VLAN, c.Attach = 5, xdp.AttachNative }},
		"in datagrams":          {tune: func(c *daemon.Config) { c.Encap = &udp }},
		"over a router":         {lab: lab.Options{Topology: lab.Router}},
		"over a router, native": {lab.Options{Topology: lab.Router}, native},
		"over a router, IPv6":   {lab: lab.Options{Topology: lab.Router, IPv6: true}},
		"jumbo":                 {lab.Options{MTU: 9000}, func(c *daemon.Config) { c.Jumbo = true }},
		"jumbo, native, datagrams": {lab.Options{MTU: 9000, Topology: lab.Router}, func(c *daemon.Config) {
			c.Jumbo, c.Attach = true, xdp.AttachNative
		}},
	} {
		t.Run(name, func(t *testing.T) {
			form.lab.Hosts = 2
			b := newBedOf(t, form.lab)
			b.tune = form.tune
			directJobWorks(t, b, link.Unkeyed)
		})
	}
	t.Run("with a key", func(t *testing.T) {
		b := newBed(t)
		key := b.key("key")
		b.tune = func(c *daemon.Config) { c.Key = key }
		directJobWorks(t, b, link.Sealed)
	})
}

func directJobWorks(t *testing.T, b *bed, want link.KeyState) {
	daemons := []*running{b.direct(0), b.direct(1)}
	gid, token, _ := directJob(t, daemons, 0, 1, 1)
	var nodes []*funet.Endpoint
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for node, host := range []int{0, 1, 1} {
		e, err := funet.Open(ctx, funet.Options{Attach: &attach.Config{Socket: daemons[host].socket, GID: gid,
			Node: uint16(node), Token: token}})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, e)
		if err := e.Serve(1, func(m *funet.Message) ([]byte, error) {
			return append(bytes.Clone(m.Bytes), byte(node)), nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	before := portsOf(t, daemons[1]).Counters.FramesSent
	served, serve := context.WithCancel(ctx)
	defer serve()
	done := make(chan error)
	for _, e := range nodes[1:] {
		go func() { done <- e.Run(served) }()
	}
	for size := range 20 {
		for to := 1; to < 3; to++ {
			ask := bytes.Repeat([]byte{byte(to)}, 97*size)
			got, err := nodes[0].Call(ctx, to, 1, ask)
			if err != nil || !bytes.Equal(got, append(ask, byte(to))) {
				t.Fatalf("a call of %d bytes of node %d: %d bytes, %v", len(ask), to, len(got), err)
			}
		}
	}
	own := nodes[0].Carrier().(*card.Card)
	own.Alone(func() {
		if s, ok := own.Engine().PeerState(1); !ok || s.Key != want {
			t.Errorf("frames to node 1 have the key state %v, want %v", s.Key, want)
		}
	})
	s := portsOf(t, daemons[1])
	if len(s.Ports) != 2 || s.Ports[0].Node != 1 || s.Ports[1].Node != 2 || s.Ports[0].Frames.Sent == 0 ||
		s.Bytes == 0 ||
		len(s.Jobs) != 1 || !s.Jobs[0].Direct || s.Jobs[0].Attached != 2 {
		t.Errorf("the status has ports %+v, %d bytes, jobs %+v", s.Ports, s.Bytes, s.Jobs)
	}
	if n := s.Counters.FramesSent - before; n > 100 { // it says hello
		t.Errorf("the daemon's card has sent %d frames", n)
	}
	serve()
	for range nodes[1:] {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for i, e := range nodes {
		if err := e.Close(ctx); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
	}
	for until := time.Now().Add(patience); ; {
		if s := portsOf(t, daemons[1]); s.Bytes == 0 && len(s.Ports) == 0 {
			break
		} else if time.Now().After(until) {
			t.Fatalf("%d bytes and ports %+v stay", s.Bytes, s.Ports)
		}
	}
}

// Rule: the switch follows ways between hosts: without one frames are dropped, and with another
// they arrive.
func TestPortsFollowPaths(t *testing.T) {
	b := newBedOf(t, lab.Options{Hosts: 2, Topology: lab.Router})
	daemons := []*running{b.direct(0), b.direct(1)}
	gid, token, _ := directJob(t, daemons, 0, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var nodes []*funet.Endpoint
	for node := range uint16(2) {
		e, err := funet.Open(ctx, funet.Options{Attach: &attach.Config{Socket: daemons[node].socket, GID: gid,
			Node: node, Token: token}})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close(ctx)
		nodes = append(nodes, e)
	}
	if err := nodes[1].Serve(1, func(m *funet.Message) ([]byte, error) { return m.Bytes, nil }); err != nil {
		t.Fatal(err)
	}
	served, serve := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- nodes[1].Run(served) }()
	defer func() { serve(); <-done }()
	call := func() error {
		_, err := nodes[0].Call(ctx, 1, 1, []byte("there?"))
		return err
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	var way netlink.Route
	if err := b.lab.Do(0, func() error {
		routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		for _, r := range routes {
			if r.Gw != nil {
				way = r
				return netlink.RouteDel(&r)
			}
		}
		return errors.Join(err, errors.New("there is no route"))
	}); err != nil {
		t.Fatal(err)
	}
	called, mended := make(chan error), make(chan struct{})
	go func() { // the first calls may be quicker than the news
		for {
			err := call()
			select {
			case <-mended:
			default:
				if err == nil {
					continue
				}
			}
			called <- err
			return
		}
	}()
	for {
		if s := portsOf(t, daemons[0]); len(s.Ports) == 1 && s.Ports[0].Frames.NoNode > 0 {
			break
		} else if ctx.Err() != nil {
			t.Fatalf("no frame is dropped: %+v", *s.Ports[0].Frames)
		}
	}
	if err := b.lab.Do(0, func() error { return netlink.RouteAdd(&way) }); err != nil {
		t.Fatal(err)
	}
	close(mended)
	if err := <-called; err != nil {
		t.Error(err)
	}
}

// Rule: a process of a direct job hears when the job has ended, and why, in the middle of a wait.
func TestDirectJobEnds(t *testing.T) {
	b := newBed(t)
	d := b.direct(0)
	gid, token, owners := directJob(t, []*running{d}, 0, 0)
	e, err := funet.Open(t.Context(), funet.Options{Attach: &attach.Config{Socket: d.socket, GID: gid,
		Node: 1, Token: token}})
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error)
	go func() { waited <- e.Wait(t.Context(), func() bool { return false }) }()
	owners[0].Close()
	select {
	case err := <-waited:
		if !errors.Is(err, funi.ErrDetached) {
			t.Errorf("the launcher ends: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the launcher ended, and nobody said so")
	}
	_ = e.Close(t.Context())
}

// Rule (resume.go): a daemon ends, cleanly or not, and another takes its place. Processes go on and
// lose nothing, and count for their user again. No other user gets the job or a port. A port that
// no process asks for again is not there.
func TestDirectJobGoesOn(t *testing.T) {
	b := newBed(t)
	connect := b.helper(0)
	d := b.directWith(0, connect)
	gid, token, owners := directJob(t, []*running{d}, 0, 0, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var nodes [2]*funet.Endpoint
	for node := range nodes {
		e, err := funet.Open(ctx, funet.Options{Attach: &attach.Config{Socket: d.socket, GID: gid,
			Node: uint16(node), Token: token}})
		if err != nil {
			t.Fatal(err)
		}
		nodes[node] = e
	}
	served := 0
	if err := nodes[1].Serve(1, func(m *funet.Message) ([]byte, error) {
		served++
		return bytes.Clone(m.Bytes), nil
	}); err != nil {
		t.Fatal(err)
	}
	serving, end := context.WithCancel(ctx)
	done, calls, stop := make(chan error), 0, make(chan struct{})
	go func() { done <- nodes[1].Run(serving) }()
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			ask := fmt.Appendf(nil, "call %d", calls)
			got, err := nodes[0].Call(ctx, 1, 1, ask)
			if err != nil || !bytes.Equal(got, ask) {
				done <- fmt.Errorf("call %d: %q, %w", calls, got, err)
				return
			}
			calls++
		}
	}()
	// A third process has a port and ends while there is no daemon.
	third, err := attach.OpenPort(attach.Config{Socket: d.socket, GID: gid, Node: 2, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		d.stop(t)
		d = b.directWith(0, connect)
		if third != nil {
			unix.Close(third.Socket)
			third.Memory.Close()
			third.Close()
			third = nil
		}
		k := dial(t, d.socket)
		if _, err := k.Job(attach.JobRequest{GID: gid, Direct: true, Token: attach.NewToken(),
			Cards: []uint16{0, 0, 0}}); !errors.Is(err, attach.ErrTaken) {
			t.Errorf("somebody else's job with the GID: %v", err)
		}
		owners[0] = dial(t, d.socket)
		if got, err := owners[0].Job(attach.JobRequest{GID: gid, Direct: true, Token: token,
			Cards: []uint16{0, 0, 0}}); err != nil || got != gid {
			t.Fatalf("the job again: %d, %v", got, err)
		}
		answer, _ := dial(t, d.socket).ask(attach.ResumeRequest{GID: gid, Node: 2, Ticket: attach.Ticket{1},
			Token: token}.Encode(), 0)
		if _, err := attach.DecodeBody(answer, attach.KindResume|attach.AnswerBit); !errors.Is(err, attach.ErrNode) {
			t.Errorf("another ticket: %v", err)
		}
		for until := time.Now().Add(patience); len(portsOf(t, d).Ports) < 2; {
			if time.Now().After(until) {
				t.Fatalf("the processes do not come: %+v", portsOf(t, d).Ports)
			}
		}
		if s := portsOf(t, d); s.Bytes == 0 || s.Jobs[0].Attached != 2 {
			t.Errorf("%d bytes count, and %d are attached", s.Bytes, s.Jobs[0].Attached)
		}
		// In the place of the third, whose socket the kernel lets go of some time after it was
		// closed.
		p, err := attach.OpenPort(attach.Config{Socket: d.socket, GID: gid, Node: 2, Token: token, Life: 1})
		if err != nil {
			t.Fatal(err)
		}
		third = p
	}
	unix.Close(third.Socket)
	third.Memory.Close()
	third.Close()
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if served != calls || calls == 0 {
		t.Errorf("%d calls were executed %d times", calls, served)
	}
	for _, e := range nodes {
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	for until := time.Now().Add(patience); portsOf(t, d).Bytes > 0; {
		if time.Now().After(until) {
			t.Fatal("something stays counted")
		}
	}
}

// Rule: who asks for a port shows what he would show for a context; a job has either ports or
// contexts; and a daemon without a helper has no ports.
func TestPortsRefused(t *testing.T) {
	b := newBed(t)
	rule := config.DefaultRule()
	rule.Contexts = 2
	d, without := b.direct(0, rule), b.start(1, nil)
	gid, token, _ := directJob(t, []*running{d}, 0, 1, 0)
	other, others, _ := directJob(t, []*running{d}, 0)
	ordinary := dial(t, d.socket)
	third, err := ordinary.Job(attach.JobRequest{Token: token, Cards: []uint16{0}})
	if err != nil {
		t.Fatal(err)
	}
	open := func(gid, node uint16, token attach.Token) error {
		p, err := attach.OpenPort(attach.Config{Socket: d.socket, GID: gid, Node: node, Token: token})
		if err == nil {
			t.Cleanup(func() {
				p.Memory.Close()
				unix.Close(p.Socket)
				p.Close()
			})
		}
		return err
	}
	_, none := dial(t, without.socket).Job(attach.JobRequest{Direct: true, Token: token, Cards: []uint16{1}})
	for _, c := range []struct {
		what      string
		got, want error
	}{
		{"its own", open(gid, 0, token), nil},
		{"the same again", open(gid, 0, token), attach.ErrTaken},
		{"another token", open(gid, 2, others), attach.ErrToken},
		{"a node of another host", open(gid, 1, token), attach.ErrNode},
		{"no such node", open(gid, 9, token), attach.ErrNode},
		{"no such job", open(2000, 0, token), attach.ErrGroup},
		{"a job of contexts", open(third, 0, token), attach.ErrCarriage},
		{"a context in a job of ports", dial(t, d.socket).attach(attach.AttachRequest{GID: gid, Node: 2, Token: token}),
			attach.ErrCarriage},
		{"as many as the rule allows", open(gid, 2, token), nil},
		{"one more", open(other, 0, others), attach.ErrQuota},
		{"a daemon without ports", none, attach.ErrNoPort},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	k := dial(t, d.socket)
	for range 2 { // also when it has been refused
		answer, _ := k.ask(attach.AttachRequest{GID: gid, Node: 2, Slots: 64, Token: token}.EncodePort(),
			attach.PortDescriptors)
		if _, err := attach.DecodePortAnswer(answer); !errors.Is(err, attach.ErrMalformed) {
			t.Errorf("a port with slots: %v", err)
		}
		k = dial(t, d.socket)
	}
}

// Rule: a direct job's part of the switch's table counts for who made it, until it ends: who makes
// jobs of many nodes is refused, and another has room.
func TestTableCounts(t *testing.T) {
	b := newBed(t)
	rule := config.DefaultRule()
	rule.Bytes = 8 << 20
	d := b.direct(0, rule)
	make := func(uid int) (*client, error) {
		k := dialIn(t, d.socket, uid, uid)
		_, err := k.Job(attach.JobRequest{Direct: true, Token: attach.NewToken(),
			Cards: slices.Repeat([]uint16{1}, attach.MaxNodes)})
		return k, err
	}
	const fit = 8 << 20 / (attach.MaxNodes * bpf.PlaceSize)
	var all []*client
	for range fit {
		k, err := make(alice)
		wantError(t, err, nil)
		all = append(all, k)
	}
	if n := d.status(t).Bytes; n < fit*attach.MaxNodes*bpf.PlaceSize {
		t.Errorf("%d bytes count", n)
	}
	_, err := make(alice)
	wantError(t, err, attach.ErrQuota)
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("refused in lines: %v", err)
	}
	other, err := make(bob)
	wantError(t, err, nil)
	for _, k := range append(all, other) {
		k.Close()
	}
	until(t, "nothing counts", func() bool { return d.status(t).Bytes == 0 })
	_, err = make(alice)
	wantError(t, err, nil)
}

// Rule: what a process keeps counts for it: memory and place count until nobody has the socket,
// also when the connection has ended.
func TestPortCountsWhileKept(t *testing.T) {
	b := newBed(t)
	rule := config.DefaultRule()
	rule.Contexts = 1
	d := b.direct(0, rule)
	gid, token, _ := directJob(t, []*running{d}, 0)
	open := func() (*attach.Port, error) {
		return attach.OpenPort(attach.Config{Socket: d.socket, GID: gid, Token: token})
	}
	p, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(patience)
	for len(portsOf(t, d).Ports) > 0 {
		if time.Now().After(until) {
			t.Fatal("the port does not end with its connection")
		}
	}
	if s := portsOf(t, d); s.Bytes == 0 {
		t.Error("what the process keeps counts for nobody")
	}
	if _, err := open(); !errors.Is(err, attach.ErrQuota) {
		t.Errorf("another port: %v", err)
	}
	unix.Close(p.Socket)
	p.Memory.Close()
	for portsOf(t, d).Bytes > 0 {
		if time.Now().After(until) {
			t.Fatal("it counts when it is gone")
		}
	}
	if p, err = open(); err != nil {
		t.Fatal(err)
	}
	unix.Close(p.Socket)
	p.Memory.Close()
	p.Close()
}

// Rule: a configuration of direct ports does not contradict itself.
func TestCarriageIsChecked(t *testing.T) {
	b := newBed(t)
	for what, tune := range map[string]func(*daemon.Config){
		"helper":   func(c *daemon.Config) { c.Carriage, c.Helper = config.DaemonCarriage, "/run/x" },
		"relative": func(c *daemon.Config) { c.Helper = "x" },
	} {
		c := b.config(0)
		c.Carriage = config.DirectCarriage
		tune(&c)
		err := b.lab.Do(0, func() error {
			d, err := daemon.Open(c)
			if err == nil {
				err = fmt.Errorf("it starts, and %w", d.Abandon())
			}
			return err
		})
		if !errors.Is(err, config.ErrConfig) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
