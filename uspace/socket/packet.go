package socket

// This file implements packet connections. A packet connection is a port of Datagram (package
// rats). Each of its clients, which are other packet connections, has buffers of its own here. So
// no client's packets are lost because of another's, and a reader that stalls delays only the
// clients that send to it.
//
// The first send to an address asks its node's server for a seed, which the sender keeps. A packet
// begins with its source port. The card vouches for the source node, but not for the port: all
// ports of a node belong to one process.
//
// The words of the request are the ports, the requested one first. Those of the answer are
// accepted, refused or busy, and after accepted the seed.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/rats"
)

const (
	// MaxPacket is the longest packet, in bytes. Packets of the Internet and of QUIC are shorter.
	// With its port such a packet fills a power of two.
	MaxPacket = 2048 - portBytes

	packetWords = 1
	portBytes   = 2
	// packetBuffers is how many packets of a client wait to be read; the client waits with further
	// ones.
	packetBuffers = 16
	// mostClients is how many addresses a packet connection keeps a seed of. Beyond that, it gives
	// back the seed that was idle longest.
	mostClients = 64
	// mostLinks is how many ports of a node may have buffers of a packet connection. Beyond that,
	// the oldest port loses its buffers, and asks again.
	mostLinks = 16

	seedAnswer = 1 + rats.SeedSize/arctic.WordSize
)

// PacketConn is a packet connection, a net.PacketConn. Packets are not lost, and may overtake each
// other.
type PacketConn struct {
	end
	port    *rats.Port
	clients map[Addr]*packetClient
	links   map[Addr]packetLink // by the address that the seed was given to
	turn    uint64              // counts seeds and packets; a smaller value is older
	writers map[*waiter]struct{}
	buffer  [portBytes + MaxPacket]byte
}

// packetClient is the end towards another packet connection.
type packetClient struct {
	p    *PacketConn
	c    *rats.Client // nil: not yet connected
	used uint64
}

// packetLink is a seed that was given to another packet connection.
type packetLink struct {
	seed rats.Seed
	made uint64
}

var _ net.PacketConn = (*PacketConn)(nil)

// ListenPacket returns a packet connection on a port of this node, ":PORT" of network "funet"; 0
// picks one. Ports of listeners are others. Errors are a *net.OpError with EADDRINUSE or
// EADDRNOTAVAIL.
func (s *Stack) ListenPacket(network, address string) (net.PacketConn, error) {
	s.group.Lock()
	defer s.group.Unlock()
	a, err := s.bind(network, address, func(port uint16) bool { return s.packets[port] != nil })
	if err != nil {
		return nil, err
	}
	p := &PacketConn{end: s.newEnd(a), clients: map[Addr]*packetClient{}, links: map[Addr]packetLink{},
		writers: map[*waiter]struct{}{}}
	if p.port, err = s.m.NewPort(portBytes+MaxPacket, packetBuffers); err != nil {
		return nil, wrong("listen", nil, a, err)
	}
	p.port.Context = p
	s.packets[a.Port] = p
	return p, nil
}

// answerPacket answers a request for a seed.
func (s *Stack) answerPacket(q *rats.Request) []uint32 {
	p := s.packets[uint16(q.Words[0]>>16)]
	if p == nil {
		return []uint32{refused}
	}
	from := Addr{q.From, uint16(q.Words[0])}
	p.forget(from)
	oldest, of := Addr{}, 0
	for a, l := range p.links {
		if a.Node == from.Node {
			if of++; of == 1 || l.made < p.links[oldest].made {
				oldest = a
			}
		}
	}
	if of >= mostLinks {
		p.forget(oldest)
	}
	seed, err := p.port.Seed()
	if err != nil {
		return []uint32{busy}
	}
	p.turn++
	p.links[from] = packetLink{seed, p.turn}
	return seedWords(seed)
}

