package funi

// This file has triggers (Froening's thesis, sections 3.4.2 to 3.4.4 and 4.2.7): the operation with
// which a process issues work and hears in the same operation whether the card has taken it.
//
// The thesis's trigger is a load from a device, whose address is the command and whose result is
// the answer. A load from memory has no side effect. So here a trigger is a word of the register
// page in which the process stores the command, and a word in which it waits for the card's answer.
// The page tells the card who asks, as the number of the page does there.
//
// A process that issues by triggers says so before it starts (Page.IssueByTrigger). From then on
// the card takes from its request send queue only slots that it has accepted in an answer. HD of
// that queue is the card's. When the queue halts, the card stores there what it has accepted. The
// process's read pointer of the notification ring counts only in a trigger, too. So the card reads
// no pointer of such a process, but for the receive queues.
//
// A trigger, 64 bits at 0x7c0, and its answer, 64 bits at 0x3a0:
//
//	63:32  turn, one more than that of the trigger before: it tells two equal commands apart
//	31:28  command, or in the answer a TriggerStatus
//	23:0   parameter, or in the answer a count
//
// A process has one trigger under way. Threads that have a trigger line each need no lock between
// them, and share no queue.

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// TriggerCommand is what a trigger asks for (thesis 4.2.7, table 4.3).
type TriggerCommand uint8

// The commands.
const (
	// TriggerIssue issues as many committed slots of the request send queue as the parameter says,
	// from 1 to MaxIssue.
	TriggerIssue TriggerCommand = iota
	// TriggerPointers asks for a notification with the pointers that the card has (NotePointers).
	TriggerPointers
	// TriggerNotesRead gives as many entries of the notification ring back as the parameter says;
	// of more than MaxNotesRead only so many, and says so (TriggerPartial).
	TriggerNotesRead
	// TriggerReceive gives as many units of the receive ring back as the parameter says, or says
	// that so many more buffers are posted (send.go).
	TriggerReceive
	// TriggerBarrier says that the process has reached a barrier (Barrier). One NoteBarrier
	// follows, when all members have reached it, or when that will not happen.
	TriggerBarrier
)

const (
	MaxBarriers = 32      // barriers of a group: the thesis's parameter has 5 bits
	MaxMembers  = 1 << 16 // the most members of a barrier

	barrierMembers = 5 // the first bit of the members, less one, in the parameter
)

// Barrier returns the parameter of TriggerBarrier. The barrier's number is below MaxBarriers. Its
// members are the nodes from 0 up to, and without, the number of members, 1 to MaxMembers. All of
// them name the same number of members.
func Barrier(number uint8, members int) uint32 {
	return uint32(number)&(MaxBarriers-1) | uint32(members-1)<<barrierMembers
}

// ReadBarrier decodes the parameter of TriggerBarrier, or returns false.
func ReadBarrier(parameter uint32) (number uint32, members int, ok bool) {
	members = int(parameter>>barrierMembers) + 1
	return parameter & (MaxBarriers - 1), members, members <= MaxMembers
}

// TriggerStatus is the card's answer to a trigger (thesis 4.2.7, table 4.4).
type TriggerStatus uint8

// The answers.
const (
	TriggerDone TriggerStatus = iota // the card has done it, or has taken all slots
	// TriggerPartial says that the card has taken only as many slots, or notifications, as the
	// count says. If the queue has room for no more, the rest can be issued when the card has given
	// slots back.
	TriggerPartial
	// TriggerFull says that the conditional store buffer has no room for this user's trigger, or
	// the notification ring none for the pointers. Nothing was done; try again.
	TriggerFull
	TriggerInvalid // there is no such command, or none with that parameter
	// TriggerBurst says that a turn was skipped: another trigger was stored before this one was
	// answered. Nothing was done.
	TriggerBurst
	TriggerForbidden // the context has nothing that the command is about
	TriggerDisabled  // the send queues are halted
	triggerStatuses
)

const (
	MaxIssue     = 31   // the most slots that one trigger issues: the thesis's parameter has 5 bits
	MaxNotesRead = 1024 // the most notifications that one gives back

	triggerAnswerWord = 0x3a0 / 4
	triggerWord       = 0x7c0 / 4
	issueByTrigger    = 0x7c8 / 4

	triggerCommandShift = 28
	triggerParameter    = 1<<24 - 1
)

// ErrTrigger reports a trigger that the card has not carried out. The error says which answer it
// gave. With TriggerFull it helps to try again.
var ErrTrigger = errors.New("funi: the card has not carried out the trigger")

