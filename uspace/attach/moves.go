package attach

// This file has the messages of a move to another card. A process asks the daemon there for room
// (KindArrive, as for a context). It asks its present daemon to let the context go (KindLeave), and
// hands the image on (KindImage). Images are longer than messages.

import (
	"encoding/binary"
	"time"
)

const (
	imageRequestSize = 32 // without the bytes

	// MaxImagePart is how many bytes of an image a message has room for.
	MaxImagePart = MaxMessage - imageRequestSize
)

// LeaveRequest asks to move the connection's context to another card. The daemon waits until
// everything that the context has sent is accepted, at most for Patience.
//
//	u16 card@16, u16 0@18, u32 patience@20 in milliseconds
//
// The answer is ErrBusy when something sent is not accepted by then, and the context is as it was.
type LeaveRequest struct {
	Card     uint16
	Patience time.Duration
}

type leaveRequest struct {
	Card, _  uint16
	Patience milliseconds
}

// Encode composes the message. Patience is rounded down to milliseconds, and cut to the field.
func (r LeaveRequest) Encode() []byte {
	return compose(KindLeave, leaveRequest{Card: r.Card, Patience: inMilliseconds(r.Patience)})
}

// DecodeLeaveRequest reads the message.
func DecodeLeaveRequest(b []byte) (LeaveRequest, error) {
	r, err := read[leaveRequest](b, KindLeave)
	return LeaveRequest{r.Card, r.Patience.duration()}, err
}

// LeaveAnswer says that the context has left its card. As many messages follow as its image needs,
// each a body of up to MaxImagePart bytes.
//
//	u64 image@16, u32 untold@24, u32 0@28, u64 pause@32
type LeaveAnswer struct {
	Image uint64 // bytes
	// Untold is how many cards of the group have yet to be told where the process is
	Untold uint32
	_      uint32
	Pause  time.Duration // from the moment when the card took nothing for the context any more
}

// Encode composes the message.
func (a LeaveAnswer) Encode() []byte { return compose(KindLeave|AnswerBit, a) }

// DecodeLeaveAnswer reads the message. The error of a refused request is a *Refusal.
func DecodeLeaveAnswer(b []byte) (LeaveAnswer, error) {
	a, err := read[LeaveAnswer](b, KindLeave|AnswerBit)
	if a.Image > 1<<30 || a.Pause < 0 {
		return LeaveAnswer{}, malformed("an answer to a leave request", "image", a.Image)
	}
	return a, err
}

// ImageRequest is a part of an image for the connection's context, which is arriving. Parts follow
// each other from the first byte on. The answer has no body. The answer to the last part says that
// the context goes on.
//
//	u64 total@16, u64 offset@24, bytes@32
type ImageRequest struct {
	Total, Offset uint64
	Part          []byte // 1 to MaxImagePart bytes
}

// Encode composes the message.
func (r ImageRequest) Encode() []byte {
	return compose(KindImage, r.Total, r.Offset, r.Part)
}

// DecodeImageRequest reads the message. The part aliases b.
func DecodeImageRequest(b []byte) (ImageRequest, error) {
	body, err := DecodeBody(b, KindImage)
	if err != nil {
		return ImageRequest{}, err
	}
	if len(body) <= imageRequestSize-HeaderSize {
		return ImageRequest{}, malformed("a part of an image", "length", len(b))
	}
	r := ImageRequest{Total: binary.LittleEndian.Uint64(b[16:]), Offset: binary.LittleEndian.Uint64(b[24:]),
		Part: b[imageRequestSize:]}
	if r.Offset > r.Total || uint64(len(r.Part)) > r.Total-r.Offset {
		return ImageRequest{}, malformed("a part of an image", "offset", r.Offset)
	}
	return r, nil
}

// Whither is the JSON of a request of KindWhither and of its answer. With an empty object a process
// asks where it is to move, and with Failed it says why it did not.
type Whither struct {
	Socket string `json:"socket,omitempty"` // of the daemon to move to
	Failed string `json:"failed,omitempty"`
}