// seedWords is the answer that brings a seed, and seedOf reads it.
func seedWords(seed rats.Seed) []uint32 {
	words := []uint32{accepted}
	for b := seed.Encode(); len(words) < seedAnswer; {
		words = append(words, binary.LittleEndian.Uint32(b[(len(words)-1)*arctic.WordSize:]))
	}
	return words
}

func seedOf(words []uint32) (rats.Seed, error) {
	switch {
	case len(words) == seedAnswer && words[0] == accepted:
		var b []byte
		for _, word := range words[1:] {
			b = binary.LittleEndian.AppendUint32(b, word)
		}
		return rats.DecodeSeed(b)
	case words[0] == busy:
		return rats.Seed{}, errBusy
	}
	return rats.Seed{}, syscall.ECONNREFUSED
}

// forget takes a seed back.
func (p *PacketConn) forget(from Addr) {
	if l, ok := p.links[from]; ok {
		p.port.Revoke(l.seed)
		delete(p.links, from)
	}
}

// ReadFrom copies the oldest packet and returns its source. It waits until there is a packet. The
// part that does not fit b is lost.
func (p *PacketConn) ReadFrom(b []byte) (n int, from net.Addr, err error) {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	p.s.group.Lock()
	defer p.s.group.Unlock()
	for {
		passed := p.in.done()
		if err := p.over(passed); err != nil {
			return 0, nil, wrong("read", p.local, nil, err)
		}
		if d, ok := p.port.Recv(); ok {
			if len(d.Bytes) < portBytes {
				p.port.Release(d) // no packet connection has sent that
				continue
			}
			a := Addr{d.From, binary.LittleEndian.Uint16(d.Bytes)}
			n := copy(b, d.Bytes[portBytes:])
			p.port.Release(d)
			return n, a, nil
		}
		p.s.group.Await(&p.in.waiter, passed)
	}
}

// over returns why a wait must end, or nil.
func (p *PacketConn) over(passed <-chan struct{}) error {
	switch {
	case p.closed:
		return net.ErrClosed
	case over(passed):
		return os.ErrDeadlineExceeded
	}
	return p.s.err
}

// WriteTo sends a packet to another packet connection, given as an Addr or as what its String
// returns. It waits while packetBuffers packets of this connection are unread there. Errors are a
// *net.OpError with EMSGSIZE, ECONNREFUSED (the port is not open), EHOSTUNREACH, ETIMEDOUT.
func (p *PacketConn) WriteTo(b []byte, address net.Addr) (n int, err error) {
	if len(b) > MaxPacket {
		return 0, wrong("write", p.local, address,
			fmt.Errorf("%w: a packet has up to %d bytes", syscall.EMSGSIZE, MaxPacket))
	}
	to, ok := address.(Addr)
	if !ok {
		if to, err = p.s.parse(Network, address.String()); err != nil {
			return 0, wrong("write", p.local, address, err)
		}
	}
	p.s.group.Lock()
	defer p.s.group.Unlock()
	sent, err := p.send(b, to)
	if !sent && err == nil {
		err = p.sendLater(b, to)
	}
	if err != nil {
		return 0, wrong("write", p.local, to, err)
	}
	p.s.carrier.Look() // it leaves now
	return len(b), nil
}

// sendLater sends a packet when that is possible.
func (p *PacketConn) sendLater(b []byte, to Addr) error {
	w := p.s.group.NewWaiter()
	p.writers[&w] = struct{}{}
	defer delete(p.writers, &w)
	for {
		if p.clients[to] == nil {
			if err := p.connect(to, &w, p.out.done()); err != nil {
				return err
			}
		} else {
			p.s.group.Await(&w, p.out.done())
		}
		if sent, err := p.send(b, to); sent || err != nil {
			return err
		}
	}
}

