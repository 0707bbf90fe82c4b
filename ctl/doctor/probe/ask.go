package probe

// This file asks: it sends requests and reads the answers.

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port/hello"
)

const (
	// between is the time from one round of requests to the next.
	between   = 100 * time.Millisecond
	rounds    = 5   // the least number of requests of a kind whose silence means anything
	mostHosts = 256 // the most other hosts of a segment that a Result keeps
)

// Answer says whether frames pass in one direction.
type Answer string

// The answers.
const (
	Unknown Answer = "unknown" // no answer came that would tell
	Yes     Answer = "yes"
	No      Answer = "no"
)

// Target is the host that is asked.
type Target struct {
	Interface string
	MAC       net.HardwareAddr // nil: Resolve finds it
	Addr      netip.Addr       // the zero Addr: no UDP
	Port      uint16           // of its answerer; 0: DefaultPort
	// Hello also sends hellos (package uspace/port/hello), which a daemon at the other end answers.
	// If a card of this host has the interface, that card gets the answers, and Ask does not.
	Hello bool
	// Resolve returns the target's Ethernet address, or nil while it is unknown. It may be nil.
	Resolve func() net.HardwareAddr
}

// Result says which frames pass.
type Result struct {
	// There and Back are indexed by carrier and length.
	There [Carriers][Lengths]Answer `json:"there"`
	Back  [Carriers][Lengths]Answer `json:"back"`
	// Peer is the target's description of itself; nil: no answer came from it.
	Peer  *Host  `json:"peer"`
	Hello *Hello `json:"hello"` // the answer of the card at the target's address; nil: none came
	// Others are the other hosts of the segment that answered, each once.
	Others []Host           `json:"others"`
	MAC    net.HardwareAddr `json:"mac"` // the target's Ethernet address, nil if unknown
}

// Hello is the answer of a card to a hello.
type Hello struct {
	hello.Said
	RoundTrip time.Duration
}

// whole reports whether every answer is known.
func (r *Result) whole(udp bool) bool {
	for c := range Carriers {
		for l := range Lengths {
			if (c == Ethernet || udp) && (r.There[c][l] != Yes || r.Back[c][l] != Yes) {
				return false
			}
		}
	}
	return true
}

// Ask sends requests until all frames are known to pass, or until patience, at least half a second,
// is over. Without an answerer at the other end it finds out only that nothing comes back.
func Ask(ctx context.Context, t Target, patience time.Duration) (Result, error) {
	r := Result{Others: []Host{}, MAC: t.MAC}
	for c := range Carriers {
		for l := range Lengths {
			r.There[c][l], r.Back[c][l] = Unknown, Unknown
		}
	}
	s, err := open(t.Interface, 0)
	if err != nil {
		return r, err
	}
	done := make(chan struct{})
	defer close(done)
	defer s.close()
	arrivals := make(chan arrival, 64)
	s.receive(arrivals, done)
	if t.Port == 0 {
		t.Port = DefaultPort
	}
	a := asker{t: t, s: s, r: &r}
	var nonce [8]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	a.nonce = binary.LittleEndian.Uint64(nonce[:]) | 1
	ticker := time.NewTicker(between)
	defer ticker.Stop()
	end := time.NewTimer(max(patience, (rounds+1)*between))
	defer end.Stop()
	for {
		a.round()
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return r, context.Cause(ctx)
			case <-end.C:
				a.conclude()
				return r, nil
			case m := <-arrivals:
				a.take(&m)
			case <-ticker.C:
				waiting = false
			}
		}
		if a.sent >= rounds && r.whole(t.Addr.IsValid()) {
			return r, nil
		}
	}
}

type asker struct {
	t       Target
	s       *sockets
	r       *Result
	nonce   uint64
	sent    int                // rounds
	greeted [Lengths]time.Time // when the last hellos were sent
	// answered is the round in which the target last answered. heard counts the requests that it
	// had heard by then.
	answered int
	heard    [Carriers][Lengths]int
}

