package rats

// This file implements the Initial Request Response protocol (HPL-95-86, section 3.2): a request of
// one packet to a process that has reserved nothing for its sender, and the answer.
//
// The server opens, before anything else, a key that others can compute (KeyOf). So its key slot
// has number 0, and its areas, the entries, are numbered from 0. The number of a node selects the
// entry for its requests; so a node that floods the server fills only that entry. A request that
// finds its entry full is not lost silently, as in the paper. It comes back
// (arctic.ReasonNoBuffer), and is sent again after a time that doubles. A request may arrive twice
// when cards begin a new epoch. The server recognises it by its key and number, and answers it
// again without showing it to the program.
//
// At most as many requests to a node are in flight as an entry there holds. The others wait here in
// the order in which they were made. More would only come back. If many come back at once, the card
// cannot say which (funi.Interface.ReturnsLost), so everything that the process has open to the
// node would be suspect.
//
// Words of a request: kind and number; key of the inquiry, 2 words; its area; up to 7 words of
// content. Of an answer: kind and number, content.

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	// Entries is how many entries a server has, EntryCredit how many unread requests each holds.
	Entries     = 16
	EntryCredit = 4
	// MaxRequestWords and MaxAnswerWords are the largest numbers of words of content.
	MaxRequestWords = arctic.MaxRemoteMetadata - requestWords
	MaxAnswerWords  = arctic.MaxRemoteMetadata - 1

	requestWords = 4
	kindRequest  = 8
	kindAnswer   = 9
	kindBusy     = 10 // instead of an answer: ask again
	maxRequests  = 256
	answered     = 256 // how many answers a server remembers

	// firstRetry and lastRetry bound the time until a request that came back is sent again, in ns.
	firstRetry = 50_000
	lastRetry  = 50_000_000
	// firstAnswer and lastAnswer bound the time until an unanswered request is sent again, in
	// nanoseconds; the answer may have been returned to the server.
	firstAnswer = 100_000_000
	lastAnswer  = 1_000_000_000
)

// KeyOf returns the key of a server from 32 bytes or more, such as an HMAC. At least the first 8
// bytes must be a secret of those who may ask.
func KeyOf(secret []byte) Key { return Key(binary.LittleEndian.Uint64(secret)) &^ 0xffff }

// Server takes initial requests. It belongs to the goroutine of its manager.
type Server struct {
	end
	requests []Request
	done     [answered]answer
	next     int // of done
}

// Request is an initial request.
type Request struct {
	From    uint16 // the source node; the cards guarantee it
	Words   []uint32
	inquiry Ticket
	number  uint32
}

type answer struct {
	key    uint64
	number uint32
	words  []uint32 // nil: the program has the request and has not answered it yet
	to     Ticket
}

// Serve opens the server of a process. It must come before everything else that the process opens,
// or it returns ErrFull.
func (m *Manager) Serve(k Key) (*Server, error) {
	if n, _ := m.keySlots.next(); n != 0 || m.keySlots.n != len(m.keys) || m.areas.n != len(m.owners) ||
		!m.room(Entries, Entries*EntryCredit) {
		return nil, fmt.Errorf("opening a server when something else was opened, or without room for %d areas: %w",
			Entries, ErrFull)
	}
	s := &Server{}
	if err := m.add(&s.instance, s); err != nil {
		return nil, err
	}
	address, _ := m.segments.Address(m.nothing, funi.Keyed)
	if _, ok := m.commit(s.cookie(), func(slot *funi.Slot, cookie uint32) {
		slot.SetOpenKeySlot(uint64(k), address, uint32(len(m.nothing)), cookie)
	}); !ok {
		return nil, ErrFull
	}
	m.opened(k)
	s.key = k
	for range Entries {
		a, err := s.open(k, EntryCredit, true)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.areas = append(s.areas, a)
	}
	return s, nil
}

