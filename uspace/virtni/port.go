package virtni

// This file has the Port: a context whose process issues by triggers.

import (
	"errors"
	"fmt"
	"io"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

// Status is a card's answer to a trigger (Froening's thesis, section 4.2.7, table 4.4).
type Status = funi.TriggerStatus

// Pointers are the card's pointers of a port (section 4.2.5, status notification).
type Pointers = funi.Pointers

// Port is one VPID: a work queue, a notification queue and a trigger line that belong to a process.
// See doc.go.
type Port struct {
	iface *funi.Interface
	end   *rma.Endpoint
	drive func() error

	composed     uint32        // instructions
	instructions []instruction // by ID of the operation, modulo how many there are
	owed         int           // of those, the ones whose notifications were not taken
	inbox        []Notification
	first        int      // of inbox
	pointers     Pointers // the latest
	told         bool     // pointers came since they were asked for
	credit       int      // that others were ever given
	kept         int      // as many read notifications are given back at once
	receiving    receiving
}

// Open makes a port of each interface, whose process has committed nothing that is still unsent.
// From then on the process issues by triggers. Capabilities of windows are drawn from random, which
// is crypto/rand's Reader except in virtual time. drive lets the card run, and returns an error
// when waits must end. The ports belong to one goroutine, or to as many as drive can be called
// from. Errors are those of rma.New and funi.Interface.Resize.
func Open(random io.Reader, drive func() error, interfaces ...*funi.Interface) ([]*Port, error) {
	var ports []*Port
	for _, i := range interfaces {
		p, err := open(i, random, drive)
		if err != nil {
			return nil, fmt.Errorf("opening port %d of %d: %w", len(ports), len(interfaces), err)
		}
		ports = append(ports, p)
	}
	return ports, nil
}

func open(i *funi.Interface, random io.Reader, drive func() error) (p *Port, err error) {
	p = &Port{iface: i, drive: drive}
	if p.end, err = rma.New(i, random, p.step); err != nil {
		return nil, err
	}
	p.end.Entry, p.end.Held = p.entry, func() int { return len(p.inbox) - p.first }
	p.instructions = make([]instruction, min(i.Remote().Notifications, funi.MaxRequests))
	p.kept = max(i.Remote().Notifications/4, 1)
	return p, i.IssueByTrigger(drive)
}

// Use tells the port of a segment that the process has registered with its card. Errors are those
// of rma.Endpoint.Use.
func (p *Port) Use(s funi.Segment) error { return p.end.Use(s) }

// Unissued returns how many instructions were composed and not issued.
func (p *Port) Unissued() int { return p.iface.Unissued() }

// Issue issues the next n composed instructions, 1 to funi.MaxIssue, and waits for the card's
// answer. It returns how many of them the card has accepted. With funi.TriggerFull or
// funi.TriggerPartial the others can be issued later. The error is one of drive: then it is not
// known how many were accepted, but Unissued knows once the card has answered.
func (p *Port) Issue(n int) (accepted int, s Status, err error) {
	if _, _, err := p.answer(); err != nil {
		return 0, 0, err
	}
	if n > p.iface.Unissued() {
		return 0, funi.TriggerInvalid, nil // the card would take slots that hold nothing
	}
	return p.trigger(funi.TriggerIssue, uint32(n))
}

// trigger stores a trigger when the last one is answered, and waits for the answer.
func (p *Port) trigger(c funi.TriggerCommand, parameter uint32) (count int, s Status, err error) {
	if _, _, err = p.answer(); err != nil {
		return 0, 0, err
	}
	p.iface.Trigger(c, parameter)
	return p.answer()
}

// answer waits for the answer to the last trigger.
func (p *Port) answer() (count int, s Status, err error) {
	for {
		if count, s, ok := p.answered(); ok {
			return count, s, nil
		}
		if err := p.drive(); err != nil {
			return 0, 0, fmt.Errorf("waiting for the card's answer to a trigger: %w", err)
		}
	}
}

// answered returns the answer to the last trigger, or false.
func (p *Port) answered() (count int, s Status, ok bool) {
	if count, s, ok = p.iface.TriggerAnswer(); ok && p.receiving.giving > 0 {
		if s != funi.TriggerDone { // the queues are halted
			p.receiving.units += p.receiving.giving
		}
		p.receiving.giving = 0
	}
	return count, s, ok
}

// step lets the card run, for a call that waits. It issues what was composed, or else gives back
// room of the receive ring, or else the notifications that were read.
func (p *Port) step() error {
	if _, _, ok := p.answered(); ok {
		if n := p.iface.Unissued(); n > 0 {
			p.iface.Trigger(funi.TriggerIssue, uint32(min(n, funi.MaxIssue)))
		} else if !p.giveUnits() && p.iface.Ungiven() >= p.kept {
			p.iface.GiveNotes()
		}
	}
	return p.drive()
}

// gives notes credit that others get. Notifications that were read go back several in one trigger.
// They go back before they are a quarter of any credit, and of what is left of the ring.
func (p *Port) gives(credit int) {
	if credit > 0 {
		p.credit += credit
		p.kept = max(min(p.kept, credit/4, (p.iface.Remote().Notifications-p.credit)/4), 1)
	}
}

// Drive issues what was composed, or else gives back the notifications that were read, and lets the
// card run once. A program that looks for notifications in a loop of its own calls it there. The
// error is one of drive.
func (p *Port) Drive() error { return p.step() }

// wait lets the card run once, and reads what it reports.
func (p *Port) wait() error {
	if err := p.step(); err != nil {
		return err
	}
	p.end.Poll()
	return nil
}

// ErrPointers reports that the card gives no pointers now.
var ErrPointers = errors.New("virtni: the card gives no pointers now; take notifications, or let it resume the queues")

// Pointers asks the card for its pointers of the port, and waits for them. Errors are ErrPointers,
// and those of drive.
func (p *Port) Pointers() (Pointers, error) {
	p.told = false
	for {
		_, s, err := p.trigger(funi.TriggerPointers, 0)
		if err == nil && s != funi.TriggerDone && (s != funi.TriggerFull || p.held()) {
			err = fmt.Errorf("%w: %v", ErrPointers, s)
		}
		if err != nil {
			return Pointers{}, err
		}
		if s == funi.TriggerDone {
			break
		}
		if err := p.wait(); err != nil { // it has notifications to give back first
			return Pointers{}, err
		}
	}
	for p.end.Poll(); !p.told; {
		if err := p.wait(); err != nil {
			return Pointers{}, fmt.Errorf("waiting for the card's pointers: %w", err)
		}
	}
	return p.pointers, nil
}

// held reports whether the port holds as many notifications as the ring has, so that it reads no
// more.
func (p *Port) held() bool { return len(p.inbox)-p.first >= p.iface.Remote().Notifications }

// Quiet issues what was composed and waits until all instructions are complete. It returns the
// first failure, since the last Quiet, of an instruction without an acknowledgment. Other errors
// are those of drive.
func (p *Port) Quiet() error { return p.failed(p.end.Quiet(), CommandPut) }

// Until issues what was composed and lets the card run until done returns true, as
// rma.Endpoint.Until does: done looks at memory that others write.
func (p *Port) Until(done func() bool) error { return p.end.Until(done) }