var triggerTexts = [triggerStatuses]string{"done", "partially executed", "the conditional store buffer is full; try again",
	"there is no such command", "a trigger was stored before the last one was answered", "the context may not do that",
	"the send queues are halted"}

// String returns the meaning of the answer.
func (s TriggerStatus) String() string {
	if s < triggerStatuses {
		return triggerTexts[s]
	}
	return fmt.Sprintf("answer %d, of another version", uint8(s))
}

// Err returns nil for TriggerDone and TriggerPartial. For other answers it returns an error that
// wraps ErrTrigger.
func (s TriggerStatus) Err() error {
	if s <= TriggerPartial {
		return nil
	}
	return fmt.Errorf("%w: %v", ErrTrigger, s)
}

// word64 returns two words of the page as one. The first is even.
func (p *Page) word64(n int) *uint64 { return (*uint64)(unsafe.Pointer(&p[n])) }

// IssueByTrigger says whether the process issues requests by triggers. It counts when the send
// queues begin: call it before Initialize, Start or Resize.
func (p *Page) IssueByTrigger(so bool) {
	v := uint32(0)
	if so {
		v = 1
	}
	atomic.StoreUint32(&p[issueByTrigger], v)
}

// triggers reports what IssueByTrigger has said.
func (p *Page) triggers() bool { return atomic.LoadUint32(&p[issueByTrigger]) == 1 }

// Triggered reports whether a trigger has not been answered.
func (p *Page) Triggered() bool {
	return p.triggers() && atomic.LoadUint64(p.word64(triggerWord))>>32 != p.Answers()
}

// Answers returns the turn of the last trigger that the card has answered.
func (p *Page) Answers() uint64 { return atomic.LoadUint64(p.word64(triggerAnswerWord)) >> 32 }

// Trigger stores a trigger: a command and its parameter, of 24 bits. Wait for the answer
// (Interface.TriggerAnswer) before the next one.
func (i *Interface) Trigger(c TriggerCommand, parameter uint32) {
	i.turn++
	i.asked = c
	atomic.StoreUint64(i.page.word64(triggerWord), uint64(i.turn)<<32|uint64(c)<<triggerCommandShift|
		uint64(parameter&triggerParameter))
	if n := atomic.LoadUint32(&i.page[asleepWord]); n != 0 {
		i.memory.rouse(n)
	}
}

// TriggerAnswer returns the answer to the last trigger, or false while there is none. Of
// TriggerIssue it returns how many slots the card has taken.
func (i *Interface) TriggerAnswer() (count int, s TriggerStatus, ok bool) {
	w := atomic.LoadUint64(i.page.word64(triggerAnswerWord))
	if uint32(w>>32) != i.turn {
		return 0, 0, false
	}
	count, s = int(w&triggerParameter), TriggerStatus(w>>triggerCommandShift&0xf)
	if s <= TriggerPartial {
		switch i.asked {
		case TriggerIssue:
			i.issued = (i.issued + uint32(count)) & i.send[Request].mask
		case TriggerNotesRead:
			i.given += uint32(count)
		}
	}
	i.asked = TriggerPointers // what was answered is counted once
	return count, s, true
}

// Issue triggers what waits, if the last trigger has been answered: it gives notifications back
// that were read, or issues slots that were committed. It reports whether it has stored a trigger.
// A program that knows nothing of triggers goes on as before if its drive function calls Issue.
func (i *Interface) Issue() bool {
	if _, _, answered := i.TriggerAnswer(); !answered || i.modes&CSQM != 0 {
		return false
	}
	if i.GiveNotes() {
		return true
	}
	if n := i.Unissued(); n > 0 {
		i.Trigger(TriggerIssue, uint32(min(n, MaxIssue)))
		return true
	}
	return false
}

// Ungiven returns how many entries of the notification ring the process has read and not given
// back. Each takes a place of the ring. It is 0 for a process that does not issue by triggers.
func (i *Interface) Ungiven() int {
	if !i.page.triggers() {
		return 0
	}
	i.TriggerAnswer() // else a process that finds no room would sleep although it has some now
	return int(i.notes - i.given)
}

// GiveNotes gives the notifications that were read back by a trigger. It reports whether it has
// stored one; the last trigger must have been answered.
func (i *Interface) GiveNotes() bool {
	n := i.notes - i.given
	if n > 0 {
		i.Trigger(TriggerNotesRead, min(n, triggerParameter))
	}
	return n > 0
}

