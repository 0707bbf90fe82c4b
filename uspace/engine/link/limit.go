package link

// This file bounds the length of frames to a peer. The way to the peer may carry less than the port
// sends, now or later: another route, an interface with a smaller MTU, a tunnel. It is
// packetization layer path MTU discovery (RFC 4821, RFC 8899); the acknowledgments of frames answer
// its probes.
//
// The packets of a frame are fixed when it gets its sequence number, because the peer may have
// taken it though its acknowledgment is lost. So a frame that has become too long cannot be sent
// again as two frames. A void frame goes in its place (arctic.PutVoid), with one empty packet and
// the same number. A peer that has not had the frame rejects the number as a whole, with
// ReasonTooLong, and will not take the frame itself any more. Only then do its packets go into new
// frames. A peer that has had the frame repeats its answer. So every packet arrives once. A block
// becomes shorter as it goes: what its frame had no room for follows in the next (line.piece).
//
// Frames become shorter
//
//	when the owner of the card says so (SetLimit), as a router or an interface has told it;
//	when the port lends shorter buffers than before;
//	when the peer says in a greeting that its port carries only shorter ones;
//	when two long frames in a row were lost each time they were sent, and void ones of their
//	numbers were not: some filters and switches drop without a word. Then frames have a length
//	that most paths take.
//
// They become longer again when the owner says so, or when a probe is acknowledged. A probe is a
// frame that is filled up with zeros to the next of some lengths. A probe that is lost is sent
// again without the zeros, so it delays one frame. The next probe is Config.RaiseAfter later. So
// false news about the path, such as a forged ICMP message, makes frames shorter for a while, but
// never shorter than leastFrame, which every path takes.

import (
	"github.com/funet/funet/uspace/arctic"
)

const (
	// leastFrame is the length in bytes of frames that every path takes.
	leastFrame = arctic.EthernetSize + arctic.MinMTU
	// commonFrame is the length in bytes of frames that nearly every path takes: IPv6's least MTU
	// with UDP in it (RFC 8200 section 5, RFC 8899's BASE_PLPMTU).
	commonFrame = 1246
	// suspected is how often a frame is sent before a void one goes in its place, to find out
	// whether it is too long.
	suspected = 3
)

// lengths are lengths of frames that networks take, in bytes. Each is tried when the one before has
// arrived (RFC 1191 section 7.1). They are those of Ethernet and its jumbo frames, and for UDP over
// IPv6 those of IPv6's least MTU, of tunnels' and of Ethernet's.
var lengths = [...]int{leastFrame, 1000, commonFrame, 1366, 1466, 1514, 2048, 3014, 4096, 9014, arctic.MaxFrame}

// SetLimit says how long frames to a peer may be from now on, in bytes, as far as the owner knows.
// The card finds out itself whether longer ones pass. Values below leastFrame count as leastFrame;
// values above the port's frame size mean no limit. SetLimit does nothing if the card is not a
// peer. Call Step afterwards.
func (e *End) SetLimit(card uint16, bytes int) {
	p := e.peer(card)
	switch {
	case p == nil || bytes == p.longest():
	case bytes < p.longest():
		e.shorten(p, bytes)
	default:
		e.lengthen(p, bytes)
	}
}

// Limit returns the length in bytes of the longest frame to a peer, or 0 if the card is not a peer.
func (e *End) Limit(card uint16) int {
	if p := e.peer(card); p != nil {
		return e.sizeTo(p)
	}
	return 0
}

// sizeTo returns the length of the longest frame to a peer.
func (e *End) sizeTo(p *peer) int {
	if p.removed() {
		return leastFrame
	}
	return min(e.cfg.Ports[p.Port].FrameSize(), p.longest())
}

// longest returns the length in bytes of the longest frame that both the way to the peer and the
// peer's port take.
func (p *peer) longest() int { return arctic.EthernetSize + int(min(p.limit, p.said)) }

// take sets the limit of the way to the peer, from leastFrame to arctic.MaxFrame.
func (p *peer) take(bytes int) {
	p.limit, p.suspect = uint16(min(max(bytes, leastFrame), arctic.MaxFrame)-arctic.EthernetSize), 0
}

// SizeTo returns the length in bytes of the longest frame to a card that is or was a peer, less
// what sealing adds to it.
func (e *End) SizeTo(card uint16) int { return e.room(e.byCard.at(card)) }

func (e *End) room(p *peer) int { return e.sizeTo(p) - int(p.seal) }

// length returns how long a frame to the peer is, without rejects.
func (p *peer) length(fr *frame) int { return arctic.HeaderSize + int(fr.size) + int(p.seal) }

// shorten bounds the frames to a peer. Longer frames in flight are asked back at once.
func (e *End) shorten(p *peer, bytes int) {
	p.take(bytes)
	p.raiseAt = e.now + int64(e.cfg.RaiseAfter)
	e.ground(p)
}

// ground counts frames in flight to a peer as lost that are too long now, so that void frames ask
// their numbers back.
func (e *End) ground(p *peer) {
	for _, f := range p.flows {
		if f == nil {
			continue
		}
		for s := f.sndUna; s != f.sndNext; s++ {
			if fr := f.frame(s); fr.state == flying && p.length(fr) > p.longest() {
				f.loses(fr)
			}
		}
		if f.lost > 0 {
			e.makeReady(f)
		}
	}
}

