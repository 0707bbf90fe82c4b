package arctic

// This file has the payload of a packet of KindForward, which says where the process of a node is
// now (Tokyo, section 2.2.1). The card that the process was on tells the cards of its group, in the
// name of that node, which is the packet's source. It also tells the card that the process has
// moved to where other nodes have moved. The packet has the level Request.
//
//	word 0  node 31:16, card 15:0
//
// The type of the packet is 0.

import "encoding/binary"

const forwardWords = 1

// Forward is the payload of a packet of KindForward: the process of Node is on Card.
type Forward struct{ Node, Card uint16 }

// PutForward encodes f into b, which has room for MaxPayloadWords, and returns the payload's words.
func PutForward(b []byte, f *Forward) int {
	binary.LittleEndian.PutUint32(b, uint32(f.Node)<<16|uint32(f.Card))
	return forwardWords
}

// Forward decodes the payload of a packet of KindForward with header h into f, and reports whether
// a card sends such a payload. It accepts any payload.
func (p Packet) Forward(h *PacketHeader, f *Forward) bool {
	b := p.Payload()
	if len(b) != forwardWords*WordSize || h.Type != 0 {
		return false
	}
	w := binary.LittleEndian.Uint32(b)
	f.Node, f.Card = uint16(w>>16), uint16(w)
	return true
}
