package chaos

// This file has the oracle, which knows the fate of every message.

import (
	"fmt"
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// message is the record of one message; its index in oracle.messages plus one is its
// number, which travels as its first payload word.
type message struct {
	from, to   int32  // members; to is nobody for a message to a node that does not exist
	fromDeaths uint16 // how often they had died when it was sent
	toDeaths   uint16
	toAttached uint16      // and attached
	toMoved    uint16      // and moved
	job, toJob uint32      // of sender and receiver, when it was sent
	header     funi.Header // as sent
	arrives    funi.Header // as received
	level      funi.Level
	delivered  bool
	reported   bool
	reason     arctic.Reason // with reported: the last
	transfer   int32         // its index in oracle.transfers plus one; 0: a plain message
}

// transfer is the record of a message that transfers memory, in addition to that of the message.
// Its number travels as its argument.
type transfer struct {
	owner   int32  // the member whose memory it is for
	address uint32 // there; 0: its queue
	words   int
	refused arctic.Reason // why it must come back; 0: it may arrive
}

// nobody is the receiver of a message to a node that does not exist.
const nobody = -1

// oracle records what was sent and checks what arrives. It counts in the result.
type oracle struct {
	// excused has the reasons for which messages may come back because greetings are forged or
	// repeated
	excused   []arctic.Reason
	ghosts    *ghosts // nil: there are none
	seed      uint64
	messages  []message
	transfers []transfer
	members   []*member
	result    *Result
	now       func() int64
	progress  int64 // when something was last sent, delivered or reported
	probes    []int // has the places where the messages of the two rounds of probes begin
}

func (r *run) lost(format string, args ...any) { r.oracle.fail(&r.result.Lost, format, args...) }
func (r *run) duplicated(format string, args ...any) {
	r.oracle.fail(&r.result.Duplicated, format, args...)
}
func (r *run) misdelivered(format string, args ...any) {
	r.oracle.fail(&r.result.Misdelivered, format, args...)
}
func (r *run) damaged(format string, args ...any) { r.oracle.fail(&r.result.Damaged, format, args...) }
func (r *run) stuck(format string, args ...any)   { r.oracle.fail(&r.result.Stuck, format, args...) }

// fail counts a broken promise, and keeps the first ones in words.
func (o *oracle) fail(count *int, format string, args ...any) {
	*count++
	if len(o.result.Failures) < 5 {
		o.result.Failures = append(o.result.Failures, fmt.Sprintf("at %d ns: ", o.now())+fmt.Sprintf(format, args...))
	}
}

func (o *oracle) word(number uint32, k int) uint32 {
	x := o.seed ^ uint64(number)<<32 ^ uint64(k)*0x9e3779b97f4a7c15
	x = (x ^ x>>31) * 0xbf58476d1ce4e5b9
	return uint32(x >> 32)
}

// sends composes the next message in the slot and records it; the caller commits it. It has the
// given number of words, at least one.
func (o *oracle) sends(s *funi.Slot, from *member, to int32, node uint16, l funi.Level, typ uint16, words int) {
	number := o.next()
	h := funi.NewHeader(node, typ, words)
	s.SetHeader(h)
	s[funi.PayloadWord] = number
	for k := 1; k < words; k++ {
		s[funi.PayloadWord+k] = o.word(number, k)
	}
	o.note(message{from: int32(from.number), to: to, header: h, arrives: h, level: l})
}

// moves records the transfer that is composed in the slot, with the next number as its argument.
func (o *oracle) moves(s *funi.Slot, from *member, to int32, l funi.Level, t transfer) {
	o.transfers = append(o.transfers, t)
	h := s.Header()
	m := message{from: int32(from.number), to: to, header: h, arrives: h, level: l, transfer: int32(len(o.transfers))}
	if t.address == 0 {
		m.arrives = funi.NewHeader(h.Node(), h.Type(), 1+t.words)
	}
	if t.refused != arctic.ReasonNone {
		m.to = nobody
	}
	o.note(m)
}

// next returns the number of the next message.
func (o *oracle) next() uint32 { return uint32(len(o.messages) + 1) }

func (o *oracle) note(m message) {
	o.progress = o.now()
	m.fromDeaths, m.job = o.members[m.from].deaths, o.members[m.from].job
	if to := o.receiver(&m); to != nobody {
		m.toJob = o.members[to].job
	}
	if m.to != nobody {
		m.toDeaths, m.toAttached, m.toMoved = o.members[m.to].deaths, o.members[m.to].attached, o.members[m.to].moved
	}
	o.messages = append(o.messages, m)
}

// receiver returns the member that the message is for, even if the message must come back, or
// nobody.
func (o *oracle) receiver(m *message) int32 {
	if m.transfer != 0 {
		return o.transfers[m.transfer-1].owner
	}
	return m.to
}

// parted reports whether sender and receiver of the message were, or are, of different jobs.
// Numbers of jobs only grow.
func (o *oracle) parted(m *message) bool {
	to := o.receiver(m)
	return to != nobody && (m.toJob != m.job || o.members[to].job != m.job)
}

// arrived checks a message that member at found in its receive queue of level l. It
// returns the record, or nil if no such message was sent.
func (o *oracle) arrived(at *member, l funi.Level, s *funi.Slot) *message {
	r, h := o.result, s.Header()
	o.progress = o.now()
	number := s[funi.PayloadWord]
	if h.Transfer() {
		number = s[funi.ArgumentWord]
	}
	if h.Length() == 0 && !h.Transfer() || number == 0 || int(number) > len(o.messages) {
		o.fail(&r.Damaged, "member %d got a message that nobody sent: header %#x, first word %#x", at.number, h, number)
		return nil
	}
	m := &o.messages[number-1]
	if m.to != int32(at.number) || o.members[m.from].node != s.Source() {
		o.fail(&r.Misdelivered, "message %d from member %d for member %d arrived at member %d, from node %d", number,
			m.from, m.to, at.number, s.Source())
		return nil
	}
	if m.job != at.job {
		o.fail(&r.Misdelivered, "message %d from member %d in job %d arrived at member %d in job %d", number, m.from,
			m.job, at.number, at.job)
	}
	if h != m.arrives || l != m.level {
		o.fail(&r.Damaged, "message %d sent as %#x at level %v arrived as %#x at level %v", number,
			m.header, m.level, h, l)
	}
	for k := 1; k < h.Length() && !h.Transfer(); k++ {
		if s[funi.PayloadWord+k] != o.word(number, k) {
			o.fail(&r.Damaged, "message %d arrived with another word %d", number, k)
			break
		}
	}
	if m.delivered {
		o.fail(&r.Duplicated, "message %d from member %d arrived at member %d again", number, m.from, at.number)
	} else if h.Transfer() && h == m.arrives {
		t := &o.transfers[m.transfer-1]
		if n := s.Notice(); n.Address != t.address || n.Words != t.words || s[funi.SourceAddressWord] != 0 {
			o.fail(&r.Damaged, "transfer %d of %d words to %#x is noticed as %+v", number, t.words, t.address, n)
		}
		o.moved(at, number, t)
	}
	m.delivered = true
	return m
}

// returned checks a message that came back to member at.
func (o *oracle) returned(at *member, b funi.Returned) {
	r := o.result
	o.progress = o.now()
	if b.Word == 0 || int(b.Word) > len(o.messages) {
		o.fail(&r.Damaged, "member %d got back a message that nobody sent: %+v", at.number, b)
		return
	}
	m := &o.messages[b.Word-1]
	switch {
	case m.from != int32(at.number) || m.fromDeaths != at.deaths:
		o.fail(&r.Misdelivered, "message %d from member %d came back to member %d", b.Word, m.from, at.number)
	case m.header != b.Header || m.level != b.Level:
		o.fail(&r.Damaged, "message %d sent as %#x at level %v came back as %+v", b.Word, m.header, m.level, b)
	case m.reported:
		o.fail(&r.Duplicated, "message %d from member %d came back again, %v", b.Word, m.from, b.Reason)
	case b.Reason == arctic.ReasonJob && o.parted(m) &&
		(o.refusal(m) == arctic.ReasonNone || o.refusal(m) == arctic.ReasonDestination):
		r.parted++
	case !m.mayFail(b.Reason, o.refusal(m)) && !slices.Contains(o.excused, b.Reason) &&
		(b.Reason != arctic.ReasonReplaced || !o.replaced(m)) &&
		(b.Reason != arctic.ReasonResynchronised || !o.waits(m) && !o.haunted(m)):
		o.fail(&r.Damaged,
			"message %d from member %d to member %d came back because of %v; it must be refused because of %v", b.Word,
			m.from, m.to, b.Reason, o.refusal(m))
	}
	m.reported, m.reason = true, b.Reason
}

// refusal returns why the message must be refused, or ReasonNone.
func (o *oracle) refusal(m *message) arctic.Reason {
	if m.transfer == 0 {
		return arctic.ReasonNone
	}
	return o.transfers[m.transfer-1].refused
}

// replaced reports whether the message is a transfer of many packets whose receiver has been
// attached, or has moved, since it was sent. Only then can some of it have come to another process.
func (o *oracle) replaced(m *message) bool {
	return m.transfer != 0 && m.to != nobody && o.transfers[m.transfer-1].words > arctic.MaxSingleWords &&
		(m.toAttached != o.members[m.to].attached || m.toMoved != o.members[m.to].moved)
}

// waits reports whether the message is a transfer of many packets. Such a transfer may already have
// begun when its two cards lost each other and began a new epoch, while one of them had not heard
// of the last epoch. Other messages have nothing in flight then.
func (o *oracle) waits(m *message) bool {
	return m.transfer != 0 && o.transfers[m.transfer-1].words > arctic.MaxSingleWords
}

// haunted reports whether a card of the sender or the receiver has just heard an ended life.
func (o *oracle) haunted(m *message) bool {
	to := o.receiver(m)
	return o.ghosts.haunt(o.members[m.from].card) || to != nobody && o.ghosts.haunt(o.members[to].card)
}

// mayFail reports whether the message may come back for the given reason. refused is the reason for
// which it must be refused, if there is one.
func (m *message) mayFail(reason, refused arctic.Reason) bool {
	switch reason {
	case refused:
		return true
	case arctic.ReasonNoRoute:
		return m.to == nobody && refused == arctic.ReasonNone
	case arctic.ReasonNoContext, arctic.ReasonSilent, arctic.ReasonRestarted, arctic.ReasonDeparted:
		// which only the receiver knows
		return refused == arctic.ReasonNone || refused == arctic.ReasonDestination
	}
	return false
}

// account counts the fates of all messages once nothing can happen any more. By counting it finds
// the returns for which the return ring had no room.
func (o *oracle) account() {
	r := o.result
	r.Messages = len(o.messages)
	if len(o.probes) > 0 {
		r.Messages = o.probes[0]
	}
	o.remember()
	missing := make([]int, len(o.members))
	counts := make([]int, len(o.members)) // of those, the messages that are no probes
	first := make([]int, len(o.members))
	for i := range o.messages {
		m := &o.messages[i]
		if i < r.Messages {
			if m.delivered {
				r.Delivered++
			}
			if m.reported {
				r.ReportedFailed++
			}
			if m.delivered && m.reported {
				r.Both++
			}
			if m.to == nobody {
				r.strays++
			}
			if m.transfer != 0 {
				r.Transfers++
			}
		} else if len(o.probes) == 2 && i >= o.probes[1] && m.reported {
			o.fail(&r.Stuck, "message %d from member %d to member %d failed on a fair and silent network: %v", i+1,
				m.from, m.to, m.reason)
		}
		if m.delivered || m.reported {
			continue
		}
		if m.fromDeaths != o.members[m.from].deaths || m.to != nobody && m.toDeaths != o.members[m.to].deaths {
			if i < r.Messages {
				r.Ended++
			}
			continue
		}
		if missing[m.from]++; missing[m.from] == 1 {
			first[m.from] = i
		}
		if i < r.Messages {
			counts[m.from]++
		}
	}
	for i, n := range missing {
		counted := int(o.members[i].returnsLost())
		r.ReportedFailed += min(counts[i], counted)
		if n > counted {
			m := &o.messages[first[i]]
			o.fail(&r.Lost,
				"member %d misses %d messages, and the card counted %d of them; the first is %d to member %d, %v, header %#x", i, n, counted, first[i]+1, m.to, m.level, m.header)
			r.Lost += n - counted - 1
		}
	}
}

// indices checks that no queue index of the process is outside its queue.
func (o *oracle) indices(m *member) {
	page := m.process.Memory().Page
	mask := page.Load(funi.QMask)
	for r := funi.RPSQHead; r <= funi.RQRQTail; r++ {
		if v := page.Load(r); v > mask {
			o.fail(&o.result.Damaged, "register %d of member %d is %#x with queues of %d slots", r, m.number, v, mask+1)
		}
	}
}