// IssueByTrigger makes a process that has begun issue by triggers from now on. It halts the queues
// as Resize does, whose errors it returns; then nothing has changed.
func (i *Interface) IssueByTrigger(drive func() error) error {
	i.page.IssueByTrigger(true)
	if err := i.Resize(i.Slots(), drive); err != nil {
		i.page.IssueByTrigger(false)
		return fmt.Errorf("beginning to issue by triggers: %w", err)
	}
	i.given = i.notes
	return nil
}

// Unissued returns how many slots of the request send queue are committed and not issued. It is for
// a process that issues by triggers. After Resize, slots that the card had not taken have to be
// issued again.
func (i *Interface) Unissued() int {
	q := &i.send[Request]
	return int((q.head - i.issued) & q.mask)
}

// Pointers are the card's pointers of a process that issues by triggers, when it took the trigger.
// The first two are indices of slots of the request send queue, the others count entries of the
// notification ring.
type Pointers struct {
	Issued    uint32 // behind the last slot that it has accepted
	Retired   uint32 // behind the last slot that it has given back, as far as the process was told
	Notified  uint32 // entries before the one with the pointers
	NotesRead uint32 // entries that the process has given back
}

// The card's end.

// trigger is what the card keeps for a process that issues by triggers. None of it is read from the
// process's memory again.
type trigger struct {
	on       bool
	turn     uint32 // the last that was answered
	accepted uint32 // head of the request send queue: what precedes it was accepted
	notes    uint32 // entries of the notification ring that the process has given back
}

// latchTrigger takes over how the process issues, and the pointers that it begins with. They are
// those of haltTrigger, unless the process has begun anew; wrong ones harm that process alone.
func (c *Card) latchTrigger() {
	t := &c.trigger
	if t.on = c.page.triggers(); !t.on {
		return
	}
	q := &c.send[Request]
	t.turn, t.notes = uint32(c.page.Answers()), atomic.LoadUint32(&c.page[notesTail])
	t.accepted = atomic.LoadUint32(q.hd) & q.mask
	q.hd = &t.accepted
}

// Triggers reports whether the process issues by triggers.
func (c *Card) Triggers() bool { return c.trigger.on }

// Triggered returns the trigger that has not been answered, or false. burst says that a turn was
// skipped. Answer it with AnswerTrigger.
func (c *Card) Triggered() (command TriggerCommand, parameter uint32, burst, ok bool) {
	w := atomic.LoadUint64(c.page.word64(triggerWord))
	turn := uint32(w >> 32)
	if turn == c.trigger.turn {
		return 0, 0, false, false
	}
	burst = turn != c.trigger.turn+1
	c.trigger.turn = turn
	return TriggerCommand(w >> triggerCommandShift & 0xf), uint32(w & triggerParameter), burst, true
}

// AnswerTrigger answers the trigger that Triggered returned last.
func (c *Card) AnswerTrigger(s TriggerStatus, count int) {
	atomic.StoreUint64(c.page.word64(triggerAnswerWord), uint64(c.trigger.turn)<<32|uint64(s)<<triggerCommandShift|
		uint64(count))
	c.changed = true
}

// Issuable returns how many more slots the process can issue when the card has accepted, but not
// yet counted, that many.
func (c *Card) Issuable(waiting int) int {
	q := &c.send[Request]
	return int(q.mask) - int((c.trigger.accepted-q.tail)&q.mask) - waiting
}

// Accept lets the card take n more slots of the request send queue. n is at most Issuable(0).
func (c *Card) Accept(n int) {
	c.trigger.accepted = (c.trigger.accepted + uint32(n)) & c.send[Request].mask
}

// NotesRead takes n entries of the notification ring back from a process that issues by triggers.
// The caller has checked that so many are unread.
func (c *Card) NotesRead(n uint32) { c.trigger.notes += n }

// NotePointers puts the pointers into the ring as entry n. waiting is how many slots are accepted
// and not yet counted by Accept.
func (c *Card) NotePointers(n uint32, waiting int) {
	e, q := c.memory.note(n), &c.send[Request]
	clear(e)
	e[0], e[1] = (c.trigger.accepted+uint32(waiting))&q.mask, q.stored
	e[4], e[5], e[noteKindWord] = n, c.trigger.notes, uint32(NotePointers)
	c.noted(n)
}

// haltTrigger stores the pointers that only the card has, for the next latch, on this card or on
// another one.
func (c *Card) haltTrigger() {
	if c.trigger.on && c.send[Request].slots != nil {
		atomic.StoreUint32(&c.page[int(RQSQHead)*registerWords], c.trigger.accepted)
		atomic.StoreUint32(&c.page[notesTail], c.trigger.notes)
	}
}
