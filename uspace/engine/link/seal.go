package link

// This file seals frames, and opens them, with AES-256-GCM of the standard library (NIST SP
// 800-38D). The nonce is four bytes of zero and the counter of the frame (section 8.2.1: the
// deterministic construction; each direction has keys of its own). The counter stands in the frame
// (package arctic) and is never used twice. A frame that is sent again gets a new one, because its
// acknowledgments are others. The upper half of the counter is the number of the key. Its lower
// half counts frames with that key.
//
// New keys follow without a pause, and nothing is agreed on. Either end makes a key from the one
// before: the sender when it goes on to the key, the receiver when the first frame with its number
// comes. The card with the lower number leads: it goes on to the next key when one direction has
// used its key up, or after a day. It does not do so before the peer has sent with the present key.
// The other card follows as soon as it has opened a frame with the next key. So neither is ever
// more than one key ahead of what the other has seen. A receiver keeps three keys: the present one,
// the one before for frames that were overtaken, and the next one when a frame claims to be sealed
// with it.
//
// A frame that was received once is never opened again, because a bitmap records the counters of a
// key (RFC 6479). Sequence numbers alone would let old frames without packets pass. An old
// acknowledgment answers nothing anew, but it would count as a sign of life of a peer that is gone.
//
// A frame that does not open changes nothing.

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/funet/funet/uspace/arctic"
)

const (
	// renewAfter is the time in nanoseconds for which the leading card seals with a key.
	renewAfter = int64(24 * time.Hour)
	// worn is how many of the 2^32 frames with a key may be sealed before the next key is due. The
	// rest are more than two cards exchange in the minute after.
	worn = 1<<32 - 1<<30
)

// Errors of Open. They carry no detail: nothing of such a frame can be trusted.
var (
	// ErrForged reports a frame that was not sealed with a key of the session, or was changed on
	// its way.
	ErrForged = errors.New("link: sealed frame is not authentic")
	// ErrReplayed reports a frame that has been opened before, or is too old to tell.
	ErrReplayed = errors.New("link: sealed frame has come before")
)

// Session holds the keys of two cards from one handshake to the next. It belongs to the goroutine
// of the card.
type Session struct {
	seal  sealer
	open  opener
	leads bool
	since int64 // when the leading card began with its key
}

// Seal seals the composed frame in the first n bytes of b, and returns its length. b has room for
// n+arctic.SealSize bytes. With readable the frame is authenticated, but not encrypted. 0: the key
// is used up, because the peer did not follow to the next one, and only another handshake helps.
// Seal does not allocate.
func (s *Session) Seal(b []byte, n int, readable bool) int {
	k := &s.seal
	if uint32(k.counter) == math.MaxUint32 {
		return 0
	}
	header, secret := arctic.BeginSeal(b, n, k.counter, readable)
	binary.LittleEndian.PutUint64(k.nonce[4:], k.counter)
	k.counter++
	k.aead.Seal(secret[:0], k.nonce[:], secret, header)
	return n + arctic.SealSize
}

// Open opens, in place, a sealed frame that arctic.Look returned. It returns the frame as
// arctic.Parse does others. Errors: ErrForged, ErrReplayed, and those of arctic for what an
// authentic frame carries. Open allocates only where a new key begins.
func (s *Session) Open(f arctic.Frame) (arctic.Frame, error) {
	opened, err := s.open.frame(f)
	if !s.leads && s.seal.number() != s.open.number {
		s.seal.renew()
	}
	return opened, err
}

// Renew goes on to the next key, if it is due. Call it every few seconds while frames are sealed.
func (s *Session) Renew(now int64) {
	if !s.leads || s.open.number != s.seal.number() {
		return // the peer has not followed yet
	}
	if uint32(s.seal.counter) >= worn || s.open.present.highest() >= worn || now-s.since >= renewAfter {
		s.seal.renew()
		s.since = now
	}
}

// sealing is a key of one direction.
type sealing struct {
	aead  cipher.AEAD
	after []byte // the secret of the next key; nil: it has been made
}

// newSealing makes the key of a secret, and clears the secret.
func newSealing(secret []byte) sealing {
	block, err := aes.NewCipher(expand(secret, keyLabel, KeySize))
	if err != nil {
		panic(err) // the size is right
	}
	a, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	defer clear(secret)
	return sealing{a, expand(secret, nextLabel, KeySize)}
}

// sealer is one direction, at its sender. Its nonce is a field, because a local variable that is
// passed to an interface's method is allocated.
type sealer struct {
	sealing
	counter uint64 // of the next frame
	nonce   [12]byte
}

func (s *sealer) number() uint32 { return uint32(s.counter >> 32) }

func (s *sealer) renew() {
	s.counter = uint64(s.number()+1) << 32
	s.sealing = newSealing(s.after)
}

// opener is one direction, at its receiver.
type opener struct {
	number   uint32 // of the present key
	present  *opening
	previous *opening // nil: there is none
	next     *opening // nil: no frame has claimed to be sealed with it
	nonce    [12]byte
}

// opening is a key of an opener, with a record of the frames received with it.
type opening struct {
	sealing
	replayWindow
}

// key returns the key with the number, or nil.
func (o *opener) key(number uint32) *opening {
	switch number {
	case o.number:
		return o.present
	case o.number - 1:
		return o.previous
	case o.number + 1:
		if o.next == nil {
			o.next = &opening{sealing: newSealing(o.present.after)}
			o.present.after = nil
		}
		return o.next
	}
	return nil
}

func (o *opener) frame(f arctic.Frame) (arctic.Frame, error) {
	counter, ok := f.Counter()
	if !ok {
		return nil, ErrForged
	}
	k := o.key(uint32(counter >> 32))
	if k == nil {
		return nil, ErrForged
	}
	if k.seen(uint32(counter)) {
		return nil, ErrReplayed
	}
	header, secret := f.SealParts()
	binary.LittleEndian.PutUint64(o.nonce[4:], counter)
	if _, err := k.aead.Open(secret[:0], o.nonce[:], secret, header); err != nil {
		return nil, ErrForged
	}
	k.note(uint32(counter))
	if k == o.next {
		o.previous, o.present, o.next = o.present, k, nil
		o.number++
	}
	return f.Opened()
}

// replayWindow rejects a frame whose counter was seen before or lies below the window (RFC 6479).
// It is a bitmap kept as a ring of words; entering a new word clears it.
type replayWindow struct {
	next uint64 // one more than the highest counter received
	bits [replayWords]uint64
}

const (
	replayWords = 16
	// replayed is how far a counter may lie below the highest.
	replayed = (replayWords - 1) * 64
)

// highest returns the greatest counter received, or 0 if there is none.
func (w *replayWindow) highest() uint32 { return uint32(max(w.next, 1) - 1) }

// seen reports whether the frame with counter c has been received, or is too old to tell.
func (w *replayWindow) seen(c uint32) bool {
	at := uint64(c)
	if at >= w.next {
		return false
	}
	return w.next-at > replayed || w.bits[at/64%replayWords]>>(at%64)&1 != 0
}

// note records a received frame that was not seen before.
func (w *replayWindow) note(c uint32) {
	at := uint64(c)
	if at >= w.next {
		fresh := (w.next + 63) / 64 // the first word that nothing has come of
		for i := max(fresh, at/64-min(at/64, replayWords-1)); i <= at/64; i++ {
			w.bits[i%replayWords] = 0
		}
		w.next = at + 1
	}
	w.bits[at/64%replayWords] |= 1 << (at % 64)
}
