package attach

// This file has the header of every message, and messages of a header and a body only: refusals,
// requests and answers in JSON, and a few others (EncodeBody).

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

const (
	// Version is the version of the protocol. Both sides may be of two releases that follow each
	// other. JSON may get fields that the other side does not know. Requests may get new kinds,
	// which the other side refuses with ErrKind. Messages with fields of their own stay as they are
	// (TestReleaseBefore).
	Version    = 1
	HeaderSize = 16       // the size of the header, and of the shortest message, in bytes
	MaxMessage = 64 << 10 // the longest message in bytes

	magic = 0x494e5546 // "FUNI"
)

// Kind says what a message asks for.
type Kind uint16

// The kinds of requests.
const (
	KindAttach    Kind = 1 + iota // attach a context to the card
	KindSegment                   // make and register a segment
	KindUnsegment                 // unregister one
	KindJob                       // make a group that lives as long as the connection
	KindStatus                    // what is going on, in JSON
	KindAdmin                     // an administrator's command, in JSON
	KindInfo                      // which card this is, in JSON
	KindDetach                    // end the context when what it sent has arrived
	// the card's frames from now on, for an administrator (package ctl/capture)
	KindCapture
	KindTraffic // what contexts have moved, and how the peers answer, in JSON
	KindTrace   // single packets from now on, stage by stage (package ctl/trace)
	// make a context for a process that comes from another card (package engine, move.go)
	KindArrive
	KindLeave   // move the context to another card, and hand out its image
	KindImage   // a part of the image for a context that arrives
	KindWhither // where the daemon asks the process to move, or why it did not, in JSON
	KindPort    // a direct port of the process's own, instead of a context
	KindResume  // go on with the port that a daemon before this one gave
	// does the process of a node live? The daemon tells it, asked or not (fate.go)
	KindFate
	KindNeighbours // which nodes of the job with direct ports are on this host
	KindShare      // memory with one of them (package port/shared)
	KindRow        // attach contexts of nodes that follow each other, up to MaxRow
	KindStations   // which nodes of the job with direct ports are on one host, for bundles

	AnswerBit Kind = 0x8000 // makes a request's kind that of its answer
)

// Header is the header of a message.
type Header struct {
	Kind   Kind
	Status Status // of an answer; 0 in a request
}

// DecodeHeader reads and checks the header of a message that was received whole. Errors are
// ErrMalformed and ErrVersion. Even with an error it returns the message's kind, if the message is
// long enough to have one, so that it can be answered.
func DecodeHeader(b []byte) (Header, error) {
	var h Header
	if len(b) >= 8 {
		h.Kind = Kind(binary.LittleEndian.Uint16(b[6:]))
	}
	if len(b) < HeaderSize || len(b) > MaxMessage {
		return h, fmt.Errorf("reading a message of %d bytes: %w", len(b), ErrMalformed)
	}
	if m := binary.LittleEndian.Uint32(b); m != magic {
		return h, fmt.Errorf("reading a message that starts with %#x: %w", m, ErrMalformed)
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != Version {
		return h, fmt.Errorf("reading a message of version %d, not %d: %w", v, Version, ErrVersion)
	}
	if n := binary.LittleEndian.Uint32(b[8:]); int64(n) != int64(len(b)) {
		return h, fmt.Errorf("reading a message of %d bytes that claims %d: %w", len(b), n, ErrMalformed)
	}
	h.Status = Status(binary.LittleEndian.Uint32(b[12:]))
	if h.Status != Done && h.Kind&AnswerBit == 0 {
		return h, fmt.Errorf("reading a request with status %d: %w", h.Status, ErrMalformed)
	}
	return h, nil
}

// encode starts a message of n bytes, which is 0 behind its header.
func encode(k Kind, s Status, n int) []byte {
	b := make([]byte, n)
	binary.LittleEndian.PutUint32(b, magic)
	binary.LittleEndian.PutUint16(b[4:], Version)
	binary.LittleEndian.PutUint16(b[6:], uint16(k))
	binary.LittleEndian.PutUint32(b[8:], uint32(n))
	binary.LittleEndian.PutUint32(b[12:], uint32(s))
	return b
}

// compose composes a message whose body is the given values of fixed sizes, in their order. Blank
// fields of structs are 0.
func compose(k Kind, fields ...any) []byte {
	b := encode(k, Done, HeaderSize)
	for _, f := range fields {
		b, _ = binary.Append(b, binary.LittleEndian, f) // which has a size
	}
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)))
	return b
}

