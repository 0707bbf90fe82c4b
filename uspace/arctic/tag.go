package arctic

// This file is the tag of a job, by which cards know its frames (Header.Tag).

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// tagPurpose is the start of the hashed bytes, so that no other use of a token as a key gives the
// same bytes.
const tagPurpose = "FUNet job tag 1"

// JobTag returns the tag of the job with the token and the GID. The tag is the first 8 bytes, as a
// little-endian number, of an HMAC-SHA256 (RFC 2104, FIPS 180-4). The HMAC has the token as key,
// over "FUNet job tag 1" and the two bytes of the GID, little-endian. All cards of a job compute
// the same tag without asking each other. A tag reveals nothing about its token. Without the token
// a tag can only be guessed: one guess in 2^64 is right.
//
// It is for the start of a job: it allocates.
func JobTag(token []byte, gid uint16) uint64 {
	h := hmac.New(sha256.New, token)
	h.Write([]byte(tagPurpose))
	h.Write(binary.LittleEndian.AppendUint16(nil, gid))
	return binary.LittleEndian.Uint64(h.Sum(nil))
}
