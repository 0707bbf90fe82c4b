package daemon_test

// This file tests memory between processes of one host: who gets it, what it costs whom, and until
// when.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/port/shared"
)

// talkers are two nodes of a job on one host, of which the second answers.
type talkers struct {
	t     *testing.T
	ctx   context.Context
	nodes [2]*funet.Endpoint
	end   context.CancelFunc
	done  chan error
	asked int
	// node 1 is another process now, of which node 0 may not have heard: calls fail meanwhile
	meets bool
}

// open opens a node.
func (k *talkers) open(d *running, gid uint16, token attach.Token, node, life int) {
	k.t.Helper()
	e, err := funet.Open(k.ctx, funet.Options{Rejoin: true,
		Attach: &attach.Config{Socket: d.socket, GID: gid, Node: uint16(node), Token: token, Life: life, Restarts: 1}})
	if err != nil {
		k.t.Fatal(err)
	}
	k.nodes[node] = e
	if node == 1 {
		if err := e.Serve(1, func(m *funet.Message) ([]byte, error) { return bytes.Clone(m.Bytes), nil }); err != nil {
			k.t.Fatal(err)
		}
		serving, end := context.WithCancel(k.ctx)
		k.end, k.done = end, make(chan error, 1)
		go func() { k.done <- e.Run(serving) }()
	}
}

// call has node 0 ask, and verifies the answer.
func (k *talkers) call() {
	k.t.Helper()
	k.asked++
	ask := bytes.Repeat(fmt.Appendf(nil, "call %d;", k.asked), 1+k.asked%300)
	got, err := k.nodes[0].Call(k.ctx, 1, 1, ask)
	if err != nil && k.meets {
		// a send that is refused at once takes nothing in
		hears, end := context.WithTimeout(k.ctx, time.Millisecond)
		defer end()
		_ = k.nodes[0].Wait(hears, func() bool { return false })
		return
	}
	k.meets = false
	if err != nil || !bytes.Equal(got, ask) {
		k.t.Fatalf("call %d of %d bytes: %d bytes, %v", k.asked, len(ask), len(got), err)
	}
}

// shared is node 0's counters.
func (k *talkers) shared() shared.Counters {
	c, _ := k.nodes[0].Carrier().(*card.Card).Shared()
	return c
}

// until calls until something holds.
func (k *talkers) until(what string, holds func() bool) {
	k.t.Helper()
	for until := time.Now().Add(patience); !holds(); k.call() {
		if time.Now().After(until) {
			k.t.Fatalf("%s: not within %v; %+v", what, patience, k.shared())
		}
	}
}

