package probe

// This file tests messages, and what Ask finds out in labs where something does not pass.

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/xdp"
)

// Rule (message.go): what is composed decodes to the same; it is as long as was asked for.
func TestMessage(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 9}
	for _, m := range []message{
		{kind: request, nonce: 7, mac: [6]byte(mac), addr: netip.MustParseAddr("198.18.0.1"), port: 9},
		{kind: request, long: true, nonce: 1<<64 - 1, addr: netip.MustParseAddr("fe80::1")},
		{kind: answer, nonce: 3, said: said{Host: Host{Name: "a", MAC: mac, MTU: 1500, FrameVersion: 3,
			Card: &Card{2, 3, 4}},
			Address: mac.String(), Heard: [Carriers][Lengths]int{{1, 2}, {3, 4}}}},
	} {
		b, err := m.encode(900)
		if err != nil || len(b) != 900 {
			t.Fatal(len(b), err)
		}
		got, err := decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, got, cmp.AllowUnexported(message{}, said{}),
			cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Error(diff)
		}
	}
}

// Rule (doc.go): any bytes are a message or none; what a name from the network has that could move
// a terminal's cursor is not shown.
func FuzzDecode(f *testing.F) {
	m := message{kind: answer, nonce: 3, said: said{Host: Host{Name: "a\x1b[2J", MAC: make([]byte, 6)},
		Address: "02:00:00:00:00:01"}}
	b, err := m.encode(Size)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	m = message{kind: request}
	b, _ = m.encode(Size)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err == nil && (bytes.ContainsAny([]byte(m.said.Name), "\x1b\n\r") ||
			m.kind == answer && len(m.said.MAC) != 6) {
			t.Fatalf("%+v", m)
		}
	})
}

// Rule (doc.go): an answerer answers no faster than its bound, and remembers a bounded number of
// askers.
func TestBounds(t *testing.T) {
	a := &Answerer{allowed: answersPerSecond, at: time.Now()}
	paid := 0
	for range 10 * answersPerSecond {
		if a.pay() {
			paid++
		}
	}
	if took := time.Since(a.at).Seconds() + 1; float64(paid) > answersPerSecond*(1+took) {
		t.Errorf("%d answers at once", paid)
	}
	for n := range uint64(10 * mostNonces) {
		a.hearing(n + 1).by[UDP][Short]++
	}
	if h := a.hearing(10 * mostNonces); h.by[UDP][Short] != 1 {
		t.Error("the last nonce is forgotten")
	}
	if h := a.hearing(1); h.by[UDP][Short] != 0 {
		t.Error("the first nonce is remembered")
	}
}

// bench is a lab of hosts on a bridge with answerers on all but the first.
type bench struct {
	*lab.Lab
	t *testing.T
}

func newBench(t *testing.T, o lab.Options) *bench {
	l, err := lab.Up(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bench{l, t}
}

func (b *bench) do(host int, f func() error) {
	b.t.Helper()
	if err := b.Do(host, f); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) answer(host int, card *Card) {
	b.t.Helper()
	var a *Answerer
	b.do(host, func() (err error) {
		a, err = Listen("fu0", 0+DefaultPort, func() *Card { return card })
		return err
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); a.Serve(ctx) }()
	b.t.Cleanup(func() { cancel(); <-ended })
}

// drop has host's interface lose on receipt what a frame is whose 16 bits at an offset are so.
func (b *bench) drop(host int, offset int16, value int32) {
	b.t.Helper()
	b.do(host, func() error {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "MIT", Instructions: asm.Instructions{
			asm.LoadMem(asm.R2, asm.R1, 0, asm.Word), asm.LoadMem(asm.R3, asm.R1, 4, asm.Word),
			asm.Mov.Reg(asm.R4, asm.R2), asm.Add.Imm(asm.R4, 64), asm.JGT.Reg(asm.R4, asm.R3, "pass"),
			asm.LoadMem(asm.R5, asm.R2, offset, asm.Half), asm.JNE.Imm(asm.R5, value, "pass"),
			asm.Mov.Imm(asm.R0, 1), asm.Return(),
			asm.Mov.Imm(asm.R0, 2).WithSymbol("pass"), asm.Return(),
		}})
		if err != nil {
			return err
		}
		defer p.Close()
		ifc, err := net.InterfaceByName("fu0")
		if err != nil {
			return err
		}
		at, err := xdp.Attach(p, ifc.Index, xdp.AttachGeneric)
		if err == nil {
			b.t.Cleanup(func() { _ = at.Close() })
		}
		return err
	})
}

