package arctic

// This file has the payload of an XFER packet (thesis 3.2.4, 5.2.2): the destination of its data,
// and the data.
//
// Word 0 is the destination address. Addresses are multiples of 16, four words, so
// its four low bits are free to say which form the rest has:
//
//	single  0: argument, then 0 to 16 words of data        (2 to 18 payload words)
//	part    1: 4 to 20 words of data                       (5 to 21)
//	last    2: argument, total, first, then 4 to 16 words  (8 to 20)
//	block   3: nothing; the data is the frame's block      (1)
//
// A part or a block also has 4 to ask for an acknowledgment at once. A part with 8 is a single of
// 17 to 20 words, whose argument is 0 and does not travel. Data comes in multiples of four words. A
// single is the XFER packet of the thesis and makes a notice at the receiver. The others are pieces
// of a transfer of total words, which the sending card splits. Parts make no notice and come in any
// order. The last holds the transfer's end, and leaves when all others are acknowledged. So its
// notice says that all has arrived, and the receiver need not count. The field first of the last is
// a sequence number, and no frame with a piece of the transfer lies before it. From it the
// receiving card can tell whether another process got some of the pieces. Two processes of one card
// exchange no frames; between them first is a number of the card's own.
//
// A block is a part that fills an Ethernet frame (design idea 7): its packet is alone in the frame
// and followed by the data, which no packet of 24 words could hold. Arctic has none.
//
// A packet of KindTransfer without payload is void: it stands for a frame that is too long to be
// sent (PutVoid).
//
// The thesis limits an XFER packet to 16 words of data, the conference paper to 20. With three
// header words, address and argument, 20 would make 25 words, but Arctic carries 24. So singles
// with an argument have at most 16. A part has no argument and so has room for 20, and so has a
// single without one: Table 6.1 of the thesis seems to be of such packets.

import "encoding/binary"

const (
	// TransferAlign is the alignment of addresses and lengths in bytes: the DVMA
	// burst of four words (thesis 3.2.4).
	TransferAlign = 16
	// MaxSingleWords is the most data of a transfer packet that makes a notice and has an argument.
	MaxSingleWords   = 16
	MaxPartWords     = 20      // the most data of a part, and of a single without an argument
	MaxTransferWords = 1 << 24 // the longest transfer in words, in any number of packets
)

// Form says what a transfer packet is of its transfer.
type Form uint8

// The forms, as they stand in the low bits of word 0.
const (
	Single Form = 0
	Part   Form = 1
	Last   Form = 2
	Block  Form = 3

	formMask = 3
	atOnce   = 4
	single   = 8 // of a part: it is a single without an argument

	blockPacketSize = PacketHeaderSize + WordSize // the size of a packet of form Block
)

// Transfer is the payload of an XFER packet.
type Transfer struct {
	Form     Form
	AtOnce   bool   // of a Part or Block: acknowledge without delay
	Address  uint32 // where Data goes; a multiple of TransferAlign, not 0
	Argument uint32 // of a Single or Last
	Total    uint32 // of a Last: words of the whole transfer, which ends with Data
	First    uint32 // of a Last: the sequence, of its level, at which the transfer began
	// Data is a multiple of TransferAlign. With Block the frame has it, see PutBlock. Beyond
	// MaxSingleWords in a Single, Argument is 0
	Data []byte
}

// PutTransfer encodes t into b, which must have room for MaxPayloadWords, and returns the length in
// payload words. Data longer than the form allows panics, as with any slice; the card checks
// before.
func PutTransfer(b []byte, t *Transfer) int {
	word := t.Address&^(TransferAlign-1) | uint32(t.Form)
	if t.Form == Single && len(t.Data) > MaxSingleWords*WordSize {
		binary.LittleEndian.PutUint32(b, word|uint32(Part)|single)
		return 1 + copy(b[WordSize:WordSize+len(t.Data)], t.Data)/WordSize
	}
	if t.AtOnce {
		word |= atOnce
	}
	binary.LittleEndian.PutUint32(b, word)
	n := 4
	if t.Form == Block {
		return 1
	}
	if t.Form != Part {
		binary.LittleEndian.PutUint32(b[n:], t.Argument)
		n += 4
	}
	if t.Form == Last {
		binary.LittleEndian.PutUint32(b[n:], t.Total)
		binary.LittleEndian.PutUint32(b[n+4:], t.First)
		n += 8
	}
	copy(b[n:n+len(t.Data)], t.Data)
	return (n + len(t.Data)) / WordSize
}