// round sends one request of each carrier and length, and in some rounds a broadcast.
func (a *asker) round() {
	if a.r.MAC == nil && a.t.Resolve != nil {
		a.r.MAC = a.t.Resolve()
	}
	a.sayHello()
	m := message{kind: request, nonce: a.nonce, mac: [6]byte(a.s.ifc.HardwareAddr)}
	for _, p := range a.s.prefixes() {
		if !m.addr.IsValid() || p.Contains(a.t.Addr) {
			m.addr = p.Addr()
		}
	}
	if l, ok := a.s.udp.LocalAddr().(*net.UDPAddr); ok {
		m.port = uint16(l.Port)
	}
	for l := range Lengths {
		m.long = l == Long
		size := func(c Carrier) int {
			if l == Long {
				return a.s.full(c, a.t.Addr)
			}
			return Size
		}
		if b, err := m.encode(size(Ethernet)); err == nil && a.r.MAC != nil {
			a.s.sendFrame(a.r.MAC, b)
		}
		if b, err := m.encode(size(UDP)); err == nil && a.t.Addr.IsValid() {
			a.s.sendUDP(netip.AddrPortFrom(a.t.Addr, a.t.Port), b)
		}
	}
	if a.sent%rounds == 0 {
		// what the target hears of it says nothing of what is sent to it alone
		m.long, m.nonce = false, a.nonce&^1
		if b, err := m.encode(Size); err == nil {
			a.s.sendFrame([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, b)
		}
	}
	a.sent++
}

// sayHello sends a short hello and one that fills the MTU.
func (a *asker) sayHello() {
	if !a.t.Hello || len(a.r.MAC) != 6 {
		return
	}
	for l := range Lengths {
		m := hello.Message{Kind: hello.Question, Nonce: a.nonce&^1 ^ uint64(l), Arrived: hello.NoQueue,
			Said: hello.Said{Frames: arctic.Version}}
		size := hello.Size
		if l == Long {
			size = ethernetSize + a.s.mtu()
		}
		a.greeted[l] = time.Now()
		a.s.sendHello([6]byte(a.r.MAC), &m, size)
	}
}

// heardHello processes a card's answer: the hello passed there, and the answer, which is always
// short, passed back.
func (a *asker) heardHello(m *arrival) {
	if m.hello.Kind != hello.Answer || m.hello.Nonce&^1 != a.nonce&^1 || !bytes.Equal(m.mac[:], a.r.MAC) {
		return
	}
	l := Length(m.hello.Nonce & 1)
	a.r.There[Ethernet][Short], a.r.Back[Ethernet][Short], a.r.There[Ethernet][l] = Yes, Yes, Yes
	trip := m.at.Sub(a.greeted[l])
	if a.r.Hello == nil || trip < a.r.Hello.RoundTrip {
		a.r.Hello = &Hello{m.hello.Said, trip}
	}
}

func (a *asker) take(m *arrival) {
	if m.hello != nil {
		a.heardHello(m)
		return
	}
	if m.kind != answer || m.nonce|1 != a.nonce {
		return
	}
	h := m.said.Host
	target := m.by == UDP && m.from.Addr() == a.t.Addr || a.r.MAC != nil && bytes.Equal(h.MAC, a.r.MAC)
	if a.r.MAC == nil && a.r.Peer != nil && bytes.Equal(h.MAC, a.r.Peer.MAC) {
		target = true
	}
	if !target {
		if !slices.ContainsFunc(a.r.Others, func(o Host) bool { return bytes.Equal(o.MAC, h.MAC) }) &&
			len(a.r.Others) < mostHosts {
			a.r.Others = append(a.r.Others, h)
		}
		return
	}
	if m.nonce != a.nonce {
		return
	}
	a.r.Others = slices.DeleteFunc(a.r.Others, func(o Host) bool { return bytes.Equal(o.MAC, h.MAC) })
	a.r.Peer, a.answered = &h, a.sent
	length := Short
	if m.long {
		length = Long
	}
	a.r.Back[m.by][length] = Yes
	for c := range Carriers {
		for l := range Lengths {
			a.heard[c][l] = max(a.heard[c][l], m.said.Heard[c][l])
			if a.heard[c][l] > 0 {
				a.r.There[c][l] = Yes
			}
		}
	}
}

// conclude turns silence into No where the target would otherwise have answered. A request of some
// kind did not pass there if the target answers, but never counts one. Answers of some kind do not
// pass back if the target must have sent them, because it heard requests of that length.
func (a *asker) conclude() {
	if a.answered < rounds {
		return
	}
	for c := range Carriers {
		if c == UDP && !a.t.Addr.IsValid() {
			continue
		}
		for l := range Lengths {
			if a.r.There[c][l] == Unknown && (c == UDP || a.r.MAC != nil) {
				a.r.There[c][l] = No
			}
			asked := a.heard[Ethernet][l] + a.heard[UDP][l]
			if a.r.Back[c][l] == Unknown && asked >= rounds/2 {
				a.r.Back[c][l] = No
			}
		}
	}
}
