package attach

// This file has the messages with fields of their own. Decoding is strict: reserved fields must be
// 0, so a message that decodes encodes to the same bytes.

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/funet/funet/uspace/funi"
)

const (
	jobRequestSize = 56 // without the cards

	MaxNodes = (MaxMessage - jobRequestSize) / 2 // the most nodes of a job
)

func malformed(what, field string, v any) error {
	return fmt.Errorf("reading %s with %s %#x: %w", what, field, v, ErrMalformed)
}

// AttachRequest asks for a context of the node in the group with the GID.
//
//	u16 gid@16, u16 node@18, u32 slots@20, remote@24, token@32
//
// where remote has eight bytes here and four in the answer. It has the numbers of key slots, areas
// and notifications of the context's remote memory, and then zeros. Each of the three is a byte: 0
// for none, otherwise one more than the exponent of the power of two.
type AttachRequest struct {
	GID, Node uint16
	Slots     uint32           // of each queue, a power of two; 0: the daemon's default
	Remote    funi.RemoteSizes // zero: no remote memory
	Token     Token            // of the job
}

type attachRequest struct {
	GID, Node uint16
	Slots     uint32
	Remote    exponents
	_         [5]byte
	Token     Token
}

// exponents are sizes of remote memory in a message.
type exponents [3]byte

func exponentsOf(s funi.RemoteSizes) (e exponents) {
	for i, n := range []int{s.KeySlots, s.Areas, s.Notifications} {
		e[i] = byte(bits.Len(uint(n)))
	}
	return e
}

// sizes refuses sizes that are invalid (funi.RemoteSizes).
func (e exponents) sizes(what string) (s funi.RemoteSizes, err error) {
	for i, n := range []*int{&s.KeySlots, &s.Areas, &s.Notifications} {
		*n = 1 << min(e[i], 63) >> 1
	}
	if s.Check() != nil {
		return s, malformed(what, "sizes of remote memory", e)
	}
	return s, nil
}

// Encode composes the message.
func (r AttachRequest) Encode() []byte { return r.encode(KindAttach) }

// EncodeArrive composes the message for a process that comes from another card.
func (r AttachRequest) EncodeArrive() []byte { return r.encode(KindArrive) }

func (r AttachRequest) encode(k Kind) []byte {
	return compose(k, r.message())
}

func (r AttachRequest) message() attachRequest {
	return attachRequest{GID: r.GID, Node: r.Node, Slots: r.Slots, Remote: exponentsOf(r.Remote), Token: r.Token}
}

// DecodeAttachRequest reads the message. It does not check all values: the number of slots may be
// one that no queue can have.
func DecodeAttachRequest(b []byte) (AttachRequest, error) { return decodeAttach(b, KindAttach) }

// DecodeArriveRequest reads the message of a process that comes from another card.
func DecodeArriveRequest(b []byte) (AttachRequest, error) { return decodeAttach(b, KindArrive) }

func decodeAttach(b []byte, k Kind) (AttachRequest, error) {
	r, err := read[attachRequest](b, k)
	if err != nil {
		return AttachRequest{}, err
	}
	return r.request("an attach request")
}

func (r attachRequest) request(what string) (AttachRequest, error) {
	remote, err := r.Remote.sizes(what)
	if err != nil {
		return AttachRequest{}, err
	}
	return AttachRequest{GID: r.GID, Node: r.Node, Slots: r.Slots, Remote: remote, Token: r.Token}, nil
}

// AttachAnswer says what was attached. With it come AttachDescriptors descriptors.
//
//	u32 abi@16, u32 context@20, u16 gid@24, u16 node@26, u32 nodes@28, u32 slots@32,
//	remote@36, u64 memory@40, u32 incarnation@48, u32 0@52
type AttachAnswer struct {
	ABI         uint32 // funi.ABI
	Context     uint32 // number of its doorbell
	GID, Node   uint16
	Nodes       uint32 // members of the group
	Slots       uint32 // of each queue
	Memory      uint64 // bytes of the context's memory: funi.SharedSize(Slots) and Remote.Bytes()
	Incarnation uint32 // of the card
	Remote      funi.RemoteSizes
}

type attachAnswer struct {
	ABI, Context uint32
	GID, Node    uint16
	Nodes, Slots uint32
	Remote       exponents
	_            byte
	Memory       uint64
	Incarnation  uint32
	_            uint32
}

// The descriptors of an answer to an attach request, in their order.
const (
	MemoryDescriptor    = iota // the context's memory: register page, queue memory
	DoorbellsDescriptor        // the doorbell page of the process's user
	CardDescriptor             // eventfd: the process wakes a card that sleeps
	// read end of a pipe, or eventfd: the card wakes a process that waits
	ProcessDescriptor
	AttachDescriptors
)

// Encode composes the message.
func (a AttachAnswer) Encode() []byte { return a.encode(KindAttach) }

// EncodeArrive composes the answer to a request of KindArrive.
func (a AttachAnswer) EncodeArrive() []byte { return a.encode(KindArrive) }

func (a AttachAnswer) encode(k Kind) []byte { return compose(k|AnswerBit, a.message()) }