// Transfer decodes the payload of a packet of KindTransfer into t, whose Data aliases the packet,
// and reports whether it has one of the forms. It accepts any payload. With Block the data is
// Frame.Block; such a packet in a frame without a block is invalid.
func (p Packet) Transfer(t *Transfer) bool {
	b := p.Payload()
	if isBlock(p) {
		word := binary.LittleEndian.Uint32(b)
		*t = Transfer{Form: Block, AtOnce: word&atOnce != 0, Address: word &^ (TransferAlign - 1)}
		return word&(TransferAlign-1)&^(formMask|atOnce) == 0 && t.Address != 0
	}
	if len(b) < 2*WordSize {
		return false
	}
	word := binary.LittleEndian.Uint32(b)
	*t = Transfer{Form: Form(word & formMask), AtOnce: word&atOnce != 0, Address: word &^ (TransferAlign - 1)}
	b = b[WordSize:]
	least, most := TransferAlign, MaxSingleWords*WordSize
	switch t.Form {
	case Single:
		t.Argument, b = binary.LittleEndian.Uint32(b), b[WordSize:]
		least = 0
	case Part:
		most = MaxPartWords * WordSize
		if word&single != 0 {
			t.Form, word, least = Single, word&^single, (MaxSingleWords+1)*WordSize
		}
	case Last:
		if len(b) < 3*WordSize {
			return false
		}
		t.Argument, t.Total = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[WordSize:])
		t.First, b = binary.LittleEndian.Uint32(b[2*WordSize:]), b[3*WordSize:]
		end := uint64(t.Address) + uint64(len(b))
		if t.Total%4 != 0 || t.Total > MaxTransferWords || uint64(t.Total)*WordSize < uint64(len(b)) ||
			end < uint64(t.Total)*WordSize+TransferAlign {
			return false
		}
	default:
		return false
	}
	t.Data = b
	return word&(TransferAlign-1)&^(formMask|atOnce) == 0 && (t.Form == Part || !t.AtOnce) && t.Address != 0 &&
		len(b)%TransferAlign == 0 && len(b) >= least && len(b) <= most
}

// Void turns a packet of form Block, which is in no frame yet, into one that no receiver accepts: a
// part without data. It leaves a remote write, a response or a send with a block as it is: without
// its block no receiver accepts that either.
func (p Packet) Void() {
	if !p.IsRemote() && !p.IsResponse() && !p.IsSend() {
		p[PacketHeaderSize] = p[PacketHeaderSize]&^formMask | byte(Part)
	}
}

// PutVoid writes a packet behind n bytes of b, and returns the new length. The packet stands for
// all packets of a frame that is too long to be sent, the first of which is p. It is the header of
// p, as one of KindTransfer without payload. A card that has not received the frame rejects all of
// it with ReasonTooLong, and no longer accepts it.
func PutVoid(b []byte, n int, p Packet) int {
	h := p.Header()
	h.Kind, h.Length = KindTransfer, 0
	h.Encode(b[n:])
	b[28]++
	return n + PacketHeaderSize
}

// Advance moves the destination of a packet with a block on by a number of bytes, a multiple of
// TransferAlign.
func (p Packet) Advance(bytes int) {
	switch {
	case p.IsRemote():
		offset := p[remoteOffset : remoteOffset+WordSize]
		old := binary.LittleEndian.Uint32(offset)
		binary.LittleEndian.PutUint32(offset, old+uint32(bytes))
		if old+uint32(bytes) < old && IsOperation(p.Header().Type) {
			high := p[remoteOffset+WordSize : remoteOffset+WordSize+2] // address 47:32
			binary.LittleEndian.PutUint16(high, binary.LittleEndian.Uint16(high)+1)
		}
		return
	case p.IsResponse():
		offset := p[responseOffset : responseOffset+WordSize]
		binary.LittleEndian.PutUint32(offset, binary.LittleEndian.Uint32(offset)+uint32(bytes))
		return
	case p.IsSend():
		offset := p[sendOffset : sendOffset+WordSize]
		binary.LittleEndian.PutUint32(offset, binary.LittleEndian.Uint32(offset)+uint32(bytes))
		return
	}
	binary.LittleEndian.PutUint32(p[PacketHeaderSize:], p.Word(0)+uint32(bytes))
}

// Start returns the address at which the transfer of a Last begins.
func (t *Transfer) Start() uint32 { return t.Address + uint32(len(t.Data)) - t.Total*WordSize }

func isBlock(p Packet) bool {
	return len(p) == blockPacketSize && p.Header().Kind == KindTransfer && p[PacketHeaderSize]&formMask == byte(Block)
}
