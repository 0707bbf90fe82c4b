package hello

// This file proves the transmit queues of a port. When the port has been opened, questions leave on
// each queue, to a peer that answers. Where frames travel in datagrams, the questions take
// different ways (source ports). So they reach the peer on many queues, and its answers reach this
// host on many. An answer proves the queue on which its question left. A queue is left out when no
// question on it is answered, while questions on others are; frames then leave on the others. Now
// and then a question still leaves on that queue, and the first answer takes the queue in again.
// Receive queues are proven by the frames that arrive (package afxdp), because only the NIC knows
// to which of them it steers frames.

const (
	// proofRounds is the number of questions on each queue, each with its tries. proofGap is the
	// time between two questions. It is long enough for the peer to answer all of them, even if
	// this card is a stranger to it.
	proofRounds = 4
	proofGap    = second / 25
	retryGap    = 2 * second // the time between two questions on queues that were left out
	mostQueues  = 64         // the most queues that are proven
)

type proof struct {
	peer     *peer // that was last heard on the port; it may be gone
	rounds   int   // still to come
	queue    int   // whose turn is next
	next     int64
	under    int // questions that wait
	answered [mostQueues]uint16
	lost     [mostQueues]uint16 // since the last answer
	final    int                // answers to the last round: the peer was there until then
	judged   bool
	out      [mostQueues]bool // left out
	outs     int
	turn     int // of questions by turns
}

// QueueNews says that a queue was left out, or taken in again.
type QueueNews struct {
	Port, Queue int
	Left        bool
	Asked       int // questions without an answer, if the queue was left out
}

// Prove begins to prove the queues of a port, as soon as there is a peer that answers. The opener
// of the port calls it, because the port may have other queues than before.
func (s *Station) Prove(port int) {
	s.Due = 0
	p := &s.proofs[port]
	*p = proof{peer: p.peer, rounds: proofRounds, turn: p.turn}
	for i := range s.questions { // those on the queues that the port had before
		if q := &s.questions[i]; q.open && q.why == proves && q.port == port {
			s.close(q)
		}
	}
}

// queueCount returns how many queues of a port are proven.
func (s *Station) queueCount(port int) int {
	if q := s.c.Ports[port].queues; q != nil {
		return min(q.QueueCount(), mostQueues)
	}
	return 0
}

// nextQueue returns the queue of the next question by turns.
func (s *Station) nextQueue(port int) int {
	p := &s.proofs[port]
	p.turn++
	if n := s.queueCount(port); n > 0 {
		return p.turn % n
	}
	return 0
}

// prove asks on the next queue of each port that is not proven, and returns when it next has to.
func (s *Station) prove(now int64) (next int64) {
	next = Never
	for port := range s.proofs {
		p := &s.proofs[port]
		n := s.queueCount(port)
		if p.rounds == 0 && p.outs == 0 || n < 2 || p.peer == nil || p.peer.gone || p.peer.Silent > 0 {
			continue // an answer of a peer will cause the next step
		}
		if p.rounds == 0 {
			if p.next <= now {
				p.next = now + retryGap
				for range n {
					if p.queue = (p.queue + 1) % n; p.out[p.queue] {
						break
					}
				}
				if s.ask(now, proves, port, p.queue, p.peer.Address, p.peer.Card) != nil {
					p.under++
				}
			}
			next = min(next, p.next)
			continue
		}
		if p.next <= now {
			p.next = now + proofGap
			if q := s.ask(now, proves, port, p.queue, p.peer.Address, p.peer.Card); q != nil {
				q.final = p.rounds == 1
				p.under++
				if p.queue++; p.queue >= n {
					p.queue = 0
					p.rounds--
				}
			}
		}
		if p.rounds > 0 {
			next = min(next, p.next)
		}
	}
	return next
}

func (s *Station) proven(q *question) {
	queues, p := s.c.Ports[q.port].queues, &s.proofs[q.port]
	if queues == nil || q.queue >= mostQueues {
		return
	}
	queues.Answered(q.queue)
	if p.out[q.queue] {
		p.out[q.queue] = false
		p.outs--
	}
	if queues.TakeIn(q.queue) {
		s.queueNews(QueueNews{Port: q.port, Queue: q.queue})
	}
	p.answered[q.queue]++
	p.lost[q.queue] = 0
	if q.why == proves {
		if q.final {
			p.final++
		}
		s.judgeQueues(q.port)
	}
}

func (s *Station) unproven(q *question) {
	s.proofs[q.port].lost[q.queue]++
	s.judgeQueues(q.port)
}

// judgeQueues counts a question of a proof as ended. When all have ended, it leaves out the queues
// that were not proven.
func (s *Station) judgeQueues(port int) {
	p := &s.proofs[port]
	if p.under--; p.under > 0 || p.rounds > 0 || p.judged {
		return
	}
	p.judged = true
	queues, n := s.c.Ports[port].queues, s.queueCount(port)
	proven := 0
	for _, answers := range p.answered[:n] {
		if answers >= proofRounds-1 {
			proven++
		}
	}
	if proven == 0 || p.final == 0 {
		return // the peer is gone, not the queues
	}
	for queue, lost := range p.lost[:n] {
		if lost >= proofRounds && p.answered[queue] == 0 && queues.LeaveOut(queue) {
			s.queueNews(QueueNews{port, queue, true, int(lost)})
			p.out[queue] = true
			p.outs++
		}
	}
}

// queueNews keeps news of a queue, up to a bound.
func (s *Station) queueNews(n QueueNews) {
	if len(s.left) < 2*mostQueues {
		s.left = append(s.left, n)
	}
}

// TakeQueueNews returns the queues that were left out or taken in since the last call.
func (s *Station) TakeQueueNews() []QueueNews {
	all := s.left
	s.left = nil
	return all
}