func (a AttachAnswer) message() attachAnswer {
	return attachAnswer{ABI: a.ABI, Context: a.Context, GID: a.GID, Node: a.Node, Nodes: a.Nodes,
		Slots: a.Slots, Remote: exponentsOf(a.Remote), Memory: a.Memory, Incarnation: a.Incarnation}
}

// DecodeAttachAnswer reads the message, and checks what the process relies on: the ABI
// (ErrVersion), and memory and numbers that fit each other (ErrMalformed). The error of a refused
// request is a *Refusal.
func DecodeAttachAnswer(b []byte) (AttachAnswer, error) { return decodeAttachAnswer(b, KindAttach) }

// DecodeArriveAnswer is DecodeAttachAnswer for a request of KindArrive.
func DecodeArriveAnswer(b []byte) (AttachAnswer, error) { return decodeAttachAnswer(b, KindArrive) }

func decodeAttachAnswer(b []byte, k Kind) (AttachAnswer, error) {
	a, err := read[attachAnswer](b, k|AnswerBit)
	if err != nil {
		return AttachAnswer{}, err
	}
	return a.answer("an answer to an attach request", func(slots int, remote funi.RemoteSizes) (int, error) {
		size, err := funi.SharedSize(slots)
		return size + remote.Bytes(), err
	})
}

// answer checks the fields of an answer whose memory has the size that memory returns.
func (a attachAnswer) answer(what string, memory func(slots int, remote funi.RemoteSizes) (int, error)) (AttachAnswer,
	error) {
	remote, wrong := a.Remote.sizes(what)
	size, err := memory(int(a.Slots), remote)
	switch {
	case a.ABI != funi.ABI:
		return AttachAnswer{}, fmt.Errorf("attaching to a card of ABI %d, not %d: %w", a.ABI, funi.ABI, ErrVersion)
	case err != nil:
		return AttachAnswer{}, malformed(what, "slots", a.Slots)
	case wrong != nil:
		return AttachAnswer{}, wrong
	case a.Memory != uint64(size):
		return AttachAnswer{}, malformed(what, "memory", a.Memory)
	case a.Context >= funi.MaxContexts:
		return AttachAnswer{}, malformed(what, "context", a.Context)
	case uint32(a.Node) >= a.Nodes || a.Nodes > 1<<16:
		return AttachAnswer{}, malformed(what, "nodes", a.Nodes)
	}
	return AttachAnswer{a.ABI, a.Context, a.GID, a.Node, a.Nodes, a.Slots, a.Memory, a.Incarnation, remote}, nil
}

// SegmentRequest asks for memory, registered as a segment (funi.Segment). The answer is
// the same with its kind, and comes with one descriptor.
//
//	u32 base@16, u32 rights@20, u64 bytes@24
type SegmentRequest struct {
	Base   uint32
	Rights funi.Rights
	_      [3]byte
	Bytes  uint64
}

// SegmentDescriptors is how many descriptors an answer to a segment request has.
const SegmentDescriptors = 1

// Encode composes the request.
func (r SegmentRequest) Encode() []byte { return compose(KindSegment, r) }

// EncodeAnswer composes the answer.
func (r SegmentRequest) EncodeAnswer() []byte { return compose(KindSegment|AnswerBit, r) }

// DecodeSegmentRequest reads the request. It does not check base and size.
func DecodeSegmentRequest(b []byte) (SegmentRequest, error) { return decodeSegment(b, KindSegment) }

// DecodeSegmentAnswer reads the answer. The error of a refused request is a *Refusal.
func DecodeSegmentAnswer(b []byte) (SegmentRequest, error) {
	return decodeSegment(b, KindSegment|AnswerBit)
}

func decodeSegment(b []byte, k Kind) (SegmentRequest, error) {
	r, err := read[SegmentRequest](b, k)
	if r.Rights&^(funi.Source|funi.Destination|funi.Keyed) != 0 {
		return SegmentRequest{}, malformed("a segment request", "rights", uint8(r.Rights))
	}
	return r, err
}

// UnsegmentRequest asks to unregister the segment at base. The answer has no body
// (EncodeBody), and is ErrBusy while the card needs the segment.
//
//	u32 base@16, u32 0@20
type UnsegmentRequest struct{ Base, _ uint32 }

// Encode composes the message.
func (r UnsegmentRequest) Encode() []byte { return compose(KindUnsegment, r) }

// DecodeUnsegmentRequest reads the message.
func DecodeUnsegmentRequest(b []byte) (UnsegmentRequest, error) {
	return read[UnsegmentRequest](b, KindUnsegment)
}

// DetachRequest asks to end the context of the connection. The daemon first waits until nothing of
// the context waits in the card (engine.Context.Idle), at most for Linger. The process continues to
// empty its receive queues meanwhile. The answer has no body (EncodeBody). If something was left
// undelivered it is ErrBusy, and the context has ended all the same. A connection that closes
// without this request gives up what is under way.
//
//	u32 linger@16 in milliseconds, u32 0@20
type DetachRequest struct{ Linger time.Duration }

// milliseconds is a time in a message.
type milliseconds uint32