// close closes node 1.
func (k *talkers) close(node int) {
	k.t.Helper()
	if node == 1 {
		k.end()
		if err := <-k.done; err != nil {
			k.t.Error(err)
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- k.nodes[node].Close(k.ctx) }()
	// node 0 takes in what node 1 sends last; else that waits for ConnectTimeout, as node 0 lives
	for waits := node == 1; waits; {
		hears, end := context.WithTimeout(k.ctx, time.Millisecond)
		_ = k.nodes[0].Wait(hears, func() bool { return len(closed) > 0 })
		end()
		waits = len(closed) == 0
	}
	if err := <-closed; err != nil {
		k.t.Errorf("closing node %d: %v", node, err)
	}
}

// settled waits until so many bytes count.
func settled(t *testing.T, d *running, bytes int64) {
	t.Helper()
	for until := time.Now().Add(patience); portsOf(t, d).Bytes != bytes; {
		if time.Now().After(until) {
			t.Fatalf("%d bytes count, want %d: %+v", portsOf(t, d).Bytes, bytes, portsOf(t, d).Ports)
		}
	}
}

// Rule: frames of two nodes on one host go through memory, which the status shows. The memory
// counts until one of the two ends, also when another daemon has taken the place of the first. The
// node's next process gets other memory.
func TestNeighboursShare(t *testing.T) {
	t.Run("without a key", func(t *testing.T) { neighboursShare(t, newBed(t)) })
	t.Run("with a key", func(t *testing.T) {
		b := newBed(t)
		key := b.key("key")
		b.tune = func(c *daemon.Config) { c.Key = key }
		neighboursShare(t, b)
	})
}

func neighboursShare(t *testing.T, b *bed) {
	connect := b.helper(0)
	d := b.directWith(0, connect)
	gid, token, _ := directJob(t, []*running{d}, 0, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	k := &talkers{t: t, ctx: ctx}
	k.open(d, gid, token, 0, 0)
	one := portsOf(t, d).Bytes
	k.open(d, gid, token, 1, 0)
	k.until("frames go through memory", func() bool { c := k.shared(); return c.Sent > 100 && c.Received > 100 })
	s := portsOf(t, d)
	if s.Bytes != 2*one+shared.Size || len(s.Ports) != 2 || s.Ports[0].Shared != 1 || s.Ports[1].Shared != 1 {
		t.Errorf("%d bytes count, want %d and %d more; ports %+v", s.Bytes, 2*one, shared.Size, s.Ports)
	}
	before := s.Ports[0].Frames.Sent + s.Ports[0].Frames.Local
	if before == 0 {
		t.Errorf("the first frames did not go by the port: %+v", s.Ports[0].Frames)
	}

	// Another daemon: the memory goes on, and counts again.
	d.stop(t)
	d = b.directWith(0, connect)
	owner := dial(t, d.socket)
	if got, err := owner.Job(attach.JobRequest{GID: gid, Direct: true, Token: token, Cards: []uint16{0, 0}}); err !=
		nil || got != gid {
		t.Fatalf("the job again: %d, %v", got, err)
	}
	k.until("both go on", func() bool { return len(portsOf(t, d).Ports) == 2 })
	sent := k.shared().Sent
	k.until("frames go on through memory", func() bool { return k.shared().Sent > sent+100 })
	if s := portsOf(t, d); s.Bytes != 2*one+shared.Size || s.Ports[0].Shared != 1 || k.shared().Joined != 1 ||
		k.shared().Ended != 0 {
		t.Errorf("%d bytes count, ports %+v, counters %+v", s.Bytes, s.Ports, k.shared())
	}

	// The next process of a node.
	k.close(1)
	settled(t, d, one)
	k.open(d, gid, token, 1, 1)
	k.meets = true
	sent = k.shared().Sent
	k.until("frames go through other memory", func() bool {
		c := k.shared()
		return c.Joined == 2 && c.Sent > sent+100
	})
	if c := k.shared(); c.Ended != 1 || c.Broken != 0 || c.Forged+c.BadLength+c.BadVersion+c.Misrouted != 0 {
		t.Errorf("%+v", c)
	}
	settled(t, d, 2*one+shared.Size)
	k.close(1)
	k.close(0)
	settled(t, d, 0)
}

// Rule: memory is for who has a port, with a neighbour that has one; and beyond a user's bytes
// there is none, which stops nothing.
func TestNeighboursRefused(t *testing.T) {
	b := newBed(t)
	d := b.direct(0)
	gid, token, _ := directJob(t, []*running{d}, 0, 1, 0)
	share := func(k *client, node uint16) error {
		answer, got := k.ask(attach.ShareRequest{Node: node}.Encode(), 1)
		for { // the daemon also tells of ends
			h, err := attach.DecodeHeader(answer)
			if err != nil || h.Kind != attach.KindFate|attach.AnswerBit {
				break
			}
			if answer, got, err = attach.Receive(k.Conn, k.Buffer, 1); err != nil {
				return err
			}
		}
		attach.CloseDescriptors(got)
		_, err := attach.DecodeShareAnswer(answer)
		return err
	}
	list := func(k *client) ([]uint16, error) {
		answer, _ := k.ask(must(attach.EncodeBody(attach.KindNeighbours, nil)), 0)
		return attach.DecodeList(answer, attach.KindNeighbours)
	}
	stranger := dial(t, d.socket)
	if err := share(stranger, 0); !errors.Is(err, attach.ErrNode) {
		t.Errorf("memory for who has no port: %v", err)
	}
	if _, err := list(stranger); !errors.Is(err, attach.ErrNode) {
		t.Errorf("neighbours of who has no port: %v", err)
	}
	ask := func(node uint16) *client {
		k := dial(t, d.socket)
		answer, got := k.ask(attach.AttachRequest{GID: gid, Node: node, Token: token}.EncodePort(),
			attach.PortDescriptors)
		attach.CloseDescriptors(got)
		if _, err := attach.DecodePortAnswer(answer); err != nil {
			t.Fatal(err)
		}
		return k
	}
	k := ask(0)
	if nodes, err := list(k); err != nil || len(nodes) != 1 || nodes[0] != 2 {
		t.Errorf("its neighbours are %v, %v", nodes, err)
	}
	for _, node := range []uint16{0, 1, 2, 9} { // itself, on another host, not there yet, none
		if err := share(k, node); !errors.Is(err, attach.ErrBusy) {
			t.Errorf("memory with node %d: %v", node, err)
		}
	}
	other := ask(2)
	all := portsOf(t, d).Bytes
	for range 3 { // as often as they like
		if err := errors.Join(share(k, 2), share(other, 0)); err != nil {
			t.Errorf("memory of both: %v", err)
		}
	}
	settled(t, d, all+shared.Size)
	other.Close()
	settled(t, d, all/2)
	if err := share(k, 2); !errors.Is(err, attach.ErrBusy) {
		t.Errorf("memory with one that has ended: %v", err)
	}
	k.Close()
	settled(t, d, 0)
	d.stop(t)

	rule := config.DefaultRule()
	rule.Bytes = all + shared.Size - 1
	d = b.direct(0, rule)
	owner := dial(t, d.socket)
	if _, err := owner.Job(attach.JobRequest{GID: gid, Direct: true, Token: token, Cards: []uint16{0, 1, 0}}); err !=
		nil {
		t.Fatal(err)
	}
	k, other = ask(0), ask(2)
	if err := share(k, 2); !errors.Is(err, attach.ErrQuota) {
		t.Errorf("memory beyond a user's bytes: %v", err)
	}
	settled(t, d, all)
	malformed := attach.ShareRequest{Node: 2}.Encode()
	malformed[18] = 1
	answer, _ := other.ask(malformed, 0)
	if _, err := attach.DecodeShareAnswer(answer); !errors.Is(err, attach.ErrMalformed) {
		t.Errorf("a malformed request: %v", err)
	}
}

// Rule: memory of a process that has ended is nobody's: its pages are taken away, whoever still
// maps it.
func TestNeighboursErased(t *testing.T) {
	b := newBed(t)
	d := b.direct(0)
	gid, token, _ := directJob(t, []*running{d}, 0, 0)
	var of [2]*attach.Port
	var maps [2][]byte
	for node := range of {
		p, err := attach.OpenPort(attach.Config{Socket: d.socket, GID: gid, Node: uint16(node), Token: token})
		if err != nil {
			t.Fatal(err)
		}
		of[node] = p
		defer p.Memory.Close()
		defer unix.Close(p.Socket)
		go p.Watch(func(error) {}, func(attach.Fate) {})
	}
	for node, p := range of {
		f, err := p.Share(uint16(1-node), shared.Size)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if maps[node], err = attach.MapMemory(int(f.Fd()), shared.Size); err != nil {
			t.Fatal(err)
		}
		defer attach.Unmap(maps[node])
		if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096); err == nil {
			t.Error("a process can make a hole")
		}
	}
	maps[0][shared.Size-1] = 77
	if maps[1][shared.Size-1] != 77 {
		t.Fatal("they do not map the same")
	}
	of[1].Close()
	for until := time.Now().Add(patience); maps[0][shared.Size-1] != 0; {
		if time.Now().After(until) {
			t.Fatal("it is still there")
		}
		time.Sleep(time.Millisecond)
	}
	of[0].Close()
}

// Rule: where routers take bundles apart, a process with a port learns which other nodes are on
// one host, and of its own host's nodes that they are not in bundles; elsewhere it learns of none.
func TestStations(t *testing.T) {
	for encap, want := range map[cluster.Encap][]uint16{
		cluster.Hub: {attach.NoStation, 1, attach.NoStation, 1, 2}, cluster.Ethernet: {}} {
		b := newBedOf(t, lab.Options{Hosts: 3})
		b.tune = func(c *daemon.Config) { c.Encap = &encap }
		d := b.direct(0)
		gid, token, _ := directJob(t, []*running{d}, 0, 1, 0, 1, 2)
		stations := func(k *client) ([]uint16, error) {
			answer, _ := k.ask(must(attach.EncodeBody(attach.KindStations, nil)), 0)
			return attach.DecodeList(answer, attach.KindStations)
		}
		k := dial(t, d.socket)
		if _, err := stations(k); !errors.Is(err, attach.ErrNode) {
			t.Errorf("%v: hosts for who has no port: %v", encap, err)
		}
		answer, got := k.ask(attach.AttachRequest{GID: gid, Node: 0, Token: token}.EncodePort(),
			attach.PortDescriptors)
		attach.CloseDescriptors(got)
		if _, err := attach.DecodePortAnswer(answer); err != nil {
			t.Fatal(err)
		}
		if hosts, err := stations(k); err != nil || !slices.Equal(hosts, want) {
			t.Errorf("%v: the hosts are %v, %v; want %v", encap, hosts, err, want)
		}
	}
}

// Rule: broadcasts of processes with ports leave in bundles, and arrive. Routers refuse none. The
// daemons' own frames are too few for what the routers count.
func TestPortsBundle(t *testing.T) {
	b := newBedOf(t, lab.Options{Hosts: 3, Topology: lab.Star})
	var daemons []*running
	for host := range 3 {
		daemons = append(daemons, b.direct(host))
	}
	gid, token, _ := directJob(t, daemons, 0, 1, 2, 2)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	bundles := func() (n, refused uint64, err error) {
		routers, err := b.lab.Routers()
		for _, r := range routers {
			n, refused = n+r.Counters.Bundles, refused+r.Counters.Unbundled+r.Counters.Forged
		}
		return n, refused, err
	}
	const enough = 300
	sent := func() (n uint64) {
		for _, d := range daemons {
			n += portsOf(t, d).Counters.FramesSent
		}
		return n
	}
	began := sent()
	done := make(chan error)
	for node, host := range []int{0, 1, 2, 2} {
		e, err := funet.Open(ctx, funet.Options{Attach: &attach.Config{Socket: daemons[host].socket, GID: gid,
			Node: uint16(node), Token: token}})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close(context.Background())
		go func() {
			text := make([]byte, 40)
			for round := 0; text[0] == 0; round++ {
				if node == 0 {
					binary.LittleEndian.PutUint32(text[1:], uint32(round))
					if round%50 == 49 {
						n, _, err := bundles()
						if err != nil {
							done <- err
							return
						}
						if n >= enough {
							text[0] = 1
						}
					}
				}
				err := e.Broadcast(ctx, 0, text)
				if got := binary.LittleEndian.Uint32(text[1:]); err == nil && got != uint32(round) {
					err = fmt.Errorf("node %d got broadcast %d as the one numbered %d", node, got, round)
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	n, refused, err := bundles()
	if own := sent() - began; err != nil || refused > 0 || own > enough/2 {
		t.Errorf("%d bundles, %d frames that routers refused, and %d frames of daemons, %v", n, refused, own, err)
	}
}