func (b *bench) ask(t Target) (r Result) {
	b.t.Helper()
	t.Interface = "fu0"
	b.do(0, func() (err error) {
		r, err = Ask(context.Background(), t, 2*time.Second)
		return err
	})
	return r
}

func all(a Answer) (v [Carriers][Lengths]Answer) {
	for c := range Carriers {
		v[c] = [Lengths]Answer{a, a}
	}
	return v
}

// Rule (doc.go): one ask tells what passes, each way apart, and who else is there.
func TestAsk(t *testing.T) {
	const etherType, dontFragment = 0xb588, 0x0040 // as a little-endian half word
	for _, c := range []struct {
		name  string
		plant func(*bench)
		want  func(there, back *[Carriers][Lengths]Answer)
	}{
		{"all passes", func(*bench) {}, func(_, _ *[Carriers][Lengths]Answer) {}},
		{"EtherType to the peer", func(b *bench) { b.drop(1, 12, etherType) },
			func(there, _ *[Carriers][Lengths]Answer) {
				there[Ethernet] = [Lengths]Answer{No, No}
			}},
		{"EtherType from the peer", func(b *bench) { b.drop(0, 12, etherType) },
			func(_, back *[Carriers][Lengths]Answer) {
				back[Ethernet] = [Lengths]Answer{No, No}
			}},
		{"UDP to the peer", func(b *bench) { b.drop(1, 20, dontFragment) }, func(there, _ *[Carriers][Lengths]Answer) {
			there[UDP] = [Lengths]Answer{No, No}
		}},
		{"UDP from the peer", func(b *bench) { b.drop(0, 20, dontFragment) }, func(_, back *[Carriers][Lengths]Answer) {
			back[UDP] = [Lengths]Answer{No, No}
		}},
		{"smaller MTU at the peer", func(b *bench) {
			b.do(1, func() error {
				l, err := netlink.LinkByName("fu0")
				if err != nil {
					return err
				}
				return netlink.LinkSetMTU(l, 1000)
			})
		}, func(there, back *[Carriers][Lengths]Answer) {
			for c := range Carriers {
				there[c][Long], back[c][Long] = No, Unknown
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, lab.Options{Hosts: 3})
			c.plant(b)
			b.answer(1, &Card{Number: 1})
			b.answer(2, &Card{Number: 2})
			peer := b.Hosts()[1].Interfaces[0]
			got := b.ask(Target{MAC: peer.MAC, Addr: peer.Addr.Addr()})
			there, back := all(Yes), all(Yes)
			c.want(&there, &back)
			if got.There != there || got.Back != back {
				t.Errorf("there %v, back %v\nwant  %v,      %v", got.There, got.Back, there, back)
			}
			if got.Peer == nil || !bytes.Equal(got.Peer.MAC, peer.MAC) || got.Peer.Card.Number != 1 {
				t.Errorf("peer %+v", got.Peer)
			}
		})
	}
}

// Rule (doc.go): when nothing answers at the address, the answer names the other hosts on the
// segment.
func TestOthers(t *testing.T) {
	b := newBench(t, lab.Options{Hosts: 3})
	b.answer(1, &Card{Number: 1})
	b.answer(2, &Card{Number: 1})
	got := b.ask(Target{MAC: net.HardwareAddr{2, 0, 0, 0, 0, 77}})
	if got.Peer != nil || got.There != all(Unknown) || got.Back != all(Unknown) {
		t.Errorf("%+v", got)
	}
	var macs []string
	for _, o := range got.Others {
		macs = append(macs, o.MAC.String())
	}
	slices.Sort(macs)
	if diff := cmp.Diff([]string{b.Hosts()[1].Interfaces[0].MAC.String(), b.Hosts()[2].Interfaces[0].MAC.String()},
		macs); diff != "" {
		t.Error(diff)
	}
}
