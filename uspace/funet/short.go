package funet

// This file carries messages of bytes as messages of words, through one handler number: the number of the handler, the
// length, and the bytes.

import (
	"encoding/binary"
	"fmt"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

const (
	// wordHandler is the number that messages of bytes take of package am's.
	wordHandler = am.Handlers - 1
	// maxShort is the most bytes of a message.
	maxShort = 4 * (am.MaxWords - 1)
)

func (e *Endpoint) handle(number uint32, h func(m *Message) error) error {
	if number >= am.Handlers || h == nil || e.handlers[number] != nil {
		return fmt.Errorf("registering handler %d: %w", number, ErrNumber)
	}
	e.handlers[number] = h
	return nil
}

// arrived runs the handler of a message.
func (e *Endpoint) arrived(m *am.Message) {
	if len(m.Words) == 0 {
		return
	}
	number, length := m.Words[0]&0xff, m.Words[0]>>8
	if number >= am.Handlers || e.handlers[number] == nil || length > uint32(4*len(m.Words)-4) {
		return
	}
	x := e.enter(m, funi.Bytes(m.Words[1:])[:length])
	err := e.handlers[number](x)
	e.depth--
	if err != nil {
		e.handlerFailed(&HandlerError{Source: m.Source, Handler: number, Err: err})
	}
}

// pack makes words of a message of at most maxShort bytes.
func (e *Endpoint) pack(handler uint32, b []byte) []uint32 {
	w := e.words[:1+(len(b)+3)/4]
	w[0] = handler | uint32(len(b))<<8
	for i := range w[1:] {
		var four [4]byte
		copy(four[:], b[4*i:])
		w[1+i] = binary.LittleEndian.Uint32(four[:])
	}
	return w
}
