package rats

// This file implements the protocol Datagram (HPL-95-86, section 3.2): reliable messages, in no
// order, from many senders to one receiver. The receiver, a Port, gets a pointer to each, and
// releases it when it is done with it.
//
// Each seed of a port is for one client and has buffers of its own. Each buffer has its own area,
// since the deltas of two long messages in one area would mix. A client sends only to free buffers,
// so it is never refused and never overruns anything. A release gives the ticket for its buffer
// back. A credit carries not the ticket but a bit for each buffer, which changes at each release,
// and a number that counts credits. So releases that find no room are reported together, and an
// overtaken credit changes nothing.
//
// Words, first the kind in bits 31:28:
//
//	hello   to the port, as in stream.go
//	data    to the port, in the buffer's area: length 23:0
//	done    to the port, when the client closes: 0; datagrams sent, which may be overtaken by this
//	ring    to the client, for hello: buffers 27:0; areas of the buffers, 16 bits each, lower half
//	        first
//	credit  to the client: number 27:0; bits of the buffers
//	abort   to the client: 0
//	done    to the client, which has said so too, when all its datagrams are there: 0

import (
	"errors"
	"fmt"
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	MaxBuffers  = 2 * (arctic.MaxRemoteMetadata - 3) // the largest number of buffers of a seed
	MaxDatagram = 1 << 20                            // the longest datagram, in bytes
)

// ErrForm reports a size or number of buffers out of range: 1 byte to MaxDatagram, and 1 to
// MaxBuffers for each seed.
var ErrForm = errors.New("rats: a port has buffers of 1 byte to 1 MiB, and 1 to 16 of them for each seed")

// Port receives datagrams. It belongs to the goroutine of its manager.
type Port struct {
	links   // whose instance gets the datagrams
	size    int
	buffers int
	queue   []Datagram // unread
}

// Datagram is a message of a client.
type Datagram struct {
	From   uint16 // the source node; the cards guarantee it
	Bytes  []byte // valid until Release
	link   *datagramLink
	buffer uint8
}

type datagramLink struct {
	serverEnd
	of       *Port
	memory   []byte
	said     bool   // the client was sent its buffers
	held     uint32 // bit set of buffers that hold a datagram
	released uint32 // bits that change at each release
	told     uint32 // value of released in the last credit
	number   uint32 // number of the last credit
	came     uint32
	done     bool // the client has closed, after sent datagrams
	sent     uint32
}

// NewPort returns a port for datagrams of up to size bytes. Each client may send as many as it has
// buffers before one must be released. Errors are ErrForm and ErrFull.
func (m *Manager) NewPort(size, buffers int) (*Port, error) {
	if size < 1 || size > MaxDatagram || buffers < 1 || buffers > MaxBuffers {
		return nil, fmt.Errorf("opening a port with %d buffers of %d bytes: %w", buffers, size, ErrForm)
	}
	p := &Port{size: size, buffers: buffers}
	if err := m.add(&p.instance, gone{}); err != nil {
		return nil, fmt.Errorf("opening a port: %w", err)
	}
	return p, nil
}

// Seed returns a seed for one client, with buffers of its own. The buffers become free when the
// client has closed or cannot be reached, and by Revoke. Errors are ErrFull and ErrClosed.
func (p *Port) Seed() (s Seed, err error) {
	if p.closing {
		return s, fmt.Errorf("making a seed: %w", ErrClosed)
	}
	if !p.m.room(1+p.buffers, controlArea+p.buffers) {
		return s, fmt.Errorf("making a seed: %w", ErrFull)
	}
	l := &datagramLink{of: p}
	if l.memory, err = p.m.Alloc(p.size * p.buffers); err == nil {
		if err = l.begin(p.m, l, l.memory, controlArea, p.buffers); err != nil && l.key == 0 {
			p.m.Free(l.memory)
		}
	}
	return p.links.seed(&l.serverEnd, p.size, protocolDatagram, err)
}

