package attach

// This file has the token with which a process proves that it belongs to a job.

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
)

// TokenSize is the size of a token in bytes.
const TokenSize = 32

// Token is the secret that a job's launcher draws and its processes show. Any process that knows it
// may join the group.
type Token [TokenSize]byte

// ErrTokenText reports a text that is not that of a token.
var ErrTokenText = errors.New("attach: a token is 64 hexadecimal digits, as funet run puts them into FUNET_TOKEN")

// NewToken draws a token from the system's randomness.
func NewToken() (t Token) {
	_, _ = rand.Read(t[:]) // it never fails
	return t
}

// ParseToken reads the text that Text returns.
func ParseToken(s string) (t Token, err error) {
	if b, err := hex.DecodeString(s); err == nil && len(b) == TokenSize {
		return Token(b), nil
	}
	// not the token: errors are logged
	return t, fmt.Errorf("reading a token of %d characters: %w", len(s), ErrTokenText)
}

// Zero reports whether the token is zero, so that it was never drawn.
func (t Token) Zero() bool { return t == Token{} }

// Text returns the token as 64 hexadecimal digits, for the environment of a process. It
// is not called String so that no log prints a token by accident.
func (t Token) Text() string { return hex.EncodeToString(t[:]) }

// String hides the token.
func (t Token) String() string { return "(token)" }

// GoString hides the token.
func (t Token) GoString() string { return "(token)" }

// Equal compares tokens in a time that does not depend on where they differ.
func (t Token) Equal(u Token) bool { return subtle.ConstantTimeCompare(t[:], u[:]) == 1 }
