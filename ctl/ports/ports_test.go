package ports

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/xdp"
)

const (
	gid = 7
	mtu = 1500
	// patience is far more than anything takes.
	patience = 30 * time.Second
)

var job = bpf.Job{Tag: arctic.JobTag([]byte("a token"), gid), GID: gid}

// bed is two hosts with ports.
type bed struct {
	t     *testing.T
	l     *lab.Lab
	hosts [2]*Host
	nics  [2]netlink.Link
	port  map[uint16]*Port
}

func newBed(t *testing.T, nodes int) *bed {
	t.Helper()
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, l: l, port: map[uint16]*Port{}}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range b.hosts {
		b.on(i, func() error {
			if b.hosts[i], err = New(4); err != nil {
				return err
			}
			if err := b.hosts[i].Switch().AddJob(job, nodes); err != nil {
				return err
			}
			program, err := bpf.LoadNIC(bpf.Load{Queues: 1, Switch: b.hosts[i].Switch()})
			if err != nil {
				return err
			}
			if b.nics[i], err = netlink.LinkByName("fu0"); err != nil {
				return err
			}
			// Native: what the guard of the other host redirects passes a generic program by (package bpf, Ports).
			attached, err := xdp.Attach(program.Program(), b.nics[i].Attrs().Index, xdp.AttachNative)
			t.Cleanup(func() {
				if err := errors.Join(attached.Close(), program.Close(), b.hosts[i].Close()); err != nil {
					t.Error(err)
				}
			})
			return err
		})
	}
	return b
}

func (b *bed) on(host int, f func() error) {
	b.t.Helper()
	if err := b.l.Do(host, f); err != nil {
		b.t.Fatal(err)
	}
}

// make makes the port of a node on a host and tells both switches where it is.
func (b *bed) make(host int, node uint16, memory *os.File) *Port {
	b.t.Helper()
	var p *Port
	b.on(host, func() (err error) {
		p, err = b.hosts[host].Make(bpf.Port{Job: job, Node: node}, memory, mtu)
		return err
	})
	for i, h := range b.hosts {
		place := &bpf.Place{Port: p.Outer, Link: p.Link, Longest: mtu + 14}
		if i != host {
			place = &bpf.Place{NIC: uint32(b.nics[i].Attrs().Index), MAC: [6]byte(b.nics[host].Attrs().HardwareAddr), Own: [6]byte(b.nics[i].Attrs().HardwareAddr), Longest: mtu + 14}
		}
		if err := h.Switch().SetPlace(job, node, place); err != nil {
			b.t.Fatal(err)
		}
	}
	return p
}

// process is what an unprivileged process has of it all.
type process struct {
	port  *afxdp.Port
	card  *engine.Card
	iface *funi.Interface
	start time.Time
}

// newProcess makes a process of a node: its memory, its port and its card. The test's thread has capabilities, and this one has none.
func (b *bed) newProcess(host int, node uint16, nodes int) (*process, error) {
	g := afxdp.GeometryFor(mtu)
	memory, err := g.NewMemory()
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	made := b.make(host, node, memory)
	b.port[node] = made
	fd, err := unix.FcntlInt(uintptr(made.FD), unix.F_DUPFD_CLOEXEC, 0) // as SCM_RIGHTS does
	if err != nil {
		return nil, err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &make([]unix.CapUserData, 2)[0]); err != nil {
		return nil, err
	}
	p := &process{start: time.Now()}
	if p.port, err = afxdp.OpenDirect(fd, made.Info, memory, mtu); err != nil {
		return nil, err
	}
	cfg := engine.Native()
	cfg.Card, cfg.Incarnation, cfg.Direct, cfg.Ports = node, uint32(time.Now().UnixNano())|1, &job.Tag, []port.Port{p.port}
	for n := range uint16(nodes) {
		cfg.Routes = append(cfg.Routes, uint32(n))
		if n != node {
			cfg.Peers = append(cfg.Peers, engine.Peer{Card: n}) // with addresses of zeroes
		}
	}
	if p.card, err = engine.New(cfg); err != nil {
		return nil, err
	}
	m, err := funi.NewMemory(64)
	if err != nil {
		return nil, err
	}
	if p.iface, err = funi.Initialize(m); err != nil {
		return nil, err
	}
	_, err = p.card.Attach(m, gid, node, job.Tag)
	return p, err
}

