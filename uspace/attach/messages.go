package attach

// This file has the messages with fields of their own. Decoding is strict: reserved fields must be
// 0, so a message that decodes encodes to the same bytes.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/funet/funet/uspace/funi"
)

const (
	attachRequestSize = 64
	attachAnswerSize  = 56
	segmentSize       = 32
	unsegmentSize     = 24
	jobRequestSize    = 56 // without the cards
	jobAnswerSize     = 20
	detachSize        = 24

	MaxNodes = (MaxMessage - jobRequestSize) / 2 // the most nodes of a job
)

func malformed(what, field string, v uint64) error {
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

func putRemote(b []byte, s funi.RemoteSizes) {
	for i, n := range []int{s.KeySlots, s.Areas, s.Notifications} {
		b[i] = byte(bits.Len(uint(n)))
	}
}

// remoteSizes decodes sizes. It refuses sizes that are invalid (funi.RemoteSizes), and bytes behind
// them that are not zero.
func remoteSizes(b []byte, what string) (s funi.RemoteSizes, err error) {
	for i, n := range []*int{&s.KeySlots, &s.Areas, &s.Notifications} {
		*n = 1 << min(b[i], 63) >> 1
	}
	if s.Check() != nil || len(bytes.Trim(b[3:], "\x00")) > 0 {
		return s, malformed(what, "sizes of remote memory", uint64(binary.LittleEndian.Uint32(b)))
	}
	return s, nil
}

// Encode composes the message.
func (r AttachRequest) Encode() []byte { return r.encode(KindAttach) }

// EncodeArrive composes the message for a process that comes from another card.
func (r AttachRequest) EncodeArrive() []byte { return r.encode(KindArrive) }

func (r AttachRequest) encode(k Kind) []byte {
	b := encode(k, Done, attachRequestSize)
	binary.LittleEndian.PutUint16(b[16:], r.GID)
	binary.LittleEndian.PutUint16(b[18:], r.Node)
	binary.LittleEndian.PutUint32(b[20:], r.Slots)
	putRemote(b[24:], r.Remote)
	copy(b[32:], r.Token[:])
	return b
}

// DecodeAttachRequest reads the message. It does not check all values: the number of slots may be
// one that no queue can have.
func DecodeAttachRequest(b []byte) (AttachRequest, error) { return decodeAttach(b, KindAttach) }

// DecodeArriveRequest reads the message of a process that comes from another card.
func DecodeArriveRequest(b []byte) (AttachRequest, error) { return decodeAttach(b, KindArrive) }

func decodeAttach(b []byte, k Kind) (AttachRequest, error) {
	if err := fixed(b, k, attachRequestSize); err != nil {
		return AttachRequest{}, err
	}
	remote, err := remoteSizes(b[24:32], "an attach request")
	if err != nil {
		return AttachRequest{}, err
	}
	return AttachRequest{
		Remote: remote,
		GID:    binary.LittleEndian.Uint16(b[16:]), Node: binary.LittleEndian.Uint16(b[18:]),
		Slots: binary.LittleEndian.Uint32(b[20:]), Token: Token(b[32:]),
	}, nil
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

func (a AttachAnswer) encode(k Kind) []byte {
	b := encode(k|AnswerBit, Done, attachAnswerSize)
	binary.LittleEndian.PutUint32(b[16:], a.ABI)
	binary.LittleEndian.PutUint32(b[20:], a.Context)
	binary.LittleEndian.PutUint16(b[24:], a.GID)
	binary.LittleEndian.PutUint16(b[26:], a.Node)
	binary.LittleEndian.PutUint32(b[28:], a.Nodes)
	binary.LittleEndian.PutUint32(b[32:], a.Slots)
	putRemote(b[36:], a.Remote)
	binary.LittleEndian.PutUint64(b[40:], a.Memory)
	binary.LittleEndian.PutUint32(b[48:], a.Incarnation)
	return b
}

// DecodeAttachAnswer reads the message, and checks what the process relies on: the ABI
// (ErrVersion), and memory and numbers that fit each other (ErrMalformed). The error of a refused
// request is a *Refusal.
func DecodeAttachAnswer(b []byte) (AttachAnswer, error) { return decodeAttachAnswer(b, KindAttach) }

// DecodeArriveAnswer is DecodeAttachAnswer for a request of KindArrive.
func DecodeArriveAnswer(b []byte) (AttachAnswer, error) { return decodeAttachAnswer(b, KindArrive) }

func decodeAttachAnswer(b []byte, k Kind) (AttachAnswer, error) {
	if err := fixed(b, k|AnswerBit, attachAnswerSize, 52, 56); err != nil {
		return AttachAnswer{}, err
	}
	a := AttachAnswer{
		ABI: binary.LittleEndian.Uint32(b[16:]), Context: binary.LittleEndian.Uint32(b[20:]),
		GID: binary.LittleEndian.Uint16(b[24:]), Node: binary.LittleEndian.Uint16(b[26:]),
		Nodes: binary.LittleEndian.Uint32(b[28:]), Slots: binary.LittleEndian.Uint32(b[32:]),
		Memory: binary.LittleEndian.Uint64(b[40:]), Incarnation: binary.LittleEndian.Uint32(b[48:]),
	}
	const what = "an answer to an attach request"
	size, err := funi.SharedSize(int(a.Slots))
	remote, wrong := remoteSizes(b[36:40], what)
	a.Remote = remote
	switch {
	case a.ABI != funi.ABI:
		return AttachAnswer{}, fmt.Errorf("attaching to a card of ABI %d, not %d: %w", a.ABI, funi.ABI, ErrVersion)
	case err != nil:
		return AttachAnswer{}, malformed(what, "slots", uint64(a.Slots))
	case wrong != nil:
		return AttachAnswer{}, wrong
	case a.Memory != uint64(size+remote.Bytes()):
		return AttachAnswer{}, malformed(what, "memory", a.Memory)
	case a.Context >= funi.MaxContexts:
		return AttachAnswer{}, malformed(what, "context", uint64(a.Context))
	case uint32(a.Node) >= a.Nodes || a.Nodes > 1<<16:
		return AttachAnswer{}, malformed(what, "nodes", uint64(a.Nodes))
	}
	return a, nil
}

// SegmentRequest asks for memory, registered as a segment (funi.Segment). The answer is
// the same with its kind, and comes with one descriptor.
//
//	u32 base@16, u32 rights@20, u64 bytes@24
type SegmentRequest struct {
	Base   uint32
	Rights funi.Rights
	Bytes  uint64
}

// SegmentDescriptors is how many descriptors an answer to a segment request has.
const SegmentDescriptors = 1

// Encode composes the request.
func (r SegmentRequest) Encode() []byte { return r.encode(KindSegment) }

// EncodeAnswer composes the answer.
func (r SegmentRequest) EncodeAnswer() []byte { return r.encode(KindSegment | AnswerBit) }

func (r SegmentRequest) encode(k Kind) []byte {
	b := encode(k, Done, segmentSize)
	binary.LittleEndian.PutUint32(b[16:], r.Base)
	binary.LittleEndian.PutUint32(b[20:], uint32(r.Rights))
	binary.LittleEndian.PutUint64(b[24:], r.Bytes)
	return b
}

// DecodeSegmentRequest reads the request. It does not check base and size.
func DecodeSegmentRequest(b []byte) (SegmentRequest, error) { return decodeSegment(b, KindSegment) }

// DecodeSegmentAnswer reads the answer. The error of a refused request is a *Refusal.
func DecodeSegmentAnswer(b []byte) (SegmentRequest, error) {
	return decodeSegment(b, KindSegment|AnswerBit)
}

func decodeSegment(b []byte, k Kind) (SegmentRequest, error) {
	if err := fixed(b, k, segmentSize); err != nil {
		return SegmentRequest{}, err
	}
	rights := binary.LittleEndian.Uint32(b[20:])
	if rights&^uint32(funi.Source|funi.Destination|funi.Keyed) != 0 {
		return SegmentRequest{}, malformed("a segment request", "rights", uint64(rights))
	}
	return SegmentRequest{
		Base: binary.LittleEndian.Uint32(b[16:]), Rights: funi.Rights(rights),
		Bytes: binary.LittleEndian.Uint64(b[24:]),
	}, nil
}

// UnsegmentRequest asks to unregister the segment at base. The answer has no body
// (EncodeBody), and is ErrBusy while the card needs the segment.
//
//	u32 base@16, u32 0@20
type UnsegmentRequest struct{ Base uint32 }

// Encode composes the message.
func (r UnsegmentRequest) Encode() []byte {
	b := encode(KindUnsegment, Done, unsegmentSize)
	binary.LittleEndian.PutUint32(b[16:], r.Base)
	return b
}

// DecodeUnsegmentRequest reads the message.
func DecodeUnsegmentRequest(b []byte) (UnsegmentRequest, error) {
	if err := fixed(b, KindUnsegment, unsegmentSize, 20, 24); err != nil {
		return UnsegmentRequest{}, err
	}
	return UnsegmentRequest{Base: binary.LittleEndian.Uint32(b[16:])}, nil
}

// DetachRequest asks to end the context of the connection. The daemon first waits until nothing of
// the context waits in the card (engine.Context.Idle), at most for Linger. The process continues to
// empty its receive queues meanwhile. The answer has no body (EncodeBody). If something was left
// undelivered it is ErrBusy, and the context has ended all the same. A connection that closes
// without this request gives up what is under way.
//
//	u32 linger@16 in milliseconds, u32 0@20
type DetachRequest struct{ Linger time.Duration }

// milliseconds rounds d down, and cuts it to what a field holds.
func milliseconds(d time.Duration) uint32 {
	return uint32(min(max(d.Milliseconds(), 0), math.MaxUint32))
}

// Encode composes the message. Linger is rounded down to milliseconds, and cut to the field.
func (r DetachRequest) Encode() []byte {
	b := encode(KindDetach, Done, detachSize)
	binary.LittleEndian.PutUint32(b[16:], milliseconds(r.Linger))
	return b
}

// DecodeDetachRequest reads the message.
func DecodeDetachRequest(b []byte) (DetachRequest, error) {
	if err := fixed(b, KindDetach, detachSize, 20, 24); err != nil {
		return DetachRequest{}, err
	}
	return DetachRequest{Linger: time.Duration(binary.LittleEndian.Uint32(b[16:])) * time.Millisecond}, nil
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

// Encode composes the message. It returns ErrMalformed for more than MaxNodes cards or none, and
// ErrNoToken for a token of zeros.
func (r JobRequest) Encode() ([]byte, error) {
	if r.Token.Zero() {
		return nil, fmt.Errorf("asking for a job: %w", ErrNoToken)
	}
	if len(r.Cards) == 0 || len(r.Cards) > MaxNodes {
		return nil, fmt.Errorf("asking for a job of %d nodes, not 1 to %d: %w", len(r.Cards), MaxNodes, ErrMalformed)
	}
	b := encode(KindJob, Done, jobRequestSize+2*len(r.Cards))
	binary.LittleEndian.PutUint16(b[16:], r.GID)
	if r.Direct {
		b[18] = 1
	}
	binary.LittleEndian.PutUint32(b[20:], uint32(len(r.Cards)))
	copy(b[24:], r.Token[:])
	for i, c := range r.Cards {
		binary.LittleEndian.PutUint16(b[jobRequestSize+2*i:], c)
	}
	return b, nil
}

// DecodeJobRequest reads the message. It does not check GID and cards. It refuses a token of zeros
// with ErrNoToken, because every other user could name it, too.
func DecodeJobRequest(b []byte) (JobRequest, error) {
	body, err := DecodeBody(b, KindJob)
	if err != nil {
		return JobRequest{}, err
	}
	const what = "a job request"
	if len(body) < jobRequestSize-HeaderSize {
		return JobRequest{}, malformed(what, "length", uint64(len(b)))
	}
	nodes := binary.LittleEndian.Uint32(b[20:])
	if nodes == 0 || uint64(len(b)) != jobRequestSize+2*uint64(nodes) {
		return JobRequest{}, malformed(what, "nodes", uint64(nodes))
	}
	direct := binary.LittleEndian.Uint16(b[18:])
	if direct > 1 {
		return JobRequest{}, malformed(what, "direct", uint64(direct))
	}
	if Token(b[24:56]).Zero() {
		return JobRequest{}, fmt.Errorf("reading a job request: %w", ErrNoToken)
	}
	r := JobRequest{GID: binary.LittleEndian.Uint16(b[16:]), Direct: direct == 1, Token: Token(b[24:56]),
		Cards: make([]uint16, nodes)}
	for i := range r.Cards {
		r.Cards[i] = binary.LittleEndian.Uint16(b[jobRequestSize+2*i:])
	}
	return r, nil
}

// JobAnswer says which group was made.
//
//	u16 gid@16, u16 0@18
type JobAnswer struct{ GID uint16 }

// Encode composes the message.
func (a JobAnswer) Encode() []byte {
	b := encode(KindJob|AnswerBit, Done, jobAnswerSize)
	binary.LittleEndian.PutUint16(b[16:], a.GID)
	return b
}

// DecodeJobAnswer reads the message. The error of a refused request is a *Refusal.
func DecodeJobAnswer(b []byte) (JobAnswer, error) {
	if err := fixed(b, KindJob|AnswerBit, jobAnswerSize, 18, 20); err != nil {
		return JobAnswer{}, err
	}
	return JobAnswer{GID: binary.LittleEndian.Uint16(b[16:])}, nil
}

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
