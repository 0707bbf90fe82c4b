package funi

// This file lets a process wait for a card that runs elsewhere without looking at its
// registers all the time: the process asks to be woken (Arm), looks once more, and sleeps.
//
// Process and card each store before they load (the process: wake, then what is
// published; the card: what it publishes, then wake), so that one of them sees the other.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/funet/funet/uspace/arctic"
)

// ErrDetached reports that the card has ended the context, or is gone itself. Packets in the
// context's queues are no longer sent or delivered.
var ErrDetached = errors.New("funi: the card has detached this context")

// ErrUndelivered reports a process that gave its context up before all that it sent was delivered.
var ErrUndelivered = errors.New("packets were left undelivered")

// Published is the card's progress as the registers of a context say it. If two values are equal,
// the card has done nothing in between. CNTL is the exception: a process that writes it takes
// status bits away, and the card puts the same ones back; see Halted.
type Published struct {
	Delivered [arctic.Levels]uint32 // heads of the receive queues
	Retired   [arctic.Levels]uint32 // tails of the send queues
	Returned  uint32                // head of the return ring
	Lost      uint32                // returns lost
	Notified  uint32                // head of the notification ring
	Completed uint32                // operations completed, silent ones, too: the lower half
	Written   uint32                // writes of others, if the process asks (Interface.Watch)
	Answers   uint32                // turn of the last trigger that was answered
	Control   uint32                // CNTL
	Gone      bool
	Leave     bool
}

// Published reads the card's progress.
func (p *Page) Published() (s Published) {
	for l := range arctic.Levels {
		s.Delivered[l], s.Retired[l] = p.Load(receiveHead[l]), p.Load(sendTail[l])
	}
	s.Returned, s.Lost = atomic.LoadUint32(&p[returnHead]), atomic.LoadUint32(&p[returnsLost])
	s.Notified, s.Completed, s.Written = p.Notified(), p.Completed(), p.Written()
	s.Answers, s.Control = uint32(p.Answers()), p.Load(Control)
	s.Gone, s.Leave = p.Gone(), p.LeaveAsked()
	return s
}

// Arm asks the card to wake the process once, at the next change of what Published says.
// Look at it once more before sleeping.
func (p *Page) Arm() {
	atomic.StoreUint32(&p[wakeWord], atomic.LoadUint32(&p[wakeWord])&wakeWrites|wakeOnce)
}

// Armed reports whether the card has published nothing since Arm.
func (p *Page) Armed() bool { return atomic.LoadUint32(&p[wakeWord])&wakeOnce != 0 }

// Disarm takes Arm back. The card may be waking the process already.
func (p *Page) Disarm() {
	atomic.StoreUint32(&p[wakeWord], atomic.LoadUint32(&p[wakeWord])&wakeWrites)
}

// Halted reports whether the process has set modes of CNTL and the card has halted for all of them.
func (p *Page) Halted() bool {
	v := p.Load(Control)
	// each ready bit is the one above its mode
	return v&UserModes != 0 && v>>1&v&UserModes == v&UserModes
}

// Gone reports whether the card has detached the context.
func (p *Page) Gone() bool { return atomic.LoadUint32(&p[goneWord]) != 0 }

// PutGone makes Gone true. The card calls it, or a program that knows that the card is gone and
// cannot say so itself.
func (p *Page) PutGone() { atomic.StoreUint32(&p[goneWord], 1) }

// LeaveAsked reports whether the card's owner asks the process to move its context to another card.
func (p *Page) LeaveAsked() bool { return atomic.LoadUint32(&p[leaveWord]) != 0 }

// AskLeave asks the process to move its context, or takes that back. Wake the process, too.
func (p *Page) AskLeave(so bool) {
	v := uint32(0)
	if so {
		v = 1
	}
	atomic.StoreUint32(&p[leaveWord], v)
}

// PutWhy says why the card is about to detach the context, in at most 255 bytes; more are cut off.
// Call PutGone after it.
func (p *Page) PutWhy(why string) {
	var text [whyLength]byte
	copy(text[:whyLength-1], why)
	for i := range whyWords {
		atomic.StoreUint32(&p[whyWord+i], binary.NativeEndian.Uint32(text[4*i:]))
	}
}

// Why returns why the card has detached the context, or "" if it did not say.
func (p *Page) Why() string {
	var text [whyLength]byte
	for i := range whyWords {
		binary.NativeEndian.PutUint32(text[4*i:], atomic.LoadUint32(&p[whyWord+i]))
	}
	why, _, _ := bytes.Cut(text[:whyLength-1], []byte{0})
	return string(why)
}

// Err returns nil while the context lives. After that it returns ErrDetached, with the reason that
// the card gives.
func (p *Page) Err() error {
	if !p.Gone() {
		return nil
	}
	if why := p.Why(); why != "" {
		return fmt.Errorf("%w: %s", ErrDetached, why)
	}
	return ErrDetached
}

// Waiting reports whether a message, a return or a notification waits to be taken.
func (i *Interface) Waiting() bool {
	return i.Arrived(Reply)+i.Arrived(Request) > 0 || i.Brought(i.ReturnsLost())
}

// News reports whether anything is in the page for the process: what Waiting and Brought report, or
// the end of the context.
func (i *Interface) News(lost uint32) bool {
	reply, request := &i.receive[Reply], &i.receive[Request]
	return (atomic.LoadUint32(reply.hd)-reply.tail)&reply.mask != 0 ||
		(atomic.LoadUint32(request.hd)-request.tail)&request.mask != 0 || i.Brought(lost) ||
		atomic.LoadUint32(&i.page[goneWord]) != 0
}

// Gone reports whether the card has detached the context. Then all calls that wait for the card
// wait for ever.
func (i *Interface) Gone() bool { return i.page.Gone() }

// Err returns why the card has detached the context, ErrDetached, or nil while it has not.
func (i *Interface) Err() error { return i.page.Err() }