// Recv returns the oldest request, or false if there is none.
func (s *Server) Recv() (Request, bool) {
	if len(s.requests) == 0 {
		return Request{}, false
	}
	r := s.requests[0]
	s.requests = s.requests[1:]
	*s.remembered(&r) = answer{key: r.inquiry.Key, number: r.number, to: r.inquiry}
	return r, true
}

// SendReply answers a request with up to MaxAnswerWords words. false: the send queue is full.
func (s *Server) SendReply(r *Request, words ...uint32) bool {
	a := answer{key: r.inquiry.Key, number: r.number,
		words: append([]uint32{kindAnswer<<kindShift | r.number}, words...), to: r.inquiry}
	if !s.send(a.to, 0, nil, a.words, true) {
		return false
	}
	*s.remembered(r) = a
	return true
}

// remembered returns the record of the answer to a request, or the oldest record, to be reused.
func (s *Server) remembered(r *Request) *answer {
	for i := range s.done {
		if a := &s.done[i]; a.key == r.inquiry.Key && a.number == r.number && a.to == r.inquiry {
			return a
		}
	}
	a := &s.done[s.next]
	s.next = (s.next + 1) % answered
	return a
}

// Close closes the server.
func (s *Server) Close() {
	s.closing = true
	s.m.await(&s.instance)
}

func (s *Server) arrived(n *funi.Notification) {
	w := n.Metadata[:n.Words]
	if len(w) < requestWords || w[0]>>kindShift != kindRequest || w[3] > 0xffff || s.closing {
		return
	}
	r := Request{From: n.Source, number: w[0] & (1<<kindShift - 1), Words: slices.Clone(w[requestWords:]),
		inquiry: Ticket{Node: n.Source, Area: uint16(w[3]), Key: uint64(w[1]) | uint64(w[2])<<32}}
	for i := range s.done {
		if a := &s.done[i]; a.key == r.inquiry.Key && a.number == r.number && a.to == r.inquiry {
			if a.words != nil {
				s.send(a.to, 0, nil, a.words, true) // without room now it asks again
			}
			return
		}
	}
	for i := range s.requests {
		if q := &s.requests[i]; q.inquiry == r.inquiry && q.number == r.number {
			return
		}
	}
	if len(s.requests) == maxRequests {
		s.send(r.inquiry, 0, nil, []uint32{kindBusy<<kindShift | r.number}, true)
		return
	}
	s.requests = append(s.requests, r)
	s.m.tell(&s.instance)
}

// returned handles a returned answer: the asking process has gone.
func (s *Server) returned(r funi.Returned) {
	if r.Reason == arctic.ReasonNotOpened {
		s.fail(fmt.Errorf("opening a server's key slot or area: %w", ErrFull))
	}
}

// suspect does nothing, since the asking process asks again.
func (s *Server) suspect(*funi.Lost) {}

func (s *Server) turn() bool { return s.finish(nil) }

// Inquiry is a request in flight. It belongs to the goroutine of its manager.
type Inquiry struct {
	end
	words    []uint32
	unsent   bool
	queued   bool // it is in askers of its lane
	under    bool // it is counted in asking of its lane
	back     bool // it was returned, for want of room there
	again    int64
	pause    int64
	patience int64
	late     int64 // when to send it again without an answer; 0: not known yet
	answer   []uint32
	answered bool
}

// Ask sends a request of up to MaxRequestWords words to the server of a node with the given key.
// Errors are ErrFull and ErrTooLong.
func (m *Manager) Ask(node uint16, server Key, words ...uint32) (*Inquiry, error) {
	if len(words) > MaxRequestWords {
		return nil, fmt.Errorf("asking node %d with %d words: %w", node, len(words), ErrTooLong)
	}
	q := &Inquiry{unsent: true, pause: firstRetry, patience: firstAnswer}
	if err := q.begin(m, q, m.nothing, 1, 0); err != nil {
		return nil, fmt.Errorf("asking node %d: %w", node, err)
	}
	m.asked++
	q.peer = Ticket{Node: node, Key: uint64(server), Area: m.node % Entries}
	q.words = append([]uint32{kindRequest<<kindShift | m.asked&(1<<kindShift-1), uint32(q.key), uint32(q.key >> 32),
		uint32(q.areas[0])}, words...)
	m.await(&q.instance)
	return q, nil
}

