package am

// This file is the bytes of a message at its sender.

import "encoding/binary"

// gather holds what a message consists of, and how much of it has been read: the words of its kind,
// then pieces of memory.
type gather struct {
	head  [8]byte
	heads int // bytes of head
	first []byte
	rest  [][]byte
	at    int // bytes read
}

// setHead makes the first words of the message.
func (g *gather) setHead(words int, w0, w1 uint32) {
	g.heads = 4 * words
	binary.LittleEndian.PutUint32(g.head[:], w0)
	binary.LittleEndian.PutUint32(g.head[4:], w1)
}

// size returns how many bytes the pieces have; false: more than MaxBytes.
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

// read copies the bytes that follow to dst, and returns how many those were.
func (g *gather) read(dst []byte) int {
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
	return n
}

// piece copies b but for the bytes to skip to dst from n on.
func piece(dst []byte, n, skip int, b []byte) (int, int) {
	if skip >= len(b) {
		return n, skip - len(b)
	}
	return n + copy(dst[n:], b[skip:]), 0
}
