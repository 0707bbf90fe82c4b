package hostile

// This file is the victims' traffic: messages and blocks in which every
// word is known only to members with the group's key.

import (
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// The types of messages. The words of one: number, life of the sender, attempt, life of
// who answers (in answers), what fills it up, checksum.
const (
	typeRequest     = 101
	typeAnswer      = 102
	typeBlock       = 103 // the notice of one
	typeBlockAnswer = 104

	requestWords = funi.MaxPayloadWords
	answerWords  = 5

	numberWord  = 0
	lifeWord    = 1
	attemptWord = 2
	ownLifeWord = 3 // of answers
)

// A block is headed by number, life, attempt and a checksum of the three.
const (
	blockWords  = 4096
	blockBytes  = 4 * blockWords
	blockHeader = 4
	// segmentBase is the address where a victim's segment starts: blocks to send, then as many
	// places to receive into.
	segmentBase   = 0x10000
	sourcePlaces  = 1
	blockPlaces   = 4
	segmentBytes  = (sourcePlaces + blockPlaces) * blockBytes
	blockArgument = 0x40000000 // marks the arguments of blocks
)

// mix is the word i of something.
func mix(key, a, b, i uint32) uint32 {
	h := key ^ a*0x9e3779b1 ^ b*0x85ebca77 ^ i*0xc2b2ae3d
	h ^= h >> 15
	h *= 0x2c1b3c6d
	h ^= h >> 12
	return h
}

// check is the checksum of words that travel from a node to a node.
func check(key uint32, from, to uint16, typ uint16, words []uint32) uint32 {
	h := mix(key, uint32(from)<<16|uint32(to), uint32(typ), uint32(len(words)))
	for i, w := range words {
		h = mix(h, w, uint32(i), 1)
	}
	return h
}

// fill writes the words of a request behind its first three, and the checksum.
func fill(key uint32, from, to uint16, typ uint16, words []uint32) {
	n := len(words) - 1
	if typ == typeRequest {
		for i := attemptWord + 1; i < n; i++ {
			words[i] = mix(key, words[numberWord], words[lifeWord], uint32(i))
		}
	}
	words[n] = check(key, from, to, typ, words[:n])
}

// right reports whether the words are what fill would have made of them.
func right(key uint32, from, to uint16, typ uint16, words []uint32) bool {
	n := len(words) - 1
	if typ == typeRequest {
		if len(words) != requestWords {
			return false
		}
		for i := attemptWord + 1; i < n; i++ {
			if words[i] != mix(key, words[numberWord], words[lifeWord], uint32(i)) {
				return false
			}
		}
	} else if len(words) != answerWords {
		return false
	}
	return words[n] == check(key, from, to, typ, words[:n])
}

// fillBlock writes a block.
func fillBlock(key uint32, words []uint32, number, life, attempt uint32) {
	words[0], words[1], words[2] = number, life, attempt
	words[3] = check(key, 0, 0, typeBlock, words[:3])
	for i := blockHeader; i < len(words); i++ {
		words[i] = mix(key, number, life, uint32(i))
	}
}

// rightBlock returns who wrote the block of that number, or what is wrong with it.
func rightBlock(key uint32, words []uint32, number uint32) (life, attempt uint32, err error) {
	life, attempt = words[1], words[2]
	if words[0] != number || words[3] != check(key, 0, 0, typeBlock, words[:3]) {
		return 0, 0, fmt.Errorf("it is headed by %#x", words[:blockHeader])
	}
	wrong, at, zero := 0, 0, 0
	for i := blockHeader; i < len(words); i++ {
		if words[i] != mix(key, number, life, uint32(i)) {
			if wrong++; wrong == 1 {
				at = i
			}
			if words[i] == 0 {
				zero++
			}
		}
	}
	if wrong == 0 {
		return life, attempt, nil
	}
	return 0, 0, fmt.Errorf("%d words from %d on are wrong, %d of them 0", wrong, at, zero)
}

// blockPlace is the place in the receiver's segment for an attempt at a block: one that was
// given up may still be under way when the next arrives.
func blockPlace(number, attempt uint32) uint32 {
	return segmentBase + blockBytes*(sourcePlaces+(number+attempt)%blockPlaces)
}

// history remembers which attempts at which numbers of a sender have come.
type history struct {
	numbers  [8192]uint32 // plus one
	attempts [8192]uint64
}

// again notes an attempt, and reports whether it has come before.
func (h *history) again(number, attempt uint32) bool {
	i := number % uint32(len(h.numbers))
	if h.numbers[i] != number+1 {
		h.numbers[i], h.attempts[i] = number+1, 0
	}
	bit := uint64(1) << (attempt % 64)
	seen := h.attempts[i]&bit != 0
	h.attempts[i] |= bit
	return seen
}
