package am

// This file sends wide messages of up to PartedWide bytes at once, in several packets, and puts
// them together.
//
// The parts are packets of typeTagged in partsSpace, with the number of the message in their first
// word. The first part is an envelope of formShort with the message's length, and has 56 bytes. The
// others have formPart, length and index in the second word, and 72 bytes, the last one fewer. They
// arrive in any order. The message takes its turn when all have arrived.
//
// The limit: a node has room for PartedWindow such messages of another that no receive has taken.
// The receiver tells how many were received, as it does for all messages. Until then further
// messages of that length wait at their sender for their receives, as long ones do.

import "github.com/funet/funet/uspace/funi"

const (
	// PartedWide is the longest wide message that leaves before its receive is known. Its parts
	// fill a frame of 1,500 bytes.
	PartedWide = 1024
	// PartedWindow is how many messages in parts of a node may have arrived unreceived.
	PartedWindow = 64
	partsLag     = PartedWindow / 2

	headPart = 4 * (funi.MaxPayloadWords - wideWords - wideDataWords - 1)
	nextPart = 4 * (funi.MaxPayloadWords - taggedWords)
	// partIndexShift is the place of the index in the second word.
	partIndexShift = 16
)

// block is memory for a message in parts.
type block [PartedWide]byte

// parts returns how many parts a message of some length has.
func parts(bytes int) int { return 1 + (bytes-headPart+nextPart-1)/nextPart }

// inParts reports whether a send that does not fit one packet leaves in parts.
func (t *tags) inParts(p *pair, s *tagSend) bool {
	return p.space == wideSpace && len(s.b) <= PartedWide && s.wide.Flags&WideConfirm == 0 &&
		p.parted-p.freed < PartedWindow && parts(len(s.b)) <= t.iface.Slots()/2
}

// sendParts sends a message in parts. There is room for them.
func (t *tags) sendParts(p *pair, s *tagSend) {
	p.parted++
	slot := t.iface.Reserve(funi.Request)
	slot[1], slot[2] = s.seq<<2|partsSpace, s.tag
	third, head := s.wide.fill(slot), s.wide.words()
	slot[1+head] = uint32(len(s.b))
	words, _ := pack(slot[2+head:], s.b[:headPart])
	slot.SetHeader(funi.NewHeader(p.node, typeTagged, head+1+words))
	slot[3] = t.stamp(int(p.node), formShort<<16|third)
	t.commit(funi.Request, slot)
	for i, at := uint32(1), headPart; at < len(s.b); i, at = i+1, at+nextPart {
		slot = t.iface.Reserve(funi.Request)
		words, padding := pack(slot[4:], s.b[at:min(at+nextPart, len(s.b))])
		slot.SetHeader(funi.NewHeader(p.node, typeTagged, taggedWords+words))
		slot[1], slot[2] = s.seq<<2|partsSpace, uint32(len(s.b))|i<<partIndexShift
		slot[3] = t.stamp(int(p.node), formPart<<16|padding)
		t.commit(funi.Request, slot)
	}
}

// partArrived takes a part of a message: the given index, and its bytes. It returns the message, or
// nil if the part is not one that is missing.
func (t *tags) partArrived(p *pair, number, ahead uint32, length, index int, b []byte) *envelope {
	at := 0
	if index > 0 {
		at = headPart + (index-1)*nextPart
	}
	most := headPart
	if index > 0 {
		most = nextPart
	}
	if length <= headPart || length > PartedWide || at >= length || len(b) != min(most, length-at) {
		return nil
	}
	n := p.early.at(number, ahead)
	if n == nil {
		if p.parts >= PartedWindow {
			return nil
		}
		p.parts++
		n = t.envelope(p, number)
		n.parted, n.form, n.length = true, formShort, length
		n.missing = 1<<parts(length) - 1
		if k := len(t.blocks); k > 0 {
			n.block, t.blocks = t.blocks[k-1], t.blocks[:k-1]
		} else {
			n.block = new(block)
		}
		p.early.add(n, ahead)
	}
	if !n.parted || n.length != length || n.missing>>index&1 == 0 {
		return nil
	}
	n.missing &^= 1 << index
	copy(n.block[at:], b)
	return n
}

// freeBlock frees the memory of a message in parts.
func (t *tags) freeBlock(n *envelope) {
	if n.block != nil {
		n.pair.parts--
		t.blocks = append(t.blocks, n.block)
	}
	n.parted, n.missing, n.block = false, 0, nil
}
