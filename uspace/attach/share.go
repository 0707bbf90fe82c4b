package attach

// This file has the memory between processes with direct ports on one host (package port/shared). A
// process asks which nodes of its job are on the host (KindNeighbours). When it has much to say to
// one of them, it asks for the memory of the two (KindShare). Both get the same memory, whichever
// asks first. It lasts until the first of them ends; the daemon then erases it.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
)

// EncodeNeighbours composes the answer to a request of KindNeighbours: the other nodes of the job
// that are on the card's host, present or not.
//
//	u16 node@16, u16 node@18, ...
func EncodeNeighbours(nodes []uint16) ([]byte, error) {
	return encodeNodes(nodes, KindNeighbours)
}

// encodeNodes composes an answer that is a list of numbers.
func encodeNodes(nodes []uint16, k Kind) ([]byte, error) {
	body, err := binary.Append(nil, binary.LittleEndian, nodes)
	if err != nil {
		return nil, err
	}
	return EncodeBody(k|AnswerBit, body)
}

// DecodeNeighbours reads the answer.
func DecodeNeighbours(b []byte) ([]uint16, error) {
	return decodeNodes(b, KindNeighbours, "an answer with neighbours")
}

// decodeNodes reads an answer that is a list of numbers.
func decodeNodes(b []byte, k Kind, what string) (nodes []uint16, err error) {
	body, err := DecodeBody(b, k|AnswerBit)
	if err != nil {
		return nil, err
	}
	if len(body)%2 != 0 {
		return nil, malformed(what, "length", len(b))
	}
	nodes = make([]uint16, len(body)/2)
	_, err = binary.Decode(body, binary.LittleEndian, nodes)
	return nodes, err
}

// ShareRequest asks for the memory of the process and a neighbour. It is refused with ErrBusy while
// the neighbour has no port here or the memory is being made, with ErrForbidden if the neighbour is
// another user's, and with ErrQuota and ErrFull.
//
//	u16 node@16, 6 zeros
type ShareRequest struct {
	Node uint16
	_    [6]byte
}

// Encode composes the message.
func (r ShareRequest) Encode() []byte { return compose(KindShare, r) }

// DecodeShareRequest reads the message.
func DecodeShareRequest(b []byte) (ShareRequest, error) { return read[ShareRequest](b, KindShare) }

// ShareAnswer describes the memory that was made. With it comes one descriptor.
//
//	u16 node@16, 6 zeros, u64 bytes@24
type ShareAnswer struct {
	Node  uint16
	_     [6]byte
	Bytes uint64
}

// Encode composes the message.
func (a ShareAnswer) Encode() []byte { return compose(KindShare|AnswerBit, a) }

// DecodeShareAnswer reads the message. The error of a refused request is a *Refusal.
func DecodeShareAnswer(b []byte) (ShareAnswer, error) {
	return read[ShareAnswer](b, KindShare|AnswerBit)
}

// reply is the daemon's answer to a request that was sent while Watch listens.
type reply struct {
	message     []byte
	descriptors []int
	err         error // nil: the daemon has answered
}

// Neighbours returns the other nodes of the job on this host, present or not. It needs a running
// Watch, which takes the answer, and ends with Close. One goroutine at a time calls it, Share or
// Stations.
// ErrKind reports a daemon of a release that has no such memory.
func (p *Port) Neighbours() ([]uint16, error) {
	return p.list(KindNeighbours, DecodeNeighbours)
}

// list asks for a list of numbers.
func (p *Port) list(k Kind, decode func([]byte) ([]uint16, error)) ([]uint16, error) {
	request, err := EncodeBody(k, nil)
	if err != nil {
		return nil, err
	}
	r, err := p.ask(request)
	if err != nil {
		return nil, err
	}
	CloseDescriptors(r.descriptors)
	return decode(r.message)
}

// Share returns the memory of this node and a neighbour, of the given size in bytes; it is the
// caller's. It needs Watch and ends with Close, as Neighbours does. Errors are those of a refusal
// (ShareRequest), and ErrMemory.
func (p *Port) Share(node uint16, bytes uint64) (*os.File, error) {
	r, err := p.ask(ShareRequest{Node: node}.Encode())
	if err != nil {
		return nil, err
	}
	a, err := DecodeShareAnswer(r.message)
	if err == nil && (a != ShareAnswer{Node: node, Bytes: bytes} || len(r.descriptors) != 1) {
		err = fmt.Errorf("%d descriptors of %d bytes for node %d came: %w", len(r.descriptors), a.Bytes,
			a.Node, ErrMemory)
	}
	if err != nil {
		CloseDescriptors(r.descriptors)
		return nil, fmt.Errorf("asking for the memory of this node and node %d: %w", node, err)
	}
	return os.NewFile(uintptr(r.descriptors[0]), "the memory of two neighbours"), nil
}

// ask sends a request and waits for the answer. It asks again when another connection has taken the
// place of the one that was asked.
func (p *Port) ask(request []byte) (r reply, err error) {
	err = again(p.done, func() bool {
		r, err = p.askOnce(request)
		return err == nil
	})
	return r, err
}

// askOnce asks the daemon at the present connection.
func (p *Port) askOnce(request []byte) (reply, error) {
	answered := make(chan reply, 1)
	p.mu.Lock()
	err := p.conn.SetWriteDeadline(time.Now().Add(DefaultTimeout))
	if err == nil {
		err = Send(p.conn, request)
	}
	if err == nil {
		p.asked = answered
	}
	p.mu.Unlock()
	if err != nil {
		return reply{}, err
	}
	select {
	case r := <-answered:
		return r, r.err
	case <-p.done.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == nil { // an answer has come all the same
		CloseDescriptors((<-answered).descriptors)
	}
	p.asked = nil
	return reply{}, p.done.Err()
}

// answered takes a message that answers a request of ask, and reports whether it is one. The caller
// of ask may have stopped waiting.
func (p *Port) answered(message []byte, got []int) bool {
	h, err := DecodeHeader(message)
	if err != nil {
		return false
	}
	switch h.Kind {
	case KindNeighbours | AnswerBit, KindShare | AnswerBit, KindStations | AnswerBit:
	default:
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deliver(reply{message: append([]byte(nil), message...), descriptors: got})
	return true
}

// deliver passes a reply to the caller that asked, if one waits for it. The caller holds mu.
func (p *Port) deliver(r reply) {
	if p.asked == nil {
		CloseDescriptors(r.descriptors)
		return
	}
	p.asked <- r // it has room for one
	p.asked = nil
}

// errUnanswered reports that another connection has taken the place of the one that was asked.
var errUnanswered = errors.New("attach: the daemon has ended before it answered")
