package am

// This file reads the bytes of a message at its sender.

import "encoding/binary"

// gather holds the content of a message, and how much of it has been read: first the words of its
// kind, then pieces of memory.
type gather struct {
	head  [8]byte
	heads int // bytes of head
	first []byte
	rest  [][]byte
	at    int // bytes read
}

// setHead sets the first words of the message.
func (g *gather) setHead(words int, w0, w1 uint32) {
	g.heads = 4 * words
	binary.LittleEndian.PutUint32(g.head[:], w0)
	binary.LittleEndian.PutUint32(g.head[4:], w1)
}

// size returns how many bytes the pieces have; false: they have more than MaxBytes.
func (g *gather) size() (int, bool) {
	n := len(g.first)
	for _, b := range g.rest {
		if n > MaxBytes {
			break
		}
		n += len(b)
	}
	return n, n >= 0 && n <= MaxBytes
}

// read copies the next bytes to dst.
func (g *gather) read(dst []byte) {
	n, skip := 0, g.at
	n, skip = piece(dst, n, skip, g.head[:g.heads])
	n, skip = piece(dst, n, skip, g.first)
	for _, b := range g.rest {
		if n == len(dst) {
			break
		}
		n, skip = piece(dst, n, skip, b)
	}
	g.at += n
}

// piece copies b without its first skip bytes to dst, from index n on.
func piece(dst []byte, n, skip int, b []byte) (int, int) {
	if skip >= len(b) {
		return n, skip - len(b)
	}
	return n + copy(dst[n:], b[skip:]), 0
}
