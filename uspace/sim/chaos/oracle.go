package chaos

// This file is the oracle: what became of every message.

import (
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// message is the record of one message; its index in oracle.messages plus one is its
// number, which travels as its first payload word.
type message struct {
	from, to   int32  // members; to is nobody for a message that nobody may get
	fromDeaths uint16 // how often they had died when it was sent
	toDeaths   uint16
	header     funi.Header
	level      funi.Level
	delivered  bool
	reported   bool
}

// nobody is the receiver of a message to a node that does not exist.
const nobody = -1

// oracle knows what was sent and hears what arrived. Its counts go to the result.
type oracle struct {
	seed     uint64
	messages []message
	members  []*member
	result   *Result
	now      func() int64
	progress int64 // when something was last sent, delivered or reported
	// probes is where the messages of the two rounds of probes begin.
	probes []int
}

// fail notes a broken promise; the first ones in words.
func (o *oracle) fail(count *int, format string, args ...any) {
	*count++
	if len(o.result.Failures) < 5 {
		o.result.Failures = append(o.result.Failures, fmt.Sprintf("at %d ns: ", o.now())+fmt.Sprintf(format, args...))
	}
}

// word is payload word k of a message.
func (o *oracle) word(number uint32, k int) uint32 {
	x := o.seed ^ uint64(number)<<32 ^ uint64(k)*0x9e3779b97f4a7c15
	x = (x ^ x>>31) * 0xbf58476d1ce4e5b9
	return uint32(x >> 32)
}

// sends composes the next message in the slot and notes it; the caller commits it. It
// has so many words, at least one.
func (o *oracle) sends(s *funi.Slot, from *member, to int32, node uint16, l funi.Level, typ uint16, words int) {
	o.progress = o.now()
	number := uint32(len(o.messages) + 1)
	h := funi.NewHeader(node, typ, words)
	s.SetHeader(h)
	s[funi.PayloadWord] = number
	for k := 1; k < words; k++ {
		s[funi.PayloadWord+k] = o.word(number, k)
	}
	m := message{from: int32(from.number), to: to, fromDeaths: from.deaths, header: h, level: l}
	if to != nobody {
		m.toDeaths = o.members[to].deaths
	}
	o.messages = append(o.messages, m)
}

// arrived checks a message that member at found in its receive queue of level l. It
// returns the record, or nil if it is none that was sent.
func (o *oracle) arrived(at *member, l funi.Level, s *funi.Slot) *message {
	r, h := o.result, s.Header()
	o.progress = o.now()
	number := s[funi.PayloadWord]
	if h.Length() == 0 || number == 0 || int(number) > len(o.messages) {
		o.fail(&r.Damaged, "member %d got a message that nobody sent: header %#x, first word %#x", at.number, h, number)
		return nil
	}
	m := &o.messages[number-1]
	if m.to != int32(at.number) || o.members[m.from].node != s.Source() {
		o.fail(&r.Misdelivered, "message %d from member %d for member %d arrived at member %d, from node %d", number, m.from, m.to, at.number, s.Source())
		return nil
	}
	if h != m.header || l != m.level {
		o.fail(&r.Damaged, "message %d sent as %#x at level %v arrived as %#x at level %v", number, m.header, m.level, h, l)
	}
	for k := 1; k < h.Length(); k++ {
		if s[funi.PayloadWord+k] != o.word(number, k) {
			o.fail(&r.Damaged, "message %d arrived with another word %d", number, k)
			break
		}
	}
	if m.delivered {
		o.fail(&r.Duplicated, "message %d from member %d arrived at member %d again", number, m.from, at.number)
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
	}
	m.reported = true
}

// account counts what became of all messages once nothing can happen any more. What a
// full return ring could only count is found by counting.
func (o *oracle) account() {
	r := o.result
	r.Messages = len(o.messages)
	if len(o.probes) > 0 {
		r.Messages = o.probes[0]
	}
	missing := make([]int, len(o.members))
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
			if m.to == nobody {
				r.strays++
			}
		} else if len(o.probes) == 2 && i >= o.probes[1] && m.reported {
			o.fail(&r.Stuck, "message %d from member %d to member %d failed on a fair and silent network", i+1, m.from, m.to)
		}
		if m.delivered || m.reported || m.fromDeaths != o.members[m.from].deaths || m.to != nobody && m.toDeaths != o.members[m.to].deaths {
			continue
		}
		if missing[m.from]++; missing[m.from] == 1 {
			first[m.from] = i
		}
	}
	for i, n := range missing {
		counted := int(o.members[i].returnsLost())
		r.ReportedFailed += min(n, counted)
		if n > counted {
			m := &o.messages[first[i]]
			o.fail(&r.Lost, "member %d misses %d messages of which the card counted %d; the first is %d to member %d, %v, header %#x", i, n, counted, first[i]+1, m.to, m.level, m.header)
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