// RecvReply returns the answer, or false while there is none. now is the time in nanoseconds of any
// clock. It serves to send a request again that found no room or was not answered. Call RecvReply
// again when now passes at. The error says why there will be no answer.
func (q *Inquiry) RecvReply(now int64) (words []uint32, ok bool, at int64, err error) {
	switch {
	case q.err != nil:
		return nil, false, 0, q.err
	case q.answered:
		return q.answer, true, 0, nil
	case q.back && q.again == 0:
		q.again = now + q.pause
		q.pause = min(2*q.pause, lastRetry)
	case q.back && now >= q.again || q.late != 0 && now >= q.late:
		q.back, q.again, q.late, q.unsent = false, 0, 0, true
		q.m.await(&q.instance)
	}
	if q.back {
		return nil, false, q.again, nil
	}
	if q.late == 0 {
		q.late = now + q.patience
		q.patience = min(2*q.patience, lastAnswer)
	}
	return nil, false, q.late, nil
}

// Close ends the inquiry; a later answer is discarded.
func (q *Inquiry) Close() {
	if !q.closing {
		q.closing = true
		q.over()
		q.m.await(&q.instance)
	}
}

// mayAsk reports whether the request may be sent now. If not, it is sent later.
func (q *Inquiry) mayAsk() bool {
	l := q.m.laneTo(q.peer.Node)
	if q.under || q.queued {
		return q.under
	}
	if l.asking == EntryCredit {
		q.queued = true
		l.askers = append(l.askers, q)
		return false
	}
	q.under = true
	l.asking++
	return true
}

// over lets the next request go, because this one was answered, was returned, or is given up.
func (q *Inquiry) over() {
	l := q.m.laneTo(q.peer.Node)
	if q.queued {
		q.queued = false
		l.askers = slices.DeleteFunc(l.askers, func(x *Inquiry) bool { return x == q })
	}
	if !q.under {
		return
	}
	q.under = false
	if l.asking--; len(l.askers) > 0 {
		next := l.askers[0]
		l.askers = l.askers[1:]
		next.queued, next.under = false, true
		l.asking++
		q.m.await(&next.instance)
	}
}

// goesBack records that the request was returned and must be sent again.
func (q *Inquiry) goesBack() {
	q.back = true
	q.over()
	q.m.tell(&q.instance)
}

func (q *Inquiry) arrived(n *funi.Notification) {
	w := n.Metadata[:n.Words]
	if n.Source != q.peer.Node || len(w) == 0 || (w[0]^q.words[0])<<(32-kindShift) != 0 || q.answered {
		return
	}
	switch w[0] >> kindShift {
	case kindAnswer:
		q.answer, q.answered = slices.Clone(w[1:]), true
		q.over()
		q.m.tell(&q.instance)
	case kindBusy:
		q.goesBack()
	}
}

func (q *Inquiry) suspect(l *funi.Lost) {
	if l.To(q.peer.Node) && !q.answered && !q.unsent {
		q.goesBack()
	}
}

func (q *Inquiry) returned(r funi.Returned) {
	switch r.Reason {
	case arctic.ReasonNoBuffer, arctic.ReasonQueueFull, arctic.ReasonSwitching, arctic.ReasonResynchronised:
		q.goesBack()
	default:
		q.over()
		q.end.returned(r)
	}
}

func (q *Inquiry) turn() bool {
	if q.unsent && !q.closing && q.err == nil && q.mayAsk() {
		if !q.send(q.peer, 0, nil, q.words, true) {
			return false
		}
		q.unsent = false
	}
	return q.finish(nil)
}
