package virtni

// This file composes instructions (Froening's thesis, sections 2.4.1 and 4.2.3). Each is one slot
// of the work queue, and does nothing until it is issued (Port.Issue).

import (
	"errors"
	"math/bits"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/rma"
)

const (
	WordBytes    = 8 // a word of 64 bits, the unit of all instructions but the misaligned put
	MaxFastWords = 3 // the most words of a fast put or a fast get
)

// VCI is a virtual communication instruction. The first fields are those of all instructions, the
// others are for those that they name. The port reads it during the call only.
type VCI struct {
	Target
	UserTag uint64 // comes back in the notification, and travels to the target if that is told
	APITag  uint32 // comes back in the notification
	// Ack asks for a notification when a put or a send has arrived. Without it only a failure is
	// reported, by Quiet. Gets and atomic operations always make one.
	Ack bool
	// Notify tells the target's process when a put is there, with the user tag (section 2.3.4,
	// synchronising operations). The window must permit it (rma.Options.Notifications). Other
	// instructions cannot (ErrNotify).
	Notify bool

	// Ordered composes the instruction when the port's earlier ones to the same port are complete,
	// and so issues and waits for those. It is the thesis's ordering key (section 3.2.6) for a
	// context and a destination.
	Ordered bool

	// Put, Get and Send: the memory of this port, Bytes long, from Offset on in a window of its
	// own. But for Send, both and the target's address are multiples of 8. Nothing looks at a lock
	// of the own window.
	Origin *Window
	Offset uint64
	Bytes  int

	// Words are those of a fast put, up to MaxFastWords, of a misaligned put, one, or of a fast
	// send, up to MaxSendWords.
	Words  []uint64
	Count  int    // words that a fast get reads, up to MaxFastWords
	Enable uint8  // of a misaligned put: bit i enables byte i of the word
	Addend uint64 // of a fetch-and-add
	// Compare and Swap are those of a compare-and-swap.
	Compare, Swap uint64

	// Index is set by the port: the number of the instruction, from 0 on, modulo 2^32. It comes
	// back in the notification.
	Index uint32
}

var (
	// ErrUnread reports that as many instructions as the notification queue has room for are under
	// way, or complete and not taken.
	ErrUnread = errors.New("virtni: completions fill the notification queue; take them (Notification)")
	// ErrNotify reports an instruction that cannot tell the target.
	ErrNotify = errors.New("virtni: only a put of bytes that lie together tells the target; let a fast put of no words follow")
)

// instruction is what the port keeps of an instruction until its notification is taken.
type instruction struct {
	index            uint32
	command          Command
	vpid             uint16
	user             uint64
	api              uint32
	operand, compare uint64 // of an atomic operation: the addend, or what is swapped in
}

// Put composes a put of memory of the port. Up to 64 bytes, 52 with Notify, are copied at once.
// More must not change until the put is complete, and lie in a segment with the right funi.Source.
// Errors are *Error, ErrUnread and those of drive.
func (p *Port) Put(v *VCI) error {
	return p.compose(v, CommandPut, v.Ack, func() (rma.ID, error) {
		memory, err := v.memory()
		if err != nil {
			return 0, err
		}
		return p.end.Put(v.remote(), memory, v.with())
	})
}

// Get composes a get into memory of the port, which must be left alone until the get is complete.
// Errors are those of Put.
func (p *Port) Get(v *VCI) error {
	return p.compose(v, CommandGet, true, func() (rma.ID, error) {
		memory, err := v.memory()
		if err != nil {
			return 0, err
		}
		return p.end.Get(v.remote(), memory, rma.With{})
	})
}

// memory returns the memory of a put or get, or the code of what is wrong with it.
func (v *VCI) memory() ([]byte, error) {
	w := v.Origin
	switch {
	case w == nil || w.Memory == nil:
		return nil, CodeOriginWindow
	case v.Bytes < 0 || v.Bytes > len(w.Memory) || v.Offset > uint64(len(w.Memory)-v.Bytes):
		return nil, CodeOriginBounds
	case v.Offset%WordBytes != 0:
		return nil, CodeOriginOffset
	case v.Bytes%WordBytes != 0:
		return nil, CodeOriginLength
	case v.Address%WordBytes != 0:
		return nil, CodeTargetOffset
	}
	return w.Memory[v.Offset:][:v.Bytes], nil
}

