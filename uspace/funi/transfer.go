package funi

// This file is the XFER request block and the XFER notice block (thesis 3.2.4): what
// they look like in a slot.
//
// A request in a slot of a send queue:
//
//	word 0  header with bit 31: type 29:21, length 20:16 in words, node 15:0
//	word 1  source address; 0: the data follows from word 4 on
//	word 2  destination address; 0: the packet emerges as a message of the argument
//	        and the data
//	word 3  argument
//	word 4  data, if the source is 0
//
// The length is a multiple of 4 up to 16; with 0 only the notice travels. Addresses
// other than 0 lose their four low bits.
//
// Bit 30, which the thesis does not use, asks for more than one packet:
//
//	length 0   a transfer from memory to memory of as many words as word 4 says, a
//	           multiple of 4 up to 2^24, with one notice when all of it has arrived
//	otherwise  a piece of such a transfer, as a card in DRAIN mode puts it into the
//	           receive queue: 4 to 20 words without a notice, or the last 4 to 16 words
//	           with one, if word 24, the total, is not 0
//
// A notice in a slot of a receive queue:
//
//	word 0  header with bit 31, and bit 30 for a transfer of many packets
//	word 1  0
//	word 2  destination address, where the transfer begins
//	word 3  argument
//	word 4  with bit 30: words of the transfer; its length field is 0
//
// The slot and its source belong to the process again when the card has retired the slot, as the
// tail index says. Until then the source must stay unchanged and registered. A transfer of one
// packet is copied when its slot is read. A transfer of many packets is read for as long as one of
// its packets may have to be sent again. A card that sends blocks (arctic/transfer.go) retires its
// slot when all but the last packet is acknowledged, or has come back. A silent peer delays that by
// engine.Config.PeerTimeout. A card that copies retires the slot when it has copied all. Meanwhile
// the card reads the slots behind it, as far as it has room, and retires them in order. A retired
// slot does not mean delivery: only the receiver learns of that, by the notice.
//
// In DRAIN mode the card writes no memory. Instead it puts a request block with source 0 into the
// queue, ready to be sent again.

import (
	"sync/atomic"

	"github.com/funet/funet/uspace/arctic"
)

const (
	transferBit = 1 << 31
	manyBit     = 1 << 30

	// Words of an XFER slot.
	SourceAddressWord      = 1
	DestinationAddressWord = 2
	ArgumentWord           = 3
	// DataWord is the first word of data, LengthWord the length of a transfer of
	// many packets, which has no data in the slot.
	DataWord   = 4
	LengthWord = 4
	TotalWord  = DataWord + arctic.MaxPartWords // the total of the transfer that a piece ends
)

// Transfer is the request of an XFER request block.
type Transfer struct {
	Source      uint32 // address in a segment of the process; 0: data in the slot
	Destination uint32 // address in a segment of the receiver; 0: into its queue
	Argument    uint32
	Words       int // a multiple of 4: up to 16 in every mode, up to 2^24 from memory to memory
}

// Valid reports whether a card would accept the lengths and modes of t. It does not know segments.
func (t *Transfer) Valid() bool {
	if t.Words < 0 || t.Words%4 != 0 || t.Words > arctic.MaxTransferWords {
		return false
	}
	return t.Words <= arctic.MaxSingleWords || t.Source != 0 && t.Destination != 0
}

// NewTransferHeader composes the header of an XFER packet of up to 16 words.
func NewTransferHeader(node uint16, typ uint16, words int) Header {
	return transferBit | NewHeader(node, typ, words)
}

// Many reports whether bits 31 and 30 ask for a transfer of many packets.
func (h Header) Many() bool { return h>>30 == 3 }

// Words returns bits 20:16 as they are.
func (h Header) Words() int { return int(h >> 16 & 31) }

// SetTransfer composes a request block for node. If the source is 0, write the data to the words
// from DataWord on, before or after the call. More than 16 words take the form for many packets.
func (s *Slot) SetTransfer(node, typ uint16, t Transfer) {
	if t.Words > arctic.MaxSingleWords {
		s.SetHeader(manyBit | NewTransferHeader(node, typ, 0))
		s[LengthWord] = uint32(t.Words)
	} else {
		s.SetHeader(NewTransferHeader(node, typ, t.Words))
	}
	s[SourceAddressWord], s[DestinationAddressWord], s[ArgumentWord] = t.Source, t.Destination, t.Argument
}

// SetUnnamed composes the request block of one packet of 17 to 20 words from memory to memory,
// whose argument is 0, for a card that sends such packets (engine.Config.TransferWords); others
// refuse it with ReasonTransferLength.
func (s *Slot) SetUnnamed(node, typ uint16, t Transfer) {
	s.SetHeader(NewTransferHeader(node, typ, t.Words))
	s[SourceAddressWord], s[DestinationAddressWord], s[ArgumentWord] = t.Source, t.Destination, 0
}

// Load reads word i once, whatever the other side does to it.
func (s *Slot) Load(i int) uint32 { return atomic.LoadUint32(&s[i]) }

// Notice is the content of a notice block.
type Notice struct {
	Address  uint32 // where the data is
	Argument uint32
	Words    int
}

// Notice reads the notice block in a slot of a receive queue.
func (s *Slot) Notice() Notice {
	n := Notice{Address: s[DestinationAddressWord], Argument: s[ArgumentWord], Words: s.Header().Words()}
	if s.Header().Many() {
		n.Words = int(s[LengthWord])
	}
	return n
}

// SetNotice composes the notice of a transfer of many packets, or of one.
func (s *Slot) SetNotice(node, typ uint16, many bool, n Notice) {
	if many {
		s.SetHeader(manyBit | NewTransferHeader(node, typ, 0))
		s[LengthWord] = uint32(n.Words)
	} else {
		s.SetHeader(NewTransferHeader(node, typ, n.Words))
	}
	s[SourceAddressWord], s[DestinationAddressWord], s[ArgumentWord] = 0, n.Address, n.Argument
}

// SetPiece composes the request block that sends a piece again. Its data goes to
// the words from DataWord on.
func (s *Slot) SetPiece(node, typ uint16, destination, argument, total uint32, words int) {
	s.SetHeader(manyBit | NewTransferHeader(node, typ, words))
	s[SourceAddressWord], s[DestinationAddressWord], s[ArgumentWord], s[TotalWord] = 0, destination, argument, total
}