// read reads a message that compose has composed of one struct. It refuses any other length, and
// bytes that do not encode to themselves, such as reserved ones that are not 0. It returns a
// refusal as a *Refusal.
func read[T any](b []byte, k Kind) (none T, _ error) {
	var v T
	body, err := DecodeBody(b, k)
	if err != nil {
		return none, err
	}
	if n, err := binary.Decode(body, binary.LittleEndian, &v); err != nil || n != len(body) {
		return none, fmt.Errorf("reading a message of kind %#x of %d bytes, not %d: %w", k, len(b),
			HeaderSize+binary.Size(v), ErrMalformed)
	}
	if !bytes.Equal(compose(k, v), b) {
		return none, fmt.Errorf("reading a message of kind %#x with reserved bytes that are not 0: %w", k, ErrMalformed)
	}
	return v, nil
}

// EncodeBody composes a message of a header and a body:
//   - a request of KindStatus, KindInfo, KindTraffic, KindNeighbours or KindStations, without a
//     body
//   - a request of KindAdmin, KindCapture, KindTrace or KindWhither, with JSON
//   - the answer to a request of one of these kinds but KindNeighbours and KindStations, with JSON
//   - the answers after the first to a request of KindCapture, with frames, and to one of
//     KindLeave, with the image
//   - the answer to a request of KindNeighbours or KindStations, with nodes or hosts (EncodeList)
//   - the answer to a request of KindImage, or of KindUnsegment, KindDetach or KindResume that was
//     carried out, without a body
//
// A body too long for a message is ErrMalformed.
func EncodeBody(k Kind, body []byte) ([]byte, error) {
	if len(body) > MaxMessage-HeaderSize {
		return nil, fmt.Errorf("composing a message of kind %#x with %d bytes: %w", k, len(body), ErrMalformed)
	}
	b := encode(k, Done, HeaderSize+len(body))
	copy(b[HeaderSize:], body)
	return b, nil
}

// DecodeBody returns the body of a message that must be of the kind. It aliases b. The error of an
// answer that refuses is a *Refusal; others are ErrMalformed and ErrVersion. The answer to a
// message that the daemon could not read may be of another kind.
func DecodeBody(b []byte, k Kind) ([]byte, error) {
	h, err := DecodeHeader(b)
	if err != nil {
		return nil, err
	}
	if h.Status != Done && h.Kind&AnswerBit != 0 && k&AnswerBit != 0 {
		text := string(b[HeaderSize:])
		if text != oneLine(text) {
			return nil, fmt.Errorf("reading a refusal of %d bytes that is not a line of text: %w",
				len(text), ErrMalformed)
		}
		return nil, &Refusal{Status: h.Status, Text: text}
	}
	if h.Kind != k {
		return nil, fmt.Errorf("reading a message of kind %#x, not %#x: %w", h.Kind, k, ErrMalformed)
	}
	return b[HeaderSize:], nil
}

// EncodeRefusal composes the answer that refuses a request of the kind: StatusOf(err),
// and the error as one line of at most 1024 bytes. The error must not be nil.
func EncodeRefusal(k Kind, err error) []byte {
	text := oneLine(err.Error())
	b := encode(k|AnswerBit, StatusOf(err), HeaderSize+len(text))
	copy(b[HeaderSize:], text)
	return b
}
