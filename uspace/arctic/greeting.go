package arctic

// This file has the greeting, which a frame with the hello flag carries behind its header.
// PutGreeting writes one, and Greeting decodes one that Parse has accepted. Package link says what
// greetings are for.

import "encoding/binary"

const (
	GreetingSize = 56 // the size of a greeting in bytes
	// GreetingEnd is where a frame with a greeting ends.
	GreetingEnd = HeaderSize + GreetingSize
	MACSize     = 16                    // the size of the authentication of a greeting in bytes
	macOffset   = GreetingEnd - MACSize // the offset of the authentication in the frame
)

// GreetingFlags say what a greeting asks for and what it offers.
type GreetingFlags uint32

const (
	// Asks says that the sender wants an answer: it does not know yet that the peer is there.
	Asks GreetingFlags = 1 << iota
	// Authenticated says that the sender has a key, and sends and takes sealed frames only.
	Authenticated
	// Readable says that the sender accepts sealed frames that are not encrypted. Frames are
	// encrypted unless both cards say so.
	Readable
	// Defers says that the sender takes frames that a switch may answer (Header.Defer).
	Defers
)

// Greeting is how a card introduces itself to a peer. The header has the epoch of the sequence
// state that the card has for the peer.
type Greeting struct {
	// Nonce is drawn for this attempt, and not 0. Echo is the peer's nonce as last heard, or 0.
	Nonce, Echo uint64
	Incarnation uint32 // tells this life of the sending card from its others. It is not 0.
	Number      uint64 // greater than in every earlier greeting of the sender's life to this peer
	// Longest is the length in bytes of the longest frame that the sender's port carries.
	Longest uint32
	Flags   GreetingFlags
	Key     uint32 // says which key the greeting is authenticated with (link.Key.Identity); 0: none
}

// PutGreeting writes g behind the encoded header of b, with an authentication of zeros. It returns
// the length of the frame, GreetingEnd, and writes it as well: the authentication covers it.
func PutGreeting(b []byte, g *Greeting) int {
	b[15] |= flagHello
	binary.LittleEndian.PutUint16(b[16:], GreetingEnd-EthernetSize)
	e := b[HeaderSize:GreetingEnd]
	binary.LittleEndian.PutUint64(e[0:], g.Nonce)
	binary.LittleEndian.PutUint64(e[8:], g.Echo)
	binary.LittleEndian.PutUint64(e[16:], g.Number)
	binary.LittleEndian.PutUint32(e[24:], g.Incarnation)
	binary.LittleEndian.PutUint32(e[28:], g.Longest)
	binary.LittleEndian.PutUint32(e[32:], uint32(g.Flags))
	binary.LittleEndian.PutUint32(e[36:], g.Key)
	clear(e[40:])
	return GreetingEnd
}

// Greeting decodes the greeting of a frame with the hello flag into g.
func (f Frame) Greeting(g *Greeting) {
	e := f[HeaderSize:GreetingEnd]
	g.Nonce = binary.LittleEndian.Uint64(e[0:])
	g.Echo = binary.LittleEndian.Uint64(e[8:])
	g.Number = binary.LittleEndian.Uint64(e[16:])
	g.Incarnation = binary.LittleEndian.Uint32(e[24:])
	g.Longest = binary.LittleEndian.Uint32(e[28:])
	g.Flags = GreetingFlags(binary.LittleEndian.Uint32(e[32:]))
	g.Key = binary.LittleEndian.Uint32(e[36:])
}

// GreetingMAC returns the parts of a frame with a greeting that its authentication covers, and the
// bytes of the authentication itself. The checksum is in neither.
func GreetingMAC(b []byte) (header, greeting, mac []byte) {
	return b[EthernetSize:crcOffset], b[HeaderSize:macOffset], b[macOffset:GreetingEnd]
}

// checkGreeting checks a frame with the hello flag: only a greeting follows the header. Flags that
// are not known are ignored, so that later cards can set them.
func (f Frame) checkGreeting() error {
	switch {
	case f[28]|f[29] != 0:
		return ErrTrain
	case f[15]&(flagBlock|flagSealed) != 0, !f.Direct() && binary.LittleEndian.Uint64(f[tagOffset:]) != 0:
		return ErrFlags
	case len(f) != GreetingEnd:
		return ErrLength
	case binary.LittleEndian.Uint64(f[HeaderSize:]) == 0, binary.LittleEndian.Uint32(f[HeaderSize+24:]) == 0:
		return ErrFlags // it could mean nothing
	}
	return nil
}
