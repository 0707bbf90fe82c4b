package virtni

// This file has notifications (Froening's thesis, sections 4.2.4 and 4.2.5), and what becomes of
// errors.

import (
	"encoding/binary"
	"errors"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

// MaxWords is the most words that a notification has.
const MaxWords = 5

// Notification is an entry of the notification queue.
type Notification struct {
	Command Command // NotifyCompletion and so on
	// Err is an *Error, or nil: the instruction was carried out.
	Err error
	// VPID is the other port: the target of an instruction, or the origin of an access or a
	// message.
	VPID    uint16
	UserTag uint64
	APITag  uint32

	// With NotifyCompletion: the instruction's command and number.
	Of    Command
	Index uint32
	// Words has Count words: of a fast get, the result of an atomic operation, or a message.
	Words [MaxWords]uint64
	Count int

	// With NotifyRemoteAccess: the window, and the address of the first byte of the put's last
	// packet. Absent says that nothing was put: the window is suspended, and the other port waits
	// until it is resumed.
	Window  uint16
	Address uint64
	Absent  bool

	// Of a message, Bytes as its sender sent it. With NotifyFastReceive they are in Words. With
	// NotifyReceive Data is in the ring, until Release. With NotifyPosted it is in the buffer that
	// was posted, and shorter than Bytes if Err is CodeTruncated.
	Bytes   int
	Data    []byte
	message funi.Message

	Barrier uint8 // With NotifyBarrier: its number.
}

// Notification takes a notification out of the queue, or returns false. Accesses of others,
// completions, and what else the card reports come each in the order in which the card reported
// them. It does not wait.
func (p *Port) Notification(n *Notification) bool {
	var a rma.Notification
	var r rma.Result
	switch {
	case p.end.Notification(&a): // reads what the card reports
		*n = Notification{Command: NotifyRemoteAccess, VPID: a.Node, UserTag: a.Tag, Window: a.Window,
			Address: a.Address, Absent: a.Absent}
	case p.first < len(p.inbox):
		*n = p.inbox[p.first]
		if p.first++; p.first == len(p.inbox) {
			p.inbox, p.first = p.inbox[:0], 0
		}
	case p.end.Next(&r):
		p.complete(n, &r)
	default:
		return false
	}
	return true
}

// Wait issues what was composed, and takes the next notification when there is one. Errors are
// those of drive.
func (p *Port) Wait(n *Notification) error {
	for !p.Notification(n) {
		if err := p.step(); err != nil {
			return err
		}
	}
	return nil
}

// complete makes the notification of an instruction.
func (p *Port) complete(n *Notification, r *rma.Result) {
	v := &p.instructions[int(r.ID)&(len(p.instructions)-1)]
	p.owed--
	*n = Notification{Command: NotifyCompletion, Of: v.command, Index: v.index, VPID: v.vpid, UserTag: v.user,
		APITag: v.api, Err: p.failed(r.Err, v.command)}
	if r.Err != nil {
		return
	}
	switch v.command.Base() {
	case CommandFastGet:
		n.Count = v.command.Words()
		getWords(n.Words[:n.Count], r.Answer[:])
	case CommandFetchAndAdd:
		n.Words[0], n.Count = r.Uint64()+v.operand, 1
	case CommandCompareSwap:
		if n.Words[0], n.Count = r.Uint64(), 1; n.Words[0] == v.compare {
			n.Words[0] = v.operand
		}
	}
}

// putWords writes words to b, lowest byte first, and returns how many bytes they take.
func putWords(b []byte, words []uint64) int {
	for i, w := range words {
		binary.LittleEndian.PutUint64(b[WordBytes*i:], w)
	}
	return WordBytes * len(words)
}

// getWords reads words from b.
func getWords(words []uint64, b []byte) {
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(b[WordBytes*i:])
	}
}

// entry takes an entry of the ring that is not of package rma.
func (p *Port) entry(e *funi.Notification) {
	switch e.Kind {
	case funi.NotePointers:
		p.pointers, p.told = e.Pointers, true
	case funi.NoteFastReceive, funi.NoteReceive, funi.NotePostedReceive:
		p.arrived(e)
	case funi.NoteBarrier:
		p.end.Beside--
		n := Notification{Command: NotifyBarrier, Barrier: uint8(e.Cookie)}
		if e.Reason != arctic.ReasonNone {
			n.Err = &Error{Code: CodeOf(e.Reason), Command: NotifyBarrier, Target: e.Source, Reason: e.Reason,
				Cause: ErrBarrier}
		}
		p.keep(n)
	}
}

// keep puts a notification into the inbox.
func (p *Port) keep(n Notification) {
	if p.first > 0 && len(p.inbox) == cap(p.inbox) {
		p.inbox, p.first = p.inbox[:copy(p.inbox, p.inbox[p.first:])], 0
	}
	p.inbox = append(p.inbox, n)
}

// failed makes an *Error of a failure that package rma reports, and leaves other errors alone.
func (p *Port) failed(err error, c Command) error {
	if err == nil {
		return nil
	}
	var e *rma.Error
	if !errors.As(err, &e) {
		return err
	}
	code := CodeOf(e.Reason)
	if e.Reason == arctic.ReasonNone { // nobody knows why it came back
		code = CodeBroken
	}
	return &Error{Code: code, Command: c, Target: e.Node, Reason: e.Reason, Cause: err}
}

// refusal makes an *Error of what was wrong with an instruction, and leaves other errors alone.
func (p *Port) refusal(v *VCI, c Command, err error) error {
	var code Code
	switch {
	case errors.As(err, &code):
		return &Error{Code: code, Command: c, Target: v.VPID}
	case errors.Is(err, rma.ErrMemory):
		return &Error{Code: CodeOriginBounds, Command: c, Target: v.VPID, Cause: err}
	case errors.Is(err, rma.ErrTooLong):
		return &Error{Code: CodeTargetBounds, Command: c, Target: v.VPID, Cause: err}
	}
	return p.failed(err, c)
}
