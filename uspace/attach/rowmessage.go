package attach

// This file has the messages of a row: the contexts of consecutive nodes of a group, behind one
// connection.

import (
	"bytes"
	"encoding/binary"

	"github.com/funet/funet/uspace/funi"
)

// MaxRow is the most contexts of a row.
const MaxRow = 1024

// RowRequest asks for Count contexts: of the node of the AttachRequest, and of those that follow
// it. All have the same slots and remote memory.
//
//	as an AttachRequest, u32 count@64, u32 0@68
type RowRequest struct {
	AttachRequest
	Count int // 1 to MaxRow
}

type rowRequest struct {
	Attach   attachRequest
	Count, _ uint32
}

// Encode composes the message.
func (r RowRequest) Encode() []byte {
	return compose(KindRow, rowRequest{Attach: r.message(), Count: uint32(r.Count)})
}

// DecodeRowRequest reads the message. It checks what DecodeAttachRequest checks, and the count.
func DecodeRowRequest(b []byte) (RowRequest, error) {
	r, err := read[rowRequest](b, KindRow)
	if err != nil {
		return RowRequest{}, err
	}
	const what = "a request for a row"
	if r.Count == 0 || r.Count > MaxRow {
		return RowRequest{}, malformed(what, "count", r.Count)
	}
	a, err := r.Attach.request(what)
	return RowRequest{a, int(r.Count)}, err
}

// RowAnswer says what was attached. With it come RowDescriptors descriptors.
//
//	u32 abi@16, u32 count@20, u16 gid@24, u16 first@26, u32 nodes@28, u32 slots@32,
//	remote@36, u64 memory@40, u32 incarnation@48, u32 0@52, count times u16 context@56
type RowAnswer struct {
	// AttachAnswer describes the first context. Its Memory is that of all: RowStride for each.
	AttachAnswer
	Contexts []uint16 // the numbers of the doorbells, in the order of the nodes
}

// FarDescriptor is, in the answer to a request for a row, the far doorbells of the process's user
// (funi.FarDoorbells). It follows the descriptors of an answer to an attach request.
const (
	FarDescriptor  = AttachDescriptors
	RowDescriptors = FarDescriptor + 1
)

// RowStride returns how many bytes lie between the beginnings of two contexts of a row, and how
// many of them are one's: as many as those of a single context, in whole pages. Invalid sizes are
// funi.ErrSlots or funi.ErrRemoteSizes.
func RowStride(slots int, remote funi.RemoteSizes) (stride, size int, err error) {
	if err = remote.Check(); err == nil {
		size, err = funi.SharedSize(slots)
	}
	if err != nil {
		return 0, 0, err
	}
	size += remote.Bytes()
	return (size + funi.PageSize - 1) &^ (funi.PageSize - 1), size, nil
}

// Encode composes the message. The Context of the AttachAnswer does not count.
func (a RowAnswer) Encode() []byte {
	head := a.message()
	head.Context = uint32(len(a.Contexts))
	return compose(KindRow|AnswerBit, head, a.Contexts)
}

// DecodeRowAnswer reads the message, and checks what DecodeAttachAnswer checks, for all contexts.
// The error of a refused request is a *Refusal.
func DecodeRowAnswer(b []byte) (RowAnswer, error) {
	body, err := DecodeBody(b, KindRow|AnswerBit)
	if err != nil {
		return RowAnswer{}, err
	}
	const what = "an answer to a request for a row"
	var head attachAnswer
	n, err := binary.Decode(body, binary.LittleEndian, &head)
	count := head.Context
	switch {
	case err != nil:
		return RowAnswer{}, malformed(what, "length", len(b))
	case count == 0 || count > MaxRow || len(body) != n+2*int(count):
		return RowAnswer{}, malformed(what, "count", count)
	}
	contexts := make([]uint16, count)
	if _, err = binary.Decode(body[n:], binary.LittleEndian, contexts); err != nil {
		return RowAnswer{}, malformed(what, "length", len(b))
	}
	head.Context = uint32(contexts[0])
	first, err := head.answer(what, func(slots int, remote funi.RemoteSizes) (int, error) {
		stride, _, err := RowStride(slots, remote)
		return stride * int(count), err
	})
	a := RowAnswer{first, contexts}
	switch {
	case err != nil:
		return RowAnswer{}, err
	case uint32(a.Node)+count > a.Nodes:
		return RowAnswer{}, malformed(what, "nodes", a.Nodes)
	case !bytes.Equal(a.Encode(), b):
		return RowAnswer{}, malformed(what, "reserved bytes that are not", 0)
	}
	return a, nil
}
