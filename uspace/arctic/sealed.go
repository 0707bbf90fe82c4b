package arctic

// This file is the layout of a sealed frame. Package link has the keys and does the cryptography.

import "encoding/binary"

const (
	// SealSize is the number of bytes that sealing adds to a frame: the authentication and the
	// upper half of the counter. A frame that is to be sealed has so much less room.
	SealSize    = SealTagSize + 4
	SealTagSize = 16 // the size of the authentication of a sealed frame in bytes (AES-GCM's tag)
)

// Sealed reports whether a frame is sealed, readable or not.
func (f Frame) Sealed() bool { return f[15]&flagSealed != 0 }

// Hello reports whether a frame is a greeting.
func (f Frame) Hello() bool { return f[15]&flagHello != 0 }

// Readable reports whether the content of a sealed frame is not encrypted.
func (f Frame) Readable() bool { return f[15]&flagReadable != 0 }

// BeginSeal turns the composed frame in the first n bytes of b into a sealed one with the counter.
// Seal must not have been called on it. BeginSeal returns the two parts of the frame. The header is
// to be authenticated only. The secret is also to be encrypted in its place, and has room for the
// authentication behind it. Until EndSeal the bytes are not a frame. b must have room for
// n+SealSize bytes.
func BeginSeal(b []byte, n int, counter uint64, readable bool) (header, secret []byte) {
	b[15] |= flagSealed
	binary.LittleEndian.PutUint16(b[16:], uint16(n+SealSize-EthernetSize))
	binary.LittleEndian.PutUint32(b[crcOffset:], uint32(counter))
	binary.LittleEndian.PutUint32(b[n+SealTagSize:], uint32(counter>>32))
	at := HeaderSize
	if readable {
		b[15] |= flagReadable
		at = n
	}
	return b[EthernetSize:at:at], b[at : n : n+SealTagSize]
}

// Counter returns the counter of a sealed frame that Look returned, unless the frame is too short.
func (f Frame) Counter() (counter uint64, ok bool) {
	if len(f) < HeaderSize+SealSize {
		return 0, false
	}
	return uint64(binary.LittleEndian.Uint32(f[len(f)-4:]))<<32 | uint64(binary.LittleEndian.Uint32(f[crcOffset:])),
		true
}

// SealParts returns the parts of a sealed frame that has a Counter: the header, which is
// authenticated only, and the secret, which is encrypted and has the authentication behind it.
func (f Frame) SealParts() (header, secret []byte) {
	at := HeaderSize
	if f.Readable() {
		at = len(f) - SealSize
	}
	return f[EthernetSize:at:at], f[at : len(f)-4 : len(f)-4]
}

// Opened checks a sealed frame that has been authenticated and decrypted in its place, as Check
// does other frames. It returns the frame without what sealing has added; all accessors are in
// range. It sets the flag readable, because the bytes are no longer encrypted.
func (f Frame) Opened() (Frame, error) {
	f[15] |= flagReadable
	f = f[:len(f)-SealSize]
	if err := f.checkFields(); err != nil {
		return nil, err
	}
	return f, nil
}

// Reveal makes plain, the frame that sealed was made from, look as sealed does after it was opened:
// sealed and readable.
func Reveal(sealed, plain []byte) []byte {
	copy(plain[EthernetSize:HeaderSize], sealed[EthernetSize:HeaderSize])
	plain[15] |= flagReadable
	return append(plain, sealed[len(plain):]...)
}
