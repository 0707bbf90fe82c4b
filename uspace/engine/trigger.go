package engine

// This file answers triggers, and is the conditional store buffer (Froening's thesis, sections
// 3.4.4 and 4.2.7; funi/trigger.go). A trigger is answered in the visit that finds it, so a process
// hears at once whether the card has taken its work, and holds the rest itself.
//
// The buffer holds contexts that have issued slots which the card has not begun to retrieve. First
// come, first served among the contexts of an account; the accounts take turns, as with all work. A
// context has one entry, to which further slots are added: they are bounded by its queue. When an
// entry's turn comes, the slots are counted as the process's and retrieved. What finds no line
// waits in its context, as any slot does, and blocks no other entry.
//
// The buffer has storeEntries entries. An account may have as many as are free (Choudhury and
// Hahne, 1998). So one account has at most half of them, and another always finds some.
// A trigger beyond that is answered with funi.TriggerFull, and costs its account what it took to
// answer.

import "github.com/funet/funet/uspace/funi"

const (
	// storeEntries is the number of entries of the conditional store buffer. The thesis does not
	// state one.
	storeEntries = 4096
	// triggerBytes is the cost of answering a trigger: 60 ns, and a cache line that a process has
	// written and one that it looks at.
	triggerBytes = 512
)

// stored is the entries of an account in the conditional store buffer, oldest first.
type stored struct {
	head, tail *Context
	n          int
}

// entry is a context's place in the conditional store buffer.
type entry struct {
	in             bool
	slots          int // accepted, and not counted yet
	previous, next *Context
}

// trigger answers the trigger of a context's process, if there is one.
func (s *scheduler) trigger(x *Context) {
	command, parameter, burst, ok := x.iface.Triggered()
	if !ok {
		return
	}
	x.works(triggerBytes)
	status, count := funi.TriggerBurst, 0
	if !burst {
		status, count = s.execute(x, command, parameter)
	}
	s.counters.Triggers++
	if status > funi.TriggerPartial {
		s.counters.TriggersRefused++
	}
	x.iface.AnswerTrigger(status, count)
	s.table.touch(x)
}

// execute carries out a trigger, and returns the answer.
func (s *scheduler) execute(x *Context, command funi.TriggerCommand, n uint32) (status funi.TriggerStatus, count int) {
	r := x.remote
	switch {
	case !x.sending || x.closing || x.halted:
		return funi.TriggerDisabled, 0
	case command == funi.TriggerIssue:
		return s.store(x, int(n))
	case command > funi.TriggerBarrier:
		return funi.TriggerInvalid, 0
	case r == nil:
		return funi.TriggerForbidden, 0
	case command == funi.TriggerReceive:
		switch {
		case r.receiver == nil || r.receiver.credit == 0:
			return funi.TriggerForbidden, 0
		case !x.giveReceive(n):
			return funi.TriggerInvalid, 0
		}
		return funi.TriggerDone, int(n)
	case command == funi.TriggerBarrier:
		return x.card.remote.reach(x, n), 0
	case command == funi.TriggerPointers:
		if !r.promise(x, 1) {
			return funi.TriggerFull, 0
		}
		r.enter(x, noteOfRequest)
		x.spends(completionBytes)
		x.iface.NotePointers(r.head-1, x.entry.slots)
		return funi.TriggerDone, 1
	}
	if n == 0 || n > r.head-r.tail {
		return funi.TriggerInvalid, 0
	}
	if n > funi.MaxNotesRead {
		status, n = funi.TriggerPartial, funi.MaxNotesRead
	}
	x.iface.NotesRead(n)
	r.read(x.iface.NotesTail())
	return status, int(n)
}

// store puts slots that a process issues into the conditional store buffer, and returns how many
// there is room for.
func (s *scheduler) store(x *Context, n int) (status funi.TriggerStatus, count int) {
	if n < 1 || n > funi.MaxIssue {
		return funi.TriggerInvalid, 0
	}
	a, e := x.account, &x.entry
	if !e.in && a.stored.n >= storeEntries-s.stored {
		return funi.TriggerFull, 0
	}
	room := x.iface.Issuable(e.slots)
	if status = funi.TriggerDone; n > room {
		status, n = funi.TriggerPartial, room
	}
	if e.slots += n; n > 0 && !e.in {
		e.in, e.previous = true, a.stored.tail
		if a.stored.tail != nil {
			a.stored.tail.entry.next = x
		} else {
			a.stored.head = x
		}
		a.stored.tail = x
		a.stored.n++
		s.stored++
	}
	return status, n
}

// unstore takes a context out of the conditional store buffer. Its slots are the card's from now
// on.
func (s *scheduler) unstore(x *Context) {
	e, list := x.entry, &x.account.stored
	x.entry = entry{}
	x.iface.Accept(e.slots)
	if e.previous != nil {
		e.previous.entry.next = e.next
	} else {
		list.head = e.next
	}
	if e.next != nil {
		e.next.entry.previous = e.previous
	} else {
		list.tail = e.previous
	}
	list.n--
	s.stored--
}

// issue retrieves what contexts of an account have issued, in the order in which they did, while
// the account has more than the given number of bytes left in this step. On a modelled machine the
// Retrieval Unit comes for it.
func (s *scheduler) issue(a *account, least int) {
	for a.stored.head != nil && a.retrieval > least {
		x := a.stored.head
		s.unstore(x)
		if s.out.model == nil {
			s.table.serving = x
			s.out.retrieve(x)
		}
	}
	if a.stored.head != nil {
		s.clock.more = true
	}
}
