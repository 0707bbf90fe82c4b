package probe

// This file is the Answerer, which answers the probes of other hosts.

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/port/encap"
)

const (
	// DefaultPort is the UDP port of answerers. It is that of UDP encapsulation, which is open
	// where FUNet may pass. The NIC program leaves probes on this port to the kernel, too.
	DefaultPort = encap.DefaultPort

	answersPerSecond = 400
	mostNonces       = 64
)

// Answerer answers probes that arrive on one interface.
type Answerer struct {
	s     *sockets
	card  func() *Card
	heard [mostNonces]hearing
	next  int

	allowed float64 // answers that may be sent now; grows with time
	at      time.Time
}

// hearing counts the requests that came from one asker.
type hearing struct {
	nonce uint64
	by    [Carriers][Lengths]int
}

// Listen makes an answerer on an interface and a UDP port. card may be nil. Else it is called for
// each answer and returns the card of this host, nil if the host has none.
func Listen(iface string, port uint16, card func() *Card) (*Answerer, error) {
	s, err := open(iface, port)
	if err != nil {
		return nil, err
	}
	if card == nil {
		card = func() *Card { return nil }
	}
	return &Answerer{s: s, card: card, allowed: answersPerSecond, at: time.Now()}, nil
}

// Serve answers until the context ends. It may be called once.
func (a *Answerer) Serve(ctx context.Context) {
	done := make(chan struct{})
	defer close(done)
	defer a.s.close()
	arrivals := make(chan arrival)
	a.s.receive(arrivals, done)
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-arrivals:
			if r.hello == nil && r.kind == request {
				a.answer(&r)
			}
		}
	}
}

// answer answers a request by both carriers.
func (a *Answerer) answer(r *arrival) {
	length := Short
	if r.long {
		length = Long
	}
	h := a.hearing(r.nonce)
	h.by[r.by][length]++
	if !a.pay() {
		return
	}
	name, _ := os.Hostname()
	m := message{kind: answer, long: r.long, nonce: r.nonce, mac: r.message.mac, addr: r.addr, port: r.port,
		said: said{Host: Host{Name: name[:min(len(name), 64)], MTU: a.s.mtu(), FrameVersion: bpf.Version,
			Card: a.card()},
			Address: a.s.ifc.HardwareAddr.String(), Heard: h.by}}
	b, err := m.encode(r.size)
	if err != nil {
		return // a name of bytes that JSON makes long
	}
	mac, to := r.message.mac, netip.AddrPortFrom(r.addr, r.port)
	if r.by == Ethernet {
		mac = r.mac
	} else {
		to = r.from
	}
	if unicast(mac[:]) {
		a.s.sendFrame(mac[:], b[:min(len(b), max(a.s.full(Ethernet, netip.Addr{}), Size))])
	}
	if to.IsValid() && to.Port() != 0 && (r.by == UDP || a.near(to.Addr())) {
		a.s.sendUDP(to, b[:min(len(b), max(a.s.full(UDP, to.Addr()), Size))])
	}
}

// hearing returns the counts of a nonce. A new nonce replaces the oldest.
func (a *Answerer) hearing(nonce uint64) *hearing {
	if i := slices.IndexFunc(a.heard[:], func(h hearing) bool { return h.nonce == nonce }); i >= 0 {
		return &a.heard[i]
	}
	h := &a.heard[a.next]
	a.next = (a.next + 1) % mostNonces
	*h = hearing{nonce: nonce}
	return h
}

// pay reports whether another answer may be sent now.
func (a *Answerer) pay() bool {
	now := time.Now()
	a.allowed = min(a.allowed+now.Sub(a.at).Seconds()*answersPerSecond, answersPerSecond)
	a.at = now
	if a.allowed < 1 {
		return false
	}
	a.allowed--
	return true
}

// near reports whether an address is in a subnet of the interface.
func (a *Answerer) near(to netip.Addr) bool {
	return slices.ContainsFunc(a.s.prefixes(), func(p netip.Prefix) bool { return p.Contains(to) })
}
