package virtni

// This file has two-sided communication (Froening's thesis, sections 2.3.3, 2.4.1, 4.1.4 to 4.1.7
// and 4.2.3 to 4.2.5): Send and Receive in all its forms.

import (
	"errors"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

// MaxSendWords is the most words of a fast send.
const MaxSendWords = 5

// ErrPosted reports a posted receive for which the queue has no descriptor, or a port that does not
// receive so.
var ErrPosted = errors.New("virtni: no free descriptor for a posted receive; take notifications, or open a longer queue (OpenPosted)")

// receiving is where a port receives.
type receiving struct {
	ring    []byte           // the receive data region; nil: there is none
	reader  *funi.RingReader // of ring
	units   uint32           // of the ring to be given back
	giving  uint32           // of those, the ones in the last trigger
	queue   []byte           // of posted receives; nil: there is none
	buffers [][]byte         // of the queue's descriptors, by number modulo how many there are
	posted  uint32           // descriptors
	taken   uint32           // of those, the ones that notifications came for
}

// Send composes a message of memory of the port, which must not change until it is complete. Errors
// are those of Put. The target decides how it receives (section 2.3.3).
func (p *Port) Send(v *VCI) error {
	return p.compose(v, CommandSend, v.Ack, func() (rma.ID, error) {
		w := v.Origin
		switch {
		case w == nil || w.Memory == nil:
			return 0, CodeOriginWindow
		case v.Bytes < 0 || v.Bytes > len(w.Memory) || v.Offset > uint64(len(w.Memory)-v.Bytes):
			return 0, CodeOriginBounds
		}
		return p.end.Send(v.VPID, w.Memory[v.Offset:][:v.Bytes], v.UserTag, v.APITag, rma.With{Ack: v.Ack})
	})
}

// FastSend composes a message of up to MaxSendWords words of the instruction. Errors are those of
// Put.
func (p *Port) FastSend(v *VCI) error {
	return p.compose(v, CommandFastSend|Command(len(v.Words)&7), v.Ack, func() (rma.ID, error) {
		if len(v.Words) > MaxSendWords {
			return 0, CodeCommand
		}
		var b [MaxSendWords * WordBytes]byte
		return p.end.Send(v.VPID, b[:putWords(b[:], v.Words)], v.UserTag, v.APITag, rma.With{Ack: v.Ack})
	})
}

// OpenReceive lets messages come, in place of how they came before: those of up to MaxSendWords
// words in their notifications, longer ones into the ring (the receive data region). The ring is
// memory of a segment with the right funi.Keyed, of a power of two of bytes, or nil: then longer
// messages are refused. At most credit messages are unread; further ones wait at their senders.
// Errors are those of rma.Endpoint.OpenReceive.
func (p *Port) OpenReceive(ring []byte, credit int) error {
	mode := funi.ReceiveRing
	if ring == nil {
		mode = funi.ReceiveFast
	}
	if err := p.end.OpenReceive(mode, ring, credit); err != nil {
		return err
	}
	p.gives(credit)
	if p.receiving = (receiving{ring: ring}); ring != nil {
		p.receiving.reader = funi.NewRingReader(uint32(len(ring)))
	}
	return nil
}

// OpenPosted is OpenReceive with buffers that the process posts (Post). The queue of descriptors is
// memory as the ring's, of 16 bytes for each.
func (p *Port) OpenPosted(queue []byte, credit int) error {
	if err := p.end.OpenReceive(funi.ReceivePosted, queue, credit); err != nil {
		return err
	}
	p.gives(credit)
	p.receiving = receiving{queue: queue, buffers: make([][]byte, len(queue)/funi.PostedBytes)}
	return nil
}

// CloseReceive ends receiving. Errors are those of rma.Endpoint.CloseReceive.
func (p *Port) CloseReceive() error {
	err := p.end.CloseReceive()
	if err == nil {
		p.receiving = receiving{}
	}
	return err
}

// Post posts a buffer for one message, in a segment with the right funi.Keyed. Messages of more
// than MaxSendWords words take the buffers in the order in which they were posted. A longer message
// than the buffer is cut, and both ends hear of it (CodeTruncated). Errors are ErrPosted,
// rma.ErrMemory, and those of drive.
func (p *Port) Post(buffer []byte) error {
	r := &p.receiving
	if r.queue == nil || r.posted-r.taken >= uint32(len(r.buffers)) {
		return ErrPosted
	}
	address, err := p.end.Address(buffer)
	if err != nil {
		return err
	}
	funi.PutPosted(r.queue, r.posted, address, uint32(len(buffer)))
	_, s, err := p.trigger(funi.TriggerReceive, 1)
	if err == nil {
		err = s.Err()
	}
	if err != nil {
		return err
	}
	r.buffers[int(r.posted)&(len(r.buffers)-1)] = buffer
	r.posted++
	return nil
}

// Release says that the process needs the Data of a notification with NotifyReceive no more. Its
// room in the ring is given back by a trigger when a call waits, and when earlier messages were
// released, too.
func (p *Port) Release(n *Notification) {
	if r := &p.receiving; n.Command == NotifyReceive && r.reader != nil {
		r.units += r.reader.Done(&n.message)
		n.Data = nil
	}
}

// giveUnits gives room of the ring back by a trigger, and reports whether there was some. The last
// trigger must have been answered.
func (p *Port) giveUnits() bool {
	r := &p.receiving
	if r.giving = r.units; r.units == 0 {
		return false
	}
	r.units = 0
	p.iface.Trigger(funi.TriggerReceive, r.giving)
	return true
}

// arrived makes the notification of a message.
func (p *Port) arrived(e *funi.Notification) {
	r, m := &p.receiving, &e.Message
	n := Notification{VPID: e.Source, UserTag: e.Tag, APITag: m.APITag, Bytes: int(m.Bytes), message: *m}
	if e.Reason != arctic.ReasonNone {
		n.Err = &Error{Code: CodeOf(e.Reason), Command: CommandSend, Target: e.Source, Reason: e.Reason}
	}
	switch e.Kind {
	case funi.NoteFastReceive:
		n.Command, n.Count = NotifyFastReceive, (n.Bytes+WordBytes-1)/WordBytes
		getWords(n.Words[:], m.Data[:])
	case funi.NoteReceive:
		n.Command = NotifyReceive
		at := int(m.Offset) * funi.ReceiveUnit & max(len(r.ring)-1, 0)
		switch {
		case n.Err != nil || n.Bytes > len(r.ring)-at: // of a ring that was closed
			p.Release(&n)
		default:
			n.Data = r.ring[at : at+n.Bytes]
		}
	case funi.NotePostedReceive:
		n.Command = NotifyPosted
		if e.Reason == arctic.ReasonWindow { // no message came
			n.Err = &Error{Code: CodePostedDescriptor, Command: CommandSend, Reason: e.Reason}
		}
		if len(r.buffers) > 0 {
			b := r.buffers[int(m.Descriptor)&(len(r.buffers)-1)]
			n.Data = b[:min(int(m.Stored), len(b))]
			r.taken++
		}
	}
	p.keep(n)
}