// FastPut composes a put of up to MaxFastWords words of the instruction. Errors are those of Put.
func (p *Port) FastPut(v *VCI) error {
	return p.compose(v, CommandFastPut|Command(len(v.Words)&3), v.Ack, func() (rma.ID, error) {
		switch {
		case len(v.Words) > MaxFastWords:
			return 0, CodeCommand
		case v.Address%WordBytes != 0:
			return 0, CodeTargetOffset
		}
		var b [MaxFastWords * WordBytes]byte
		return p.end.PutNow(v.remote(), b[:putWords(b[:], v.Words)], v.with())
	})
}

// FastGet composes a get of 1 to MaxFastWords words, which its notification has. Each word is read
// at once. Errors are those of Put.
func (p *Port) FastGet(v *VCI) error {
	return p.compose(v, CommandFastGet|Command(v.Count&3), true, func() (rma.ID, error) {
		if v.Count < 1 || v.Count > MaxFastWords {
			return 0, CodeCommand
		}
		return p.end.Apply(v.remote(), arctic.RemoteRead, arctic.Uint64, nil, v.Count*WordBytes, rma.With{})
	})
}

// MisalignedPut composes a put of those bytes of one word that are enabled. It is one packet, and
// no other byte is written: enabled bytes that lie together are put, others change the word at once
// under a mask. Errors are those of Put.
func (p *Port) MisalignedPut(v *VCI) error {
	first := bits.TrailingZeros8(v.Enable)
	n := bits.OnesCount8(v.Enable)
	together := n == bits.Len8(v.Enable>>first)
	return p.compose(v, CommandMisalignedPut, v.Ack, func() (rma.ID, error) {
		switch {
		case len(v.Words) != 1:
			return 0, CodeCommand
		case v.Address%WordBytes != 0:
			return 0, CodeTargetOffset
		case v.Enable == 0:
			return p.end.PutNow(v.remote(), nil, v.with())
		case together:
			var b [WordBytes]byte
			putWords(b[:], v.Words)
			return p.end.PutNow(v.At(uint64(first)).remote(), b[first:first+n], v.with())
		case v.Notify:
			return 0, ErrNotify
		}
		return p.end.PutMasked(v.remote(), v.Words[0], mask(v.Enable), v.with())
	})
}

// mask returns a word in which all bits of the enabled bytes are set.
func mask(enable uint8) (m uint64) {
	for i := range WordBytes {
		if enable>>i&1 != 0 {
			m |= 0xff << (8 * i)
		}
	}
	return m
}

// FetchAndAdd composes an addition to a word at the target. Its notification has the word's new
// value. Errors are those of Put.
func (p *Port) FetchAndAdd(v *VCI) error {
	return p.compose(v, CommandFetchAndAdd, true, func() (rma.ID, error) { return p.end.Add(v.remote(), v.Addend) })
}

// CompareAndSwap composes a swap of a word at the target if it equals Compare. Its notification has
// Swap if that was stored, or else the word's value. Errors are those of Put.
func (p *Port) CompareAndSwap(v *VCI) error {
	return p.compose(v, CommandCompareSwap, true, func() (rma.ID, error) {
		return p.end.CompareSwap(v.remote(), v.Compare, v.Swap)
	})
}

// compose composes an instruction. reports says that its completion makes a notification.
func (p *Port) compose(v *VCI, c Command, reports bool, issue func() (rma.ID, error)) error {
	if reports && p.owed >= max(len(p.instructions)-1, 1) {
		return ErrUnread
	}
	if v.Ordered {
		if err := p.end.Fence(v.VPID); err != nil {
			return p.failed(err, c)
		}
	}
	switch c.Base() {
	case CommandGet, CommandFastGet, CommandFetchAndAdd, CommandCompareSwap:
		if v.Notify {
			return ErrNotify
		}
	default:
		if v.Ack {
			c |= commandAckWanted
		}
	}
	id, err := issue()
	if err != nil {
		return p.refusal(v, c, err)
	}
	v.Index = p.composed
	p.composed++
	if id != 0 {
		operand := v.Addend
		if c == CommandCompareSwap {
			operand = v.Swap
		}
		p.owed++
		p.instructions[int(id)&(len(p.instructions)-1)] = instruction{index: v.Index, command: c, vpid: v.VPID,
			user: v.UserTag, api: v.APITag, operand: operand, compare: v.Compare}
	}
	return nil
}

// with returns what a put asks for besides.
func (v *VCI) with() rma.With { return rma.With{Ack: v.Ack, Notify: v.Notify, Tag: v.UserTag} }
