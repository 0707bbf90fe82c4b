package link

// This file derives keys from the 32 bytes that two cards share, and from a greeting in each
// direction. All of it is HKDF-SHA256 (RFC 5869) and HMAC-SHA256 (RFC 2104):
//
//	secret of 32 bytes -- Extract --> one key for each use, by Expand with a label of its own:
//	    greeting   authenticates greetings
//	    identity   32 bits that tell one key from another, and reveal nothing about it
//	    session    and both cards, incarnations and nonces: a secret for each direction
//	secret of a direction -- Expand -->
//	    key        seals frames (seal.go)
//	    next       the secret after it, from which the one before cannot be found (RFC 8446
//	               section 7.2)
//
// So each handshake has keys of its own, and each direction of it.

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"

	"github.com/funet/funet/uspace/arctic"
)

// KeySize is the size in bytes of the secret that cards share.
const KeySize = 32

// ErrKey reports a secret that makes no key, because of its size or because all its bytes are zero.
// The error of NewKey wraps it.
var ErrKey = errors.New("link: not a key")

// Labels of HKDF, so that no use of a key gives the bytes of another.
const (
	saltLabel     = "FUNet link 1"
	greetingLabel = "FUNet link 1 greeting"
	identityLabel = "FUNet link 1 identity"
	sessionLabel  = "FUNet link 1 session"
	keyLabel      = "FUNet link 1 key"
	nextLabel     = "FUNet link 1 next"
	jobLabel      = "FUNet link 1 job"
)

// Key holds what a card has made of a secret that it shares with others. Formatted, logged or
// marshalled it shows its identity only. It belongs to the goroutine of the card.
type Key struct {
	extracted []byte
	identity  uint32
	mac       hash.Hash // HMAC with the key of greetings
	sum       [sha256.Size]byte
}

// NewKey makes a key from a secret of KeySize bytes, which it does not keep. Errors: ErrKey.
func NewKey(secret []byte) (*Key, error) {
	zero := byte(0)
	for _, b := range secret {
		zero |= b
	}
	if len(secret) != KeySize || zero == 0 {
		return nil, fmt.Errorf("%w: %d bytes, want %d that are not all zero", ErrKey, len(secret), KeySize)
	}
	extracted, err := hkdf.Extract(sha256.New, secret, []byte(saltLabel))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return &Key{
		extracted: extracted,
		// 0 is no key
		identity: binary.LittleEndian.Uint32(expand(extracted, identityLabel, 4)) | 1,
		mac:      hmac.New(sha256.New, expand(extracted, greetingLabel, KeySize)),
	}, nil
}

// expand is HKDF-Expand. It fails only for lengths that no caller here asks for.
func expand(secret []byte, info string, n int) []byte {
	b, err := hkdf.Expand(sha256.New, secret, info, n)
	if err != nil {
		panic(err)
	}
	return b
}

// Identity returns a number that tells one key from another. It has 31 bits that reveal nothing
// about the key; its lowest bit is always 1.
func (k *Key) Identity() uint32 { return k.identity }

// String returns the identity only.
func (k *Key) String() string { return fmt.Sprintf("key %08x", k.identity) }

// GoString returns what String does, so that no format shows more of a key.
func (k *Key) GoString() string { return k.String() }

// MarshalText returns what String does.
func (k *Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Job returns the secret of a job's own key, of KeySize bytes. It is the same on all hosts that
// share the key, and another for each GID and token. It reveals nothing about the key. Any
// goroutine may call Job.
func (k *Key) Job(gid uint16, token []byte) []byte {
	info := binary.LittleEndian.AppendUint16([]byte(jobLabel), gid)
	return expand(k.extracted, string(append(info, token...)), KeySize)
}

// SignGreeting authenticates the frame that arctic.PutGreeting has written to b, before
// arctic.Seal. It does not allocate.
func (k *Key) SignGreeting(b []byte) {
	_, _, mac := arctic.GreetingMAC(b)
	copy(mac, k.greetingMAC(b))
}

// VerifyGreeting reports whether a frame with a greeting, which arctic.Parse has accepted, is
// authenticated with the key. It does not allocate.
func (k *Key) VerifyGreeting(f arctic.Frame) bool {
	if len(f) != arctic.GreetingEnd {
		return false
	}
	_, _, mac := arctic.GreetingMAC(f)
	return hmac.Equal(mac, k.greetingMAC(f))
}

func (k *Key) greetingMAC(b []byte) []byte {
	header, greeting, _ := arctic.GreetingMAC(b)
	k.mac.Reset()
	k.mac.Write(header)
	k.mac.Write(greeting)
	return k.mac.Sum(k.sum[:0])[:arctic.MACSize]
}

// Party holds what a greeting says of one of two cards.
type Party struct {
	Card        uint16
	Incarnation uint32
	Nonce       uint64
}

// transcriptSize is the size in bytes of a transcript.
const transcriptSize = 2 * (2 + 4 + 8)

// transcript returns what both cards know of a handshake. The card with the lower number comes
// first, so that both cards get the same bytes.
func transcript(a, b Party) (t [transcriptSize]byte) {
	if b.Card < a.Card {
		a, b = b, a
	}
	for i, p := range [...]Party{a, b} {
		e := t[i*transcriptSize/2:]
		binary.LittleEndian.PutUint16(e[0:], p.Card)
		binary.LittleEndian.PutUint32(e[2:], p.Incarnation)
		binary.LittleEndian.PutUint64(e[6:], p.Nonce)
	}
	return t
}

// Epoch names the sequence state that two cards begin after a handshake. Both compute the same
// number. No other handshake gives that number, because each card draws its nonce anew. It is never
// 0. A card that knows one of the nonces cannot choose the other so as to get a certain epoch.
func Epoch(a, b Party) uint64 {
	t := transcript(a, b)
	sum := sha256.Sum256(t[:])
	return max(binary.LittleEndian.Uint64(sum[:]), 1)
}

// Session makes the keys of a handshake between this card and a peer.
func (k *Key) Session(self, peer Party, now int64) *Session {
	t := transcript(self, peer)
	both := expand(k.extracted, sessionLabel+string(t[:]), 2*KeySize)
	s := &Session{leads: self.Card < peer.Card, since: now}
	to, from := both[:KeySize:KeySize], both[KeySize:] // those of the card with the lower number
	if !s.leads {
		to, from = from, to
	}
	s.seal.sealing, s.open.present = newSealing(to), &opening{sealing: newSealing(from)}
	return s
}