// send sends a packet if that is possible now: there is a client, and room.
func (p *PacketConn) send(b []byte, to Addr) (sent bool, err error) {
	if err := p.over(p.out.done()); err != nil {
		return false, err
	}
	k := p.clients[to]
	if k == nil || k.c == nil { // or another goroutine asks for it
		return false, nil
	}
	copy(p.buffer[portBytes:], b)
	binary.LittleEndian.PutUint16(p.buffer[:], p.local.Port)
	sent, err = k.c.Send(p.buffer[:portBytes+len(b)])
	switch {
	// it took the seed back; if it is there no more we hear so when we ask again
	case errors.Is(err, rats.ErrAborted):
		p.drop(to)
		return false, nil
	case err != nil:
		p.drop(to)
		return false, dialFailure(err)
	case sent:
		p.turn++
		k.used = p.turn
	}
	return sent, nil
}

// connect asks for a seed.
func (p *PacketConn) connect(to Addr, w *waiter, passed <-chan struct{}) (err error) {
	if len(p.clients) >= mostClients {
		p.evict()
	}
	k := &packetClient{p: p, used: p.turn}
	p.clients[to] = k
	defer func() {
		if err != nil && p.clients[to] == k {
			delete(p.clients, to)
		}
		p.rouse() // who waits for it, too
	}()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		var words []uint32
		words, err = p.s.inquire(to.Node, w, passed, func() error {
			return p.over(passed)
		}, uint32(to.Port)<<16|uint32(p.local.Port))
		var seed rats.Seed
		if err == nil {
			seed, err = seedOf(words)
		}
		if err == nil {
			k.c, err = p.s.m.SendDatagrams(seed)
		}
		if err == nil {
			k.c.Context = k
			return nil
		}
		if !full(err) && !errors.Is(err, errBusy) {
			return dialFailure(err)
		}
		p.evict()
		if p.s.doze(w, passed, pause); p.over(passed) != nil {
			return p.over(passed)
		}
	}
}

// evict closes the client that was not used longest.
func (p *PacketConn) evict() {
	var oldest *packetClient
	var at Addr
	for a, k := range p.clients {
		if k.c != nil && k.c.Idle() && (oldest == nil || k.used < oldest.used) {
			oldest, at = k, a
		}
	}
	if oldest != nil {
		p.drop(at)
	}
}

// drop closes a client.
func (p *PacketConn) drop(to Addr) {
	if k := p.clients[to]; k != nil && k.c != nil {
		k.c.Close()
		delete(p.clients, to)
	}
}

// rouse makes all waiting goroutines look again.
func (p *PacketConn) rouse() {
	p.in.Rouse()
	for w := range p.writers {
		w.Rouse()
	}
}

// Close closes the packet connection, and ends calls that wait. Written packets are delivered;
// unread ones are discarded.
func (p *PacketConn) Close() error {
	p.s.group.Lock()
	defer p.s.group.Unlock()
	if p.closed {
		return wrong("close", p.local, nil, net.ErrClosed)
	}
	p.close()
	p.s.hear() // the others hear of it now
	return nil
}

func (p *PacketConn) close() {
	if p.closed {
		return
	}
	p.closed = true
	delete(p.s.packets, p.local.Port)
	p.port.Close()
	for to := range p.clients {
		p.drop(to)
	}
	p.rouse()
}

// ready is called when something has happened to a client.
func (k *packetClient) ready() {
	if err := k.c.Err(); ofNode(err) {
		for a := range k.p.clients {
			if k.p.clients[a] == k {
				k.p.s.lost(a.Node, err)
				break
			}
		}
	}
	k.p.rouse()
}

// losePackets frees the buffers of packet connections on a node that has gone.
func (s *Stack) losePackets(node uint16) {
	for _, p := range s.packets {
		for a := range p.links {
			if a.Node == node {
				p.forget(a)
			}
		}
	}
}

// probePackets probes each node without a connection by one of its clients.
func (s *Stack) probePackets() {
	for _, p := range s.packets {
		asked := map[uint16]bool{}
		for a, k := range p.clients {
			if k.c != nil && s.peers[a.Node] == nil && !asked[a.Node] {
				asked[a.Node] = true
				k.c.Probe()
			}
		}
	}
}