// Recv returns the oldest datagram, or false if there is none.
func (p *Port) Recv() (d Datagram, ok bool) {
	if len(p.queue) == 0 {
		return d, false
	}
	d = p.queue[0]
	p.queue = slices.Delete(p.queue, 0, 1)
	p.m.hands(datagramPrice)
	return d, true
}

// Release gives the datagram's buffer back to its client. Each is released once, in any order.
func (p *Port) Release(d Datagram) {
	l, bit := d.link, uint32(1)<<d.buffer
	if l.held&bit == 0 || l.of.closing {
		return
	}
	l.held &^= bit
	l.released ^= bit
	if l.closing {
		l.m.await(&l.instance)
	}
	l.consider()
}

// Close closes the port and frees its buffers, even those not received or not released.
func (p *Port) Close() {
	p.queue = nil
	p.close()
}

func (l *datagramLink) arrived(n *funi.Notification) {
	if l.strange(n) {
		return
	}
	l.bound, l.peer.Node = true, n.Source
	buffer := slices.Index(l.areas, n.Area) - 1
	switch w := n.Metadata; {
	case buffer < 0 && l.peer.Key == 0 && l.helloFrom(n):
		l.m.await(&l.instance)
	case buffer < 0 && n.Words == 1 && w[0] == kindAbort<<kindShift: // it has failed
		l.abandon()
	case buffer < 0 && n.Words == 2 && w[0] == kindDone<<kindShift && !l.done:
		l.done, l.sent = true, w[1]
	case buffer >= 0 && n.Words == 1 && w[0]>>kindShift == kindData && l.said && int(w[0]&lengthMax) <= l.of.size &&
		(l.held|l.released^l.told)>>buffer&1 == 0: // the buffer was the client's
		at := buffer * l.of.size
		end := at + int(w[0]&lengthMax)
		l.held |= 1 << buffer
		l.came++
		l.of.queue = append(l.of.queue, Datagram{From: n.Source, Bytes: l.memory[at:end:end], link: l,
			buffer: uint8(buffer)})
		l.of.m.tell(&l.of.instance)
		l.consider()
	default:
		l.liar(w[0] >> kindShift)
		return
	}
	if l.done && l.came == l.sent && l.peer.Key != 0 {
		l.complete = true
		l.shutdown()
	}
}

// consider tells the client which buffers are free, when that is due. It returns false if there is
// no room for that.
func (l *datagramLink) consider() bool {
	if l.closing || !due(l.of.buffers, bitsIn(l.held), bitsIn(l.released^l.told)) {
		return true
	}
	if !l.send(l.peer, 0, nil, []uint32{kindCredit<<kindShift | (l.number+1)&(1<<kindShift-1), l.released}, true) {
		l.m.await(&l.instance)
		return false
	}
	l.number++
	l.told = l.released
	return true
}

func (l *datagramLink) turn() bool {
	if l.peer.Key != 0 && !l.said && !l.closing {
		w := []uint32{uint32(kindRing<<kindShift | l.of.buffers)}
		for i, a := range l.areas[1:] {
			if i%2 == 0 {
				w = append(w, 0)
			}
			w[1+i/2] |= uint32(a) << (i % 2 * 16)
		}
		if !l.send(l.peer, 0, nil, w, true) {
			return false
		}
		l.said = true
	}
	if !l.consider() {
		return false
	}
	if l.closing && l.held != 0 && !l.of.closing {
		return l.tellAbort() // Release goes on
	}
	return l.finishOf(&l.of.links, l.memory)
}

// Client sends datagrams to a port. It belongs to the goroutine of its manager.
type Client struct {
	end
	size    int
	tickets int // 0: not known yet
	buffers [MaxBuffers]uint16
	used    uint32 // bits that change when a buffer is used
	free    uint32 // and when it was released, as the port last told
	number  uint32 // of that credit
	sent    uint32
}