func (p *process) step() { p.card.Step(int64(time.Since(p.start))) }

// send sends a word to a node.
func (p *process) send(to uint16, word uint32) {
	s := p.iface.Reserve(funi.Request)
	s.SetHeader(funi.NewHeader(to, 5, 1))
	s[funi.PayloadWord] = word
	p.iface.Commit(funi.Request)
}

// receive waits for a message.
func (p *process) receive(until time.Time) (word uint32, err error) {
	for time.Now().Before(until) {
		p.step()
		if s := p.iface.Receive(funi.Request); s != nil {
			word = s[funi.PayloadWord]
			p.iface.Release(funi.Request)
			return word, nil
		}
	}
	return 0, errors.New("nothing came")
}

// Rule: processes without privileges, on two hosts and on one, exchange messages by their own cards; every message comes once.
func TestPingPongOfProcesses(t *testing.T) {
	for name, hostOf := range map[string][]int{"two hosts": {0, 1}, "one host": {0, 0}} {
		t.Run(name, func(t *testing.T) {
			const exchanges = 500
			b := newBed(t, len(hostOf))
			until := time.Now().Add(patience)
			made, start, done := make(chan error), make(chan struct{}), make(chan error)
			var rtt []time.Duration
			for node, host := range hostOf {
				go func() {
					runtime.LockOSThread() // which has lost its capabilities, and ends
					p, err := b.newProcess(host, uint16(node), len(hostOf))
					made <- err
					if err != nil {
						return
					}
					defer func() {
						p.card.Leave()
						p.step()
						done <- errors.Join(err, p.port.Close())
					}()
					<-start
					for i := range uint32(exchanges) {
						begin := time.Now()
						if node == 0 {
							p.send(1, i)
						}
						var word uint32
						if word, err = p.receive(until); err == nil && word != i {
							err = fmt.Errorf("message %d of node %d is %d", i, node, word)
						}
						if err != nil {
							return
						}
						if node == 1 {
							p.send(0, i)
							p.step()
						} else {
							rtt = append(rtt, time.Since(begin))
						}
					}
				}()
				if err := <-made; err != nil {
					t.Fatal(err)
				}
			}
			close(start)
			for range hostOf {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(rtt)
			t.Logf("round trip: p50 %v, p99 %v", rtt[len(rtt)/2], rtt[len(rtt)*99/100])
			for node, p := range b.port {
				c, err := b.hosts[hostOf[node]].Switch().PortCounters(p.Outer)
				if err != nil || c.Sent+c.Local < exchanges || c.Short+c.BadVersion+c.Forged+c.BadLength+c.NoNode+c.TooLong != 0 {
					t.Errorf("node %d: %+v, %v", node, c, err)
				}
				b.on(hostOf[node], func() error { return b.hosts[hostOf[node]].End(p) })
			}
			for host := range b.hosts {
				b.on(host, func() error {
					all, err := netlink.LinkList()
					for _, l := range all {
						if l.Type() == "veth" && l.Attrs().Name != "fu0" {
							t.Errorf("link %s is left", l.Attrs().Name)
						}
					}
					return err
				})
			}
		})
	}
}

// Rule: memory that may change, or is not what was agreed, is refused, and nothing is left behind.
func TestMakeRefuses(t *testing.T) {
	b := newBed(t, 1)
	g := afxdp.GeometryFor(mtu)
	memfd := func(size int64, seals int) *os.File {
		fd, err := unix.MemfdCreate("m", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "m")
		t.Cleanup(func() { f.Close() })
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
		return f
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	const all = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	b.on(0, func() error {
		for what, m := range map[string]*os.File{
			"no memfd": null, "no seals": memfd(g.Bytes(), 0), "it may shrink": memfd(g.Bytes(), unix.F_SEAL_GROW|unix.F_SEAL_SEAL),
			"too short": memfd(g.Bytes()-4096, all), "too long": memfd(g.Bytes()+4096, all), "holes": memfd(g.Bytes(), all),
		} {
			if _, err := b.hosts[0].Make(bpf.Port{Job: job}, m, mtu); !errors.Is(err, ErrMemory) {
				t.Errorf("%s: %v", what, err)
			}
		}
		links, err := netlink.LinkList()
		if len(links) != 2 { // with lo
			t.Errorf("%d links are there", len(links))
		}
		return err
	})
}