// lengthen lets frames to a peer be longer, up to what the port sends.
func (e *End) lengthen(p *peer, bytes int) {
	p.raiseAt = max(e.now, 1)
	if e.cfg.Ports[p.Port].FrameSize() <= bytes {
		bytes, p.raiseAt = arctic.MaxFrame, 0
	}
	p.take(bytes)
}

// tooLong reports whether a frame, of the given bytes without rejects, must not be sent as it is.
// Either b has no room for it, or it may be lost because of its length. A frame that was sent void
// once stays void.
func (fr *frame) tooLong(b []byte, bytes int) bool {
	return fr.void || bytes > len(b) || fr.retries >= suspected && bytes > leastFrame
}

// tryLonger fills a frame of n bytes up to the next length, if it is time for a probe. It returns
// the length that the frame then has.
func (e *End) tryLonger(p *peer, fr *frame, n int) int {
	if p.raiseAt == 0 || p.raiseAt > e.now || fr.retries > 0 || fr.void {
		return n
	}
	i := 0
	for i < len(lengths)-1 && lengths[i] <= p.longest() {
		i++
	}
	whole := e.cfg.Ports[p.Port].Reserve() // the same buffer, in full
	bytes := min(lengths[i], len(whole), arctic.EthernetSize+int(p.said))
	if bytes <= p.longest() {
		p.take(arctic.MaxFrame)
		p.raiseAt = 0 // all that the port sends passes
		return n
	}
	clear(whole[n:bytes])
	fr.probe = uint8(i)
	p.raiseAt = e.now + int64(e.cfg.RaiseAfter)
	return bytes
}

func (e *End) passed(p *peer, fr *frame) {
	if p.suspect != 0 && p.length(fr) >= arctic.EthernetSize+int(p.suspect) && !fr.void {
		p.suspect = 0
	}
	if fr.probe == 0 || fr.retries > 0 {
		return
	}
	if bytes := min(lengths[fr.probe], e.cfg.Ports[p.Port].FrameSize(), arctic.EthernetSize+int(p.said)); bytes >
		p.longest() {
		e.lengthen(p, bytes)
	}
}

// wasTooLong notes that the peer has not had a frame, but has had a void frame of its number.
func (e *End) wasTooLong(p *peer, length int) {
	e.Counters.TooLong++
	switch {
	case length > e.sizeTo(p): // which is known
	case p.suspect == 0:
		p.suspect = uint16(length - arctic.EthernetSize) // the network may just have been away
	case min(length, arctic.EthernetSize+int(p.suspect)) > commonFrame:
		e.shorten(p, commonFrame)
		p.raiseAt = max(e.now, 1) // more may pass
	default:
		e.shorten(p, leastFrame)
		p.raiseAt = max(e.now, 1)
	}
}

// pieceFor sets how much of a block, in bytes, goes into a frame of that length, and returns it.
func (ln *Line) pieceFor(size int) int {
	if ln.Block == nil {
		ln.piece = 0
		return 0
	}
	n := min(len(ln.Block), arctic.MaxBlock(size))
	switch p := arctic.Packet(ln.Data[:ln.Size]); {
	case p.IsRemote():
		n = min(len(ln.Block), arctic.MaxRemoteBlock(size))
		p.CountPiece(ln.Counts && n == len(ln.Block))
	case p.IsResponse():
		n = min(len(ln.Block), arctic.MaxResponseBlock(size))
	case p.IsSend():
		n = min(len(ln.Block), arctic.MaxSendBlock(size))
	}
	ln.piece = uint16(n)
	return n
}

// Whole undoes what pieceFor has written into the packet of a line that was given back. The line's
// whole block goes next, and counts if it is to count. The next receiver may be a context of this
// same card, and then no frame carries the line.
func (ln *Line) Whole() {
	if p := ln.Packet(); ln.Block != nil && p.IsRemote() {
		p.CountPiece(ln.Counts)
	}
	ln.piece = 0
}

func (ln *Line) inFrame() []byte { return ln.Block[:min(int(ln.piece), len(ln.Block))] }

// sendRest has a line of a stream go on with the rest of its block, before what else waits there. A
// message has its room by now. So its rest goes as a part, not behind messages that wait for some.
func (e *End) sendRest(f *flow, s *stream, ln *Line) {
	if ln.Part || !ln.Packet().IsSend() {
		s.waiting.prepend(ln, ln)
		return
	}
	ln.Part = true
	e.queue(f.peer, f.level, ln)
}

// goesOn reports whether more of a line's block is left after its frame has arrived, and makes the
// line carry that. The rest of the block of a failed transfer is not sent (Cut).
func (ln *Line) goesOn() bool {
	if len(ln.Block) <= int(ln.piece) {
		return false
	}
	ln.Block = ln.Block[ln.piece:]
	arctic.Packet(ln.Data[:ln.Size]).Advance(int(ln.piece))
	return true
}