// inMilliseconds rounds d down, and cuts it to what a field holds.
func inMilliseconds(d time.Duration) milliseconds {
	return milliseconds(min(max(d.Milliseconds(), 0), math.MaxUint32))
}

func (m milliseconds) duration() time.Duration { return time.Duration(m) * time.Millisecond }

// Encode composes the message. Linger is rounded down to milliseconds, and cut to the field.
func (r DetachRequest) Encode() []byte {
	return compose(KindDetach, [2]milliseconds{inMilliseconds(r.Linger)})
}

// DecodeDetachRequest reads the message.
func DecodeDetachRequest(b []byte) (DetachRequest, error) {
	r, err := read[struct{ Linger, _ milliseconds }](b, KindDetach)
	return DetachRequest{r.Linger.duration()}, err
}

// JobRequest asks for a group: node n lives on card Cards[n].
//
//	u16 gid@16, u16 direct@18 (0 or 1), u32 nodes@20, token@24, nodes times u16 card@56
type JobRequest struct {
	GID    uint16   // 0: a free one that the user may have
	Direct bool     // its nodes have direct ports (KindPort)
	Token  Token    // that its members show
	Cards  []uint16 // 1 to MaxNodes
}

type jobRequest struct {
	GID, Direct uint16
	Nodes       uint32
	Token       Token
}

// Encode composes the message. It returns ErrMalformed for more than MaxNodes cards or none, and
// ErrNoToken for a token of zeros.
func (r JobRequest) Encode() ([]byte, error) {
	if r.Token.Zero() {
		return nil, fmt.Errorf("asking for a job: %w", ErrNoToken)
	}
	if len(r.Cards) == 0 || len(r.Cards) > MaxNodes {
		return nil, fmt.Errorf("asking for a job of %d nodes, not 1 to %d: %w", len(r.Cards), MaxNodes, ErrMalformed)
	}
	head := jobRequest{GID: r.GID, Nodes: uint32(len(r.Cards)), Token: r.Token}
	if r.Direct {
		head.Direct = 1
	}
	return compose(KindJob, head, r.Cards), nil
}

// DecodeJobRequest reads the message. It does not check GID and cards. It refuses a token of zeros
// with ErrNoToken, because every other user could name it, too.
func DecodeJobRequest(b []byte) (JobRequest, error) {
	body, err := DecodeBody(b, KindJob)
	if err != nil {
		return JobRequest{}, err
	}
	const what = "a job request"
	var head jobRequest
	n, err := binary.Decode(body, binary.LittleEndian, &head)
	switch {
	case err != nil:
		return JobRequest{}, malformed(what, "length", len(b))
	case head.Nodes == 0 || uint64(len(b)) != jobRequestSize+2*uint64(head.Nodes):
		return JobRequest{}, malformed(what, "nodes", head.Nodes)
	case head.Direct > 1:
		return JobRequest{}, malformed(what, "direct", head.Direct)
	case head.Token.Zero():
		return JobRequest{}, fmt.Errorf("reading a job request: %w", ErrNoToken)
	}
	r := JobRequest{head.GID, head.Direct == 1, head.Token, make([]uint16, head.Nodes)}
	_, err = binary.Decode(body[n:], binary.LittleEndian, r.Cards)
	return r, err
}

// JobAnswer says which group was made.
//
//	u16 gid@16, u16 0@18
type JobAnswer struct{ GID, _ uint16 }

// Encode composes the message.
func (a JobAnswer) Encode() []byte { return compose(KindJob|AnswerBit, a) }

// DecodeJobAnswer reads the message. The error of a refused request is a *Refusal.
func DecodeJobAnswer(b []byte) (JobAnswer, error) { return read[JobAnswer](b, KindJob|AnswerBit) }

// Info is the JSON of an answer to KindInfo, which describes the card. Any user may ask.
type Info struct {
	Host        string   `json:"host"`
	Card        uint16   `json:"card"`
	Incarnation uint32   `json:"incarnation"`
	ABI         uint32   `json:"abi"`
	Interfaces  []string `json:"interfaces"`
	Profile     string   `json:"profile"`
	// XDPMode is where the NIC program runs, of all interfaces; "": there is none
	XDPMode  string `json:"xdp_mode"`
	BindMode string `json:"bind_mode"` // how frames reach the card
	// UDPPort is the port of the datagrams that carry frames; 0: frames have their own EtherType
	UDPPort  uint16   `json:"udp_port,omitempty"`
	Carriage Carriage `json:"carriage"`
}

// Carriage says how the messages of jobs travel: CarriageDaemon, or CarriageDirect where jobs may
// have direct ports. A daemon that does not say uses CarriageDaemon.
type Carriage struct {
	// Configured is the administrator's choice: CarriageDaemon, CarriageDirect or CarriageAuto
	Configured string `json:"configured"`
	Chosen     string `json:"chosen"`        // CarriageDaemon or CarriageDirect
	Why        string `json:"why,omitempty"` // how ports were proven, or why there are none
}

// The values of Carriage.
const (
	CarriageDaemon = "daemon"
	CarriageDirect = "direct"
	CarriageAuto   = "auto"
)
