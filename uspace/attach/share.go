package attach

// This file has the memory between processes with direct ports on one host (package port/shared). A
// process asks which nodes of its job are on the host (KindNeighbours). When it has much to say to
// one of them, it asks for the memory of the two (KindShare). Both get the same memory, whichever
// asks first. It lasts until the first of them ends; the daemon then erases it.
//
// It also has what such a process needs to send bundles (package port/bundle). Where routers take
// bundles apart, it asks which of the job's nodes are on one host, since a bundle has one frame for
// a host (KindStations).

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	// NoStation takes the place of a host in the list of hosts: frames for the node travel alone.
	NoStation = 0xffff
	// MaxStations is the most nodes of that list. Frames for others travel alone.
	MaxStations = (MaxMessage - HeaderSize) / 2
)

// EncodeList composes the answer to a request of KindNeighbours or KindStations. The first lists
// the other nodes of the job that are on the card's host, present or not. The second lists the
// number of the host of each node of the job, from node 0 on, or NoStation. Without hosts no frame
// may travel in a bundle.
//
//	u16@16, u16@18, ...
func EncodeList(k Kind, list []uint16) ([]byte, error) {
	body, err := binary.Append(nil, binary.LittleEndian, list)
	if err != nil {
		return nil, err
	}
	return EncodeBody(k|AnswerBit, body)
}

// DecodeList reads the answer.
func DecodeList(b []byte, k Kind) (nodes []uint16, err error) {
	body, err := DecodeBody(b, k|AnswerBit)
	if err != nil {
		return nil, err
	}
	if len(body)%2 != 0 {
		return nil, malformed("an answer with nodes or hosts", "length", len(b))
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
	return p.list(KindNeighbours)
}

// Stations returns the number of the host of each node of the job, from node 0 on, or NoStation. It
// needs a running Watch and ends with Close, as Neighbours does. ErrKind reports a daemon of a
// release whose guard knows no bundles.
func (p *Port) Stations() ([]uint16, error) {
	return p.list(KindStations)
}

func (p *Port) list(k Kind) ([]uint16, error) {
	request, err := EncodeBody(k, nil)
	if err != nil {
		return nil, err
	}
	r, err := p.ask(request)
	if err != nil {
		return nil, err
	}
	CloseDescriptors(r.descriptors)
	return DecodeList(r.message, k)
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