// SendDatagrams returns a client of the port that made the seed. Errors are ErrFull and ErrSeed.
func (m *Manager) SendDatagrams(s Seed) (*Client, error) {
	c := &Client{size: int(s.Size)}
	err := ErrSeed
	if s.Size > 0 && s.Size <= MaxDatagram {
		err = m.client(&c.end, c, s, protocolDatagram, m.nothing)
	}
	if err != nil {
		return nil, fmt.Errorf("making a client for datagrams: %w", err)
	}
	c.peer.Size, c.hello = 0, true
	m.await(&c.instance)
	return c, nil
}

// Size returns how many bytes a datagram may have.
func (c *Client) Size() int { return c.size }

// Send sends a datagram; the bytes may be changed at once. It returns false if no buffer is free
// there or there is no room here. NextReady then tells when it is worth trying again. Errors are
// ErrTooLong, ErrClosed, ErrAborted, ErrProtocol and a *Failure.
func (c *Client) Send(b []byte) (bool, error) {
	switch {
	case c.err != nil:
		return false, c.err
	case c.closing:
		return false, ErrClosed
	case len(b) > c.size:
		return false, fmt.Errorf("sending a datagram of %d bytes: %w", len(b), ErrTooLong)
	}
	free := c.freeBuffers()
	if free == 0 {
		c.full = true
		return false, nil
	}
	buffer := lowest(free)
	t := c.peer
	t.Area, t.Offset, t.Size = c.buffers[buffer], uint32(buffer*c.size), uint32(c.size)
	source, long := b, len(b) > arctic.MaxRemoteBytes-arctic.WordSize
	if long {
		if source = nil; c.m.laneTo(t.Node).room() { // or the copy would be in vain
			source = c.m.heap.alloc(len(b))
		}
		if source != nil {
			copy(source, b)
		}
	}
	ok := (source != nil || !long) && c.sendAny(t, source, []uint32{uint32(kindData<<kindShift | len(b))})
	if long && source != nil {
		c.m.freeLater(source)
	}
	if !ok {
		c.full = true
		c.m.await(&c.instance)
		return false, nil
	}
	c.used ^= 1 << buffer
	c.sent++
	return true, nil
}

// freeBuffers returns the set of buffers that the client may send to.
func (c *Client) freeBuffers() uint32 { return ^(c.used ^ c.free) & (1<<c.tickets - 1) }

// Idle reports whether all sent datagrams were released.
func (c *Client) Idle() bool { return bitsIn(c.freeBuffers()) == c.tickets }

// Close closes the client once all sent datagrams are delivered.
func (c *Client) Close() { c.linger() }

func (c *Client) arrived(n *funi.Notification) {
	if c.err != nil || n.Source != c.peer.Node {
		return
	}
	w := n.Metadata
	count := int(w[0] & (1<<kindShift - 1))
	switch kind := w[0] >> kindShift; {
	case kind == kindRing && c.tickets == 0 && count >= 1 && count <= MaxBuffers && n.Words == 1+(count+1)/2:
		for i := range count {
			c.buffers[i] = uint16(w[1+i/2] >> (i % 2 * 16))
		}
		c.tickets = count
	case kind == kindCredit && n.Words == 2 && c.tickets > 0:
		if int32(uint32(count)-c.number)<<(32-kindShift) <= 0 {
			return // overtaken by a newer one
		}
		if (w[1]^c.free)&^(c.used^c.free) != 0 {
			c.lies("buffers released", w[1])
			return
		}
		c.number, c.free = uint32(count), w[1]
	case kind == kindAbort && n.Words == 1:
		c.fail(ErrAborted)
		return
	case kind == kindDone && n.Words == 1 && c.saidDone:
		c.answered()
		return
	default:
		c.lies("kind", kind)
		return
	}
	c.room()
}

// room reports the client as ready after a send that failed for want of room.
func (c *Client) room() {
	if c.freeBuffers() != 0 {
		c.end.room()
	}
}

func (c *Client) turn() bool {
	if !c.sayHello() {
		return false
	}
	if c.err == nil && !c.closing {
		c.room()
	}
	return c.finishClient(c.sent)
}
